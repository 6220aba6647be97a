"""A review as one HTML page that loads nothing: verdict, windows over each other, tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl
from markupsafe import Markup

from cwndlab.analysis import verdict
from cwndlab.analysis.comparison import Comparison
from cwndlab.analysis.review import words
from cwndlab.analysis.review.paths import Picture
from cwndlab.analysis.review.runs import Review
from cwndlab.report.html_report.facts import capital, with_interval
from cwndlab.report.html_report.html import Table, page
from cwndlab.report.plots import overlay
from cwndlab.report.plots.selection import floats
from cwndlab.results import columns

LEAST = 1e-4
"""A standard deviation below this share of the mean is not worth its digits."""

REPEAT = 0
"""The repeat whose windows are shown."""


def html(review: Review, command: str) -> str:
    """The page; `command` is what made it."""
    sides = review.sides
    return page(
        "review.html",
        title="Review of a congestion control",
        headline=words.headline(review),
        glance=[
            ("old", sides.old.about),
            ("new", sides.new.about),
            ("stack", sides.stack.name),
            ("runs", str(review.runs)),
        ],
        failures=review.failures[:20],
        changed=[capital(verdict.sentence(each)) for each in words.changed(review.found)],
        unchanged=words.unchanged(review),
        pictures=[(it.title, it.about, _drawing(it, review)) for it in review.programme.pictures],
        tables=[
            (capital(columns.describe(metric).words), _table(metric, review.found))
            for metric in dict.fromkeys(each.metric for each in review.found)
        ],
        legend=verdict.legend(review.found),
        marks=words.marks(review.found),
        as_ministat=words.AS_MINISTAT,
        unseen=words.unseen(review),
        besides=", ".join(sides.patched),
        change=sides.change,
        command=command,
    )


def _drawing(picture: Picture, review: Review) -> Markup:
    """The congestion windows of both sides."""
    lines = []
    for side, name, flow in picture.lines:
        results = review.results[name]
        of_repeat = results.summary.filter((pl.col("repeat") == REPEAT) & (pl.col("status") == "complete"))
        if not of_repeat.height:
            continue
        frame = results.series(of_repeat["run_id"][0], flow)
        lines.append(overlay.Line(side, floats(frame["t_s"]), floats(frame["cwnd_bytes"]) / 1e3))
    label = f"Congestion windows of old and new, {picture.title}"
    return overlay.draw(lines, label=label, unit="kB")


def _table(metric: str, found: Sequence[Comparison]) -> Table:
    rows = [_row(each) for each in found if each.metric == metric]
    shown = columns.describe(metric)
    heads = ["path", "old", "new", "difference", "95 % interval", "p, corrected", ""]
    caption = f"{shown.label}: mean of the runs ± standard deviation between them."
    return Table(heads, rows, caption, row_heads=1)


def _row(found: Comparison) -> list[object]:
    factor = columns.describe(found.metric).factor
    cells: list[object] = [", ".join(found.contrast.where.values())]
    for side in (found.a, found.b):
        mean, sd = side.mean * factor, side.sd * factor
        cells.append((with_interval(mean, sd if sd > LEAST * abs(mean) else 0.0), mean))
    share = found.share(found.difference)
    p = found.corrected_p
    return [
        *cells,
        (verdict.difference(found), math.nan if share is None else 100 * share),
        verdict.interval(found),
        ("", math.nan) if p is None else (f"{p:.2g}", p),
        _mark(found),
    ]


def _mark(found: Comparison) -> str:
    if words.differs(found):
        return "▲ higher" if found.difference > 0 else "▼ lower"
    return found.kind.value
