"""What becomes of links: rates and traces, directions, defaults that follow from others, and changes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import malformed
from cwndlab import load
from cwndlab.errors import ExperimentError
from cwndlab.experiment import catalogue, yaml_nodes
from cwndlab.experiment.plan import PlannedRun
from cwndlab.experiment.scenario import capacity, queries
from cwndlab.testbeds import loader
from cwndlab.testbeds.netns import support as netns

BASE = malformed.GOOD[: malformed.GOOD.index("sweep:")]
DUMBBELL = "network.dumbbell"
BOTTLENECK = "network.dumbbell.bottleneck"


@pytest.fixture(autouse=True)
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace of a packet every 100 ms, beside the experiment."""
    (tmp_path / "slow.up").write_text("100\n")
    monkeypatch.chdir(tmp_path)


def plan(*overrides: str) -> PlannedRun:
    (run,) = load(BASE, [*overrides, "repeat=1"]).plan().runs
    return run


def link(name: str, *overrides: str) -> dict[str, Any]:
    links: list[dict[str, Any]] = plan(*overrides).scenario["links"]
    return next(link for link in links if link["name"] == name)


def check_refusal(expected: str, *overrides: str) -> None:
    with pytest.raises(ExperimentError) as refused:
        load(BASE, overrides).plan()
    assert str(refused.value).endswith(": " + expected)


TRACE = f"{BOTTLENECK}={{delay: 20ms, shaper: {{kind: trace, file: slow.up}}}}"


def test_an_opportunity_of_a_trace_carries_a_packet_of_1500_bytes() -> None:
    made = link("bottleneck", TRACE)
    assert made["shaper"]["bytes"] == 1504
    assert made["mtu"] + made["overhead"] == 1504
    assert link("bottleneck", TRACE, f"{BOTTLENECK}.overhead=14")["overhead"] == 14
    assert link("bottleneck")["overhead"] == 14


def test_a_trace_is_a_rate_and_no_link_has_two() -> None:
    check_refusal(
        "network.dumbbell.bottleneck.rate: found a rate of 1mbit on bottleneck, which has a trace;"
        " expected one or the other: a trace is the link's rate",
        TRACE,
        f"{BOTTLENECK}.rate=1mbit",
    )
    check_refusal(
        "network.dumbbell.bottleneck.schedule.1.set.rate: found '1mbit';"
        " expected no rate, as bottleneck has a trace, which is its rate",
        TRACE,
        f"{BOTTLENECK}.schedule=[{{at: 1s, set: {{rate: 1mbit}}}}]",
    )
    cable = f"{DUMBBELL}.access={{shaper: {{kind: trace, file: slow.up}}}}"
    check_refusal(
        "hosts.a.nic.rate: found 5mbit of a host whose cable has a trace; expected one or the other",
        cable,
        "hosts.a.nic.rate=5mbit",
    )


def test_a_direction_of_its_own_has_its_own_rate_or_trace() -> None:
    back = link("bottleneck.reverse", f"{DUMBBELL}.reverse={{shaper: {{kind: trace, file: slow.up}}}}")
    assert (back["rate_bps"], back["shaper"]["kind"]) == (None, "trace")
    back = link("bottleneck.reverse", TRACE, f"{DUMBBELL}.reverse={{rate: 1mbit}}")
    assert (back["rate_bps"], back["shaper"]) == (1_000_000, None)


def test_a_hosts_interface_has_its_rate_on_cables_of_a_general_network() -> None:
    links = "[{from: a, to: r, rate: 100mbit}, {from: r, to: b, rate: 1gbit, reverse: {rate: 50mbit}}]"
    made = plan(f"network={{nodes: [r], links: {links}}}", "hosts.a.nic.rate=5mbit").scenario["links"]
    assert [entry["rate_bps"] for entry in made] == [5_000_000, 5_000_000, 10**9, 50_000_000]
    assert [entry["bottleneck"] for entry in made] == [True, False, False, False]
    direct = ("network={links: [{from: a, to: b, rate: 1gbit}]}", "hosts.a.nic.rate=5mbit")
    made = plan(*direct, "hosts.b.nic.rate=2mbit").scenario["links"]
    assert [entry["rate_bps"] for entry in made] == [2_000_000, 2_000_000]


def test_delay_at_a_hosts_egress_is_part_of_the_round_trip() -> None:
    here = (f"{BOTTLENECK}.delay=0ms", f"{BOTTLENECK}.queue.limit=2bdp")
    egress = "hosts.b.egress={delay: 40ms}"
    # 2 x 10 Mb/s x 40 ms = 100,000 B, 66.05 packets of 1514 B, as with 20 ms on the links there and back
    assert link("bottleneck", *here, egress)["queue"]["limit_packets"] == 66
    elsewhere = plan(f"{BOTTLENECK}.queue.limit=2bdp").scenario
    assert plan(*here, egress).scenario["start_jitter_ns"] == elsewhere["start_jitter_ns"]
    check_refusal(
        "network.dumbbell.bottleneck.queue.limit: found '2bdp';"
        " expected packets or bytes, as no flow over this link has any delay",
        *here,
    )


