"""The reasons why claims differ: of each an experiment with another assumption, or a look at its
single runs.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import polars as pl

from cwndlab.analysis.claims.claim import Claim, Expectation, Trial
from cwndlab.analysis.claims.judge import DIFFER, Judgement
from cwndlab.analysis.claims.measures import Cells, UndecidedError, measure
from cwndlab.experiment import suites
from cwndlab.results.files import save as saved
from cwndlab.results.resultset import ResultSet

ASSUMPTION, SPREAD, OPEN = "the assumption decides", "within the spread of runs", "not found"
"""Findings of an experiment on a claim that differs."""


_FILE = Path(str(files(__package__))) / "causes.csv"


@dataclass(frozen=True, slots=True)
class Known:
    """Finding of the experiment on a claim that differs, from the last run of all suites."""

    low: float
    high: float
    """Greatest metric of cwndlab under the other assumption, or of single runs."""
    shows: str
    """One of ASSUMPTION, SPREAD and OPEN."""

    def words(self, trial: Trial) -> str:
        """Reason why the claim differs, to stand behind a colon."""
        ours = " to ".join(f"{value:.4g}" for value in dict.fromkeys((self.low, self.high)))
        if self.shows == SPREAD:
            return f"the published figure is within the spread of single runs, {ours}"
        if self.shows == ASSUMPTION:
            return f"an assumption decides: {trial.assumes}, and ours is {ours}, which agrees"
        if trial.single:
            return f"not found: single runs give {ours}"
        return f"not found: {trial.assumes}, and ours is {ours}"


def known() -> dict[str, Known]:
    """Return what is known of why claims differ, by the claim's name."""
    with _FILE.open(newline="", encoding="utf-8") as stream:
        return {
            row["claim"]: Known(float(row["low"]), float(row["high"]), row["shows"])
            for row in csv.DictReader(stream)
        }


def save(causes: Iterable[Cause]) -> None:
    """Write down what the experiments on claims showed, for `known`."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["claim", "low", "high", "shows"])
    for cause in causes:
        ends = (f"{value:.4g}" for value in (cause.values[0], cause.values[-1]))
        lines.writerow([cause.judged.claim.name, *ends, cause.shows])
    saved(_FILE, text.getvalue().encode())


@dataclass(frozen=True, slots=True)
class Changed:
    """A suite with words of its file replaced and keys set."""

    suite: str
    words: tuple[tuple[str, str], ...]
    overrides: tuple[str, ...]

    def text(self) -> str:
        """The experiment's text; ValueError if a word to be replaced is not in the suite's file."""
        made = suites.suite(self.suite).path.read_text(encoding="utf-8")
        for old, new in self.words:
            if old not in made:
                raise ValueError(f"suite {self.suite} does not say {old!r}")
            made = made.replace(old, new)
        return made


@dataclass(frozen=True, slots=True)
class Cause:
    """A claim that differs, and what its experiment showed."""

    judged: Judgement
    trial: Trial
    values: tuple[float, ...]
    """Metrics of cwndlab under the other assumption, or those of each run."""
    shows: str
    """One of ASSUMPTION, SPREAD and OPEN."""


def causes(
    judgements: Iterable[Judgement],
    at_hand: Mapping[str, ResultSet],
    carry_out: Callable[[str, Changed], ResultSet],
) -> list[Cause]:
    """Ask of each claim that differs what its trial shows, those without one left out.

    `at_hand` are the suites' own results; `carry_out` runs what differs from them, under the name of the
    first claim that needs it.
    """
    made: dict[Changed, ResultSet] = {}
    found = []
    for judged in judgements:
        trial = judged.claim.trial
        if judged.verdict != DIFFER or trial is None:
            continue
        results = at_hand.get(judged.claim.suite or "")
        if judged.claim.suite is not None and (trial.words or trial.overrides):
            changed = Changed(judged.claim.suite, trial.words, trial.overrides)
            if changed not in made:
                made[changed] = carry_out(judged.claim.name, changed)
            results = made[changed]
        found.append(_cause(judged, trial, results))
    return found


def _cause(judged: Judgement, trial: Trial, results: ResultSet | None) -> Cause:
    claim = judged.claim
    asked = replace(claim, measure=trial.measure or claim.measure)
    if trial.single:
        values = _of_single_runs(asked, results)
        return Cause(judged, trial, values, SPREAD if _within(claim, values) else OPEN)
    value, _ = measure(asked, None if results is None else Cells(results))
    return Cause(judged, trial, (value,), ASSUMPTION if claim.expected.holds(value) else OPEN)


def _of_single_runs(claim: Claim, results: ResultSet | None) -> tuple[float, ...]:
    """The metric of each repeat by itself, in ascending order."""
    if results is None:
        raise UndecidedError("no results")
    repeats: Sequence[int] = results.summary.select(pl.col("repeat").unique().sort()).to_series().to_list()
    return tuple(sorted(measure(claim, Cells(results, repeat=repeat))[0] for repeat in repeats))


def _within(claim: Claim, values: Sequence[float]) -> bool:
    """Whether the published figure, or else what would agree with the claim, meets the range of the runs."""
    wanted = claim.expected if claim.published is None else Expectation(claim.published, claim.published)
    return (wanted.low is None or wanted.low <= values[-1]) and (
        wanted.high is None or wanted.high >= values[0]
    )
