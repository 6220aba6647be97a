"""Testbed netns on this kernel: real TCP over the emulated path, refusals, and that nothing is left behind.

Machines that run tests are busy: what is asserted is structure, conservation, and bounds that physics sets.
"""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from dumbbell import DUMBBELL, Command
from lateness import late_s

import cwndlab as api
from cwndlab.errors import InputError
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds import tables
from cwndlab.testbeds.live import session
from cwndlab.testbeds.live.linux import kernel as kernel_of_linux
from cwndlab.testbeds.live.linux.this_machine import ThisMachine
from cwndlab.testbeds.netns import machine, namespaces
from patience import PATIENCE

pytestmark = pytest.mark.live

APPS = """\
flows:
  - {name: bulk, from: a, to: b, app: {kind: bulk, tool: own}, bytes: 300KB}
  - {name: asked, from: a, to: b, app: {kind: request-response, response: 5KB, think: 20ms}}
  - {name: many, from: a, to: b, count: 2, app: {kind: incast, size: 10KB, rounds: 3}}
  - {name: paced, from: a, to: b, app: {kind: rate-limited, rate: 400kbit, write: 5KB}}
  - {name: turns, from: a, to: b, app: {kind: on-off, on: 200ms, off: 200ms, rate: 1mbit, write: 5KB}}
  - {name: fixed, from: a, to: b, app: {kind: fixed, size: 50KB}}
  - {name: video, from: a, to: b, app: {kind: video, rate: 400kbit, chunk: 500ms, buffer: 1s}}
  - {name: cross, from: a, to: b, app: {kind: background, load: 1mbit, size: 10KB}}
  - {name: call, from: a, to: b, app: voip}
  - {name: beat, from: a, to: b, app: {kind: udp-cbr, rate: 200kbit, payload: 200}}
  - {name: probe, from: a, to: b, app: ping}
  - {name: old, from: a, to: b, app: {kind: bulk, tool: iperf2}, start: 1s, stop: 2s}
"""


@pytest.fixture(scope="module")
def bulk(tmp_path_factory: pytest.TempPathFactory, cwndlab: Command) -> ResultSet:
    """A bulk transfer through iperf3, captured at the bottleneck."""
    directory = tmp_path_factory.mktemp("bulk")
    (directory / "x.yaml").write_text(DUMBBELL + "record: {pcap: [bottleneck]}\n", encoding="utf-8")
    ran = cwndlab("run", directory / "x.yaml", "--testbed", "netns", "-o", directory / "out", "--no-report")
    assert ran.returncode == 0, ran.stderr
    return api.open(directory / "out")


def test_a_bulk_transfer_is_carried_by_the_kernel_over_the_emulated_path(bulk: ResultSet) -> None:
    (row,) = bulk.summary.to_dicts()
    assert row["testbed"] == "netns"
    assert row["stack"] == machine.kernel().stack
    assert row["status"] in ("complete", "unreliable")
    # The link carries 10 Mbit/s of packets of 1514 bytes with 1448 of payload, and cannot carry more.
    assert 4.0 < row["goodput_mbps"] <= 10 * 1448 / 1514 * 1.02
    assert row["goodput_mbps"] < row["throughput_mbps"] <= 10.3
    # Twice 5 ms of delay, and at most 31 packets of 1.2 ms each on top.
    assert 10.0 <= row["rtt_min_ms"] <= row["rtt_p50_ms"] <= row["rtt_p95_ms"] <= row["rtt_max_ms"]
    assert row["queue_delay_p95_ms"] < 31 * 1514 * 8 / 1e4 + 20 + 1e3 * late_s(bulk)
    assert row["cwnd_max_bytes"] > 10 * 1448
    assert row["limited_rwnd_pct"] is not None


