"""The plot kind `delay`: throughput against delay, a point for each flow and run, an ellipse a group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse

from cwndlab.analysis.numeric import Floats, ellipse
from cwndlab.errors import InputError
from cwndlab.report.plots import colours, groups, paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection, floats
from cwndlab.results import columns


def draw(selection: Selection) -> Plot:
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
    selection, keys = groups.readable(selection, up, default=3, entries=groups.MAX_ENTRIES)
    options = selection.options
    panels, keys = groups.panels(selection, up, keys)
    panels = [
        replace(panel, groups=[group for group in panel.groups if group.rows[left].count()])
        for panel in panels
    ]
    if not any(panel.groups for panel in panels):
        raise InputError(f"{left}: no value was recorded for these runs and flows")
    lines = groups.lines(selection, panels, keys)
    figure, axes = paint.canvas(options, len(panels))
    rows: list[pl.DataFrame] = []
    area = False
    for axis, panel in zip(axes, panels, strict=True):
        for group in panel.groups:
            x = floats(group.rows[left]) * columns.describe(left).factor
            y = floats(group.rows[up]) * columns.describe(up).factor
            # More areas than colours would be one grey one.
            area |= _group(axis, x, y, lines[group.cell].pen, shaded=len(lines) <= len(colours.PALETTE))
            told = dict(zip(keys, group.texts, strict=True)) | {"panel": panel.heading}
            frame = {key: [text] * len(x) for key, text in told.items()}
            rows.append(pl.DataFrame({"run": group.rows["run_id"], **frame, left: x, up: y}))
        paint.heading(axis, panel.heading)
    figure.data = pl.concat(rows)
    paint.outer(
        options, axes, x=f"{columns.describe(left).label}   (less is right)", y=columns.describe(up).label
    )
    entries = {line.name: Line2D([], [], linestyle="", **colours.marker(line.pen)) for line in lines.values()}
    paint.legend(figure, entries if keys else {}, options)
    _told_apart(axes[0], options.log)
    title = f"{columns.describe(up).words} against {columns.describe(left).words}"
    paint.finish(figure, axes, options, title, "ellipse: one standard deviation" if area else "")
    if options.xlim is None:
        axes[0].invert_xaxis()
    return figure


LEAST_SPAN = 0.01
"""Share of the largest value that an axis spans at least."""


def _told_apart(axis: Axes, log: str) -> None:
    """Widen the axes, which all panels have in common, so that values that hardly differ lie together."""
    for name, span, widen in (("x", axis.get_xlim(), axis.set_xlim), ("y", axis.get_ylim(), axis.set_ylim)):
        lack = LEAST_SPAN * max(map(abs, span)) - (span[1] - span[0])
        if lack > 0 and name not in log:
            widen(span[0] - lack / 2, span[1] + lack / 2)


def _group(axis: Axes, x: Floats, y: Floats, place: int, *, shaded: bool) -> bool:
    """Draw the points of a group, their mean and their ellipse; return whether it has one."""
    style: dict[str, Any] = {"markersize": 4 * paint.scale(), "alpha": 0.8}
    pen = colours.marker(place)
    axis.plot(x, y, linestyle="", **pen, **style)
    found = ellipse(x, y)
    if found is None:
        return False
    *centre, width, height, angle = found
    inside = to_rgba(pen["color"], 0.2 if shaded else 0.0)
    area = {"facecolor": inside, "edgecolor": to_rgba(pen["color"], 0.5)}
    axis.add_patch(Ellipse((centre[0], centre[1]), width, height, angle=angle, **area))
    size = 9 * paint.scale()
    axis.plot(np.nanmean(x), np.nanmean(y), marker="+", markersize=size, color=pen["color"], zorder=4)
    return True
