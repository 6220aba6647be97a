"""The plot kind `heat`: the mean of a column over two keys, as a map with the value in every field."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from cwndlab.errors import InputError
from cwndlab.report.plots import facets, groups, paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection
from cwndlab.results import columns


def draw(selection: Selection) -> Plot:
    """Return the plot: mean of `value` (default `goodput_mbps`), first key of `by` across, second upwards.

    Where a field would hold flows of different applications, those of the first are shown. Fields without a
    value are hatched. `log="y"` makes the colour scale logarithmic. Raises InputError unless
    there are two keys.
    """
    facets.refuse(selection, "heat")
    options = selection.options
    column = options.value or "goodput_mbps"
    keys = selection.group_keys(most=2, default=2)
    if len(keys) < 2:
        raise InputError("by: a heat map needs two keys; the runs shown differ in fewer")
    app = ""
    if selection.apart(keys, column, ["app"]) != keys:
        selection, app = selection.of_one_app(column)
    found = groups.groups(selection, column, keys)
    across, upwards = (groups.places(group.cell[number] for group in found) for number in (0, 1))
    mean = np.full((len(upwards), len(across)), np.nan)
    for group in found:
        mean[upwards[group.cell[1]], across[group.cell[0]]] = group.values.mean()
    shown = columns.describe(column.rpartition(".")[2])
    if options.log and np.nanmin(mean) <= 0:
        raise InputError(
            f"log: {shown.words} has values of 0 or below, which a logarithmic scale cannot show"
        )
    figure, (axis,) = paint.canvas(options)
    axis.grid(visible=False)
    axis.set_facecolor("white")
    axis.patch.set_hatch("////")
    axis.patch.set_edgecolor("#b0b0b0")
    low, high = told_apart(float(np.nanmin(mean)), float(np.nanmax(mean)))
    norm = (LogNorm if options.log else Normalize)(low, high)
    image = axis.imshow(mean, origin="lower", aspect="auto", cmap="cividis", norm=norm)
    ticks = [{group.cell[number]: group.names[number] for group in found} for number in (0, 1)]
    axis.set_yticks(list(upwards.values()), [ticks[1][value] for value in upwards])
    share = field_share(figure, axis)
    points = fitting(figure, len(across), len(upwards), share)
    for row, column_number in np.argwhere(~np.isnan(mean)):
        value = mean[row, column_number]
        ink = "black" if norm(value) > 0.55 else "white"
        axis.text(column_number, row, written(value), ha="center", va="center", color=ink, fontsize=points)
    groups.label_axes(figure, [axis], [ticks[0][value] for value in across], share)
    across_words, upwards_words = groups.words(keys)
    axis.set_xlabel(across_words)
    axis.set_ylabel(upwards_words)
    figure.data = pl.DataFrame(
        [
            {**dict(zip(keys, group.texts, strict=True)), "n": len(group.values), column: group.values.mean()}
            for group in found
        ]
    )
    bar = figure.colorbar(image, ax=axis, label=shown.label, shrink=0.9)
    if options.log:
        bar.ax.yaxis.set_major_formatter(paint.plain_numbers())
        bar.ax.yaxis.set_minor_formatter(paint.plain_numbers())
    # The axes are names here: a logarithmic scale means the colours.
    title = f"{shown.words} over {groups.in_words(keys)}"
    note = f"mean, {groups.counted(selection, column)}"
    paint.title(figure, [axis], options, title, f"app {app}; {note}" if app else note)
    return figure


LEAST_SPAN = 0.1
"""Share of the largest value that the colours span at least."""


def told_apart(low: float, high: float) -> tuple[float, float]:
    """Return the range of the colours: that of values which hardly differ is wider, so they look alike."""
    lack = LEAST_SPAN * max(abs(low), abs(high)) - (high - low)
    if lack <= 0:
        return low, high
    # Not beyond zero, which a quantity without negative values does not reach.
    below = min(lack / 2, low) if low >= 0 else lack / 2
    return low - below, high + lack - below


def field_share(figure: Figure, axis: Axes) -> float:
    """Return the share of the width that fields have beside the names at the left and the colour scale."""
    names = max(label.get_window_extent().width for label in axis.get_yticklabels())
    return 0.78 - float(names) / figure.dpi / figure.get_figwidth()


def fitting(figure: Figure, across: int, upwards: int, share: float) -> float:
    """Return the size of type with which four digits fit into a field of fields that have that share of the
    width."""
    width, height = share * figure.get_figwidth() / across, 0.7 * figure.get_figheight() / upwards
    return float(min(mpl.rcParams["font.size"], 72 * width / 3.2, 72 * height / 1.5))


def written(value: float) -> str:
    """Return a value with three digits that tell, zeros too: 9.40 beside 9.15."""
    text = f"{value:#.3g}".removesuffix(".")
    return text if "e" not in text else f"{value:.3g}"
