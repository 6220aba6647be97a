"""Testbed ssh without a machine: lab files, links as commands of tc, what ss and shells say."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cwndlab
from cwndlab.cli import ab as cli_ab
from cwndlab.errors import ExperimentError, InputError
from cwndlab.execution import ab
from cwndlab.testbeds import labs
from cwndlab.testbeds.live import user_programs
from cwndlab.testbeds.live.linux import kernel, settings, tc
from cwndlab.testbeds.live.linux.kernel import Kernel
from cwndlab.testbeds.live.linux.shell import ByShell
from cwndlab.testbeds.live.linux.system import Linux
from cwndlab.testbeds.live.observation import counters
from cwndlab.testbeds.live.path.links import Look
from cwndlab.testbeds.live.scenario import interface_queues
from cwndlab.testbeds.logs import ss
from cwndlab.testbeds.ssh import lab_file, stacks
from cwndlab.testbeds.ssh.checks import preflight
from cwndlab.testbeds.ssh.machines import platforms
from cwndlab.testbeds.ssh.machines.connection import COMMAND_S
from cwndlab.testbeds.ssh.observation import monitors, sampler
from cwndlab.testbeds.ssh.traffic import tools
from experiments import dumbbell

LABS = Path(__file__).parents[2] / "examples" / "labs"

LAB = """\
lab: mine
path: a cable
hosts:
  a:
    ssh: me@192.0.2.1:2222
    become: sudo
    address: 10.0.0.1
    interface: eth1
routers:
  r: {ssh: 192.0.2.3, links: {bottleneck: eth2}}
"""

SS = (
    "ESTAB 0 141904 10.78.0.1:10000 10.78.1.1:5201 skmem:(r0,rb131072,t0,tb138240,f1552,w174576,o0,bl0,d0)"
    " ts sack cubic wscale:7,7 rto:236 backoff:0 rtt:31.3/1.2 ato:40 mss:1448 pmtu:1500 rcvmss:536"
    " cwnd:27 ssthresh:21 bytes_sent:1200000 bytes_retrans:2896 bytes_acked:1100000 segs_out:830 segs_in:400"
    " data_segs_out:829 send 9992587bps lastsnd:4 pacing_rate 11990000bps delivery_rate 9650000bps"
    " delivered:770 busy:1000ms rwnd_limited:12ms(1.2%) unacked:25 retrans:0/2 reordering:5 rcv_space:14480"
    " notsent:41904 minrtt:14.2 snd_wnd:800000\n"
)


def described(change: str, to: str, tmp_path: Path) -> Path:
    file = tmp_path / "lab.yaml"
    assert change in LAB
    file.write_text(LAB.replace(change, to), encoding="utf-8")
    return file


def test_a_lab_file_names_machines(tmp_path: Path) -> None:
    lab = lab_file.read(described("a cable", "a short cable", tmp_path))
    assert lab.hosts["a"].address == "10.0.0.1"
    assert list(lab.machines) == ["a", "r"]
    assert lab_file.parts(lab.hosts["a"].ssh) == ("me", "192.0.2.1", 2222)
    assert lab_file.parts("[fe80::1]:22") == (None, "fe80::1", 22)
    assert lab.machines["r"].links == {"bottleneck": "eth2"}


@pytest.mark.parametrize(
    ("change", "to", "message"),
    [
        (
            "ssh: me@192.0.2.1:2222",
            "ssh: -oProxyCommand=x",
            "5: hosts.a.ssh: found '-oProxyCommand=x'; expected",
        ),
        ("become: sudo", "become: su", "6: hosts.a.become: found 'su'; expected one of none, sudo, doas"),
        ("address: 10.0.0.1", "address: here", "7: hosts.a.address: found 'here'; expected an IPv4 or"),
        (
            "address: 10.0.0.1",
            "address: fe80::1",
            "7: hosts.a.address: found 'fe80::1'; expected an address that is not of one link alone",
        ),
        (
            "address: 10.0.0.1",
            "address: 10.0.0.1\n    address6: 10.0.0.2",
            "8: hosts.a.address6: found '10.0.0.2'; expected an IPv6 address",
        ),
        (
            "interface: eth1",
            "interface: eth1; reboot",
            "8: hosts.a.interface: found 'eth1; reboot'; expected",
        ),
        (
            "interface: eth1",
            "interfac: eth1",
            "8: hosts.a.interfac: found the unknown key 'interfac'; expected",
        ),
        ("path: a cable\n", "", "path: missing; this key is required"),
        ("  r: {", "  a: {", "10: routers.a: is a host as well"),
        (
            "interface: eth1",
            "interface: eth1\n    links: {bottleneck: e0}",
            "bottleneck: a makes this link already",
        ),
        ("interface: eth1", "interface: eth1\n    setup: ['']", "setup.1: found nothing; expected a command"),
    ],
)
def test_faults_of_a_lab_file_are_named_with_line_and_key(
    change: str, to: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ExperimentError) as raised:
        lab_file.read(described(change, to, tmp_path))
    said = str(raised.value)
    assert message in said
    assert said.startswith(str(tmp_path / "lab.yaml"))
    assert "\n" not in said


BUILDS = """\
builds:
  old: {switch: {r: [kldunload tcp_rack]}}
  new: {hosts: {a: {ssh: 192.0.2.9, address: 10.0.0.9, interface: eth1}}}
