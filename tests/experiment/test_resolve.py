"""Scenarios of each topology, as snapshots, and what resolving decides."""

import json
from pathlib import Path
from typing import Any

import pytest
from describe import describe

import malformed
from cwndlab import load
from cwndlab.errors import ExperimentError
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.plan import PlannedRun

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
FILES = sorted([*EXAMPLES.glob("*.yaml"), *HERE.glob("topologies/*.yaml")])
BASE = malformed.GOOD[: malformed.GOOD.index("sweep:")]


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_topologies_expand_as_reviewed(file: Path) -> None:
    scenario = load(file).plan().runs[0].scenario
    assert describe(scenario) == (HERE / "topologies" / f"{file.stem}.txt").read_text()


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_files_written_out_plan_the_same(file: Path) -> None:
    experiment = load(file)
    again = load(experiment.as_yaml()).plan().runs
    assert [run.scenario for run in again] == [run.scenario for run in experiment.plan().runs]


def one(text: str, *overrides: str) -> PlannedRun:
    (run,) = load(text, overrides).plan().runs
    return run


def scenario(*overrides: str) -> dict[str, Any]:
    return one(BASE, *overrides).scenario


def refusal(*overrides: str) -> str:
    with pytest.raises(ExperimentError) as refused:
        load(BASE, overrides).plan()
    return str(refused.value).partition(": ")[2]


def test_scenarios_are_json_without_floats() -> None:
    def no_float(text: str) -> float:
        raise AssertionError(text)

    json.loads(json.dumps(scenario()), parse_float=no_float)


@pytest.mark.parametrize(
    ("limit", "packets"),
    # 10 Mb/s x 40 ms = 50,000 B, 33.03 packets of 1514 B
    [("1bdp", 33), ("2bdp", 66), ("0.5bdp", 16), ("0.001bdp", 1)],
)
def test_limits_in_bdp_are_packets_of_the_links_size(limit: str, packets: int) -> None:
    run = one(BASE, f"network.dumbbell.bottleneck.queue.limit={limit}")
    assert run.scenario["links"][0]["queue"] == {"kind": "pfifo", "limit_packets": packets}
    assert run.notes[0] == (
        f"bottleneck: queue limit {limit} is {packets} packets (10mbit x 40ms base RTT, packets of 1514 B)"
    )


def test_limits_in_bdp_are_bytes_where_the_queue_counts_bytes() -> None:
    queue = scenario("network.dumbbell.bottleneck.queue={kind: bfifo, limit: 2bdp}")["links"][0]["queue"]
    assert queue == {"kind": "bfifo", "limit_bytes": 100_000}


def test_jitter_is_the_round_trip_of_an_empty_path() -> None:
    # 2 x 20 ms; 1514 B at 10 Mb/s and twice at 1 Gb/s; 66 B (ACK of 52 B and 14 B) likewise
    assert scenario()["start_jitter_ns"] == 40_000_000 + 1_211_200 + 2 * 12_112 + 52_800 + 2 * 528
    assert scenario("start_jitter=0s")["start_jitter_ns"] == 0


def phases(*overrides: str, testbed: str = "sim") -> dict[str, int] | None:
    found = {
        json.dumps(run.scenario.get("phase_jitter_ns"))
        for run in load(BASE, overrides, testbed=testbed).plan().runs
    }
    (text,) = found  # the same in every repeat: what each draws is up to the engine
    return json.loads(text)


