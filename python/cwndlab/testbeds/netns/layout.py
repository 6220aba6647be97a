"""The layout of a Scenario in namespaces: cables with their ends, addresses, ports, routes. Decides; does
nothing.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cwndlab.contract.scenario import Link, Scenario
from cwndlab.experiment.scenario.graph import Routes
from cwndlab.experiment.scenario.queries import CLIENT_PORT, ip_of
from cwndlab.testbeds.live import addresses
from cwndlab.testbeds.live.addresses import Addresses, family_of


@dataclass(frozen=True)
class Cable:
    """Two interfaces and the links between them."""

    forward: Mapping[str, Any] | None
    """The Scenario's link from `a` to `b`."""
    reverse: Mapping[str, Any] | None
    near: "Port"
    far: "Port"

    @property
    def mtu(self) -> int:
        """Largest IP packet that both directions carry, in bytes."""
        return min(int(link["mtu"]) for link in (self.forward, self.reverse) if link is not None)


@dataclass(frozen=True)
class Port:
    """One end of a cable: an interface of a node."""

    node: str
    interface: str


@dataclass(frozen=True)
class Layout(Addresses):
    """A Scenario in namespaces."""

    nodes: tuple[str, ...]
    """Routers and switches."""
    cables: tuple[Cable, ...]
    routes: dict[str, dict[str, str]]
    """Interface that leads to each host, by node."""

    def families(self, node: str) -> tuple[str, ...]:
        """IP versions of the packets that a node has: a host's own, elsewhere those of all hosts."""
        return (family_of(self.hosts[node]),) if node in self.hosts else self._families

    @cached_property
    def _families(self) -> tuple[str, ...]:
        return tuple(sorted({family_of(address) for address in self.hosts.values()}))

    def ways(self, node: str) -> list[tuple[str, str, str]]:
        """The routes of a node to hosts of its IP versions: host, its address, and the interface."""
        known = self.families(node)
        each = ((target, self.hosts[target], interface) for target, interface in self.routes[node].items())
        return [way for way in each if family_of(way[1]) in known]

    def interfaces(self, node: str) -> list[tuple[Port, int]]:
        """A node's interfaces with their MTU."""
        ports = [(port, cable.mtu) for cable in self.cables for port in (cable.near, cable.far)]
        return [(port, mtu) for port, mtu in ports if port.node == node]


def lay_out(scenario: Scenario) -> Layout:
    """The layout of a Scenario; raises ValueError, one line, for more hosts or flows than there are
    numbers."""
    names = [host["name"] for host in scenario["hosts"]]
    if len(names) > 0xFFFF or len(scenario["flows"]) > 0xFFFF - CLIENT_PORT:
        raise ValueError("too many hosts or flows for one machine")
    hosts = {host["name"]: _address(number, ip_of(host)) for number, host in enumerate(scenario["hosts"])}
    cables = _cables(scenario["links"])
    nodes = tuple(node["name"] for node in scenario["nodes"])
    routes = _routes(scenario, cables, [*names, *nodes], names)
    return Layout(hosts, addresses.sockets(scenario, hosts), nodes, cables, routes)


def _address(number: int, family: str) -> str:
    """The address of a host, as testbed sim has it in captures."""
    if family == "ipv6":
        return str(ipaddress.IPv6Address(0xFD00 << 112 | number << 16 | 1))
    return f"10.{number >> 8}.{number & 255}.1"


def _cables(links: list[Link]) -> tuple[Cable, ...]:
    cables: list[Cable] = []
    counts: dict[str, int] = {}

    def port(node: str) -> Port:
        number = counts[node] = counts.get(node, -1) + 1
        return Port(node, f"e{number}")

    by_name = {link["name"]: link for link in links}
    for link in links:
        other = by_name.get(f"{link['name']}.reverse")
        if other is not None and (other["from"], other["to"]) != (link["to"], link["from"]):
            other = None
        stem = link["name"].removesuffix(".reverse")
        if stem != link["name"] and stem in by_name and _is_reverse(link, by_name[stem]):
            continue  # is part of the cable of the link it is the reverse of
        cables.append(Cable(link, other, port(link["from"]), port(link["to"])))
    return tuple(cables)


def _is_reverse(link: Link, of: Link) -> bool:
    return (link["from"], link["to"]) == (of["to"], of["from"])


def capture_points(scenario: Scenario) -> dict[str, int]:
    """The links whose packets are captured, with the bytes kept; a host stands for the links at its
    interfaces."""
    points: dict[str, int] = {}
    for capture in scenario["record"]["pcap"]:
        at = capture["at"]
        for link in scenario["links"]:
            if at in (link["name"], link["from"], link["to"]):
                points[link["name"]] = capture["snaplen"]
    return points


def _routes(
    scenario: Scenario, cables: tuple[Cable, ...], everyone: list[str], hosts: list[str]
) -> dict[str, dict[str, str]]:
    ways = Routes((link["name"], link["from"], link["to"]) for link in scenario["links"])
    leaves: dict[str, str] = {}
    for cable in cables:
        for link, port in ((cable.forward, cable.near), (cable.reverse, cable.far)):
            if link is not None:
                leaves[link["name"]] = port.interface
    routes: dict[str, dict[str, str]] = {}
    for node in everyone:
        found = {host: ways.way(node, host) for host in hosts if host != node}
        routes[node] = {host: leaves[way[0]] for host, way in found.items() if way}
    return routes
