"""Why claims differ: of each an experiment with another assumption, or a look at its single runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from cwndlab import suites
from cwndlab.claims.claim import Claim, Expectation, Trial
from cwndlab.claims.judge import DIFFER, Judgement
from cwndlab.claims.measures import UndecidedError, measure
from cwndlab.results.resultset import ResultSet

ASSUMPTION, SPREAD, OPEN = "the assumption decides", "within the spread of runs", "not found"
"""What an experiment showed."""


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
    """Our metric under the other assumption, or that of each run."""
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
    value, _ = measure(asked, results, {})
    return Cause(judged, trial, (value,), ASSUMPTION if claim.expected.holds(value) else OPEN)


def _of_single_runs(claim: Claim, results: ResultSet | None) -> tuple[float, ...]:
    """The metric of each repeat by itself, in ascending order."""
    if results is None:
        raise UndecidedError("no results")
    repeats: Sequence[int] = results.summary.select(pl.col("repeat").unique().sort()).to_series().to_list()
    return tuple(sorted(measure(claim, results, {}, repeat)[0] for repeat in repeats))


def _within(claim: Claim, values: Sequence[float]) -> bool:
    """Whether the published figure, or else what would agree with the claim, meets the range of the runs."""
    wanted = claim.expected if claim.published is None else Expectation(claim.published, claim.published)
    return (wanted.low is None or wanted.low <= values[-1]) and (
        wanted.high is None or wanted.high >= values[0]
    )
