"""What limited a flow, in words."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cwndlab import _native, load
from cwndlab.results import limits
from cwndlab.results.summary import flow_metrics

AUTOSIZED = """\
experiment: autosized
duration: 20s
hosts: {a: {stack: linux-6.18, sndbuf: 64MB}, b: {stack: STACK}}
network: {dumbbell: {left: [a], right: [b], access: {rate: 10gbit}, bottleneck: {rate: 1gbit, delay: 40ms}}}
flows: [{name: f, from: a, to: b, app: bulk}]
measure: {from: 10s}
"""


def shares(**known: float) -> dict[str, float]:
    return {f"limited_{kind}_pct": known.get(kind, 0.0) for kind in limits.KINDS}


def test_the_main_limit_has_more_than_half_of_the_time():
    assert limits.main(shares(cwnd=30, path=30, rwnd=40)) == "path"
    assert limits.main(shares(cwnd=45, sndbuf=40)) == "several"
    assert limits.main(shares()) is None
    assert limits.main({"limited_rwnd_pct": 60.0}) == "rwnd", "of an imported file"


def test_a_buffer_says_what_holds_it():
    held = {"held_bytes": 1_707_088, "held_by": "kern.ipc.maxsockbuf"}
    said = limits.sentence({**shares(rwnd=99.9, path=0.1), **held})
    assert said.startswith(
        "more than 99 % of the time by the receiver's window (a buffer of 1,707,088 bytes, held by kern"
    )
    assert said.endswith("goes beyond), less than 1 % of the time by the path")
    assert "autotuning may grow" in limits.sentence({**shares(rwnd=90), "held_bytes": 1000, "held_by": None})


def test_round_trips_are_told_apart_where_they_differ():
    said = limits.round_trips({"rtt_p50_ms": 0.44, "srtt_mean_ms": 44.0})
    assert said.endswith("with what packets wait in the hosts.")
    shorter = limits.round_trips({"rtt_p50_ms": 763.0, "srtt_mean_ms": 231.0})
    assert shorter.endswith("231 ms (srtt), of the segments that it times.")
    assert "path, 0.44 ms" in said
    assert "44 ms (srtt)" in said
    assert limits.round_trips({"rtt_p50_ms": 40.0, "srtt_mean_ms": 44.0}) == ""
    assert limits.round_trips({"rtt_p50_ms": None, "srtt_mean_ms": 44.0}) == ""


def measured(text: str) -> dict[str, Any]:
    scenario = load(text).plan().runs[0].scenario
    run = _native.Simulation(json.dumps(scenario), 0)
    while not run.advance(1 << 18):
        run.take()
    return flow_metrics(scenario, json.loads(run.summary()))["f"]


@pytest.mark.slow
def test_autosizing_that_kern_ipc_maxsockbuf_ends_says_so():
    row = measured(AUTOSIZED.replace("STACK", "freebsd-13"))
    assert (row["limited_by"], row["held_by"]) == ("rwnd", "kern.ipc.maxsockbuf")
    assert row["held_bytes"] <= 2097152 * 8 // 9 < row["held_bytes"] * 3 / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stack", "holder"),
    [
        ("freebsd-13, sysctl: {net.inet.tcp.recvbuf_max: 1000000}", "net.inet.tcp.recvbuf_max"),
        ("freebsd-13, sysctl: {net.inet.tcp.recvbuf_auto: 0}", "net.inet.tcp.recvbuf_auto"),
        ("freebsd-13, rcvbuf: 300KB", "SO_RCVBUF"),
        ("linux-6.18, sysctl: {net.ipv4.tcp_rmem: 4096 131072 1000000}", "net.ipv4.tcp_rmem"),
        ("linux-6.18, rcvbuf: 300KB", "SO_RCVBUF"),
        ("windows-7, rcvbuf: 300KB", "SO_RCVBUF"),
    ],
)
def test_whatever_holds_the_buffer_is_named(stack: str, holder: str):
    row = measured(AUTOSIZED.replace("STACK", stack).replace("20s", "6s").replace("from: 10s", "from: 3s"))
    assert (row["limited_by"], row["held_by"]) == ("rwnd", holder)


STALLED = """\
experiment: stalled
duration: 12s
hosts:
  a: {stack: freebsd-9.0, sndbuf: 64KiB}
  b:
    stack: freebsd-9.0
    rcvbuf: 64KiB
    noise: {processing: {mean: 40us}, stall: {every: 100ms, length: 30ms}}
network: {dumbbell: {left: [a], right: [b], access: {rate: 10gbit}, bottleneck: {rate: 1gbit, delay: 100us}}}
flows: [{name: f, from: a, to: b, app: bulk}]
record: {tcp: 1ms}
measure: {from: 2s}
"""


def test_the_mean_of_the_smoothed_rtt_is_that_of_its_series(tmp_path: Path):
    results = load(STALLED).run(out=tmp_path / "stalled")
    series = results.series(0, flow="f", table="tcp").filter(pl.col("t_s") >= 2)
    mean = results.summary["srtt_mean_ms"][0]
    assert mean == pytest.approx(series["srtt_ms"].mean(), rel=0.05), "long rounds weigh by their end"