def test_limits_in_bdp_see_the_changes_until_then() -> None:
    one_set = "[{at: 30s, set: {rate: 20mbit, queue: {kind: pfifo, limit: 1bdp}}}]"
    run = plan(f"{BOTTLENECK}.schedule={one_set}")
    # 20 Mb/s x 40 ms = 100,000 B
    assert run.scenario["schedule"][0]["queue"] == {"kind": "pfifo", "limit_packets": 66}
    assert run.notes == (
        "bottleneck: from 30s on, queue limit 1bdp is 66 packets (20mbit x 40ms base RTT, packets of 1514 B)",
    )
    later = "[{at: 30s, set: {queue: {kind: pfifo, limit: 1bdp}}}, {at: 20s, set: {rate: 5mbit}}]"
    reverse = f"{DUMBBELL}.reverse.schedule=[{{at: 30s, set: {{delay: 60ms}}}}]"
    run = plan(f"{BOTTLENECK}.schedule={later}", reverse)
    # 5 Mb/s x (20 + 60 ms) = 50,000 B: the other direction's delay changes at the same time
    assert [change["at_ns"] for change in run.scenario["schedule"]] == [20 * 10**9, 30 * 10**9, 30 * 10**9]
    assert run.scenario["schedule"][1]["queue"] == {"kind": "pfifo", "limit_packets": 33}
    assert link("bottleneck")["rate_bps"] == 10_000_000


def test_a_rate_above_that_of_a_shaper_is_noted() -> None:
    shaper = f"{BOTTLENECK}.shaper={{kind: tbf, rate: 2mbit, burst: 15KB}}"
    run = plan(shaper, f"{BOTTLENECK}.schedule=[{{at: 10s, set: {{rate: 8mbit}}}}]")
    assert run.notes == ("bottleneck: from 10s on, its rate is 8mbit and that of its tbf still 2mbit",)
    assert plan(shaper, f"{BOTTLENECK}.schedule=[{{at: 10s, set: {{rate: 1mbit}}}}]").notes == ()


def test_a_class_of_htb_has_the_bursts_that_tc_gives_it() -> None:
    made = link("bottleneck", f"{BOTTLENECK}={{delay: 20ms, shaper: {{kind: htb, rate: 2mbit}}}}")
    bursts = {"burst_bytes": 1600, "cburst_bytes": 1600}
    assert made["shaper"] == {"kind": "htb", "rate_bps": 2_000_000, "ceil_bps": 2_000_000, **bursts}
    said = "{kind: htb, rate: 2mbit, ceil: 3mbit, burst: 1514B, cburst: 3KB}"
    made = link("bottleneck", f"{BOTTLENECK}={{delay: 20ms, shaper: {said}}}")
    bursts = {"burst_bytes": 1514, "cburst_bytes": 3000}
    assert made["shaper"] == {"kind": "htb", "rate_bps": 2_000_000, "ceil_bps": 3_000_000, **bursts}


def test_a_token_bucket_may_have_a_peak_and_a_limit_in_place_of_a_queue() -> None:
    said = "{kind: tbf, rate: 2mbit, burst: 10KB, peakrate: 4mbit, limit: 30KB}"
    made = link("bottleneck", f"{BOTTLENECK}={{delay: 20ms, shaper: {said}}}")
    assert made["shaper"]["peak"] == {"rate_bps": 4_000_000, "burst_bytes": 1514}
    assert made["queue"] == {"kind": "bfifo", "limit_bytes": 30_000}


def test_cables_to_hosts_have_two_directions() -> None:
    access = "{rate: 1mbit, delay: 3ms, loss: {random: 1%}, reverse: {rate: 20mbit, jitter: {sd: 1ms}}}"
    special = "{a: {rate: 1gbit, duplicate: 1%}, b: {reverse: {rate: 8mbit}}}"
    of = (f"{DUMBBELL}.access={access}", f"{DUMBBELL}.access_of={special}")
    cables = {name: link(f"access.{name}", *of) for name in ("a", "a.reverse", "b", "b.reverse")}
    rates = {name: cable["rate_bps"] for name, cable in cables.items()}
    # What is said of one host comes before what is said of all.
    assert rates == {"a": 10**9, "a.reverse": 10**9, "b": 10**6, "b.reverse": 8 * 10**6}
    assert {cable["delay_ns"] for cable in cables.values()} == {3_000_000}
    assert [bool(cable["loss"]) for cable in cables.values()] == [True, False, True, False]
    assert [bool(cable["jitter"]) for cable in cables.values()] == [False, True, False, True]
    assert [bool(cable["duplicate_ppb"]) for cable in cables.values()] == [True, False, False, False]


