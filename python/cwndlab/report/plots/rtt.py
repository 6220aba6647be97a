"""The plot kind `rtt`: round-trip time over time, sampled or smoothed, or another kind of sample."""

from __future__ import annotations

import polars as pl

from cwndlab.errors import unknown
from cwndlab.report.plots import timelines
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection
from cwndlab.results.columns import describe

VALUES = ("rtt_ms", "srtt_ms")


def draw(selection: Selection) -> Plot:
    """Return the plot, in ms: `value` is `rtt_ms` (newest sample, the default) or `srtt_ms` (smoothed).

    Or `samples.KIND`, such as `samples.spp-rtt`, for what the samples of a run hold of that kind.
    """
    column = selection.options.value or "rtt_ms"
    table, _, kind = column.rpartition(".")
    shown = describe(kind)
    flows = list(timelines.flows_of(selection))
    if table == "samples":
        selection.locate(column)
        lines = [timelines.sample_line(selection, run, flow, kind, shown.factor) for run, flow in flows]
    elif column in VALUES:
        lines = [timelines.tcp_line(selection, run, flow, kind, shown.factor) for run, flow in flows]
    else:
        raise unknown("value", column, (*VALUES, "samples.KIND"))
    note = _clocks(selection) if kind.startswith("one-way-") else ""
    return timelines.draw(selection, lines, title=shown.words, ylabel=shown.label, steps=False, note=note)


def _clocks(selection: Selection) -> str:
    """Return the note on delays between two clocks; nothing where one clock is at both ends."""
    known = selection.rows.get_column("one_way_error_ms", default=None)
    off_ms = None if known is None else known.cast(pl.Float64).max()
    return f"two clocks: off by {off_ms:.3g} ms at most" if isinstance(off_ms, float) else ""