"""


def test_a_build_has_machines_of_its_own(tmp_path: Path) -> None:
    file = described("a cable\n", "a cable\n" + BUILDS, tmp_path)
    assert lab_file.read(file).hosts["a"].address == "10.0.0.1"
    assert lab_file.read(labs.of_build(file, "old")).hosts["a"].address == "10.0.0.1"
    assert lab_file.read(labs.of_build(file, "new")).hosts["a"].address == "10.0.0.9"
    assert "build old switches r: kldunload tcp_rack" in lab_file.commands(file)
    assert labs.has_switch(labs.of_build(file, "old"))
    with pytest.raises(InputError, match="there is no build 'newer'; builds has old, new"):
        labs.of_build(file, "newer")
    file = described("a cable\n", "a cable\n" + BUILDS.replace("{r:", "{q:"), tmp_path)
    with pytest.raises(ExperimentError, match=r"4: builds\.old\.switch\.q: found 'q'; expected one of a, r"):
        lab_file.read(file)


PROGRAMS = """\
programs:
  f1: {server: [iperf3, -s, "-1", -p, "{port}"], client: [iperf3, -c, "{target}"]}
"""


def test_a_plan_of_two_builds_says_their_turns_and_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = described("a cable\n", "a cable\n" + BUILDS + PROGRAMS, tmp_path)
    text = dumbbell("x", duration="1s", a="stack: linux", bottleneck="rate: 10mbit", more="repeat: 2\n")
    loaded = cwndlab.load(text)
    monkeypatch.setattr(ab.Bench, "ready", lambda bench: None)
    monkeypatch.setattr("cwndlab.report.interface.load", lambda *given, **named: loaded)
    monkeypatch.setattr("cwndlab.execution.runner.check", lambda *given, **named: loaded.plan())
    cli_ab.ab(str(tmp_path / "x.yaml"), lab=lab, base="old", new="new", dry_run=True)
    plan = capsys.readouterr().out
    assert "  old: repeats 0\n  new: repeats 0, 1\n  old: repeats 1\n" in plan
    assert "build old switches r: kldunload tcp_rack" in plan
    assert "flow f1 by: iperf3 -s -1 -p {port} | iperf3 -c {target}" in plan


def test_builds_take_turns_so_that_drift_meets_both() -> None:
    assert [(turn.build, turn.repeats) for turn in ab.turns("A", "B", 4)] == [
        ("A", (0,)),
        ("B", (0, 1)),
        ("A", (1, 2)),
        ("B", (2, 3)),
        ("A", (3,)),
    ]


def test_machines_of_several_kernels_are_all_linux() -> None:
    here = Kernel("6.12.1", ("cubic",), ("cubic",), {kernel.CHOSEN: "cubic", "net.ipv4.tcp_ecn": "2"})
    other = replace(here, release="6.18.0")
    alike = stacks.known(kernel.known(each, platforms.HZ) for each in (here, here))
    assert alike.stack("linux") is alike.stacks["linux-6.12"]
    mixed = stacks.known(kernel.known(each, platforms.HZ) for each in (here, other))
    named = mixed.stack("linux")
    assert named is not None
    assert named.name == "linux"
    assert {"linux-6.12", "linux-6.18"} < set(mixed.stacks)
    assert "linux" in here.stacks
    assert "linux" in other.stacks
    assert "linux-6.12" not in other.stacks


PROGRAM = {"server": ["s", "{port}"], "client": ["c", "{target}:{port}", "{seconds}s", "{other}"]}


def test_a_program_of_the_lab_file_is_told_where_and_how_long() -> None:
    task = {"source": "10.0.0.1", "target": "10.0.0.2", "source_port": 0, "target_port": 5201, "cc": "cubic"}
    task |= {"start_ns": 10**9, "stop_ns": 3_500_000_000, "app": {"bytes": None}}
    told = user_programs.orders(PROGRAM, task, 0)
    assert told["server"] == ["s", "5201"]
    assert told["client"] == ["c", "10.0.0.2:5201", "3s", "{other}"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"app": {"kind": "voip"}}, "stands for app bulk, not for voip"),
        ({"app": {"kind": "bulk", "bytes": 7}}, "not told to send 7 bytes"),
        ({"cc": "reno"}, "host a sends with cubic and reno, and its program is not told {cc}"),
        ({"sndbuf": 9}, "sets its own buffers"),
    ],
)
def test_what_a_program_of_the_lab_file_cannot_do_is_refused(change: dict[str, Any], why: str | None) -> None:
    flow: Any = {
        "from": "a",
        "cc": "cubic",
        "app": {"kind": "bulk", "bytes": None},
        "sndbuf": None,
        "rcvbuf": None,
    }
    said = user_programs.refusal(PROGRAM, {**flow, **change}, [flow, {**flow, **change}])
    assert (said is None) == (why is None)
    assert why is None or why in str(said)


def test_the_template_is_a_lab_file(tmp_path: Path) -> None:
    file = tmp_path / "testbed.yaml"
    file.write_text(lab_file.TEMPLATE, encoding="utf-8")
    assert set(lab_file.read(file).machines) == {"a", "b", "r"}


@pytest.mark.parametrize("name", ["tri-point", "teacup"])
def test_the_examples_fit_their_labs(name: str) -> None:
    lab = lab_file.read(LABS / f"{name}.yaml")
    for run in cwndlab.load(LABS / f"{name}-experiment.yaml").plan().runs:
        links = {link["name"]: link for link in run.scenario["links"]}
        assert {host["name"] for host in run.scenario["hosts"]} == set(lab.hosts)
        for machine in lab.machines.values():
            for link, interface in machine.links.items():
                netem, htb, rate, queue = tc.commands(links[link], interface)
                # Netem's own limit, 1000 packets, would be a queue that nobody asked for.
                assert netem[5:10] == ["root", "handle", "3:", "netem", "limit"]
                assert int(netem[10]) == tc.NETEM_LIMIT
                assert htb[5:] == ["parent", "3:1", "handle", "1:", "htb", "default", "1"]
                assert rate[rate.index("rate") + 1] == f"{links[link]['rate_bps']}bit"
                assert queue[5:] == ["parent", "1:1", "handle", "2:", *tc.queue(links[link]["queue"])]


@pytest.mark.parametrize(
    ("shaper", "words"),
    [
        (
            "{kind: htb, rate: 2mbit, ceil: 3mbit, burst: 3028B, cburst: 1514B}",
            "1: classid 1:1 htb rate 2000000bit ceil 3000000bit burst 3028 cburst 1514 quantum 1514",
        ),
        (
            "{kind: tbf, rate: 2mbit, burst: 9KB, peakrate: 4mbit, mtu: 3KB}",
            "root handle 1: tbf rate 2000000bit burst 9000 peakrate 4000000bit mtu 3000 limit 1073741824",
        ),
    ],
)
def test_a_shaper_is_tcs(shaper: str, words: str) -> None:
    text = dumbbell("x", duration="1s", a="stack: linux", bottleneck=f"shaper: {shaper}")
    links: Any = cwndlab.load(text).plan().runs[0].scenario["links"]
    (made,) = (each for each in links if each["name"] == "bottleneck")
    *_, command, queue = tc.commands(made, "eth2")
    assert " ".join(command).endswith(words)
    assert queue[5:9] == ["parent", "1:1", "handle", "2:"]
    with pytest.raises(ValueError, match="leave out the link's rate, or the shaper"):
        tc.commands({**made, "rate_bps": 10_000_000}, "eth2")


@pytest.mark.parametrize("name", ["queues", "modules", "netem"])
def test_the_lab_of_virtual_machines_makes_the_links_of_its_experiments(name: str) -> None:
    directory = LABS / "virtual-machines"
    lab = lab_file.read(directory / "testbed.yaml")
    for run in cwndlab.load((directory / f"{name}.yaml").read_text(encoding="utf-8")).plan().runs:
        links = {link["name"]: link for link in run.scenario["links"]}
        for link, interface in lab.routers["r"].links.items():
            assert tc.commands(links[link], interface)


DISCIPLINES = [
    ("{kind: codel, limit: 100p}", "codel limit 100 target 5000us interval 100000us noecn"),
    ("{kind: bfifo, limit: 30KB}", "bfifo limit 30000"),
    (
        "{kind: fq_codel, ce_threshold: 1ms, ce_threshold_selector: 1, ce_threshold_mask: 3}",
        "fq_codel limit 10240 flows 1024 quantum 1514 memory_limit 33554432 drop_batch 64 target 5000us"
        " interval 100000us ecn ce_threshold 1000us ce_threshold_selector 0x1/0x3",
    ),
    (
        "{kind: fq_codel, limit: 1000p, flows: 64, ecn: false, ce_threshold: 1ms}",
        "fq_codel limit 1000 flows 64 quantum 1514 memory_limit 33554432 drop_batch 64 target 5000us"
        " interval 100000us noecn ce_threshold 1000us",
    ),
    (
        "{kind: pie, limit: 100p}",
        "pie limit 100 target 15000us tupdate 15000us alpha 2 beta 20 noecn nobytemode no_dq_rate_estimator",
    ),
    (
        "{kind: fq_pie, limit: 1000p, flows: 64}",
        "fq_pie limit 1000 flows 64 quantum 1514 memory_limit 33554432 ecn_prob 10 target 15000us"
        " tupdate 15000us alpha 2 beta 20 noecn nobytemode no_dq_rate_estimator",
    ),
    (
        "{kind: red, limit: 60KB, min: 15KB, max: 45KB, burst: 20p, avpkt: 1000B,"
        " probability: 10%, ecn: true}",
        "red limit 60000 min 15000 max 45000 avpkt 1000 burst 20 bandwidth 10000000bit probability 0.1 ecn",
    ),
    ("{kind: cake, rtt: 50ms, memlimit: 4MB}", "cake unlimited rtt 50000us triple-isolate memlimit 4000000"),
    (
        "{kind: dualpi2, limit: 1000p}",
        "dualpi2 limit 1000 memlimit 3028000 target 15000us tupdate 16000us alpha 0.16 beta 3.2"
        " coupling_factor 2 step_thresh 1000us min_qlen_step 0 drop_on_overload drop_dequeue l4s_ect"
        " classic_protection 10% split_gso",
    ),
    (
        "{kind: dualpi2, limit: 1000p, memlimit: 2MB, typical_rtt: 10ms, step_packets: 20p,"
        " min_qlen_step: 2p, drop_enqueue: true, any_ect: true, drop_on_overload: false, split_gso: false}",
        "dualpi2 limit 1000 memlimit 2000000 target 10000us tupdate 10000us alpha 0.277778 beta 5"
        " coupling_factor 2 step_thresh 20p min_qlen_step 2 overflow drop_enqueue any_ect"
        " classic_protection 10% no_split_gso",
    ),
    (
        "{kind: choke, limit: 100p, ecn: true, probability: 5%}",
        "choke limit 100 min 8 max 25 burst 13 avpkt 1000 bandwidth 10000000bit probability 0.05 ecn",
    ),
    (
        "{kind: fq, flow_limit: 50p, maxrate: 4mbit, ce_threshold: 2ms}",
        "fq limit 10000 flow_limit 50 quantum 3028 initial_quantum 15140 maxrate 4000000bit"
        " low_rate_threshold 550000bit refill_delay 40000us orphan_mask 1023 ce_threshold 2000us"
        " horizon 10000000us horizon_drop",
    ),
]


def written(queue: str) -> str:
    """The words for tc of the queue of a bottleneck."""
    text = (LABS / "teacup-experiment.yaml").read_text(encoding="utf-8")
    text = text[: text.index("sweep:")].replace("{kind: pfifo, limit: 90p}", queue)
    scenario = cwndlab.load(text).plan().runs[0].scenario
    (bottleneck,) = (link for link in scenario["links"] if link["name"] == "bottleneck")
    return " ".join(tc.queue(bottleneck["queue"]))


@pytest.mark.parametrize(("queue", "words"), DISCIPLINES)
def test_queue_disciplines_are_told_to_tc(queue: str, words: str) -> None:
    assert written(queue) == words


def test_red_that_no_kernel_has_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^queue red: no kernel has nonlinear$"):
        written("{kind: red, limit: 60KB, min: 15KB, max: 45KB, burst: 20p, nonlinear: true}")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("delay: 20ms, loss: {random: 1%}", "delay 20000us loss random 1%"),
        (
            "delay: 20ms, jitter: {kind: normal, sd: 1ms, reorder: true}",
            "delay 20000us 1000us distribution normal",
        ),
        (
            "loss: {gilbert: {p: 1%, r: 20%, loss_bad: 50%}}, duplicate: 1%, corrupt: 2%",
            "loss gemodel 1% 20% 50% 0% duplicate 1% corrupt 2%",
        ),
    ],
)
def test_netem_has_room_for_what_is_on_its_way(keys: str, words: str) -> None:
    text = dumbbell("x", duration="1s", a="stack: linux", bottleneck=f"rate: 1gbit, {keys}")
    scenario: Any = cwndlab.load(text).plan().runs[0].scenario
    (made,) = (each for each in scenario["links"] if each["name"] == "bottleneck")
    limit, *impairments = " ".join(tc.netem(made)).removeprefix("limit ").split()
    assert " ".join(impairments) == words
    # A second of the smallest packets at 400 Mbit/s; of full ones at 12 Gbit/s.
    assert int(limit) == tc.NETEM_LIMIT


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("delay: 20ms", "limit 1000 delay 20000us"),
        ("limit: 50p, loss: {random: 1%}, rate: 8mbit", "limit 50 loss random 1% rate 8000000bit"),
    ],
)
def test_netem_stands_at_the_egress_of_a_host(keys: str, words: str) -> None:
    host = f"stack: linux, egress: {{{keys}}}"
    scenario: Any = cwndlab.load(dumbbell("x", duration="1s", a=host, bottleneck="rate: 1gbit"))
    (told,) = (host for host in scenario.plan().runs[0].scenario["hosts"] if host["name"] == "a")
    assert " ".join(tc.egress("a", told["egress"])) == words
    with pytest.raises(
        ValueError, match="host a: egress: netem has loss of kind random or gilbert here, not nth"
    ):
        tc.egress("a", {**told["egress"], "loss": {"kind": "nth", "every": 9, "packet": 1, "min_payload": 0}})


def test_a_queue_discipline_stands_at_the_interface_of_a_host() -> None:
    class Recorder:
        told: tuple[list[str], list[str]]

        def run(self, words: list[str], text: str = "", undo: Sequence[str] = ()) -> str:
            self.told = words, list(undo)
            return ""

    host = "stack: linux, nic: {qdisc: {kind: fq, ce_threshold: 1ms}}"
    scenario: Any = cwndlab.load(dumbbell("x", duration="1s", a=host, bottleneck="rate: 1gbit"))
    made: Any = {**scenario.plan().runs[0].scenario, "live": {"loggers": [], "flows": {}, "qdiscs": ["a"]}}
    queues, reach = interface_queues(made), Recorder()
    assert list(queues) == ["a"]
    machine: Any = reach
    tc.make_queue(machine, queues["a"], "eth1")
    words, undo = reach.told
    assert words[:9] == ["tc", "qdisc", "add", "dev", "eth1", "root", "handle", "2:", "fq"]
    assert "ce_threshold 1000us" in " ".join(words)
    assert undo == tc.remove("eth1")
    assert tc.queue_trials(queues["a"])["fq"][0][: len(tc.ALONE)] == list(tc.ALONE)
    assert interface_queues({**made, "live": {"loggers": [], "flows": {}}}) == {}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("delay: 20ms, jitter: {sd: 1ms}", "netem has no jitter that keeps the order here"),
        ("delay: 20ms, loss: {nth: {every: 9}}", "not nth; ingress.after_gro of a host has nth"),
    ],
)
def test_what_netem_cannot_do_is_refused(keys: str, message: str) -> None:
    text = dumbbell("x", duration="1s", a="stack: linux", bottleneck=f"rate: 1gbit, {keys}")
    scenario: Any = cwndlab.load(text).plan().runs[0].scenario
    (made,) = (each for each in scenario["links"] if each["name"] == "bottleneck")
    with pytest.raises(ValueError, match=message):
        tc.check(made)


SHOWN = """\
1700000000123456789
[{"kind":"netem","handle":"3:","root":true,"options":{"limit":1000000},"bytes":9,"packets":1,"drops":0,
"backlog":77,"qlen":1},{"kind":"htb","handle":"1:","parent":"3:1","options":{},"bytes":9,"packets":1},
{"kind":"codel","handle":"2:","parent":"1:1","options":{"limit":100},"bytes":151400,"packets":100,"drops":7,
"overlimits":0,"requeues":0,"backlog":4542,"qlen":3}]

