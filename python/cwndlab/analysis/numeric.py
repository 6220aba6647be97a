"""The arithmetic of the metrics: windowed throughput, min/max envelope, box statistics, distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cwndlab.analysis.distributions import t_quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NS_PER_S = 1_000_000_000
"""Nanoseconds in a second. Window edges are computed in integers, so they never drift."""


def windowed_rate(
    t_s: Floats,
    total_bytes: Floats,
    *,
    start_s: float,
    stop_s: float,
    window_s: float,
    overlap: float = 0.0,
    steps: bool = True,
) -> tuple[Floats, Floats]:
    """Return the rate of a byte counter in sliding windows: (centres of the windows in s, rates in Mbit/s).

    `total_bytes` counts from the start of the flow and holds from one sample to the next, or without `steps`
    lies on the line between them; it is 0 before its first sample. Windows are `(start, start + window_s]`,
    each beginning `window_s * (1 - overlap)` after the one before; only whole windows inside
    `start_s .. stop_s` are returned. A window without progress has rate 0: an idle second is a fact about the
    flow, not a missing value.

    Raises ValueError if `window_s` is not above 0 or `overlap` not in `0 <= overlap < 1`.
    """
    if not window_s > 0:
        raise ValueError("the window must be longer than 0 s")
    if not 0 <= overlap < 1:
        raise ValueError("the overlap must be at least 0 and below 1")
    width = round(window_s * NS_PER_S)
    step = max(1, round(width * (1 - overlap)))
    first, last = round(start_s * NS_PER_S), round(stop_s * NS_PER_S)
    starts = np.arange(first, last - width + 1, step, dtype=np.int64)
    times = np.rint(t_s * NS_PER_S).astype(np.int64)
    counter = np.concatenate(([0.0], total_bytes))
    if steps:
        done = counter[np.searchsorted(times, starts + width, side="right")]
        before = counter[np.searchsorted(times, starts, side="right")]
    else:
        done, before = (np.interp(at, times, total_bytes, left=0.0) for at in (starts + width, starts))
    return (starts + width / 2) / NS_PER_S, (done - before) * 8 / 1e6 / (width / NS_PER_S)


def envelope(t: Floats, y: Floats, columns: int) -> Ints:
    """Return the indices of the samples that draw the same line as all, in a plot `columns` pixels wide.

    The time span is cut into `columns` equal columns, and of each the first, the lowest, the highest and the
    last sample are kept (the M4 aggregation of Jugel et al., VLDB 2014, section 4): a dip of one sample stays
    visible however many samples share its pixel. NaN is a gap: one NaN of each column that has any is kept,
    so the gap stays. Everything is kept if there are no more than `4 * columns` samples. `t` must not
    decrease. Raises ValueError if `columns` is below 1.
    """
    if columns < 1:
        raise ValueError("an envelope needs at least one column")
    n = len(t)
    if n <= 4 * columns:
        return np.arange(n, dtype=np.int64)
    span = t[-1] - t[0]
    column = np.zeros(n, dtype=np.int64)
    if span > 0:
        column = np.minimum(((t - t[0]) / span * columns).astype(np.int64), columns - 1)
    gap = np.isnan(y)
    gaps = np.flatnonzero(gap)
    first_gap = gaps[np.unique(column[gaps], return_index=True)[1]]
    valid = np.flatnonzero(~gap)
    if not len(valid):
        return first_gap
    of_column, shown = column[valid], y[valid]
    first = np.flatnonzero(np.append(True, of_column[1:] != of_column[:-1]))
    last = np.append(first[1:], len(valid)) - 1
    count = last - first + 1
    lowest = _first_hits(shown == np.repeat(np.minimum.reduceat(shown, first), count), of_column)
    highest = _first_hits(shown == np.repeat(np.maximum.reduceat(shown, first), count), of_column)
    return np.unique(np.concatenate((valid[first], valid[last], valid[lowest], valid[highest], first_gap)))


def _first_hits(hit: NDArray[np.bool_], of_column: Ints) -> Ints:
    """Return the index of the first sample of each column where `hit`."""
    hits = np.flatnonzero(hit)
    return hits[np.unique(of_column[hits], return_index=True)[1]]


@dataclass(frozen=True)
class Box:
    """Figures of a sample that a box plot shows, in the sample's unit."""

    n: int
    mean: float
    q1: float
    median: float
    q3: float
    low: float
    """Lower whisker: the lowest value not more than 1.5 interquartile ranges below q1 (Tukey 1977)."""
    high: float
    """Upper whisker: the highest value not more than 1.5 interquartile ranges above q3 (Tukey 1977)."""
    outliers: tuple[float, ...]
    """Values beyond the whiskers, ascending."""


