"""The plot kind `heat`: the mean of a column over two keys, as a map with the value in every field."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from cwndlab.errors import InputError
from cwndlab.plots import grouped, paint
from cwndlab.plots.selection import Selection
from cwndlab.results import columns


def draw(selection: Selection) -> Figure:
    """Return the plot: mean of `value` (default `goodput_mbps`), first key of `by` across, second upwards.

    Where a field would hold flows of different applications, those of the first are shown. Fields without a
    value are hatched. `log="y"` makes the colour scale logarithmic. Raises InputError unless
    there are two keys.
    """
    options = selection.options
    column = options.value or "goodput_mbps"
    keys = selection.group_keys(most=2, default=2)
    if len(keys) < 2:
        raise InputError("by: a heat map needs two keys; the runs shown differ in fewer")
    app = ""
    if selection.apart(keys, column) != keys:
        selection, app = selection.of_one_app(column)
    found = grouped.groups(selection, column, keys)
    across = [str(name) for name in columns.ordered(group.names[0] for group in found)]
    upwards = [str(name) for name in columns.ordered(group.names[1] for group in found)]
    mean = np.full((len(upwards), len(across)), np.nan)
    for group in found:
        mean[upwards.index(group.names[1]), across.index(group.names[0])] = group.values.mean()
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
    norm = (LogNorm if options.log else Normalize)(float(np.nanmin(mean)), float(np.nanmax(mean)))
    image = axis.imshow(mean, origin="lower", aspect="auto", cmap="cividis", norm=norm)
    size = min(1.0, 14 / max(len(across), len(upwards)))
    for row, column_number in np.argwhere(~np.isnan(mean)):
        value = mean[row, column_number]
        ink = "black" if norm(value) > 0.55 else "white"
        points = size * float(figure.get_figwidth()) * (1.25 if options.size == "paper" else 1.15)
        axis.text(column_number, row, written(value), ha="center", va="center", color=ink, fontsize=points)
    axis.set_xticks(range(len(across)), across)
    axis.set_yticks(range(len(upwards)), upwards)
    across_words, upwards_words = grouped.words(keys)
    axis.set_xlabel(across_words)
    axis.set_ylabel(upwards_words)
    bar = figure.colorbar(image, ax=axis, label=shown.label, shrink=0.9)
    if options.log:
        bar.ax.yaxis.set_major_formatter(paint.plain_numbers())
        bar.ax.yaxis.set_minor_formatter(paint.plain_numbers())
    # The axes are names here: a logarithmic scale means the colours.
    title = f"{shown.words} over {grouped.in_words(keys)}"
    note = f"mean, {grouped.counted(selection, column)}"
    paint.title(figure, [axis], options, title, f"app {app}; {note}" if app else note)
    return figure


def written(value: float) -> str:
    """Return a value with three digits that tell, zeros too: 9.40 beside 9.15."""
    text = f"{value:#.3g}".removesuffix(".")
    return text if "e" not in text else f"{value:.3g}"
