"""The statistics behind a comparison of two sets of runs: intervals, permutation tests, power.

Runs are the unit. All functions take one value per run, as float arrays of shape (runs,), in any unit;
differences are b - a in that unit. What is random draws from a generator handed in, so that equal input gives
equal output.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cwndlab.analysis.distributions import (
    chi_square_quantiles,
    normal_below,
    normal_quantile,
    t_above,
    t_quantile,
)

Floats = NDArray[np.float64]
_T = TypeVar("_T", bound=np.generic)

MAX_EXACT = 50_000
"""Arrangements up to which a permutation test looks at all: 9 against 9 runs, or 15 pairs."""

MIN_DRAWS = 19_999
"""Random arrangements of a permutation test that cannot look at all.

With the observed one, p is a multiple of 1/20000 (Phipson and Smyth 2010: it is never 0)."""

MAX_DRAWS = 1_999_999
"""Greatest number of random arrangements, for many comparisons, which need small p."""

RESAMPLES = 9_999
"""Resamples of a bootstrap."""

MAX_VALUES = 2_000_000
"""Values of resamples or arrangements that are drawn at a time."""

MAX_KEPT = 2 * MAX_VALUES
"""Values of draws that are kept for comparisons of equal size."""

AT_ONCE = 1 << 16
"""Values of resamples that are looked at at a time: what a processor's cache holds."""

POWER = 0.8
"""Chance that a difference of the size stated shows: the field's custom (Cohen 1988, section 2.4)."""

MAX_RUNS = 100_000
"""Runs beyond which `runs_needed` gives up."""

MIN_RUNS = 5
MIN_PAIRS = 8
"""Runs a side, and pairs, from which the bootstrap gives an interval.

Below that resamples are few and some hold one run over and over: its 95 % intervals are right but, of normal
values, half as wide again as Student's (5 pairs) or more."""

DEGENERATE = 0.2
"""Share of the sample's standard error below which that of a resample is of a few equal values.

It divides by next to nothing. Of ten normal values one resample in a thousand is so, of nine equal ones and
an outlier one in three."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval of the difference b - a."""

    low: float
    high: float


@dataclass(frozen=True)
class Test:
    """Result of a permutation test."""

    p: float
    """Share of the arrangements whose statistic is at least as far from 0 as the observed one (two-sided)."""
    smallest: float
    """The smallest p this many runs could give."""
    arrangements: int
    """Number of arrangements that were looked at."""
    exact: bool
    """Whether these are all there are."""


class Draws:
    """Random arrays of a seed, in order. What is drawn once more after equal draws is made once."""

    def __init__(self, seed: int) -> None:
        """Nothing is drawn yet."""
        self._random = np.random.default_rng(seed)
        self._first = self._random.bit_generator.state
        self._made: dict[tuple[object, ...], tuple[NDArray[Any], Mapping[str, Any]]] = {}
        """Arrays by all that was drawn until then, and the generator's state behind them."""
        self.again()

    def again(self) -> "Draws":
        """Draw from the beginning."""
        self._drawn: tuple[object, ...] = ()
        self._state: Mapping[str, Any] = self._first
        return self

    def of(self, draw: Callable[..., NDArray[_T]], *of: int) -> NDArray[_T]:
        """Return what `draw` makes of the generator and some numbers."""
        self._drawn += (draw, of)
        if self._drawn not in self._made:
            self._random.bit_generator.state = self._state
            made = draw(self._random, *of)
            if made.size + sum(kept.size for kept, _ in self._made.values()) > MAX_KEPT:
                self._made.clear()
            self._made[self._drawn] = made, self._random.bit_generator.state
        made, self._state = self._made[self._drawn]
        return made


def welch(a: Floats, b: Floats, confidence: float) -> tuple[Interval, float]:
    """Welch's interval of the difference of two means, and its p (Welch 1947; unequal variances).

    Raises ValueError with fewer than two values a side, or without any variance.
    """
    error, freedom = _welch_error(a, b)
    t = (b.mean() - a.mean()) / error
    half = t_quantile((1 + confidence) / 2, freedom) * error
    centre = float(b.mean() - a.mean())
    return Interval(centre - half, centre + half), 2 * t_above(abs(t), freedom)


