"""From networks of the experiment file to the links of the Scenario, their switches and schedules."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import groupby

from cwndlab.contract import scenario as contract
from cwndlab.contract.queue import Queue
from cwndlab.errors import nearest, one_of, shown
from cwndlab.experiment import units
from cwndlab.experiment.locate import Misplaced, Path
from cwndlab.experiment.scenario import companion_files
from cwndlab.experiment.scenario.memo import Piece, around, joined
from cwndlab.experiment.scenario.path_state import Moment, check_room, limiting_rate, overhead, tx_queue
from cwndlab.experiment.scenario.queues import Queues
from cwndlab.experiment.scenario.resolver import Draft, Traffic
from cwndlab.experiment.scenario.topology import Cables, Topology, Wire, origin
from cwndlab.experiment.schema import (
    PFIFO,
    Link,
    Occasion,
    Settings,
    Shaper,
    Switch,
)
from cwndlab.experiment.units import BadValue


class Links(Queues):
    """Resolves links."""

    def switches(self) -> dict[str, tuple[Switch, Path]]:
        """Return the switches by the name of their node, with their places in the file."""
        network = self.spec.network
        if network.star is not None:
            return {"star.switch": (network.star.switch, ("network", "star", "switch"))}
        return {name: (switch, ("network", "switch_of", name)) for name, switch in network.switch_of.items()}

    def check_switches(self, net: Topology) -> None:
        """Refuse switches that are no nodes, and what a shared buffer does not go with."""
        for name, (switch, path) in self.switches().items():
            if name not in net.nodes:
                bad = BadValue(shown(name), f"a node: {one_of(net.nodes)}", nearest(name, net.nodes))
                raise Misplaced(path, bad)
            if switch.pause and (switch.buffer is None or not switch.shared):
                expected = "pause frames with a buffer that is shared"
                raise Misplaced((*path, "pause"), BadValue("true without a shared buffer", expected))
            for wire in net.wires if self.shared_memory(name) else ():
                for key in ("duplicate", "jitter", "schedule"):
                    if wire.from_ == name and getattr(wire.link, key):
                        problem = f"not possible on {wire.name}, which leaves a switch with a shared buffer"
                        raise Misplaced(wire.at(key), BadValue(problem=problem))

    def shared_memory(self, node: str) -> contract.Switch | None:
        """Return the memory that the output queues of a node share, if they do."""
        switch, _ = self.switches().get(node, (None, ()))
        if switch is None or switch.buffer is None or not switch.shared:
            return None
        pause: contract.Pause = {"stop_bytes": switch.buffer * 3 // 4, "go_bytes": switch.buffer // 2}
        return {"buffer_bytes": switch.buffer, "pause": pause if switch.pause else None}

    def links(self, net: Topology, traffic: Traffic, start: Moment) -> Piece[list[contract.Link]]:
        """Return all links of the Scenario, the bottlenecks among them marked."""
        bottlenecks, switches = _bottlenecks(net, traffic), self.rows.of(*OF_SWITCHES)
        pieces = []
        for cables in net.cables:
            marked = frozenset(bottlenecks.intersection(cables.links))
            # Of the rest of the network, a limit in BDP takes the round-trip time.
            rtts = tuple([start.longest_rtt_ns(name) for name in cables.in_bdp])
            key = (cables.key, marked, switches, rtts)
            alike = (cables.but_numbers, *key[1:])
            pieces.append(self.known.links.of(key, self._links, cables, start, marked, alike))
        return joined(pieces)

    def _links(
        self, cables: Cables, start: Moment, marked: Container[str], alike: Hashable
    ) -> Piece[list[contract.Link]]:
        """Return links, of which those `alike` that others have had are given their own numbers."""
        rates = [
            link.rate if name in cables.in_bdp else link.rate is None for name, link in cables.links.items()
        ]
        drafts = self.known.drafts.of((alike, *rates), self.piece, self._drafts, cables, start, marked)
        links: list[contract.Link] = []
        texts = []
        for wire, (link, (first, between, last)) in zip(cables.wires, drafts.value, strict=True):
            rate, delay = wire.link.rate, wire.link.delay
            links.append({**link, "rate_bps": rate, "delay_ns": delay})
            texts.append(f"{first}{delay}{between}{'null' if rate is None else rate}{last}")
        return Piece(links, drafts.notes, _text=f"[{','.join(texts)}]")

    def _drafts(self, cables: Cables, start: Moment, marked: Container[str]) -> list[Draft]:
        drafts = []
        for wire in cables.wires:
            link = self.link(wire, start, wire.name in marked)
            drafts.append((link, around(link, {}, ("delay_ns", "rate_bps"))))
        return drafts

    def link(self, wire: Wire, start: Moment, bottleneck: bool) -> contract.Link:
        """Return a link of the Scenario. Nothing but its rate and delay, and limits in BDP, follows from
        rate and delay; whether it has a rate does."""
        link = wire.link
        shaper = self.shaper(link, wire.at("shaper"))
        if link.rate is not None and link.has_trace:
            bad = BadValue(
                f"a rate of {units.format_rate(link.rate)} on {wire.name}, which has a trace",
                "one or the other: a trace is the link's rate",
            )
            raise Misplaced(wire.at("rate"), bad)
        found: contract.Link = {
            "name": wire.name,
            "from": wire.from_,
            "to": wire.to,
            "rate_bps": link.rate,
            "delay_ns": link.delay,
            "queue": self.queue(wire, start),
            "loss": self.loss(link.loss, wire.at("loss")),
            "duplicate_ppb": link.duplicate,
            "corrupt_ppb": link.corrupt,
            "jitter": self.jitter(link.jitter, wire.at("jitter")),
            "shaper": shaper,
            "mtu": link.mtu,
            "overhead": overhead(link),
            "observe": bottleneck,
            "bottleneck": bottleneck,
        }
        if not link.icmp:
            found["black_hole"] = True
        if link.delay_first:
            found["delay_first"] = True
        return found

    def queue(self, wire: Wire, start: Moment) -> Queue:
        """Return the queue at a wire's sending end: the host's transmit queue, or the link's discipline."""
        queue = wire.link.queue
        if wire.nic is not None and wire.nic.qdisc is not None:
            path: Path = ("hosts", origin(wire.from_, self.spec.hosts), "nic", "qdisc")
            return self.discipline(wire.nic.qdisc, path, wire, start)
        if wire.nic is not None and (queue is None or wire.nic.tx_queue is not None):
            return {"kind": "pfifo", "limit_packets": tx_queue(wire.nic)}
        limit = wire.link.shaper.limit if wire.link.shaper else None
        if limit is not None:
            if queue is not None:
                found = BadValue("a limit beside a queue", "one or the other: it is the limit of the queue")
                raise Misplaced((*wire.at("shaper"), "limit"), found)
            return {"kind": "bfifo", "limit_bytes": limit}
        switch, _ = self.switches().get(wire.from_, (None, ()))
        if queue is None and switch is not None and switch.buffer is not None:
            return {"kind": "bfifo", "limit_bytes": switch.buffer}
        return self.discipline(queue or PFIFO, wire.at("queue"), wire, start)

    def shaper(self, link: Link, path: Path) -> contract.Shaper | None:
        """Return what limits a link besides its rate."""
        shaper = link.shaper
        if shaper is None:
            return None
        needed, optional = _SHAPERS[shaper.kind]
        written = {key for key, value in shaper.written() if key != "kind" and value is not None}
        for key in sorted(needed - written):
            raise Misplaced((*path, key), BadValue(problem="missing; this key is required"))
        for key in sorted(written - needed - optional):
            known = one_of(sorted(needed | optional))
            raise Misplaced((*path, key), BadValue(f"{key} of a {shaper.kind}", known))
        if shaper.file is not None:
            opportunities, period = self.companion(companion_files.trace, shaper.file, (*path, "file"))
            return {
                "kind": "trace",
                "opportunities_ns": opportunities,
                "period_ns": period,
                "bytes": companion_files.TRACE_BYTES,
            }
        if shaper.kind == "slots":
            return _slots(shaper, path)
        if shaper.kind == "htb":
            return _htb(shaper, path)
        rate, burst = shaper.rate or 0, shaper.burst or 0
        check_room(burst, link, (*path, "burst"))
        if shaper.kind == "tbf":
            peak = _peak(shaper, link, path)
            return {"kind": "token-bucket", "rate_bps": rate, "burst_bytes": burst, "peak": peak}
        return {"kind": "policer", "rate_bps": rate, "burst_bytes": burst}

    def schedule(self, net: Topology, start: Moment, flows: Sequence[str]) -> list[contract.Change]:
        """Return all changes in order of time, each for links as all changes until then leave them."""
        planned = []
        for wire in [wire for cables in net.cables for wire in cables.wires if wire.link.schedule]:
            for index, change in enumerate(wire.link.schedule):
                path: Path = (*wire.at("schedule"), index)
                if change.at >= self.spec.duration:
                    self.beyond(change.at, (*path, "at"))
                self.check_change(wire, change.set, (*path, "set"))
                on = self.occasion(change.on, flows, (*path, "on")) if change.on is not None else None
                planned.append((change.at, wire, change.set, (*path, "set"), on))
        planned.sort(key=lambda entry: entry[0])
        changes: list[contract.Change] = []
        links = dict(start.links)
        for at, together in groupby(planned, key=lambda entry: entry[0]):
            moment = replace(start, at=at, links=links)
            now = list(together)
            for _, wire, new, *_ in now:
                self.note_shaper(wire, new, at)
                kept = {key: value for key, value in new.written() if key in {"rate", "delay", "queue"}}
                links[wire.name] = links[wire.name].copied(kept)
            for _, wire, new, path, on in now:
                made = self.change(at, wire, new, path, moment)
                if on is not None:
                    made["on"] = on
                changes.append(made)
        return changes

    def occasion(self, on: Occasion, flows: Sequence[str], path: Path) -> contract.Occasion:
        """Return the event that a change waits for."""
        for key, name, known in (("flow", on.flow, flows), ("event", on.event, self.catalogue.events)):
            if name not in known:
                bad = BadValue(shown(name), one_of(known), nearest(name, known))
                raise Misplaced((*path, key), bad)
        return {"flow": on.flow, "event": on.event}

    def check_change(self, wire: Wire, new: Settings, path: Path) -> None:
        """Refuse a change that changes nothing, or the rate of a trace."""
        if not new.model_fields_set:
            raise Misplaced(path, BadValue("nothing", one_of(new.known_keys())))
        if new.rate is not None and wire.link.has_trace:
            expected = f"no rate, as {wire.name} has a trace, which is its rate"
            raise Misplaced((*path, "rate"), BadValue(shown(units.format_rate(new.rate)), expected))

    def note_shaper(self, wire: Wire, new: Settings, at: int) -> None:
        """Say where a link's new rate is none, as its shaper is not what changes."""
        shaper = wire.link.shaper
        if new.rate is not None and shaper is not None and shaper.rate is not None and new.rate > shaper.rate:
            self.notes.append(
                f"{wire.name}: from {units.format_time(at)} on, its rate is {units.format_rate(new.rate)}"
                f" and that of its {shaper.kind} still {units.format_rate(shaper.rate)}"
            )

    def change(self, at: int, wire: Wire, new: Settings, path: Path, moment: Moment) -> contract.Change:
        """Return a change of a link at a moment."""
        return {
            "at_ns": at,
            "link": wire.name,
            "rate_bps": new.rate,
            "delay_ns": new.delay,
            "loss": self.loss(new.loss, (*path, "loss")),
            "queue": self.discipline(new.queue, (*path, "queue"), wire, moment) if new.queue else None,
            "down": new.down,
        }


