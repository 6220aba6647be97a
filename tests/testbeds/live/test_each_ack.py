"""Rows at each acknowledgement on this kernel, by its tracepoint, and nothing that stays traced."""

import subprocess
import time
from pathlib import Path

import pytest
from dumbbell import Command
from lateness import late_s

import cwndlab as api
from cwndlab.testbeds.live.linux import tcp_probe
from patience import PATIENCE

pytestmark = pytest.mark.live


def test_each_acknowledgement_is_a_row_where_the_experiment_asks_for_it(
    dumbbell: Path, cwndlab: Command
) -> None:
    if not Path("/sys/kernel/tracing/events/tcp/tcp_probe").exists():
        pytest.skip("tracefs shows no tracepoint tcp:tcp_probe")
    out = dumbbell.parent / "out"
    asked = ("--set", "duration=2s", "--set", "record.tcp=per-ack")
    ran = cwndlab("run", dumbbell, "--testbed", "netns", "-o", out, "--no-report", *asked)
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    rows, (flow,) = results.series(0), results.record(0).summary["flows"]
    # A receiver acknowledges every second segment, and more often at the beginning.
    assert flow["segments_sent"] / 4 < rows.height < 2 * flow["segments_sent"]
    # Of a million bytes a second some are on their way at the end; iperf3's own words are no payload.
    on_their_way = 60_000 + 1_250_000 * late_s(results)
    assert rows["delivered_bytes"].max() == pytest.approx(flow["goodput_bytes"], abs=on_their_way)
    assert rows["t_s"].diff().min() >= 0
    steps = rows["delivered_bytes"].diff().drop_nulls()
    assert (steps > 0).mean() > 0.8, "samples at an interval would stand still between two"
    assert not list(Path("/sys/kernel/tracing/instances").glob("cwndlab-*"))


def test_a_kill_leaves_nothing_traced() -> None:
    instances = Path("/sys/kernel/tracing/instances")
    if not instances.exists():
        pytest.skip("no tracefs")
    with subprocess.Popen(tcp_probe.command([]), stdout=subprocess.DEVNULL) as process:
        made = instances / f"cwndlab-{process.pid}"
        enabled = made / "events/tcp/tcp_probe/enable"
        deadline = time.monotonic() + PATIENCE
        while not (enabled.exists() and enabled.read_text(encoding="ascii").startswith("1")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
    while made.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
