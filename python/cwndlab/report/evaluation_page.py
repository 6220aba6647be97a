"""An evaluation by a suite of criteria as one HTML page that loads nothing: verdicts, then all criteria."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from markupsafe import Markup

from cwndlab.analysis.review import evaluation_words as words
from cwndlab.analysis.review.contenders import AXIS, PROPOSED
from cwndlab.analysis.review.evaluation import Evaluation, Row, Verdict
from cwndlab.experiment.suites.evaluations import SUITES, Criterion
from cwndlab.report.html_report.facts import capital
from cwndlab.report.html_report.html import Table, page
from cwndlab.report.plots import overlay
from cwndlab.report.plots.selection import floats
from cwndlab.results import columns
from cwndlab.results.resultset import ResultSet

PHASES = "phases"
"""Word for the drawing of BBR's phases, in `Criterion.shows`."""

NUMBERS = {
    "bbr-startup": 1,
    "bbr-drain": 2,
    "bbr-down": 3,
    "bbr-cruise": 4,
    "bbr-refill": 5,
    "bbr-up": 6,
    "bbr-probe-rtt": 7,
}
"""Kinds of events with which phases begin, and the numbers that they are drawn as."""

MARKS = {
    Verdict.MET: "✓ met",
    Verdict.NOT_MET: "✗ not met",
    Verdict.OPEN: "? open",
    Verdict.NO_VALUE: "! no value",
}


def html(found: Evaluation, command: str) -> str:
    """The page; `command` is what made it."""
    verdicts = (Verdict.NOT_MET, Verdict.OPEN)
    return page(
        "evaluation.html",
        title=SUITES[found.suite].title,
        headline=words.headline(found),
        glance=[
            ("proposed", found.side.about),
            ("stack", words.on(found).removeprefix("on ")),
            ("runs", str(found.runs)),
            ("draws", str(found.repeats)),
        ],
        failures=found.failures[:20],
        unmet=[(verdict.value, _named(found, verdict)) for verdict in verdicts if _named(found, verdict)],
        judged=_judged(found),
        pictures=_pictures(found),
        bare=_bare(found),
        legend=words.legend(found),
        unseen=words.unseen(found),
        command=command,
    )


def _named(found: Evaluation, verdict: Verdict) -> list[tuple[str, str]]:
    """Each criterion with a verdict: what is asked, and its figures."""
    rows = [row for row in found.rows if row.verdict is verdict]
    return [(f"{row.criterion.section} {row.criterion.asks}", _figures(row)) for row in rows]


def _figures(row: Row) -> str:
    values = ", ".join(f"{name} {words.value(row, name)}" for name in row.values)
    label = columns.describe(row.criterion.metric).label
    return f"{capital(label)}{words.place(row)}: {values}; {words.bound(row)}"


def _judged(found: Evaluation) -> list[tuple[str, Table]]:
    """A table for each part of the publication, with its heading."""
    headings, names = SUITES[found.suite].parts, words.contenders(found.suite)
    parts: dict[str, list[list[object]]] = {}
    for row in found.rows:
        if row.verdict is not Verdict.NOT_COVERED:
            section = row.criterion.section
            parts.setdefault(next(part for part in headings if section.startswith(part)), []).append(
                _row(row, names)
            )
    heads = ["section", "asked", "verdict", "metric", *names, "bound", "experiment"]
    caption = "Means over the draws, with half of their intervals."
    return [(headings[part], Table(heads, rows, caption, row_heads=2)) for part, rows in parts.items()]


def _row(row: Row, names: Sequence[str]) -> list[object]:
    shown = columns.describe(row.criterion.metric)
    mark = MARKS[row.verdict] + (f": {row.note}" if row.note else "")
    metric = f"{capital(shown.label)}{words.place(row)}"
    cells: list[object] = [row.criterion.section, row.criterion.asks, mark, metric]
    for name in names:
        there = name in row.values
        cells.append((words.value(row, name), row.values[name].mean * shown.factor) if there else "")
    return [*cells, words.bound(row), row.criterion.experiment or ""]


def _pictures(found: Evaluation) -> list[tuple[str, str, Markup]]:
    """Return the question, the verdict and the drawing of each criterion that says what shows it."""
    shown = [row for row in found.rows if row.criterion.shows]
    drawn = ((row, _drawing(row.criterion, found.results[str(row.criterion.experiment)][0])) for row in shown)
    return [
        (f"{row.criterion.section} {row.criterion.asks}", f"{MARKS[row.verdict]}: {_figures(row)}", drawing)
        for row, drawing in drawn
        if drawing
    ]


def _drawing(criterion: Criterion, results: ResultSet) -> Markup:
    """The series of the judged side's first run, and the bound as a line."""
    first = (pl.col(AXIS) == PROPOSED) & (pl.col("repeat") == 0) & (pl.col("status") == "complete")
    runs = results.summary.filter(first)
    if not runs.height:
        return Markup("")
    if criterion.shows == PHASES:
        return _phases(criterion, results, str(runs["run_id"][0]))
    table, _, column = criterion.shows.rpartition(".")
    frame = results.series(runs["run_id"][0], criterion.flow, table=table or "tcp")
    if table:
        frame = frame.filter(frame["kind"].cast(pl.String) == column).rename({"value": column})
    shown = columns.describe(column)
    t_s = floats(frame["t_s"])
    lines = [overlay.Line("new", t_s, floats(frame[column]) * shown.factor)]
    if criterion.line is not None and len(t_s):
        ends = np.array([t_s[0], t_s[-1]])
        lines.insert(0, overlay.Line("old", ends, np.full(2, criterion.line)))
    label = f"{shown.words} of the first draw, and the bound: {criterion.asks}"
    return overlay.draw(lines, label=label, unit=shown.unit)


def _phases(criterion: Criterion, results: ResultSet, run: str) -> Markup:
    """The phases of the judged side's first run, as steps."""
    frame = results.series(run, criterion.flow, table="events")
    frame = frame.filter(frame["kind"].cast(pl.String).is_in(list(NUMBERS)))
    at = [NUMBERS[kind] for kind in frame["kind"].cast(pl.String)]
    end = results.record(run).scenario["duration_ns"] / 1e9
    t_s = np.repeat(np.append(floats(frame["t_s"]), end), 2)[1:-1]
    lines = [overlay.Line("new", t_s, np.repeat(np.array(at, dtype=np.float64), 2))]
    label = f"phases of the first draw: {criterion.asks}"
    return overlay.draw(lines, label=label, unit=", ".join(f"{n} {kind[4:]}" for kind, n in NUMBERS.items()))


def _bare(found: Evaluation) -> Table:
    rows = [
        [row.criterion.section, row.criterion.asks, row.note]
        for row in found.rows
        if row.verdict is Verdict.NOT_COVERED
    ]
    return Table(["section", "asked", "why not"], rows, "Questions without an answer here.", row_heads=2)
