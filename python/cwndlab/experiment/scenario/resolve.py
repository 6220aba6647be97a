"""From one cell of an experiment to its Scenario: every name known, all numbers integers, no default left."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar, cast

from cwndlab.contract import scenario as contract
from cwndlab.contract.scenario import Measure, Record, Sampling, Scenario
from cwndlab.errors import nearest, one_of, shown, together
from cwndlab.experiment import locate, units
from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.locate import Misplaced, Path
from cwndlab.experiment.plan import HASH_DIGITS, MAX_RECORDED, canonical
from cwndlab.experiment.rows import ANY, NO_ROWS, Axes, Rows
from cwndlab.experiment.scenario import defaults
from cwndlab.experiment.scenario.flows import Flows
from cwndlab.experiment.scenario.hosts import Hosts
from cwndlab.experiment.scenario.links import OF_SWITCHES, Links
from cwndlab.experiment.scenario.memo import Memo, Piece, around
from cwndlab.experiment.scenario.path_state import Moment
from cwndlab.experiment.scenario.queries import packet_ns
from cwndlab.experiment.scenario.resolver import Known, Traffic
from cwndlab.experiment.scenario.topology import Paths, Topology, Wiring, all_copies, expand, origin
from cwndlab.experiment.schema import Spec
from cwndlab.experiment.support import Support
from cwndlab.experiment.units import BadValue
from cwndlab.experiment.yaml_nodes import Mapping as Tree

_T = TypeVar("_T")

VERSION = 1
"""Version of the Scenario format that is written."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A Scenario with ``repeat`` 0, sentences on what resolving decided, and on what to check before trusting
    the run."""

    scenario: Scenario
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    limit: int
    """Bytes of each capture and each table at most."""
    text: tuple[str, str]
    """Canonical JSON of the Scenario before and after the number of the repeat."""
    ends: Hashable
    """Equal for Scenarios with the same hosts, flows and window, and links between the same ends."""
    path: Hashable
    """Equal only for Scenarios that are the same but for congestion controls and sysctls."""
    rates: Hashable
    """Equal only for Scenarios that differ in congestion controls, sysctls and delays of links at most."""

    def hashes(self, repeats: int) -> Iterator[str]:
        """Yield the `scenario_hash` of each repeat."""
        before, after = self.text
        begun = hashlib.sha256(before.encode())
        for repeat in range(repeats):
            whole = begun.copy()
            whole.update(f"{repeat}{after}".encode())
            yield whole.hexdigest()[:HASH_DIGITS]


def resolve(spec: Spec, tree: Tree, catalogue: Catalogue, support: Support, repeat: int = 1) -> Resolved:
    """Return the Scenario of a cell; raises `ExperimentError` with the place in ``tree`` of what is wrong."""
    refused = [
        locate.fault(tree, path, BadValue(problem=f"not supported by testbed {support.testbed} yet"))
        for path in support.refused(spec)
    ]
    if refused:
        raise together(refused)
    try:
        return Resolving(tree.place.file, catalogue, support, repeat).resolve(spec)
    except Misplaced as misplaced:
        raise locate.placed(tree, misplaced) from None


@dataclass(frozen=True, slots=True)
class _Network:
    """Parts of a Scenario that follow from the network, and from the ways that flows take through it."""

    links: Piece[list[contract.Link]]
    nodes: Piece[list[contract.Node]]
    start_jitter_ns: int
    phase_jitter_ns: dict[str, int]
    schedule: list[contract.Change] | Misplaced
    """Or what is wrong with it, which is said after what is wrong with hosts and flows."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Frame:
    """A Scenario but for hosts, flows and what only live testbeds know."""

    key: Hashable
    scenario: Scenario
    """With hosts and flows that are empty."""
    text: tuple[str, ...]
    """Canonical JSON around what is missing: flows, hosts, what only live testbeds know, and the repeat."""
    topology: Topology
    traffic: Traffic
    schedule: Misplaced | None
    """Fault of the schedule, if it has one: faults of hosts and flows are said before."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Sides:
    """Hosts and flows of a Scenario, and what is to be said of them."""

    hosts: Piece[list[contract.Host]]
    flows: Piece[list[contract.Flow]]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


_OF_CABLES: Paths = (("network",), ("hosts", ANY, "nic"), ("hosts", ANY, "count"))
"""Keys of the file that the topology is made of."""
_OF_TRAFFIC: Paths = (
    ("duration",),
    ("network", "family"),
    *(("hosts", ANY, key) for key in ("count", "mss", "family", "stack")),
    *(("flows", ANY, key) for key in ("name", "from", "to", "app", "start", "stop")),
    *(("flows", ANY, key) for key in ("bytes", "count", "stagger")),
)
"""Keys of the file that flows, their ends and their ways are made of, besides the topology's shape."""
OF_NETWORK: Paths = (
    *_OF_CABLES,
    ("hosts", ANY, "egress"),
    ("duration",),
    ("start_jitter",),
    ("phase_jitter",),
)
"""Keys of the file that links and their schedule are made of, besides the ways of flows."""