def test_the_tables_are_those_of_the_simulator_and_agree_with_each_other(bulk: ResultSet) -> None:
    bulk.verify()
    tcp, info = bulk.series(0, flow="f1"), bulk.series(0, flow="f1", table="tcp_info")
    assert tcp.height > 100
    assert tcp.height == info.height
    assert set(tcp["state"].cast(pl.String)) <= {
        "slow-start",
        "avoidance",
        "recovery",
        "loss",
        "cwr",
        "disorder",
    }
    for counter in (tcp["delivered_bytes"], tcp["retransmits"], info["busy_ms"], info["sent_bytes"]):
        assert (counter.diff().drop_nulls() >= 0).all()
    assert (tcp["delivered_bytes"] <= info["sent_bytes"] + 1).all(), "the kernel counts the SYN as delivered"
    assert tcp["t_s"].is_between(0, 3).all()
    queue = bulk.series(0, table="queue")
    assert queue["backlog_packets"].max() <= 31
    drops = bulk.series(0, table="events").filter(pl.col("kind") == "drop")
    assert drops.filter(pl.col("hop") == "bottleneck").height == queue["drops"][-1]
    assert set(tables.SCHEMAS["samples"].names) - {"run_id", "t_ns"} <= set(
        bulk.series(0, table="samples").columns
    )


def test_goodput_of_each_second_adds_up_to_what_was_read(bulk: ResultSet) -> None:
    samples = bulk.series(0, table="samples").filter(pl.col("kind") == "goodput")
    counted = bulk.record(0).summary["flows"][0]["goodput_bytes"]
    assert samples["t_s"].to_list() == [1.0, 2.0, 3.0]
    assert samples["value"].sum() == pytest.approx(counted, abs=5)


def test_what_ran_beside_the_traffic_is_kept(bulk: ResultSet) -> None:
    record = bulk.record(0)
    assert record.position == 0
    assert all(trip >= 10e6 for trip in record.facts["idle_ping_ns"]["a>b"])
    assert len(record.facts["idle_ping_ns"]["a>b"]) == 5
    assert record.facts["path"]["packets"] > 0
    assert set(record.facts["start_skew_ns"]) == {"f1"}
    sysctls = record.facts["sysctls"]["a"]
    assert sysctls["net.ipv4.tcp_no_metrics_save"] == "1"
    # iperf3 sets a connection's own once it is open: what comes before must leave nothing behind.
    assert sysctls["net.ipv4.tcp_congestion_control"] in (bulk.summary["cc"][0], "reno")
    assert record.attachments == ["0-f1-iperf3-from.json", "0-f1-iperf3-to.json", "0-hosts.json.gz"]
    reports = [bulk.path / "runs" / "0-0" / name for name in record.attachments]
    (interval, *_) = json.loads(reports[0].read_text())["intervals"]
    assert interval["streams"][0]["bytes"] > 0
    (capture,) = bulk.captures(0)
    packets = (capture.stat().st_size - 24) // (16 + 128)
    assert packets >= bulk.record(0).summary["flows"][0]["goodput_bytes"] // 1448 // 2


def test_the_same_experiment_gives_the_same_columns_on_both_testbeds(bulk: ResultSet, tmp_path: Path) -> None:
    modelled = api.load(DUMBBELL).run(out=tmp_path / "sim")
    assert modelled.summary.columns == bulk.summary.columns
    assert modelled.summary.schema == bulk.summary.schema
    for table in ("tcp", "queue", "events", "samples"):
        assert modelled.series(0, table=table).columns == bulk.series(0, table=table).columns
    for ours, theirs in zip(
        bulk.record(0).summary["flows"], modelled.record(0).summary["flows"], strict=True
    ):
        assert ours.keys() == theirs.keys()
    assert bulk.plot("cwnd", tmp_path / "cwnd.png") is not None


