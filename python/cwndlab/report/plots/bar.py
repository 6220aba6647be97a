"""The plot kind `bar`: the mean of a column for each value of one to four keys, with its interval."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import polars as pl
from matplotlib.patches import Patch

from cwndlab.analysis import bounds
from cwndlab.analysis.numeric import mean_interval
from cwndlab.errors import InputError
from cwndlab.report.plots import colours, groups, paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection, floats
from cwndlab.results import columns


def draw(selection: Selection) -> Plot:
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
    panels, keys = groups.panels(selection, column, keys)
    layout = groups.layout(selection, panels, keys)
    figure, axes = paint.canvas(options, len(panels))
    interval = partial(_interval, column=column, confidence=options.confidence)
    bracket: dict[str, Any] = {"capsize": 3 * paint.scale(), "linewidth": 1.2 * paint.scale()}
    # Edges of many narrow bars would leave nothing of them.
    edge = min(0.8, 12 / (len(layout.places) * max(1, len(layout.series))))
    for axis, panel in zip(axes, panels, strict=True):
        for group in panel.groups:
            x, wide, place = layout.slot(group)
            mean, half = interval(group)
            axis.bar(x, mean, wide, edgecolor="white", linewidth=edge, **colours.fill(place))
            if not np.isnan(half):
                low, high = bounds.span(group.rows, column, mean, half)
                axis.errorbar(x, mean, yerr=[[mean - low], [high - mean]], color="#202020", **bracket)
        axis.grid(visible=False, axis="x")
        axis.set_xlim(-0.6, len(layout.places) - 0.4)
        paint.heading(axis, panel.heading)
    groups.label_axes(figure, axes, list(layout.places.values()))
    shown = columns.describe(column)
    paint.outer(options, axes, x=groups.in_words(keys[:-1] or keys), y=shown.label)
    figure.data = groups.table(
        panels,
        keys,
        mean=lambda group: interval(group)[0],
        half_interval=lambda group: interval(group)[1],
    )
    entries = {name: Patch(**colours.fill(layout.colours[value])) for value, name in layout.series.items()}
    paint.legend(figure, entries, options)
    over = f" over {groups.in_words(keys)}" if keys else ""
    note = f"mean and {100 * options.confidence:g} % interval over runs"
    paint.finish(figure, axes, options, f"{shown.words}{over}", note)
    return figure


def _interval(group: groups.Group, column: str, confidence: float) -> tuple[float, float]:
    """Return the mean of a group and half its interval over runs; flows of one run are no sample."""
    of_runs = group.rows.group_by("run_id", maintain_order=True).agg(pl.col(column).mean())[column]
    return mean_interval(floats(of_runs.drop_nulls()) * columns.describe(column).factor, confidence)
