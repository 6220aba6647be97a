"""What a Scenario becomes in namespaces, decided without any."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cwndlab import load, testbeds
from cwndlab.execution import run_order
from cwndlab.experiment.scenario.queries import base_rtt_ns, of_engine
from cwndlab.testbeds import programs
from cwndlab.testbeds.live.linux import rules
from cwndlab.testbeds.live.linux.kernel import Kernel
from cwndlab.testbeds.live.linux.system import Linux
from cwndlab.testbeds.live.traffic.clock import in_phase, start_times
from cwndlab.testbeds.netns import ip, namespaces, preflight
from cwndlab.testbeds.netns.layout import Layout, capture_points, lay_out

HOSTS = "hosts: {a: {stack: linux}, b: {stack: linux}, c: {stack: linux}}\n"
FLOWS = """\
flows:
  - {name: one, from: a, to: c}
  - {name: two, from: b, to: c}
  - {name: back, from: c, to: a}
"""
NETWORKS = {
    "dumbbell": "network: {dumbbell: {left: [a, b], right: [c], bottleneck: {rate: 10mbit, delay: 5ms}}}\n",
    "star": "network: {star: {link: {rate: 10mbit, delay: 1ms}}}\n",
    "chain": "network: {chain: {bottlenecks: [{rate: 10mbit}, {rate: 5mbit}], hosts: [[a], [b], [c]]}}\n",
    "triangle": """\
network:
  nodes: [x, y]
  links:
    - {from: a, to: x}
    - {from: b, to: x}
    - {name: there, from: x, to: y, one_way: true, delay: 3ms}
    - {name: back, from: y, to: x, one_way: true, delay: 7ms}
    - {from: y, to: c}
