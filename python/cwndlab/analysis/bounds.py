"""From where to where an interval of a mean is drawn: no further than the metric can be."""

from __future__ import annotations

import math

import polars as pl

from cwndlab.results import columns
from cwndlab.results.metrics import BY_NAME


def span(rows: pl.DataFrame, metric: str, mean: float, half: float) -> tuple[float, float]:
    """Return the ends of an interval around the mean of a metric over rows, in the unit that it is shown in.

    Student's t knows nothing of what there can be: of few runs it goes below 0, or beyond the rate of a link.
    """
    half = 0.0 if math.isnan(half) else half
    low, high = mean - half, mean + half
    least = rows[metric].min()
    if isinstance(least, int | float) and least >= 0:
        low = max(0.0, low)
    return low, max(mean, min(high, most(rows, metric)))


def most(rows: pl.DataFrame, metric: str) -> float:
    """Return the most that the mean of a metric over rows can be.

    Of a rate that is what the flows would have of a link that they fill.
    """
    known = BY_NAME.get(metric)
    if known is None:
        return math.inf
    if known.most is not None:
        return known.most * known.factor
    if known.unit != "Mbit/s" or known.over != "sum" or "utilisation" not in rows.columns:
        return math.inf
    used = rows.filter(pl.col("utilisation") > 0)
    if not used.height or used.height < rows.height:
        return math.inf
    full = (used[metric] / used["utilisation"]).drop_nulls().to_numpy()
    return float(full.mean()) * columns.describe(metric).factor
