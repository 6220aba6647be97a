"""State of a path at some time of a run: flows, hosts, and each link as all changes until then leave it."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from collections.abc import Sequence
from dataclasses import dataclass

from cwndlab.experiment import units
from cwndlab.experiment.locate import Misplaced, Path
from cwndlab.experiment.scenario import companion_files, graph
from cwndlab.experiment.scenario.graph import BIT_NS
from cwndlab.experiment.scenario.resolver import PlannedFlow
from cwndlab.experiment.schema import Host, Link, Nic
from cwndlab.experiment.units import BadValue

ETHERNET_HEADER = 14
"""Bytes that tc counts beside an IP packet (hard_header_len of an Ethernet device)."""
ACK_BYTES = 52
"""Bytes of an acknowledgement's IP packet: the headers and a timestamp option (RFC 7323)."""
TX_QUEUE = 1000
"""Packets of a transmit queue unless the experiment sets it (Linux's txqueuelen)."""


@dataclass(frozen=True, slots=True)
class Moment:
    """State of a path at some time of the run, in ns: flows, hosts, and each link by the name of its wire."""

    at: int
    flows: Sequence[PlannedFlow]
    """One for each pair of ends."""
    hosts: MappingType[str, Host]
    links: dict[str, Link]

    def base_rtt_ns(self, flow: PlannedFlow) -> int:
        """The base RTT of a flow now."""
        egresses = (self.hosts[end].egress for end in (flow.from_, flow.to))
        return graph.base_rtt_ns(
            (self.links[name].delay for name in (*flow.forward, *flow.back)),
            (egress.delay if egress else None for egress in egresses),
        )

    def empty_rtt_ns(self, flow: PlannedFlow) -> int:
        """Base RTT and the transmission of a full-size packet there and an acknowledgement back."""
        packet = sum(transmission_ns(link, link.mtu) for link in map(self.links.__getitem__, flow.forward))
        ack = sum(transmission_ns(self.links[name], ACK_BYTES) for name in flow.back)
        return self.base_rtt_ns(flow) + packet + ack

    def longest_rtt_ns(self, wire: str) -> int | None:
        """The longest base RTT of the flows that send data through a wire; where none does, of those whose
        acknowledgements take it. None where no flow takes it.
        """
        data = [flow for flow in self.flows if wire in flow.forward]
        return max(map(self.base_rtt_ns, data or (f for f in self.flows if wire in f.back)), default=None)


def limiting_rate(link: Link) -> int | None:
    """Return what limits a link in the long run: the least of its rate, its shaper's and CAKE's bandwidth."""
    shaper = link.shaper.rate if link.shaper else None
    if link.shaper and link.shaper.bytes and link.shaper.interval:
        shaper = max(1, link.shaper.bytes * BIT_NS // link.shaper.interval)
    cake = link.queue.given("bandwidth") if link.queue and link.queue.kind == "cake" else None
    return min((rate for rate in (link.rate, shaper, cake) if rate is not None), default=None)


def overhead(link: Link) -> int:
    """Return the bytes that a link counts beside an IP packet: as written, or as tc or mahimahi do."""
    if link.overhead is not None:
        return link.overhead
    return companion_files.TRACE_OVERHEAD if link.has_trace else ETHERNET_HEADER


def transmission_ns(link: Link, packet: int) -> int:
    """Return the time a packet of so many IP bytes takes at the link's rate, rounded up."""
    return 0 if link.rate is None else -((packet + overhead(link)) * 8 * 10**9 // -link.rate)


def check_room(size: int, link: Link, path: Path) -> None:
    """Refuse a burst or memory in which no full packet of the link fits: nothing would ever pass."""
    if size < (packet := link.mtu + overhead(link)):
        expected = f"at least {units.format_size(packet)}, a full packet of the link"
        raise Misplaced(path, BadValue(units.format_size(size), expected))


def tx_queue(nic: Nic) -> int:
    """Return the packets that a transmit queue holds."""
    return TX_QUEUE if nic.tx_queue is None else nic.tx_queue