""",
}


def scenario(network: str = "dumbbell", more: str = "", *changes: str) -> dict[str, Any]:
    text = f"experiment: x\nduration: 2s\n{HOSTS}{NETWORKS[network]}{FLOWS}{more}"
    return load(text, changes).plan().runs[0].scenario


@pytest.mark.parametrize("network", NETWORKS)
def test_every_link_is_one_direction_of_one_cable_and_every_end_an_interface_of_its_own(network: str) -> None:
    made = scenario(network)
    layout = lay_out(made)
    links = [link["name"] for cable in layout.cables for link in (cable.forward, cable.reverse) if link]
    assert sorted(links) == sorted(link["name"] for link in made["links"])
    ports = [port for cable in layout.cables for port in (cable.near, cable.far)]
    assert len(set(ports)) == len(ports)
    assert all(len(port.interface) <= 15 for port in ports)
    for cable in layout.cables:
        for link, start, end in (
            (cable.forward, cable.near, cable.far),
            (cable.reverse, cable.far, cable.near),
        ):
            assert link is None or (link["from"], link["to"]) == (start.node, end.node)


@pytest.mark.parametrize("network", NETWORKS)
def test_routes_lead_from_every_host_to_every_other(network: str) -> None:
    layout = lay_out(scenario(network))
    for start in layout.hosts:
        for end in layout.hosts:
            if start != end:
                assert walk(layout, start, end) == end


def walk(layout: Layout, start: str, end: str) -> str:
    """Where packets for `end` come to when they are sent from `start`."""
    peers = {cable.near: cable.far for cable in layout.cables}
    peers |= {cable.far: cable.near for cable in layout.cables}
    here = start
    for _ in layout.cables:
        interface = layout.routes[here].get(end)
        ours = [port for port in peers if port.node == here and port.interface == interface]
        if not ours:
            return here
        here = peers[ours[0]].node
    return here


def test_addresses_and_ports_are_those_of_the_simulators_captures() -> None:
    layout = lay_out(scenario())
    assert layout.hosts == {"a": "10.0.0.1", "b": "10.0.1.1", "c": "10.0.2.1"}
    ports = {name: (ends.source_port, ends.target_port) for name, ends in layout.flows.items()}
    assert ports == {"one": (10000, 5201), "two": (10001, 5202), "back": (10002, 5201)}


def test_hosts_of_ipv6_have_routes_to_each_other_alone() -> None:
    made = scenario("star")
    for host in made["hosts"][::2]:
        host["ip"] = "ipv6"
    layout = lay_out(made)
    assert layout.hosts == {"a": "fd00::1", "b": "10.0.1.1", "c": "fd00::2:1"}
    assert [to for to, _, _ in layout.ways("a")] == ["c"]
    assert layout.ways("b") == []
    (switch,) = layout.nodes
    assert {address for _, address, _ in layout.ways(switch)} == {*layout.hosts.values()}
    assert (layout.families("a"), layout.families("b")) == (("ipv6",), ("ipv4",))
    assert layout.families(switch) == ("ipv4", "ipv6")


def test_a_namespace_has_ipv6_where_a_packet_is_of_it_and_is_quiet() -> None:
    assert ip.sysctls(["ipv4"], v6=True)["net.ipv6.conf.all.disable_ipv6"] == "1"
    assert ip.sysctls(["ipv4"], v6=False) == {}
    host = ip.sysctls(["ipv6"], v6=True)
    for name in ("accept_dad", "accept_ra", "autoconf", "router_solicitations"):
        assert host[f"net.ipv6.conf.default.{name}"] == "0"
    assert not any("forward" in name for name in host)


def test_connections_of_a_loadlatency_scenario_go_from_the_client_to_one_port() -> None:
    flows = (
        "flows:\n"
        "  - {name: ll, from: a, to: c, app: {kind: loadlatency, scenario: 7, idle: 500ms}}\n"
        "  - {from: a, to: c}\n"
    )
    text = f"experiment: x\nduration: 2s\n{HOSTS}{NETWORKS['dumbbell']}{flows}"
    ends = lay_out(load(text).plan().runs[0].scenario).flows
    ports = {name: (end.from_, end.source_port, end.to, end.target_port) for name, end in ends.items()}
    assert ports == {
        "ll": ("a", 10000, "c", 5201),
        "ll.up1": ("a", 10001, "c", 5201),
        "ll.down1": ("c", 5201, "a", 10002),
        "ll.down2": ("c", 5201, "a", 10003),
        "f2": ("a", 10004, "c", 5202),
    }


def test_base_round_trips_add_up_both_ways() -> None:
    assert base_rtt_ns(scenario(), "a", "c") == 10_000_000
    assert base_rtt_ns(scenario("triangle"), "a", "c") == 10_000_000


def test_a_base_round_trip_has_the_delays_at_both_hosts_egress() -> None:
    text = f"experiment: x\nduration: 2s\n{HOSTS}{NETWORKS['dumbbell']}{FLOWS}"
    delays = [
        "hosts.a.egress={delay: 20ms}",
        "hosts.b.egress={delay: 500ms}",
        "hosts.c.egress={delay: 3ms}",
    ]
    made = load(text, delays).plan().runs[0].scenario
    assert base_rtt_ns(made, "a", "c") == base_rtt_ns(made, "c", "a") == 33_000_000
    # One that impairs in other ways delays nothing.
    made = load(text, ["hosts.a.egress={loss: {random: 1%}}"]).plan().runs[0].scenario
    assert base_rtt_ns(made, "a", "c") == 10_000_000


def test_starts_are_drawn_by_seed_repeat_and_flow_alone() -> None:
    made = scenario(more="start_jitter: 50ms\nrepeat: 2\n")
    starts = start_times(made)
    assert all(0 <= start < 50_000_000 for start in starts.values())
    assert len(set(starts.values())) == len(starts)
    assert starts == start_times(made)
    assert starts != start_times({**made, "repeat": 1})
    fewer = {**made, "flows": made["flows"][1:]}
    assert start_times(fewer) == {name: starts[name] for name in ("two", "back")}
    assert set(start_times({**made, "start_jitter_ns": 0}).values()) == {0}


def test_phases_are_drawn_by_seed_repeat_and_link_alone() -> None:
    made = scenario(more="repeat: 2\n")
    drawn, spread = phases(made), made["phase_jitter_ns"]
    assert drawn.keys() == spread.keys()
    assert len(set(drawn.values())) == len(drawn) == 3
    assert all(0 <= delay < spread[link] for link, delay in drawn.items())
    assert drawn == phases(made)
    assert drawn != phases({**made, "repeat": 1})
    assert phases({**made, "phase_jitter_ns": {"access.b": spread["access.b"]}}) == {
        "access.b": drawn["access.b"]
    }


def test_phases_are_in_the_delays_of_links_and_of_changes() -> None:
    changes = "network.dumbbell.access_of={a: {delay: 1ms, schedule: [{at: 1s, set: {delay: 2ms}}]}}"
    made = scenario("dumbbell", "repeat: 2\n", changes)
    phase, made = phases(made)["access.a"], in_phase(made)
    assert delays(made)["access.a"] == 1_000_000 + phase
    assert delays(made)["access.a.reverse"] == 1_000_000
    assert [change["delay_ns"] for change in made["schedule"]] == [2_000_000 + phase]


def phases(made: Any) -> dict[str, int]:
    """Delays that links have beside their own, of those that have any."""
    before = delays(made)
    return {
        name: delay - before[name] for name, delay in delays(in_phase(made)).items() if delay > before[name]
    }


def delays(made: Any) -> dict[str, int]:
    return {link["name"]: link["delay_ns"] for link in made["links"]}


def test_the_engine_never_sees_what_only_live_testbeds_know() -> None:
    made = {**scenario(), "live": {"emulator": "own"}}
    assert "live" not in json.loads(json.dumps(of_engine(made)))
    assert testbeds.support("netns").live
    assert testbeds.support("sim").live is None


def test_a_capture_at_a_host_is_of_the_links_at_its_interfaces() -> None:
    made = scenario(more="record: {pcap: [a, bottleneck]}\n")
    assert list(capture_points(made)) == ["access.a", "access.a.reverse", "bottleneck"]


@pytest.mark.parametrize(
    ("loss", "chosen"),
    [
        ("{random: 1%}", "numgen random mod 1000000000 < 10000000"),
        ("{nth: {every: 33, packet: 2}}", "numgen inc mod 33 == 2"),
        ("{list: [3, 5]}", "numgen inc mod 2147483648 { 3, 5 }"),
    ],
)
def test_rules_say_which_packets_are_dropped(loss: str, chosen: str) -> None:
    stage = f"hosts.c.ingress={{after_gro: {{loss: {loss}, match: {{dport: 5201, min_payload: 100}}}}}}"
    text = f"experiment: x\nduration: 2s\n{HOSTS}{NETWORKS['dumbbell']}{FLOWS}"
    made = load(text, [stage]).plan().runs[0].scenario
    script = rules.script(made["hosts"][2], lay_out(made))
    (line,) = (line for line in script.splitlines() if "drop" in line)
    assert line == f"{chosen} counter drop"
    # The port of the experiment stands for those of both flows that the host accepts.
    assert [line for line in script.splitlines() if "jump" in line] == [
        "ip daddr 10.0.2.1 ip protocol tcp tcp dport { 5201, 5202 } ip length >= 152 jump chosen",
        "ip daddr 10.0.2.1 ip protocol udp udp dport { 5201, 5202 } ip length >= 128 jump chosen",
    ]
    assert rules.script(made["hosts"][0], lay_out(made)) == ""
    for host in made["hosts"]:
        host["ip"] = "ipv6"
    script = rules.script(made["hosts"][2], lay_out(made))
    assert script.startswith("table ip6 ")
    # The length of IPv6 is of what follows its header.
    assert [line for line in script.splitlines() if "jump" in line] == [
        "ip6 daddr fd00::2:1 meta l4proto tcp tcp dport { 5201, 5202 } ip6 length >= 132 jump chosen",
        "ip6 daddr fd00::2:1 meta l4proto udp udp dport { 5201, 5202 } ip6 length >= 108 jump chosen",
    ]


@pytest.fixture
def nft_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes a program that takes the place of nft, and gives the file it copies its rules to."""

    def make(ending: str) -> Path:
        program, rules_seen = tmp_path / "nft", tmp_path / "rules"
        program.write_text(f"#!/bin/sh\ncat >{rules_seen}\n{ending}\n", encoding="utf-8")
        program.chmod(0o755)
        monkeypatch.setattr(programs, "need", lambda name, purpose: str(program))
        monkeypatch.setattr(namespaces, "in_scratch", lambda work: work())
        return rules_seen

    return make