_OF_PATH: Paths = (
    ("flows",),
    *(("hosts", ANY, key) for key in ("stack", "hz", "ecn", "sndbuf", "rcvbuf", "ack_every", "cheats")),
    *(("hosts", ANY, key) for key in ("ingress", "noise")),
)
"""Keys of the file that decide, besides network, traffic and window, how packets get from end to end."""


_DELAYS: Paths = tuple(("network", *(ANY,) * steps, "delay") for steps in (2, 3))
_OF_WINDOW: Paths = (("measure",), ("duration",))
_OF_FRAME: Paths = (*_OF_TRAFFIC, *OF_NETWORK, *_OF_WINDOW, ("record",))
"""Keys of the file that all of a Scenario but hosts and flows is made of, besides the ways of flows."""


class Resolving:
    """Resolves cells, and what they have in common once.

    Parts of a Scenario are kept by the rows of the axes that touch what they are made of.
    """

    def __init__(
        self, file: str, catalogue: Catalogue, support: Support, repeat: int = 1, axes: Axes = NO_ROWS.axes
    ) -> None:
        """`file` is the experiment's, `repeat` how often each cell is run; `axes` are those of its sweep."""
        self._of = (file, catalogue, support)
        self._repeat = repeat
        self._live = support.live
        self._known = Known()
        self._frames: Memo[_Frame] = Memo()
        self._topologies: Memo[Topology] = Memo()
        self._networks: Memo[_Network] = Memo()
        self._measures: Memo[Piece[Measure]] = Memo()
        self._records: Memo[Piece[Record]] = Memo()
        self._sides: Memo[_Sides] = Memo()
        self._texts: dict[str, str] = {}
        """JSON of the parts that are the same in all cells."""
        self._of_hosts = axes.touching((("hosts",),))
        self._of_sides = axes.touching((("hosts",), ("flows",)))
        self._of_frame = axes.touching(_OF_FRAME)
        self._of_path = axes.touching(_OF_PATH)
        self._of_rates = axes.touching(_OF_FRAME + _OF_PATH, but=_DELAYS)
        self._of_window = axes.touching(_OF_WINDOW)

    def resolve(self, spec: Spec, rows: Rows = NO_ROWS) -> Resolved:
        """Return the Scenario of a cell; raises `Misplaced` for what is found wrong first.

        `rows` tell its content apart from other cells'.
        """
        cell = _Resolver(spec, *self._of, rows, self._known)
        self._known.checked.of(rows.at(self._of_hosts), cell.check_hosts)
        key = rows.at(self._of_frame)
        frame = self._frames.of(key, self._frame, cell, key)
        ends: Hashable = (frame.traffic.key, rows.at(self._of_sides))
        sides = self._sides.of(ends, cell.sides, frame.topology, frame.traffic)
        if frame.schedule is not None:
            raise frame.schedule
        scenario: Scenario = {**frame.scenario, "hosts": sides.hosts.value, "flows": sides.flows.value}
        missing = [sides.flows.text, sides.hosts.text]
        if self._live is not None:
            models = (spec.flows[int(flow.path[1])].app for flow in frame.traffic.flows)
            live = self._live(spec, list(zip(models, scenario["flows"], strict=True)))
            scenario = cast(Scenario, {**scenario, "live": live})
            missing.append(canonical(live))
        *before, after = frame.text
        text = "".join(chain.from_iterable(zip(before, (*missing, ""), strict=True)))
        limit = spec.record.limit or MAX_RECORDED
        said = frame.notes + sides.notes
        path = (key, frame.traffic.key, rows.at(self._of_path))
        rates = (frame.traffic.key, rows.at(self._of_rates))
        ends = (ends, rows.at(self._of_window))
        return Resolved(scenario, said, sides.warnings, limit, (text, after), ends, path, rates)

    def _frame(self, cell: _Resolver, key: Hashable) -> _Frame:
        """Return what a Scenario is besides hosts and flows."""
        spec, rows = cell.spec, cell.rows
        topology = self._topologies.of(rows.of(*_OF_CABLES), cell.topology)
        shape = self._known.number(topology.shape)
        asked = (shape, rows.of(*_OF_TRAFFIC))
        traffic = self._known.traffic.of(asked, cell.traffic, asked, topology)
        network = (rows.of(*OF_NETWORK), traffic.ways)
        net = self._networks.of(network, cell.network, topology, traffic, self._repeat)
        measure = self._measures.of(rows.of(*_OF_WINDOW), cell.piece, cell.measure)
        recorded = (rows.of(("record",), ("hosts", ANY, "count")), shape)
        record = self._records.of(recorded, cell.piece, cell.record, topology)
        refused = net.schedule if isinstance(net.schedule, Misplaced) else None
        scenario: Scenario = {
            "version": VERSION,
            "experiment": spec.experiment,
            "seed": spec.seed,
            "repeat": 0,
            "duration_ns": spec.duration,
            "start_jitter_ns": net.start_jitter_ns,
            "measure": measure.value,
            "record": record.value,
            "hosts": [],
            "nodes": net.nodes.value,
            "links": net.links.value,
            "flows": [],
            "schedule": [] if isinstance(net.schedule, Misplaced) else net.schedule,
        }
        if net.phase_jitter_ns:
            scenario["phase_jitter_ns"] = net.phase_jitter_ns
        pieces: dict[str, Piece[Any]] = {"measure": measure, "record": record}
        pieces |= {"nodes": net.nodes, "links": net.links}
        if not self._texts:
            self._texts = {key: canonical(scenario[key]) for key in ("version", "experiment", "seed")}
        known = self._texts | {key: piece.text for key, piece in pieces.items()}
        known |= {"duration_ns": str(spec.duration), "start_jitter_ns": str(net.start_jitter_ns)}
        if not scenario["schedule"]:
            known["schedule"] = "[]"
        missing = ("flows", "hosts", *(() if self._live is None else ("live",)), "repeat")
        text = around(scenario, known, missing)
        return _Frame(key, scenario, text, topology, traffic, refused, net.notes)