def test_repeats_have_phases_of_a_packet_at_the_slowest_link() -> None:
    both = ("access.a", "access.b")
    assert phases() is None
    assert phases("repeat=2") == dict.fromkeys(both, 1_211_200)  # 1514 B at 10 Mbit/s
    assert phases("repeat=2", "phase_jitter=0s") is None
    off = load(BASE, ["repeat=2", "phase_jitter=0s"]).plan().runs[0]
    assert (off.scenario, off.scenario_hash) == (one(BASE).scenario, one(BASE).scenario_hash)
    assert phases("phase_jitter=3us") == phases("repeat=9", "phase_jitter=3us") == dict.fromkeys(both, 3000)
    # A small MTU anywhere, the link's overhead, a slower link, a bucket; not the schedule, nor the way back.
    slow = "network.dumbbell.bottleneck"
    assert phases("repeat=2", "network.dumbbell.access.mtu=986") == dict.fromkeys(both, 800_000)
    assert phases("repeat=2", f"{slow}.overhead=0") == dict.fromkeys(both, 1_200_000)
    assert phases("repeat=2", "network.dumbbell.access_of={b: {rate: 1mbit}}") == dict.fromkeys(
        both, 12_112_000
    )
    bucket = f"{slow}.shaper={{kind: tbf, rate: 1mbit, burst: 20KB}}"
    assert phases("repeat=2", bucket) == dict.fromkeys(both, 12_112_000)
    later = f"{slow}.schedule=[{{at: 1s, set: {{rate: 1mbit}}}}]"
    assert phases("repeat=2", later) == dict.fromkeys(both, 1_211_200)
    assert phases("repeat=2", "network.dumbbell.reverse.rate=1mbit") == dict.fromkeys(both, 1_211_200)


def test_a_host_of_several_flows_has_the_phases_of_the_slowest() -> None:
    hosts = "hosts={a: {stack: linux-6.8}, b: {stack: linux-6.8}, c: {stack: linux-6.8}}"
    links = "[{from: a, to: b, rate: 10mbit}, {from: b, to: c, rate: 2mbit}, {from: a, to: c}]"
    flows = "flows=[{name: f, from: a, to: b}, {name: g, from: c, to: b}, {name: h, from: a, to: c}]"
    found = phases("repeat=2", hosts, f"network={{nodes: [], links: {links}}}", flows)
    assert found == {"a-b": 1_211_200, "a-b.reverse": 1_211_200, "b-c": 6_056_000, "b-c.reverse": 6_056_000}


def test_phases_are_a_traces_mean_packet(tmp_path: Path) -> None:
    (tmp_path / "x.trace").write_text("1\n2\n6\n", encoding="utf-8")  # three packets in 6 ms
    (tmp_path / "x.yaml").write_text(BASE.replace("rate: 10mbit\n", "shaper: {kind: trace, file: x.trace}\n"))
    run = load(tmp_path / "x.yaml", ["repeat=2"]).plan().runs[0]
    assert run.scenario["phase_jitter_ns"] == dict.fromkeys(("access.a", "access.b"), 2_000_000)


def test_machines_draw_their_phases_themselves() -> None:
    stacks = ("hosts.a={stack: linux}", "hosts.b={stack: linux}", "record.tcp=10ms")
    assert phases("repeat=2", *stacks, testbed="netns") is None
    plan = load(BASE, ["repeat=2", *stacks, "phase_jitter=0s"], testbed="netns").plan()
    said = "phase_jitter: nothing to testbed netns, whose machines have phases of their own"
    assert said in plan.runs[0].notes


def test_buffers_of_the_socket_belong_to_each_side() -> None:
    flow = scenario()["flows"][0]
    assert (flow["sndbuf"], flow["rcvbuf"]) == (600_000, 600_000)
    flow = scenario("flows.f1.sndbuf=auto", "flows.f1.rcvbuf=64KiB")["flows"][0]
    assert (flow["sndbuf"], flow["rcvbuf"]) == (None, 65536)
    flow = scenario("hosts.b.sndbuf=1MB", "hosts.b.rcvbuf=auto", "hosts.a.sndbuf=auto")["flows"][0]
    assert (flow["sndbuf"], flow["rcvbuf"]) == (None, None)


