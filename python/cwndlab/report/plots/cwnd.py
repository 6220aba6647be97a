"""The plot kind `cwnd`: congestion window over time, with ssthresh beside it."""

from __future__ import annotations

from cwndlab.report.plots import timelines
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection
from cwndlab.results.columns import describe


def draw(selection: Selection) -> Plot:
    """Return the plot: each flow's cwnd, and its ssthresh thin and dotted (none while infinite), in kB."""
    cwnd = describe("cwnd_bytes")
    lines = [
        timelines.tcp_line(selection, run, flow, "cwnd_bytes", cwnd.factor, companion="ssthresh_bytes")
        for run, flow in timelines.flows_of(selection)
    ]
    return timelines.draw(
        selection, lines, title="cwnd and ssthresh", ylabel=cwnd.label, steps=True, companion="ssthresh"
    )
