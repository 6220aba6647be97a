"""The plot kind `cdf`: the empirical distribution of any column, one line for each group."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from cwndlab.analysis.numeric import distribution
from cwndlab.plots import grouped, paint
from cwndlab.plots.selection import Selection
from cwndlab.results import columns


def draw(selection: Selection) -> Figure:
    """Return the plot: share of `value` (default `tcp.rtt_ms`) at or below x, a line per value of `by`."""
    options = selection.options
    column = options.value or "tcp.rtt_ms"
    keys = selection.apart(selection.group_keys(most=3), column)
    found = grouped.groups(selection, column, keys)
    names = (
        grouped.checked(options.labels, len(found)) if options.labels else [group.label for group in found]
    )
    figure, (axis,) = paint.canvas(options)
    handles = []
    for place, group in enumerate(found):
        values, share = distribution(group.values)
        # The function is 0 left of the lowest value and jumps there.
        x, y = np.concatenate((values[:1], values)), np.concatenate(([0.0], share))
        handles += axis.plot(x, y, drawstyle="steps-post", **paint.pen(place))
    shown = columns.describe(column.rpartition(".")[2])
    axis.set_xlabel(shown.label)
    axis.set_ylabel("share of values at or below")
    axis.set_ylim(0, 1.01)
    paint.legend(figure, handles, names if keys else [""], options)
    over = f" by {grouped.in_words(keys)}" if keys else ""
    paint.finish(figure, [axis], options, f"{shown.words}{over}", grouped.counted(selection, column))
    return figure