def test_every_app_does_on_real_sockets_what_it_says(dumbbell: Path, cwndlab: Command) -> None:
    roomy = DUMBBELL.replace("10mbit, delay", "50mbit, delay").replace("limit: 30p", "limit: 1000p")
    text = roomy.partition("flows:")[0] + APPS
    dumbbell.write_text(text, encoding="utf-8")
    out = dumbbell.parent / "out"
    ran = cwndlab("run", dumbbell, "--testbed", "netns", "-o", out, "--no-report")
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    late = late_s(results)
    rows = {row["flow"]: row for row in results.summary.to_dicts()}
    assert {row["status"] for row in rows.values()} <= {"complete", "unreliable"}
    flows = {flow["flow"]: flow for flow in results.record(0).summary["flows"]}
    assert flows["bulk"]["goodput_bytes"] == 300_000
    assert flows["fixed"]["goodput_bytes"] == 50_000
    assert flows["many.1"]["goodput_bytes"] == flows["many.2"]["goodput_bytes"] == 30_000
    assert flows["asked"]["goodput_bytes"] >= 5_000 * flows["asked"]["response"]["count"] > 0
    assert flows["many.1"]["round"]["count"] + flows["many.2"]["round"]["count"] == 3
    assert flows["paced"]["goodput_bytes"] <= 400_000 / 8 * 3 + 5_000
    assert 0 < flows["turns"]["goodput_bytes"] <= 1_000_000 / 8 * 3
    assert flows["video"]["response"]["count"] >= 2
    assert flows["cross"]["completion"]["count"] > 0
    assert flows["call"]["segments_sent"] == pytest.approx(150, abs=3 + 50 * late)
    assert flows["beat"]["goodput_bytes"] == 200 * flows["beat"]["one_way"]["count"]
    assert rows["probe"]["rtt_min_ms"] >= 10
    finished = results.series(0, table="events").filter(pl.col("kind") == "app")
    assert finished.filter(pl.col("flow") == "asked").height >= flows["asked"]["response"]["count"]
    assert finished.filter(pl.col("flow") == "bulk")["seq"].to_list() == [300_000]
    probes = results.series(0, flow="probe", table="samples").filter(pl.col("kind") == "probe-rtt")
    assert 20 - 10 * late < probes.height <= 30
    for row in rows.values():
        for delay in ("one_way_p50_ms", "response_p50_ms", "completion_p50_ms"):
            assert row[delay] is None or row[delay] >= (5 if delay.startswith("one") else 10)
    assert rows["old"]["goodput_mbps"] > 0
    assert {"0-old-iperf2-from.txt", "0-old-iperf2-to.txt", "0-hosts.json.gz"} == set(
        results.record(0).attachments
    )


NETWORKS = {
    "star with a shared buffer": """
network:
  star:
    switch: {buffer: 60KB}
    link: {rate: 20mbit, delay: 2ms}
""",
    "chain of two bottlenecks, one with a schedule": """
network:
  chain:
    bottlenecks:
      - {rate: 20mbit, delay: 1ms, schedule: [{at: 500ms, set: {rate: 10mbit}}]}
      - {rate: 10mbit, delay: 1ms}
    hosts: [[a], [], [b, c]]
""",
    "one way there and another back, with loss": """
network:
  nodes: [x, y]
  links:
    - {from: a, to: x, rate: 20mbit}
    - {name: there, from: x, to: y, one_way: true, delay: 3ms, rate: 10mbit, loss: {random: 0.5%}}
    - {name: back, from: y, to: x, one_way: true, delay: 1ms}
    - {from: y, to: b}
    - {from: y, to: c}
""",
}


@pytest.mark.parametrize("network", NETWORKS)
def test_every_form_of_network_carries_flows_both_ways(tmp_path: Path, network: str) -> None:
    hosts_and_flows = """
experiment: net
duration: 2s
repeat: 1
hosts:
  a: {stack: linux, egress: {delay: 1ms}, nic: {tso: true}}
  b: {stack: linux, nic: {gro: true}}
  c: {stack: linux, nic: {tso: true, gro: true}}
flows:
  - {name: one, from: a, to: b, bytes: 200KB, cc: cubic}
  - {name: other, from: c, to: a, bytes: 200KB, cc: reno, app: {kind: bulk, tool: own}, sndbuf: 100KB}
record: {pcap: [a]}
"""
    experiment = api.load(f"{hosts_and_flows}{NETWORKS[network]}", (), "netns")
    results = experiment.run("netns", tmp_path / "out")
    rows = {row["flow"]: row for row in results.summary.to_dicts()}
    assert {row["status"] for row in rows.values()} <= {"complete", "unreliable"}, rows
    counted = {flow["flow"]: flow for flow in results.record(0).summary["flows"]}
    # iperf3 sends a cookie of 37 bytes first.
    assert counted["one"]["goodput_bytes"] == pytest.approx(200_000, abs=40)
    assert counted["other"]["goodput_bytes"] == 200_000
    assert all(row["rtt_min_ms"] >= 5.0 for row in rows.values()), "4 ms of links and 1 ms of egress"
    assert len(results.captures(0)) == 2


def test_buffers_of_a_flow_are_those_of_its_sockets(dumbbell: Path, cwndlab: Command) -> None:
    out = dumbbell.parent / "out"
    small = ("--set", "flows.f1.sndbuf=20KB", "--set", "flows.f1.rcvbuf=20KB", "--set", "duration=1s")
    ran = cwndlab("run", dumbbell, "--testbed", "netns", "-o", out, "--no-report", *small)
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    assert results.record(0).attachments, "iperf3 does it"
    # The kernel doubles what is asked for, and counts its own overhead in it.
    assert 0 < results.series(0)["inflight_bytes"].max() <= 40_000


