"""An evaluation by a suite of criteria as one HTML page that loads nothing: verdicts, then all criteria."""

from __future__ import annotations

from cwndlab.analysis.review import evaluation_words as words
from cwndlab.analysis.review.evaluation import Evaluation, Row, Verdict
from cwndlab.experiment.suites.evaluations import SUITES
from cwndlab.report.html_report.facts import capital
from cwndlab.report.html_report.html import Table, page
from cwndlab.results import columns

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
        bare=_bare(found),
        legend=words.legend(found),
        unseen=words.unseen(found),
        command=command,
    )


def _named(found: Evaluation, verdict: Verdict) -> list[str]:
    """A sentence for each criterion with a verdict."""
    rows = [row for row in found.rows if row.verdict is verdict]
    return [f"{row.criterion.section}, {row.criterion.asks}: {_figures(row)}" for row in rows]


def _figures(row: Row) -> str:
    values = ", ".join(f"{name} {words.value(row, name)}" for name in words.CONTENDERS if name in row.values)
    return f"{columns.describe(row.criterion.metric).label}{words.place(row)} {values}; {words.bound(row)}"


def _judged(found: Evaluation) -> list[tuple[str, Table]]:
    """A table for each part of the publication, with its heading."""
    headings = SUITES[found.suite].parts
    parts: dict[str, list[list[object]]] = {}
    for row in found.rows:
        if row.verdict is not Verdict.NOT_COVERED:
            section = row.criterion.section
            parts.setdefault(next(part for part in headings if section.startswith(part)), []).append(
                _row(row)
            )
    heads = ["section", "asked", "verdict", *words.CONTENDERS, "bound", "metric", "experiment"]
    caption = "Means over the draws, with half of their intervals."
    return [(headings[part], Table(heads, rows, caption, row_heads=2)) for part, rows in parts.items()]


def _row(row: Row) -> list[object]:
    shown = columns.describe(row.criterion.metric)
    mark = MARKS[row.verdict] + (f": {row.note}" if row.note else "")
    cells: list[object] = [row.criterion.section, row.criterion.asks, mark]
    for name in words.CONTENDERS:
        there = name in row.values
        cells.append((words.value(row, name), row.values[name].mean * shown.factor) if there else "")
    metric = f"{capital(shown.label)}{words.place(row)}"
    return [*cells, words.bound(row), metric, row.criterion.experiment or ""]


def _bare(found: Evaluation) -> Table:
    rows = [
        [row.criterion.section, row.criterion.asks, row.note]
        for row in found.rows
        if row.verdict is Verdict.NOT_COVERED
    ]
    return Table(["section", "asked", "why not"], rows, "Questions without an answer here.", row_heads=2)
