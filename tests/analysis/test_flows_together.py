"""Flows of a run together: goodput over the time they share, and what is said where some did not end."""

from pathlib import Path

import pytest

from cwndlab import load
from cwndlab.analysis import answer, contrasts, runs, verdict
from cwndlab.analysis.comparison import RunSet
from cwndlab.errors import InputError
from cwndlab.report.html_report import headline, sections
from cwndlab.report.html_report.facts import Facts
from cwndlab.report.html_report.headline import totals
from cwndlab.results import display
from cwndlab.results.resultset import ResultSet

RATE = 10.0
"""Rate of the link, Mbit/s."""

FILE = f"""\
experiment: transfers
duration: 3500ms
hosts: {{a: {{stack: linux-6.18, cc: cubic}}, b: {{stack: linux-6.18}}}}
network: {{dumbbell: {{left: [a], right: [b], bottleneck: {{rate: {RATE:g}mbit, delay: 10ms}}}}}}
flows: [{{name: f, from: a, to: b, bytes: 900KB, count: 5, stagger: 500ms}}]
record: {{tcp: "off", queue: "off"}}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    """A run of five transfers, of which each begins half a second later and the last two do not end."""
    found = load(FILE, ["repeat=1"]).run(out=tmp_path_factory.mktemp("transfers") / "r")
    assert found.summary["status"].to_list() == ["complete"] * 3 + ["unfinished"] * 2
    return found


def test_flows_one_after_the_other_carry_no_more_together_than_their_link(results: ResultSet) -> None:
    (run,), _ = runs.of_results(results)
    summed = results.summary["goodput_mbps"].sum()
    assert summed > 2 * RATE, "else this shows nothing"
    together = run.metrics["goodput_mbps"]
    assert 0.9 * RATE < together < RATE
    # They share the whole of the run but its first moments, so that this is what all carried in it.
    assert together == pytest.approx(results.summary["total_goodput_mbps"][0], rel=0.02)


def test_one_flow_has_its_own_rate(results: ResultSet) -> None:
    (run,), _ = runs.of_results(results, "f.4")
    assert run.metrics["goodput_mbps"] == results.summary["goodput_mbps"][3]


def test_a_pause_between_flows_is_no_time_of_theirs() -> None:
    second = 10**9
    rates = {"goodput_mbps": [8.0, 4.0, None], "utilisation": [0.25, 0.5, None]}
    active = [(0, second), (10 * second, 12 * second), (0, 0)]
    assert runs._all_flows(rates, active) == {"goodput_mbps": pytest.approx(16 / 3), "utilisation": 0.75}
    assert runs._all_flows(rates)["goodput_mbps"] == 12.0, "of recordings that do not tell the times"


def test_a_run_has_no_completion_time_where_a_transfer_did_not_end(results: ResultSet) -> None:
    (run,), notes = runs.of_results(results)
    assert "completion_s" not in run.metrics
    assert "1 runs ended before a flow had done all; they count, without a completion time" in notes[0]
    sides = [RunSet("one", [run]), RunSet("other", [run])]
    with pytest.raises(InputError, match="completion_s has no value, as no run here ended all its transfers"):
        contrasts._metrics([(sides[0], sides[1])], ["completion_s"])
    (first,), _ = runs.of_results(results, "f.1")
    assert first.metrics["completion_s"] == results.summary["completion_s"][0]


def glance(facts: Facts) -> list[object]:
    """What a report says at a glance."""
    said = sections._glance(facts)["glance"]
    assert isinstance(said, list)
    return said


def test_a_report_counts_flows_that_did_not_end_and_says_so(results: ResultSet) -> None:
    facts = Facts(results)
    assert ("runs", "0 complete, 1 with flows that had not done all") in glance(facts)
    (words,) = sections._incomplete(facts, 0, 1)
    assert words.startswith("2 of 5 flows had not done all they were asked to when their run ended")
    names, ((_, _, flows, *cells),) = totals(facts)
    assert flows == 5
    utilisation = cells[names.index("utilisation")]
    assert isinstance(utilisation, tuple)
    assert utilisation[1] == pytest.approx(100 * results.summary["utilisation"].sum())


def test_a_report_of_what_ended_says_nothing_of_that(tmp_path: Path) -> None:
    facts = Facts(load(FILE.replace("900KB", "90KB"), ["repeat=1"]).run(out=tmp_path / "r"))
    assert ("runs", "1 complete") in glance(facts)
    assert sections._incomplete(facts, 0, 1) == []


PARTS = """\
experiment: parts
duration: 12s
hosts:
  a: {stack: linux-6.18, sysctl: {net.ipv4.tcp_retries2: 3}}
  b: {stack: linux-6.18}
  c: {stack: linux-6.18}
