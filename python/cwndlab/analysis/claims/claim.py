"""A claim of a publication: what it says, what decides it, and how far off is still agreement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

_FILE = Path(str(files(__package__))) / "claims.yaml"

PUBLICATIONS: dict[str, str] = {
    "caia-140502A": "CAIA technical report 140502A (TEACUP baseline, 2014)",
    "cubic-patch": "FreeBSD wiki, test of the CUBIC patch D49540 (2025)",
    "freebsd-net": "freebsd-net, slow start and LRO (2023)",
    "virtio": "FreeBSD VirtIO tuning article (FreeBSD 9.0)",
    "bloat-devel": "bloat-devel, loadlatency (2011)",
    "l4s": "Documents of L4S: RFC 9330 to 9332, the draft of Prague, operational guidance (2020 to 2023)",
}
"""The publications, by the names the claims use."""

WRITTEN: dict[str, str] = {
    "before": "before",
    "cells-after": "before; its cells after",
    "after": "after",
}
"""Times at which a claim was committed, the first run of its suite being the mark, with the words
of a table.
"""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The values of cwndlab's metric that agree with the claim, `low` and `high` included; None is no
    limit.
    """

    low: float | None
    high: float | None

    def holds(self, value: float) -> bool:
        """Whether a metric agrees."""
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        """Format the limits in words."""
        if self.low is None:
            return f"at most {self.high:g}"
        if self.high is None:
            return f"at least {self.low:g}"
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class Trial:
    """The experiment that asks why a claim differs: one assumption is another, or single runs count."""

    assumes: str
    """The other assumption, in words; empty where single runs are looked at."""
    words: tuple[tuple[str, str], ...]
    """Words of the suite's file, and those in their place."""
    overrides: tuple[str, ...]
    """KEY=VALUE, as by `--set`: what is otherwise, and the cells that the claim needs."""
    measure: Mapping[str, Any] | None
    """Measure used instead, where the metric is what may be otherwise, or its cells have other names. None
    where the claim's own is used.
    """
    single: bool
    """Whether each run is taken by itself: is the published figure within their range?"""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim, as claims.yaml states it."""

    name: str
    publication: str
    place: str
    """Section, metric or table of the publication."""
    says: str
    """The claim in words."""
    suite: str | None
    """The built-in experiment whose runs decide it. None where the publication's own values do."""
    metric: str
    """Metric that is computed from the runs, in words."""
    measure: Mapping[str, Any]
    """Computation of the metric; see `cwndlab.analysis.claims.measures`."""
    published: float | None
    unit: str
    expected: Expectation
    written: str
    """One of WRITTEN."""
    trial: Trial | None = None
    """Experiment that was tried where the claim differs. None where none was."""


def claims() -> list[Claim]:
    """Return all claims, in the order of the file."""
    made = [_claim(entry) for entry in yaml.safe_load(_FILE.read_text(encoding="utf-8"))]
    names = [claim.name for claim in made]
    if len(set(names)) != len(names):
        raise ValueError("two claims of one name in claims.yaml")
    return made


def _claim(entry: Mapping[str, Any]) -> Claim:
    expected = entry["expect"]
    published = entry.get("published")
    if "within_pct" in expected:
        share = expected["within_pct"] / 100 * abs(entry["published"])
        expectation = Expectation(entry["published"] - share, entry["published"] + share)
    else:
        expectation = Expectation(expected.get("at_least"), expected.get("at_most"))
    written = entry.get("written", "before")
    if written not in WRITTEN:
        raise ValueError(f"claim {entry['name']}: written {written!r} is none of {', '.join(WRITTEN)}")
    return Claim(
        name=entry["name"],
        publication=entry["publication"],
        place=entry["place"],
        says=entry["says"],
        suite=entry.get("suite"),
        metric=entry["metric"],
        measure=entry["measure"],
        published=published,
        unit=entry.get("unit", ""),
        expected=expectation,
        written=written,
        trial=_trial(entry["trial"]) if "trial" in entry else None,
    )


def _trial(entry: Mapping[str, Any]) -> Trial:
    return Trial(
        assumes=entry.get("assumes", ""),
        words=tuple(entry.get("words", {}).items()),
        overrides=tuple(entry.get("set", ())),
        measure=entry.get("measure"),
        single=entry.get("single", False),
    )
