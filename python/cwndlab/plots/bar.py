"""The plot kind `bar`: the mean of a column for each value of one to four keys, with its interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from cwndlab.analysis.numeric import mean_interval
from cwndlab.errors import InputError
from cwndlab.plots import grouped, paint
from cwndlab.plots.selection import Selection
from cwndlab.results import columns


def draw(selection: Selection) -> Figure:
    """Return the plot: mean of `value` (`goodput_mbps`) over the keys of `by`, the last as colours.

    The bracket is Student's t interval of the mean at `confidence`, over runs; a group that does not vary, or
    is a single run, has none. `value` must be a column of the summary: samples inside a run depend on each
    other, so an interval over them would be too narrow. Raises InputError otherwise.
    """
    options = selection.options
    column = options.value or "goodput_mbps"
    if selection.locate(column)[0] is not None:
        raise InputError(f"value: {column} is a series; bars need a column of the summary, one value per run")
    keys = selection.apart(selection.group_keys(most=4), column)
    found = grouped.groups(selection, column, keys)
    layout = grouped.layout(found)
    figure, (axis,) = paint.canvas(options)
    bracket: dict[str, Any] = {"capsize": 3 * paint.scale(), "linewidth": 1.2 * paint.scale()}
    for group in found:
        x, width, place = layout.slot(group)
        mean, half = mean_interval(group.values, options.confidence)
        axis.bar(x, mean, width, edgecolor="white", **paint.fill(place))
        if not np.isnan(half):
            axis.errorbar(x, mean, yerr=half, color="#202020", **bracket)
    shown = columns.describe(column)
    axis.set_ylabel(shown.label)
    grouped.label_axis(axis, layout, keys)
    handles = [Patch(**paint.fill(place)) for place in range(len(layout.series))]
    paint.legend(figure, handles, grouped.series_names(layout, options.labels), options)
    over = f" over {grouped.in_words(keys)}" if keys else ""
    note = f"mean and {100 * options.confidence:g} % interval over runs"
    paint.finish(figure, [axis], options, f"{shown.words}{over}", note)
    return figure