class _Resolver(Hosts, Links, Flows):
    """Resolves a cell."""

    def topology(self) -> Topology:
        """Return the nodes and cables of the network."""
        net = expand(self.spec.network, self.spec.hosts, Wiring(self.rows, self.known.cables))
        self.check_switches(net)
        return net

    def network(self, net: Topology, traffic: Traffic, repeat: int) -> _Network:
        """Return what follows from the network."""
        by_name = {name: link for cables in net.cables for name, link in cables.links.items()}
        start = Moment(0, traffic.pairs, all_copies(self.spec.hosts), by_name)
        links = self.links(net, traffic, start)
        jitter = self.start_jitter(start)
        nodes = self.known.nodes.of((net.nodes, self.rows.of(*OF_SWITCHES)), self.piece, self.nodes, net)
        schedule: list[contract.Change] | Misplaced
        try:
            schedule = self.schedule(net, start, [flow.name for flow in traffic.flows])
        except Misplaced as misplaced:
            schedule = misplaced
        phases = self.phase_jitter(links.value, traffic, repeat)
        notes = (*links.notes, *self.notes)
        self.notes.clear()
        return _Network(links, nodes, jitter, phases, schedule, notes)

    def nodes(self, net: Topology) -> list[contract.Node]:
        """Return the nodes between the hosts."""
        return [{"name": name, "switch": self.shared_memory(name)} for name in net.nodes]

    def sides(self, net: Topology, traffic: Traffic) -> _Sides:
        """Return hosts and flows of the Scenario, and notes and warnings on them."""
        everyone, flows = all_copies(self.spec.hosts), traffic.flows
        mtus: dict[str, int] = {}
        for _, end, _, mtu in chain.from_iterable(net.shape):
            mtus.setdefault(end, mtu)
        raised = self.raised(flows)
        hosts = [
            self.host_piece(name, host, mtus.get(name, 1500), raised.get(name, {}))
            for name, host in everyone.items()
        ]
        planned = [self.flow_piece(flow) for flow in flows]
        unnamed: dict[str, dict[str, None]] = {}
        for flow, piece in zip(flows, planned, strict=True):
            if piece.unnamed:
                unnamed.setdefault(piece.unnamed, {})[origin(flow.from_, self.spec.hosts)] = None
        senders = {stack: list(names) for stack, names in unnamed.items()}
        said = [note for piece in hosts for note in piece.notes]
        said += [note for piece in planned for note in piece.notes]
        notes = (*said, *defaults.notes(senders, self.catalogue))
        warnings = dict.fromkeys(defaults.warnings(senders, self.spec.hosts, self.catalogue))
        return _Sides(_listed(hosts), _listed(planned), notes, tuple(warnings))

    def start_jitter(self, start: Moment) -> int:
        """Return the spread of starts: as written, or one round trip over the emptiest longest path."""
        if self.spec.start_jitter is not None:
            return self.spec.start_jitter
        return max(map(start.empty_rtt_ns, start.flows))

    def phase_jitter(self, links: Sequence[contract.Link], traffic: Traffic, repeat: int) -> dict[str, int]:
        """Return by the link that leaves a host how far its phase is spread: as written, or with repeats the
        time of a packet at the slowest link of its flows; the longest of these.
        """
        written, by_name = self.spec.phase_jitter, {link["name"]: link for link in links}
        if self.support.draws_by_chance:
            if written is not None:
                bed = self.support.testbed
                self.notes.append(
                    f"phase_jitter: nothing to testbed {bed}, whose machines have phases of their own"
                )
            return {}
        if written is None and repeat == 1:
            return {}
        found: dict[str, int] = {}
        for flow in traffic.pairs:
            spread = written
            if spread is None:
                spread = packet_ns([by_name[name] for name in flow.forward])
            for first in (flow.forward[0], flow.back[0]):
                found[first] = max(spread, found.get(first, 0))
        return {name: spread for name, spread in found.items() if spread}

    def measure(self) -> Measure:
        window, duration = self.spec.measure, self.spec.duration
        if window.from_ >= duration:
            self.beyond(window.from_, ("measure", "from"))
        to = duration if window.to is None else window.to
        if to > duration:
            self.beyond(to, ("measure", "to"))
        if to <= window.from_:
            expected = f"a time after from, {units.format_time(window.from_)}"
            raise Misplaced(("measure", "to"), BadValue(shown(units.format_time(to)), expected))
        asked: Measure = {"from_ns": window.from_, "to_ns": to}
        if window.time_to is not None:
            asked["time_to_bps"] = window.time_to
        return asked

    def record(self, net: Topology) -> Record:
        record, everyone = self.spec.record, all_copies(self.spec.hosts)
        links = [name for name, *_ in chain.from_iterable(net.shape)]
        captures: dict[str, int] = {}
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


def _listed(pieces: Sequence[Piece[_T]]) -> Piece[list[_T]]:
    """Return the list of some parts of a Scenario as one."""
    text = f"[{','.join([piece.text for piece in pieces])}]"
    return Piece([piece.value for piece in pieces], _text=text)


def _sampling(value: int | str) -> Sampling:
    if value == "off":
        return {"kind": "off"}
    return {"kind": "interval", "interval_ns": value} if isinstance(value, int) else {"kind": "per-ack"}
