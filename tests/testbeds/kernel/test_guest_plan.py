"""What the agent in a guest is told, decided without a kernel."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cwndlab import load
from cwndlab.errors import RunError
from cwndlab.testbeds.kernel import guest, plan, qdiscs, testbed
from cwndlab.testbeds.kernel.inventory import Inventory
from cwndlab.testbeds.live.linux.kernel import Kernel

TEXT = """\
experiment: x
duration: 2s
hosts: {a: {stack: linux}, b: {stack: linux}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit, delay: 20ms}}}
flows: [{name: f, from: a, to: b}]
"""
SHARED = {"net.core.rmem_max": "212992", "net.ipv4.tcp_mem": "1 2 3", "net.core.netdev_max_backlog": "1000"}
OWN = {"net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.tcp_wmem": "4096 16384 4194304"}
HAS = Inventory(
    Kernel("6.12.9", ("reno", "cubic"), ("reno", "cubic"), {**SHARED, **OWN}), SHARED, frozenset()
)


def told(*changes: str, sysctl: dict[str, dict[str, int]] | None = None) -> dict[str, Any]:
    scenario: Any = dict(load(TEXT, changes).plan().runs[0].scenario)
    scenario["live"] = {"loggers": [], "flows": {"f": {"tool": "own", "report_ns": 10**9}}}
    for host in scenario["hosts"]:
        host["sysctl"] = (sysctl or {}).get(host["name"], {})
    return plan.make(0, scenario, {"f": 0}, HAS)


def test_links_of_routers_are_at_the_routers() -> None:
    found = told()
    assert found["nodes"] == 4, "two hosts and two routers"
    (forward, back) = found["links"]
    assert {forward["name"], back["name"]} == {"bottleneck", "bottleneck.reverse"}
    assert {forward["node"], back["node"]} == {2, 3}


def test_a_link_of_a_host_has_its_queue_at_a_node_of_its_own() -> None:
    found = told("network.dumbbell.access={rate: 100mbit}")
    assert found["nodes"] == 4 + 2
    access = [link for link in found["links"] if not link["name"].startswith("bottleneck")]
    assert len(access) == 4
    assert all(link["node"] >= 2 for link in access), (
        "packets reach it one by one, however the host hands them down"
    )


def test_hosts_hand_down_more_than_a_packet_and_nobody_cuts_behind_the_queue() -> None:
    tso = [f"hosts.{host}.nic={{tso: true}}" for host in "ab"]
    cuts = [step["cut"] for step in told(*tso)["steps"] if "cut" in step]
    assert {(cut["node"] in (0, 1), cut["gso"]) for cut in cuts} == {(True, True), (False, False)}


def test_a_delay_that_varies_is_at_a_node_behind_the_queue() -> None:
    jitter = "network.dumbbell.bottleneck.jitter={sd: 1ms, kind: uniform, reorder: true}"
    fast, late = "{at: 1s, set: {delay: 5ms}}", "{at: 500ms, set: {down: true}}"
    schedule = f"network.dumbbell.bottleneck.schedule=[{fast}, {late}]"
    found = told(jitter, schedule, "record={pcap: [{at: bottleneck, snaplen: 100}]}")
    assert found["nodes"] == 4 + 2
    (queue,) = (link for link in found["links"] if link["name"] == "bottleneck")
    (seen,) = (tap for tap in found["taps"]["queues"] if tap["node"] == queue["node"])
    assert seen["delays"] == [(0, 0)], "the queue's delay is all that is between its ends"
    (captured,) = found["taps"]["captures"]
    assert captured["node"] == queue["node"]
    outage, slower = ({message["node"] for message in change["messages"]} for change in found["changes"])
    assert outage == {queue["node"]}
    assert slower.isdisjoint(outage)


def test_each_change_of_a_queue_is_recorded_of_the_flows_that_pass_it() -> None:
    found = told("record={tcp: per-ack, queue: per-change}", "network.dumbbell.access={rate: 100mbit}")
    assert found["per_ack"]
    assert [sampler["per_ack"] for _, sampler in found["samplers"]] == [True, False]
    bottleneck = next(link for link in found["links"] if link["name"] == "bottleneck")
    taps = {(tap["node"], tap["interface"]): tap for tap in found["taps"]["queues"]}
    assert taps[bottleneck["node"], bottleneck["interface"]]["flows"] == [(0, True)]
    # The bottleneck both ways, and both ways of both hosts' links.
    assert sorted(tap["flows"] for tap in taps.values()) == [[(0, False)]] * 3 + [[(0, True)]] * 3
    observed = {(link["node"], link["interface"]) for link in found["links"] if link["observe"]}
    assert {place for place, tap in taps.items() if tap["changes"]} == observed
    at_intervals = told("record={tcp: 10ms, queue: 10ms}")
    assert not at_intervals["per_ack"]
    assert not any(tap["changes"] for tap in at_intervals["taps"]["queues"])


def disciplines(found: dict[str, Any]) -> dict[int, list[str]]:
    """The kinds of queue disciplines at each node, in the order in which they are told."""
    kinds: dict[int, list[str]] = {}
    for step in found["steps"]:
        message = bytes.fromhex(step["netlink"]["message"]) if "netlink" in step else b""
        # struct nlmsghdr's type is RTM_NEWQDISC; behind struct tcmsg TCA_KIND comes first.
        if message[4:6] == (36).to_bytes(2, "little"):
            kind = message[40:].split(b"\0")[0].decode()
            kinds.setdefault(step["netlink"]["node"], []).append(kind)
    return kinds


def test_fq_of_a_host_is_at_the_host_itself_below_the_rate_of_its_link() -> None:
    plain, paced = told(), told("hosts.a.nic={qdisc: fq}")
    assert (disciplines(plain).get(0), disciplines(paced).get(0)) == (None, ["fq"])
    assert plain["nodes"] == paced["nodes"]
    # What is behind has the rate too, and no queue of its own in which packets would be dropped.
    fast = told("hosts.a.nic={qdisc: fq}", "network.dumbbell.access={rate: 100mbit}")
    assert disciplines(fast)[0] == ["htb", "fq"]
    own = next(link for link in fast["links"] if link["name"] == "access.a")
    assert (own["node"], own["queue"], own["netem"]) == (0, 0x20000, None)
    lossy = told("hosts.a.nic={qdisc: fq}", "network.dumbbell.access={rate: 100mbit, loss: {random: 1%}}")
    own = next(link for link in lossy["links"] if link["name"] == "access.a")
    assert own["node"] != 0 and own["netem"] is not None, "losses are counted where they are made"


def refusals(*changes: str) -> list[str]:
    scenario: Any = load(TEXT, changes).plan().runs[0].scenario
    return [line for line in testbed._refusals(scenario, HAS, 1000) if " has no queue " not in line]


def test_fq_of_a_host_may_mark_where_one_of_a_router_counts_from_another_time() -> None:
    marking = "{kind: fq, ce_threshold: 1ms}"
    assert refusals(f"hosts.a.nic={{qdisc: {marking}}}") == []
    router = refusals(f"network.dumbbell.bottleneck.queue={marking}")
    assert router and all("counts from when a sender's TCP sent" in line for line in router)
    slower = "[{at: 1s, set: {rate: 5mbit}}]"
    access = f"network.dumbbell.access={{rate: 100mbit, schedule: {slower}}}"
    assert any("a host's link with fq" in line for line in refusals("hosts.a.nic={qdisc: fq}", access))


def writes(found: dict[str, Any], name: str) -> dict[int | None, str]:
    path = "/proc/sys/" + name.replace(".", "/")
    return {
        step["write"]["node"]: step["write"]["text"]
        for step in found["steps"]
        if "write" in step and step["write"]["path"] == path
    }


def test_buffers_are_those_of_a_machine_with_memory_or_what_the_file_says() -> None:
    found = told(sysctl={"a": {"net.ipv4.tcp_rmem.max": 100_000}})
    assert writes(found, "net.ipv4.tcp_rmem") == {0: "4096 131072 100000", 1: "4096 131072 6291456"}
    assert writes(found, "net.ipv4.tcp_mem") == {None: "1 2 3"}


def test_what_hosts_share_is_the_largest_bound_or_has_to_agree() -> None:
    bounds = {"a": {"net.core.rmem_max": 5000}, "b": {"net.core.rmem_max": 4000}}
    assert writes(told(sysctl=bounds), "net.core.rmem_max") == {None: "5000"}
    differ = {"a": {"net.core.netdev_max_backlog": 5}, "b": {"net.core.netdev_max_backlog": 6}}
    with pytest.raises(ValueError, match="all hosts of a kernel share it; it cannot be 5 and 6"):
        told(sysctl=differ)


def test_hosts_of_ipv6_need_a_kernel_that_has_it() -> None:
    scenario: Any = load(TEXT, ["network.family=ipv6"]).plan().runs[0].scenario
    told = list(testbed._refusals(scenario, HAS, 1000))
    assert told[0].startswith(
        "host a: family ipv6, and this kernel was built without IPv6 (cwndlab kernel build"
    )


def test_ipv6_is_told_to_nodes_whose_packets_are_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    off = "net.ipv6.conf.all.disable_ipv6"
    assert writes(told(), off) == {}, "a kernel without IPv6 has no such file"
    known = replace(HAS.kernel, sysctls={**HAS.kernel.sysctls, off: "0"})
    monkeypatch.setattr(sys.modules[__name__], "HAS", replace(HAS, kernel=known))
    assert writes(told(), off) == dict.fromkeys(range(4), "1")
    found = told("network.family=ipv6")
    assert writes(found, off) == dict.fromkeys(range(4), "0")
    assert writes(found, "net.ipv6.conf.all.forwarding") == {2: "1", 3: "1"}, "routers"
    assert writes(found, "net.ipv4.ip_forward") == {}
    assert [flow["key"]["src"] for flow in found["taps"]["flows"]] == ["fd00::1"]


def scheduled(*changes: str) -> dict[str, Any]:
    return told(f"network.dumbbell.bottleneck.schedule=[{', '.join(changes)}]")


def test_changes_are_sent_at_their_times_and_an_outage_ends_with_the_loss_there_was() -> None:
    found = scheduled(
        "{at: 1s, set: {rate: 5mbit}}", "{at: 500ms, set: {down: true}}", "{at: 700ms, set: {down: false}}"
    )
    assert [change["at_ns"] for change in found["changes"]] == [500_000_000, 700_000_000, 1_000_000_000]
    outage, over, slower = (bytes.fromhex(change["messages"][0]["message"]) for change in found["changes"])
    assert b"netem\0" in outage and b"netem\0" in over and b"htb\0" in slower
    everything = b"\xff\xff\xff\xff"
    place = outage.index(b"netem\0") + 8 + 4 + 8  # behind the name, the head of the options, delay and limit
    assert outage[place : place + 4] == everything
    assert over[place : place + 4] == bytes(4)


def test_what_cannot_change_is_refused() -> None:
    scenario: Any = load(TEXT).plan().runs[0].scenario
    link = next(link for link in scenario["links"] if link["name"] == "bottleneck")
    none = dict.fromkeys(("rate_bps", "delay_ns", "loss", "queue", "down"))
    other: Any = {**none, "queue": {"kind": "fq_codel"}}
    assert "only its parameters can change" in (qdiscs.change_refusal(link, other) or "")
    faster: Any = {**none, "rate_bps": 10**6}
    assert "begins without one" in (qdiscs.change_refusal({**link, "rate_bps": None}, faster) or "")
    assert qdiscs.change_refusal(link, faster) is None


def test_rings_are_as_large_as_the_bottleneck_is_fast() -> None:
    slow, fast = (
        told(f"network.dumbbell.bottleneck.rate={rate}")["taps"]["places"] for rate in ("10mbit", "1gbit")
    )
    assert slow == plan.LEAST_PLACES
    assert plan.LEAST_PLACES < fast < plan.MOST_PLACES
    shaped = "network.dumbbell.bottleneck={shaper: {kind: htb, rate: 1gbit}, delay: 20ms}"
    assert told(shaped)["taps"]["places"] == fast


def test_a_run_whose_rings_overflow_is_carried_out_again_with_larger_ones() -> None:
    def boot() -> dict[str, bytes]:
        tried.append(taps["places"])
        told = {"unseen": max(0, needed - taps["places"]), "counters": {}}
        return {"report.json": json.dumps(told).encode()}

    taps, tried, needed = {"places": plan.LEAST_PLACES}, list[int](), 9 * plan.LEAST_PLACES
    _, report = testbed._with_room(taps, boot)
    assert report["unseen"] == 0
    assert tried == [plan.LEAST_PLACES * 8**time for time in range(3)]
    needed = plan.MOST_PLACES + 5
    with pytest.raises(RunError, match="5 packets passed unseen"):
        testbed._with_room(taps, boot)
    assert tried[-1] == plan.MOST_PLACES
    with pytest.raises(RunError, match="the agent in the guest is of another version of cwndlab"):
        testbed._with_room(taps, lambda: {"report.json": b'{"unseen": 0}'})


@pytest.mark.parametrize(
    ("options", "expected"), [("mem=SIZE", ()), ("seccomp=<on/auto/off>", ("seccomp=auto",))]
)
def test_a_kernel_that_can_does_without_ptrace(
    tmp_path: Path, options: str, expected: tuple[str, ...]
) -> None:
    program = tmp_path / "linux"
    program.write_text(f"#!/bin/sh\n[ $1 = --help ] && printf '%s\\n' 'User Mode Linux' '{options}'\n")
    program.chmod(0o755)
    assert guest.cheaper(program) == expected


def test_a_run_loads_nothing_for_machines_and_namespaces_of_others() -> None:
    loaded = "import cwndlab.testbeds.kernel.testbed, sys; print({'asyncssh', 'pyroute2'} & {*sys.modules})"
    told = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


def test_waiting_for_a_guest_looks_no_more_often_than_it_says(tmp_path: Path) -> None:
    looked: list[float] = []
    started = time.monotonic()
    with subprocess.Popen(["sleep", "0.6"]) as process:
        guest._wait(process, tmp_path, lambda: looked.append(0), lambda now_ns: None)
        assert process.returncode == 0
    # A busy machine begins and ends the process late: what counts is the time that it really took.
    assert 1 <= len(looked) <= (time.monotonic() - started) / guest.LOOK_S


def test_a_guest_that_works_without_end_is_given_up_and_one_that_gets_no_processor_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "SILENCE_S", 0.5)
    monkeypatch.setattr(guest, "STUCK", 600)

    def given_up(script: str) -> bool:
        with subprocess.Popen(["sh", "-c", script], start_new_session=True) as process:
            try:
                guest._wait(process, tmp_path, lambda: None, lambda now_ns: None)
            except RunError as error:
                assert "works without end" in str(error)
                return True
            finally:
                guest._end(process)
        return False

    assert given_up("while :; do :; done")
    assert not given_up("sleep 2"), "a machine that is busy elsewhere"
