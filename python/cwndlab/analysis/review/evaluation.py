"""Judges one congestion control, or another thing, by a suite of criteria, beside others in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from cwndlab.analysis import runs, statistics
from cwndlab.analysis.review.paths import BUFFERS, Plain
from cwndlab.analysis.review.sides import Side
from cwndlab.errors import InputError
from cwndlab.execution import runner
from cwndlab.execution.executor import Observer
from cwndlab.experiment.catalogue import Stack
from cwndlab.experiment.suites import evaluations
from cwndlab.experiment.suites.evaluations import SUITES, Criterion, Subject
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds import loader

AXIS = "contender"
PROPOSED = "proposed"

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
    results: Mapping[str, ResultSet] = field(default_factory=dict)
    """Results of each experiment, by its name."""

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
    if lacking := [name for name in about.incumbents if name not in known]:
        raise InputError(f"review: --suite {suite}: {stack.name} has no {' and no '.join(lacking)}")
    criteria = evaluations.criteria(suite) if chosen is None else chosen
    names = evaluations.experiments(criteria)
    loaded = {
        name: loader.load(_text(suite, name, side, stack, repeats), modules=side.modules) for name in names
    }
    results = {
        name: runner.run(experiment, out=out / name, jobs=jobs, observer=observer)
        for name, experiment in loaded.items()
    }
    records = [(name, record) for name, of in results.items() for record in of.records()]
    failures = [f"{name}: {record.error}" for name, record in records if record.status != "complete"]
    rows = judged(criteria, results, repeats)
    return Evaluation(suite, side, stack, rows, failures, len(records), repeats, results)


def _text(suite: str, name: str, side: Side, stack: Stack, repeats: int) -> str:
    """The experiment with an axis of the contenders: the senders that name no congestion control."""
    # The base loader leaves every value as it is written, `off` too.
    content: dict[str, Any] = yaml.load(evaluations.text_of(suite, name), yaml.BaseLoader)
    senders = {str(flow["from"]).partition(".")[0] for flow in content["flows"]}
    free = [host for host in content["hosts"] if host in senders and "cc" not in content["hosts"][host]]
    for host in content["hosts"].values():
        host |= {"stack": stack.name, "sysctl": dict(BUFFERS.get(stack.family, {}))}
    about = SUITES[suite]
    contenders = {PROPOSED: side.cc} | {shown: name for name, shown in about.incumbents.items()}
    keys = {
        Subject.CC: [f"hosts.{host}.cc" for host in free],
        Subject.MEDIA: [
            f"flows.{flow['name']}.app.controller" for flow in content["flows"] if _is_media(flow)
        ],
        Subject.QUEUE: ["network.dumbbell.bottleneck.queue"],
    }[about.subject]
    # A queue that the file describes has a size for tail drop.
    own = content["network"]["dumbbell"]["bottleneck"]["queue"] if about.subject is Subject.QUEUE else {}
    levels = {
        shown: dict.fromkeys(keys, own if own and own["kind"] == name else name)
        for shown, name in contenders.items()
    }
    content["sweep"] = [*content.get("sweep", []), {"name": AXIS, "values": levels}]
    content["repeat"] = repeats
    return yaml.dump(content, sort_keys=False, Dumper=Plain)


def _is_media(flow: Mapping[str, Any]) -> bool:
    app = flow.get("app")
    return isinstance(app, Mapping) and app["kind"] == "media"


def judged(criteria: Sequence[Criterion], results: Mapping[str, ResultSet], repeats: int) -> list[Row]:
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
    results: ResultSet, criterion: Criterion
) -> Iterator[tuple[str, Mapping[str, Mapping[int, float]]]]:
    """Yield each cell in words, with the values of each contender by repeat."""
    try:
        found, _ = runs.of_results(results, criterion.flow)
    except InputError:
        found = []
    names = [PROPOSED, *criterion.incumbents.values()]
    others = [key for key in results.keys if key != AXIS]
    cells: dict[str, dict[str, dict[int, float]]] = {}
    for run in found:
        at = {key: run.cell[key] for key in others}
        words = results.labels.words(at, others) if others else ""
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
