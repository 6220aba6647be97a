"""Questions about a Scenario: which flows are datagrams, how far hosts are apart, what is the engine's."""

from collections.abc import Mapping, Sequence
from typing import Any

from cwndlab.contract.queue import Queue
from cwndlab.contract.scenario import Flow, Host, Link, Scenario
from cwndlab.experiment.catalogue import DATAGRAMS
from cwndlab.experiment.scenario import graph
from cwndlab.experiment.scenario.graph import BIT_NS, Routes

CLIENT_PORT = 10_000
"""Port of flow 0 at its sender, in captures; flow n has this + n. Of a loadlatency scenario, whose
connections the client opens, at the client."""

IP_HEADERS = {"ipv4": 20, "ipv6": 40}
"""Bytes of an IP header without options or extension headers (RFC 791, RFC 8200)."""


def app_of(flow: Flow) -> Mapping[str, Any]:
    """A flow's application; nothing of one that another tool carried out."""
    app = flow.get("app")
    return app if isinstance(app, Mapping) else {}


def ip_of(host: Host) -> str:
    """The IP version of a host's packets, `ipv4` or `ipv6`."""
    return host.get("ip", "ipv4")


def sender_ip(scenario: Scenario, flow: Flow) -> str:
    """The IP version of a flow's packets."""
    return next((ip_of(host) for host in scenario["hosts"] if host["name"] == flow["from"]), "ipv4")


def ip_header(scenario: Scenario, flow: Flow) -> int:
    """The bytes of the IP header of a flow's packets."""
    return IP_HEADERS[sender_ip(scenario, flow)]


def is_datagrams(flow: Flow) -> bool:
    """Whether a flow of a Scenario is without a connection."""
    return app_of(flow).get("kind") in DATAGRAMS


def of_engine(scenario: Scenario) -> dict[str, Any]:
    """The Scenario without what only live testbeds know."""
    return {key: value for key, value in scenario.items() if key != "live"}


def base_rtt_ns(scenario: Scenario, one: str, other: str) -> int:
    """The base RTT between two hosts."""
    ways = Routes((link["name"], link["from"], link["to"]) for link in scenario["links"])
    delays: dict[str, int] = {link["name"]: link["delay_ns"] for link in scenario["links"]}
    taken = (delays[name] for way in (ways.way(one, other), ways.way(other, one)) for name in way or ())
    egresses = (host["egress"] for host in scenario["hosts"] if host["name"] in (one, other))
    return graph.base_rtt_ns(taken, (egress["delay_ns"] if egress else None for egress in egresses))


def least_rate(rate: int | None, shaper: Mapping[str, Any], queue: Queue | None) -> int | None:
    """The least of a link's own rate, that of its token bucket, policer or slots, and CAKE's bandwidth."""
    if not shaper and (queue is None or queue["kind"] != "cake"):
        return rate
    # RED's bandwidth is no rate that it keeps to.
    shaped = queue.get("bandwidth_bps") if queue is not None and queue["kind"] == "cake" else None
    limits = [rate, shaper.get("rate_bps"), slots_rate(shaper), shaped]
    return min((limit for limit in limits if limit is not None), default=None)


def slots_rate(shaper: Mapping[str, Any]) -> int | None:
    """Return what the bytes of slots come to in the long run, bit/s; None without such a limit."""
    if shaper.get("kind") != "slots" or shaper["bytes"] is None:
        return None
    return max(1, int(shaper["bytes"] * BIT_NS // shaper["interval_ns"]))


def rate_of(link: Link) -> int | None:
    """The least rate of a link as it is at the start; None where nothing limits it."""
    return least_rate(link["rate_bps"], link["shaper"] or {}, link["queue"])


def mean_rate(link: Link) -> int | None:
    """The rate of a link as it is at the start, of a trace its mean; None where nothing limits it."""
    shaper = link["shaper"]
    if shaper is not None and shaper["kind"] == "trace":
        return len(shaper["opportunities_ns"]) * shaper["bytes"] * BIT_NS // shaper["period_ns"]
    return rate_of(link)


def packet_ns(way: Sequence[Link]) -> int:
    """How long the largest packet that fits a way takes at its slowest link, ns; 0 where nothing limits it.

    Schedules aside: rates are those at the start.
    """
    packet = min(link["mtu"] for link in way)
    times = (-((packet + link["overhead"]) * BIT_NS // -rate) for link in way if (rate := mean_rate(link)))
    return max(times, default=0)


def full_ns(link: Link) -> float | None:
    """How long a packet waits in the queue when it is full of full-size packets, ns."""
    rate, queue = rate_of(link), dict(link["queue"])
    size: Any = queue.get("limit_bytes") or queue.get("memlimit_bytes")
    if queue.get("limit_packets") is not None:
        packets: Any = queue["limit_packets"]
        size = packets * (link["mtu"] + link["overhead"])
    return None if rate is None or size is None else size * 8e9 / rate
