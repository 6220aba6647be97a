"""The plot kind `goodput`: what is delivered in order, in windows of chosen length and overlap."""

from __future__ import annotations

from matplotlib.figure import Figure

from cwndlab.plots.selection import Selection
from cwndlab.plots.throughput import draw_rate


def draw(selection: Selection) -> Figure:
    """Return the plot in Mbit/s; see `throughput.draw_rate`."""
    return draw_rate(selection, "goodput")