network:
  dumbbell:
    left: [a, c]
    right: [b]
    access_of: {a: {schedule: [{at: 3s, set: {down: true}}]}}
    bottleneck: {rate: 10mbit, delay: 10ms}
flows:
  - {name: broken, from: a, to: b}
  - {name: whole, from: c, to: b}
  - {name: shut, from: a, to: b, start: 5s}
  - {name: late, from: c, to: b, start: 11990ms}
start_jitter: 500ms
record: {tcp: 1s, queue: "off"}
"""
"""Flows of one run: one whose connection breaks, one that carries on, one that never opens, one too late."""


def test_a_run_of_which_one_flow_broke_is_not_said_to_have_failed(tmp_path: Path) -> None:
    found = load(PARTS, ["repeat=1"]).run(out=tmp_path / "r")
    assert found.summary["status"].to_list() == ["failed", "complete", "complete", "not-started"]
    facts = Facts(found)
    assert ("runs", "0 complete, 1 with flows that failed") in glance(facts)
    assert sections._incomplete(facts, 0, 1) == [
        "1 of 4 flows failed, as their connection broke: what follows covers the others only.",
        "1 of 4 flows had not begun when their run ended: what follows covers the others only.",
        "1 of 4 flows carried nothing, as their connection did not open.",
    ]
    assert "shut: its connection did not open." in sections._limits(facts)["limits"]
    assert headline._rows(facts, "goodput_mbps", "")[0].label == "whole"
    (run,), notes = runs.of_results(found)
    assert run.metrics["goodput_mbps"] == found.summary["goodput_mbps"][1]
    assert notes == [f"{found.path}: 1 flows failed, and do not count; the other flows of their runs do"]


def test_a_flow_that_broke_counts_as_measured(tmp_path: Path) -> None:
    found = load(PARTS, ["repeat=2"]).run(out=tmp_path / "r")
    rows = [line.split()[:3] for line in display.table(found).splitlines()[3:]]
    assert rows[0] == ["broken", "2", "failed"], "what it measured until then is of two runs"


WAYS = """\
experiment: ways
duration: 3s
hosts: {a: {stack: linux-6.18}, b: {stack: linux-6.18}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit, delay: 5ms}}}
flows: [{name: up, from: a, to: b}, {name: up2, from: a, to: b}, {name: down, from: b, to: a}]
sweep: [network.dumbbell.bottleneck.delay: [5ms, 10ms]]
record: {tcp: "off", queue: "off"}
"""


def test_parts_of_different_links_are_not_added_up(tmp_path: Path) -> None:
    found = load(WAYS, ["repeat=1"]).run(out=tmp_path / "r")
    assert found.summary["utilisation"][:3].sum() > 1.2, "else this shows nothing"
    assert "utilisation" not in totals(Facts(found))[0]
    with pytest.raises(InputError, match="utilisation is of a bottleneck, and the flows here pass different"):
        contrasts.by_key(found, "delay", contrasts.Selection(["utilisation"]))
    of_one = contrasts.by_key(found, "delay", contrasts.Selection(["utilisation"], flow="down"))
    assert of_one.each[0].a.mean == pytest.approx(found.summary["utilisation"][2])


UNEQUAL = """\
experiment: unequal
duration: 8s
hosts: {a: {stack: linux-6.18, cc: bbr}, b: {stack: linux-6.18}}
network:
  dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit, delay: 10ms, queue: {kind: pfifo, limit: 30p}}}
flows: [{name: long, from: a, to: b}, {name: short, from: a, to: b, start: 7s}]
record: {tcp: "off", queue: "off"}
sweep: [hosts.a.cc: [bbr, cubic]]
"""


def test_losses_of_flows_together_are_the_part_of_all_their_segments(tmp_path: Path) -> None:
    found = load(UNEQUAL, ["repeat=1"]).run(out=tmp_path / "r")
    rows = found.summary.filter(found.summary["hosts.a.cc"] == "bbr")
    total = rows["total_retransmit_rate"][0]
    assert abs(rows["retransmit_rate"].mean() - total) > 0.005, "else this shows nothing"
    run = runs.of_results(found)[0][0]
    assert run.metrics["retransmit_rate"] == pytest.approx(total, rel=1e-5)
    assert run.metrics["drop_rate"] == pytest.approx(rows["total_drop_rate"][0], rel=1e-5)
    # Percentiles of two flows have no such whole, which is said.
    (said,) = answer.answers(found)
    assert "95th percentile RTT (mean over 2 flows)" in said.lead()
    assert "segments retransmitted (mean" not in said.lead()
    of_two = contrasts.by_key(found, "cc", contrasts.Selection(["rtt_p95_ms"]))
    assert "RTT, 95th percentile (mean over 2 flows): " in verdict.text(of_two)
    of_one = contrasts.by_key(found, "cc", contrasts.Selection(["rtt_p95_ms"], flow="long"))
    assert "mean over" not in verdict.text(of_one)
