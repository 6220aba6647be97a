"""What a comparison concludes, in which words, and what it warns of."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from cwndlab.analysis import comparison, contrasts, verdict
from cwndlab.analysis.comparison import Comparison, Contrast, Design, Kind, Options, RunSet
from cwndlab.analysis.runs import Run
from cwndlab.analysis.statistics import Floats

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def simulated(
    values: Sequence[float], *, seed: int = 1, metric: str = "goodput_mbps", **fields: Any
) -> list[Run]:
    """Runs of a simulation, one for each repeat."""
    return [
        Run(
            f"run {repeat}",
            {metric: value},
            repeat=repeat,
            draws=(seed, repeat),
            identity=f"{value} in {repeat}",
            by_chance=False,
            **fields,
        )
        for repeat, value in enumerate(values)
    ]


def measured(values: Sequence[float], starts: Sequence[int] | None = None) -> list[Run]:
    """Runs of a real lab, begun so many minutes after noon."""
    times = [None] * len(values) if starts is None else [NOON + timedelta(minutes=at) for at in starts]
    return [
        Run(f"run {place}", {"goodput_mbps": value}, started=time)
        for place, (value, time) in enumerate(zip(values, times, strict=True))
    ]


def compared(a: Sequence[Run], b: Sequence[Run], **options: Any) -> Comparison:
    contrast = Contrast(RunSet("before", a), RunSet("after", b))
    metrics = list(a[0].metrics)
    (found,) = comparison.compare([contrast], metrics, Options(**options))
    return found


def values(mean: float, sd: float, runs: int, seed: int = 1) -> Floats:
    """Values with exactly that mean and standard deviation."""
    drawn = np.random.default_rng(seed).normal(size=runs)
    return np.asarray(mean + sd * (drawn - drawn.mean()) / drawn.std(ddof=1), dtype=np.float64)


def test_a_difference_is_said_with_its_interval() -> None:
    found = compared(measured(values(10, 0.1, 6)), measured(values(11, 0.1, 6, seed=2)))
    assert (found.kind, found.design) == (Kind.DIFFERENCE, Design.UNPAIRED)
    assert found.difference == pytest.approx(1)
    assert found.share(found.difference) == pytest.approx(0.1)
    assert found.interval is not None
    assert found.welch is not None
    assert found.interval.low < 1 < found.interval.high
    assert found.welch.low == pytest.approx(1 - 2.228 * np.sqrt(2 / 6) * 0.1, abs=1e-4)
    said = r"goodput: after is 10\.0 % higher than before, 95 % sure \(between \+\d\.\d+ and \+1\d\.\d %\)\."
    assert re.fullmatch(said, verdict.sentence(found))


def test_a_difference_whose_interval_includes_0_is_no_sure_amount() -> None:
    """All six pairs rise, one of them by far the most: no chance, but by how much is not known."""
    shared = values(10, 2, 6)
    found = compared(simulated(shared), simulated(shared + np.array([0.1, 0.11, 0.12, 0.13, 0.14, 3])))
    assert found.kind is Kind.DIFFERENCE
    assert found.interval is not None
    assert found.interval.low < 0
    assert re.fullmatch(
        r"goodput: after is 6\.00 % higher than before in the mean, and the test is 95 % sure that they"
        r" differ \(p = 0\.031\), but the mean difference may be between −\S+ and \+\S+ %:"
        r" more runs would tell\.",
        verdict.sentence(found),
    )


@pytest.mark.slow
def test_no_difference_says_what_would_have_shown_and_what_is_needed() -> None:
    found = compared(measured(values(100, 4.4, 5)), measured(values(101, 4.4, 5, seed=2)))
    assert found.kind is Kind.NONE
    assert found.detectable == pytest.approx(9, abs=0.15)
    # As for Cohen's d = 1/4.4: n = 2 (1.96 + 0.84)^2 / d^2.
    assert found.needed == pytest.approx(2 * (1.96 + 0.8416) ** 2 * 4.4**2, rel=0.02)
    assert verdict.sentence(found) == (
        "goodput, after against before: no difference proven at 95 %; "
        "with 5 runs a side only differences above "
        f"{found.detectable:.2f} % would show; "
        f"the 1.00 % measured here would need about {found.needed} runs a side."
    )


def test_runs_that_share_draws_are_paired() -> None:
    shared = values(10, 2, 9)
    found = compared(simulated(shared), simulated(shared + values(0.5, 0.1, 9, seed=2)))
    assert (found.kind, found.design, found.signs) == (Kind.DIFFERENCE, Design.PAIRED, True)
    assert found.test is not None
    assert found.test.p == 2 / 2**9
    # Unpaired, the same runs show nothing.
    assert (
        compared(simulated(shared), simulated(shared + values(0.5, 0.1, 9, seed=2), seed=2)).kind is Kind.NONE
    )
    assert found.interval is not None
    assert found.welch is not None
    assert found.interval.high - found.interval.low < 0.1 * (found.welch.high - found.welch.low)
    assert "9 pairs that share their random draws (seed and repeat)" in verdict.block(found)


def test_few_pairs_are_tested_with_care_and_measured_as_pairs() -> None:
    shared = values(10, 2, 5)
    found = compared(simulated(shared), simulated(shared + values(0.5, 0.1, 5, seed=2)))
    assert (found.kind, found.design, found.signs) == (Kind.NONE, Design.PAIRED, False)
    assert found.needed == 6
    assert "too few pairs for a test" in verdict.sentence(found)
    assert compared(simulated(shared), simulated(shared + 9)).kind is Kind.DIFFERENCE


def test_runs_without_a_partner_are_left_out() -> None:
    shared = values(10, 2, 9)
    found = compared(simulated(shared), simulated(shared[:8] + values(0.5, 0.1, 8)))
    assert (len(found.a.values), len(found.b.values)) == (8, 8)
    assert "1 runs of before have no run of the other side with the same seed and repeat" in found.notes


@pytest.mark.slow
def test_too_few_runs_are_not_no_difference() -> None:
    found = compared(measured([10, 11, 12]), measured([20, 21, 22]))
    assert found.kind is Kind.TOO_SMALL
    assert found.reach == 4
    assert verdict.sentence(found).startswith(
        "goodput, after against before: too few runs: "
        "with 3 runs a side not even the largest difference could be 95 % sure "
        "(p cannot be below 0.1); 4 runs a side could tell; Welch's test, if values are normal, gives p = "
    )
    # 5 a side are enough for one comparison, and for six; not for seven.
    far = [(measured(values(10, 1, 5)), measured(values(90, 1, 5, seed=2)))] * 7
    every = [
        Contrast(RunSet("a", a), RunSet("b", b), {"cell": str(place)}) for place, (a, b) in enumerate(far)
    ]
    six = comparison.compare(every[:6], ["goodput_mbps"], Options())
    seven = comparison.compare(every, ["goodput_mbps"], Options())
    assert {each.kind for each in six} == {Kind.DIFFERENCE}
    assert {each.kind for each in seven} == {Kind.TOO_SMALL}
    assert "and 7 comparisons" in verdict.sentence(seven[0])
    assert seven[0].reach == 6


@pytest.mark.slow
def test_corrected_differences_do_not_pass_for_their_number() -> None:
    random = np.random.default_rng(3)
    alarmed = alone = 0
    for _ in range(40):
        drawn = random.normal(10, 1, (8, 2, 6))
        every = [Contrast(RunSet("a", measured(a)), RunSet("b", measured(b))) for a, b in drawn]
        found = comparison.compare(every, ["goodput_mbps"], Options())
        alarmed += any(each.kind is Kind.DIFFERENCE for each in found)
        alone += any(each.test is not None and each.test.p <= 0.05 for each in found)
    # One in three has a false alarm somewhere without the correction; with it, one in twenty.
    assert alarmed <= 5
    assert alone >= 8


def test_runs_that_cannot_vary_are_deterministic() -> None:
    same = [
        Run("r", {"goodput_mbps": 8.0}, draws=(1, repeat), identity="x", by_chance=False)
        for repeat in range(5)
    ]
    other = [
        Run("r", {"goodput_mbps": 10.0}, draws=(1, repeat), identity="y", by_chance=False)
        for repeat in range(5)
    ]
    found = compared(same, other)
    assert (found.kind, found.interval, found.welch, found.test) == (Kind.DETERMINISTIC, None, None, None)
    assert verdict.sentence(found) == (
        "goodput: exact, as runs of this path do not vary by chance: after is 25.0 % higher than before."
    )
    assert compared(same, same).kind is Kind.IDENTICAL


def test_one_side_that_cannot_vary_is_an_exact_value() -> None:
    same = [
        Run("r", {"goodput_mbps": 8.0}, draws=(1, repeat), identity="x", by_chance=False)
        for repeat in range(8)
    ]
    found = compared(same, simulated(values(9, 0.1, 8)))
    assert (found.kind, found.design) == (Kind.DIFFERENCE, Design.EXACT)
    assert (len(found.a.values), len(found.b.values)) == (1, 8)
    assert "8 against the exact value of before, whose 8 runs were the same" in verdict.block(found)


def test_identical_runs_count_once() -> None:
    runs = measured([10, 11, 12, 13])
    again = [Run(run.label, run.metrics, identity=f"{place}") for place, run in enumerate(runs)]
    found = compared(again * 3, measured([10, 12, 12, 13]))
    assert len(found.a.values) == 4
    assert "8 of 12 runs of before repeat another exactly: they count once" in found.notes


def test_single_runs_prove_nothing_and_say_what_their_samples_do() -> None:
    random = np.random.default_rng(1)
    one = Run("a", {"goodput_mbps": 10}, series=lambda metric: random.normal(10, 1, 60))
    other = Run("b", {"goodput_mbps": 20}, series=lambda metric: random.normal(20, 1, 60))
    found = compared([one], [other])
    assert found.kind is Kind.SINGLE
    assert found.within is not None
    assert found.within.low < 10 < found.within.high
    assert "in one run of each" in verdict.sentence(found)
    assert "how much runs differ from each other is not known" in verdict.sentence(found)
    silent = compared(measured([10]), measured([20]))
    assert (silent.kind, silent.within) == (Kind.SINGLE, None)
    assert "one run cannot tell how much of that is chance" in verdict.sentence(silent)
    assert compared(measured([10]), measured([20, 21, 22, 23, 24])).kind is Kind.TOO_SMALL


def test_equivalence() -> None:
    a, b = measured(values(100, 1, 8)), measured(values(100.5, 1, 8, seed=2))
    found = compared(a, b, equivalent=0.03)
    assert found.equivalent
    assert verdict.sentence(found) == (
        "goodput, after against before: differs by less than 3 %, 95 % sure; no difference proven."
    )
    assert not compared(a, b, equivalent=0.01).equivalent
    assert verdict.sentence(compared(a, b, equivalent=0.01)).endswith(
        "; not shown to differ by less than 1 %."
    )
    apart = compared(a, measured(values(102, 0.5, 8, seed=2)), equivalent=0.03)
    assert (apart.kind, apart.equivalent) == (Kind.DIFFERENCE, True)
    assert compared(a, b).equivalent is None


@pytest.mark.parametrize(
    ("a", "b", "warning"),
    [
        ([0, 1, 2, 3], [4, 5, 6, 7], "all runs of before came before all of after"),
        ([4, 5, 6, 7], [0, 1, 2, 3], "all runs of after came before all of before"),
        ([0, 1, 2, 10, 11, 12], [3, 4, 5, 6, 7, 8], "the runs took turns only 2 times"),
        ([0, 3, 4, 7], [1, 2, 5, 6], None),
        (None, None, "when each run began is not recorded"),
    ],
)
def test_drift_is_warned_about(a: list[int] | None, b: list[int] | None, warning: str | None) -> None:
    count = 4 if a is None else len(a)
    found = compared(measured(values(10, 1, count), a), measured(values(11, 1, count), b))
    assert [warning is not None and warning in note for note in found.notes] == ([True] if warning else [])


def test_goodput_that_never_settled_is_warned_about() -> None:
    a = simulated(values(10, 0.1, 4))
    b = simulated(values(11, 0.1, 4, seed=2), unsettled=0.12)
    found = compared(a, b)
    assert [note for note in found.notes if "MSER-5" in note] == [
        "goodput never settled in 4 of 4 runs of after (MSER-5): it is up to 12 % off that of the second"
        " half; measure longer, or later"
    ]
    assert not any("MSER-5" in note for note in compared([*a, *b[:1]], [*a, *b[:1]]).notes)
    other = {"metric": "rtt_mean_ms"}
    slow = [simulated(values(10, 0.1, 4), unsettled=0.12, **other) for _ in "ab"]
    assert not any("MSER-5" in note for note in compared(*slow).notes)


def test_virtual_time_knows_no_drift() -> None:
    assert compared(simulated(values(10, 1, 6)), simulated(values(11, 1, 6))).notes == ()


def test_an_average_over_combinations_keeps_repeats_as_units() -> None:
    # Two combinations far apart in size; in both b is a tenth more.
    small, large = values(1, 0.01, 8), values(100, 1, 8, seed=2)
    cells = [
        Contrast(RunSet("a", simulated(a)), RunSet("b", simulated(1.1 * a)), {"rate": name})
        for name, a in (("slow", small), ("fast", large))
    ]
    over = comparison.average(cells, "goodput_mbps")
    assert over is not None
    (found,) = comparison.compare([over], ["goodput_mbps"], Options())
    assert len(found.a.values) == 8
    assert found.share(found.difference) == pytest.approx(0.1)
    assert verdict.sentence(found).startswith(
        "goodput (over 2 combinations): b is 10.0 % higher than a, 95 % sure"
    )
    assert comparison.average(cells[:1], "goodput_mbps") is None


def test_a_metric_that_is_zero_has_no_per_cent() -> None:
    runs = (
        simulated([0, 0, 0, 0, 0, 0, 0, 0], metric="rtos"),
        simulated([1, 2, 1, 2, 1, 2, 1, 3], metric="rtos"),
    )
    found = compared(*runs)
    assert found.kind is Kind.DIFFERENCE
    assert "after is 1.62 higher than before" in verdict.sentence(found)
    as_json = verdict.as_dict(found)
    assert (as_json["difference_pct"], as_json["difference"]) == (None, 1.625)


def test_an_outlier_among_equal_values_leaves_an_interval_that_can_be() -> None:
    still = np.full(10, 0.11)
    flaring = still + np.array([0.2, 0.2, 0.2001, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.9])
    found = compared(simulated(still, metric="retransmit_rate"), simulated(flaring, metric="retransmit_rate"))
    assert found.interval is not None
    assert found.method == "Student, as resamples of nearly equal values and outliers say nothing"
    # Mean and standard deviation by hand: 0.27001, 0.22136; Student's quantile of 9 is 2.2622.
    half = 2.2622 * 0.22136 / 10**0.5
    assert (found.interval.low, found.interval.high) == pytest.approx((0.27001 - half, 0.27001 + half), 1e-3)
    falling = compared(simulated([0.5, 0.01], metric="jain"), simulated([0.0, 0.004], metric="jain"))
    assert falling.interval is not None
    assert verdict.interval(falling).startswith("−100 to ")


def test_metrics_in_per_cent_differ_in_points_wherever_a_difference_stands() -> None:
    a, b = 0.001 * values(1, 0.05, 12), 0.001 * values(1.2, 0.05, 12, seed=2)
    found = compared(simulated(a, metric="retransmit_rate"), simulated(b, metric="retransmit_rate"))
    between = r"between \+0\.01\d and \+0\.02\d points"
    said = rf".* after is 0\.020 points higher than before, 95 % sure \({between}\)\."
    assert re.fullmatch(said, verdict.sentence(found))
    rows = dict(re.findall(r"^  ([a-z0-9 %]+?)  +(.*)$", verdict.block(found), re.MULTILINE))
    assert rows["difference"] == "+0.020 points (+20.0 % of before's mean)"
    assert "points" in rows["95 % interval"]
    assert "%" not in rows["95 % interval"]
    assert re.search(r"\+0\.020 points +\+0\.01\d to \+0\.02\d points", verdict.table([found]))
    close = compared(
        simulated(a, metric="retransmit_rate"),
        simulated(a + 1e-6 * b, metric="retransmit_rate"),
        equivalent=0.03,
    )
    assert "differs by less than 3 % of before's mean" in verdict.sentence(close)


def test_equal_input_gives_equal_words() -> None:
    a, b = measured(values(10, 1, 12)), measured(values(11, 1, 12, seed=2))
    assert verdict.as_dict(compared(a, b)) == verdict.as_dict(compared(a, b))
    assert verdict.as_dict(compared(a, b))["permutation_exact"] is False


def test_many_comparisons_become_a_table_with_a_tally() -> None:
    every = [
        Contrast(
            RunSet("a", simulated(values(10, 0.1, 12, seed=place))),
            RunSet("b", simulated(values(10 + place % 2, 0.1, 12, seed=place + 50))),
            {"delay": f"{place}ms"},
        )
        for place in range(8)
    ]
    found = contrasts.Comparisons(comparison.compare(every, ["goodput_mbps"], Options()), [], ["a note"])
    lines = verdict.text(found).splitlines()
    assert lines[0].startswith("b against a, typically over 8 combinations: goodput 4.88 % higher (")
    assert lines[3] == "goodput, b against a in 8 combinations: higher in 4, no difference proven in 4."
    assert lines[5].split() == ["delay", "a", "b", "difference", "interval", "p", "verdict"]
    assert lines[7].split()[:3] == ["0ms", "10", "10"]
    assert lines[8].split()[-1] == "higher"
    assert lines[-1] == "note: a note"


def test_a_tally_of_one_comparison_counts_nothing() -> None:
    few = compared(measured([1, 2, 3]), measured([2, 3, 4.5]))
    assert verdict.tally([few]) == ["goodput, after against before: too few runs to tell (measured higher)."]
    once = compared(measured([2]), measured([1]))
    assert verdict.tally([once]) == [
        "goodput, after against before: one run each, so chance cannot be ruled out (measured lower)."
    ]
    assert verdict.tally([few, once])[0] == (
        "goodput, after against before in 2 combinations: too few runs to tell in 1 (measured higher there),"
        " one run each, so chance cannot be ruled out, in 1 (measured lower there)."
    )
