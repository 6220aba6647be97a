"""What is compared where nobody names a metric and packets were marked."""

import json

import pytest

from cwndlab import load
from cwndlab.analysis import contrasts, verdict
from cwndlab.analysis.comparison import RunSet
from cwndlab.analysis.runs import Run
from cwndlab.report import plots
from cwndlab.results.metrics import BESIDE_MARKS
from cwndlab.results.resultset import ResultSet

FILE = """\
experiment: marked
duration: 3s
hosts:
  a: {stack: linux-7.3, cc: prague}
  b: {stack: linux-7.3, cc: prague, egress: {delay: 20ms}}
  r: {stack: linux-7.3}
network:
  dumbbell:
    left: [a, b]
    right: [r]
    bottleneck: {rate: 20mbit, delay: 2ms, queue: dualpi2}
flows:
  - {name: near, from: a, to: r, app: bulk}
  - {name: far, from: b, to: r, app: bulk}
sweep:
  - zip: {hosts.a.cc: [cubic, prague], hosts.b.cc: [cubic, prague]}
repeat: 1
record: {tcp: "off", queue: "off"}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    """Two flows whose base RTTs are 4 and 24 ms: of CUBIC without ECN, and of Prague, which is marked."""
    return load(FILE).run(out=tmp_path_factory.mktemp("marked") / "r")


def compared(results: ResultSet, **selection: object) -> dict[str, contrasts.Comparison]:
    found = contrasts.by_key(results, "a.cc", contrasts.Selection(**selection))  # type: ignore[arg-type]
    assert not found.alone
    return {each.metric: each for each in found.each}


@pytest.mark.slow
def test_marks_delays_and_rtt_independence_are_compared_where_any_run_was_marked(results: ResultSet) -> None:
    found = compared(results)
    assert list(found) == ["goodput_mbps", *BESIDE_MARKS]
    flows = results.record(1).summary["flows"]
    marked = sum(flow["ce_marks"] for flow in flows)
    arrived = sum(flow["segments_sent"] - flow["drops"] for flow in flows)
    assert marked > 0
    # CUBIC's side has no marks, and that is a share of 0 and no side without one.
    assert found["mark_rate"].a.values.tolist() == [0]
    assert found["mark_rate"].b.values.tolist() == [marked / arrived]
    rows = results.summary.filter(results.summary["hosts.a.cc"] == "prague")
    assert found["queue_delay_p95_ms"].b.mean == pytest.approx(rows["queue_delay_p95_ms"].mean())
    near, far = rows["goodput_mbps"]
    # 6 times the base RTT.
    assert 6 ** found["rtt_exponent"].b.mean == pytest.approx(near / far, rel=1e-4)


@pytest.mark.slow
def test_of_one_flow_the_marks_are_its_own(results: ResultSet) -> None:
    flow = results.record(1).summary["flows"][1]
    share = flow["ce_marks"] / (flow["segments_sent"] - flow["drops"])
    assert compared(results, flow="far")["mark_rate"].b.mean == share


@pytest.mark.slow
def test_they_are_told_in_points_and_in_the_exponents_own_unit(results: ResultSet) -> None:
    found = contrasts.by_key(results, "a.cc")
    lines = [json.loads(line) for line in verdict.json_lines(found).splitlines()]
    assert [line["metric"] for line in lines if "metric" in line] == ["goodput_mbps", *BESIDE_MARKS]
    told = {each.metric: verdict.difference(each) for each in found.each}
    assert told["mark_rate"].endswith(" points")
    assert "%" not in told["rtt_exponent"]
    assert "%" not in verdict.block(found.each[-1])


@pytest.mark.slow
def test_a_metric_that_is_named_is_compared_alone(results: ResultSet) -> None:
    assert list(compared(results, metrics=["goodput_mbps"])) == ["goodput_mbps"]


@pytest.mark.slow
def test_a_plot_of_differences_has_one_metric(results: ResultSet) -> None:
    (axis,) = plots.plot(results, "difference", by=["hosts.a.cc"]).axes
    assert len(axis.get_yticklabels()) == 1
    assert axis.get_xlabel() == "difference of goodput [%]"


def chosen(a: dict[str, float], b: dict[str, float]) -> list[str]:
    sides = (RunSet("a", [Run("a", a)]), RunSet("b", [Run("b", b)]))
    return contrasts._metrics([sides], [])


def test_without_marks_it_is_the_first_choice_alone() -> None:
    of_both = {"goodput_mbps": 1.0, "mark_rate": 0.0, "queue_delay_p50_ms": 1.0, "ce_marks": 0.0}
    assert chosen(of_both, of_both) == ["goodput_mbps"]
    assert chosen(of_both, {**of_both, "ce_marks": 1.0}) == [
        "goodput_mbps",
        "mark_rate",
        "queue_delay_p50_ms",
    ]


def test_what_one_side_alone_has_is_not_compared_with_nothing() -> None:
    marked = {"goodput_mbps": 1.0, "ce_marks": 5.0, "mark_rate": 0.1, "rtt_exponent": 0.5}
    assert chosen(marked, {"goodput_mbps": 1.0}) == ["goodput_mbps"]
