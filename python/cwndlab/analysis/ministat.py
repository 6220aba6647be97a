"""A comparison as FreeBSD's ministat(1) prints it: the layout its users read daily."""

import math

import numpy as np
from numpy.typing import NDArray

from cwndlab.analysis.distributions import t_quantile

Floats = NDArray[np.float64]

WIDTH = 74
"""Characters of the plot inside its frame, as ministat without a terminal."""

_MARKS = ("x", "+")
_BOTH = "*"


def text(a: Floats, b: Floats, names: tuple[str, str], confidence: float = 0.95) -> str:
    """Two samples, one value per run, as `ministat -s` prints them.

    Plot, statistics, and Student's t with a pooled deviation, whose table has three decimals and ends at 100
    degrees of freedom. That test takes the values as independent, normal and of equal variance, and corrects
    for nothing: where the verdict of `compare` differs, `compare` knows more. Raises ValueError for a sample
    of fewer than three values, which ministat refuses.
    """
    if min(len(a), len(b)) < 3:
        raise ValueError("ministat needs three values a side")
    samples = np.sort(a), np.sort(b)
    lines = [f"{mark} {name}" for mark, name in zip(_MARKS, names, strict=True)]
    lines += _plot(*samples)
    lines.append("    N           Min           Max        Median           Avg        Stddev")
    lines += [_vitals(mark, values) for mark, values in zip(_MARKS, samples, strict=True)]
    lines += _relative(*samples, confidence)
    return "\n".join(lines)


def _vitals(mark: str, values: Floats) -> str:
    metrics = values[0], values[-1], _median(values), values.mean(), values.std(ddof=1)
    return f"{mark} {len(values):3d} " + " ".join(f"{metric:13.8g}" for metric in metrics)


def _relative(a: Floats, b: Floats, confidence: float) -> list[str]:
    n, m = len(a), len(b)
    freedom = n + m - 2 if n + m - 2 <= 100 else math.inf
    t = round(t_quantile((1 + confidence) / 2, freedom), 3)
    va, vb = float(a.var(ddof=1)), float(b.var(ddof=1))
    pooled = math.sqrt(((n - 1) * va + (m - 1) * vb) / (n + m - 2))
    off = float(b.mean() - a.mean())
    half = t * pooled * math.sqrt(1 / n + 1 / m)
    sure = f"{100 * confidence:.1f}% confidence"
    if not abs(off) > half:
        return [f"No difference proven at {sure}"]
    lines = [f"Difference at {sure}", f"\t{off:g} +/- {half:g}"]
    base = float(a.mean())
    if base != 0:
        # The spread of a ratio: that of its base counts as far as the ratio goes.
        ratio = float(b.mean()) / base
        spread = ((m - 1) * vb + (n - 1) * va * ratio**2) * (n + m) / (n * m * (n + m - 2))
        lines.append(f"\t{100 * off / base:g}% +/- {100 * t * math.sqrt(spread) / base:g}%")
    return [*lines, f"\t(Student's t, pooled s = {pooled:g})"]


def _plot(a: Floats, b: Floats) -> list[str]:
    ends = [f(v) for v in (a, b) for f in (_least, _most)]
    low, high = min(ends), max(ends)
    if high == low:
        return ["[no plot, span is zero width]"]
    step = (high - low) / (WIDTH - 1)

    def place(value: float) -> int:
        return int((value - (low - step / 2)) / step)

    counts = np.zeros((2, WIDTH), dtype=np.int64)
    bars = []
    for side, values in enumerate((a, b)):
        for value in values:
            counts[side, place(value)] += 1
        mean, sd = float(values.mean()), float(values.std(ddof=1))
        start, end = place(mean - sd), place(mean + sd)
        bar = [" "] * WIDTH
        bar[start : end + 1] = ["|", *["_"] * (end - start - 1), "|"][: end - start + 1]
        bar[place(_median(values))] = "M"
        bar[place(mean)] = "A"
        bars.append("".join(bar))
    edge = f"+{'-' * WIDTH}+"
    levels = range(int(counts.max()), 0, -1)
    rows = ["".join(_symbol(int(x), int(y), level) for x, y in counts.T) for level in levels]
    return [edge, *(f"|{row}|" for row in [*rows, *bars]), edge]


def _symbol(a: int, b: int, level: int) -> str:
    if a >= level and b >= level:
        return _BOTH
    return _MARKS[0] if a >= level else _MARKS[1] if b >= level else " "


def _median(values: Floats) -> float:
    return float(np.median(values))


def _least(values: Floats) -> float:
    return float(min(values[0], values.mean() - values.std(ddof=1)))


def _most(values: Floats) -> float:
    return float(max(values[-1], values.mean() + values.std(ddof=1)))
