"""The answer to an experiment's question over all combinations, against cases counted by hand."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from test_comparison import simulated, values

import cwndlab
from cwndlab import testbeds
from cwndlab.analysis import amounts, answer, comparison, contrasts, effects, verdict
from cwndlab.analysis.comparison import Contrast, Options, RunSet
from cwndlab.analysis.effects import Answer
from cwndlab.analysis.runs import Run
from cwndlab.errors import ExperimentError
from cwndlab.execution import runner
from cwndlab.report import interface
from cwndlab.results import questions
from cwndlab.results.resultset import ResultSet
from experiments import dumbbell
from pages import rendered


def cells(*pairs: tuple[Sequence[Run], Sequence[Run]]) -> list[Contrast]:
    """Combinations of a delay, with the runs of a and b in each."""
    return [
        Contrast(RunSet("cubic", a), RunSet("bbr", b), {"delay": f"{place}ms"}, f"delay {place}ms")
        for place, (a, b) in enumerate(pairs, 1)
    ]


def of(every: Sequence[Contrast], metric: str = "goodput_mbps") -> Answer:
    over = comparison.average(every, metric)
    options = Options(within=False)
    overall = [] if over is None else comparison.compare([over], [metric], options)
    (found,) = effects.of_comparisons(comparison.compare(every, [metric], options), overall)
    return found


def one(value: float, metric: str = "goodput_mbps") -> list[Run]:
    return simulated([value], metric=metric)


def said(found: Answer) -> str:
    return " ".join([found.lead(), *found.details()])


def test_every_combination_counts_and_single_runs_are_called_that() -> None:
    found = of(cells((one(100.0), one(99.5)), (one(10.0), one(19.48))))
    typical = 100 * (math.sqrt(0.995 * 1.948) - 1)
    assert said(found) == (
        f"bbr against cubic, typically over 2 combinations: goodput {typical:.1f} % higher "
        "(geometric mean of ratios; one run each). "
        "Goodput: from 0.50 % lower (delay 1ms) to 94.8 % higher (delay 2ms); bbr ahead in 1 of 2, "
        "cubic ahead in 1. Each was run once: repeats would tell how far chance moves it."
    )


def test_what_flows_take_from_each_other_is_told_beside_their_sum() -> None:
    def shared(*rates: tuple[float, float]) -> list[Run]:
        runs = simulated([sum(of) for of in rates])
        return [
            replace(run, flows=dict(zip(("f1", "f2"), of, strict=True)))
            for run, of in zip(runs, rates, strict=True)
        ]

    found = of(cells((shared((5, 5)), shared((2.5, 7.5))), (shared((4, 6)), shared((4, 6)))))
    assert "goodput the same (f1 29.3 % lower, f2 22.5 % higher); geometric mean" in found.lead()
    assert found.told
    small = of(cells((shared((5, 5)), shared((4.8, 5.2)))))
    assert not small.effects[0].shifts
    together = of(cells((shared((5, 5)), shared((8, 8.2)))))
    assert not together.effects[0].shifts, "the sum tells as much"
    chance = [(1, 9), (9, 1), (5, 5), (9, 1), (2, 8)], [(5, 5), (5.1, 4.9), (4.9, 5.1), (5.2, 4.8), (5, 5)]
    assert not of(cells((shared(*chance[0]), shared(*chance[1])))).effects[0].shifts
    sure = [(2, 8), (2.2, 7.8), (1.9, 8.1), (2, 8), (2.1, 7.9)]
    assert of(cells((shared(*chance[1]), shared(*sure)))).effects[0].shifts == {
        "f1": pytest.approx(2.04 / 5.04 - 1),
        "f2": pytest.approx(7.96 / 4.96 - 1),
    }
    none = of(cells((shared((5, 5)), shared((0, 10.1)))))
    assert "(f1 100 % lower, f2 102 % higher); " in none.lead()


def test_what_no_draw_moves_is_exact() -> None:
    a, b, c, d = ([replace(run, identity=f"{of}") for run in simulated([of] * 3)] for of in (10, 12, 20, 21))
    found = of(cells((a, b), (c, d)))
    assert found.lead().endswith("(geometric mean of ratios; exact).")
    assert not any(word in said(found) for word in ("chance", "repeats", "sure"))


def test_repeats_make_it_sure_or_say_that_it_may_be_chance() -> None:
    far = cells(*((simulated(values(10, 0.1, 8)), simulated(values(12, 0.1, 8, seed=2))) for _ in "ab"))
    assert "20.0 % higher (geometric mean of ratios; 95 % sure)" in of(far).lead()
    near = cells(*((simulated(values(10, 1, 8)), simulated(values(10.1, 1, 8, seed=2))) for _ in "ab"))
    assert of(near).lead().endswith("with 8 runs each that may be chance).")
    few = cells(*((simulated(values(10, 0.1, 3)), simulated(values(12, 0.1, 3, seed=2))) for _ in "ab"))
    assert of(few).lead().endswith("3 runs each are too few to rule out chance).")
    assert not any("repeats would tell" in said(of(every)) for every in (far, near, few))


def test_the_average_of_compare_is_the_geometric_mean_of_what_stands_below_it() -> None:
    small, large = values(1, 0.05, 8), values(100, 9, 8, seed=2)
    every = cells((simulated(small), simulated(2 * small)), (simulated(large), simulated(0.7 * large)))
    over = comparison.average(every, "goodput_mbps")
    assert over is not None
    (found,) = comparison.compare([over], ["goodput_mbps"], Options())
    assert found.share(found.difference) == pytest.approx(math.sqrt(2 * 0.7) - 1)
    assert of(every).effects[0].typical == pytest.approx(math.sqrt(2 * 0.7) - 1)


def test_nothing_has_no_ratio_and_per_cents_differ_in_points() -> None:
    found = of(cells((one(0, "rtos"), one(3, "rtos")), (one(4, "rtos"), one(5, "rtos"))), "rtos")
    assert "retransmission timeouts 2.00 higher (mean of differences; one run each)" in found.lead()
    losses = cells(
        *((one(a, "retransmit_rate"), one(b, "retransmit_rate")) for a, b in ((0.01, 0.03), (0.0, 0.01)))
    )
    assert "segments retransmitted 1.50 points higher (mean of" in of(losses, "retransmit_rate").lead()


def test_a_trade_off_is_one_sentence_what_is_better_first() -> None:
    runs = [
        [Run("r", {"goodput_mbps": rate, "rtt_p95_ms": rtt}, repeat=0, draws=(1, 0), by_chance=False)]
        for rate, rtt in ((10.0, 100.0), (9.5, 40.0))
    ]
    each = comparison.compare(
        cells((runs[0], runs[1])), ["goodput_mbps", "rtt_p95_ms"], Options(within=False)
    )
    (found,) = effects.of_comparisons(each, [])
    expected = "bbr against cubic: 95th percentile RTT 60.0 % lower, but goodput 5.00 % lower (one run each)."
    assert found.lead() == expected
    (turned,) = effects.of_comparisons(each, [], {"rtt_p95_ms": "higher"})
    assert "but" not in turned.lead()


def test_changes_of_one_sentence_are_told_in_one_form() -> None:
    found = of(cells((one(100.0), one(99.7)), (one(10.0), one(411.0))))
    assert "from 0.9970 times as high (delay 1ms) to 41.1 times as high (delay 2ms)" in said(found)
    assert "goodput 540 % higher" in found.lead()
    runs = [
        [Run("r", {"goodput_mbps": rate, "rtt_p95_ms": rtt}, repeat=0, draws=(1, 0), by_chance=False)]
        for rate, rtt in ((10.0, 10.0), (62.5, 411.0))
    ]
    each = comparison.compare(
        cells((runs[0], runs[1])), ["goodput_mbps", "rtt_p95_ms"], Options(within=False)
    )
    (found,) = effects.of_comparisons(each, [])
    assert "goodput 6.25 times as high, but 95th percentile RTT 41.1 times as high" in found.lead()


@pytest.mark.parametrize(
    ("value", "text"), [(99.98, "99.98"), (99.99999, "99.99"), (100, "100"), (99.94, "99.9"), (100.4, "100")]
)
def test_less_than_all_is_not_written_as_all(value: float, text: str) -> None:
    assert amounts.digits(value) == text


ANSWERS = [
    ("{metric: goodput_mbit}", "metric: found 'goodput_mbit'; expected a metric of the summary, such as"),
    (
        "{metric: ce_marks}",
        "metric: found ce_marks alone; expected better: higher or better: lower beside it",
    ),
    ("{metric: jain, by: hosts.b.cc}", "by: found 'hosts.b.cc'; expected one of network.dumbbell.bottleneck"),
    ("{metric: ce_marks, better: lower, by: cc}", ""),
]


@pytest.mark.parametrize(("given", "line"), ANSWERS)
def test_answers_that_cannot_be_are_refused_by_their_place(given: str, line: str) -> None:
    text = f"{SMALL}answers:\n  - {given}\n"
    found = ""
    try:
        runner.check(interface.load(text), testbeds.MODEL)
    except ExperimentError as error:
        found = str(error)
    place = text.splitlines().index(f"  - {given}") + 1
    assert found.startswith(f"<text>:{place}: answers.1.{line}" if line else "")
    assert bool(found) is bool(line)


SMALL = dumbbell(
    "small-buffer",
    duration="20s",
    a="stack: linux, cc: cubic",
    b="stack: linux",
    bottleneck="rate: 50mbit, delay: 1ms, queue: {kind: pfifo, limit: 10p}",
    more="""\