def test_rules_are_tried_before_anything_starts(nft_of: Callable[[str], Path]) -> None:
    stage = "hosts.c.ingress={after_gro: {loss: {random: 1%}}}"
    text = f"experiment: x\nduration: 2s\n{HOSTS}{NETWORKS['dumbbell']}{FLOWS}"
    made = load(text, [stage]).plan().runs[0].scenario
    host, layout = made["hosts"][2], lay_out(made)
    seen = nft_of("exit 0")
    rules.check(host, layout, preflight.try_out)
    assert seen.read_text(encoding="utf-8") == rules.script(host, layout)
    nft_of("echo 'Error: Could not process rule: No such file or directory' >&2; exit 1")
    with pytest.raises(ValueError, match=r"^host c: ingress\.after_gro: this kernel does not") as refused:
        rules.check(host, layout, preflight.try_out)
    assert "modprobe nft_numgen" in str(refused.value)
    assert "Could not process rule" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_block_is_one_repeat_of_every_cell_in_an_order_of_its_own() -> None:
    sweep = "repeat: 3\nsweep: [{duration: [1s, 2s, 3s, 4s, 5s, 6s]}]\n"
    experiment = load(f"experiment: x\nduration: 2s\n{HOSTS}{NETWORKS['dumbbell']}{FLOWS}{sweep}")
    plan = experiment.plan()
    arranged = run_order.arrange(experiment.spec, plan)
    carried_out = sorted(plan.runs, key=lambda run: arranged.positions[run.index])
    assert sorted(arranged.positions.values()) == list(range(18))
    blocks = [carried_out[start : start + 6] for start in (0, 6, 12)]
    assert [{run.repeat for run in block} for block in blocks] == [{0}, {1}, {2}]
    cells = [[run.cell["duration"] for run in block] for block in blocks]
    assert len({tuple(block) for block in cells}) > 1
    assert arranged.positions == run_order.arrange(experiment.spec, plan).positions
    listed = load(experiment.source, ["order=listed"])
    assert run_order.arrange(listed.spec, plan).positions == {run.index: run.index for run in plan.runs}


