"""The plot kind `queue`: what waits at each hop over time."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from cwndlab.errors import unknown
from cwndlab.report.plots import timelines
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Run, Selection, floats
from cwndlab.results.columns import describe

VALUES = ("backlog_packets", "backlog_bytes", "drops", "ce_marks")


def draw(selection: Selection) -> Plot:
    """Return the plot: `value` is `backlog_packets` (default), `backlog_bytes`, `drops` or `ce_marks`."""
    column = selection.options.value or "backlog_packets"
    if column not in VALUES:
        raise unknown("value", column, VALUES)
    shown = describe(column)
    lines = [
        timelines.Line(run, hop, floats(frame["t_s"]), floats(frame[column]) * shown.factor)
        for run, hop, frame in hops_of(selection, column)
    ]
    return timelines.draw(selection, lines, title=shown.words, ylabel=shown.label, steps=True)


def hops_of(selection: Selection, column: str) -> Iterator[tuple[Run, str, pl.DataFrame]]:
    """Yield every chosen hop of every chosen run with its rows of the queue table."""
    wanted = selection.options.hop
    for run in selection.runs()[0]:
        frame = selection.series(run, None, "queue", column)
        hops = [str(hop) for hop in frame["hop"].unique(maintain_order=True).to_list()]
        if wanted is not None and hops and wanted not in hops:
            raise unknown("hop", wanted, hops)
        for hop in hops if wanted is None else [wanted]:
            rows = frame.filter(pl.col("hop").cast(pl.String) == hop)
            yield run, hop, rows