def student(d: Floats, confidence: float) -> tuple[Interval, float]:
    """Student's interval of the mean of paired differences, and its p (Student 1908).

    Raises ValueError with fewer than two values, or without any variance.
    """
    error = _error(d)
    half = t_quantile((1 + confidence) / 2, len(d) - 1) * error
    centre = float(d.mean())
    return Interval(centre - half, centre + half), 2 * t_above(abs(centre / error), len(d) - 1)


def bootstrap(a: Floats, b: Floats, confidence: float, random: Draws) -> Interval | None:
    """Bootstrap-t interval of the difference of two means (Efron and Tibshirani 1993, section 12.5).

    Runs are resampled whole: each is one block, however its samples depend on one another (Davison and
    Hinkley 1997, section 3.8). None where too many resamples are `DEGENERATE`, or the interval would
    lie beside the difference. Raises ValueError as `welch` does.
    """
    error, _ = _welch_error(a, b)
    means, errors = _resampled((a, b), random)
    return _studentised(float(b.mean() - a.mean()), error, means[1] - means[0], np.hypot(*errors), confidence)


def bootstrap_paired(d: Floats, confidence: float, random: Draws) -> Interval | None:
    """Return the interval of paired differences: pairs are resampled whole. Raises ValueError as `student`
    does.
    """
    means, errors = _resampled((d,), random)
    return _studentised(float(d.mean()), _error(d), means[0], errors[0], confidence)


def permutation_test(a: Floats, b: Floats, random: Draws, draws: int = MIN_DRAWS) -> Test:
    """Permutation test of the difference of two means, two-sided: which runs are a's is arbitrary if none is.

    The statistic is Welch's t, which keeps the test right in large samples also where the variances differ
    (Janssen 1997); with a single run on a side it is the difference of means. All arrangements are looked at
    up to `MAX_EXACT`, else `draws` random ones.
    """
    n, m = len(a), len(b)
    values = np.concatenate((a, b))
    values = values - values.mean()
    scale = float(np.abs(values).max())
    values /= scale if scale > 0 else 1.0
    exact = _arrangements(n, m, paired=False) <= MAX_EXACT
    groups = [_subsets(n + m, n)] if exact else _random_subsets(n + m, n, draws, random)
    found = np.concatenate([_statistic(values, chosen) for chosen in groups])
    seen = float(_statistic(values, np.arange(n)[None, :])[0])
    return _test(found, seen, smallest_p(n, m, paired=False, draws=draws), exact)


def sign_test(d: Floats, random: Draws, draws: int = MIN_DRAWS) -> Test:
    """Permutation test of paired differences, two-sided: which of a pair is a is arbitrary if none is.

    The statistic is the mean (equivalent to t: the sum of squares is the same in all arrangements, which are
    the signs). All are looked at up to `MAX_EXACT`, else `draws` random ones.
    """
    exact = _arrangements(len(d), len(d), paired=True) <= MAX_EXACT
    scale = float(np.abs(d).max())
    unit = d / (scale if scale > 0 else 1.0)
    least = smallest_p(len(d), len(d), paired=True, draws=draws)
    signs = [_signs(len(d))] if exact else _random_signs(len(d), draws, random)
    found = np.concatenate([np.abs(chosen @ unit) for chosen in signs])
    return _test(found, float(abs(unit.sum())), least, exact)


def smallest_p(n: int, m: int, *, paired: bool, draws: int = MIN_DRAWS) -> float:
    """The smallest p a permutation test of n against m runs (or n pairs) could give."""
    count = _arrangements(n, m, paired=paired)
    if count > MAX_EXACT:
        return 1 / (draws + 1)
    return min(1.0, (2 if paired or n == m else 1) / count)


def holm(ps: Sequence[float]) -> list[float]:
    """p corrected for as many comparisons as there are (Holm 1979): reject those at most alpha.

    Keeps the chance of any false alarm among all below alpha, however they depend on one another.
    """
    order = np.argsort(ps, kind="stable")
    corrected = np.empty(len(ps))
    running = 0.0
    for rank, place in enumerate(order):
        running = max(running, min(1.0, ps[place] * (len(ps) - rank)))
        corrected[place] = running
    return [float(p) for p in corrected]


