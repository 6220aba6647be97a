"""Runs both sides of a review, and compares what came of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cwndlab import runner, testbeds
from cwndlab.analysis import comparison, runs
from cwndlab.analysis.comparison import Comparison, Contrast, Options, RunSet
from cwndlab.analysis.runs import Run
from cwndlab.errors import InputError
from cwndlab.parts.executor import Observer
from cwndlab.results.keys import distinguishing
from cwndlab.results.resultset import ResultSet
from cwndlab.results.texttable import short_names
from cwndlab.review import paths
from cwndlab.review.paths import Programme, Question
from cwndlab.review.sides import Sides
from cwndlab.testbeds import loading

REPEATS = 10


@dataclass(frozen=True)
class Review:
    """Both sides, their results, and what they say."""

    sides: Sides
    programme: Programme
    results: Mapping[str, ResultSet]
    """By the name of the arrangement."""
    found: Sequence[Comparison]
    """All comparisons, corrected as one family."""
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
    loaded = {each.name: loading.load(each.text, modules=both.modules) for each in programme.arrangements}
    results = {
        name: runner.run(experiment, out=out / name, jobs=jobs, observer=observer)
        for name, experiment in loaded.items()
    }
    records = [(name, record) for name, of in results.items() for record in of.records()]
    failures = [f"{name}: {record.error}" for name, record in records if record.status != "complete"]
    found = _compared(programme.questions, results)
    return Review(both, programme, results, found, failures, len(records))


def _programme(both: Sides, suite: str | None, repeats: int | None, scale: float) -> Programme:
    cc = {side.name: side.cc for side in (both.old, both.new)}
    if suite is None:
        return paths.of_review(both.stack, cc, repeats or REPEATS, scale)
    known = loading.support(testbeds.MODEL).catalogue()
    return paths.of_experiment(loading.load(suite), both.stack, cc, repeats, known)


def _compared(questions: Sequence[Question], results: Mapping[str, ResultSet]) -> list[Comparison]:
    """Every metric of every question that both sides have runs for."""
    every = [contrast for question in questions for contrast in _contrasts(question, results)]
    metrics = list(dict.fromkeys(metric for question in questions for metric in question.metrics))
    return comparison.compare(every, metrics, Options(within=False)) if every else []


def _contrasts(question: Question, results: Mapping[str, ResultSet]) -> Iterator[Contrast]:
    """One for each combination of the keys that the arrangement sweeps."""
    sides = []
    for name in (question.old, question.new):
        try:
            found, _ = runs.of_results(results[name], question.flow)
        except InputError:
            return  # no run of that side is left
        sides.append([_with(run, question) for run in found])
    frame = results[question.old].summary
    telling = distinguishing(frame, results[question.old].keys)
    short = short_names(telling)
    cells = list(dict.fromkeys(tuple(run.cell[key] for key in telling) for run in sides[0]))
    for cell in cells:
        old, new = (
            [run for run in side if tuple(run.cell[key] for key in telling) == cell] for side in sides
        )
        where = {"path": question.where} | {
            short[key]: value for key, value in zip(telling, cell, strict=True)
        }
        yield Contrast(RunSet("old", old), RunSet("new", new), where)


def _with(run: Run, question: Question) -> Run:
    """A run with the metrics in question alone."""
    return replace(run, metrics={name: run.metrics[name] for name in question.metrics if name in run.metrics})
