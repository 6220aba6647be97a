"""Student's t, the normal and the chi-square distribution: what the statistics ask of them.

Tests compare each with scipy, which is not installed with the package.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_NORMAL = NormalDist()


@lru_cache(maxsize=4096)
def t_quantile(share: float, freedom: float) -> float:
    """The value that a share of Student's t distribution lies below."""
    if not (0 < share < 1 and freedom > 0):
        return math.nan
    if share == 0.5:
        return 0.0
    tail = min(share, 1 - share)
    # The share above a value is convex in it, and the normal distribution's quantile lies below: Newton's
    # steps rise to the root.
    value = -normal_quantile(tail)
    half = (freedom + 1) / 2
    scale = math.exp(math.lgamma(half) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    for _ in range(1000):
        slope = scale * math.exp(-half * math.log1p(value / freedom * value))
        step = (t_above(value, freedom) - tail) / slope
        value += step
        if step <= 1e-15 * value:
            return math.copysign(value, share - 0.5)
    raise ArithmeticError(f"no quantile {share} of Student's t with {freedom} degrees of freedom")


def t_above(value: float, freedom: float) -> float:
    """The share of Student's t distribution that lies above a value."""
    if math.isnan(value) or not freedom > 0:
        return math.nan
    if value < 0:
        return 1 - t_above(-value, freedom)
    square = value / freedom * value
    if math.isinf(square):
        return 0.0
    # 1 - x would lose the digits of a small share, so both shares are handed over.
    return _beta_below(1 / (1 + square), square / (1 + square), freedom / 2, 0.5) / 2


def normal_quantile(share: float) -> float:
    """The value that a share of the standard normal distribution lies below."""
    return _NORMAL.inv_cdf(share)


def normal_below(values: Floats) -> Floats:
    """The shares of the standard normal distribution that lie below values."""
    shares = [math.erfc(value) / 2 for value in np.ravel(values / -math.sqrt(2)).tolist()]
    return np.array(shares).reshape(np.shape(values))


def chi_square_quantiles(shares: Floats, freedom: float) -> Floats:
    """The values that shares, none of them within 1e-6 of 1, of the chi-square distribution lie below."""
    shape = freedom / 2
    # Wilson and Hilferty's approximation (Proceedings of the National Academy of Sciences 17, 1931) or, far
    # below the mean, the first term of the series in `_gamma_below`; then Newton's steps on the logarithms of
    # value and share. The one is concave in the other, so that after the first step they rise to the root.
    normal = np.array([normal_quantile(share) for share in shares.tolist()])
    near = shape * (1 - 1 / (9 * shape) + normal / math.sqrt(9 * shape)) ** 3
    small = (np.log(shares) + math.lgamma(shape + 1)) / shape
    logs = np.where(near > 0.1 * shape, np.log(np.maximum(near, 1e-300)), small)
    for _ in range(100):
        below, slope = _gamma_below(np.exp(logs), shape)
        step = np.log(shares / below) * below / slope
        logs = logs + step
        if np.max(np.abs(step)) < 1e-6:  # its square is about the error that is left
            return np.asarray(2 * np.exp(logs), dtype=np.float64)
    raise ArithmeticError(f"no quantiles of the chi-square distribution with {freedom} degrees of freedom")


def _gamma_below(values: Floats, shape: float) -> tuple[Floats, Floats]:
    """The regularized incomplete gamma function P (DLMF 8.11.4), and its slope over log x."""
    term = np.exp(shape * np.log(values) - values - math.lgamma(shape + 1))
    slope, whole, below = shape * term, term, shape
    while np.any(term > 1e-17 * whole):
        terms = term[:, None] * np.cumprod(values[:, None] / (below + _STEPS), axis=1)
        term, whole, below = terms[:, -1], whole + terms.sum(axis=1), below + len(_STEPS)
    return whole, slope


_STEPS = np.arange(1.0, 65.0)
"""Terms of the series that are computed together."""


def _beta_below(x: float, rest: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b) (DLMF 8.17.22); `rest` is 1 - x."""
    if x > (a + 1) / (a + b + 2) and x > 0.5:
        return 1 - _beta_below(rest, x, b, a)
    if x == 0:
        return 0.0
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    # From the front (Lentz's method): c and d are ratios of successive numerators and denominators.
    fraction = c = d = 1.0
    for step in range(1, 100_000):
        m = step // 2
        if step % 2:
            part = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            part = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + part * d)
        c = 1 + part / c if step > 1 else 1.0
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            return math.exp(scale) * fraction / a
    raise ArithmeticError(f"the fraction of I_{x}({a}, {b}) has not converged")