sweep:
  - network.dumbbell.bottleneck.delay: [1ms, 50ms]
  - hosts.a.cc: [cubic, bbr]
""",
)


def bbr_over_cubic(results: ResultSet, key: str, metric: str) -> dict[str, float]:
    """Ratio of the two means of a metric, at each value of a swept key."""
    means = {
        (row[key], row["cc"]): row[metric]
        for row in results.summary.group_by(key, "cc").agg(pl.col(metric).mean()).to_dicts()
    }
    return {value: means[value, "bbr"] / means[value, "cubic"] for value, cc in means if cc == "bbr"}


def numbers(pattern: str, text: str) -> list[float]:
    found = re.search(pattern, text)
    assert found is not None, text
    return [float(number) for number in found.groups()]


MIXED = dumbbell(
    "mixed",
    duration="5s",
    a="stack: linux-6.18",
    bottleneck="rate: 10mbit, delay: 10ms, queue: {kind: pfifo, limit: 100p}",
    flow="name: upload, from: a, to: b",
    more="""\
  - {name: web, from: a, to: b, app: {kind: request-response, response: 50KB, think: 100ms}}
  - {name: phone, from: a, to: b, app: {kind: voip}}
sweep:
  - {network.dumbbell.bottleneck.queue: [{kind: pfifo, limit: 100p}, {kind: fq_codel}]}
