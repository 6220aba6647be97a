"""The plot kind `delay`: throughput against delay, a point for each flow and run, an ellipse a group."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from cwndlab.analysis.numeric import ellipse
from cwndlab.errors import InputError
from cwndlab.plots import grouped, paint
from cwndlab.plots.selection import Selection, floats
from cwndlab.results import columns


def draw(selection: Selection) -> Figure:
    """Return the plot: `value` (`goodput_mbps`) upwards, `against` (`rtt_mean_ms`) growing leftwards.

    Up and right is better, as in Winstein, Sivaraman and Balakrishnan (NSDI 2013, figure 7). The ellipse is
    that of one standard deviation around the group's mean (`numeric.ellipse`); a group of fewer than three
    points has none. Both columns are of the summary; raises InputError otherwise.
    """
    options = selection.options
    up, left = options.value or "goodput_mbps", options.against or "rtt_mean_ms"
    for name in (up, left):
        if selection.locate(name)[0] is not None:
            raise InputError(f"value: {name} is a series; this kind needs columns of the summary")
    keys = selection.apart(selection.group_keys(most=3, default=3), up)
    found = [group for group in grouped.groups(selection, up, keys) if group.rows[left].count()]
    if not found:
        raise InputError(f"{left}: no value was recorded for these runs and flows")
    names = (
        grouped.checked(options.labels, len(found)) if options.labels else [group.label for group in found]
    )
    figure, (axis,) = paint.canvas(options)
    handles = []
    style: dict[str, Any] = {"markersize": 4 * paint.scale(), "alpha": 0.8}
    for place, group in enumerate(found):
        y = floats(group.rows[up]) * columns.describe(up).factor
        x = floats(group.rows[left]) * columns.describe(left).factor
        colour = paint.PALETTE[place % len(paint.PALETTE)]
        marker = paint.MARKERS[place % len(paint.MARKERS)]
        handles += axis.plot(x, y, linestyle="", marker=marker, color=colour, **style)
        found_ellipse = ellipse(x, y)
        if found_ellipse is not None:
            *centre, width, height, angle = found_ellipse
            # More areas than colours would be one grey one.
            inside = to_rgba(colour, 0.2 if len(found) <= len(paint.PALETTE) else 0.0)
            area = {"facecolor": inside, "edgecolor": to_rgba(colour, 0.5)}
            axis.add_patch(Ellipse((centre[0], centre[1]), width, height, angle=angle, **area))
            size = 9 * paint.scale()
            axis.plot(np.nanmean(x), np.nanmean(y), marker="+", markersize=size, color=colour, zorder=4)
    axis.set_xlabel(f"{columns.describe(left).label}   (less is right)")
    axis.set_ylabel(columns.describe(up).label)
    paint.legend(figure, handles, names if keys else [""], options)
    title = f"{columns.describe(up).words} against {columns.describe(left).words}"
    paint.finish(figure, [axis], options, title, "ellipse: one standard deviation")
    if options.xlim is None:
        axis.invert_xaxis()
    return figure
