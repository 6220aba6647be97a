"""Student's t, the normal and the chi-square distribution: what the statistics ask of them.

scipy.special has them, and is loaded at the first question: a run without repeats asks none, and it takes
a quarter of a second. scipy.stats computes the same from the same functions, and takes a second to load.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def t_quantile(share: float, freedom: float) -> float:
    """The value that a share of Student's t distribution lies below."""
    from scipy import special

    return float(special.stdtrit(freedom, share))


def t_above(value: float, freedom: float) -> float:
    """The share of Student's t distribution that lies above a value."""
    from scipy import special

    return float(special.stdtr(freedom, -value))


def normal_quantile(share: float) -> float:
    """The value that a share of the standard normal distribution lies below."""
    from scipy import special

    return float(special.ndtri(share))


def normal_below(values: Floats) -> Floats:
    """The shares of the standard normal distribution that lie below values."""
    from scipy import special

    return np.asarray(special.ndtr(values), dtype=np.float64)


def chi_square_quantiles(shares: Floats, freedom: float) -> Floats:
    """The values that shares of the chi-square distribution lie below."""
    from scipy import special

    return np.asarray(2 * special.gammaincinv(freedom / 2, shares), dtype=np.float64)
