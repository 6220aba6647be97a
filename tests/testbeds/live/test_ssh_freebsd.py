"""A whole run whose sender is the stand-in of a FreeBSD machine, behind a real sshd; Linux receives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from machines import SSHD, Machines

import cwndlab as api
from experiments import dumbbell
from freebsd_stand_in import StandIn
from patience import PATIENCE

pytestmark = pytest.mark.live

EXPERIMENT = dumbbell(
    "freebsd",
    duration="2s",
    a="stack: freebsd, cc: newreno, ecn: on, sysctl: {net.inet.tcp.cc.abe: 1}",
    b="stack: linux, ingress: {after_gro: {loss: {nth: {every: 100, packet: 50}}}}",
    bottleneck="rate: 10mbit, delay: 0ms, overhead: 14, queue: {kind: pfifo, limit: 30p}",
    more="seed: 1\n",
)


@pytest.fixture
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    if not Path(SSHD).exists():
        pytest.fail("sshd is not installed (Debian: apt install openssh-server)")
    with Machines(tmp_path_factory.mktemp("machines")) as made:
        yield made


def test_a_run_with_a_freebsd_sender_has_its_log_and_leaves_nothing(
    machines: Machines, tmp_path: Path
) -> None:
    stand_in = StandIn(tmp_path / "freebsd")
    stand_in.interface("em1", "10.78.2.1", "LRO RXCSUM TSO4 TXCSUM", "RXCSUM,TXCSUM,TSO4,LRO")
    machines.kill_sshd("c")
    machines.start_sshd("c", stand_in.bin)
    before = stand_in.now()
    lab = machines.lab()
    described = "\n".join(line for line in machines.described("c") if "interface" not in line)
    head, rest = lab.read_text().split("  a:\n", 1)
    lab.write_text(f"{head}  a:\n{described}\n  b:{rest.split('  b:', 1)[1]}")
    file, out = tmp_path / "freebsd.yaml", tmp_path / "out"
    file.write_text(EXPERIMENT)
    command = [sys.executable, "-m", "cwndlab", "run", str(file), "--lab", str(lab), "-o", str(out)]
    process = subprocess.Popen(
        machines.controller(*command, "--no-report"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, said = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said
    results = api.open(out)
    results.verify()
    (row,) = results.summary.to_dicts()
    assert (row["stack"], row["cc"], row["status"]) == ("freebsd-14.1", "newreno", "complete")
    assert 4.0 < row["goodput_mbps"] <= 10 * 1448 / 1514 * 1.02, "by ss at the receiver"
    assert row["rtt_p50_ms"] == 40, "as SIFTR has it"
    assert 0.004 < row["retransmit_rate"] < 0.05, "as iperf3 has it, of a rule that drops one of 100"
    tcp = results.series(0, flow="f1")
    assert set(tcp["state"].cast(str)) == {"slow-start"}
    facts = results.record(0).facts
    assert facts["machine"]["a"]["kernel"] == {
        "hz": "1000",
        "file": "/boot/kernel/kernel",
        "boot_environment": "patched",
    }
    assert facts["sysctls"]["a"]["net.inet.tcp.ecn.enable"] == "1"
    assert any(line.startswith("iperf3 -4 -J -c 10.78.1.1") and "-C newreno" in line for line in stand_in.log)
    report = json.loads((out / "runs" / "0-0" / "0-f1-iperf3-from.json").read_text())
    assert report["end"]["sum_sent"]["bytes"] > 1_000_000
    after = stand_in.now()
    assert {name: text for name, text in after.items() if name in before} == before
    assert machines.kept("c") == []
    assert machines.run("b", "nft", "list", "ruleset") == ""
