"""Runs both sides of a review, and compares what came of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cwndlab import testbeds
from cwndlab.analysis import comparison, runs
from cwndlab.analysis.comparison import Comparison, Contrast, Options, RunSet
from cwndlab.analysis.review import paths
from cwndlab.analysis.review.paths import Programme, Question
from cwndlab.analysis.review.sides import Sides
from cwndlab.analysis.runs import Run
from cwndlab.errors import InputError
from cwndlab.execution import runner
from cwndlab.execution.executor import Observer
from cwndlab.results import columns, limits
from cwndlab.results.keys import distinguishing
from cwndlab.results.resultset import ResultSet
from cwndlab.results.texttable import short_names
from cwndlab.testbeds import loader

REPEATS = 10

OWN = ("limited_cwnd_pct", "limited_pacing_pct")
"""Limits that a congestion control sets on its flow."""

DECIDES_PCT = 5.0
"""Per cent of the time that a congestion control has to limit a flow of some run for the runs to judge it."""


@dataclass(frozen=True)
class Review:
    """Results of both sides, and the comparisons of them."""

    sides: Sides
    programme: Programme
    results: Mapping[str, ResultSet]
    """Results by the name of the arrangement."""
    found: Sequence[Comparison]
    """All comparisons, corrected as one family, of the paths that judge."""
    idle: Sequence[str]
    """A sentence for each path that judges nothing, as something else limits the flows there."""
    failures: Sequence[str]
    """A line for each run that failed."""
    runs: int


def carry_out(
    both: Sides,
    out: Path,
    *,
    suite: str | None = None,
    repeats: int | None = None,
    jobs: int = 1,
    scale: float = 1.0,
    observer: Observer | None = None,
) -> Review:
    """Run both sides on the five paths, or on an experiment or suite, into a directory each below `out`.

    `scale` makes the runs of the five paths shorter. Raises InputError as `runner.run`.
    """
    programme = _programme(both, suite, repeats, scale)
    loaded = {
        each.name: (
            loader.load(
                each.text,
                testbed=both.testbed,
                lab=both.of(each.side).lab,
                modules=both.modules(each.side),
            ),
            both.of(each.side).lab,
        )
        for each in programme.arrangements
    }
    results = {
        name: runner.run(
            experiment, testbed=both.testbed, lab=lab, out=out / name, jobs=jobs, observer=observer
        )
        for name, (experiment, lab) in loaded.items()
    }
    records = [(name, record) for name, of in results.items() for record in of.records()]
    failures = [f"{name}: {record.error}" for name, record in records if record.status != "complete"]
    found, idle = _compared(programme.questions, results)
    return Review(both, programme, results, found, idle, failures, len(records))


def _programme(both: Sides, suite: str | None, repeats: int | None, scale: float) -> Programme:
    cc = {side.name: side.cc for side in (both.old, both.new)}
    if suite is None:
        return paths.of_review(both.stack, cc, repeats or REPEATS, scale, mixed=not both.are_whole)
    if both.are_whole:
        old = loader.load(suite, testbed=both.testbed, lab=both.old.lab, modules=both.modules("old"))
        return paths.of_whole(old, repeats)
    known = loader.support(testbeds.MODEL).catalogue()
    return paths.of_experiment(loader.load(suite), both.stack, cc, repeats, known)


def _compared(
    questions: Sequence[Question], results: Mapping[str, ResultSet]
) -> tuple[list[Comparison], list[str]]:
    """Every metric of every question that both sides have runs for; and where nothing is judged, and why."""
    judged, idle = [], []
    for question in questions:
        for contrast in _contrasts(question, results):
            if (why := _held(contrast)) is None:
                judged.append(_with(contrast, question))
            else:
                where = ", ".join(contrast.where.values())
                idle.append(f"{where} judges nothing: {why}, whatever the congestion control decides.")
    metrics = list(dict.fromkeys(metric for question in questions for metric in question.metrics))
    found = comparison.compare(judged, metrics, Options(within=False)) if judged else []
    return found, list(dict.fromkeys(idle))


def _held(contrast: Contrast) -> str | None:
    """Name the limit of the flows of both sides that is not their congestion control. None where that
    decides.
    """
    known = [run.metrics for side in (contrast.a, contrast.b) for run in side.runs]
    names = {name for metrics in known for name in metrics if name.startswith("limited_")}
    shares = {name: sum(metrics.get(name, 0.0) for metrics in known) / len(known) for name in names}
    if not shares or any(metrics.get(name, 0.0) >= DECIDES_PCT for metrics in known for name in OWN):
        return None
    share, name = max((share, name) for name, share in shares.items())
    return f"the flows are {columns.describe(name).words} for {limits.percentage(share)} of the time"


def _contrasts(question: Question, results: Mapping[str, ResultSet]) -> Iterator[Contrast]:
    """Yield a contrast for each combination of the keys that the arrangement sweeps."""
    sides = []
    for name in (question.old, question.new):
        try:
            found, _ = runs.of_results(results[name], question.flow)
        except InputError:
            return  # no run of that side is left
        sides.append(found)
    frame = results[question.old].summary
    telling = distinguishing(frame, results[question.old].keys)
    short, labels = short_names(telling), results[question.old].labels
    cells = list(dict.fromkeys(tuple(run.cell[key] for key in telling) for run in sides[0]))
    for cell in cells:
        old, new = (
            [run for run in side if tuple(run.cell[key] for key in telling) == cell] for side in sides
        )
        at = dict(zip(telling, cell, strict=True))
        where = {"path": question.where} | {short[key]: str(labels.value(key, at[key])) for key in at}
        name = ", ".join(text for text in (question.where, labels.words(at, telling)) if text)
        yield Contrast(RunSet("old", old), RunSet("new", new), where, name)


def _with(contrast: Contrast, question: Question) -> Contrast:
    """A contrast of runs with the metrics in question alone."""

    def alone(run: Run) -> Run:
        kept = {name: run.metrics[name] for name in question.metrics if name in run.metrics}
        return replace(run, metrics=kept)

    a, b = (RunSet(side.label, [alone(run) for run in side.runs]) for side in (contrast.a, contrast.b))
    return replace(contrast, a=a, b=b)