def draws_for(comparisons: int, alpha: float) -> int:
    """Random arrangements that let p be a tenth of alpha over the number of comparisons."""
    return min(MAX_DRAWS, max(MIN_DRAWS, math.ceil(10 * comparisons / alpha) - 1))


def detectable(
    sd: tuple[float, float], runs: tuple[int, int], alpha: float, *, paired: bool, draws: int = MIN_DRAWS
) -> float:
    """The smallest true difference of means that this design shows in `POWER` of all cases.

    `sd` are the standard deviations of a and b (paired: that of the differences, twice), `runs` their
    numbers. Of few runs, by carrying the permutation test out on normal values; else from the noncentral t
    distribution. Infinite where the test cannot reach `alpha`, or with fewer than two runs on a side.
    """
    error, freedom = _design(sd, runs, paired=paired)
    level = _attainable(alpha, smallest_p(*runs, paired=paired, draws=draws))
    if level == 0 or freedom <= 0:
        return math.inf
    if _few(runs, paired=paired):
        return error * _simulated_distance(runs, level, paired)
    return error * _noncentral_distance(freedom, level)


def power(
    effect: float, sd: tuple[float, float], runs: tuple[int, int], alpha: float, *, paired: bool
) -> float:
    """Chance that a true difference `effect` shows in this design; arguments as for `detectable`."""
    error, freedom = _design(sd, runs, paired=paired)
    level = _attainable(alpha, smallest_p(*runs, paired=paired, draws=MAX_DRAWS))
    if level == 0 or freedom <= 0:
        return 0.0
    if error == 0:
        return 1.0
    rough = _noncentral_power(abs(effect) / error, freedom, level)
    if rough < POWER / 2 or not _few(runs, paired=paired):
        return rough
    return _simulated_power(abs(effect) / error, runs, level, paired)


