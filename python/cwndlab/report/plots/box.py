"""The plot kind `box`: the distribution of a column for each value of one to four keys, with its mean."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from cwndlab.analysis.numeric import Floats, box
from cwndlab.report.plots import colours, groups, paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection
from cwndlab.results import columns

MAX_POINTS = 300
"""Number of values of a group that are drawn as points; of more, only those beyond the whiskers are."""


def draw(selection: Selection) -> Plot:
    """Return the plot: `value` (default `goodput_mbps`) over the keys of `by`, the last as colours.

    Boxes are quartiles with the median, whiskers as in `numeric.box`, a diamond is the mean, dots are the
    values.
    """
    options = selection.options
    column = options.value or "goodput_mbps"
    keys = selection.apart(selection.group_keys(most=4), column)
    panels, keys = groups.panels(selection, column, keys)
    layout = groups.layout(selection, panels, keys)
    figure, axes = paint.canvas(options, len(panels))
    for axis, panel in zip(axes, panels, strict=True):
        for group in panel.groups:
            x, wide, place = layout.slot(group)
            _box(axis, group.values, x, wide, colours.fill(place), dots=options.points)
        axis.grid(visible=False, axis="x")
        axis.set_xlim(-0.6, len(layout.places) - 0.4)
        paint.heading(axis, panel.heading)
    groups.label_axes(figure, axes, list(layout.places.values()))
    shown = columns.describe(column.rpartition(".")[2])
    paint.outer(options, axes, x=groups.in_words(keys[:-1] or keys), y=shown.label)
    figure.data = groups.table(panels, keys, **{name: partial(_statistic, name) for name in _STATISTICS})
    entries: dict[str, Artist] = {
        name: Patch(alpha=0.45, **colours.fill(layout.colours[value]))
        for value, name in layout.series.items()
    }
    entries["mean"] = Line2D(
        [], [], linestyle="", marker="D", markersize=4 * paint.scale(), color="white", markeredgecolor="black"
    )
    paint.legend(figure, entries, options)
    over = f" over {groups.in_words(keys)}" if keys else ""
    paint.finish(figure, axes, options, f"{shown.words}{over}", groups.counted(selection, column))
    return figure


_STATISTICS = ("mean", "low", "q1", "median", "q3", "high")


def _statistic(name: str, group: groups.Group) -> float:
    statistics = box(group.values)
    return float("nan") if statistics is None else float(getattr(statistics, name))


def _box(axis: Axes, values: Floats, x: float, width: float, fill: dict[str, Any], *, dots: bool) -> None:
    statistics = box(values)
    if statistics is None:
        return
    drawn = {
        "med": statistics.median,
        "q1": statistics.q1,
        "q3": statistics.q3,
        "whislo": statistics.low,
        "whishi": statistics.high,
        "mean": statistics.mean,
        "fliers": [],
    }
    colour = fill["facecolor"]
    axis.bxp(
        [drawn],
        positions=[x],
        widths=width,
        manage_ticks=False,
        showmeans=True,
        showfliers=False,
        patch_artist=True,
        boxprops={"alpha": 0.35, "edgecolor": colour, **fill},
        medianprops={"color": colour, "linewidth": 1.8 * paint.scale()},
        whiskerprops={"color": colour},
        capprops={"color": colour},
        meanprops={
            "marker": "D",
            "markersize": 4 * paint.scale(),
            "markerfacecolor": "white",
            "markeredgecolor": "black",
            "zorder": 4,
        },
    )
    style: dict[str, Any]
    if dots and len(values) <= MAX_POINTS:
        shown, style = values, {"markersize": 2.6 * paint.scale(), "alpha": 0.65}
        place = x + _spread(len(shown), width)
    else:
        shown, style = distinct(np.array(statistics.outliers)), {"markersize": 1.6 * paint.scale()}
        place = np.full(len(shown), x)
    axis.plot(place, shown, linestyle="", marker="o", color=colour, zorder=3, markeredgewidth=0, **style)


def distinct(values: Floats) -> Floats:
    """Return one of the ascending values for each small part of their range: what can be told apart."""
    if len(values) <= MAX_POINTS:
        return values
    part = np.floor((values - values[0]) / max(values[-1] - values[0], 1e-300) * MAX_POINTS)
    return np.asarray(values[np.append(True, part[1:] != part[:-1])])


def _spread(count: int, width: float) -> Floats:
    """Return sideways offsets that keep points apart: the golden-ratio sequence, the same every time."""
    ratio = np.arange(1, count + 1, dtype=np.float64) * 0.6180339887498949
    return np.asarray((ratio % 1.0 - 0.5) * width * 0.7, dtype=np.float64)
