"""From one cell of an experiment to its Scenario: every name known, all numbers integers, no default left."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from typing import cast

from cwndlab.contract.scenario import Measure, Record, Sampling, Scenario
from cwndlab.errors import nearest, one_of, shown, together
from cwndlab.experiment import locate, units
from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.locate import Misplaced, Path
from cwndlab.experiment.schema import (
    Host,
    Spec,
)
from cwndlab.experiment.support import Support
from cwndlab.experiment.units import BadValue
from cwndlab.experiment.yaml_nodes import Mapping
from cwndlab.scenario import defaults, topology
from cwndlab.scenario.flows import Flows
from cwndlab.scenario.hosts import Hosts
from cwndlab.scenario.links import Links
from cwndlab.scenario.moment import Moment
from cwndlab.scenario.topology import Topology

VERSION = 1
"""Version of the Scenario format that is written."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A Scenario with ``repeat`` 0, sentences on what resolving decided, and on what to check before trusting
    the run."""

    scenario: Scenario
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def resolve(spec: Spec, tree: Mapping, catalogue: Catalogue, support: Support) -> Resolved:
    """Return the Scenario of a cell; raises `ExperimentError` with the place in ``tree`` of what is wrong."""
    refused = [
        locate.fault(tree, path, BadValue(problem=f"not supported by testbed {support.testbed} yet"))
        for path in support.refused(spec)
    ]
    if refused:
        raise together(refused)
    try:
        return _Resolver(spec, tree.place.file, catalogue, support).resolve()
    except Misplaced as misplaced:
        raise locate.placed(tree, misplaced) from None


class _Resolver(Hosts, Links, Flows):
    """Resolves a cell."""

    def resolve(self) -> Resolved:
        spec = self.spec
        self.check_hosts()
        everyone = topology.all_copies(spec.hosts)
        net = topology.expand(spec.network, spec.hosts)
        self.check_switches(net)
        flows = self.flows(net, everyone)
        start = Moment(0, flows, everyone, {wire.name: wire.link for wire in net.wires})
        links = self.links(net, start)
        mtus = {wire.from_: wire.link.mtu for wire in reversed(net.wires)}
        raised = self.raised(flows)
        scenario: Scenario = {
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
            live = self.support.live(spec, list(zip(models, scenario["flows"], strict=True)))
            scenario = cast(Scenario, {**scenario, "live": live})
        self.notes += defaults.notes(self.unnamed, self.catalogue)
        warnings = dict.fromkeys(defaults.warnings(self.unnamed, spec.hosts, self.catalogue))
        return Resolved(scenario, tuple(self.notes), tuple(warnings))

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
        return {"from_ns": window.from_, "to_ns": to}

    def record(self, net: Topology, everyone: MappingType[str, Host]) -> Record:
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


def _sampling(value: int | str) -> Sampling:
    if value == "off":
        return {"kind": "off"}
    return {"kind": "interval", "interval_ns": value} if isinstance(value, int) else {"kind": "per-ack"}