def test_hosts_at_a_switch_with_one_memory_may_change_their_own_side() -> None:
    star = "network={star: {switch: {buffer: 125KB}, link: {rate: 1gbit, reverse: {rate: 100mbit}}}}"
    change = "{a: {jitter: {sd: 1ms}, schedule: [{at: 5s, set: {rate: 10mbit}}]}}"
    scenario = plan(star, f"network.star.link_of={change}").scenario
    assert [change["link"] for change in scenario["schedule"]] == ["link.a"]
    assert [entry["rate_bps"] for entry in scenario["links"]] == [10**9, 10**8, 10**9, 10**8]
    check_refusal(
        "network.star.link_of.a.reverse.jitter:"
        " not possible on link.a.reverse, which leaves a switch with a shared buffer",
        star,
        "network.star.link_of={a: {reverse: {jitter: {sd: 1ms}}}}",
    )


def test_defaults_that_follow_from_the_device_are_filled_in() -> None:
    def queue(text: str, *overrides: str) -> dict[str, Any]:
        made: dict[str, Any] = link("bottleneck", f"{BOTTLENECK}.queue={text}", *overrides)["queue"]
        return made

    jumbo = (f"{BOTTLENECK}.mtu=9000", f"{BOTTLENECK}.overhead=38")
    # fifo_init: 1000 packets of the MTU and an Ethernet header, whatever the link counts
    assert queue("bfifo")["limit_bytes"] == 1_514_000
    assert queue("bfifo", *jumbo)["limit_bytes"] == 9_014_000
    for kind in ("fq_codel", "fq_pie"):
        assert queue(kind)["quantum_bytes"] == 1514
        assert queue(kind, *jumbo)["quantum_bytes"] == 9038
        assert queue(f"{{kind: {kind}, quantum: 300}}")["quantum_bytes"] == 300
    # cake_reconfigure: 4 x rtt at the bandwidth, from 4 MiB up to 10240 packets
    assert queue("cake")["memlimit_bytes"] == 10_240 * 1514
    assert queue("{kind: cake, bandwidth: 8mbit}")["memlimit_bytes"] == 4 << 20
    assert queue("{kind: cake, bandwidth: 160mbit}")["memlimit_bytes"] == 8_000_000
    assert queue("{kind: cake, bandwidth: 1gbit}")["memlimit_bytes"] == 10_240 * 1514
    # fq_init
    assert [queue("fq")[key] for key in ("quantum_bytes", "initial_quantum_bytes")] == [3028, 15_140]
    # tc/q_choke.c
    keys = ("min_packets", "max_packets", "burst_packets")
    assert [queue("{kind: choke, limit: 120p}")[key] for key in keys] == [10, 30, 16]
    # get_memory_limit: twice the limit in packets of the MTU
    assert queue("{kind: dualpi2, limit: 100p}")["memlimit_bytes"] == 200 * 1514
    assert queue("{kind: dualpi2, limit: 100p, memlimit: 1MB}")["memlimit_bytes"] == 1_000_000
    # RFC 9332, appendix A.1: 0.1 Tupdate / RTT_max^2 and 0.3 / RTT_max; tc-dualpi2(8): RTT_max is 6 RTT_typ
    gains = ("target_ns", "tupdate_ns", "alpha_ppb", "beta_ppb")
    designed = [queue("{kind: dualpi2, max_rtt: 60ms}"), queue("{kind: dualpi2, typical_rtt: 10ms}")]
    assert [[made[gain] for gain in gains] for made in designed] == [
        [10_000_000, 10_000_000, 277_777_777, 5_000_000_000]
    ] * 2
    both = queue("{kind: dualpi2, max_rtt: 100ms, typical_rtt: 50ms, target: 20ms, beta: 2}")
    assert [both[gain] for gain in gains] == [20_000_000, 33_333_333, 333_333_330, 2_000_000_000]


@pytest.mark.parametrize(
    ("stack", "key", "expected"),
    [
        ("freebsd-13", "gro", "lro, which it has instead"),
        ("linux-6.8", "lro", "gro, which it has instead"),
        ("windows-7", "gro", "false, as it merges nothing"),
        ("windows-7", "lro", "false, as it merges nothing"),
    ],
)
def test_each_system_merges_in_its_own_way(stack: str, key: str, expected: str) -> None:
    host = f"hosts.b={{stack: {stack}, nic: {{{key}: true}}}}"
    check_refusal(f"hosts.b.nic.{key}: found {key} on {stack}; expected {expected}", host)
    assert plan(host, f"hosts.b.nic.{key}=false")


