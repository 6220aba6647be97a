"""The arithmetic of the plots, against values worked out by hand and against numpy and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.cbook import boxplot_stats
from scipy import stats

from cwndlab.analysis import numeric


def test_windowed_rate_counts_bytes_between_window_edges_and_labels_the_centre():
    t_s = np.array([0.5, 1.0, 1.5, 2.0, 2.5, 3.0])
    counter = np.array([0, 125_000, 125_000, 250_000, 500_000, 500_000], dtype=float)
    centres, rates = numeric.windowed_rate(t_s, counter, start_s=0, stop_s=3, window_s=1)
    assert centres.tolist() == [0.5, 1.5, 2.5]
    # 125,000 bytes in a second are 1 Mbit/s; a sample on the edge belongs to the window that ends there.
    assert rates.tolist() == [1.0, 1.0, 2.0]


def test_windows_without_progress_are_zeros_also_before_and_after_the_flow():
    t_s = np.array([2.0, 2.5, 6.5])
    counter = np.array([0, 250_000, 375_000], dtype=float)
    centres, rates = numeric.windowed_rate(t_s, counter, start_s=0, stop_s=8, window_s=1)
    assert centres.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5]
    assert rates.tolist() == [0, 0, 2.0, 0, 0, 0, 1.0, 0]


def test_a_counter_that_starts_above_zero_was_delivered_before_its_first_sample():
    _, rates = numeric.windowed_rate(np.array([0.5]), np.array([125_000.0]), start_s=0, stop_s=2, window_s=1)
    assert rates.tolist() == [1.0, 0.0]


def test_overlapping_windows_step_by_the_share_that_is_new():
    t_s = np.arange(1, 41) / 10
    counter = np.where(t_s > 2, (t_s - 2) * 125_000, 0)
    centres, rates = numeric.windowed_rate(t_s, counter, start_s=0, stop_s=4, window_s=2, overlap=0.75)
    assert centres.tolist() == [1.0, 1.5, 2.0, 2.5, 3.0]
    assert rates == pytest.approx([0, 0.25, 0.5, 0.75, 1.0])


def test_a_thousand_windows_of_a_tenth_of_a_second_do_not_drift():
    t_s = np.arange(1, 10_001) / 100
    centres, rates = numeric.windowed_rate(
        t_s, np.arange(1, 10_001) * 1250.0, start_s=0, stop_s=100, window_s=0.1
    )
    assert len(centres) == 1000
    assert centres[-1] == pytest.approx(99.95, abs=1e-12)
    assert rates == pytest.approx(np.full(1000, 1.0))


@pytest.mark.parametrize(
    "bad", [{"window_s": 0.0}, {"window_s": 1.0, "overlap": 1.0}, {"window_s": 1.0, "overlap": -0.1}]
)
def test_windows_that_cannot_be_are_refused(bad):
    with pytest.raises(ValueError, match=r"window|overlap"):
        numeric.windowed_rate(np.array([1.0]), np.array([1.0]), start_s=0, stop_s=1, **bad)


def test_envelope_keeps_a_dip_of_one_sample_among_a_million():
    t = np.linspace(0, 300, 1_000_000)
    y = np.full(1_000_000, 100_000.0)
    y[654_321] -= 1448
    y[123_456] += 1
    keep = numeric.envelope(t, y, 800)
    assert len(keep) <= 4 * 800
    assert {654_321, 123_456, 0, 999_999} <= set(keep.tolist())


def test_short_series_stay_whole():
    assert numeric.envelope(np.arange(40.0), np.zeros(40), 10).tolist() == list(range(40))


def test_envelope_keeps_gaps():
    t = np.arange(10_000.0)
    y = np.sin(t)
    y[:3000] = np.nan
    y[5000:5002] = np.nan
    keep = numeric.envelope(t, y, 100)
    assert np.isnan(y[keep]).sum() == 31
    assert 5000 in keep
    assert np.isnan(y[keep][:30]).all()


def test_envelope_of_nothing_but_gaps_is_gaps():
    assert len(numeric.envelope(np.arange(1000.0), np.full(1000, np.nan), 10)) == 10


@settings(max_examples=60)
@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=600),
    st.integers(1, 40),
    st.integers(0, 2**32 - 1),
)
def test_envelope_has_the_extremes_of_every_column(values, columns, seed):
    y = np.array(values)
    t = np.sort(np.random.default_rng(seed).integers(0, 50, len(y))).astype(float)
    keep = numeric.envelope(t, y, columns)
    assert keep.tolist() == sorted(set(keep.tolist()))
    assert {0, len(y) - 1} <= set(keep.tolist())
    span = t[-1] - t[0]
    column = (
        np.minimum(((t - t[0]) / span * columns).astype(int), columns - 1)
        if span
        else np.zeros(len(t), dtype=int)
    )
    for number in set(column.tolist()):
        assert y[keep][column[keep] == number].min() == y[column == number].min()
        assert y[keep][column[keep] == number].max() == y[column == number].max()


@settings(max_examples=60)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=80))
def test_box_statistics_are_those_of_matplotlib_and_numpy(values):
    box = numeric.box(np.array([*values, np.nan]))
    (expected,) = boxplot_stats(values, whis=1.5)
    assert box is not None
    assert box.n == len(values)
    assert (box.q1, box.median, box.q3) == tuple(np.percentile(values, [25, 50, 75]))
    assert (box.low, box.high) == (expected["whislo"], expected["whishi"])
    assert list(box.outliers) == sorted(expected["fliers"])
    assert box.mean == pytest.approx(np.mean(values), rel=1e-9, abs=1e-6)


def test_box_worked_out_by_hand():
    box = numeric.box(np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 50.0]))
    # Quartiles at ranks 2.25, 4.5 and 6.75 from 0; whiskers reach at most 1.5 * 4.5 beyond 3.25 and 7.75.
    assert box == numeric.Box(10, 9.5, 3.25, 5.5, 7.75, 1.0, 9.0, (50.0,))


def test_box_of_nothing_is_none():
    assert numeric.box(np.array([np.nan])) is None


def test_interval_is_students():
    values = np.array([9.1, 9.4, 8.7, 9.9, 9.0])
    mean, half = numeric.mean_interval(values)
    low, high = stats.t.interval(0.95, 4, loc=values.mean(), scale=stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high))


@pytest.mark.parametrize("values", [[], [3.0], [3.0, 3.0, 3.0]])
def test_no_interval_without_a_sample_that_varies(values):
    assert np.isnan(numeric.mean_interval(np.array(values))[1])


def test_distribution_is_the_empirical_one():
    values, share = numeric.distribution(np.array([3.0, 1, 2, 2, np.nan]))
    assert values.tolist() == [1, 2, 3]
    assert share.tolist() == [0.25, 0.75, 1.0]


def test_a_long_distribution_is_thinned_but_exact_where_it_is_kept():
    sample = np.random.default_rng(3).normal(size=50_000)
    values, share = numeric.distribution(sample, points=500)
    assert len(values) <= 502
    assert (values[0], values[-1], share[-1]) == (sample.min(), sample.max(), 1.0)
    assert np.diff(share).max() <= 1 / 500 + 1 / 50_000
    assert share.tolist() == (np.searchsorted(np.sort(sample), values, side="right") / 50_000).tolist()


def test_ellipse_of_points_on_a_tilted_cross():
    centre_x, centre_y, width, height, angle = numeric.ellipse(
        np.array([1.0, 3, 2.5, 1.5]), np.array([1.0, 3, 1.5, 2.5])
    )
    # Along the diagonal the points are sqrt(2) from the centre, across it sqrt(0.5); variances divide by n -
    # 1 = 3.
    assert (centre_x, centre_y) == (2.0, 2.0)
    assert width == pytest.approx(2 * np.sqrt(4 / 3))
    assert height == pytest.approx(2 * np.sqrt(1 / 3))
    assert angle % 180 == pytest.approx(45)


def test_two_points_have_no_ellipse():
    assert numeric.ellipse(np.array([1.0, 2, np.nan]), np.array([1.0, 2, 3])) is None
