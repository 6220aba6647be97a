"""From flows of the experiment file to those of the Scenario, and their applications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from collections.abc import Mapping as MappingType
from dataclasses import replace
from typing import Any, cast

from cwndlab.contract import scenario as contract
from cwndlab.contract.app import App
from cwndlab.errors import nearest, one_of, shown
from cwndlab.experiment import draws, units
from cwndlab.experiment.catalogue import DATAGRAMS, Stack
from cwndlab.experiment.draws import Drawn
from cwndlab.experiment.locate import Misplaced, Path
from cwndlab.experiment.scenario import companion_files, rates, topology
from cwndlab.experiment.scenario.graph import Routes
from cwndlab.experiment.scenario.memo import Piece
from cwndlab.experiment.scenario.resolver import PlannedFlow, Resolver, Traffic
from cwndlab.experiment.scenario.topology import Topology, Wire, origin
from cwndlab.experiment.schema import Flow, Host
from cwndlab.experiment.schema.parameters import Kinded
from cwndlab.experiment.units import BadValue

DATAGRAM_LESS = 12
"""Bytes by which the header of UDP, or of an ICMP echo, is shorter than TCP's."""
MAX_FLOWS = 100_000
"""Most flows of one run, copies included."""


_OF_SENDER = ("stack", "cc", "cc_params", "sndbuf")
"""Keys that a flow takes from its sender."""
_OF_RECEIVER = ("stack", "rcvbuf")
"""Keys that a flow takes from its receiver: of the stack, whether it speaks the same protocol."""


