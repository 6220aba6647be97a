"""IPv6 on this machine's kernel: namespaces, and machines reached by ssh."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from dumbbell import Command
from machines import AGENT, Machines, run

import cwndlab as api
from cwndlab.testbeds import programs
from cwndlab.testbeds.live.linux.this_machine import ThisMachine
from cwndlab.testbeds.netns import machine, namespaces, network
from cwndlab.testbeds.netns.layout import lay_out
from experiments import dumbbell
from needs import need

pytestmark = pytest.mark.live

EXPERIMENT = dumbbell(
    "ipv6",
    duration="4s",
    a="stack: linux, cc: cubic",
    bottleneck="rate: 10mbit, delay: 5ms, queue: {kind: pfifo, limit: 40p}",
    access="100mbit",
    more="seed: 1\nmeasure: {from: 2s, to: 4s}\nrecord: {pcap: [a]}\n",
).replace("network:\n", "network:\n  family: ipv6\n")
SHARE = 1428 / 1514
"""Payload of a full packet, 1,500 bytes less 40 of IPv6 and 32 of TCP, and its bytes on Ethernet."""


@pytest.fixture(scope="module", autouse=True)
def able_of_ipv6() -> None:
    need(None if machine.has_v6() else "this machine's kernel has no IPv6")


def packets(capture: Path) -> list[tuple[int, int, int, int]]:
    """Version, next header, destination port and bytes of each packet of a capture of IP packets."""
    data, found, at = capture.read_bytes(), [], 24
    while at < len(data):
        kept, size = (int.from_bytes(data[at + place : at + place + 4], "little") for place in (8, 12))
        one = data[at + 16 : at + 16 + kept]
        found.append((one[0] >> 4, one[6], int.from_bytes(one[42:44], "big"), size))
        at += 16 + kept
    return found


@pytest.mark.parametrize("tool", ["iperf3", "own"])
def test_a_flow_over_namespaces_has_the_share_of_its_packets(
    tool: str, cwndlab: Command, tmp_path: Path
) -> None:
    if tool == "iperf3":
        programs.need("iperf3", "this test")
    file, out = tmp_path / "ipv6.yaml", tmp_path / "out"
    file.write_text(EXPERIMENT, encoding="utf-8")
    app = f"flows.f1.app={{kind: bulk, tool: {tool}}}"
    ran = cwndlab("run", file, "--testbed", "netns", "-o", out, "--no-report", "--set", app)
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    (row,) = results.summary.to_dicts()
    # Of what the link carried, however late the machine: what is sent twice makes it less, and nothing more.
    share = row["goodput_mbps"] / row["throughput_mbps"]
    assert share == pytest.approx(SHARE, rel=0.03)
    assert share < 1448 / 1514 * 0.995, "as of IPv4"
    assert 4.0 < row["throughput_mbps"] < 10 * 1.03
    record = results.record(0)
    assert len(record.facts["idle_ping_ns"]["a>b"]) == 5
    assert results.series(0)["delivered_bytes"].max() > 0
    seen = packets(out / "runs" / "0-0" / "0-access.a.pcap")
    assert {(version, header) for version, header, _, _ in seen} == {(6, 6)}, "nobody spoke unasked"
    assert max(size for _, _, port, size in seen if port == 5201) == 1500
    assert not [name for name in namespaces.NAMESPACES.iterdir() if name.name.startswith(namespaces.PREFIX)]


def test_hosts_of_both_versions_share_a_path(cwndlab: Command, tmp_path: Path) -> None:
    file, out = tmp_path / "both.yaml", tmp_path / "out"
    more = "  - {name: f4, from: c, to: d}\n"
    text = (
        EXPERIMENT.replace("[a]", "[a, c]", 1).replace("[b]", "[b, d]").replace("measure", more + "measure")
    )
    others = "".join(f"  {host}: {{stack: linux, cc: cubic, family: ipv4}}\n" for host in "cd")
    file.write_text(text.replace("seed: 1\n", "").replace("network:", f"{others}network:"), encoding="utf-8")
    # Whether a route may be made depends on how far the kernel is with an address: several tries.
    changes = ["--set", "repeat=4", "--set", "duration=1s", "--set", "measure={from: 0s}"]
    own = ["--set", "flows.f1.app={kind: bulk, tool: own}", "--set", "flows.f4.app={kind: bulk, tool: own}"]
    ran = cwndlab("run", file, "--testbed", "netns", "-o", out, "--no-report", *changes, *own)
    assert ran.returncode == 0, ran.stderr
    for number in range(4):
        idle = api.open(out).record(number).facts["idle_ping_ns"]
        assert idle.keys() == {"a>b", "c>d"}
        assert all(idle.values())
    assert api.open(out).summary["goodput_mbps"].min() > 0


def test_rules_of_a_host_drop_packets_of_ipv6(cwndlab: Command, tmp_path: Path) -> None:
    programs.need("nft", "this test")
    file, out = tmp_path / "rules.yaml", tmp_path / "out"
    lossy = "ingress: {after_gro: {loss: {nth: {every: 50, packet: 20}}, match: {min_payload: 1000}}}"
    # At 1 Mbit/s some 160 packets of data come in two seconds.
    text = EXPERIMENT.replace("  b: {", f"  b: {{{lossy}, ").replace("rate: 10mbit", "rate: 1mbit")
    file.write_text(text.replace("limit: 40p", "limit: 400p"), encoding="utf-8")
    ran = cwndlab("run", file, "--testbed", "netns", "-o", out, "--no-report", "--set", "measure={from: 0s}")
    assert ran.returncode == 0, ran.stderr
    (flow,) = api.open(out).record(0).summary["flows"]
    assert 3 <= flow["retransmits"] <= 12, "one of 50 of some 330, none of the queue"


def test_a_link_too_small_for_ipv6_is_refused(cwndlab: Command, tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(EXPERIMENT.replace("delay: 5ms,", "delay: 5ms, mtu: 1200,"), encoding="utf-8")
    small = ("--set", "hosts.a.mss=1100", "--set", "hosts.b.mss=1100")
    refused = cwndlab("run", file, "--testbed", "netns", "-o", tmp_path / "out", *small)
    assert refused.returncode == 2
    assert "link bottleneck: MTU 1200, and IPv6 needs 1280 at least (RFC 8200 section 5)" in refused.stderr


def test_a_namespace_of_ipv6_says_nothing_unasked() -> None:
    text = EXPERIMENT.replace("seed: 1\n", "")
    scenario = api.load(text, testbed="netns").plan().runs[0].scenario
    layout, owner = lay_out(scenario), namespaces.Owner()
    try:
        made = network.make(owner, layout, own_emulator=False)
        network.connect(made, layout, scenario)
        for node, name in made.namespaces.items():
            told = namespaces.inside(name, lambda: _told("-6", "address"))
            own = [layout.hosts[node]] if node in layout.hosts else []
            assert re.findall(r"inet6 (\S+)/\d+ scope (?:global|link)", told) == own, told
            groups = namespaces.inside(name, lambda: _told("-6", "maddress"))
            assert "ff02::2" not in groups, "a group of routers would be reported"
    finally:
        owner.close()


def _told(*words: str) -> str:
    return ThisMachine().run(["ip", *words, "show"])


SSH = dumbbell(
    "machines6",
    duration="3s",
    a="stack: linux, cc: cubic",
    bottleneck="rate: 10mbit, delay: 0ms, overhead: 14, queue: {kind: pfifo, limit: 30p}",
    more="seed: 1\nmeasure: {from: 1s, to: 3s}\nrecord: {pcap: [{at: a, snaplen: 100}]}\n",
).replace("network:\n", "network:\n  family: ipv6\n")


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("by", ["tools", "agent", "emulator"])
def test_a_flow_between_machines_is_of_ipv6(machines: Machines, by: str, tmp_path: Path) -> None:
    file, out = tmp_path / "machines6.yaml", tmp_path / "out"
    file.write_text(SSH, encoding="utf-8")
    lab = machines.lab()
    if by != "tools":
        agent = tmp_path / "agent"
        agent.write_text(AGENT)
        lab = machines.lab(end=[f"agent: {{linux-{os.uname().machine}: {agent}}}"])
    if by == "emulator":
        lab.write_text(lab.read_text().replace("    links: {", "    emulator: own\n    links: {"))
    ran = run(machines, "run", file, "--lab", lab, "-o", out, "--no-report")
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    assert 4.0 < results.summary["goodput_mbps"][0] < 10 * SHARE * 1.02
    assert len(results.record(0).facts["idle_ping_ns"]["a>b"]) == 5
    assert results.series(0, flow="f1")["delivered_bytes"].max() > 0
    (capture,) = (out / "runs" / "0-0").glob("*.pcap")
    seen = subprocess.run(
        ["tcpdump", "-n", "-r", capture, "ip6 and tcp"], capture_output=True, text=True, check=True
    ).stdout
    assert len(seen.splitlines()) > 300
    others = subprocess.run(
        ["tcpdump", "-n", "-r", capture, "not ip6 or icmp6[0] >= 130"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert others == "", "neither IPv4 nor neighbour discovery"


@pytest.mark.usefixtures("settings")
def test_what_machines_lack_of_ipv6_is_said(machines: Machines, tmp_path: Path) -> None:
    file = tmp_path / "machines6.yaml"
    file.write_text(SSH, encoding="utf-8")
    lab = machines.lab()
    whole = lab.read_text()
    lab.write_text(whole.replace("    address6: fd00:78:0::1\n", ""))
    refused = run(machines, "run", file, "--lab", lab, "-o", tmp_path / "out")
    assert refused.returncode == 2
    assert "host a has no address of ipv6 (address6: fd00:1::1, say)" in refused.stderr
    lab.write_text(whole.replace("fd00:78:1::1", "fd00:78:1::99"))
    refused = run(machines, "run", file, "--lab", lab, "-o", tmp_path / "out")
    assert refused.returncode == 2
    assert "b: no interface has the address fd00:78:1::99" in refused.stderr
    lab.write_text(whole)
    checked = run(machines, "lab", "check", lab)
    assert "to b by IPv6" in checked.stdout, checked.stdout + checked.stderr
