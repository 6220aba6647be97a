"""The statistics of a comparison against scipy, and against what they promise, by simulation."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from cwndlab.analysis import statistics
from cwndlab.analysis.statistics import Floats

pytestmark = pytest.mark.slow

DATA_SETS = 2000
"""Generated data sets, of which a test at 5 % alarms for between 4 and 6 % in 96 of 100 simulations."""


def normal(random: np.random.Generator, *shape: int) -> Floats:
    return random.normal(10, 1, shape)


def autocorrelated(random: np.random.Generator, *shape: int) -> Floats:
    """Means of runs of 60 one-second samples, each 0.9 of the one before it and some noise, around 10."""
    noise = random.normal(size=(*shape, 60))
    samples = np.empty_like(noise)
    samples[..., 0] = noise[..., 0] / math.sqrt(1 - 0.9**2)
    for second in range(1, 60):
        samples[..., second] = 0.9 * samples[..., second - 1] + noise[..., second]
    return np.asarray(10 + samples.mean(axis=-1), dtype=np.float64)


@pytest.mark.parametrize("sizes", [(3, 3), (5, 5), (4, 7)])
def test_the_permutation_test_is_scipys(sizes: tuple[int, int]) -> None:
    random, draws = np.random.default_rng(1), statistics.Draws(101)
    for _ in range(20):
        a, b = random.normal(10, 1, sizes[0]), random.normal(11, 2, sizes[1])
        ours = statistics.permutation_test(a, b, draws)
        theirs = stats.permutation_test(
            (a, b),
            lambda x, y, axis: np.abs(stats.ttest_ind(x, y, equal_var=False, axis=axis).statistic),
            alternative="greater",
            n_resamples=10_000,
        )
        assert ours.exact
        assert ours.arrangements == math.comb(sum(sizes), sizes[0]) == len(theirs.null_distribution)
        assert ours.p == pytest.approx(theirs.pvalue)


def test_the_sign_test_is_scipys() -> None:
    random, draws = np.random.default_rng(2), statistics.Draws(102)
    for _ in range(20):
        d = random.normal(0.5, 1, 8)
        ours = statistics.sign_test(d, draws)
        theirs = stats.permutation_test(
            (d,),
            lambda x, axis: np.abs(np.mean(x, axis=axis)),
            permutation_type="samples",
            alternative="greater",
            n_resamples=10_000,
        )
        assert ours.exact
        assert ours.p == pytest.approx(theirs.pvalue)


def test_an_arrangement_and_its_mirror_image_are_equal_however_small_the_spread() -> None:
    a, b = np.array([116.945, 116.944, 116.937]), np.array([134.23, 134.232, 134.201])
    found = statistics.permutation_test(a, b, statistics.Draws(1))
    assert (found.p, found.smallest) == (0.1, 0.1)


def test_random_arrangements_come_close_to_all_of_them() -> None:
    random, draws = np.random.default_rng(3), statistics.Draws(103)
    a, b = random.normal(10, 1, 9), random.normal(11, 1, 9)
    every = statistics.permutation_test(a, b, draws)
    more_a, more_b = np.append(a, a.mean()), np.append(b, b.mean())
    sampled = statistics.permutation_test(more_a, more_b, draws)
    assert (every.exact, sampled.exact) == (True, False)
    exact = stats.permutation_test(
        (more_a, more_b),
        lambda x, y, axis: np.abs(stats.ttest_ind(x, y, equal_var=False, axis=axis).statistic),
        alternative="greater",
        n_resamples=200_000,
    ).pvalue
    # Three standard errors of 19,999 draws.
    assert sampled.p == pytest.approx(exact, abs=3 * math.sqrt(exact * (1 - exact) / 19_999))


def test_draws_are_a_generators_and_made_once_for_what_was_drawn_before() -> None:
    draws, generator, made = statistics.Draws(7), np.random.default_rng(7), []

    def draw(random: np.random.Generator, *shape: int) -> Floats:
        made.append(shape)
        return random.random(shape)

    first, second = draws.of(draw, 3, 4), draws.of(draw, 5)
    assert first.tolist() == generator.random((3, 4)).tolist()
    assert second.tolist() == generator.random(5).tolist()
    again = draws.again()
    assert again.of(draw, 3, 4) is first
    assert again.of(draw, 2).tolist() == second[:2].tolist()
    draws.again().of(draw, 3, 4)
    assert draws.of(draw, 5) is second
    assert made == [(3, 4), (5,), (2,)]


def test_the_intervals_of_welch_and_student_are_scipys() -> None:
    random = np.random.default_rng(4)
    a, b = random.normal(10, 1, 6), random.normal(11, 3, 9)
    theirs = stats.ttest_ind(b, a, equal_var=False)
    interval, p = statistics.welch(a, b, 0.9)
    expected = theirs.confidence_interval(0.9)
    assert (interval.low, interval.high, p) == pytest.approx((expected.low, expected.high, theirs.pvalue))
    d = b[:6] - a
    paired = stats.ttest_rel(b[:6], a)
    interval, p = statistics.student(d, 0.95)
    expected = paired.confidence_interval(0.95)
    assert (interval.low, interval.high, p) == pytest.approx((expected.low, expected.high, paired.pvalue))


def test_equivalence_is_two_one_sided_tests() -> None:
    random = np.random.default_rng(5)
    a, b = random.normal(100, 1, 8), random.normal(100.5, 1, 8)
    lower = stats.ttest_ind(b, 0.97 * a, equal_var=False, alternative="greater").pvalue
    upper = stats.ttest_ind(b, 1.03 * a, equal_var=False, alternative="less").pvalue
    assert statistics.equivalence(a, b, 0.03, paired=False) == pytest.approx(max(lower, upper))
    lower = stats.ttest_rel(b, 0.97 * a, alternative="greater").pvalue
    upper = stats.ttest_rel(b, 1.03 * a, alternative="less").pvalue
    assert statistics.equivalence(a, b, 0.03, paired=True) == pytest.approx(max(lower, upper))


def test_holms_correction_by_hand() -> None:
    # 0.01 x 4, 0.02 x 3, 0.03 x 2 = 0.06, and 0.04 x 1 is not below the one before it.
    assert statistics.holm([0.02, 0.01, 0.04, 0.03]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert statistics.holm([0.6, 0.7]) == [1, 1]
    # Of ties each is corrected as much as the first of them.
    assert statistics.holm([0.2, 0.01, 0.01]) == pytest.approx([0.2, 0.03, 0.03])
    assert statistics.holm([]) == []


@pytest.mark.parametrize("values", [normal, autocorrelated])
@pytest.mark.parametrize(("runs", "paired"), [(5, False), (6, False), (10, False), (8, True), (12, True)])
def test_false_alarms_are_between_4_and_6_percent(
    values: Callable[..., Floats], runs: int, paired: bool
) -> None:
    random, draws = np.random.default_rng(21), statistics.Draws(1021)
    a, b = values(random, DATA_SETS, runs), values(random, DATA_SETS, runs)
    if paired:
        # What a pair shares; it is no difference.
        shared = random.normal(0, 3, (DATA_SETS, runs))
        found = [statistics.sign_test(d, draws, 999) for d in (b + shared) - (a + shared)]
    else:
        found = [statistics.permutation_test(x, y, draws, 999) for x, y in zip(a, b, strict=True)]
    alarms = sum(test.p <= 0.05 for test in found) / DATA_SETS
    assert 0.04 <= alarms <= 0.06


def test_samples_in_place_of_runs_would_alarm_for_nothing() -> None:
    random = np.random.default_rng(22)
    noise = random.normal(size=(2, 500, 60))
    for second in range(1, 60):
        noise[..., second] += 0.9 * noise[..., second - 1]
    alarms = (stats.ttest_ind(noise[0], noise[1], axis=1).pvalue <= 0.05).mean()
    assert alarms > 0.4


@pytest.mark.parametrize(
    ("runs", "paired"), [(5, False), (8, False), (10, False), (6, True), (8, True), (12, True)]
)
def test_a_detectable_difference_shows_in_80_percent(runs: int, paired: bool) -> None:
    random, draws = np.random.default_rng(31), statistics.Draws(1031)
    sd = (math.sqrt(2),) * 2 if paired else (1.0, 1.0)
    effect = statistics.detectable(sd, (runs, runs), 0.05, paired=paired)
    a, b = normal(random, DATA_SETS, runs), normal(random, DATA_SETS, runs) + effect
    if paired:
        found = [statistics.sign_test(d, draws, 999) for d in b - a]
    else:
        found = [statistics.permutation_test(x, y, draws, 999) for x, y in zip(a, b, strict=True)]
    assert 0.77 <= sum(test.p <= 0.05 for test in found) / DATA_SETS <= 0.83


# Cohen 1988: d = 1, power 80 %, two-sided at 5 %; 17 a side (table 2.3.5), or 18 pairs of d_z = 1/sqrt(2).
@pytest.mark.parametrize(("paired", "expected"), [(False, 17), (True, 18)])
def test_as_many_runs_as_needed_are_enough_and_no_more(paired: bool, expected: int) -> None:
    sd = (math.sqrt(2),) * 2 if paired else (1.0, 1.0)
    needed = statistics.runs_needed(1.0, sd, 0.05, paired=paired)
    assert needed == expected
    assert statistics.power(1.0, sd, (needed, needed), 0.05, paired=paired) >= 0.8
    assert statistics.power(1.0, sd, (needed - 1, needed - 1), 0.05, paired=paired) < 0.8


def test_power_is_that_of_scipys_noncentral_t() -> None:
    critical = stats.t.isf(0.025, 18)
    far = 1.2 / math.sqrt(2 / 10)
    expected = stats.nct.sf(critical, 18, far) + stats.nct.cdf(-critical, 18, far)
    # The permutation test's level falls short of 5 % by one in 92,378.
    found = statistics.power(1.2, (1.0, 1.0), (10, 10), 0.05, paired=False)
    assert found == pytest.approx(expected, abs=2e-3)


def test_a_bootstrap_interval_covers_the_truth_in_95_percent() -> None:
    random, draws = np.random.default_rng(41), statistics.Draws(1041)
    inside = [0, 0]
    for _ in range(400):
        a, b = random.normal(10, 1, 6), random.normal(12, 2, 8)
        interval = statistics.bootstrap(a, b, 0.95, draws)
        inside[0] += interval.low <= 2 <= interval.high
        d = random.normal(2, 1, 10)
        paired = statistics.bootstrap_paired(d, 0.95, draws) or statistics.student(d, 0.95)[0]
        inside[1] += paired.low <= 2 <= paired.high
    assert min(inside) >= 0.925 * 400
    assert max(inside) <= 0.975 * 400


def test_too_few_runs_cannot_reach_a_level() -> None:
    assert statistics.smallest_p(3, 3, paired=False) == pytest.approx(0.1)
    assert statistics.smallest_p(5, 5, paired=True) == pytest.approx(1 / 16)
    assert math.isinf(statistics.detectable((1, 1), (3, 3), 0.05, paired=False))
    assert statistics.runs_to_reach(0.05, paired=False) == 4
    assert statistics.runs_to_reach(0.05, paired=True) == 6
    assert statistics.runs_to_reach(0.05 / 18, paired=False) == 6


def test_the_effective_size_of_samples_that_remember() -> None:
    random = np.random.default_rng(51)
    noise = random.normal(size=(200, 600))
    remembering = noise.copy()
    for second in range(1, 600):
        remembering[:, second] += 0.9 * remembering[:, second - 1]
    # n (1 - rho) / (1 + rho) in the long run.
    assert np.mean([statistics.effective_size(run) for run in remembering]) == pytest.approx(31.6, rel=0.3)
    assert np.mean([statistics.effective_size(run) for run in noise]) > 540
    assert statistics.effective_size(np.full(10, 3.0)) == 10


def test_an_interval_within_runs_knows_that_samples_remember() -> None:
    random = np.random.default_rng(52)
    inside = 0
    for _ in range(300):
        noise = random.normal(size=(2, 90))
        for second in range(1, 90):
            noise[:, second] += 0.8 * noise[:, second - 1]
        interval = statistics.within_runs(noise[0], noise[1], 0.95)
        inside += interval.low <= 0 <= interval.high
    assert 0.9 <= inside / 300 <= 0.97


def test_what_does_not_vary_has_no_interval() -> None:
    flat = np.full(4, 2.0)
    for refused in (
        lambda: statistics.welch(flat, flat, 0.95),
        lambda: statistics.student(flat, 0.95),
        lambda: statistics.welch(flat[:1], flat, 0.95),
        lambda: statistics.within_runs(flat, flat, 0.95),
        lambda: statistics.equivalence(-flat, flat, 0.03, paired=False),
    ):
        with pytest.raises(ValueError, match=r"vary|variance|mean"):
            refused()
