"""From queue disciplines of the experiment file to those of the Scenario, limits in BDP included."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from cwndlab.contract.queue import Queue
from cwndlab.errors import shown
from cwndlab.experiment import units
from cwndlab.experiment.catalogue import Param
from cwndlab.experiment.locate import Misplaced, Path
from cwndlab.experiment.scenario.path_state import (
    ETHERNET_HEADER,
    TX_QUEUE,
    Moment,
    check_room,
    limiting_rate,
    overhead,
)
from cwndlab.experiment.scenario.resolver import Resolver
from cwndlab.experiment.scenario.topology import Wire
from cwndlab.experiment.schema import AnyQueue, Link
from cwndlab.experiment.schema.parameters import written
from cwndlab.experiment.units import BadValue, Bdp, Bytes, Limit, Packets

_EXAMPLES = {"packets": "packets such as 90p", "bytes": "bytes such as 125KB"}
MOST_GAIN = 256 * 10**9
"""The largest gain of DualPI2, in billionths of a hertz."""
_OTHER_FIFO = {"pfifo": "bfifo counts bytes", "bfifo": "pfifo counts packets"}


@dataclass(frozen=True, slots=True)
class _Limited:
    """Object of a queue limit: a parameter of a kind of queue, at a place in the file, on a wire."""

    param: Param
    kind: str
    path: Path
    wire: Wire


class Queues(Resolver):
    """Resolves queue disciplines."""

    def discipline(self, queue: AnyQueue, path: Path, wire: Wire, moment: Moment) -> Queue:
        """Return a queue discipline that a wire has from some moment on, with all its parameters."""
        kind = self.catalogue.queues.get(queue.kind)
        if kind is None:
            problem = f"queue {queue.kind} is not supported by testbed {self.support.testbed} yet"
            raise Misplaced(path, BadValue(problem=problem, key="kind"))
        resolved = self.parameters(queue, kind, path)
        _design(resolved, queue)
        for param in kind.params:
            value = resolved.get(param.field)
            if isinstance(value, Packets | Bytes | Bdp):
                of = _Limited(param, kind.kind, (*path, param.name), wire)
                resolved[param.field] = self.limit(value, of, moment)
        _derive(resolved, wire.link)
        _check(resolved, path, wire.link)
        return cast(Queue, resolved)  # its keys are those of the catalogue

    def limit(self, limit: Limit, of: _Limited, moment: Moment) -> int:
        """Return a queue limit in the parameter's unit, packets or bytes."""
        unit, wire = of.param.unit, of.wire
        if isinstance(limit, Bdp):
            packet = wire.link.mtu + overhead(wire.link)
            rate, rtt = self.product(limit, wire, moment, of.path)
            size = limit.multiple * rate * rtt / (8 * 10**9)
            count = max(1, int(size / packet)) if unit == "packets" else max(packet, int(size))
            since = f"from {units.format_time(moment.at)} on, " if moment.at else ""
            self.notes.append(
                f"{wire.name}: {since}queue limit {limit} is {count} {unit}"
                f" ({units.format_rate(rate)} x {units.format_time(rtt)} base RTT, packets of {packet} B)"
            )
            return _within(count, limit, of)
        if isinstance(limit, Packets) != (unit == "packets"):
            expected = f"{_EXAMPLES[unit]}, or 2bdp, for queue {of.kind}"
            raise Misplaced(of.path, BadValue(shown(str(limit)), expected, _OTHER_FIFO.get(of.kind)))
        if limit.count == 0:
            raise Misplaced(of.path, BadValue(shown(str(limit)), "a limit above 0"))
        return _within(limit.count, limit, of)

    def product(self, limit: Bdp, wire: Wire, moment: Moment, path: Path) -> tuple[int, int]:
        """Return the rate (b/s) and the base RTT (ns) that a limit in BDP refers to."""
        rate = limiting_rate(moment.links[wire.name])
        if rate is None:
            raise Misplaced(path, BadValue(shown(str(limit)), "packets or bytes, as this link has no rate"))
        rtt = moment.longest_rtt_ns(wire.name)
        if rtt is None:
            raise Misplaced(path, BadValue(shown(str(limit)), "packets or bytes, as no flow takes this link"))
        if rtt == 0:
            expected = "packets or bytes, as no flow over this link has any delay"
            raise Misplaced(path, BadValue(shown(str(limit)), expected))
        return rate, rtt


def _within(count: int, limit: Limit, of: _Limited) -> int:
    """Return a limit, or refuse one that is larger than the discipline can have."""
    if count > of.param.max:
        most = written(of.param, of.param.max)
        raise Misplaced(of.path, BadValue(shown(str(limit)), f"at most {most}{of.param.reason}"))
    return count