repeat: 5
""",
)


@pytest.mark.slow
def test_delays_of_mixed_applications_are_told_each_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "mixed.yaml"
    file.write_text(MIXED)
    results = interface.load(file).run(out=tmp_path / "out")
    (found,) = answer.answers(results)
    said = found.lead()
    means = results.summary.group_by("network.dumbbell.bottleneck.queue", "app").agg(
        pl.col("response_p95_ms", "one_way_p95_ms", "rtt_p95_ms").mean()
    )
    for metric, app, words in (
        ("response_p95_ms", "request-response", "95th percentile response time"),
        ("one_way_p95_ms", "voip", "95th percentile one-way delay"),
        ("rtt_p95_ms", "bulk", "95th percentile RTT of bulk"),
    ):
        of_app = means.filter(pl.col("app") == app).sort(metric)[metric].to_list()
        lower = float(re.findall(rf"{words} ([\d.]+) % lower", said)[0])
        assert lower == pytest.approx(100 * (1 - of_app[0] / of_app[1]), abs=1.5), said
    assert said.count("95 % sure") == 1
    assert ") (" not in said


@pytest.mark.slow
def test_a_small_buffer_and_two_delays(tmp_path: Path) -> None:
    results = interface.load(SMALL).run(out=tmp_path / "out")
    (found,) = answer.answers(results)
    ratios = bbr_over_cubic(results, "network.dumbbell.bottleneck.delay", "goodput_mbps")
    typical = 100 * (math.sqrt(ratios["1ms"] * ratios["50ms"]) - 1)
    lead = r"bbr against cubic, typically over 2 combinations: goodput ([\d.]+) % higher, but"
    assert numbers(lead, found.lead()) == pytest.approx([typical], rel=0.01)
    first = found.details()[0]
    ends = (
        r"Goodput: from ([\d.]+) % lower \(delay 1ms\) to ([\d.]+) % higher \(delay 50ms\); "
        r"bbr ahead in 1 of 2, cubic ahead in 1\."
    )
    changes = [100 * (1 - ratios["1ms"]), 100 * (ratios["50ms"] - 1)]
    assert numbers(ends, first) == pytest.approx(changes, rel=0.01, abs=0.0051), "two decimals"
    page, text = rendered(results), verdict.text(contrasts.by_key(results, "cc"))
    assert first in page
    assert first in text
    asked = SMALL + "question: Which carries more?\nanswers:\n  - {metric: rtt_p50_ms, by: delay}\n"
    other = interface.load(asked).run(out=tmp_path / "asked")
    assert questions.of(other).text == "Which carries more?"
    (by_delay,) = answer.answers(other)
    assert by_delay.lead().startswith(
        "delay 50ms against delay 1ms, typically over 2 combinations: median RTT"
    )
    assert "Which carries more?" in rendered(other)


@pytest.mark.slow
def test_the_baseline_of_teacup(tmp_path: Path) -> None:
    results = interface.load("teacup-140502A", ["record.tcp=100ms"]).run(out=tmp_path / "out", jobs=2)
    linux, windows = answer.answers(results)
    goodputs: dict[str, dict[tuple[object, ...], float]] = {}
    swept = ("shaper.rate", "delay", "queue.limit")
    keys = ["hosts.a.cc", *(f"network.dumbbell.bottleneck.{key}" for key in swept)]
    for row in results.summary.to_dicts():
        cell = tuple(row[key] for key in keys)
        goodputs.setdefault(row["hosts.a.stack"], {})[cell] = row["goodput_mbps"]
    pairs = [(goodput, goodputs["freebsd-9.2"][cell]) for cell, goodput in goodputs["linux-3.9"].items()]
    ahead, behind = sum(x > y for x, y in pairs), sum(x < y for x, y in pairs)
    assert f"linux-3.9 ahead in {ahead} of 126, freebsd-9.2 ahead in {behind}" in linux.details()[0]
    assert ahead > 90, "the report's finding"
    assert "over 63 combinations" in windows.lead()


@pytest.mark.slow
def test_one_ack_a_round(tmp_path: Path) -> None:
    chosen = [
        "hosts.a.stack=freebsd-13",
        "hosts.a.cc=newreno",
        "flows.f1.to=once-a-round",
        "record.tcp=100ms",
    ]
    results = interface.load("lro-slow-start", chosen).run(out=tmp_path / "out", jobs=2)
    found = answer.answers(results)[0]
    buffer = "hosts.gro.sysctl.net.ipv4.tcp_rmem"
    rates = [rows["goodput_mbps"].to_list() for _, rows in results.summary.group_by(buffer)]
    least = min(eight / two - 1 for two, eight, *_ in rates)
    assert any(f"from {least:.0%} higher".replace("%", " %") in text for text in found.details())


@pytest.mark.slow
def test_the_demonstration(tmp_path: Path) -> None:
    demo = (Path(cwndlab.__file__).parent / "experiment" / "demo.yaml").read_text()
    results = interface.load(demo).run(out=tmp_path / "out", jobs=2)
    (found,) = answer.answers(results)
    limit = "network.dumbbell.bottleneck.queue.limit"
    rtts, goodputs = (bbr_over_cubic(results, limit, metric) for metric in ("rtt_p95_ms", "goodput_mbps"))
    lead = (
        r"bbr against cubic, typically over 2 combinations: 95th percentile RTT ([\d.]+) % lower, "
        r"but goodput ([\d.]+) % lower "
    )
    typical = [100 * (1 - math.sqrt(math.prod(ratios.values()))) for ratios in (rtts, goodputs)]
    assert numbers(lead, found.lead()) == pytest.approx(typical, rel=0.01)
    ends = r"from ([\d.]+) % lower \(limit 264p\) to ([\d.]+) % lower \(limit 33p\); bbr ahead in 2 of 2\."
    changes = [100 * (1 - rtts[limit]) for limit in ("264p", "33p")]
    assert numbers(ends, said(found)) == pytest.approx(changes, rel=0.01)
