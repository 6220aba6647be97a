"""The plot kind `goodput`: what is delivered in order, in windows of chosen length and overlap."""

from __future__ import annotations

from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection
from cwndlab.report.plots.throughput import draw_rate


def draw(selection: Selection) -> Plot:
    """Return the plot in Mbit/s; see `throughput.draw_rate`."""
    return draw_rate(selection, "goodput")