def test_validate_puts_model_and_kernel_side_by_side(dumbbell: Path, cwndlab: Command) -> None:
    out, document = dumbbell.parent / "out", dumbbell.parent / "fidelity.md"
    document.write_text("# Fidelity\n", encoding="utf-8")
    ran = cwndlab(
        "compare", "--testbed", "netns", dumbbell, "-o", out, "--document", document, "--set", "duration=2s"
    )
    assert ran.returncode == 0, ran.stderr
    metrics = {line.split("  ")[1] for line in ran.stdout.splitlines() if line.startswith("  ")}
    assert {"goodput, Mbit/s", "retransmits", "RTT p50, ms"} <= metrics
    assert "goodput: median error" in ran.stdout
    assert {path.name for path in out.iterdir()} >= {
        "model",
        "kernel",
        "validate.csv",
        "overlay.png",
        "validate.html",
    }
    assert "## The live kernel" in document.read_text(encoding="utf-8")
    ticks = {host["hz"] for host in api.open(out / "model").record(0).scenario["hosts"]}
    assert ticks == {kernel_of_linux.ticks_per_second()}, "the model's hosts tick as this kernel does"
    model, kernel = api.open(out / "model").summary, api.open(out / "kernel").summary
    assert (model["testbed"][0], kernel["testbed"][0]) == ("sim", "netns")
    assert 0.4 < kernel["goodput_mbps"][0] / model["goodput_mbps"][0] < 1.2


def test_validate_refuses_to_compare_different_things(dumbbell: Path, cwndlab: Command) -> None:
    ran = cwndlab("compare", "--testbed", "netns", dumbbell, "--set", "record.tcp=per-ack")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "are compared at an interval" in ran.stderr


def test_the_kernels_own_queues_carry_a_path_without_delay(dumbbell: Path, cwndlab: Command) -> None:
    call = "  - {name: call, from: a, to: b, app: voip}\n  - {name: probe, from: a, to: b, app: ping}\n"
    text = DUMBBELL.replace("delay: 5ms, ", "").replace("seed: 1", f"{call}seed: 1") + "emulator: kernel\n"
    dumbbell.write_text(text, encoding="utf-8")
    out = dumbbell.parent / "out"
    short = ("--set", "duration=2s", "--set", "repeat=1")
    ran = cwndlab("run", dumbbell, "--testbed", "netns", "-o", out, "--no-report", *short)
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    row, *streams = results.summary.to_dicts()
    assert row["status"] == "complete"
    assert 4.0 < row["goodput_mbps"] <= 10 * 1448 / 1514 * 1.05
    assert results.series(0, table="queue")["backlog_packets"].max() <= 30
    assert row["ce_marks"] is None, "what is not known is empty"
    for stream, flow in zip(streams, results.record(0).summary["flows"][1:], strict=True):
        came = flow["one_way"]["count"] if stream["flow"] == "call" else flow["rtt"]["count"]
        assert 0 <= stream["drop_rate"] < 1
        # But for those on their way when the run began to be measured, and when it ended.
        assert flow["segments_sent"] - flow["drops"] == pytest.approx(came, abs=5)


def test_a_rule_behind_receive_aggregation_drops_what_it_says(dumbbell: Path, cwndlab: Command) -> None:
    loss = "{nth: {every: 50, packet: 0, min_payload: 1000}}"
    ingress = f"hosts.b.ingress={{after_gro: {{loss: {loss}, match: {{dport: 5201}}}}}}"
    out = dumbbell.parent / "out"
    short = ("--set", "duration=2s", "--set", "network.dumbbell.bottleneck.queue.limit=1000p")
    ran = cwndlab("run", dumbbell, "--testbed", "netns", "-o", out, "--no-report", "--set", ingress, *short)
    assert ran.returncode == 0, ran.stderr
    (row,) = api.open(out).summary.to_dicts()
    assert row["retransmit_rate"] == pytest.approx(0.02, abs=0.012)