def box(values: Floats) -> Box | None:
    """Return the box statistics of `values`, NaN left out. None if nothing is left.

    Quartiles are interpolated linearly between order statistics (Hyndman and Fan 1996, type 7; numpy's
    default).
    """
    values = np.sort(values[~np.isnan(values)])
    if not len(values):
        return None
    q1, median, q3 = (float(q) for q in np.percentile(values, [25, 50, 75]))
    reach = 1.5 * (q3 - q1)
    inside = values[(values >= q1 - reach) & (values <= q3 + reach)]
    # A whisker never ends inside the box, even if the nearest value inside the reach does.
    low, high = min(float(inside[0]), q1), max(float(inside[-1]), q3)
    beyond = values[(values < q1 - reach) | (values > q3 + reach)]
    return Box(
        len(values), float(values.mean()), q1, median, q3, low, high, tuple(float(value) for value in beyond)
    )


def mean_interval(values: Floats, confidence: float = 0.95) -> tuple[float, float]:
    """Return (mean, half width of its Student t confidence interval) of independent `values`, NaN left out.

    The half width is NaN where there is none to give: a single value, or values that are all the same (a run
    that cannot vary is no sample). The mean of nothing is NaN.
    """
    values = values[~np.isnan(values)]
    if not len(values):
        return float("nan"), float("nan")
    mean = float(values.mean())
    if len(values) < 2 or bool(np.all(values == values[0])):
        return mean, float("nan")
    quantile = t_quantile((1 + confidence) / 2, len(values) - 1)
    return mean, quantile * float(values.std(ddof=1)) / float(np.sqrt(len(values)))


def distribution(values: Floats, points: int = 4000) -> tuple[Floats, Floats]:
    """Return the empirical distribution of `values`, NaN left out: (values ascending, share up to each).

    With more than `points` distinct values, some are left out so that no step of the drawn function is higher
    than about 1/`points`; the lowest and the highest always stay.
    """
    values = values[~np.isnan(values)]
    distinct, counts = np.unique(values, return_counts=True)
    share = np.cumsum(counts) / max(1, len(values))
    if len(distinct) > points:
        level = np.floor(share * points)
        keep = np.append(level[1:] != level[:-1], True)
        keep[0] = True
        distinct, share = distinct[keep], share[keep]
    return distinct, share


def ellipse(x: Floats, y: Floats) -> tuple[float, float, float, float, float] | None:
    """Return the 1-sigma covariance ellipse of points: (centre x, centre y, width, height, angle in degrees).

    Width and height are full axes, twice the square root of the covariance matrix's eigenvalues; points where
    either coordinate is NaN are left out. None if fewer than three points remain.
    """
    both = ~(np.isnan(x) | np.isnan(y))
    x, y = x[both], y[both]
    if len(x) < 3:
        return None
    eigenvalues, vectors = np.linalg.eigh(np.cov(x, y))
    minor, major = np.sqrt(np.maximum(eigenvalues, 0.0))
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    return float(x.mean()), float(y.mean()), float(2 * major), float(2 * minor), float(angle)