_SHAPERS: Mapping[str, tuple[Set[str], Set[str]]] = {
    "htb": ({"rate"}, {"ceil", "burst", "cburst"}),
    "tbf": ({"rate", "burst"}, {"limit", "peakrate", "mtu"}),
    "policer": ({"rate", "burst"}, set()),
    "slots": ({"interval"}, {"packets", "bytes"}),
    "trace": ({"file"}, set()),
}
"""Keys that each kind of shaper needs, and that it has besides."""

HTB_BURST = 1600
"""Burst of a class of HTB that is given none, bytes: what `tc` tells a kernel whose clock has nanoseconds
(iproute2, q_htb.c)."""


def _slots(shaper: Shaper, path: Path) -> contract.Shaper:
    """Return slots, in each of which so many packets or bytes leave."""
    interval = shaper.interval or 0
    if interval == 0:
        raise Misplaced((*path, "interval"), BadValue("0", "a time above 0"))
    if shaper.bytes == 0:
        raise Misplaced((*path, "bytes"), BadValue("0", "a size above 0"))
    return {"kind": "slots", "interval_ns": interval, "packets": shaper.packets, "bytes": shaper.bytes}


def _htb(shaper: Shaper, path: Path) -> contract.Shaper:
    """Return a class of HTB."""
    rate = shaper.rate or 0
    ceil = rate if shaper.ceil is None else shaper.ceil
    if ceil < rate:
        expected = f"at least the rate, {units.format_rate(rate)}"
        raise Misplaced((*path, "ceil"), BadValue(units.format_rate(ceil), expected))
    burst, cburst = (HTB_BURST if size is None else size for size in (shaper.burst, shaper.cburst))
    return {
        "kind": "htb",
        "rate_bps": rate,
        "ceil_bps": ceil,
        "burst_bytes": burst,
        "cburst_bytes": cburst,
    }


