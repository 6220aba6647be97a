"""From one cell of an experiment to its Scenario: every name known, all numbers integers, no default left."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import groupby
from typing import Any, TypeVar

from cwndlab.errors import ExperimentError, nearest, nearest_names, one_of, shown
from cwndlab.experiment import locate, units
from cwndlab.experiment.catalogue import DATAGRAMS, PARTS, Catalogue, Param, Stack
from cwndlab.experiment.locate import Misplaced, Path
from cwndlab.experiment.schema import (
    AnyQueue,
    Background,
    Bfifo,
    Bulk,
    Cake,
    Cbr,
    Egress,
    Flow,
    FqCodel,
    FqPie,
    Host,
    Incast,
    Ingress,
    IngressStage,
    Jitter,
    Link,
    LoadLatency,
    Loss,
    Match,
    Nic,
    Noise,
    OnOff,
    Pfifo,
    Ping,
    RateLimited,
    Red,
    Section,
    Settings,
    Spec,
    Switch,
    Voip,
)
from cwndlab.experiment.support import LIVE_KEYS, Support
from cwndlab.experiment.units import BadValue, Bdp, Bytes, Limit, Packets
from cwndlab.experiment.yaml_nodes import Mapping
from cwndlab.scenario import companion_files, defaults, rates, topology
from cwndlab.scenario.topology import Topology, Wire, origin

_T = TypeVar("_T")

VERSION = 1
"""Version of the Scenario format that is written."""
TSO_MAX = 65_536
"""Bytes of the largest super-packet (an IPv4 packet's length has 16 bits)."""
HEADERS = 40
"""Bytes of an IPv4 and a TCP header without options: MTU less MSS (RFC 879, RFC 6691)."""
ETHERNET_HEADER = 14
"""Bytes that tc counts beside an IP packet (hard_header_len of an Ethernet device)."""
ACK_BYTES = 52
"""Bytes of an acknowledgement's IP packet: the headers and a timestamp option (RFC 7323)."""
CAKE_MOST_MEMORY = 2**32 - 1
"""Bytes that CAKE's memory may have (TCA_CAKE_MEMORY is a u32)."""
TX_QUEUE = 1000
"""Packets of a transmit queue unless the experiment sets it (Linux's txqueuelen)."""
_BUFFER_MAXIMA = ("net.core.wmem_max", "net.core.rmem_max")
"""Sysctls to which Linux cuts SO_SNDBUF and SO_RCVBUF silently (socket(7)). FreeBSD refuses instead, and its
engine raises kern.ipc.maxsockbuf by itself where the experiment does not set it."""
AGGREGATION = {"linux": "gro", "freebsd": "lro"}
"""The receive aggregation of each family of stacks. Windows 7 has none: its own (RSC) came with Windows 8."""
NETEM_LIMIT = 1000
"""Packets that netem holds unless the experiment sets it (tc-netem(8), limit)."""
COALESCE_TIME = 50_000
"""Interrupt moderation, in ns, of a host that aggregates, unless the experiment sets it: 20000 interrupts a
second, the usual limit of Linux's igb and e1000e drivers (their "conservative" mode)."""
COALESCE_FRAMES = 64
"""Frames that end the wait of such a host: what Linux takes in one polling pass (NAPI_POLL_WEIGHT)."""
ACK_EVERY_WAIT = 1_000_000
"""How long, in ns, a receiver with ``ack_every`` waits for the next segment of an aggregate."""
DATAGRAM_HEADERS = 28
"""Bytes of an IPv4 and a UDP header, or of an ICMP echo's."""
MAX_FLOWS = 100_000
"""Most flows of one run, copies included."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A Scenario with ``repeat`` 0, sentences on what resolving decided, and on what to check before trusting
    the run."""

    scenario: dict[str, Any]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def resolve(spec: Spec, tree: Mapping, catalogue: Catalogue, support: Support) -> Resolved:
    """Return the Scenario of a cell; raises `ExperimentError` with the place in ``tree`` of what is wrong."""
    refused = [
        locate.fault(tree, path, BadValue(problem=f"not supported by testbed {support.testbed} yet"))
        for path in support.refused(spec)
    ]
    if refused:
        raise min(refused, key=lambda error: error.line or 0)
    try:
        return _Resolver(spec, tree.place.file, catalogue, support).resolve()
    except Misplaced as misplaced:
        raise _place(tree, misplaced) from None


def _place(tree: Mapping, misplaced: Misplaced) -> ExperimentError:
    return locate.fault(tree, misplaced.path, misplaced.bad)


@dataclass(frozen=True, slots=True)
class _Flow:
    """One flow of the run: its model, where it stands, its ends and the wires it takes there and back."""

    name: str
    model: Flow
    path: Path
    from_: str
    to: str
    start_ns: int
    forward: tuple[Wire, ...]
    back: tuple[Wire, ...]
    load: tuple[str, str] | None = None
    """Of a connection of a loadlatency scenario: the name of its pinger, and its part."""


@dataclass(slots=True)
class _Moment:
    """What holds at some time of the run, in ns: flows, hosts, and each link by the name of its wire."""

    at: int
    flows: Sequence[_Flow]
    hosts: MappingType[str, Host]
    links: dict[str, Link]

    def base_rtt_ns(self, flow: _Flow) -> int:
        """Sum of the delays there and back: of links, and of what stands at both hosts' egress."""
        egresses = (self.hosts[end].egress for end in (flow.from_, flow.to))
        links = (self.links[wire.name] for wire in (*flow.forward, *flow.back))
        return sum((egress.delay or 0) for egress in egresses if egress) + sum(link.delay for link in links)

    def empty_rtt_ns(self, flow: _Flow) -> int:
        """Base RTT and the transmission of a full-size packet there and an acknowledgement back."""
        there = (self.links[wire.name] for wire in flow.forward)
        back = (self.links[wire.name] for wire in flow.back)
        packet = sum(_transmission_ns(link, link.mtu) for link in there)
        return self.base_rtt_ns(flow) + packet + sum(_transmission_ns(link, ACK_BYTES) for link in back)


@dataclass(frozen=True, slots=True)
class _Limited:
    """What a queue limit limits: a parameter of a kind of queue, at a place in the file, on a wire."""

    param: Param
    kind: str
    path: Path
    wire: Wire


_EXAMPLES = {"packets": "packets such as 90p", "bytes": "bytes such as 125KB"}
_OTHER_FIFO = {"pfifo": "bfifo counts bytes", "bfifo": "pfifo counts packets"}


@dataclass(slots=True)
class _Resolver:
    spec: Spec
    file: str
    catalogue: Catalogue
    support: Support
    notes: list[str] = field(default_factory=list)
    unnamed: dict[str, list[str]] = field(default_factory=dict)
    """Hosts that send and name no congestion control, by stack."""

    def resolve(self) -> Resolved:
        spec = self.spec
        for name, host in spec.hosts.items():
            self.check_host(name, host)
        everyone = topology.all_copies(spec.hosts)
        net = topology.expand(spec.network, spec.hosts)
        self.check_switches(net)
        flows = self.flows(net, everyone)
        start = _Moment(0, flows, everyone, {wire.name: wire.link for wire in net.wires})
        links = self.links(net, start)
        mtus = {wire.from_: wire.link.mtu for wire in reversed(net.wires)}
        raised = self.raised(flows)
        scenario: dict[str, Any] = {
            "version": VERSION,
            "experiment": spec.experiment,
            "seed": spec.seed,
            "repeat": 0,
            "duration_ns": spec.duration,
            "start_jitter_ns": self.start_jitter(start),
            "measure": self.measure(),
            "record": self.record(net, everyone),
            "hosts": [
                self.host(name, host, mtus.get(name, 1500), raised.get(name, {}))
                for name, host in everyone.items()
            ],
            "nodes": [{"name": name, "switch": self.shared_memory(name)} for name in net.nodes],
            "links": links,
            "flows": [self.flow(flow) for flow in flows],
            "schedule": self.schedule(net, start),
        }
        if self.support.live is not None:
            models = (flow.model.app for flow in flows)
            scenario["live"] = self.support.live(spec, list(zip(models, scenario["flows"], strict=True)))
        self.notes += defaults.notes(self.unnamed, self.catalogue)
        warnings = dict.fromkeys(defaults.warnings(self.unnamed, spec.hosts, self.catalogue))
        return Resolved(scenario, tuple(self.notes), tuple(warnings))

    # Hosts

    def check_host(self, name: str, host: Host) -> None:
        """Check the names in a host against its stack."""
        stack = self.stack(name)
        if host.cc is not None:
            self.cc(host.cc, stack, ("hosts", name, "cc"))
        own = AGGREGATION.get(stack.family)
        for key in ("gro", "lro"):
            if getattr(host.nic, key) and key != own:
                expected = f"{own}, which it has instead" if own else "false, as it merges nothing"
                raise Misplaced(("hosts", name, "nic", key), BadValue(f"{key} on {stack.name}", expected))
        self.sysctls(name, host, stack)

    def stack(self, host: str) -> Stack:
        name = self.spec.hosts[host].stack
        stack = self.catalogue.stack(name)
        if stack is None:
            names = self.catalogue.stack_names()
            bad = BadValue(shown(name) if name else "nothing", one_of(names), nearest(name, names))
            raise Misplaced(("hosts", host, "stack"), bad)
        return stack

    def cc(self, name: str, stack: Stack, path: Path) -> str:
        own = stack.cc_alias.get(name, name)
        if own not in stack.cc:
            hint = nearest(name, stack.cc)
            if hint is None and self.support.live is not None and re.fullmatch(r"[a-z0-9_]+", name, re.ASCII):
                hint = f"if it is a module that is not loaded: modprobe tcp_{name}"
            raise Misplaced(path, BadValue(shown(name), f"{one_of(stack.cc)} on {stack.name}", hint))
        return own

    def default_cc(self, flow: _Flow, stack: Stack) -> str:
        """Return the congestion control of a flow for which neither it nor its host names one."""
        host = origin(flow.from_, self.spec.hosts)
        if flow.model.app.kind not in DATAGRAMS:
            senders = self.unnamed.setdefault(stack.name, [])
            senders += [host] if host not in senders else []
            if stack.default_cc not in stack.cc:
                problem = (
                    f"names no cc, and this kernel lacks {stack.default_cc}, the default of {stack.name}"
                )
                raise Misplaced(("hosts", host), BadValue(problem=f"{problem}; it has {one_of(stack.cc)}"))
        return stack.default_cc

    def sysctls(self, host_name: str, host: Host, stack: Stack) -> dict[str, int]:
        """Return the host's sysctls as integers; three values become ``.min``, ``.default``, ``.max``."""
        values: dict[str, int] = {}
        for name, text in host.sysctl.items():
            path: Path = ("hosts", host_name, "sysctl", name)
            triple = [f"{name}.{part}" for part in PARTS]
            if name in stack.sysctls:
                names = [name]
            elif triple[0] in stack.sysctls:
                names = triple
            else:
                raise Misplaced(path, self.unknown_sysctl(name, stack))
            words = text.split()
            if len(words) != len(names):
                expected = (
                    "three whole numbers: minimum, default, maximum" if len(names) == 3 else "one value"
                )
                raise Misplaced(path, BadValue(shown(text), expected))
            for own, word in zip(names, words, strict=True):
                if own in values:
                    raise Misplaced(path, BadValue(f"a second value for {own}", "one value for each sysctl"))
                values[own] = _sysctl_value(word, stack, own, path)
        return values

    def unknown_sysctl(self, name: str, stack: Stack) -> BadValue:
        near = nearest_names(name, stack.settable(), 3)
        hint = f"near it: {', '.join(near)}" if near else "`cwndlab schema` lists them"
        return BadValue(f"the unknown sysctl {shown(name)}", f"a sysctl that {stack.name} models", hint)

    def raised(self, flows: Sequence[_Flow]) -> dict[str, dict[str, int]]:
        """Return by host the maxima of socket buffers, raised so that what is asked for fits."""
        values: dict[str, dict[str, int]] = {}
        for flow in flows:
            for end, sysctl, buffer in zip(
                (flow.from_, flow.to), _BUFFER_MAXIMA, self.buffers(flow), strict=True
            ):
                known = self.stack(origin(end, self.spec.hosts)).sysctls.get(sysctl)
                if known is not None and buffer is not None and buffer > known.default:
                    host = values.setdefault(end, {})
                    host[sysctl] = max(buffer, host.get(sysctl, 0))
        return values

    def buffers(self, flow: _Flow) -> tuple[int | None, int | None]:
        """Return SO_SNDBUF of a flow's sender and SO_RCVBUF of its receiver, None for autotuning."""
        sender, receiver = (self.spec.hosts[origin(end, self.spec.hosts)] for end in (flow.from_, flow.to))
        return _buffer(flow.model.sndbuf or sender.sndbuf), _buffer(flow.model.rcvbuf or receiver.rcvbuf)

    def host(self, name: str, host: Host, mtu: int, raised: dict[str, int]) -> dict[str, Any]:
        stack = self.stack(origin(name, self.spec.hosts))
        if host.mss is not None and host.mss + HEADERS > mtu:
            bad = BadValue(
                shown(str(host.mss)), f"at most {mtu - HEADERS}, as the host's link has an MTU of {mtu}"
            )
            raise Misplaced(("hosts", origin(name, self.spec.hosts), "mss"), bad)
        _check_tso(host.nic, host.mss or mtu - HEADERS, ("hosts", origin(name, self.spec.hosts), "nic"))
        return {
            "name": name,
            "stack": stack.name,
            "hz": host.hz or stack.hz,
            "mss": host.mss or mtu - HEADERS,
            "ecn": host.ecn or stack.ecn,
            "sysctl": {
                **raised,
                **self.sysctls(origin(name, self.spec.hosts), host, stack),
            },
            "nic": {
                "tx_queue": _tx_queue(host.nic),
                "full": host.nic.full or "enobufs",
                "tso": host.nic.tso,
                "tso_max": host.nic.tso_max,
                "gro": host.nic.gro,
                "lro": host.nic.lro,
                "coalesce": _coalesce(host),
            },
            "ack_every": host.ack_every.segments if host.ack_every else None,
            "noise": _noise(host.noise),
            "egress": self.egress(host.egress, ("hosts", origin(name, self.spec.hosts), "egress")),
            "ingress": self.ingress(host.ingress, ("hosts", origin(name, self.spec.hosts), "ingress")),
        }

    def egress(self, egress: Egress | None, path: Path) -> dict[str, Any] | None:
        """Return netem at a host's egress."""
        if egress is None:
            return None
        if egress.limit == 0:
            raise Misplaced((*path, "limit"), BadValue("0p", "at least 1p"))
        return {
            "limit_packets": NETEM_LIMIT if egress.limit is None else egress.limit,
            "delay_ns": egress.delay or 0,
            "jitter": self.jitter(egress.jitter, (*path, "jitter")),
            "loss": self.loss(egress.loss, (*path, "loss")),
            "duplicate_ppb": egress.duplicate or 0,
            "corrupt_ppb": egress.corrupt or 0,
            "rate_bps": egress.rate,
        }

    def ingress(self, ingress: Ingress | None, path: Path) -> dict[str, Any]:
        """Return the impairments at both places of a host's ingress."""
        stages = {} if ingress is None else dict(ingress.written())
        return {
            place: self.ingress_stage(stages.get(place), (*path, place))
            for place in ("before_gro", "after_gro")
        }

    def ingress_stage(self, stage: IngressStage | None, path: Path) -> dict[str, Any] | None:
        if stage is None:
            return None
        match = stage.match or Match()
        if stage.loss is not None and stage.loss.nth is not None and stage.loss.nth.match is not None:
            problem = "belongs beside loss at a host's ingress"
            raise Misplaced((*path, "loss", "nth", "match"), BadValue(problem=problem))
        return {
            "loss": self.loss(stage.loss, (*path, "loss")),
            "duplicate_ppb": stage.duplicate or 0,
            "corrupt_ppb": stage.corrupt or 0,
            "dport": match.dport,
            "sport": match.sport,
            "min_payload": match.min_payload or 0,
        }

    # Links

    def switches(self) -> dict[str, tuple[Switch, Path]]:
        """Return the switches by the name of their node, with their places in the file."""
        network = self.spec.network
        if network.star is not None:
            return {"star.switch": (network.star.switch, ("network", "star", "switch"))}
        return {name: (switch, ("network", "switch_of", name)) for name, switch in network.switch_of.items()}

    def check_switches(self, net: Topology) -> None:
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

    def shared_memory(self, node: str) -> dict[str, Any] | None:
        """Return the memory that the output queues of a node share, if they do."""
        switch, _ = self.switches().get(node, (None, ()))
        if switch is None or switch.buffer is None or not switch.shared:
            return None
        pause = {"stop_bytes": switch.buffer * 3 // 4, "go_bytes": switch.buffer // 2}
        return {"buffer_bytes": switch.buffer, "pause": pause if switch.pause else None}

    def links(self, net: Topology, start: _Moment) -> list[dict[str, Any]]:
        carried = Counter(wire.name for flow in start.flows for wire in flow.forward)
        bottlenecks = _bottlenecks(net, start.flows, carried)
        return [self.link(wire, start, wire.name in bottlenecks) for wire in net.wires]

    def link(self, wire: Wire, start: _Moment, bottleneck: bool) -> dict[str, Any]:
        link = wire.link
        shaper = self.shaper(link, wire.at("shaper"))
        if link.rate is not None and link.has_trace:
            bad = BadValue(
                f"a rate of {units.format_rate(link.rate)} on {wire.name}, which has a trace",
                "one or the other: a trace is the link's rate",
            )
            raise Misplaced(wire.at("rate"), bad)
        return {
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
            "overhead": _overhead(link),
            "observe": bottleneck,
            "bottleneck": bottleneck,
        }

    def queue(self, wire: Wire, start: _Moment) -> dict[str, Any]:
        """Return the queue at a wire's sending end: the host's transmit queue, or the link's discipline."""
        queue = wire.link.queue
        nic = wire.host.nic if wire.host else None
        if nic is not None and (queue is None or nic.tx_queue is not None):
            return {"kind": "pfifo", "limit_packets": _tx_queue(nic)}
        switch, _ = self.switches().get(wire.from_, (None, ()))
        if queue is None and switch is not None and switch.buffer is not None:
            return {"kind": "bfifo", "limit_bytes": switch.buffer}
        return self.discipline(queue or Pfifo(kind="pfifo"), wire.at("queue"), wire, start)

    def discipline(self, queue: AnyQueue, path: Path, wire: Wire, moment: _Moment) -> dict[str, Any]:
        """Return a queue discipline that a wire has from some moment on, with all its parameters."""
        kind = queue.kind
        if kind not in self.catalogue.queues:
            problem = f"queue {kind} is not supported by testbed {self.support.testbed} yet"
            raise Misplaced(path, BadValue(problem=problem, key="kind"))
        params = self.catalogue.queues[kind]
        resolved: dict[str, Any] = {"kind": kind}
        for param in params:
            value = getattr(queue, param.name, None)
            if isinstance(value, Packets | Bytes | Bdp):
                value = self.limit(value, _Limited(param, kind, (*path, "limit"), wire), moment)
            resolved[param.field] = _in_unit(value, param)
        self.refuse_others(queue, params, path, f"queue {kind}")
        if kind == "red":
            if resolved["limit_bytes"] is not None:
                _check_room(resolved["limit_bytes"], wire.link, (*path, "limit"))
            _red_thresholds(resolved, path)
        if isinstance(queue, Red) and queue.nodrop and not queue.ecn:
            # red_validate_flags says the same.
            raise Misplaced(path, BadValue("true", "false, or ecn: true beside it", key="nodrop"))
        if kind == "cake" and resolved["memlimit_bytes"] is not None:
            at = (*path, "memlimit")
            _check_room(resolved["memlimit_bytes"], wire.link, at)
            if resolved["memlimit_bytes"] > CAKE_MOST_MEMORY:
                expected = "at most 4294967295B (tc has 32 bits for it)"
                raise Misplaced(at, BadValue(units.format_size(resolved["memlimit_bytes"]), expected))
        _fill_in(resolved, queue, wire.link)
        return resolved

    def limit(self, limit: Limit, of: _Limited, moment: _Moment) -> int:
        """Return a queue limit in the parameter's unit, packets or bytes."""
        unit, wire = of.param.unit, of.wire
        if isinstance(limit, Bdp):
            packet = wire.link.mtu + _overhead(wire.link)
            rate, rtt = self.product(limit, wire, moment, of.path)
            size = limit.multiple * rate * rtt / (8 * 10**9)
            count = max(1, int(size / packet)) if unit == "packets" else max(packet, int(size))
            since = f"from {units.format_time(moment.at)} on, " if moment.at else ""
            self.notes.append(
                f"{wire.name}: {since}queue limit {limit} is {count} {unit}"
                f" ({units.format_rate(rate)} x {units.format_time(rtt)} base RTT, packets of {packet} B)"
            )
            return count
        if isinstance(limit, Packets) != (unit == "packets"):
            expected = f"{_EXAMPLES[unit]}, or 2bdp, for queue {of.kind}"
            raise Misplaced(of.path, BadValue(shown(str(limit)), expected, _OTHER_FIFO.get(of.kind)))
        if limit.count == 0:
            raise Misplaced(of.path, BadValue(shown(str(limit)), "a limit above 0"))
        return limit.count

    def product(self, limit: Bdp, wire: Wire, moment: _Moment, path: Path) -> tuple[int, int]:
        """Return the rate (b/s) and the base RTT (ns) that a limit in BDP refers to.

        The base RTT is the sum of delays there and back, the longest of all flows that send data through
        the wire; where none does, of those whose acknowledgements take it.
        """
        rate = _rate(moment.links[wire.name])
        if rate is None:
            raise Misplaced(path, BadValue(shown(str(limit)), "packets or bytes, as this link has no rate"))
        data = [flow for flow in moment.flows if any(wire.name == way.name for way in flow.forward)]
        acks = [flow for flow in moment.flows if any(wire.name == way.name for way in flow.back)]
        if not data and not acks:
            raise Misplaced(path, BadValue(shown(str(limit)), "packets or bytes, as no flow takes this link"))
        rtt = max(map(moment.base_rtt_ns, data or acks))
        if rtt == 0:
            expected = "packets or bytes, as no flow over this link has any delay"
            raise Misplaced(path, BadValue(shown(str(limit)), expected))
        return rate, rtt

    def loss(self, loss: Loss | None, path: Path) -> dict[str, Any] | None:
        if loss is None:
            return None
        ((kind, value),) = loss.written()
        if kind not in self.catalogue.losses:
            problem = f"not supported by testbed {self.support.testbed} yet"
            raise Misplaced((*path, kind), BadValue(problem=problem))
        if loss.random is not None:
            return {"kind": "random", "probability_ppb": loss.random}
        if loss.nth is not None:
            nth, match = loss.nth, loss.nth.match or Match()
            return {
                "kind": "nth",
                "every": nth.every,
                "packet": nth.packet,
                "min_payload": max(nth.min_payload, match.min_payload or 0),
                "dport": match.dport,
                "sport": match.sport,
            }
        if loss.gilbert is not None:
            chain = loss.gilbert
            return {
                "kind": "gilbert",
                "p_ppb": chain.p,
                "r_ppb": chain.r,
                "loss_bad_ppb": chain.loss_bad,
                "loss_good_ppb": chain.loss_good,
            }
        if value != sorted(set(value)):
            raise Misplaced(
                (*path, "list"), BadValue("a list out of order", "packets in ascending order, each once")
            )
        return {"kind": "list", "packets": value}

    def jitter(self, jitter: Jitter | None, path: Path) -> dict[str, Any] | None:
        if jitter is None:
            return None
        for key, needed in (("sd", True), ("file", jitter.kind == "file")):
            if needed and getattr(jitter, key) is None:
                raise Misplaced((*path, key), BadValue(problem="missing; this key is required"))
        table = None
        if jitter.file is not None:
            if jitter.kind != "file":
                raise Misplaced((*path, "file"), BadValue(f"a file with kind {jitter.kind}", "kind: file"))
            table = self.companion(companion_files.deviations, jitter.file, (*path, "file"))
        kind = "table" if table else jitter.kind
        return {"kind": kind, "sd_ns": jitter.sd, "reorder": jitter.reorder, "table": table}

    def companion(self, read: Callable[[str, str], _T], name: str, path: Path) -> _T:
        """Return the content of a file beside the experiment."""
        try:
            return read(self.file, name)
        except BadValue as bad:
            raise Misplaced(path, bad) from None

    def shaper(self, link: Link, path: Path) -> dict[str, Any] | None:
        shaper = link.shaper
        if shaper is None:
            return None
        needed = {"file"} if shaper.kind == "trace" else {"rate", "burst"}
        for key in ("rate", "burst", "file"):
            value = getattr(shaper, key)
            if value is None and key in needed:
                raise Misplaced((*path, key), BadValue(problem="missing; this key is required"))
            if value is not None and key not in needed:
                raise Misplaced((*path, key), BadValue(f"{key} of a {shaper.kind}", one_of(sorted(needed))))
        if shaper.file is not None:
            opportunities, period = self.companion(companion_files.trace, shaper.file, (*path, "file"))
            return {
                "kind": "trace",
                "opportunities_ns": opportunities,
                "period_ns": period,
                "bytes": companion_files.TRACE_BYTES,
            }
        _check_room(shaper.burst or 0, link, (*path, "burst"))
        kind = {"tbf": "token-bucket"}.get(shaper.kind, shaper.kind)
        return {"kind": kind, "rate_bps": shaper.rate, "burst_bytes": shaper.burst}

    def schedule(self, net: Topology, start: _Moment) -> list[dict[str, Any]]:
        """Return all changes in order of time, each for links as all changes until then leave them."""
        planned = []
        for wire in net.wires:
            for index, change in enumerate(wire.link.schedule):
                path: Path = (*wire.at("schedule"), index)
                if change.at >= self.spec.duration:
                    self.beyond(change.at, (*path, "at"))
                self.check_change(wire, change.set, (*path, "set"))
                planned.append((change.at, wire, change.set, (*path, "set")))
        planned.sort(key=lambda entry: entry[0])
        changes = []
        moment = replace(start, links=dict(start.links))
        for at, together in groupby(planned, key=lambda entry: entry[0]):
            moment.at = at
            now = list(together)
            for _, wire, new, _ in now:
                self.note_shaper(wire, new, at)
                kept = {key: value for key, value in new.written() if key in {"rate", "delay", "queue"}}
                moment.links[wire.name] = moment.links[wire.name].model_copy(update=kept)
            changes += [
                {"at_ns": at, "link": wire.name, **self.change(wire, new, path, moment)}
                for _, wire, new, path in now
            ]
        return changes

    def check_change(self, wire: Wire, new: Settings, path: Path) -> None:
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

    def change(self, wire: Wire, new: Settings, path: Path, moment: _Moment) -> dict[str, Any]:
        return {
            "rate_bps": new.rate,
            "delay_ns": new.delay,
            "loss": self.loss(new.loss, (*path, "loss")),
            "queue": self.discipline(new.queue, (*path, "queue"), wire, moment) if new.queue else None,
            "down": new.down,
        }

    # Flows

    def flows(self, net: Topology, everyone: MappingType[str, Host]) -> list[_Flow]:
        ways = _Ways(net)
        flows: list[_Flow] = []
        names: set[str] = set()
        for index, model in enumerate(self.spec.flows):
            path: Path = ("flows", index)
            name = model.name or f"f{index + 1}"
            if name in names:
                raise Misplaced(
                    (*path, "name"), BadValue(f"{shown(name)} again", "a name of its own for each flow")
                )
            names.add(name)
            self.check_flow(model, path)
            pairs = [pair for pair in self.pairs(model, path, everyone) for _ in range(model.count)]
            if len(flows) + len(pairs) > MAX_FLOWS:
                raise Misplaced((*path, "count"), BadValue(f"more than {MAX_FLOWS} flows", "fewer"))
            for number, (from_, to) in enumerate(pairs):
                start = model.start + number * model.stagger
                if start >= self.spec.duration:
                    self.beyond(start, (*path, "stagger" if number else "start"))
                flow = _Flow(
                    name if len(pairs) == 1 else f"{name}.{number + 1}",
                    model, path, from_, to, start, ways.way(from_, to, path), ways.way(to, from_, path),
                )  # fmt: skip
                parts = self.load(flow) if isinstance(model.app, LoadLatency) else [flow]
                for part in parts:
                    self.check_packet_size(part, everyone)
                flows += parts
        return flows

    def load(self, flow: _Flow) -> list[_Flow]:
        """Return the connections of a loadlatency scenario: the pinger, and after ``idle`` the data.

        Uploads are sent by the flow's ``from``, the client; downloads by its ``to``.
        """
        app = flow.model.app
        assert isinstance(app, LoadLatency)  # or nobody asks
        params = {param.name: param for param in self.catalogue.apps[app.kind]}
        idle = _in_unit(app.idle, params["idle"])
        assert isinstance(idle, int)  # ns
        begins = flow.start_ns + idle
        if begins >= (self.spec.duration if flow.model.stop is None else flow.model.stop):
            bad = BadValue(
                shown(units.format_time(idle)),
                "a time that leaves some for the load before the flow ends",
                key="idle",
            )
            raise Misplaced((*flow.path, "app"), bad)
        uploads, downloads = self.catalogue.load_scenarios[app.scenario - 1]
        up = replace(flow, start_ns=begins, load=(flow.name, "upload"))
        down = replace(
            up,
            from_=flow.to,
            to=flow.from_,
            forward=flow.back,
            back=flow.forward,
            load=(flow.name, "download"),
        )
        data = [
            replace(part, name=f"{flow.name}.{way}{number}")
            for number in range(1, max(uploads, downloads) + 1)
            for part, way, count in ((up, "up", uploads), (down, "down", downloads))
            if number <= count
        ]
        return [replace(flow, load=(flow.name, "pinger")), *data]  # in the tool's own order

    def check_flow(self, flow: Flow, path: Path) -> None:
        if flow.stop is not None and flow.stop > self.spec.duration:
            self.beyond(flow.stop, (*path, "stop"))
        if flow.stop is not None and flow.stop <= flow.start + (flow.count - 1) * flow.stagger:
            raise Misplaced(
                (*path, "stop"), BadValue(shown(units.format_time(flow.stop)), "a time after every start")
            )
        kind = flow.app.kind
        if kind not in self.catalogue.apps:
            problem = f"app {kind} is not supported by testbed {self.support.testbed} yet"
            raise Misplaced((*path, "app"), BadValue(problem=problem, key="kind"))
        if flow.bytes is not None and not isinstance(flow.app, Bulk):
            raise Misplaced((*path, "bytes"), BadValue(f"bytes with app {kind}", "bytes with app bulk only"))

    def pairs(self, flow: Flow, path: Path, everyone: MappingType[str, Host]) -> list[tuple[str, str]]:
        """Return the ends of a flow, one pair for each copy of its hosts."""
        froms = self.ends(flow.from_, (*path, "from"), everyone)
        tos = self.ends(flow.to, (*path, "to"), everyone)
        if len(froms) > 1 and len(tos) > 1 and len(froms) != len(tos):
            bad = BadValue(
                f"{len(tos)} copies of {shown(flow.to)}", f"1 or {len(froms)}, as of {shown(flow.from_)}"
            )
            raise Misplaced((*path, "to"), bad)
        size = max(len(froms), len(tos))
        pairs = list(zip(froms * (size // len(froms)), tos * (size // len(tos)), strict=True))
        if any(one == other for one, other in pairs):
            raise Misplaced((*path, "to"), BadValue(shown(flow.to), "another host than from"))
        return pairs

    def ends(self, name: str, path: Path, everyone: MappingType[str, Host]) -> list[str]:
        if name in everyone:
            return [name]
        if name in self.spec.hosts:
            return topology.copies(name, self.spec.hosts[name])
        raise Misplaced(
            path, BadValue(shown(name), f"a host: {one_of(self.spec.hosts)}", nearest(name, self.spec.hosts))
        )

    def check_packet_size(self, flow: _Flow, everyone: MappingType[str, Host]) -> None:
        """Refuse a path whose MTU cannot carry the segments the two ends agree on: nothing fragments here."""
        mss = min(
            everyone[end].mss or wires[0].link.mtu - HEADERS
            for end, wires in ((flow.from_, flow.forward), (flow.to, flow.back))
        )
        app = flow.model.app
        if isinstance(app, Cbr | Voip | Ping):
            params = {param.name: param for param in self.catalogue.apps[app.kind]}
            packet = int(app.payload or params["payload"].default or 0) + DATAGRAM_HEADERS
            for wire in (*flow.forward, *(flow.back if isinstance(app, Ping) else ())):
                if wire.link.mtu < packet:
                    most = wire.link.mtu - DATAGRAM_HEADERS
                    bad = BadValue(
                        f"a payload of {packet - DATAGRAM_HEADERS}",
                        f"at most {most}, as {wire.name} has an MTU of {wire.link.mtu}",
                        key="payload",
                    )
                    raise Misplaced((*flow.path, "app"), bad)
            return
        for wire in flow.forward:
            if wire.link.mtu < mss + HEADERS:
                bad = BadValue(
                    f"an MTU of {wire.link.mtu} on {wire.name}",
                    f"at least {mss + HEADERS} for segments of {mss} bytes",
                    f"set mss: {wire.link.mtu - HEADERS} on a host",
                )
                raise Misplaced(wire.at("mtu"), bad)

    def flow(self, flow: _Flow) -> dict[str, Any]:
        sender = self.spec.hosts[origin(flow.from_, self.spec.hosts)]
        stack = self.stack(origin(flow.from_, self.spec.hosts))
        sndbuf, rcvbuf = self.buffers(flow)
        if flow.model.cc:
            cc = self.cc(flow.model.cc, stack, (*flow.path, "cc"))
        elif sender.cc:
            cc = self.cc(sender.cc, stack, ("hosts", origin(flow.from_, self.spec.hosts), "cc"))
        else:
            cc = self.default_cc(flow, stack)
        return {
            "name": flow.name,
            "from": flow.from_,
            "to": flow.to,
            "app": self.app(flow),
            "start_ns": flow.start_ns,
            "stop_ns": flow.model.stop,
            "cc": cc,
            "sndbuf": sndbuf,
            "rcvbuf": rcvbuf,
        }

    def app(self, flow: _Flow) -> dict[str, Any]:
        app = flow.model.app
        params = self.catalogue.apps[app.kind]
        self.refuse_others(app, params, (*flow.path, "app"), f"app {app.kind}")
        resolved: dict[str, Any] = {"kind": app.kind}
        for param in params:
            resolved[param.field] = _in_unit(getattr(app, param.name, None), param)
        if isinstance(app, Bulk):
            resolved["bytes"] = flow.model.bytes
        if flow.load is not None:
            resolved["group"], resolved["part"] = flow.load
            del resolved["idle_ns"]  # what is to begin later does
        if isinstance(app, Incast):
            resolved["group"] = flow.model.name or f"f{int(flow.path[-1]) + 1}"
        if isinstance(app, RateLimited | OnOff) and app.rate is not None:
            resolved["write_bytes"] = rates.write_bytes(app, app.rate, resolved["write_bytes"], flow.path)
        if isinstance(app, Background) and resolved["shape_milli"] <= 1000:
            expected = "a shape above 1, so that transfers have a mean size"
            raise Misplaced((*flow.path, "app"), BadValue(str(app.shape), expected, key="shape"))
        return resolved

    def refuse_others(self, section: Section, params: Sequence[Param], path: Path, what: str) -> None:
        """Refuse a parameter that the schema knows and the engine does not."""
        known = {"kind", *(param.name for param in params)}
        if isinstance(section, Bulk):
            known |= set(LIVE_KEYS)
        for key, _ in section.written():
            if key not in known:
                problem = f"{key} of {what} is not supported by testbed {self.support.testbed} yet"
                raise Misplaced((*path, key), BadValue(problem=problem))

    # What is measured

    def start_jitter(self, start: _Moment) -> int:
        """Return the spread of starts: as written, or one round trip over the emptiest longest path."""
        if self.spec.start_jitter is not None:
            return self.spec.start_jitter
        return max(start.empty_rtt_ns(flow) for flow in start.flows)

    def measure(self) -> dict[str, int]:
        window, duration = self.spec.measure, self.spec.duration
        if window.from_ >= duration:
            self.beyond(window.from_, ("measure", "from"))
        to = duration if window.to is None else window.to
        if to > duration:
            self.beyond(to, ("measure", "to"))
        if to <= window.from_:
            expected = f"a time after from, {units.format_time(window.from_)}"
            raise Misplaced(("measure", "to"), BadValue(shown(units.format_time(to)), expected))
        return {"from_ns": window.from_, "to_ns": to}

    def beyond(self, time: int, path: Path) -> None:
        expected = f"a time within the duration, {units.format_time(self.spec.duration)}"
        raise Misplaced(path, BadValue(shown(units.format_time(time)), expected))

    def record(self, net: Topology, everyone: MappingType[str, Host]) -> dict[str, Any]:
        record = self.spec.record
        captures: dict[str, int] = {}
        links = [wire.name for wire in net.wires]
        for index, point in enumerate(record.pcap):
            path: Path = ("record", "pcap", index, "at")
            places = list(everyone) if point.at == "*" else [point.at]
            for place in places:
                if place not in everyone and place not in links:
                    near = nearest(place, [*everyone, *links])
                    raise Misplaced(
                        path,
                        BadValue(shown(place), f"a host or a link: {one_of([*everyone, *links][:20])}", near),
                    )
                captures[place] = point.snaplen
        return {
            "tcp": _sampling(record.tcp),
            "queue": _sampling(record.queue),
            "pcap": [{"at": place, "snaplen": snaplen} for place, snaplen in captures.items()],
        }


class _Ways:
    """Routes of a topology, each found once."""

    def __init__(self, net: Topology) -> None:
        self.wires = {wire.name: wire for wire in net.wires}
        self.routes = topology.Routes((wire.name, wire.from_, wire.to) for wire in net.wires)
        self.found: dict[tuple[str, str], tuple[Wire, ...]] = {}

    def way(self, start: str, end: str, path: Path) -> tuple[Wire, ...]:
        if (start, end) not in self.found:
            way = self.routes.way(start, end)
            if way is None:
                raise Misplaced(path, BadValue(problem=f"no links lead from {shown(start)} to {shown(end)}"))
            self.found[start, end] = tuple(self.wires[name] for name in way)
        return self.found[start, end]


def _bottlenecks(net: Topology, flows: Sequence[_Flow], carried: MappingType[str, int]) -> set[str]:
    """Return the wires whose utilisation counts: those the topology names that carry data.

    A flow that passes none of these has the slowest wire of its way as bottleneck; among equals the one
    that carries most flows, then the one nearest to the receiver.
    """
    named = {wire.name for wire in net.wires if wire.bottleneck and wire.name in carried}
    chosen = set(named)
    for flow in flows:
        limiting = [
            (-rate, carried[wire.name], place, wire.name)
            for place, wire in enumerate(flow.forward)
            if (rate := _rate(wire.link)) is not None and wire.bottleneck is not False
        ]
        if limiting and not any(wire.name in named for wire in flow.forward):
            chosen.add(max(limiting)[3])
    return chosen


def _rate(link: Link) -> int | None:
    """Return what limits a link in the long run: the least of its rate, its shaper's and CAKE's bandwidth."""
    shaper = link.shaper.rate if link.shaper else None
    cake = link.queue.bandwidth if isinstance(link.queue, Cake) else None
    return min((rate for rate in (link.rate, shaper, cake) if rate is not None), default=None)


def _overhead(link: Link) -> int:
    """Return the bytes that a link counts beside an IP packet: as written, or as tc or mahimahi do."""
    if link.overhead is not None:
        return link.overhead
    return companion_files.TRACE_OVERHEAD if link.has_trace else ETHERNET_HEADER


def _transmission_ns(link: Link, packet: int) -> int:
    """Return the time a packet of so many IP bytes takes at the link's rate, rounded up."""
    return 0 if link.rate is None else -((packet + _overhead(link)) * 8 * 10**9 // -link.rate)


def _in_unit(value: object, param: Param) -> object:
    """Return a parameter's value, or its default, as the Scenario holds it."""
    if value is None:
        value = param.default
    if param.unit == "bool" and value is not None:
        return bool(value)
    if param.unit == "choice" and isinstance(value, int):
        return param.choices[value]
    if isinstance(value, Fraction):
        return int(value * (1000 if param.unit == "milli" else 10**9))
    return value


def _red_thresholds(queue: dict[str, Any], path: Path) -> None:
    """Fill in what RED derives from its limit where it is not given, as tc does (iproute2 tc/q_red.c)."""
    if queue["limit_bytes"] is None:
        raise Misplaced(path, BadValue(problem="missing; queue red needs a limit in bytes", key="limit"))
    if queue["max_bytes"] is None:
        queue["max_bytes"] = 3 * queue["min_bytes"] if queue["min_bytes"] else queue["limit_bytes"] // 4
    if queue["min_bytes"] is None:
        queue["min_bytes"] = queue["max_bytes"] // 3
    if queue["burst_packets"] is None:
        queue["burst_packets"] = (2 * queue["min_bytes"] + queue["max_bytes"]) // (3 * queue["avpkt_bytes"])
    if queue["min_bytes"] >= queue["max_bytes"]:
        found, most = (units.format_size(queue[key]) for key in ("min_bytes", "max_bytes"))
        raise Misplaced(path, BadValue(found, f"less than max, {most}", key="min"))
    fewest = -(-queue["min_bytes"] // queue["avpkt_bytes"])
    if queue["burst_packets"] < fewest:
        expected = f"at least min / avpkt, {fewest}p, or the average has no weight"
        raise Misplaced(path, BadValue(f"{queue['burst_packets']}p", expected, key="burst"))


def _check_room(size: int, link: Link, path: Path) -> None:
    """Refuse a burst or memory in which no full packet of the link fits: nothing would ever pass."""
    if size < (packet := link.mtu + _overhead(link)):
        expected = f"at least {units.format_size(packet)}, a full packet of the link"
        raise Misplaced(path, BadValue(units.format_size(size), expected))


def _check_tso(nic: Nic, mss: int, path: Path) -> None:
    """Refuse a largest super-packet that is none."""
    if nic.tso_max is None:
        return
    if not nic.tso:
        raise Misplaced((*path, "tso_max"), BadValue(problem="needs tso: true beside it"))
    if not mss <= nic.tso_max <= TSO_MAX:
        expected = f"a size from {units.format_size(mss)}, the MSS, to {units.format_size(TSO_MAX)}"
        raise Misplaced((*path, "tso_max"), BadValue(units.format_size(nic.tso_max), expected))


def _fill_in(resolved: dict[str, Any], queue: AnyQueue, link: Link) -> None:
    """Fill in what Linux derives from the device where it is not given (net/sched/sch_*.c)."""
    packet = link.mtu + _overhead(link)
    match queue:
        case Bfifo(limit=None):
            # fifo_init: the transmit queue's length times psched_mtu(), which is with the Ethernet header.
            resolved["limit_bytes"] = TX_QUEUE * (link.mtu + ETHERNET_HEADER)
        case FqCodel(quantum=None) | FqPie(quantum=None):
            resolved["quantum_bytes"] = packet  # fq_codel_init, fq_pie_init: psched_mtu()
        case Cake(memlimit=None):
            resolved["memlimit_bytes"] = _cake_memory(resolved["bandwidth_bps"], resolved["rtt_ns"], packet)


def _cake_memory(bandwidth: int | None, rtt: int, packet: int) -> int:
    """Return CAKE's memory in bytes: four intervals at its bandwidth (b/s, ns), at least 4 MiB, and at most
    10240 packets (cake_reconfigure)."""
    most = 10_240 * packet
    if bandwidth is None:
        return most
    rate = max(bandwidth // 8, 64)  # bytes per second (cake_set_rate)
    return min(max(4 * rate * rtt // 10**9, 4 << 20), most)


def _sampling(value: int | str) -> dict[str, Any]:
    if value == "off":
        return {"kind": "off"}
    return {"kind": "interval", "interval_ns": value} if isinstance(value, int) else {"kind": "per-ack"}


def _coalesce(host: Host) -> dict[str, Any] | None:
    """Return the interrupt moderation as written, or what aggregation needs to have anything to merge."""
    written = host.nic.coalesce
    aggregates = host.nic.gro or host.nic.lro
    if written is None and not aggregates and host.ack_every is None:
        return None
    time = ACK_EVERY_WAIT if host.ack_every else COALESCE_TIME
    frames = COALESCE_FRAMES if aggregates else 0
    if written is not None:
        time = time if written.time is None else written.time
        frames = frames if written.frames is None else written.frames
    return {
        "time_ns": time,
        "frames": frames,
        "gro_flush_timeout_ns": (written and written.gro_flush_timeout) or 0,
        "napi_defer_hard_irqs": (written and written.napi_defer_hard_irqs) or 0,
    }


def _noise(noise: Noise | None) -> dict[str, Any] | None:
    if noise is None:
        return None
    processing, stall = noise.processing, noise.stall
    return {
        "processing": {"mean_ns": processing.mean, "sd_ns": processing.sd} if processing else None,
        "stall": {"every_ns": stall.every, "length_ns": stall.length} if stall else None,
    }


def _tx_queue(nic: Nic) -> int:
    return TX_QUEUE if nic.tx_queue is None else nic.tx_queue


def _buffer(value: int | str) -> int | None:
    return value if isinstance(value, int) else None


def _sysctl_value(word: str, stack: Stack, name: str, path: Path) -> int:
    sysctl = stack.sysctls[name]
    value = int(units.parse_bool(word)) if word in {"true", "false", "on", "off"} else int(word)
    if not sysctl.min <= value <= sysctl.max:
        raise Misplaced(path, BadValue(shown(word), f"{name} from {sysctl.min} to {sysctl.max}"))
    return value
