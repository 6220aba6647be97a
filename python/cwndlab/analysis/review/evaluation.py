"""Judges one congestion control, or another thing, by a suite of criteria, beside others in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from cwndlab import testbeds
from cwndlab.analysis import runs, statistics
from cwndlab.analysis.review import contenders
from cwndlab.analysis.review.contenders import AXIS, PROPOSED, Arrangement
from cwndlab.analysis.review.sides import Side
from cwndlab.errors import InputError
from cwndlab.execution import runner
from cwndlab.execution.executor import Observer
from cwndlab.experiment.catalogue import Stack
from cwndlab.experiment.suites import evaluations
from cwndlab.experiment.suites.evaluations import SUITES, Criterion, Subject
from cwndlab.results import columns
from cwndlab.results.resultset import ResultSet

CONFIDENCE = 0.95
"""Confidence of all intervals of an evaluation together."""

REPEATS = 10


class Verdict(StrEnum):
    """Verdicts on a criterion."""

    MET = "met"
    NOT_MET = "not met"
    OPEN = "open"
    """The interval has the bound in it, or there is none."""
    NO_VALUE = "no value"
    """A run that the criterion needs failed, or does not have the metric."""
    NOT_COVERED = "not covered"


GRAVITY = (Verdict.NO_VALUE, Verdict.NOT_MET, Verdict.OPEN, Verdict.MET)
"""Verdicts on the cells of a criterion, the one that counts first."""


@dataclass(frozen=True)
class Value:
    """Mean over the draws, in the unit of the summary, and half the width of its interval."""

    mean: float
    half: float | None
    """0 where all draws gave the same, None for a single draw."""


@dataclass(frozen=True)
class Row:
    """Judgement by one criterion; of an experiment with several cells, that of the worst cell."""

    criterion: Criterion
    verdict: Verdict
    values: Mapping[str, Value] = field(default_factory=dict)
    """Value of each contender."""
    bound: float | None = None
    cell: str = ""
    """The cell in words; empty where the experiment has one."""
    cells: int = 1
    margin: float = 0.0
    """Mean distance from the bound to the good side, as a share of the bound."""
    note: str = ""


@dataclass(frozen=True)
class Evaluation:
    """Judgements by all criteria of a suite."""

    suite: str
    side: Side
    stack: Stack
    rows: Sequence[Row]
    failures: Sequence[str]
    runs: int
    repeats: int
    results: Mapping[str, Sequence[ResultSet]] = field(default_factory=dict)
    """Results of each experiment by its name, those of the judged side first."""

    def count(self, verdict: Verdict) -> int:
        """Count the criteria with a verdict."""
        return sum(row.verdict is verdict for row in self.rows)


def carry_out(
    suite: str,
    side: Side,
    stack: Stack,
    out: Path,
    *,
    chosen: Sequence[Criterion] | None = None,
    repeats: int = REPEATS,
    jobs: int = 1,
    observer: Observer | None = None,
) -> Evaluation:
    """Run the experiments of a suite, into a directory each below `out`, and judge by its criteria or those
    `chosen`. Raises InputError as `runner.run`, and for a stack without CUBIC and Reno.
    """
    about = SUITES[suite]
    known = about.incumbents if about.subject is not Subject.CC else (*stack.cc, *stack.cc_alias)
    if not stack.guest and (lacking := [name for name in about.incumbents if name not in known]):
        raise InputError(f"review: --suite {suite}: {stack.name} has no {' and no '.join(lacking)}")
    criteria = evaluations.criteria(suite) if chosen is None else chosen
    names = evaluations.experiments(criteria)
    if side.lab is not None:
        testbeds.find(testbeds.GUEST, side.lab).ready()
    loaded: dict[str, list[Arrangement]] = {}
    refused: dict[str, str] = {}
    for name in names:
        try:
            loaded[name] = contenders.arranged(suite, name, side, stack, repeats)
        except InputError as error:
            if not side.whole:
                raise
            refused[name] = f"{side.given} cannot run this: {str(error).partition(chr(10))[0]}"
    results = {
        name: [
            runner.run(
                each.experiment,
                testbed=each.testbed,
                lab=each.lab,
                out=out / (name if not place else f"{name}-{place}"),
                jobs=jobs,
                observer=observer,
            )
            for place, each in enumerate(arrangements)
        ]
        for name, arrangements in loaded.items()
    }
    records = [(name, record) for name, all_of in results.items() for of in all_of for record in of.records()]
    failures = [f"{name}: {record.error}" for name, record in records if record.status != "complete"]
    criteria = [_without(each, refused) for each in criteria]
    rows = judged(criteria, results, repeats)
    if side.whole and not failures:
        rows = [_told(row, side) for row in rows]
    return Evaluation(suite, side, stack, rows, failures, len(records), repeats, results)


def _told(row: Row, side: Side) -> Row:
    """Return a row as not covered, where no run of a guest or kernel has the metric."""
    if row.verdict is not Verdict.NO_VALUE or PROPOSED in row.values:
        return row
    words = columns.describe(row.criterion.metric).words
    return replace(row, verdict=Verdict.NOT_COVERED, note=f"{side.given} does not tell {words}")


def _without(criterion: Criterion, refused: Mapping[str, str]) -> Criterion:
    """Return a criterion as one that nothing answers, where its experiment was refused."""
    why = refused.get(criterion.experiment or "")
    return criterion if why is None else replace(criterion, experiment=None, why=why)


def judged(
    criteria: Sequence[Criterion], results: Mapping[str, Sequence[ResultSet]], repeats: int
) -> list[Row]:
    """Judge results by criteria, with intervals that hold all together."""
    cells = {
        place: list(_cells(results[criterion.experiment], criterion))
        for place, criterion in enumerate(criteria)
        if criterion.experiment is not None
    }
    intervals = max(1, sum(map(len, cells.values())))
    confidence = 1 - (1 - CONFIDENCE) / intervals
    rows = []
    for place, criterion in enumerate(criteria):
        if criterion.experiment is None:
            rows.append(Row(criterion, Verdict.NOT_COVERED, note=criterion.why))
            continue
        own = [judged_cell(criterion, cell, values, repeats, confidence) for cell, values in cells[place]]
        worst = min(own, key=lambda row: (GRAVITY.index(row.verdict), row.margin))
        rows.append(_of_several(worst, len(own)))
    return rows


def _of_several(row: Row, cells: int) -> Row:
    return Row(**{**vars(row), "cells": cells})


def _cells(
    results: Sequence[ResultSet], criterion: Criterion
) -> Iterator[tuple[str, Mapping[str, Mapping[int, float]]]]:
    """Yield each cell in words, with the values of each contender by repeat."""
    names = [PROPOSED, *criterion.incumbents.values()]
    cells: dict[str, dict[str, dict[int, float]]] = {}
    for part in results:
        try:
            found, _ = runs.of_results(part, criterion.flow)
        except InputError:
            continue
        others = [key for key in part.keys if key != AXIS]
        for run in found:
            at = {key: run.cell[key] for key in others}
            words = part.labels.words(at, others) if others else ""
            values = cells.setdefault(words, {name: {} for name in names})
            if criterion.metric in run.metrics and run.repeat is not None:
                values[run.cell[AXIS]][run.repeat] = run.metrics[criterion.metric]
    yield from (cells or {"": {name: {} for name in names}}).items()


def judged_cell(
    criterion: Criterion,
    cell: str,
    values: Mapping[str, Mapping[int, float]],
    repeats: int,
    confidence: float,
) -> Row:
    """Judge one cell: where the interval of the distance from the bound lies."""
    shown = {name: _value(list(of.values()), confidence) for name, of in values.items() if of}
    against = _reference(criterion, shown)
    needed = {PROPOSED, *([against] if against else [])}
    for name in (PROPOSED, *criterion.incumbents.values()):
        if name in needed and len(values[name]) < repeats:
            note = f"{name} has a value in {len(values[name])} of {repeats} runs"
            return Row(criterion, Verdict.NO_VALUE, shown, cell=cell, margin=-np.inf, note=note)
    if criterion.of is not None and against is None:
        note = "there is nothing to compare with"
        return Row(criterion, Verdict.NO_VALUE, shown, cell=cell, margin=-np.inf, note=note)
    order = sorted(values[PROPOSED])
    proposed = np.array([values[PROPOSED][repeat] for repeat in order])
    upwards = criterion.at_least is not None
    slack = -criterion.slack if upwards else criterion.slack
    base = np.array([values[against][repeat] for repeat in order]) if against else np.ones(len(order))
    bounds = criterion.factor * base + slack
    distance = _value(list(proposed - bounds if upwards else bounds - proposed), confidence)
    bound = float(bounds.mean())
    return Row(
        criterion,
        _verdict(distance),
        shown,
        bound=bound,
        cell=cell,
        margin=distance.mean / abs(bound) if bound else distance.mean,
    )


def _reference(criterion: Criterion, shown: Mapping[str, Value]) -> str | None:
    """The contender whose values make the bound. None for a bound that is a value itself."""
    if criterion.of is None:
        return None
    if criterion.of in criterion.incumbents:
        return criterion.incumbents[criterion.of]
    known = [name for name in criterion.incumbents.values() if name in shown]
    worse = min if criterion.at_least is not None else max
    return worse(known, key=lambda name: shown[name].mean) if known else None


def _verdict(distance: Value) -> Verdict:
    if distance.half is None:
        return Verdict.OPEN
    if distance.mean - distance.half >= 0:
        return Verdict.MET
    return Verdict.NOT_MET if distance.mean + distance.half < 0 else Verdict.OPEN


def _value(values: Sequence[float], confidence: float) -> Value:
    of = np.array(values, dtype=np.float64)
    mean = float(of.mean())
    if len(of) < 2:
        return Value(mean, None)
    if np.ptp(of) <= 1e-12 * abs(mean):
        return Value(mean, 0.0)
    interval, _ = statistics.student(of, confidence)
    return Value(mean, (interval.high - interval.low) / 2)
