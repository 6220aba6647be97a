"""The least time of a transfer on an idle path, with which measured times are compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cwndlab.contract.scenario import Flow, Link, Scenario
from cwndlab.experiment.scenario.capacity import route
from cwndlab.experiment.scenario.queries import app_of, ip_header, least_rate

TCP_HEADER = 20
"""Bytes of a TCP header without options (RFC 9293)."""


@dataclass(frozen=True)
class Exchange:
    """One sample of an application: a transfer or a response."""

    kind: str
    """Kind of the application's samples: `completion` or `response`."""
    size: int | None
    """Payload, bytes. None where each has its own, which its event tells."""
    asked: int | None
    """Bytes of the request. None where the sender opens a connection and sends."""


def exchange(flow: Flow) -> Exchange | None:
    """Return the exchange of a flow. None for a flow whose times have no size, such as a call."""
    app: Any = app_of(flow)
    match app.get("kind"):
        case "request-response":
            return Exchange("response", app["response_bytes"], app["request_bytes"])
        case "incast":
            return Exchange("response", app["size_bytes"], app["request_bytes"])
        case "fixed":
            return Exchange("completion", app["size_bytes"], None)
        case "bulk" if app["bytes"] is not None:
            return Exchange("completion", app["bytes"], None)
        case "background":
            return Exchange("completion", None, None)
    return None


class IdlePath:
    """The path of a flow with nothing else on it."""

    def __init__(self, scenario: Scenario, flow: Flow) -> None:
        """Find the links there and back, and the size of segments."""
        there = route(scenario, flow["from"], flow["to"])
        back = route(scenario, flow["to"], flow["from"])
        mtu = min((int(link["mtu"]) for link in (*there, *back)), default=1500)
        hosts = [host for host in scenario["hosts"] if host["name"] in (flow["from"], flow["to"])]
        self._headers = TCP_HEADER + ip_header(scenario, flow)
        mss = [host["mss"] for host in hosts]
        self._segment = min([mtu - self._headers, *(size for size in mss if size)])
        self._there, self._back = list(_ways(there)), list(_ways(back))

    def least_ns(self, size: int, asked: int | None) -> float:
        """The time that `size` bytes need, in ns: a bound that no protocol with these headers beats.

        A response takes the way of its request (`asked` bytes) and its own. A transfer over a new connection
        takes a round trip for the handshake and its own way; that is counted from opening to the last byte
        read. A way takes the delays of its links, all packets at the slowest of them and one packet at each
        other. Slow start, delayed acknowledgements and TCP's options are no part of it.
        """
        first = self._way_ns(self._back, asked or 0)
        handshake = self._way_ns(self._there, 0) if asked is None else 0.0
        return handshake + first + self._way_ns(self._there, size)

    def _way_ns(self, links: list[tuple[float, float, int]], size: int) -> float:
        full, rest = divmod(size, self._segment)
        sizes = [(self._segment, full), (rest, 1 if rest or not full else 0)]
        slowest, lasts, delays = 0.0, 0.0, 0.0
        for delay_ns, ns_per_byte, overhead in links:
            wire = sum((payload + self._headers + overhead) * count for payload, count in sizes)
            one = (min(size, self._segment) + self._headers + overhead) * ns_per_byte
            slowest = max(slowest, wire * ns_per_byte - one)
            lasts += one
            delays += delay_ns
        return delays + slowest + lasts


def _ways(links: list[Link]) -> Iterator[tuple[float, float, int]]:
    """Delay in ns, ns a byte and overhead of each link."""
    for link in links:
        rate = least_rate(link["rate_bps"], link.get("shaper") or {}, link.get("queue"))
        yield float(link["delay_ns"]), 8e9 / rate if rate else 0.0, int(link["overhead"])
