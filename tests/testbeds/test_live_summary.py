"""The summary of a run on the real kernel, made of what was seen without one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cwndlab import load
from cwndlab.results.summary import flow_metrics
from cwndlab.testbeds.live.path.backend import PathReport
from cwndlab.testbeds.live.summary import limits, summary
from cwndlab.testbeds.ssh.machines.machine import Clock

TEXT = """\
experiment: x
duration: 2s
hosts: {a: {stack: linux}, b: {stack: linux}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit}}}
flows: [{name: f, from: a, to: b, app: APP}]
"""
SECOND = 10**9


def end(role: str, **seen: Any) -> dict[str, Any]:
    """What an agent tells of an end of the flow that saw nothing else."""
    nothing = {"opened_ns": None, "ended_ns": None, "error": None, "read": 0, "read_in_window": 0}
    counts = {"sent_in_window": 0, "missing_in_window": 0, "samples": [], "seconds": []}
    return {"flow": "f", "role": role, **nothing, **counts, **seen}


def drops(app: str, sent: int, came: int, missing: int, changes: Sequence[str] = (), **known: Any) -> Any:
    """What the summary says of datagrams or echoes of which so many came and so many before those did not."""
    scenario = load(TEXT.replace("APP", app), changes).plan().runs[0].scenario
    found = {"read": 200 * came, "read_in_window": 200 * came, "missing_in_window": missing}
    ends = [end("to", **found), end("from", opened_ns=0, sent_in_window=sent)]
    if app == "ping":
        ends = [end("from", opened_ns=0, sent_in_window=sent, **found)]
    carried = PathReport([], [], {"f": known} if known else {})
    observed = summary.Observed(scenario, pl.DataFrame(), pl.DataFrame(), carried)
    observed.reports = {("f", one["role"]): one for one in ends}
    observed.starts = {"f": 0}
    (flow,) = summary.summary(observed)["flows"]
    return flow["drops"]


@pytest.mark.parametrize("app", ["voip", "{kind: udp-cbr, rate: 1mbit}", "ping"])
def test_datagrams_and_echoes_that_did_not_come_are_drops(app: str) -> None:
    assert drops(app, 8, came=4, missing=2) == 2
    assert drops(app, 4, came=4, missing=0) == 0
    assert drops(app, 4, came=0, missing=0) == 4


def test_drops_that_the_path_counted_are_its_own() -> None:
    assert drops("voip", 8, 4, 2, drops=7) == 7
    # It sees nothing of what a rule drops behind it, which passes echoes.
    rule = ["hosts.b.ingress={after_gro: {loss: {random: 1%}}}"]
    assert drops("voip", 8, 4, 2, rule, drops=1) == 2
    assert drops("ping", 8, 4, 2, rule, drops=1) == 1


def transitions(states: list[str], **columns: Any) -> list[tuple[int, str]]:
    """Transitions that are seen of a sender in rows 100 ns apart; columns that are not told are empty."""
    scenario = load(TEXT.replace("APP", "bulk"), ["measure={from: 0s, to: 2s}"]).plan().runs[0].scenario
    empty = dict.fromkeys(("recoveries", "timeouts", "cwnd_bytes", "ssthresh_bytes"))
    sent = pl.DataFrame(
        {"t_ns": range(0, 100 * len(states), 100), "state": states, "flow": "f", **empty, **columns},
        schema_overrides=dict.fromkeys(empty, pl.UInt64),
    )
    observed = summary.Observed(scenario, sent, pl.DataFrame(), PathReport([], [], {}))
    observed.starts = {"f": 0}
    return list(summary._Flow(observed, scenario["flows"][0]).transitions())


@pytest.mark.parametrize("counts", [[0, 0, 1, 3, 3, 4], [None] * 6])
def test_recoveries_that_follow_each_other_are_counted_where_the_kernel_counts(
    counts: list[int | None],
) -> None:
    states = ["slow-start", "avoidance", "recovery", "recovery", "avoidance", "avoidance"]
    seen = transitions(states, recoveries=counts)
    began = [at for at, kind in seen if kind == "recovery-in"]
    # Two more within one sample, and one too short for the samples of the state.
    assert began == ([200] if counts[0] is None else [200, 300, 300, 500])
    assert sum(kind == "recovery-out" for _, kind in seen) == len(began)


@pytest.mark.parametrize("counts", [[0, 1, 1, 3, 3, 4], [None] * 6])
def test_timeouts_that_follow_each_other_are_counted_where_the_kernel_counts(
    counts: list[int | None],
) -> None:
    states = ["slow-start", "loss", "loss", "loss", "avoidance", "avoidance"]
    expired = [at for at, kind in transitions(states, timeouts=counts) if kind == "rto"]
    # Two more that are backed off, and one too short for the samples of the state.
    assert expired == ([100] if counts[0] is None else [100, 300, 300, 500])


def test_packets_out_of_order_do_not_end_slow_start() -> None:
    states = ["slow-start", "disorder", "disorder", "slow-start", "disorder", "avoidance"]
    ssthresh = [None, None, 30_000, 30_000, 30_000, 30_000]
    window = [10_000, 12_000, 14_000, 29_000, 30_000, 31_000]
    seen = transitions(states, cwnd_bytes=window, ssthresh_bytes=ssthresh)
    assert seen == [(400, "slow-start-exit")]


@pytest.mark.parametrize(
    ("app", "ended_s", "active_s"), [("bulk", None, 0.9), ("{kind: fixed, size: 1MB}", 0.8, 0.8)]
)
def test_a_flow_is_active_from_its_handshake_until_its_transfer_is_complete(
    app: str, ended_s: float | None, active_s: float
) -> None:
    scenario = load(TEXT.replace("APP", app), ["measure={from: 0s, to: 1s}"]).plan().runs[0].scenario
    rows = {"t_ns": [SECOND // 2], "flow": "f", "min_rtt_ns": [SECOND // 10], "state": "avoidance"}
    empty = ("recoveries", "timeouts", "cwnd_bytes", "ssthresh_bytes")
    sent = pl.DataFrame({**rows, **dict.fromkeys(empty)}, schema_overrides=dict.fromkeys(empty, pl.UInt64))
    observed = summary.Observed(scenario, sent, pl.DataFrame(), PathReport([], [], {}))
    observed.starts = {"f": 0}
    ended = None if ended_s is None else round(ended_s * SECOND)
    observed.reports = {
        ("f", "from"): end("from", opened_ns=0),
        ("f", "to"): end("to", ended_ns=ended, read=1_000_000),
    }
    assert summary._Flow(observed, scenario["flows"][0])._active_ns() == round(active_s * SECOND)


def limited(rwnd_ms: int, delivered_mbit: float, path: str = "rate: 10mbit") -> Any:
    """What limited a flow of two seconds that had data all the time, of which the window held it so much."""
    text = TEXT.replace("APP", "bulk").replace("rate: 10mbit", path)
    scenario = load(text).plan().runs[0].scenario
    steps = range(21)
    rows = pl.DataFrame(
        {
            "t_ns": [step * SECOND // 10 for step in steps],
            "local_port": [1] * 21,
            "remote_port": [2] * 21,
            "busy_ns": [step * SECOND // 10 for step in steps],
            "rwnd_limited_ns": [step * rwnd_ms * 1_000_000 // 20 for step in steps],
            "sndbuf_limited_ns": [0] * 21,
            "delivered_bytes": [round(step * delivered_mbit * 1e6 / 80) for step in steps],
            "mss_bytes": [1448] * 21,
            "srtt_ns": [20_000_000] * 21,
        }
    )
    return limits.limited(rows, scenario, "f", 2 * SECOND, 66)


def test_a_counter_is_read_once_for_all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    filled: list[str] = []
    fill_null = pl.Series.fill_null

    def counting(series: pl.Series, *values: Any, **more: Any) -> pl.Series:
        filled.append(series.name)
        return fill_null(series, *values, **more)

    monkeypatch.setattr(pl.Series, "fill_null", counting)
    limited(2000, 5)
    assert sorted(filled) == ["busy_ns", "delivered_bytes", "rwnd_limited_ns", "sndbuf_limited_ns"]


def test_a_full_window_is_the_limit_only_while_the_path_has_room() -> None:
    assert limited(2000, 5)["rwnd"] == 2 * SECOND
    full = limited(2000, 9.5)
    assert (full["path"], full["rwnd"], full["cwnd"]) == (2 * SECOND, 0, 0)
    half = limited(1000, 9.5)
    assert (half["path"], half["cwnd"]) == (SECOND, SECOND)


def test_what_a_kernel_does_not_tell_is_not_known() -> None:
    found = limited(2000, 5)
    assert found["host"] is None
    assert found["pacing"] is None
    unrated = limited(2000, 5, "delay: 1ms")
    assert unrated["path"] is None
    assert unrated["rwnd"] == 2 * SECOND


def test_one_way_delays_between_two_clocks_say_how_far_they_may_be_off() -> None:
    scenario = load(TEXT.replace("APP", "voip")).plan().runs[0].scenario
    observed = summary.Observed(scenario, pl.DataFrame(), pl.DataFrame(), PathReport([], [], {}))
    observed.starts = {"f": 0}

    def told(delays: list[int], errors: dict[str, int]) -> tuple[Any, ...]:
        seen = [(SECOND, "one-way-delay", delay, 200) for delay in delays]
        sent = end("from", opened_ns=0, sent_in_window=1)
        observed.reports = {("f", "from"): sent, ("f", "to"): end("to", samples=seen)}
        observed.clock_errors_ns = errors
        row = flow_metrics(scenario, summary.summary(observed))["f"]
        return row["one_way_p50_ms"], row["one_way_error_ms"], row["mos_error"]

    # The first look at a clock left 0.1 ms open; the second 0.2 ms, and the clock had moved by 1 ms.
    moved = Clock(5_000_000, 100_000).may_be_off(Clock(4_000_000, 200_000))
    # A ms of delay is 0.024 of R (docs/results.md), and the score rises by some 0.02 a point there.
    assert told([20_000_000], {"a": moved, "b": 300_000}) == (20.0, 1.5, pytest.approx(0.0007, abs=2e-4))
    assert told([20_000_000], {}) == (20.0, None, None)
    assert told([], {"a": moved, "b": 300_000}) == (None, None, None)
    # Beyond where people begin to talk into each other it is more.
    (*_, early), (*_, late) = (told([ms * 10**6], {"a": 5 * 10**6, "b": 0}) for ms in (20, 190))
    assert late > 2 * early


def test_changes_of_one_way_delays_of_loadlatency_are_off_where_there_are_two_clocks(tmp_path: Path) -> None:
    experiment = load(TEXT.replace("APP", "{kind: loadlatency, scenario: 1, idle: 200ms}"))
    scenario = experiment.plan().runs[0].scenario
    told = experiment.run(out=tmp_path / "out").record(0).summary
    assert told is not None
    (pinger,) = [flow for flow in told["flows"] if "observed" in flow.get("load", {})]
    found = pinger["load"]["metrics"]
    found["one_way"]["off_ms"] = 1.25  # what the tool says, which takes its ends for two machines
    alone = {"scenarios": [pinger["load"]["observed"]], "idle_pings": []}
    document = {"observed": alone, "metrics": [found], "conditions": {"facts": {"began_monotonic_ns": "0"}}}
    observed = summary.Observed(scenario, pl.DataFrame(), pl.DataFrame(), PathReport([], [], {}))
    observed.starts = dict.fromkeys((flow["name"] for flow in scenario["flows"]), 0)
    observed.sessions = {pinger["flow"]: summary.LoadSession(document, None)}
    for errors, off_ms in (({}, None), ({"a": 1000, "b": 1000}, 1.25)):
        observed.clock_errors_ns = errors
        row = flow_metrics(scenario, summary.summary(observed))[pinger["flow"]]
        assert row["one_way_error_ms"] == off_ms