def runs_needed(effect: float, sd: tuple[float, float], alpha: float, *, paired: bool) -> int | None:
    """Runs a side (or pairs) of which a true difference `effect`, not 0, shows in `POWER` of all cases.

    None above `MAX_RUNS`.
    """

    def enough(runs: int) -> bool:
        return power(effect, sd, (runs, runs), alpha, paired=paired) >= POWER

    # Begin where the normal distribution would have it.
    reach = (normal_quantile(POWER) - normal_quantile(alpha / 2)) / abs(effect)
    about = reach**2 * (sd[0] ** 2 if paired else sd[0] ** 2 + sd[1] ** 2)
    if about > MAX_RUNS:
        return None
    runs, too_few = max(2, math.ceil(about)), None
    while not enough(runs):
        runs, too_few = runs + max(1, runs // 64), runs
    if too_few is not None:
        return bisect_left(range(runs), x=True, lo=too_few + 1, key=enough)
    while runs > 2 and enough(runs - 1):
        runs -= 1
    return runs


def runs_to_reach(alpha: float, *, paired: bool) -> int:
    """The fewest runs a side (or pairs) of which the smallest p is at most alpha."""
    runs = 2
    while smallest_p(runs, runs, paired=paired, draws=MAX_DRAWS) > alpha:
        runs += 1
    return runs


def equivalence(a: Floats, b: Floats, share: float, *, paired: bool) -> float:
    """p of the two one-sided tests that b differs from a by less than `share` of a's mean (Schuirmann 1987).

    Each side tests the contrast b - (1 ± share) a, so that a's own uncertainty counts (Fieller 1954). The
    means are equivalent at level alpha where p is at most alpha. Raises ValueError with fewer than two values
    a side, without any variance, or where a's mean is not above 0.
    """
    if not a.mean() > 0:
        raise ValueError("a share of a mean that is not above 0")
    ps = []
    for factor, sign in ((1 - share, 1), (1 + share, -1)):
        if paired:
            contrast = sign * (b - factor * a)
            error, freedom = _error(contrast), float(len(a) - 1)
            centre = float(contrast.mean())
        else:
            error, freedom = _welch_error(factor * a, b)
            centre = float(sign * (b.mean() - factor * a.mean()))
        ps.append(t_above(centre / error, freedom))
    return max(ps)


def effective_size(series: Floats) -> float:
    """Number of independent samples whose mean is as certain as that of these, at most as many.

    From the integrated autocorrelation time, summed while pairs of it are positive (Geyer 1992, section 3.3,
    initial positive sequence).
    """
    n = len(series)
    correlation = _autocorrelation(series)
    if correlation is None:
        return float(n)
    total = 1.0
    for lag in range(1, n - 1, 2):
        pair = correlation[lag] + correlation[lag + 1]
        if pair <= 0:
            break
        total += 2 * pair
    return float(min(n, n / total))


def within_runs(a: Floats, b: Floats, confidence: float) -> Interval:
    """Interval of the difference of the means of two series of samples that depend on their neighbours.

    Welch's, with `effective_size` for the numbers of samples. It tells how well the means of these two runs
    are known, and nothing of how runs differ. Of 95 % intervals it covers 96 % without autocorrelation, 93 %
    at 0.8 and 87 % at 0.9 from sample to sample (90 samples). Raises ValueError as `welch` does.
    """
    if len(a) < 2 or len(b) < 2:
        raise ValueError("a variance needs two values")
    sizes = effective_size(a), effective_size(b)
    parts = float(a.var(ddof=1)) / sizes[0], float(b.var(ddof=1)) / sizes[1]
    if sum(parts) == 0:
        raise ValueError("values that do not vary have no interval")
    below = sum(part**2 / max(1.0, size - 1) for part, size in zip(parts, sizes, strict=True))
    half = t_quantile((1 + confidence) / 2, sum(parts) ** 2 / below) * math.sqrt(sum(parts))
    centre = float(b.mean() - a.mean())
    return Interval(centre - half, centre + half)


def _welch_error(a: Floats, b: Floats) -> tuple[float, float]:
    """Standard error of b.mean() - a.mean(), and its degrees of freedom (Welch-Satterthwaite)."""
    if len(a) < 2 or len(b) < 2:
        raise ValueError("a variance needs two values")
    parts = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
    squared = sum(parts)
    if squared == 0:
        raise ValueError("values that do not vary have no interval")
    freedom = squared**2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
    return math.sqrt(squared), freedom


def _error(d: Floats) -> float:
    if len(d) < 2:
        raise ValueError("a variance needs two values")
    error = float(d.std(ddof=1)) / math.sqrt(len(d))
    if error == 0:
        raise ValueError("values that do not vary have no interval")
    return error


def _resampled(sets: Sequence[Floats], random: Draws) -> tuple[list[Floats], list[Floats]]:
    """Means of resamples of each set, and their standard errors."""
    means, errors = [], []
    for values in sets:
        n = len(values)
        drawn = (random.of(_places, rows, n) for rows in _chunks(RESAMPLES, n))
        step = max(1, AT_ONCE // n)
        parts = [
            _mean_and_sd(values[places[row : row + step]])
            for places in drawn
            for row in range(0, len(places), step)
        ]
        means.append(np.concatenate([mean for mean, _ in parts]))
        errors.append(np.concatenate([sd for _, sd in parts]) / math.sqrt(n))
    return means, errors


def _places(random: np.random.Generator, rows: int, of: int) -> NDArray[np.int64]:
    return random.integers(0, of, (rows, of))


def _mean_and_sd(rows: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of each row, in whose place its squares are made."""
    mean = rows.mean(axis=1)
    rows -= mean[:, None]
    rows *= rows
    return mean, np.sqrt(rows.sum(axis=1) / (rows.shape[1] - 1))


def _chunks(rows: int, width: int) -> Iterator[int]:
    """Numbers of rows of that width that make up all of them, and fit into some megabytes each."""
    most = max(1, MAX_VALUES // width)
    for start in range(0, rows, most):
        yield min(most, rows - start)


def _studentised(
    centre: float, error: float, found: Floats, errors: Floats, confidence: float
) -> Interval | None:
    tail = (1 - confidence) / 2
    if np.mean(errors <= DEGENERATE * error) >= tail:
        return None
    off = found - centre
    # Of those that are left, one run over and over has no error of its own, and lies as far out as can be.
    flat = errors <= 1e-9 * error
    far = np.where(off > 0, np.inf, -np.inf)
    t = np.where(flat, far, off / np.where(flat, 1.0, errors))
    t[flat & (np.abs(off) <= 1e-9 * error)] = 0.0
    low, high = np.quantile(t, [tail, 1 - tail], method="nearest")
    if not low <= 0 <= high:
        return None
    return Interval(float(centre - high * error), float(centre - low * error))


def _statistic(values: Floats, chosen: NDArray[np.int64]) -> Floats:
    """|t| of Welch for each row of `chosen`, the places of a's values among all.

    `values` may be many such sets, in its last axis. Variances are those of each side about its own mean, not
    differences of sums of squares: sides that lie close together and far apart would lose all digits there,
    and an arrangement and its mirror image would no longer be equal.
    """
    n, m = chosen.shape[1], values.shape[-1] - chosen.shape[1]
    a, b = values[..., chosen], values[..., _others(values.shape[-1], chosen)]
    off = np.abs(a.mean(axis=-1) - b.mean(axis=-1))
    if n < 2 or m < 2:
        return np.asarray(off, dtype=np.float64)
    squared = a.var(axis=-1, ddof=1) / n + b.var(axis=-1, ddof=1) / m
    flat = squared <= 1e-12
    t = np.where(flat, np.inf, off / np.sqrt(np.where(flat, 1.0, squared)))
    t[flat & (off <= 1e-9)] = 0.0
    return np.asarray(t, dtype=np.float64)


def _test(found: Floats, seen: float, least: float, exact: bool) -> Test:
    # Equal but for rounding counts as equal.
    reached = int(np.count_nonzero(found >= seen * (1 - 1e-9)))
    p = reached / len(found) if exact else (reached + 1) / (len(found) + 1)
    return Test(p, least, len(found), exact)


def _arrangements(n: int, m: int, *, paired: bool) -> float:
    """Number of arrangements; infinite where they would take long to count, too."""
    if paired:
        return 2**n if n < 64 else math.inf
    return math.comb(n + m, n) if min(n, m) < 16 else math.inf


@lru_cache(maxsize=8)
def _subsets(of: int, size: int) -> NDArray[np.int64]:
    return np.array(list(combinations(range(of), size)), dtype=np.int64)


def _others(of: int, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places that each row leaves."""
    left = np.ones((len(chosen), of), dtype=bool)
    np.put_along_axis(left, chosen, False, axis=1)
    return np.nonzero(left)[1].reshape(len(chosen), -1)


def _random_subsets(of: int, size: int, draws: int, random: Draws) -> Iterator[NDArray[np.int64]]:
    for rows in _chunks(draws, of):
        yield random.of(_chosen, rows, of, size)


def _chosen(random: np.random.Generator, rows: int, of: int, size: int) -> NDArray[np.int64]:
    keys = random.random((rows, of), dtype=np.float32)
    return np.argsort(keys, axis=1)[:, :size].copy()


def _random_signs(pairs: int, draws: int, random: Draws) -> Iterator[Floats]:
    for rows in _chunks(draws, pairs):
        yield random.of(_plus_or_minus, rows, pairs)


def _plus_or_minus(random: np.random.Generator, rows: int, pairs: int) -> Floats:
    return random.choice(np.array([-1.0, 1.0]), (rows, pairs))


@lru_cache(maxsize=8)
def _signs(pairs: int) -> Floats:
    bits = (np.arange(2**pairs)[:, None] >> np.arange(pairs)) & 1
    return np.asarray(1.0 - 2.0 * bits, dtype=np.float64)


def _design(sd: tuple[float, float], runs: tuple[int, int], *, paired: bool) -> tuple[float, float]:
    """Standard error of the difference and its degrees of freedom."""
    if paired:
        return sd[0] / math.sqrt(runs[0]), runs[0] - 1
    if min(runs) < 2:
        return math.inf, 0
    parts = sd[0] ** 2 / runs[0], sd[1] ** 2 / runs[1]
    below = parts[0] ** 2 / (runs[0] - 1) + parts[1] ** 2 / (runs[1] - 1)
    return math.sqrt(sum(parts)), sum(parts) ** 2 / below if below else sum(runs) - 2


def _attainable(alpha: float, step: float) -> float:
    """The largest level up to alpha of a test whose p are multiples of `step`; 0 if there is none."""
    return math.floor(alpha / step * (1 + 1e-12)) * step


def _distance(power_at: Callable[[float], float]) -> float:
    """Distance of the true difference from 0, in standard errors, that shows in `POWER` of all cases."""
    low, high = 0.0, 1.0
    while power_at(high) < POWER:
        low, high = high, 2 * high
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if power_at(middle) < POWER else (low, middle)
    return high


@lru_cache(maxsize=64)
def _noncentral_distance(freedom: float, level: float) -> float:
    return _distance(lambda far: _noncentral_power(far, freedom, level))


def _noncentral_power(distance: float, freedom: float, alpha: float) -> float:
    """P(|T| > t) of a noncentral t, as the mean over the distribution of the variance estimate.

    That holds for any distance and freedom; scipy's nct loses all digits far out.
    """
    critical = -t_quantile(alpha / 2, freedom)
    estimates, weights = _estimates(freedom)
    shares = normal_below(distance - critical * estimates) + normal_below(-distance - critical * estimates)
    return float(weights @ shares)


@lru_cache(maxsize=1024)
def _estimates(freedom: float) -> tuple[Floats, Floats]:
    """Values of the estimated over the true standard deviation, and how likely each is.

    They are the nodes of a quadrature by Gauss and Legendre over the shares of the distribution: 64 give
    a power within 5e-5, 500 equally likely values within 1.2e-4.
    """
    nodes, weights = _quadrature()
    return np.sqrt(chi_square_quantiles((nodes + 1) / 2, freedom) / freedom), weights / 2


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return nodes, weights


FEW = 300
"""Arrangements up to which power is found by simulation: their p are so coarse that t is no guide."""

_SIMULATED = 2000
"""Data sets of such a simulation: power is right within 2 %."""


def _few(runs: tuple[int, int], *, paired: bool) -> bool:
    return _arrangements(*runs, paired=paired) <= FEW


@lru_cache(maxsize=64)
def _simulated_distance(runs: tuple[int, int], level: float, paired: bool) -> float:
    return _distance(lambda far: _simulated_power(far, runs, level, paired))


def _simulated_power(distance: float, runs: tuple[int, int], level: float, paired: bool) -> float:
    """Share of data sets of normal values, so far apart, whose permutation test is at most `level`."""
    random = np.random.default_rng(1)
    n, m = runs
    if paired:
        d = random.normal(size=(_SIMULATED, n)) + distance / math.sqrt(n)
        found = np.abs(d @ _signs(n).T)
        seen = np.abs(d.sum(axis=1))
    else:
        values = random.normal(size=(_SIMULATED, n + m))
        values[:, n:] += distance * math.sqrt(1 / n + 1 / m)
        values -= values.mean(axis=1, keepdims=True)
        found = _squared_t(values, n)
        # The first of all subsets are the first n.
        seen = found[:, 0]
    ps = (found >= seen[:, None] * (1 - 1e-9)).mean(axis=1)
    return float((ps <= level * (1 + 1e-9)).mean())


def _squared_t(values: Floats, n: int) -> Floats:
    """t squared of Welch for each row of `values` and each choice of n of them.

    By sums of squares, which `_statistic` must not use: values drawn from a normal distribution lie neither
    close together nor far from 0, and there are half a million of these t.
    """
    m = values.shape[1] - n
    subsets = _subsets(n + m, n)
    chosen = np.zeros((n + m, len(subsets)))
    np.put_along_axis(chosen, subsets.T, 1.0, axis=0)
    between = (values @ chosen) ** 2
    squares = values**2
    of_a, of_b = 1 / (n * (n - 1)), 1 / (m * (m - 1))
    within = squares.sum(axis=1, keepdims=True) * of_b - (of_a / n + of_b / m) * between
    if n != m:
        within += (of_a - of_b) * (squares @ chosen)
    # The mean of b is -1 / m of the sum of a, as all together are 0.
    return np.asarray((1 / n + 1 / m) ** 2 * between / np.maximum(within, 1e-12), dtype=np.float64)


def _autocorrelation(series: Floats) -> Floats | None:
    """Autocorrelation at each lag (biased estimate, by FFT). None for a series that does not vary."""
    n = len(series)
    off = series - series.mean()
    spectrum = np.fft.rfft(off, 2 * n)
    covariance = np.fft.irfft(spectrum * np.conj(spectrum))[:n]
    return (
        None
        if n < 2 or covariance[0] <= 1e-12 * max(1.0, float(np.abs(series).max()) ** 2)
        else np.asarray(covariance / covariance[0], dtype=np.float64)
    )
