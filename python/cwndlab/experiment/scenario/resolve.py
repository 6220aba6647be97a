"""From one cell of an experiment to its Scenario: every name known, all numbers integers, no default left."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, cast

from cwndlab.contract import scenario as contract
from cwndlab.contract.scenario import Measure, Record, Sampling, Scenario
from cwndlab.errors import nearest, one_of, shown, together
from cwndlab.experiment import locate, units
from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.locate import Misplaced, Path
from cwndlab.experiment.plan import MAX_RECORDED
from cwndlab.experiment.scenario import defaults, topology
from cwndlab.experiment.scenario.flows import Flows
from cwndlab.experiment.scenario.hosts import Hosts
from cwndlab.experiment.scenario.links import Links
from cwndlab.experiment.scenario.memo import Memo
from cwndlab.experiment.scenario.path_state import Moment
from cwndlab.experiment.scenario.resolver import PlannedFlow
from cwndlab.experiment.schema import Flow, Spec
from cwndlab.experiment.schema.section import told_apart
from cwndlab.experiment.sections import Rows
from cwndlab.experiment.support import Support
from cwndlab.experiment.units import BadValue
from cwndlab.experiment.yaml_nodes import Mapping as Tree

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
    keys: Mapping[str, Hashable] = field(default_factory=dict)
    """What tells parts of the Scenario apart from those of other cells, by key; of the links one for each."""


def resolve(spec: Spec, tree: Tree, catalogue: Catalogue, support: Support) -> Resolved:
    """Return the Scenario of a cell; raises `ExperimentError` with the place in ``tree`` of what is wrong."""
    refused = [
        locate.fault(tree, path, BadValue(problem=f"not supported by testbed {support.testbed} yet"))
        for path in support.refused(spec)
    ]
    if refused:
        raise together(refused)
    try:
        return Resolving(tree.place.file, catalogue, support).resolve(spec)
    except Misplaced as misplaced:
        raise locate.placed(tree, misplaced) from None


@dataclass(frozen=True, slots=True)
class _Ends:
    """What the hosts and flows of a Scenario need of its network: flows without their ways, MTUs, wires."""

    flows: tuple[PlannedFlow, ...]
    mtus: tuple[tuple[str, int], ...]
    wires: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Network:
    """What of a Scenario follows from the network, and from what it asks of hosts and flows."""

    ends: _Ends
    scenario: dict[str, Any]
    schedule: list[contract.Change] | Misplaced
    """Or what is wrong with it, which is said after what is wrong with hosts and flows."""
    notes: tuple[str, ...]
    link_keys: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class _Sides:
    """Hosts and flows of a Scenario, and what is to be said of them."""

    hosts: list[contract.Host]
    flows: list[contract.Flow]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


_OF_HOSTS = ("count", "mss", "nic", "egress")
_OF_FLOWS = ("name", "from_", "to", "app", "start", "stop", "bytes", "count", "stagger")
"""What the network asks of hosts and of flows; the rest of them changes nothing in it."""


class Resolving:
    """Resolves cells, and what they have in common once.

    Pieces of a Scenario are kept by the rows of the axes that touch what they are made of.
    """

    def __init__(self, file: str, catalogue: Catalogue, support: Support) -> None:
        """`file` is the experiment's."""
        self._of = (file, catalogue, support)
        self._live = support.live
        self._checked: Memo[None] = Memo()
        self._asked: Memo[Hashable] = Memo()
        self._networks: Memo[_Network] = Memo()
        self._measures: Memo[Measure] = Memo()
        self._records: Memo[Record] = Memo()
        self._sides: Memo[_Sides] = Memo()
        self._links: Memo[contract.Link] = Memo()

    def resolve(self, spec: Spec, rows: Rows = MappingProxyType({})) -> Resolved:
        """Return the Scenario of a cell; raises `Misplaced` for what is found wrong first.

        `rows` tell its content apart from other cells', as `cwndlab.experiment.sections` gives them.
        """
        hosts, flows, network = (rows.get(key, ()) for key in ("hosts", "flows", "network"))
        self._checked.of(hosts, lambda: self._resolver(spec).check_hosts())
        asked = self._asked.of((hosts, flows), lambda: _asked(spec))
        cell = (network, spec.duration, spec.start_jitter, asked)
        net = self._networks.of(cell, lambda: self._resolver(spec, cell).network())
        window = (rows.get("measure", ()), spec.duration)
        measure = self._measures.of(window, lambda: self._resolver(spec).measure())
        record = self._records.of(
            (rows.get("record", ()), net.ends.wires, hosts),
            lambda: self._resolver(spec).record(net.ends.wires),
        )
        ends = (net.ends, hosts, flows)
        sides = self._sides.of(ends, lambda: self._resolver(spec).sides(net.ends))
        if isinstance(net.schedule, Misplaced):
            raise net.schedule
        scenario: Scenario = {
            "version": VERSION,
            "experiment": spec.experiment,
            "seed": spec.seed,
            "repeat": 0,
            "duration_ns": spec.duration,
            "start_jitter_ns": net.scenario["start_jitter_ns"],
            "measure": measure,
            "record": record,
            "hosts": sides.hosts,
            "nodes": net.scenario["nodes"],
            "links": net.scenario["links"],
            "flows": sides.flows,
            "schedule": net.schedule,
        }
        if self._live is not None:
            models = (spec.flows[int(flow.path[1])].app for flow in net.ends.flows)
            live = self._live(spec, list(zip(models, scenario["flows"], strict=True)))
            scenario = cast(Scenario, {**scenario, "live": live})
        keys = {"hosts": ends, "flows": ends, "links": net.link_keys, "measure": window}
        limit = spec.record.limit or MAX_RECORDED
        return Resolved(scenario, net.notes + sides.notes, sides.warnings, limit, keys)

    def _resolver(self, spec: Spec, cell: Hashable = None) -> _Resolver:
        return _Resolver(spec, *self._of, cell=cell, known_links=self._links)


