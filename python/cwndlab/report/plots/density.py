"""The plot kind `density`: where the samples of two columns of a series lie, as a map of how many."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.colors import LogNorm

from cwndlab.analysis.numeric import Floats
from cwndlab.errors import InputError
from cwndlab.report.plots import facets, paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection
from cwndlab.results import columns

BINS = 80
"""Fields of the map along each axis."""


def draw(selection: Selection) -> Plot:
    """Return the plot: `value` (`tcp.cwnd_bytes`) upwards, `against` (`tcp.rtt_ms`) across.

    Both are columns of one series, so that a sample has both; a field's colour is the share of the panel's
    samples that lie in it, on a logarithmic scale. Raises InputError for columns of two tables.
    """
    options = selection.options
    up, across = options.value or "tcp.cwnd_bytes", options.against or "tcp.rtt_ms"
    (table, _), (other, _) = selection.locate(up), selection.locate(across)
    if table is None or table != other or table == "samples":
        raise InputError(f"value: {up} and {across} are not columns of one series, such as tcp.cwnd_bytes")
    parts, _ = facets.split(selection)
    points = [(heading, own.values(across, own.rows), own.values(up, own.rows)) for heading, own in parts]
    known = [(heading, *_both(x, y)) for heading, x, y in points]
    if not any(len(x) for _, x, _ in known):
        raise InputError(f"{up}: nothing was recorded for these runs, flows and times")
    edges = [
        np.linspace(low, high + 0.02 * (high - low) or 1.0, BINS + 1)
        for low, high in (_range([x for _, x, _ in known]), _range([y for _, _, y in known]))
    ]
    figure, axes = paint.canvas(options, len(known))
    shares = [np.histogram2d(x, y, bins=edges)[0] / max(1, len(x)) for _, x, y in known]
    least = min(float(share[share > 0].min()) for share in shares if (share > 0).any())
    norm = LogNorm(least, max(1.01 * least, *(float(share.max()) for share in shares)))
    rows = []
    for axis, (heading, _, _), share in zip(axes, known, shares, strict=True):
        image = axis.pcolormesh(
            edges[0], edges[1], np.ma.masked_equal(share.T, 0), norm=norm, cmap="cividis", rasterized=True
        )
        paint.heading(axis, heading)
        column, row = np.nonzero(share)
        middles = [(edge[1:] + edge[:-1]) / 2 for edge in edges]
        told = {across: middles[0][column], up: middles[1][row], "share": share[column, row]}
        rows.append(pl.DataFrame({"panel": [heading] * len(column), **told}))
    figure.data = pl.concat(rows)
    names = [columns.describe(name.rpartition(".")[2]) for name in (across, up)]
    paint.outer(options, axes, x=names[0].label, y=names[1].label)
    bar = figure.colorbar(image, ax=axes, label="share of the samples")
    bar.ax.yaxis.set_major_formatter(paint.plain_numbers())
    paint.finish(figure, axes, options, f"{names[1].words} and {names[0].words}", "all samples")
    return figure


def _both(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the samples that have both."""
    known = ~(np.isnan(x) | np.isnan(y))
    return x[known], y[known]


def _range(values: list[Floats]) -> tuple[float, float]:
    """Return the ends of an axis: it begins at 0 unless that would leave more than half of it empty."""
    together = np.concatenate(values)
    low, high = float(together.min()), float(together.max())
    return 0.0 if 0 <= low <= high / 2 or low == high else low, high