def test_timeouts_are_those_that_the_kernel_counts(dumbbell: Path, cwndlab: Command) -> None:
    ingress = "hosts.b.ingress={after_gro: {loss: {nth: {every: 2, packet: 0, min_payload: 1000}}}}"
    out = dumbbell.parent / "out"
    short = ("--set", "duration=3s", "--set", ingress)
    ran = cwndlab("run", dumbbell, "--testbed", "netns", "-o", out, "--no-report", *short)
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    counted = results.series(0, table="tcp_info")["timeouts"].max()
    assert counted > 0, "every other segment is lost, and so is every other one sent again"
    assert 0 < results.summary["rtos"][0] <= counted


def test_a_rule_drops_datagrams_too(dumbbell: Path, cwndlab: Command) -> None:
    ingress = "hosts.b.ingress={after_gro: {loss: {nth: {every: 4, packet: 0}}}}"
    flow = "flows.f1={from: a, to: b, app: {kind: udp-cbr, rate: 400kbit, payload: 200}}"
    out = dumbbell.parent / "out"
    short = ("--set", "duration=1s", "--set", ingress, "--set", flow)
    ran = cwndlab("run", dumbbell, "--testbed", "netns", "-o", out, "--no-report", *short)
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    (flow_seen,) = results.record(0).summary["flows"]
    # 250 of them in a second, of which the last may be on their way at its end.
    on_their_way = 5 + 250 * late_s(results)
    sent = flow_seen["segments_sent"]
    assert flow_seen["one_way"]["count"] == pytest.approx(0.75 * sent, abs=5 + on_their_way)
    assert flow_seen["drops"] == pytest.approx(0.25 * sent, abs=on_their_way)


def test_a_suites_rows_of_linux_are_run_by_this_kernel(tmp_path: Path, cwndlab: Command) -> None:
    """Every hundredth packet is dropped behind aggregation by a rule of nftables, as published."""
    every = "hosts.b.ingress.after_gro.loss.nth.every=100"
    fewer = ("repeat=1", "duration=3s", "hosts.a.cc=newreno", every)
    options = [word for change in fewer for word in ("--set", change)]
    out = tmp_path / "out"
    ran = cwndlab("run", "loss-resilience", "--testbed", "netns", "-o", out, "--no-report", *options)
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    (row,) = results.summary.to_dicts()
    assert (row["stack"], row["cc"]) == (machine.kernel().stack, "reno")
    assert 0.003 < row["retransmit_rate"] < 0.1
    assert "linux of this machine stands for linux-6.8" in results.record(0).notes


