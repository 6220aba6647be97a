"""Testbed ssh against real sshds, in namespaces that stand for machines: runs, and what goes wrong.

Nothing may be left on a machine: no setting, no program, no file.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from dumbbell import Command
from machines import MACHINES, SSHD, Machines

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

SETTINGS = (
    "cat /proc/sys/net/ipv4/tcp_reordering /proc/sys/net/ipv4/tcp_congestion_control;"
    " cat /proc/sys/net/ipv4/tcp_no_metrics_save; tc qdisc show; nft list ruleset;"
    " for i in test to-a to-b; do ethtool -k $i 2>/dev/null | grep -E '(segmentation|receive)-offload'; done;"
    " true"
)

LONG = ["--set", "duration=60s", "--no-report"]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Three hosts and a router."""
    if not Path(SSHD).exists():
        pytest.fail("sshd is not installed (Debian: apt install openssh-server)")
    with Machines(tmp_path_factory.mktemp("machines")) as made:
        yield made


@pytest.fixture
def settings(machines: Machines) -> Iterator[dict[str, str]]:
    """What the machines are set to before a test, and after it as well."""
    before = {machine: machines.sh(machine, SETTINGS) for machine in MACHINES}
    yield before
    for process in machines.commands:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    machines.commands.clear()
    for machine in MACHINES:
        wait_until(lambda name=machine: not machines.kept(name), f"{machine} keeps what we left")
        assert machines.sh(machine, SETTINGS) == before[machine]
        assert machines.programs(machine) == []


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    file = tmp_path / "machines.yaml"
    file.write_text(EXPERIMENT, encoding="utf-8")
    return file


def wait_until(true: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE / 6
    while not true():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.1)


def start(machines: Machines, *words: str | Path) -> subprocess.Popen[str]:
    """The command line on our own machine, which is not among the lab's."""
    command = machines.controller(sys.executable, "-m", "cwndlab", *map(str, words))
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    machines.commands.append(process)
    return process


def run(machines: Machines, *words: str | Path) -> subprocess.CompletedProcess[str]:
    process = start(machines, *words)
    out, err = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def started(machines: Machines, process: subprocess.Popen[str]) -> None:
    """Wait until traffic flows."""

    def flows() -> bool:
        assert process.poll() is None, process.communicate()
        return machines.programs("a").count("iperf3") > 0 and "ESTAB" in machines.run("a", "ss", "-tnH")

    wait_until(flows, "no traffic")


def test_a_run_on_machines_is_as_one_elsewhere_and_leaves_nothing(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = {when: tmp_path / when for when in ("setup", "before_run", "after_run", "teardown")}
    lab = machines.lab(more={"a": "\n".join(f"{when}: [date >> {file}]" for when, file in done.items())})
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
    # One clock is everybody's here, however well it is known.
    assert all(error < 200e6 for error in record.facts["clock_error_ns"].values())
    assert len(record.facts["idle_ping_ns"]["a>b"]) == 5
    assert set(record.facts["machine"]) == {"a", "b", "r"}
    assert record.attachments == ["0-f1-iperf3-from.json", "0-f1-iperf3-to.json", "0-hosts.json.gz"]
    report = json.loads((out / "runs" / "0-0" / "0-f1-iperf3-from.json").read_text())
    assert report["end"]["sum_sent"]["bytes"] > 1_000_000
    assert not any("key" in line for line in ran.stderr.splitlines())


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