def test_congestion_controls_go_by_the_systems_names() -> None:
    assert scenario()["flows"][0]["cc"] == "newreno"
    assert scenario("hosts.a.stack=linux-3.9")["flows"][0]["cc"] == "reno"
    assert scenario("hosts.a.stack=linux-3.9", "flows.f1.cc=reno")["flows"][0]["cc"] == "reno"
    assert scenario("flows.f1.cc=cubic")["flows"][0]["cc"] == "cubic"


def test_a_family_is_its_newest_stack() -> None:
    hosts = scenario("hosts.a.stack=freebsd", "hosts.b.stack=linux")["hosts"]
    assert [host["stack"] for host in hosts] == [catalogue().newest["freebsd"], catalogue().newest["linux"]]


def test_sysctls_become_integers() -> None:
    made = scenario(
        "hosts.a.sysctl={net.inet.tcp.delayed_ack: false, net.inet.tcp.abc_l_var: 44}",
        "hosts.b.rcvbuf=auto",
        "hosts.b.sysctl={net.ipv4.tcp_rmem: 4096  131072 10485760, net.ipv4.tcp_wmem.max: 10485760}",
    )
    assert [host["sysctl"] for host in made["hosts"]] == [
        {"net.inet.tcp.delayed_ack": 0, "net.inet.tcp.abc_l_var": 44},
        {
            "net.ipv4.tcp_rmem.min": 4096,
            "net.ipv4.tcp_rmem.default": 131072,
            "net.ipv4.tcp_rmem.max": 10485760,
            "net.ipv4.tcp_wmem.max": 10485760,
        },
    ]


def test_the_whole_run_is_measured_unless_said() -> None:
    assert scenario()["measure"] == {"from_ns": 0, "to_ns": 90 * 10**9}
    assert scenario("measure={from: 10s, to: 1min}")["measure"] == {"from_ns": 10**10, "to_ns": 6 * 10**10}


def test_recording() -> None:
    every_10_ms = {"kind": "interval", "interval_ns": 10**7}
    assert scenario()["record"] == {"tcp": every_10_ms, "queue": every_10_ms, "pcap": []}
    made = scenario("record={tcp: per-ack, queue: per-change, pcap: [a, {at: bottleneck, snaplen: 60}]}")
    assert made["record"]["tcp"] == made["record"]["queue"] == {"kind": "per-ack"}
    assert made["record"]["pcap"] == [{"at": "a", "snaplen": 128}, {"at": "bottleneck", "snaplen": 60}]
    assert [point["at"] for point in scenario("record.pcap=true")["record"]["pcap"]] == ["a", "b"]
    assert scenario("record.tcp=off")["record"]["tcp"] == {"kind": "off"}


def test_segments_follow_the_links_mtu() -> None:
    assert [
        host["mss"] for host in scenario("network.dumbbell.access.mtu=9000", "hosts.b.mss=1460")["hosts"]
    ] == [
        8960,
        1460,
    ]
    # TCP finds out what the bottleneck takes.
    jumbo = scenario("network.dumbbell.access.mtu=9000")
    assert [host["mss"] for host in jumbo["hosts"]] == [8960, 8960]
    assert {link["mtu"] for link in jumbo["links"] if link["bottleneck"]} == {1500}


def test_a_general_network_needs_a_way() -> None:
    network = "network={nodes: [r], links: [{from: a, to: r}]}"
    assert refusal(network) == "flows.f1: no links lead from 'a' to 'b'"


def test_linux_maxima_are_raised_to_the_buffers_asked_for() -> None:
    linux = ("hosts.a.stack=linux-3.9", "hosts.b.stack=linux-3.9")
    assert [host["sysctl"] for host in scenario(*linux)["hosts"]] == [
        {"net.core.wmem_max": 600_000},
        {"net.core.rmem_max": 600_000},
    ]
    assert scenario(*linux, "hosts.a.sndbuf=64KB")["hosts"][0]["sysctl"] == {}
    set_lower = scenario(*linux, "hosts.a.sysctl.net.core.wmem_max=300000")
    assert set_lower["hosts"][0]["sysctl"] == {"net.core.wmem_max": 300_000}
