"""Our emulator at a router of testbed ssh: what this kernel has no discipline for, and nothing left of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import polars as pl
import pytest
from lateness import late_s
from machines import AGENT, Machines, run, start, started

import cwndlab as api
from experiments import dumbbell

pytestmark = pytest.mark.live

EXPERIMENT = dumbbell(
    "emulated",
    duration="4s",
    a="stack: linux, cc: cubic",
    b="stack: linux",
    bottleneck="rate: 10mbit, delay: 20ms, overhead: 14, loss: {random: 0.5%}, queue: {kind: codel},"
    " schedule: [{at: 2s, set: {rate: 500kbit}}]",
    more="seed: 1\nmeasure: {from: 0s}\n",
)


def lab_of(machines: Machines, tmp_path: Path) -> Path:
    """The lab file whose router has our emulator."""
    agent = tmp_path / "agent"
    agent.write_text(AGENT)
    file = machines.lab(end=[f"agent: {{linux-{os.uname().machine}: {agent}}}"])
    file.write_text(file.read_text().replace("    links: {", "    emulator: own\n    links: {"))
    return file


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    file = tmp_path / "emulated.yaml"
    file.write_text(EXPERIMENT, encoding="utf-8")
    return file


@pytest.mark.usefixtures("settings")
def test_a_router_makes_what_its_kernel_cannot(machines: Machines, experiment: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = run(
        machines,
        "run",
        experiment,
        "--lab",
        lab_of(machines, tmp_path),
        "-o",
        out,
        "--no-report",
        "--set",
        "repeat=1",
    )
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    results.verify()
    (row,) = results.summary.to_dicts()
    assert row["status"] in ("complete", "unreliable"), "on a busy machine the emulator is late, and says so"
    assert row["rtt_min_ms"] >= 40, "there and back"
    record = results.record(0)
    assert record.facts["links_emulated"] == ["bottleneck", "bottleneck.reverse"]
    assert set(record.facts["agents"]) == {"a", "b", "r"}
    received = results.series(0, flow="f1").select("t_s", "arrived_bytes").drop_nulls()
    # Once what waited at 2 s is through; a late emulator lets it through so much later.
    through = 2.5 + late_s(results)
    until_2s, until_through, all_of_it = (
        received.filter(pl.col("t_s") < t)["arrived_bytes"].max() for t in (2.0, through, 9.0)
    )
    assert 8 * until_2s / 2 > 0.7e6
    assert 8 * (all_of_it - until_through) < 0.6e6 * 1.5, "500 kbit/s"
    assert results.series(0, table="queue").filter(pl.col("hop").cast(pl.String) == "bottleneck").height > 100


@pytest.mark.usefixtures("settings")
def test_what_leads_to_the_emulator_is_taken_back_when_we_are_killed(
    machines: Machines, experiment: Path, tmp_path: Path
) -> None:
    lab = lab_of(machines, tmp_path)
    process = start(
        machines, "run", experiment, "--lab", lab, "-o", tmp_path / "out", "--set", "duration=60s"
    )
    started(machines, process)
    assert "7799:" in machines.run("r", "ip", "rule")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.usefixtures("settings")
def test_what_the_emulator_needs_is_asked_before(
    machines: Machines, experiment: Path, tmp_path: Path
) -> None:
    lab = lab_of(machines, tmp_path)
    lab.write_text(lab.read_text().replace("agent: {linux", "agent: {none"))
    machines.sh("r", "echo 0 > /proc/sys/net/ipv4/ip_forward")
    try:
        ran = run(machines, "run", experiment, "--lab", lab, "-o", tmp_path / "out")
    finally:
        machines.sh("r", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    assert ran.returncode == 2
    assert "link bottleneck by emulator: own needs our agent, which is not there for r" in ran.stderr
    assert "r: forwards no packets (net.ipv4.ip_forward), and is to make link bottleneck" in ran.stderr
