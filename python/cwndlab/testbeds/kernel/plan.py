"""The plan of a run for the agent in a guest: nodes, cables, settings, queue disciplines, flows, samplers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cwndlab.contract.scenario import Link
from cwndlab.experiment.scenario.queries import base_rtt_ns, is_datagrams
from cwndlab.testbeds.kernel import inventory, netlink, qdiscs
from cwndlab.testbeds.kernel.inventory import Inventory
from cwndlab.testbeds.live.addresses import family_of, flow_keys
from cwndlab.testbeds.live.linux import kernel as linux
from cwndlab.testbeds.live.linux import tcp_info
from cwndlab.testbeds.live.linux.system import Linux
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.live.traffic import agents
from cwndlab.testbeds.netns import ip
from cwndlab.testbeds.netns.layout import Cable, Layout, Port, capture_points, lay_out

QUEUE_NS = 10_000_000
"""Time between two looks at a queue where the experiment records none."""
BOUNDS = ("net.core.rmem_max", "net.core.wmem_max")
"""Sysctls that all hosts of a kernel share and that only bound others: the largest value holds."""
LEAST_PLACES, MOST_PLACES = 1 << 11, 1 << 18
"""Fewest and most places of a ring, each for one packet."""
LOOK_NS = 10_000_000
"""Time between two looks into a ring."""
ROLES = ("from", "to")
CAPTURE = "capture-"
"""Prefix of the files of captures; the number of the captured link follows."""


@dataclass(frozen=True)
class _Way:
    """Two interfaces with nothing but a wire between them, and the links that begin at each."""

    near: Port
    far: Port
    forward: Link | None
    reverse: Link | None
    mtu: int


def make(run_id: int, scenario: LiveScenario, starts: Mapping[str, int], has: Inventory) -> dict[str, Any]:
    """The plan of a run; raises ValueError, one line, for what this kernel cannot be told."""
    return _Plan(run_id, scenario, starts, has).make()


def places(scenario: LiveScenario) -> int:
    """Estimate the places of a ring that packets which pass between two looks fill in part.

    A larger ring takes more memory, and two faults in the guest for each of its pages.
    """
    rates = [_rate_bps(link) for link in scenario["links"] if link["bottleneck"]]
    bits = max(rates, default=0) * LOOK_NS // 10**9
    # At a host a packet and its acknowledgement, at a queue a packet that comes and goes; in slow start twice
    # as many.
    packets = 4 * bits // (8 * 1500)
    return min(max(LEAST_PLACES, 1 << packets.bit_length()), MOST_PLACES)


def _rate_bps(link: Link) -> int:
    """The rate of a link or of its shaper; 0 where it has none."""
    shaper = link["shaper"]
    if shaper is not None and shaper["kind"] != "trace" and shaper["kind"] != "slots":
        return shaper["rate_bps"]
    return link["rate_bps"] or 0


def _agreed(name: str, value: str, others: str | None) -> str:
    """The value of a sysctl that all hosts share; raises ValueError where they cannot agree."""
    if others is None or value == others or name in inventory.GLOBAL_BY_MEMORY:
        return value
    if name in BOUNDS:
        return str(max(int(value), int(others)))
    raise ValueError(f"{name}: all hosts of a kernel share it; it cannot be {others} and {value}")


class _Plan:
    """A plan while it is made."""

    def __init__(
        self, run_id: int, scenario: LiveScenario, starts: Mapping[str, int], has: Inventory
    ) -> None:
        self._run_id, self._scenario, self._starts, self._has = run_id, scenario, starts, has
        self._per_ack = scenario["record"]["tcp"]["kind"] == "per-ack"
        self._layout: Layout = lay_out(scenario)
        self._changing = {change["link"] for change in scenario["schedule"]}
        self._hosts = {host["name"]: host for host in scenario["hosts"]}
        self._ways: list[_Way] = []
        self._wired: list[tuple[Link, Port]] = []
        """Delay and jitter of links behind their queues, and the interfaces at which they are."""
        self._paced: list[tuple[Link, Port]] = []
        """Rate and queue of links with FQ at hosts themselves, and the interfaces at which they are."""
        self._wires: dict[str, Cable] = {}
        for number, cable in enumerate(self._layout.cables):
            self._ways += self._divided(number, cable)
        names = [*self._layout.hosts, *self._layout.nodes, *self._wires]
        self._nodes = {name: number for number, name in enumerate(names)}
        self._index: dict[Port, int] = {}
        for way in self._ways:
            for port in (way.near, way.far):
                taken = sum(other.node == port.node for other in self._index)
                self._index[port] = netlink.LOOPBACK + 1 + taken
        self._addresses_of = {
            port: netlink.hardware_address(number, end)
            for number, way in enumerate(self._ways)
            for end, port in enumerate((way.near, way.far))
        }

    def make(self) -> dict[str, Any]:
        scenario, recorded = self._scenario, self._scenario["record"]["queue"]
        return {
            "nodes": len(self._nodes),
            "steps": [
                *self._settings(),
                *self._cables(),
                *self._addresses(),
                *self._routes(),
                *self._links(),
            ],
            "orders": self._orders(),
            "samplers": [[role, self._sampler(role)] for role in ROLES],
            "per_ack": self._per_ack,
            "links": self._looked_at(),
            "taps": self._taps(),
            "changes": self._changes(),
            "queue_interval_ns": recorded["interval_ns"] if recorded["kind"] == "interval" else 0,
            "duration_ns": scenario["duration_ns"],
            "measure": [scenario["measure"]["from_ns"], scenario["measure"]["to_ns"]],
        }

    def _divided(self, number: int, cable: Cable) -> list[_Way]:
        """A cable, in two where a host's link is more than a wire: queue disciplines are then at a node of
        their own, which packets reach one by one, however the host hands them down. In three where a delay
        varies behind a queue.
        """
        forward, reverse = (
            self._behind_fq(_link(link), port)
            for link, port in ((cable.forward, cable.near), (cable.reverse, cable.far))
        )
        (forward, far_wire), (reverse, near_wire) = (_queue_and_wire(link) for link in (forward, reverse))
        shaped = [
            link is not None
            and port.node in self._hosts
            and bool(qdiscs.needs(link, changing=link["name"] in self._changing))
            for link, port in ((forward, cable.near), (reverse, cable.far))
        ]
        wired = far_wire is not None or near_wire is not None
        if not any(shaped) and not wired:
            return [_Way(cable.near, cable.far, forward, reverse, cable.mtu)]
        names = [f"cable {number}", *([f"cable {number} behind"] if wired else [])]
        self._wires.update(dict.fromkeys(names, cable))
        first, last = Port(names[0], "a"), Port(names[-1], "b")
        self._wired += [
            (link, port) for link, port in ((near_wire, first), (far_wire, last)) if link is not None
        ]
        if not wired:
            return [
                _Way(cable.near, first, None, reverse, cable.mtu),
                _Way(last, cable.far, forward, None, cable.mtu),
            ]
        return [
            _Way(cable.near, first, None, None, cable.mtu),
            _Way(Port(names[0], "b"), Port(names[1], "a"), forward, reverse, cable.mtu),
            _Way(last, cable.far, None, None, cable.mtu),
        ]

    def _behind_fq(self, link: Link | None, port: Port) -> Link | None:
        """The part of a link that is behind its sender, where FQ is told when packets leave."""
        if link is None or port.node not in self._hosts or not qdiscs.paces(link):
            return link
        own, behind = qdiscs.paced(link)
        self._paced.append((own, port))
        return behind

    def _settings(self) -> Iterator[dict[str, Any]]:
        """Sysctls: of all hosts together, of each host, of what passes packets on."""
        known, system = self._has.kernel.sysctls, Linux(self._has.kernel)
        # A namespace may begin with those alone that the whole machine allows.
        every = " ".join(self._has.kernel.congestion_controls)
        yield self._write(None, linux.path("net.ipv4.tcp_allowed_congestion_control"), every)
        shared = {name: known[name] for name in inventory.GLOBAL_BY_MEMORY if name in known}
        for host in self._scenario["hosts"]:
            own = {name: known[name] for name in inventory.BY_MEMORY}
            for name, value in (own | system.sysctls(host, self._scenario["flows"])).items():
                if name in self._has.shared:
                    shared[name] = _agreed(name, value, shared.get(name))
                else:
                    yield self._write(host["name"], linux.path(name), value)
        yield from (self._write(None, linux.path(name), value) for name, value in shared.items())
        v6 = ip.has_v6(known)
        for node in self._nodes:
            forwards = node not in self._layout.hosts
            told = dict(ip.sysctls(self._layout.families(node), v6=v6))
            if forwards and "ipv4" in self._layout.families(node):
                told |= {ip.FORWARDING["ipv4"]: "1", **ip.ANY_SOURCE}
            for name, value in told.items():
                yield self._write(node, linux.path(name), value)

    def _write(self, node: str | None, path: str, text: str) -> dict[str, Any]:
        return {"write": {"node": None if node is None else self._nodes[node], "path": path, "text": text}}

    def _send(self, node: str, what: str, message: bytes) -> dict[str, Any]:
        return {"netlink": {"node": self._nodes[node], "what": what, "message": message.hex()}}

    def _cables(self) -> Iterator[dict[str, Any]]:
        for way in self._ways:
            ends = [
                (self._index[port], port.interface, self._addresses_of[port]) for port in (way.near, way.far)
            ]
            message = netlink.cable(ends[0], ends[1], self._nodes[way.far.node], way.mtu)
            yield self._send(way.near.node, f"cable from {way.near.node} to {way.far.node}", message)
            for port in (way.near, way.far):
                gso = self._hosts[port.node]["nic"]["tso"] if port.node in self._hosts else False
                step = {"node": self._nodes[port.node], "interface": port.interface, "gso": gso}
                yield {"cut": step}
                multicast = "ipv6" not in self._layout.families(port.node)
                up = netlink.up(self._index[port], multicast=multicast)
                yield self._send(port.node, "interface up", up)
        for node in (*self._layout.nodes, *self._wires):
            if "ipv6" in self._layout.families(node):
                yield self._write(node, linux.path(ip.FORWARDING["ipv6"]), "1")

    def _addresses(self) -> Iterator[dict[str, Any]]:
        for node in self._nodes:
            yield self._send(node, "lo up", netlink.up(netlink.LOOPBACK))
        for host, own in self._layout.hosts.items():
            yield self._send(host, f"address {own}", netlink.address(netlink.LOOPBACK, own))
        for way in self._ways:
            for port, other in ((way.near, way.far), (way.far, way.near)):
                for family in self._layout.families(port.node):
                    who, hardware = ip.GATEWAYS[family], self._addresses_of[other]
                    message = netlink.neighbour(self._index[port], who, hardware)
                    yield self._send(port.node, "neighbour", message)

    def _routes(self) -> Iterator[dict[str, Any]]:
        ports = {(port.node, port.interface): index for port, index in self._index.items()}
        for node in self._layout.routes:
            source = self._layout.hosts.get(node)
            mss = self._hosts[node]["mss"] if node in self._hosts else None
            for target, to, interface in self._layout.ways(node):
                gateway = ip.GATEWAYS[family_of(to)]
                message = netlink.route(to, gateway, ports[node, interface], source, mss)
                yield self._send(node, f"route to {target}", message)
        for name in self._wires:
            for target, to in self._layout.hosts.items():
                gateway, index = ip.GATEWAYS[family_of(to)], ports[name, self._along(name, target)]
                message = netlink.route(to, gateway, index, None, None)
                yield self._send(name, f"route to {target}", message)

    def _towards(self, node: str, target: str) -> str | None:
        """The interface by which packets to a host leave a node. None: they do not come there."""
        return self._along(node, target) if node in self._wires else self._layout.routes[node].get(target)

    def _along(self, wire: str, target: str) -> str:
        """The interface by which packets to a host leave a node of a cable."""
        near = self._wires[wire].near
        return "b" if self._layout.routes[near.node].get(target) == near.interface else "a"

    def _passing(self, port: Port) -> Iterator[tuple[int, bool]]:
        """Yield the flows whose packets leave a node by an interface: number, and whether the flow's sender
        sends them.
        """
        for number, flow in enumerate(self._scenario["flows"]):
            for target, forward in ((flow["to"], True), (flow["from"], False)):
                if self._towards(port.node, target) == port.interface:
                    yield number, forward

    def _shaped(self) -> Iterator[tuple[Link, Port]]:
        """Yield each link that is more than a wire, and the interface at which its queue disciplines are."""
        for way in self._ways:
            for link, port in ((way.forward, way.near), (way.reverse, way.far)):
                if link is not None and qdiscs.needs(link, changing=link["name"] in self._changing):
                    yield link, port

    def _changes(self) -> list[dict[str, Any]]:
        """List the changes of links in mid-run, in order of time."""
        links = {link["name"]: (link, port) for link, port in self._shaped()}
        wires = {link["name"]: (link, port) for link, port in self._wired}
        down: set[str] = set()
        found: dict[int, list[Any]] = {}
        for change in sorted(self._scenario["schedule"], key=lambda change: change["at_ns"]):
            name = change["link"]
            if change["down"] is not None:
                (down.add if change["down"] else down.discard)(name)
            queued, delayed = qdiscs.divided_change(change) if name in wires else (change, None)
            for parts, part in ((links, queued), (wires, delayed)):
                if part is None:
                    continue
                before, port = parts[name]
                after = qdiscs.changed(before, part)
                parts[name] = after, port
                is_down = name in down and parts is links
                for message in qdiscs.change_messages(after, part, self._index[port], down=is_down):
                    step = self._send(port.node, f"change of link {name}", message)
                    found.setdefault(change["at_ns"], []).append(step["netlink"])
        end = self._scenario["duration_ns"]
        return [{"at_ns": at, "messages": messages} for at, messages in found.items() if at < end]

    def _links(self) -> Iterator[dict[str, Any]]:
        for link, port in (*self._shaped(), *self._wired):
            changing = link["name"] in self._changing
            for message in qdiscs.messages(link, self._index[port], changing=changing):
                yield self._send(port.node, f"link {link['name']}", message)
        for link, port in self._paced:
            for message in qdiscs.messages(link, self._index[port], at_host=True):
                yield self._send(port.node, f"fq of link {link['name']}", message)

    def _looked_at(self) -> list[dict[str, Any]]:
        found = []
        paced = {link["name"]: (link, port) for link, port in self._paced}
        for shaped, behind in self._shaped():
            places = qdiscs.places(shaped, changing=shaped["name"] in self._changing)
            # The queue of a link with FQ is at the host, unless losses behind it are to be told from drops.
            own = paced.get(shaped["name"]) if places is not None and places.netem is None else None
            link, port = own or (shaped, behind)
            places = places if own is None else qdiscs.AT_HOST
            if places is not None:
                found.append(
                    {
                        "name": link["name"],
                        "node": self._nodes[port.node],
                        "interface": self._index[port],
                        "queue": places.queue,
                        "netem": places.netem,
                        "observe": link["observe"],
                    }
                )
        return found

    def _taps(self) -> dict[str, Any]:
        """List the places where every packet is seen: queue disciplines, both ends of flows, and captures."""
        scenario = self._scenario
        keys = {key["flow"]: key for key in flow_keys(scenario, self._layout.flows)}
        overhead = max((link["overhead"] for link in scenario["links"] if link["bottleneck"]), default=0)
        numbers = {link["name"]: number for number, link in enumerate(scenario["links"])}
        per_change = scenario["record"]["queue"]["kind"] == "per-ack"
        return {
            "run_id": self._run_id,
            "flows": [
                {
                    "key": keys[flow["name"]],
                    "from": self._nodes[flow["from"]],
                    "to": self._nodes[flow["to"]],
                    "overhead": overhead,
                }
                for flow in scenario["flows"]
            ],
            "links": list(numbers),
            "queues": [
                {
                    "link": numbers[link["name"]],
                    "node": self._nodes[port.node],
                    "interface": self._index[port],
                    "address": self._addresses_of[port].hex(),
                    "delays": list(self._delays(link)),
                    "overhead": link["overhead"],
                    "flows": list(self._passing(port)),
                    "changes": per_change and link["observe"],
                }
                for link, port in self._shaped()
            ],
            "measure": [scenario["measure"]["from_ns"], scenario["measure"]["to_ns"]],
            "places": places(scenario),
            "captures": [
                {
                    "node": self._nodes[port.node],
                    "interface": self._index[port],
                    "leaving": leaving,
                    "snaplen": snaplen,
                    "file": f"/{CAPTURE}{number}",
                }
                for number, (port, leaving, snaplen) in enumerate(self._captured())
            ],
        }

    def _delays(self, link: Link) -> Iterator[tuple[int, int | None]]:
        """The delay of a link besides its queue, from each time on. None where it differs by packet."""
        delay = None if link["jitter"] is not None else link["delay_ns"]
        yield 0, delay
        if delay is None or link["name"] in {wire["name"] for wire, _ in self._wired}:
            return
        for change in sorted(self._scenario["schedule"], key=lambda change: change["at_ns"]):
            if change["link"] == link["name"] and change["delay_ns"] is not None:
                yield change["at_ns"], change["delay_ns"]

    def _captured(self) -> Iterator[tuple[Port, bool, int]]:
        """Yield for each captured link the interface, whether packets leave there, and the number of bytes
        kept.

        That is at a host as on that machine, elsewhere behind the link's queue.
        """
        points, ports = capture_points(self._scenario), {link["name"]: port for link, port in self._shaped()}
        for name, snaplen in points.items():
            for cable in self._layout.cables:
                for link, near, far in (
                    (cable.forward, cable.near, cable.far),
                    (cable.reverse, cable.far, cable.near),
                ):
                    if link is not None and link["name"] == name:
                        at_end = far.node in self._hosts and near.node not in self._hosts
                        at = near if near.node in self._hosts else ports.get(name, near)
                        yield (far, False, snaplen) if at_end else (at, True, snaplen)

    def _orders(self) -> list[Any]:
        scenario, ends = self._scenario, self._layout.flows
        base = {flow["name"]: base_rtt_ns(scenario, flow["from"], flow["to"]) for flow in scenario["flows"]}
        tasks = agents.tasks(scenario, ends, self._starts, base)
        orders = []
        for host in self._layout.hosts:
            order = {
                "measure": [scenario["measure"]["from_ns"], scenario["measure"]["to_ns"]],
                "duration_ns": scenario["duration_ns"],
                "sends": [task for task in tasks if ends[task["flow"]].from_ == host],
                "receives": [task for task in tasks if ends[task["flow"]].to == host],
            }
            if order["sends"] or order["receives"]:
                orders.append([self._nodes[host], order])
        return orders

    def _sampler(self, role: str) -> dict[str, Any]:
        sockets = []
        for flow in self._scenario["flows"]:
            if not is_datagrams(flow):
                host = flow["from"] if role == "from" else flow["to"]
                found = tcp_info.socket(flow, self._layout.flows[flow["name"]], None, role)
                sockets.append({**found, "netns": self._nodes[host]})
        told = tcp_info.config(self._run_id, self._scenario, sockets, role)
        return told | {"per_ack": role == "from" and self._per_ack}


def _queue_and_wire(link: Link | None) -> tuple[Link | None, Link | None]:
    return (None, None) if link is None else qdiscs.divided(link)


def _link(link: Mapping[str, Any] | None) -> Link | None:
    """A link of a layout, which is one of the Scenario's."""
    found: Any = link
    of_scenario: Link | None = found
    return of_scenario
