"""Suites that judge one thing by many questions: a table of criteria, and their experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources import files
from pathlib import Path

import yaml

RFC9743 = "rfc9743"
BBR = "bbr-cases"
RFC8867 = "rfc8867"
RFC7928 = "rfc7928"
L4S = "l4s-coexistence"
DCTCP = "dctcp-datacentre"

TCP = {"cubic": "CUBIC", "reno": "Reno"}
"""Congestion controls that run in the judged one's place, with their names in tables."""


class Subject(StrEnum):
    """Thing that a suite judges, and that OLD is the name of."""

    CC = "congestion control"
    MEDIA = "congestion control of media"
    QUEUE = "queue discipline"


@dataclass(frozen=True)
class About:
    """Title of a suite, what its bounds are, and headings of its parts by how their sections begin."""

    title: str
    bounds: str
    parts: Mapping[str, str]
    subject: Subject = Subject.CC
    incumbents: Mapping[str, str] = field(default_factory=lambda: TCP)
    """Names of those that run in the judged one's place, with the same draws, and their names in tables."""


SUITES = {
    RFC9743: About(
        "What RFC 9743 (BCP 133) asks of a new congestion control, sections 5 to 7",
        "The RFC asks questions and has no numbers: every bound is cwndlab's own choice, open to argument.",
        {
            "5.1": "5.1 One algorithm alone",
            "5.2": "5.2 Beside others",
            "6": "6 General use",
            "7": "7 Special cases",
        },
    ),
    BBR: About(
        "The example test cases of draft-ietf-ccwg-bbr-06, appendix A",
        "The draft is of BBRv3. What it says of phases and variables is judged by events that the model tells"
        " of them, or from outside; bounds without a number in the draft are cwndlab's own.",
        {"A": "Appendix A"},
    ),
    L4S: About(
        "What documents of L4S say of flows that share a bottleneck",
        "Delays are the RFC's; of rates that are roughly equal, half is enough: cwndlab's own bound.",
        {
            "9330": "RFC 9330, the architecture",
            "9331": "RFC 9331, the requirements",
            "9332": "RFC 9332, coupled queues",
            "PAM": "Sarpkaya, Fund and Panwar, PAM 2025",
            "8290": "RFC 8290, a queue for each flow",
        },
    ),
    DCTCP: About(
        "What documents of DCTCP say of it in a data centre",
        "RFC 8257 has no numbers: bounds are the paper's, or cwndlab's own.",
        {"8257": "RFC 8257", "SIGCOMM": "Alizadeh et al., SIGCOMM 2010"},
    ),
    RFC8867: About(
        "The test cases of RFC 8867 for real-time media with a congestion control",
        "The RFC says in words what is expected: every bound is cwndlab's own choice, open to argument.",
        {"5": "5 Basic test cases", "6": "6 Other potential test cases"},
        Subject.MEDIA,
        {"scream": "SCReAM", "gcc": "GCC"},
    ),
    RFC7928: About(
        "The scenarios of RFC 7928 for active queue management",
        "The RFC asks for measurements beside tail drop and has no numbers: every bound is cwndlab's own"
        " choice, open to argument.",
        {
            "5": "5 Transport protocols",
            "6": "6 Round-trip time fairness",
            "7": "7 Burst absorption",
            "8": "8 Stability",
            "9": "9 Various traffic profiles",
            "10": "10 Several AQMs",
            "11": "11 Implementation cost",
            "12": "12 Operator control",
        },
        Subject.QUEUE,
        {"pfifo": "tail drop"},
    ),
}
"""The suites of criteria, by the names of their folders."""


@dataclass(frozen=True)
class Criterion:
    """A question of a publication, and what answers it: a bound for a metric of an experiment, or why nothing
    does.
    """

    section: str
    asks: str
    experiment: str | None = None
    """Name of the experiment, a file in the suite's folder. None where `why` says why nothing is measured."""
    flow: str | None = None
    """Flow that is looked at. None for all flows of a run together."""
    metric: str = ""
    at_least: float | None = None
    at_most: float | None = None
    of: str | None = None
    """Incumbent whose value in the same place the bound is a multiple of: `cubic`, `reno`, or the `worse` of
    all. None where the bound is a value of the metric.
    """
    slack: float = 0.0
    """Amount by which the bound is widened, in the metric's unit, for values near zero."""
    why: str = ""
    shows: str = ""
    """Series that shows it: a column of the flow's `tcp`, `samples.KIND`, or `phases`, those that BBR tells.
    Empty: no plot is drawn.
    """
    line: float | None = None
    """The bound in that series, in the unit in which it is shown."""
    incumbents: Mapping[str, str] = field(default_factory=lambda: TCP)
    """Those of the suite."""

    @property
    def factor(self) -> float:
        """The bound, or the multiple that makes it."""
        return next(bound for bound in (self.at_least, self.at_most) if bound is not None)


def command(suite: str) -> str:
    """Return the command that judges by a suite, up to what is judged."""
    return f"cwndlab compare --cc --suite {suite}"


def folder(suite: str) -> Path:
    """Return the folder with the files of a suite."""
    return Path(str(files(__package__))) / suite


def criteria(suite: str) -> list[Criterion]:
    """Return the criteria of a suite, in the order of the publication."""
    text = (folder(suite) / "table.yaml").read_text(encoding="utf-8")
    of_suite = {"incumbents": SUITES[suite].incumbents}
    rows = [row | {"section": str(row["section"])} | of_suite for row in yaml.safe_load(text)]
    return [Criterion(**row) for row in rows]


def experiments(chosen: Sequence[Criterion]) -> list[str]:
    """Return the experiments that criteria need, each once."""
    return list(dict.fromkeys(each.experiment for each in chosen if each.experiment is not None))


def text_of(suite: str, experiment: str) -> str:
    """Return the file of an experiment of a suite."""
    return (folder(suite) / f"{experiment}.yaml").read_text(encoding="utf-8")