class Flows(Resolver):
    """Resolves flows."""

    def traffic(self, key: Hashable, net: Topology) -> Traffic:
        """Return all flows of the run, and what their data takes.

        Besides the flows and the copies of hosts they follow from the wires' ends and MTUs.
        """
        flows = self.flows(net, topology.all_copies(self.spec.hosts))
        carried = Counter(name for flow in flows for name in flow.forward)
        pairs = {(flow.from_, flow.to): flow for flow in flows}
        ways = self.known.number((net.shape, tuple(pairs), tuple(carried.items())))
        return Traffic(key, ways, tuple(flows), tuple(pairs.values()), carried)

    def flows(self, net: Topology, everyone: MappingType[str, Host]) -> list[PlannedFlow]:
        """Return all flows of the run, copies and connections of loadlatency scenarios included."""
        routes = self.known.routes.of(net.shape, Routes, (each[:3] for of in net.shape for each in of))
        wires = {wire.name: wire for wire in net.wires}
        flows: list[PlannedFlow] = []
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
                flow = PlannedFlow(
                    name if len(pairs) == 1 else f"{name}.{number + 1}",
                    path, from_, to, start, _way(routes, from_, to, path), _way(routes, to, from_, path),
                )  # fmt: skip
                parts = self.load(flow) if model.app.kind == "loadlatency" else [flow]
                for part in parts:
                    self.check_packet_size(part, everyone, wires)
                flows += parts
        return flows

    def load(self, flow: PlannedFlow) -> list[PlannedFlow]:
        """Return the connections of a loadlatency scenario: the pinger, and after ``idle`` the data.

        Uploads are sent by the flow's ``from``, the client; downloads by its ``to``.
        """
        model = self.model(flow)
        app = model.app
        idle: int = self.catalogue.apps[app.kind].param("idle").resolved(app.given("idle"))
        begins = flow.start_ns + idle
        if begins >= (self.spec.duration if model.stop is None else model.stop):
            bad = BadValue(
                shown(units.format_time(idle)),
                "a time that leaves some for the load before the flow ends",
                key="idle",
            )
            raise Misplaced((*flow.path, "app"), bad)
        uploads, downloads = self.catalogue.load_scenarios[app.given("scenario") - 1]
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
        """Refuse times, bytes and applications that a flow cannot have."""
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
        if flow.bytes is not None and flow.app.kind != "bulk":
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
        """Return the hosts that a name stands for: one, or the copies of one."""
        if name in everyone:
            return [name]
        if name in self.spec.hosts:
            return topology.copies(name, self.spec.hosts[name])
        raise Misplaced(
            path, BadValue(shown(name), f"a host: {one_of(self.spec.hosts)}", nearest(name, self.spec.hosts))
        )

    def check_packet_size(
        self, flow: PlannedFlow, everyone: MappingType[str, Host], wires: MappingType[str, Wire]
    ) -> None:
        """Refuse a path whose MTU cannot carry what two ends agree on, where they would not find out."""
        forward, back = ([wires[name] for name in way] for way in (flow.forward, flow.back))
        families = [self.family(everyone[end]) for end in (flow.from_, flow.to)]
        if families[0] != families[1]:
            expected = f"a host of {families[0]}, as {flow.from_} is, where {flow.to} is of {families[1]}"
            raise Misplaced((*flow.path, "to"), BadValue(shown(flow.to), expected))
        headers = self.headers(everyone[flow.from_])
        mss = min(
            everyone[end].mss or way[0].link.mtu - headers
            for end, way in ((flow.from_, forward), (flow.to, back))
        )
        app = self.model(flow).app
        if app.kind in DATAGRAMS:
            payload = self.catalogue.apps[app.kind].param("payload").resolved(app.given("payload"))
            datagram = headers - DATAGRAM_LESS
            packet = payload + datagram
            for wire in (*forward, *(back if app.kind == "ping" else ())):
                if wire.link.mtu < packet:
                    most = wire.link.mtu - datagram
                    bad = BadValue(
                        f"a payload of {payload}",
                        f"at most {most}, as {wire.name} has an MTU of {wire.link.mtu}",
                        key="payload",
                    )
                    raise Misplaced((*flow.path, "app"), bad)
            return
        ends = [self.stack(origin(name, self.spec.hosts)) for name in (flow.from_, flow.to)]
        finds_out = self.support.fits_path and not any(end.guest for end in ends)
        network = self.spec.network
        for wire in forward:
            # A switch drops what is too long without a word.
            switched = network.star is not None or wire.from_ in network.switch_of
            if wire.link.mtu < mss + headers and (switched or not finds_out):
                bad = BadValue(
                    f"an MTU of {wire.link.mtu} on {wire.name}",
                    f"at least {mss + headers} for segments of {mss} bytes",
                    f"set mss: {wire.link.mtu - headers} on a host",
                )
                raise Misplaced(wire.at("mtu"), bad)

    def flow(self, flow: PlannedFlow) -> contract.Flow:
        """Return a flow of the Scenario."""
        sender = self.spec.hosts[origin(flow.from_, self.spec.hosts)]
        stack = self.stack(origin(flow.from_, self.spec.hosts))
        self._check_same_guest(flow, stack)
        sndbuf, rcvbuf = self.buffers(flow)
        model = self.model(flow)
        if model.cc:
            cc = self.cc(model.cc, stack, (*flow.path, "cc"))
        elif sender.cc:
            cc = self.cc(sender.cc, stack, ("hosts", origin(flow.from_, self.spec.hosts), "cc"))
        else:
            cc = self.default_cc(flow, stack)
        resolved: contract.Flow = {
            "name": flow.name,
            "from": flow.from_,
            "to": flow.to,
            "app": self.app(flow),
            "start_ns": flow.start_ns,
            "stop_ns": model.stop,
            "cc": cc,
            "sndbuf": sndbuf,
            "rcvbuf": rcvbuf,
        }
        constants = self.constants(flow, cc, stack)
        if constants is not None:
            resolved["cc_params"] = constants
        return resolved

    def _check_same_guest(self, flow: PlannedFlow, stack: Stack) -> None:
        """Refuse a connection between a guest that sends datagrams and another stack."""
        other = self.stack(origin(flow.to, self.spec.hosts))
        needs_same = any(end.guest and not end.packets for end in (stack, other))
        if needs_same and self.model(flow).app.kind not in DATAGRAMS and stack.name != other.name:
            problem = f"leads from {stack.name} to {other.name}, which speak different protocols"
            raise Misplaced(flow.path, BadValue(problem=problem))

    def constants(self, flow: PlannedFlow, cc: str, stack: Stack) -> contract.CcParams | None:
        """Return the constants of its congestion control that a flow changes, or else its host.

        Those of a host are for the host's own congestion control, not for one that the flow names.
        """
        host, model = origin(flow.from_, self.spec.hosts), self.model(flow)
        if model.cc_params is not None:
            return self.cc_params(model.cc_params, cc, stack, (*flow.path, "cc_params"))
        own = self.spec.hosts[host].cc_params
        if own is None or model.cc or model.app.kind in DATAGRAMS:
            return None
        return self.cc_params(own, cc, stack, ("hosts", host, "cc_params"))

    def app(self, flow: PlannedFlow) -> App:
        """Return the application of a flow, with all its parameters."""
        model = self.model(flow)
        app = model.app
        resolved = self.parameters(app, self.catalogue.apps[app.kind], (*flow.path, "app"))
        for key, value in resolved.items():
            if isinstance(value, Drawn):
                resolved[key] = self.drawn(key, value, (*flow.path, "app", key))
        if app.kind == "bulk":
            resolved["bytes"] = model.bytes
        if app.kind == "background" and app.given("sizes") is not None:
            _check_sizes(app, (*flow.path, "app"))
        if app.kind == "media":
            _check_rates(resolved, (*flow.path, "app"))
        if flow.load is not None:
            resolved["group"], resolved["part"] = flow.load
        if app.kind == "incast":
            resolved["group"] = model.name or f"f{int(flow.path[-1]) + 1}"
        if app.kind in {"rate-limited", "on-off"} and app.given("rate") is not None:
            default = resolved["write_bytes"]
            resolved["write_bytes"] = rates.write_bytes(app, app.given("rate"), default, flow.path)
        return cast(App, resolved)  # its keys are those of the catalogue

    def drawn(self, key: str, drawn: Drawn, path: Path) -> dict[str, object]:
        """Return a distribution as the Scenario has it, of a file what it holds."""
        if drawn.scenario["kind"] != draws.FILE:
            return drawn.scenario
        if key == "sizes":
            return {
                "kind": "list",
                "values": self.companion(companion_files.sizes, drawn.scenario["name"], path),
            }
        rows = self.companion(companion_files.datagrams, drawn.scenario["name"], path)
        return {"kind": "list", "values": [row[0 if key == "interval" else 1] for row in rows]}

    def default_cc(self, flow: PlannedFlow, stack: Stack) -> str:
        """Return the congestion control of a flow for which neither it nor its host names one."""
        host = origin(flow.from_, self.spec.hosts)
        if self.model(flow).app.kind not in DATAGRAMS and stack.default_cc not in stack.cc:
            problem = f"names no cc, and this kernel lacks {stack.default_cc}, the default of {stack.name}"
            raise Misplaced(("hosts", host), BadValue(problem=f"{problem}; it has {one_of(stack.cc)}"))
        return stack.default_cc

    def flow_piece(self, flow: PlannedFlow) -> Piece[contract.Flow]:
        """Return a flow of the Scenario, the same in all cells in which it is made of the same."""
        sender, receiver = (origin(end, self.spec.hosts) for end in (flow.from_, flow.to))
        of_sender = (("hosts", sender, key) for key in _OF_SENDER)
        of_receiver = (("hosts", receiver, key) for key in _OF_RECEIVER)
        rows = self.rows.of(flow.path, *of_sender, *of_receiver)
        key = (flow.name, flow.from_, flow.to, flow.start_ns, flow.load, rows)
        return self.known.flows.of(key, self._flow_piece, flow, sender)

    def _flow_piece(self, flow: PlannedFlow, sender: str) -> Piece[contract.Flow]:
        made, model = self.piece(self.flow, flow), self.model(flow)
        if not model.cc and not self.spec.hosts[sender].cc and model.app.kind not in DATAGRAMS:
            made.unnamed = self.stack(sender).name
        return made


def _check_sizes(app: Kinded, path: Path) -> None:
    """Refuse a mean or a shape beside a distribution of sizes, which has its own."""
    for key in ("size", "shape"):
        if app.given(key) is not None:
            raise Misplaced((*path, key), BadValue(problem="stands beside sizes, which says it already"))


def _check_rates(media: MappingType[str, Any], path: Path) -> None:
    """Refuse target rates of media that are not in order."""
    least, most, start = media["min_bps"], media["max_bps"], media["start_bps"]
    if least > most:
        bad = BadValue(
            units.format_rate(least), f"at most {units.format_rate(most)}, the max_rate", key="min_rate"
        )
        raise Misplaced(path, bad)
    if start is not None and not least <= start <= most:
        expected = f"{units.format_rate(least)} to {units.format_rate(most)}, min_rate to max_rate"
        raise Misplaced(path, BadValue(units.format_rate(start), expected, key="start_rate"))


def _way(routes: Routes, start: str, end: str, path: Path) -> tuple[str, ...]:
    way = routes.way(start, end)
    if way is None:
        raise Misplaced(path, BadValue(problem=f"no links lead from {shown(start)} to {shown(end)}"))
    return way
