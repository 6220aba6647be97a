"""The plot kind `cdf`: the empirical distribution of any column, one line for each group."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.lines import Line2D

from cwndlab.analysis.numeric import distribution
from cwndlab.report.plots import colours, facets, groups, paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection
from cwndlab.results import columns


def draw(selection: Selection) -> Plot:
    """Return the plot: share of `value` (default `tcp.rtt_ms`) at or below x, a line per value of `by`."""
    options = selection.options
    column = options.value or "tcp.rtt_ms"
    selection, keys = groups.readable(selection, column, default=1, entries=facets.MAX_LINES)
    options = selection.options
    panels, keys = groups.panels(selection, column, keys)
    lines = groups.lines(selection, panels, keys)
    figure, axes = paint.canvas(options, len(panels))
    rows = []
    for axis, panel in zip(axes, panels, strict=True):
        for group in panel.groups:
            sizes, share = distribution(group.values)
            # The function is 0 left of the lowest value and jumps there.
            x, y = np.concatenate((sizes[:1], sizes)), np.concatenate(([0.0], share))
            axis.plot(x, y, drawstyle="steps-post", **colours.pen(lines[group.cell].pen))
            told = dict(zip(keys, group.texts, strict=True))
            told |= {"panel": panel.heading} if panel.heading else {}
            rows.append(
                pl.DataFrame({**{key: [text] * len(x) for key, text in told.items()}, column: x, "share": y})
            )
        axis.set_ylim(0, 1.01)
        paint.heading(axis, panel.heading)
    figure.data = pl.concat(rows)
    shown = columns.describe(column.rpartition(".")[2])
    paint.outer(options, axes, x=shown.label, y="share of values at or below")
    entries = {line.name: Line2D([], [], **colours.pen(line.pen)) for line in lines.values()}
    paint.legend(figure, entries if keys else {}, options)
    over = f" by {groups.in_words(keys)}" if keys else ""
    paint.finish(figure, axes, options, f"{shown.words}{over}", groups.counted(selection, column))
    return figure