def test_a_veth_is_linuxs() -> None:
    host = "hosts.b={stack: linux-6.12, nic: {veth: true}}"
    (made,) = (each for each in plan(host).scenario["hosts"] if each["name"] == "b")
    assert made["nic"].get("veth") is True
    check_refusal(
        "hosts.b.nic.veth: found true on freebsd-13; expected false, "
        "as it does not count what packets take of memory",
        "hosts.b={stack: freebsd-13, nic: {veth: true}}",
    )


SLOTS = f"{BOTTLENECK}={{delay: 20ms, shaper: {{kind: slots, interval: 4ms, bytes: 10KB}}}}"


def test_slots_have_their_limits_and_a_rate_in_the_long_run() -> None:
    made = link("bottleneck", SLOTS)
    assert made["shaper"] == {"kind": "slots", "interval_ns": 4_000_000, "packets": None, "bytes": 10_000}
    assert (made["rate_bps"], queries.rate_of(made)) == (None, 20_000_000)
    assert capacity.capacity_bits(plan(SLOTS, "measure.from=0s", "measure.to=2s").scenario, made) == 40e6
    packets = link(
        "bottleneck", f"{BOTTLENECK}={{delay: 20ms, shaper: {{kind: slots, interval: 4ms, packets: 32}}}}"
    )
    assert (packets["shaper"]["packets"], queries.rate_of(packets)) == (32, None)
    # Of a limit in bandwidth-delay products too: 20 Mbit/s and 40 ms are 66 packets of 1514 bytes.
    many = link("bottleneck", SLOTS.replace("delay: 20ms", "delay: 20ms, queue: {kind: pfifo, limit: 1bdp}"))
    assert many["queue"]["limit_packets"] == 66


def test_slots_that_let_nothing_pass_are_refused() -> None:
    shaper = f"{BOTTLENECK}.shaper={{kind: slots, %s}}"
    check_refusal("missing; this key is required", shaper % "packets: 3")
    check_refusal("found 0; expected a time above 0", shaper % "interval: 0s")
    check_refusal("found 0; expected a size above 0", shaper % "interval: 1ms, bytes: 0B")
    check_refusal(
        "found rate of a slots; expected one of bytes, interval, packets",
        shaper % "interval: 1ms, rate: 1mbit",
    )


def test_media_are_refused_where_only_machines_carry_packets() -> None:
    assert "media" in catalogue.catalogue().apps
    assert set(catalogue.catalogue().apps) - set(catalogue.of_machines().apps) == {"media"}
    known = catalogue.of_machines()
    support = replace(netns.SUPPORT, catalogue=lambda: known, live=None, subset=None)
    text = BASE.replace("app: bulk", "app: {kind: media, controller: gcc}")
    with pytest.raises(ExperimentError) as refused:
        loader.read(yaml_nodes.parse(text, "x.yaml"), text, (), support)
    assert "app media is not supported by testbed netns yet" in str(refused.value)


def test_a_flag_as_it_is_by_default_may_be_written_for_every_testbed() -> None:
    """Results have defaults written out, and carry them to where they are carried out again."""
    known = catalogue.of_machines()
    support = replace(netns.SUPPORT, catalogue=lambda: known, live=None, subset=None)
    text = BASE.replace("      delay: 20ms\n", "      delay: 20ms\n      icmp: true\n")
    assert text != BASE
    loader.read(yaml_nodes.parse(text, "x.yaml"), text, (), support)
    text = text.replace("icmp: true", "icmp: false")
    with pytest.raises(ExperimentError) as refused:
        loader.read(yaml_nodes.parse(text, "x.yaml"), text, (), support)
    assert "bottleneck.icmp: not supported by testbed netns yet" in str(refused.value)


def test_a_change_waits_for_an_event_of_a_flow_that_there_is() -> None:
    def asked(flow: str, event: str) -> str:
        return (
            f"{BOTTLENECK}.schedule=[{{at: 1s, on: {{flow: {flow}, event: {event}}}, set: {{rate: 1mbit}}}}]"
        )

    flow = plan().scenario["flows"][0]["name"]
    [change] = plan(asked(flow, "recovery-in")).scenario["schedule"]
    assert change["on"] == {"flow": flow, "event": "recovery-in"}
    at = "network.dumbbell.bottleneck.schedule.1.on"
    check_refusal(f"{at}.flow: found 'nobody'; expected {flow}", asked("nobody", "recovery-in"))
    with pytest.raises(
        ExperimentError, match=r"event: found 'bbr-upp'; expected one of recovery-in, .*bbr-up"
    ):
        plan(asked(flow, "bbr-upp"))