1700000000173456789
[{"kind":"netem"
"""


def test_a_link_is_made_once_taken_back_once_and_its_queue_is_looked_at() -> None:
    text = dumbbell("x", duration="1s", a="stack: linux", bottleneck="rate: 10mbit, delay: 20ms")
    scenario: Any = cwndlab.load(text).plan().runs[0].scenario
    (made,) = (each for each in scenario["links"] if each["name"] == "bottleneck")
    shell = StandIn({})
    tc.make(ByShell(shell), made, "eth2", 1)
    undone = [undo for _, undo in shell.changed]
    assert undone == [tc.remove("eth2"), *([["true"]] * 3)]
    assert tc.looks(SHOWN) == [(1_700_000_000_123_456_789, Look(100, 151_400, 7, 4542, 3))]
    assert tc.watch(made, "eth2", 1, 0.05)[-2:] == ["eth2", "0.05"]


def test_the_last_row_of_a_connection_is_at_the_end_of_the_run() -> None:
    ports = {"local_port": 1, "remote_port": 2}
    rows = [
        {**ports, "t_ns": time, **dict.fromkeys(sampler.COUNTED, counted), "cwnd_bytes": counted}
        for time, counted in ((900, 100), (960, 160), (1040, 240), (1090, 290))
    ]
    (last,) = sampler.at_end(rows, 1000)
    assert (last["t_ns"], last["received_bytes"], last["cwnd_bytes"]) == (999, 200, 160)
    assert sampler.at_end(rows[:2], 1000) == []
    assert sampler.at_end(rows[2:], 1000) == []


NETSTAT = """\
tcp:
	12 packets sent
		7 data packets (4711 bytes)
	2 connections established (including accepts)
"""


def test_counters_have_the_names_of_their_systems() -> None:
    proc = "TcpExt: SyncookiesSent TCPTimeouts\nTcpExt: 0 7\nIp: Forwarding\nIp: -1\n"
    version6 = "Ip6InReceives                   \t12\nIcmp6OutType128\t3\n"
    assert counters.read(proc + version6) == {
        "TcpExt.SyncookiesSent": 0,
        "TcpExt.TCPTimeouts": 7,
        "Ip.Forwarding": -1,
        "Ip6.InReceives": 12,
        "Icmp6.OutType128": 3,
    }
    later = proc.replace("0 7", "0 9")
    assert json.loads(counters.changed({"a": (proc, later)})) == {"a": {"TcpExt.TCPTimeouts": [7, 9]}}
    assert counters.read(NETSTAT) == {
        "packets sent": 12,
        "data packets": 7,
        "connections established (including accepts)": 2,
    }


def test_tcpdump_does_not_see_our_own_connection() -> None:
    words = monitors.command("eth2", 60, 2222, leaving=True)
    assert " ".join(words).startswith(
        "tcpdump -i eth2 -n -p -B 8192 -s 74 -Q out -w - (ip or ip6) and not tcp port 2222"
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (200_000, []),
        (3_500_000, ["a to b: the round trip is 3.500 ms, and the experiment says 0.000 ms, apart from"]),
        (None, ["a: b does not answer a ping of 10.0.0.2"]),
    ],
)
def test_a_path_that_is_another_than_described_is_refused(found: int | None, said: list[str]) -> None:
    text = dumbbell("x", duration="1s", a="stack: linux", bottleneck="rate: 10mbit, delay: 20ms")
    made = ["bottleneck", "bottleneck.reverse"]
    file = SimpleNamespace(machines={"r": SimpleNamespace(links=made)})
    there: Any = SimpleNamespace(
        file=file,
        addresses=lambda scenario: {"a": "10.0.0.1", "b": "10.0.0.2"},
        round_trip_ns=lambda from_, to, family: found,
    )
    scenario: Any = cwndlab.load(text).plan().runs[0].scenario
    told = list(preflight.round_trips(scenario, there))
    assert len(told) == len(said)
    assert all(line.startswith(start) for line, start in zip(told, said, strict=True))


def test_what_ss_says_becomes_columns() -> None:
    (sample,) = ss.samples(["1700000000.250000000\n" + SS], sampler.LATEST_NS)
    time_ns, ends, details = sample
    assert time_ns == 1_700_000_000_250_000_000
    assert ends == ("10.78.0.1", "10000", "10.78.1.1", "5201")
    row = sampler.columns(ss.values(details), details)
    expected = {
        "cwnd_bytes": 27 * 1448,
        "ssthresh_bytes": 21 * 1448,
        "srtt_ns": 31_300_000,
        "rttvar_ns": 1_200_000,
        "min_rtt_ns": 14_200_000,
        "inflight_bytes": 25 * 1448,
        "delivered_bytes": 1_100_000,
        "sent_bytes": 1_200_000,
        "sent_segments": 829,
        "retransmits": 2,
        "pacing_bps": 11_990_000,
        "delivery_bps": 9_650_000,
        "rto_ns": 236_000_000,
        "busy_ns": 1_000_000_000,
        "rwnd_limited_ns": 12_000_000,
        "notsent_bytes": 41904,
        "send_buffer_bytes": 138240,
        "receive_buffer_bytes": 131072,
        "state": "avoidance",
    }
    assert {name: row[name] for name in expected} == expected


def test_the_busiest_processor_is_found() -> None:
    text = (
        "cpu  100 0 0 900 0 0 0 0 0 0\ncpu0 50 0 0 450 0 0 0 0 0 0\ncpu1 50 0 0 450 0 0 0 0 0 0\n"
        "cpu0 145 0 0 455 0 0 0 0 0 0\ncpu1 60 0 0 540 0 0 0 0 0 0\n"
    )
    assert sampler.busiest(text) == pytest.approx(0.95)


class StandIn:
    """A shell that gives documented answers, and keeps what it was asked."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers, self.asked = answers, list[str]()
        self.changed: list[tuple[list[str], list[str]]] = []

    def run(self, argv: Sequence[str], text: str = "", limit_s: float = COMMAND_S) -> str:
        return self.shell(" ".join(argv))

    def shell(self, script: str, *words: str, limit_s: float = COMMAND_S) -> str:
        self.asked.append(script)
        return next((answer for part, answer in self.answers.items() if part in script), "")

    def change(self, argv: Sequence[str], text: str, undo: Sequence[str]) -> str:
        self.changed.append((list(argv), list(undo)))
        return ""

    def write(self, path: str, text: str) -> None:
        self.changed.append(([path, text], []))


def test_offloads_are_switched_where_they_are_otherwise_and_can_be_switched_back() -> None:
    shown = (
        "Features for eth1:\nrx-checksumming: on\ntx-checksumming: on\nscatter-gather: on\n"
        "tcp-segmentation-offload: on\ngeneric-segmentation-offload: on\ngeneric-receive-offload: on\n"
        "large-receive-offload: off [fixed]\n"
    )
    shell = StandIn({"command -v": "/usr/sbin/ethtool\n", "-k eth1": shown})
    ByShell(shell).set_offloads("eth1", tso=False, gro=False)
    tool = ["/usr/sbin/ethtool", "-K", "eth1"]
    off = [*tool, "tso", "off", "gso", "off", "gro", "off"]
    on = [*tool, "tso", "on", "gso", "on", "gro", "on"]
    assert shell.changed == [(off, on)]
    shell.changed.clear()
    ByShell(shell).set_offloads("eth1", tso=True, gro=True)
    assert shell.changed == []


def test_secrets_of_machines_are_not_read_and_files_come_by_path() -> None:
    shell = StandIn({"/proc/sys/net/": "/proc/sys/net/ipv4/tcp_rmem:4096\t131072\t6291456\n"})
    found = settings.namespace(_WithoutInterfaces(shell))
    assert found["sysctls"] == {"net.ipv4.tcp_rmem": "4096 131072 6291456"}
    assert all(f"! -name '*{end}'" in shell.asked[0] for end in ("_key", "_secret", "_password"))


class _WithoutInterfaces(ByShell):
    def interfaces(self) -> dict[str, dict[str, object]]:
        return {}


def test_a_port_is_free_when_neither_a_socket_nor_time_wait_has_it() -> None:
    def is_free(port: int) -> bool:
        command = ["sh", "-s", "--", "100", f"127.0.0.1:{port}"]
        done = subprocess.run(command, input=tools.FREE, capture_output=True, text=True, check=False)
        assert done.stdout == ("" if done.returncode == 0 else f"127.0.0.1:{port}\n"), done
        return done.returncode == 0

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
        client = socket.create_connection(("127.0.0.1", port))
        own = client.getsockname()[1]
        other, _ = server.accept()
        client.close()
        other.close()
    assert is_free(port)
    assert not is_free(own)  # it was closed first, and is in TIME-WAIT
    assert is_free(own // 10)


def test_modules_of_congestion_controls_are_loaded_before_settings_are_looked_at() -> None:
    available = "/proc/sys/net/ipv4/tcp_available_congestion_control"
    shell = StandIn({available: f"{available}:reno cubic\n"})
    scenario: Any = cwndlab.load(
        dumbbell("x", duration="1s", a="stack: linux, cc: bbr", bottleneck="rate: 1gbit")
    )
    told = scenario.plan().runs[0].scenario
    kernel_of_a = Kernel("6.1.0", ("reno", "cubic", "bbr"), (), {})
    for host in told["hosts"]:
        Linux(kernel_of_a).load(ByShell(shell), host, told["flows"])
    assert [line for line in shell.asked if "modprobe" in line] == ["modprobe tcp_bbr"]


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"a": ("1 net:1", 1 << 30), "b": ("2 net:1", None)}, []),
        (
            {"a": ("1 net:1", 1 << 20), "b": ("2 net:1", 1 << 30)},
            ["a: 1 MiB are free for /var/tmp/cwndlab, and a run needs 20 MiB for its journal and logs"],
        ),
        ({"a": ("1 net:1", None), "b": ("1 net:1", None)}, ["a and b are the same machine"]),
        ({"a": ("1 net:1", None), "spare": ("1 net:1", None)}, []),
        ({"a": ("", None), "b": ("", None)}, []),
    ],
)
def test_room_and_names_of_machines_are_looked_at_first(states: Any, said: list[str]) -> None:
    scenario: Any = {"hosts": [{"name": "a"}, {"name": "b"}]}
    there: Any = SimpleNamespace(file=SimpleNamespace(routers={}), states=lambda: states)
    assert list(preflight._machines(scenario, there)) == said