def _asked(spec: Spec) -> Hashable:
    """Return what the network asks of hosts and flows."""
    hosts = (
        (name, *(told_apart(getattr(host, key)) for key in _OF_HOSTS)) for name, host in spec.hosts.items()
    )
    flows = (told_apart(getattr(flow, name)) for flow in spec.flows for name in _OF_FLOWS)
    return (*hosts, *flows)


class _Resolver(Hosts, Links, Flows):
    """Resolves a cell."""

    def network(self) -> _Network:
        """Return what follows from the network."""
        spec = self.spec
        everyone = topology.all_copies(spec.hosts)
        net = topology.expand(spec.network, spec.hosts)
        self.check_switches(net)
        flows = self.flows(net, everyone)
        start = Moment(0, flows, everyone, {wire.name: wire.link for wire in net.wires})
        scenario = {
            "links": self.links(net, start),
            "start_jitter_ns": self.start_jitter(start),
            "nodes": [{"name": name, "switch": self.shared_memory(name)} for name in net.nodes],
        }
        schedule: list[contract.Change] | Misplaced
        try:
            schedule = self.schedule(net, start)
        except Misplaced as misplaced:
            schedule = misplaced
        mtus = {wire.from_: wire.link.mtu for wire in reversed(net.wires)}
        ends = _Ends(
            # Which flow of the file each is says its path; the model may be another cell's.
            tuple(replace(flow, model=cast(Flow, None), forward=(), back=()) for flow in flows),
            tuple(mtus.items()),
            tuple(wire.name for wire in net.wires),
        )
        return _Network(ends, scenario, schedule, tuple(self.notes), tuple(self.link_keys))

    def sides(self, ends: _Ends) -> _Sides:
        """Return hosts and flows of the Scenario, and notes and warnings on them."""
        spec, mtus = self.spec, dict(ends.mtus)
        flows = [replace(flow, model=spec.flows[int(flow.path[1])]) for flow in ends.flows]
        raised = self.raised(flows)
        hosts = [
            self.host(name, host, mtus.get(name, 1500), raised.get(name, {}))
            for name, host in topology.all_copies(spec.hosts).items()
        ]
        planned = [self.flow(flow) for flow in flows]
        notes = (*self.notes, *defaults.notes(self.unnamed, self.catalogue))
        warnings = dict.fromkeys(defaults.warnings(self.unnamed, spec.hosts, self.catalogue))
        return _Sides(hosts, planned, notes, tuple(warnings))

    def start_jitter(self, start: Moment) -> int:
        """Return the spread of starts: as written, or one round trip over the emptiest longest path."""
        if self.spec.start_jitter is not None:
            return self.spec.start_jitter
        return max(start.empty_rtt_ns(flow) for flow in start.flows)

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

    def record(self, links: Sequence[str]) -> Record:
        record, everyone = self.spec.record, topology.all_copies(self.spec.hosts)
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


def _sampling(value: int | str) -> Sampling:
    if value == "off":
        return {"kind": "off"}
    return {"kind": "interval", "interval_ns": value} if isinstance(value, int) else {"kind": "per-ack"}
