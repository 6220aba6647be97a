"""The distributions of the statistics against scipy's, over all that a comparison asks of them."""

import math

import numpy as np
import pytest
from scipy import special, stats

from cwndlab.analysis.claims import measures
from cwndlab.analysis.distributions import (
    chi_square_quantiles,
    normal_below,
    normal_quantile,
    t_above,
    t_quantile,
)

FREEDOMS = (0.7, 1, 2, 3, 3.7, 8, 29, 100, 1000, 12345.6)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_students_t_is_scipys(freedom: float) -> None:
    for share in (1e-9, 1e-4, 0.005, 0.025, 0.2, 0.4999, 0.5, 0.6, 0.975, 0.9995):
        expected = special.stdtrit(freedom, share)
        assert t_quantile(share, freedom) == pytest.approx(expected, rel=1e-10, abs=1e-12)
    for value in (-50, -2, -0.1, 0, 1e-6, 0.3, 1, 2.5, 7, 40, 1e4):
        assert t_above(value, freedom) == pytest.approx(special.stdtr(freedom, -value), rel=1e-9, abs=0)


def test_students_t_has_its_limits() -> None:
    assert t_above(math.inf, 5) == 0
    assert t_above(-math.inf, 5) == 1
    assert t_above(1e200, 5) == 0
    assert math.isnan(t_above(math.nan, 5))
    assert math.isnan(t_quantile(0.975, math.nan))
    assert math.isnan(t_quantile(0.975, 0))


@pytest.mark.parametrize("freedom", (0.6, *FREEDOMS))
def test_chi_square_is_scipys(freedom: float) -> None:
    shares = (np.arange(500) + 0.5) / 500
    expected = 2 * special.gammaincinv(freedom / 2, shares)
    np.testing.assert_allclose(chi_square_quantiles(shares, freedom), expected, rtol=1e-10)


def test_the_normal_distribution_is_scipys() -> None:
    values = np.linspace(-30, 9, 400)
    np.testing.assert_allclose(normal_below(values), special.ndtr(values), rtol=1e-12)
    for share in (1e-12, 0.025, 0.5, 0.8, 0.999):
        assert normal_quantile(share) == pytest.approx(special.ndtri(share), rel=1e-13, abs=1e-15)


def test_rank_correlation_is_scipys() -> None:
    ours, theirs = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0], [2.0, 7.0, 1.0, 8.0, 2.0, 8.0]
    ranks = measures._ranks(ours), measures._ranks(theirs)
    assert np.corrcoef(*ranks)[0, 1] == pytest.approx(stats.spearmanr(ours, theirs).statistic, rel=1e-14)