def _design(queue: dict[str, Any], said: AnyQueue) -> None:
    """Fill in what follows from the round trips that DualPI2 is designed for (RFC 9332 appendix A.1).

    A parameter that the file gives stays. Of two round trips one is enough (tc-dualpi2(8)).
    """
    if queue["kind"] != "dualpi2":
        return
    largest, typical = said.given("max_rtt"), said.given("typical_rtt")
    if largest is None and typical is None:
        return
    largest = 6 * typical if largest is None else largest
    typical = max(largest // 6, 1) if typical is None else typical
    update = max(min(typical, largest // 3), 1)
    period = update if said.given("tupdate") is None else queue["tupdate_ns"]
    designed = {
        "target": typical,
        "tupdate": update,
        "alpha": 10**17 * period // largest**2,
        "beta": 3 * 10**17 // largest,
    }
    fields = {"target": "target_ns", "tupdate": "tupdate_ns", "alpha": "alpha_ppb", "beta": "beta_ppb"}
    for name, value in designed.items():
        if said.given(name) is None:
            queue[fields[name]] = value


def _derive(queue: dict[str, Any], link: Link) -> None:
    """Fill in what Linux and tc derive where it is not given.

    From the device (net/sched/sch_*.c), and of RED from the limit (iproute2 tc/q_red.c).
    """
    packet = link.mtu + overhead(link)
    match queue:
        case {"kind": "bfifo", "limit_bytes": None}:
            # fifo_init: the transmit queue's length times psched_mtu(), which is with the Ethernet header.
            queue["limit_bytes"] = TX_QUEUE * (link.mtu + ETHERNET_HEADER)
        case {"kind": "fq"}:
            # fq_init
            if queue["quantum_bytes"] is None:
                queue["quantum_bytes"] = min(max(2 * packet, 256), 1 << 20)
            if queue["initial_quantum_bytes"] is None:
                queue["initial_quantum_bytes"] = min(10 * packet, 1 << 20)
        case {"quantum_bytes": None}:
            queue["quantum_bytes"] = packet  # fq_codel_init, fq_pie_init: psched_mtu()
        case {"kind": "dualpi2", "memlimit_bytes": None}:
            queue["memlimit_bytes"] = min(2 * queue["limit_packets"] * packet, 2**32 - 1)  # get_memory_limit
        case {"kind": "cake", "memlimit_bytes": None}:
            queue["memlimit_bytes"] = _cake_memory(queue["bandwidth_bps"], queue["rtt_ns"], packet)
        case {"kind": "red" | "choke"}:
            _derive_thresholds(queue)


def _derive_thresholds(red: dict[str, Any]) -> None:
    """Fill in the thresholds of RED in bytes, or of CHOKe in packets, and the burst."""
    unit = "bytes" if red["kind"] == "red" else "packets"
    low, high = f"min_{unit}", f"max_{unit}"
    if red[high] is None:
        given = unit == "bytes" and red[low]
        red[high] = 3 * red[low] if given else red[f"limit_{unit}"] // 4
    if red[low] is None:
        red[low] = red[high] // 3
    if red["burst_packets"] is None:
        weighed = 2 * red[low] + red[high]
        red["burst_packets"] = weighed // (3 * (red["avpkt_bytes"] if unit == "bytes" else 1))


def _check(queue: dict[str, Any], path: Path, link: Link) -> None:
    """Refuse what has to hold besides the ranges."""
    match queue["kind"]:
        case "cake":
            check_room(queue["memlimit_bytes"], link, (*path, "memlimit"))
        case "dualpi2":
            check_room(queue["memlimit_bytes"], link, (*path, "memlimit"))
            for field in ("alpha", "beta"):
                _check_gain(queue[f"{field}_ppb"], path, field)
        case "red":
            check_room(queue["limit_bytes"], link, (*path, "limit"))
            _check_thresholds(queue, path)
        case "choke":
            _check_thresholds(queue, path)


def _check_gain(gain: int, path: Path, name: str) -> None:
    """Refuse a gain that round trips make larger than there are."""
    if gain > MOST_GAIN:
        found = f"{name} {units.format_factor(Fraction(gain, 10**9))}, which follows from the round trips"
        raise Misplaced(path, BadValue(found, "at most 256; longer round trips", key="max_rtt"))


def _check_thresholds(red: dict[str, Any], path: Path) -> None:
    if red["kind"] == "red":
        low, high, text = red["min_bytes"], red["max_bytes"], units.format_size
        fewest, of = -(-low // red["avpkt_bytes"]), "min / avpkt"
    else:
        low, high, text = red["min_packets"], red["max_packets"], "{}p".format
        fewest, of = low, "min"
    if low >= high:
        raise Misplaced(path, BadValue(text(low), f"less than max, {text(high)}", key="min"))
    if red["burst_packets"] < fewest:
        expected = f"at least {of}, {fewest}p, or the average has no weight"
        raise Misplaced(path, BadValue(f"{red['burst_packets']}p", expected, key="burst"))
    if red.get("nodrop") and not red["ecn"]:
        # red_validate_flags says the same.
        raise Misplaced(path, BadValue("true", "false, or ecn: true beside it", key="nodrop"))


def _cake_memory(bandwidth: int | None, rtt: int, packet: int) -> int:
    """Return CAKE's memory in bytes: four intervals at its bandwidth (b/s, ns), at least 4 MiB, and at most
    10240 packets (cake_reconfigure)."""
    most = 10_240 * packet
    if bandwidth is None:
        return most
    rate = max(bandwidth // 8, 64)  # bytes per second (cake_set_rate)
    return min(max(4 * rate * rtt // 10**9, 4 << 20), most)
