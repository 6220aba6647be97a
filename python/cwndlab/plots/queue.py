"""The figure kind `queue`: what waits at each hop over time."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from matplotlib.figure import Figure

from cwndlab.errors import unknown
from cwndlab.plots import timelines
from cwndlab.plots.selection import Request, Run, floats
from cwndlab.results.columns import describe

VALUES = ("backlog_packets", "backlog_bytes", "drops", "ce_marks")


def draw(request: Request) -> Figure:
    """Return the figure: `value` is `backlog_packets` (default), `backlog_bytes`, `drops` or `ce_marks`."""
    column = request.options.value or "backlog_packets"
    if column not in VALUES:
        raise unknown("value", column, VALUES)
    shown = describe(column)
    lines = [
        timelines.Line(run, hop, floats(frame["t_s"]), floats(frame[column]) * shown.factor)
        for run, hop, frame in hops_of(request, column)
    ]
    return timelines.draw(request, lines, title=shown.words, ylabel=shown.label, steps=True)


def hops_of(request: Request, column: str) -> Iterator[tuple[Run, str, pl.DataFrame]]:
    """Yield every chosen hop of every chosen run with its rows of the queue table."""
    wanted = request.options.hop
    for run in request.runs()[0]:
        frame = request.series(run, None, "queue", column)
        hops = [str(hop) for hop in frame["hop"].unique(maintain_order=True).to_list()]
        if wanted is not None and hops and wanted not in hops:
            raise unknown("hop", wanted, hops)
        for hop in hops if wanted is None else [wanted]:
            rows = frame.filter(pl.col("hop").cast(pl.String) == hop)
            yield run, hop, rows
