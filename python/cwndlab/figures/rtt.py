"""The figure kind `rtt`: round-trip time over time, sampled or smoothed."""

from __future__ import annotations

from matplotlib.figure import Figure

from cwndlab.figures import timelines
from cwndlab.figures.columns import describe
from cwndlab.figures.request import Request, unknown

VALUES = ("rtt_ms", "srtt_ms")


def draw(request: Request) -> Figure:
    """Return the figure, in ms: `value` is `rtt_ms` (newest sample, the default) or `srtt_ms` (smoothed)."""
    column = request.options.value or "rtt_ms"
    if column not in VALUES:
        raise unknown("value", column, VALUES)
    shown = describe(column)
    lines = [
        timelines.tcp_line(request, run, flow, column, shown.factor)
        for run, flow in timelines.flows_of(request)
    ]
    return timelines.draw(request, lines, title=shown.words, ylabel=shown.label, steps=False)
