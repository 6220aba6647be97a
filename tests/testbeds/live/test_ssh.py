"""Testbed ssh against real sshds, in namespaces that stand for machines: runs, and what goes wrong.

Nothing may be left on a machine: no setting, no program, no file.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from dumbbell import Command
from machines import AGENT, Machines, run, start, started

import cwndlab as api
from experiments import dumbbell
from patience import PATIENCE

pytestmark = pytest.mark.live

EXPERIMENT = dumbbell(
    "machines",
    duration="2s",
    a="stack: linux, cc: cubic, sysctl: {net.ipv4.tcp_reordering: 5}",
    b="stack: linux",
    bottleneck="rate: 10mbit, delay: 0ms, overhead: 14, queue: {kind: pfifo, limit: 30p}",
    more="seed: 1\n",
)

LONG = ["--set", "duration=60s", "--no-report"]


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    file = tmp_path / "machines.yaml"
    file.write_text(EXPERIMENT, encoding="utf-8")
    return file


def test_a_run_on_machines_is_as_one_elsewhere_and_leaves_nothing(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = {when: tmp_path / when for when in ("setup", "before_run", "after_run", "teardown")}
    lab = machines.lab(more={"a": "\n".join(f"{when}: [date >> {file}]" for when, file in done.items())})
    with experiment.open("a") as more:
        more.write("record: {pcap: [a, {at: bottleneck, snaplen: 60}]}\n")
    ran = run(machines, "run", experiment, "--lab", lab, "-o", out, "--no-report")
    assert ran.returncode == 0, ran.stderr
    assert all(len(file.read_text().splitlines()) == 1 for file in done.values())
    results = api.open(out)
    results.verify()
    (row,) = results.summary.to_dicts()
    assert row["testbed"] == "ssh"
    assert 4.0 < row["goodput_mbps"] <= 10 * 1448 / 1514 * 1.02
    assert row["rtt_p50_ms"] < 31 * 1514 * 8 / 1e4 + 20
    assert row["cwnd_max_bytes"] >= 10 * 1448
    tcp = results.series(0, flow="f1")
    assert tcp.height > 5
    assert set(tcp["state"].cast(pl.String)) <= {"slow-start", "avoidance", "recovery", "loss"}
    assert results.series(0, table="queue")["backlog_packets"].max() <= 31
    record = results.record(0)
    assert record.facts["links_made_by"] == {"bottleneck": "r", "bottleneck.reverse": "r"}
    assert record.facts["sysctls"]["a"]["net.ipv4.tcp_reordering"] == "5"
    # One clock is everybody's here, however well it is known: an error bar is half of the round trip of a
    # question, which a busy machine answers late.
    assert all(0 < error < 2e9 for error in record.facts["clock_error_ns"].values())
    assert len(record.facts["idle_ping_ns"]["a>b"]) == 5
    assert set(record.facts["machine"]) == {"a", "b", "r"}
    assert record.attachments == [
        "0-counters.json",
        "0-f1-iperf3-from.json",
        "0-f1-iperf3-to.json",
        "0-hosts.json.gz",
    ]
    report = json.loads((out / "runs" / "0-0" / "0-f1-iperf3-from.json").read_text())
    assert report["end"]["sum_sent"]["bytes"] > 1_000_000
    counters = json.loads((out / "runs" / "0-0" / "0-counters.json").read_text())
    before, after = counters["b"]["Tcp.PassiveOpens"]
    assert after - before >= 2
    zeros = record.facts["path"]["zero_by_clock_ns"]
    assert record.captures == ["0-a.pcap", "0-bottleneck.pcap"]
    for name, machine in (("0-a.pcap", "a"), ("0-bottleneck.pcap", "r")):
        command = ["tcpdump", "-n", "-tt", "-r", str(out / "runs" / "0-0" / name), "tcp dst port 5201"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        assert len(shown) > 1000
        assert "10.78.0.1." in shown[0]
        assert -1 < float(shown[-1].split()[0]) - zeros[machine] / 1e9 < 10
    assert not any("key" in line for line in ran.stderr.splitlines())


def test_a_queue_discipline_stands_at_the_interface_of_a_host_during_a_run(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    own = ["--set", "hosts.a.nic={qdisc: {kind: pfifo, limit: 77p}}"]
    ran = run(machines, "run", experiment, "--lab", machines.lab(), "-o", out, "--no-report", *own)
    assert ran.returncode == 0, ran.stderr
    states = json.loads(gzip.decompress((out / "runs" / "0-0" / "0-hosts.json.gz").read_bytes()))
    assert '"limit": 77' in json.dumps(states["namespaces"]["a"])
    assert '"limit": 77' not in json.dumps(states["namespaces"]["b"])
    shown = machines.run("a", "tc", "qdisc", "show")
    assert "limit 77p" not in shown


HOLD = """
import socket, time
held = socket.create_server(("10.78.0.1", 10000))
print("held", flush=True)
time.sleep(8)
"""
"""Has the socket of the first client."""


def test_a_run_waits_for_the_port_of_its_client(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    """A client that was killed leaves its port in TIME-WAIT, and iperf3 does not bind such a port."""
    command = ["ip", "netns", "exec", machines.namespace("a"), sys.executable, "-c", HOLD]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as held:
        assert held.stdout is not None and held.stdout.readline() == b"held\n"
        out = tmp_path / "out"
        ran = run(machines, "run", experiment, "--lab", machines.lab(), "-o", out, "--no-report")
    assert ran.returncode == 0, ran.stderr
    assert api.open(out).summary["goodput_mbps"].item() > 4.0


def test_iperf_2_on_machines(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    out, tool = tmp_path / "out", "flows.f1.app={kind: bulk, tool: iperf2}"
    ran = run(machines, "run", experiment, "--lab", machines.lab(), "-o", out, "--set", tool, "--no-report")
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    assert 4.0 < results.summary["goodput_mbps"].item() <= 10 * 1448 / 1514 * 1.02
    assert {"0-f1-iperf2-from.txt", "0-f1-iperf2-to.txt"} <= set(results.record(0).attachments)


def test_a_second_run_is_refused_with_the_name_of_the_first(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    first = start(machines, "run", experiment, "--lab", machines.lab(), "-o", tmp_path / "1", *LONG)
    started(machines, first)
    second = run(machines, "run", experiment, "--lab", machines.lab(), "-o", tmp_path / "2", *LONG)
    assert second.returncode != 0
    assert "a: in use by root on" in second.stderr
    assert f"(process {first.pid})" in second.stderr
    os.kill(first.pid, signal.SIGINT)
    _, said = first.communicate(timeout=PATIENCE)
    assert first.returncode == 130, said


def test_what_is_left_when_we_are_killed_is_taken_back(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    process = start(machines, "run", experiment, "--lab", machines.lab(), "-o", tmp_path / "out", *LONG)
    started(machines, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # The machines' own guards see our end of the connection go.


def test_a_killed_sshd_fails_the_run_with_the_reason(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    process = start(machines, "run", experiment, "--lab", machines.lab(), "-o", tmp_path / "out", *LONG)
    started(machines, process)
    machines.kill_sshd("b")
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, said
    assert "b: the connection was lost" in said
    machines.start_sshd("b")


def test_doctor_cleans_what_is_left_when_the_guards_are_killed_as_well(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    lab = machines.lab()
    process = start(machines, "run", experiment, "--lab", lab, "-o", tmp_path / "out", *LONG)
    started(machines, process)
    for machine in ("a", "b", "r"):
        machines.kill_guard(machine)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert machines.kept("a") == machines.kept("r") == ["run"]
    assert "iperf3" in machines.programs("a")
    cleaned = run(machines, "doctor", "--clean", "--lab", lab)
    assert cleaned.returncode == 0, cleaned.stderr
    assert "a: root on" in cleaned.stdout
    assert f"(process {process.pid})" in cleaned.stdout
    assert "not restored" not in cleaned.stdout


def test_a_cut_cable_fails_the_run(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    process = start(machines, "run", experiment, "--lab", machines.lab(), "-o", tmp_path / "out", *LONG)
    started(machines, process)
    machines.run("m", "ip", "link", "set", "to-a", "down")
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, said
    assert "a: " in said
    machines.run("m", "ip", "link", "set", "to-a", "up")


def test_lab_check_names_all_that_is_amiss(machines: Machines, cwndlab: Command, tmp_path: Path) -> None:
    good = run(machines, "lab", "check", machines.lab())
    assert good.returncode == 0, good.stdout + good.stderr
    assert "to b" in good.stdout
    file = tmp_path / "amiss.yaml"
    text = machines.lab().read_text()
    file.write_text(text.replace("interface: test", "interface: nowhere", 1).replace("77.2", "77.99", 1))
    bad = run(machines, "lab", "check", file)
    assert bad.returncode == 1
    assert "- nowhere" in bad.stdout
    assert "root@192.168.77.99" in bad.stdout


def test_two_builds_take_turns_and_are_compared(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    small = 'sysctl -qw net.ipv4.tcp_wmem="4096 4608 4608"'
    lab = machines.lab(
        end=[
            "agent: {}",
            "programs:",
            "  f1:",
            "    server: [iperf3, -s, '-1', -p, '{port}']",
            "    client: [iperf3, -c, '{target}', -p, '{port}', --cport, '{source_port}', -t, '{seconds}']",
            "builds:",
            "  before: {}",
            "  after:",
            "    hosts:",
            "      a:",
            *(f"    {line}" for line in machines.described("c")),
            f"    switch: {{a: ['{small}', reboot -k small]}}",
        ]
    )
    command = ["compare", "--build", "--lab", lab, "--base", "before", "--new", "after", experiment]
    short = ["--set", "repeat=1", "--set", "pause=0s", "--set", "duration=1s"]
    before = machines.run("c", "cat", "/proc/sys/net/ipv4/tcp_wmem")
    out = tmp_path / "ab"
    with machines.power("c") as restarted:
        ran = run(machines, *command, *short, "--metric", "rtt_p50_ms", "-o", out)
    machines.sh("c", f"echo '{before}' > /proc/sys/net/ipv4/tcp_wmem")
    assert ran.returncode == 0, ran.stderr
    assert restarted == ["-k small"]
    assert "waiting for a, which restarts" in ran.stderr
    assert "RTT, median: in one run of each" in ran.stdout
    one, other = (api.open(out / build) for build in ("before", "after"))
    assert one.summary["rtt_p50_ms"].min() > other.summary["rtt_p50_ms"].max() + 2
    assert one.record(0).attachments[1:3] == ["0-f1-command-from.txt", "0-f1-command-to.txt"]
    begun = sorted(
        (record.started, build)
        for build, results in (("A", one), ("B", other))
        for record in results.records()
    )
    assert "".join(build for _, build in begun) == "AB"


def test_our_agent_carries_out_what_no_common_tool_can(
    machines: Machines, settings: dict[str, str], tmp_path: Path
) -> None:
    agent = tmp_path / "agent"
    agent.write_text(AGENT)
    file = tmp_path / "asks.yaml"
    asks = "name: asks, from: a, to: b, app: {kind: request-response, request: 200B, response: 20KB}"
    loss = "b: {stack: linux, ingress: {after_gro: {loss: {random: 5%}}}}"
    lossy = EXPERIMENT.replace("b: {stack: linux}", loss) + "record: {tcp: 1ms}\nrepeat: 2\npause: 0s\n"
    assert loss in lossy
    file.write_text(lossy.replace("app: bulk}", f"app: bulk}}\n  - {{{asks}}}"))
    logger = "loggers: {times: {hosts: [b], command: [sh, -c, 'while date +%s; do sleep 0.1; done']}}"
    lab = machines.lab(end=[f"agent: {{linux-{os.uname().machine}: {agent}}}", logger])
    out = tmp_path / "out"
    ran = run(machines, "run", file, "--lab", lab, "-o", out, "--no-report")
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    assert set(results.summary["status"]) == {"complete"}
    rows = {row["flow"]: row for row in results.summary.to_dicts()}
    assert 1.0 < rows["f1"]["goodput_mbps"] <= 10 * 1448 / 1514 * 1.02
    assert rows["f1"]["retransmit_rate"] > 0.01
    assert rows["asks"]["response_p50_ms"] > 16
    times = (out / "runs" / "0-0" / "0-times-b.txt").read_text().split()
    assert int(times[-1]) - int(times[0]) >= 2
    facts = results.record(0).facts
    assert set(facts["agents"]) == {"a", "b"}
    # Opened when the experiment says, within the run, by each machine's own monotonic clock.
    assert facts["start_skew_ns"]["asks"] < 2e9
    tcp = results.series(0, flow="asks")
    # A slow machine leaves samples out; without our agent they are 10 ms apart at least.
    assert tcp["t_s"].diff().drop_nulls().median() < 9e-3
    assert tcp["arrived_bytes"].max() > 20_000


def test_a_path_that_is_faster_than_declared_is_said_and_has_no_utilisation(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    out, rate = tmp_path / "out", "network.dumbbell.bottleneck.rate=100mbit"
    ran = run(machines, "run", experiment, "--lab", machines.lab(links=False), "-o", out, "--set", rate)
    assert ran.returncode == 0, ran.stderr
    said = "warning: bottleneck is declared with 100mbit and carried "
    assert said in ran.stderr
    shown = run(machines, "show", out)
    assert said in shown.stderr
    assert "util" not in shown.stdout
    summary = api.open(out).summary
    assert summary["throughput_mbps"].item() > 110
    assert summary["utilisation"].item() is None
    assert said.removeprefix("warning: ") in (out / "report.html").read_text()