def test_analogues_of_another_systems_sysctls_are_labelled(tmp_path: Path, cwndlab: Command) -> None:
    options = (
        "--set",
        "repeat=1",
        "--set",
        "duration=1s",
        "--set",
        "pause=0s",
        "--set",
        "hosts.a.sndbuf=64KiB",
    )
    out = tmp_path / "out"
    ran = cwndlab("run", "window-sweep", "--testbed", "netns", "-o", out, "--no-report", *options)
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    assert results.summary.height == 3
    assert results.summary["sysctls"].str.starts_with("analogue test ").all()
    sysctls = [results.record(run).facts["sysctls"]["a"]["net.ipv4.tcp_wmem"] for run in range(3)]
    assert [text.split()[2] for text in sysctls] == ["2097152", "2097152", "16777216"]
    assert "analogue: net.ipv4.tcp_wmem.max for net.inet.tcp.sendbuf_max" in results.record(0).notes


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("hosts.a.cc=cdg", "found 'cdg'; expected one of"),
        ("hosts.a.sysctl.net.ipv4.tcp_reorderin=5", "near it: net.ipv4.tcp_reordering"),
        (
            "hosts.a.sysctl.net.ipv4.tcp_reordering=99999",
            "this kernel refuses net.ipv4.tcp_reordering = 99999",
        ),
        ("hosts.a.stack=freebsd", "found 'freebsd'; expected one of linux-"),
        ("hosts.a.noise={processing: {mean: 1ms}}", "not supported by testbed netns yet"),
        (
            "loggers=[ping, siftr]",
            "loggers.2: found 'siftr'; expected one that testbed netns has: tcp_info, queue, pcap",
        ),
        ("hosts.b.nic.coalesce.time=1ms", "not supported by testbed netns yet"),
        ("flows.f1={from: a, to: b, sndbuf: 100KB, app: {kind: bulk, tool: iperf3}}", "both ends alike (-w)"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_in_one_line_before_anything_starts(
    tmp_path: Path, change: str, complaint: str
) -> None:
    with pytest.raises(InputError) as refused:
        api.load(DUMBBELL, [change], "netns").run("netns", tmp_path / "out")
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_refusal_on_the_command_line_is_one_line_and_exit_code_2(dumbbell: Path, cwndlab: Command) -> None:
    ran = cwndlab("run", dumbbell, "--testbed", "netns", "--set", "hosts.a.cc=cdg")
    assert (ran.returncode, ran.stdout) == (2, "")
    available = ", ".join(machine.kernel().congestion_controls)
    assert f"found 'cdg'; expected one of {available} on {machine.kernel().stack}" in ran.stderr
    assert "modprobe tcp_cdg" in ran.stderr
    assert (ran.stderr.startswith("error: "), ran.stderr.count("\n")) == (True, 1)


def test_a_dry_run_refuses_what_the_run_would(dumbbell: Path, cwndlab: Command) -> None:
    options = ("--testbed", "netns", "--set", "loggers=[siftr]")
    dry = cwndlab("run", dumbbell, "--dry-run", *options)
    assert (dry.returncode, dry.stdout) == (2, "")
    assert dry.stderr == cwndlab("run", dumbbell, *options).stderr
    refused = ("--set", "hosts.a.sysctl.net.ipv4.tcp_reordering=99999")
    assert cwndlab("run", dumbbell, "--dry-run", "--testbed", "netns", *refused).returncode == 2


def test_settings_of_the_machine_and_its_namespaces_are_kept(bulk: ResultSet) -> None:
    record = bulk.record(0)
    (name,) = [name for name in record.attachments if "hosts" in name]
    kept = json.loads(gzip.decompress(next(bulk.path.glob(f"runs/*/{name}")).read_bytes()))
    own = kept["namespaces"]["a"]
    assert own["sysctls"]["net.ipv4.tcp_congestion_control"] != ""
    assert kept["common"]["net.ipv4.tcp_rmem"].count(" ") == 2
    assert own["interfaces"]["lo"]["mtu"] >= 1500
    veth = next(each for name, each in own["interfaces"].items() if name != "lo")
    assert not {"tx-tcp-segmentation", "rx-gro"} & set(veth["offloads"])
    assert set(record.facts["machine"]) == {"uname", "cpu", "clock", "modules"}
    assert (kept["changed"], [text for text in record.warnings if "changed during" in text]) == ([], [])
    assert "tcp_fastopen_key" not in json.dumps(kept)


def test_a_setting_that_changes_during_a_run_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = session._Run._wait

    def meddle(run: session._Run, zero: int) -> None:
        (name,) = [path.name for path in namespaces.NAMESPACES.glob("cwndlab-*-a")]
        namespaces.inside(name, lambda: ThisMachine().write("/proc/sys/net/ipv4/tcp_retries2", "9"))
        wait(run, zero)

    monkeypatch.setattr(session._Run, "_wait", meddle)
    results = api.load(DUMBBELL, ["duration=1s"], "netns").run("netns", tmp_path / "out")
    warning = "net.ipv4.tcp_retries2 of a changed during the run: '15' before, '9' after"
    assert warning in results.record(0).warnings


def test_different_buffers_are_for_our_own_sender() -> None:
    (run,) = api.load(DUMBBELL, ["flows.f1.sndbuf=100KB"], "netns").plan().runs
    assert run.scenario["live"]["flows"]["f1"]["tool"] == "own"


@pytest.mark.parametrize("right", ["sys_admin", "net_admin", "net_raw"])
def test_without_rights_one_line_says_so(dumbbell: Path, cwndlab: Command, right: str) -> None:
    powerless = ("setpriv", f"--bounding-set=-{right}")
    ran = cwndlab("run", dumbbell, "--testbed", "netns", "-o", dumbbell.parent / "out", prefix=powerless)
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: testbed netns needs root, ")
    assert ran.stderr.count("\n") == 1
    assert not (dumbbell.parent / "out").exists()


@pytest.mark.parametrize("prefix", [(), ("setpriv", "--bounding-set=-sys_nice")])
def test_senders_and_receivers_run_before_ordinary_processes_where_they_may(
    dumbbell: Path, prefix: tuple[str, ...]
) -> None:
    allowed = subprocess.run([*prefix, "chrt", "--rr", "1", "true"], check=False, capture_output=True)
    process = started(dumbbell, dumbbell.parent / "out", prefix)
    found = policies(wait_for(lambda: own_namespaces(process.pid)))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    policy = os.SCHED_RR if allowed.returncode == 0 else os.SCHED_OTHER
    assert found == {("cwndlab.testbeds.live.traffic.agent", policy), ("iperf3", policy)}


def test_an_interrupted_run_leaves_nothing(dumbbell: Path) -> None:
    process = started(dumbbell, dumbbell.parent / "out")
    names = wait_for(lambda: own_namespaces(process.pid))
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert complaint.startswith("error: interrupted")
    assert not remaining(names)
    assert [path.name for path in (dumbbell.parent / "out" / "runs").iterdir()] == []


def test_a_killed_run_leaves_nothing_as_somebody_watches(dumbbell: Path) -> None:
    process = started(dumbbell, dumbbell.parent / "out")
    names = wait_for(lambda: own_namespaces(process.pid))
    process.kill()
    process.communicate(timeout=PATIENCE)
    wait_for(lambda: not remaining(names))


def test_doctor_cleans_what_a_crash_left_and_nothing_else(cwndlab: Command) -> None:
    alive = namespaces.Owner()
    try:
        kept = alive.create("a")
        crashed = subprocess.run([sys.executable, "-c", CRASH], capture_output=True, text=True, check=False)
        name = crashed.stdout.strip()
        inode = (namespaces.NAMESPACES / name).stat().st_ino
        assert inhabited(inode)
        assert "left 1 namespaces" in cwndlab("doctor").stdout
        cleaned = cwndlab("doctor", "--clean")
        assert cleaned.returncode == 0
        guests = "cwndlab-guest-"  # those of a kernel in virtual time may have been left, too
        assert [line for line in cleaned.stdout.splitlines() if not line.startswith(guests)] == [name]
        assert not (namespaces.NAMESPACES / name).exists()
        assert (namespaces.NAMESPACES / kept).exists(), "its process is alive"
        assert not inhabited(inode)
    finally:
        alive.close()
    assert not (namespaces.NAMESPACES / kept).exists()


CRASH = """\
import os, subprocess
from cwndlab.testbeds.netns import namespaces
owner = namespaces.Owner()
name = owner.create("a")
held = open(os.devnull)
path = namespaces.NAMESPACES / name
subprocess.Popen(["nsenter", f"--net={path}", "sleep", "600"], stdout=held, stderr=held)
while not any(namespaces._namespace(pid) == path.stat().st_ino for pid in namespaces._processes()):
    pass
print(name, flush=True)
os._exit(1)
"""
"""A run that dies without a reaper, with a process in its namespace."""


def test_a_sweep_goes_in_random_blocks_with_its_order_recorded_and_can_be_resumed(
    dumbbell: Path, cwndlab: Command
) -> None:
    dumbbell.write_text(
        DUMBBELL + "pause: 10ms\nrepeat: 2\nsweep: [{hosts.a.cc: [cubic, reno]}]\n", encoding="utf-8"
    )
    out = dumbbell.parent / "out"
    command = ("run", dumbbell, "--testbed", "netns", "-o", out, "--no-report", "--set", "duration=200ms")
    assert cwndlab(*command).returncode == 0
    results = api.open(out)
    records = sorted(results.records(), key=lambda record: record.position or 0)
    assert [record.position for record in records] == [0, 1, 2, 3]
    assert [record.repeat for record in records] == [0, 0, 1, 1], "a block is one repeat of every cell"
    part = out / "runs" / "2-2"
    for file in part.iterdir():
        file.unlink()
    part.rmdir()
    again = cwndlab(*command, "--resume")
    assert again.returncode == 0, again.stderr
    assert [record.position for record in sorted(api.open(out).records(), key=lambda one: one.run_id)] == [
        record.position for record in sorted(records, key=lambda one: one.run_id)
    ]


def started(file: Path, out: Path, prefix: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
    """A run under way in a process of its own."""
    command = [*prefix, sys.executable, "-m", "cwndlab", "run", file, "--testbed", "netns", "-o", out, "-q"]
    return subprocess.Popen(
        [*map(str, command), "--set", "duration=60s"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition: Callable[[], object]) -> list[str]:
    """What the condition gives once it holds, within a generous time."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found if isinstance(found, list) else []
        time.sleep(0.05)
    raise AssertionError("it never came to that")


def own_namespaces(pid: int) -> list[str]:
    """The namespaces of a run once traffic goes on in both hosts."""
    for child in children(pid):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
        except OSError:  # it has ended meanwhile
            continue
        if "cwndlab.testbeds.netns.reaper" in words:
            run = words[words.index("cwndlab.testbeds.netns.reaper") + 1]
            names = [path.name for path in namespaces.NAMESPACES.glob(f"cwndlab-{run}-*")]
            if any("iperf3" in words for name in names for words in in_namespace(name)):
                return names
    return []


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def remaining(names: list[str]) -> list[str]:
    """What is still there of namespaces, their processes and their run's files."""
    run = names[0].split("-")[1]
    paths = [namespaces.NAMESPACES / name for name in names]
    paths += [namespaces.OWNERS / run, namespaces.directory(run)]
    found = [str(path) for path in paths if path.exists()]
    return found + [
        " ".join(words) for words in commands() if any(f"cwndlab-{run}-" in word for word in words)
    ]


def policies(names: list[str]) -> set[tuple[str, int]]:
    """The programs at the ends of flows in a run's namespaces, with the policies they are scheduled by."""
    inodes = {(namespaces.NAMESPACES / name).stat().st_ino for name in names}
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            for program in {"cwndlab.testbeds.live.traffic.agent", "iperf3"}.intersection(words):
                if (process / "ns/net").stat().st_ino in inodes:
                    found.add((program, os.sched_getscheduler(int(process.name))))
    return found


def in_namespace(name: str) -> list[list[str]]:
    """The commands of the processes in a namespace."""
    try:
        return inhabited((namespaces.NAMESPACES / name).stat().st_ino)
    except OSError:
        return []


def inhabited(inode: int) -> list[list[str]]:
    """The commands of the processes in the network namespace of that number."""
    return commands(lambda process: (process / "ns/net").stat().st_ino == inode)


def commands(chosen: Callable[[Path], bool] = lambda process: True) -> list[list[str]]:
    """The commands of processes; one that ends while it is looked at is none."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if chosen(process):
                found.append((process / "cmdline").read_bytes().decode(errors="replace").split("\0"))
    return found


LAB = """\
lab: here
hosts:
  a:
    setup: [echo setup >> {log}]
    before_run: [echo before $(hostname -I) >> {log}, ip route show]
    after_run: ['echo after {{run}} $CWNDLAB_REPEAT >> {log}']
    teardown: [echo teardown >> {log}]
programs:
  f1:
    server: [iperf3, -s, "-1", -p, "{{port}}"]
    client: [iperf3, -c, "{{target}}", -p, "{{port}}", -t, "{{seconds}}"]
loggers:
  routes: {{hosts: [b], command: [ip, -o, monitor, link]}}
  links: {{command: [ip, -o, link, show]}}
"""


def test_a_lab_file_has_commands_programs_and_loggers(
    cwndlab: Command, dumbbell: Path, tmp_path: Path
) -> None:
    log, lab, out = tmp_path / "log", tmp_path / "lab.yaml", tmp_path / "out"
    lab.write_text(LAB.format(log=log))
    command = ["run", dumbbell, "--testbed", "netns", "--lab", lab]
    plan = cwndlab(*command, "--dry-run")
    assert f"a setup: echo setup >> {log}" in plan.stdout
    assert "logger links at all hosts: ip -o link show" in plan.stdout
    assert not log.exists()
    ran = cwndlab(*command, "-o", out, "--no-report")
    assert ran.returncode == 0, ran.stderr
    said = [line.split()[0] for line in log.read_text().splitlines()]
    assert said == ["setup", "before", "after", "teardown"]
    assert log.read_text().splitlines()[2] == "after 0 0"
    results = api.open(out)
    assert 5 < results.summary["goodput_mbps"][0] < 10
    attached = results.record(0).attachments
    assert {"0-f1-command-from.txt", "0-links-a.txt", "0-links-b.txt", "0-routes-b.txt"} <= set(attached)
    assert "lo:" in (out / "runs" / "0-0" / "0-links-a.txt").read_text()
    lab.write_text("lab: here\nhosts: {a: {before_run: ['echo broken; false']}}\n")
    ran = cwndlab(*command, "-o", tmp_path / "bad", "--no-report")
    assert ran.returncode == 1
    assert "a: before_run: `echo broken; false`: broken" in ran.stderr