def test_a_host_accepts_with_what_tells_of_marks() -> None:
    system = Linux(Kernel("6.18.0", ("reno", "bbr", "dctcp"), ("reno", "bbr", "dctcp"), {}))
    host = {"name": "a", "stack": "linux-6.18", "ecn": "accept", "sysctl": {}}

    def opens_with(*flows: tuple[str, str, str]) -> str:
        named = [{"from": sender, "to": receiver, "cc": cc} for sender, receiver, cc in flows]
        return system.sysctls(host, named)["net.ipv4.tcp_congestion_control"]

    assert opens_with(("b", "a", "dctcp")) == "dctcp"
    assert opens_with(("a", "b", "bbr"), ("b", "a", "dctcp")) == "dctcp"
    assert opens_with(("b", "a", "bbr")) == "reno"


@pytest.mark.parametrize(
    ("ccs", "allowed", "opens_with"),
    [
        (["bbr", "bbr"], ("reno", "bbr"), "bbr"),
        (["cubic", "cubic"], ("reno", "bbr", "cubic"), "cubic"),
        # A namespace may not choose every congestion control that its sockets may.
        (["cubic", "cubic"], ("reno", "bbr"), "reno"),
        # BBR would leave its pacing to the other flow.
        (["cubic", "bbr"], ("reno", "bbr", "cubic"), "reno"),
    ],
)
def test_connections_open_with_what_leaves_nothing_to_the_flows_own_congestion_control(
    ccs: list[str], allowed: tuple[str, ...], opens_with: str
) -> None:
    system = Linux(Kernel("6.18.0", ("reno", "bbr", "cubic"), allowed, {}))
    flows = [{"from": "a", "cc": cc} for cc in ccs] + [{"from": "b", "cc": "vegas"}]
    host = {"name": "a", "stack": "linux-6.18", "ecn": "accept", "sysctl": {}}
    assert system.sysctls(host, flows)["net.ipv4.tcp_congestion_control"] == opens_with
