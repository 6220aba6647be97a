"""What a Scenario becomes in namespaces: cables with their ends, addresses, ports, routes. Decides; does
nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cwndlab.scenario.topology import Routes

SERVER_PORT = 5201
"""Port of the first flow that a host accepts; the next ones follow (iperf3's own default)."""
CLIENT_PORT = 10_000
"""Port of flow 0 at its sender; flow n has this + n, as in the simulator's captures. Of a loadlatency
scenario, whose connections the client opens, at the client."""
GATEWAY = "169.254.0.1"
"""How every node calls whoever is at the other end of any of its interfaces (RFC 3927: of this link only)."""


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
class Ends:
    """The two sockets of a flow."""

    flow: str
    from_: str
    to: str
    source: str
    """Address of `from`."""
    target: str
    """Address of `to`."""
    source_port: int
    target_port: int


@dataclass(frozen=True)
class Layout:
    """A Scenario in namespaces."""

    hosts: dict[str, str]
    """Address of each host."""
    nodes: tuple[str, ...]
    """Routers and switches."""
    cables: tuple[Cable, ...]
    routes: dict[str, dict[str, str]]
    """By node, the interface that leads to each host."""
    flows: dict[str, Ends]

    def interfaces(self, node: str) -> list[tuple[Port, int]]:
        """A node's interfaces with their MTU."""
        ports = [(port, cable.mtu) for cable in self.cables for port in (cable.near, cable.far)]
        return [(port, mtu) for port, mtu in ports if port.node == node]


def lay_out(scenario: Mapping[str, Any]) -> Layout:
    """The layout of a Scenario; raises ValueError, one line, for more hosts or flows than there are
    numbers."""
    names = [host["name"] for host in scenario["hosts"]]
    if len(names) > 0xFFFF or len(scenario["flows"]) > 0xFFFF - CLIENT_PORT:
        raise ValueError("too many hosts or flows for one machine")
    hosts = {name: f"10.{number >> 8}.{number & 255}.1" for number, name in enumerate(names)}
    cables = _cables(scenario["links"])
    nodes = tuple(node["name"] for node in scenario["nodes"])
    return Layout(
        hosts, nodes, cables, _routes(scenario, cables, [*names, *nodes], names), _flows(scenario, hosts)
    )


def _cables(links: list[dict[str, Any]]) -> tuple[Cable, ...]:
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


def _is_reverse(link: Mapping[str, Any], of: Mapping[str, Any]) -> bool:
    return (link["from"], link["to"]) == (of["to"], of["from"])


def _routes(
    scenario: Mapping[str, Any], cables: tuple[Cable, ...], everyone: list[str], hosts: list[str]
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


def _flows(scenario: Mapping[str, Any], hosts: Mapping[str, str]) -> dict[str, Ends]:
    accepted: dict[str, int] = {}
    servers: dict[str, int] = {}
    flows = {}
    for number, flow in enumerate(scenario["flows"]):
        from_, to, name = flow["from"], flow["to"], flow["name"]
        client, part = CLIENT_PORT + number, flow["app"].get("part")
        if part in ("upload", "download"):
            # All connections of a loadlatency scenario go to the one port of its server, downloads as well.
            port = servers[flow["app"]["group"]]
        else:
            port = accepted[to] = accepted.get(to, SERVER_PORT - 1) + 1
            servers[name] = port
        ports = (port, client) if part == "download" else (client, port)
        flows[name] = Ends(name, from_, to, hosts[from_], hosts[to], *ports)
    return flows