def _peak(shaper: Shaper, link: Link, path: Path) -> contract.Peak | None:
    """Return the second bucket of a token bucket."""
    if shaper.peakrate is None:
        if shaper.mtu is not None:
            raise Misplaced((*path, "mtu"), BadValue("mtu without a peakrate", "both or neither"))
        return None
    rate = shaper.rate or 0
    if shaper.peakrate <= rate:
        expected = f"above the rate, {units.format_rate(rate)}"
        raise Misplaced((*path, "peakrate"), BadValue(units.format_rate(shaper.peakrate), expected))
    size = link.mtu + overhead(link) if shaper.mtu is None else shaper.mtu
    check_room(size, link, (*path, "mtu"))
    return {"rate_bps": shaper.peakrate, "burst_bytes": size}


OF_SWITCHES: tuple[Path, ...] = (("network", "star", "switch"), ("network", "switch_of"))
"""Where the file says what switches are like."""


def _bottlenecks(net: Topology, traffic: Traffic) -> set[str]:
    """Return the wires whose utilisation counts: those the topology names that carry data.

    A flow that passes none of these has the slowest wire of its way as bottleneck; among equals the one
    that carries most flows, then the one nearest to the receiver.
    """
    wires = {wire.name: wire for cables in net.cables for wire in cables.wires}
    named = {name for name in traffic.carried if wires[name].bottleneck}
    chosen = set(named)
    for flow in traffic.pairs:
        if not named.isdisjoint(flow.forward):
            continue
        limiting = [
            (-rate, traffic.carried[name], place, name)
            for place, name in enumerate(flow.forward)
            if (rate := limiting_rate(wires[name].link)) is not None and wires[name].bottleneck is not False
        ]
        if limiting:
            chosen.add(max(limiting)[3])
    return chosen
