"""Makes the namespaces of a run and what connects them: interfaces, addresses, routes, as its layout says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pyroute2 import IPRoute

from cwndlab import _native
from cwndlab.contract.scenario import Host, Scenario
from cwndlab.testbeds.live.linux import kernel
from cwndlab.testbeds.netns.layout import GATEWAY, Cable, Layout, Port
from cwndlab.testbeds.netns.namespaces import NAMESPACES, Owner, inside

_T = TypeVar("_T")

_ONLINK = 4
"""RTNH_F_ONLINK (linux/rtnetlink.h): a gateway that no address of the interface covers."""
_LO = 1
"""Index of `lo` in every namespace."""

EVERYWHERE = {
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
}
"""Sysctls of every namespace: no packets that nobody asked for, and routes that differ by direction."""
NODE = {"net.ipv4.ip_forward": "1"}
"""Sysctls of routers and switches."""


@dataclass(frozen=True)
class Network:
    """The namespaces of a run, by node; `emulator` holds the ends of cables that are emulated outside
    them."""

    namespaces: dict[str, str]
    emulator: str | None


def emulated_end(number: int, side: str) -> str:
    """The interface in the emulator's namespace at side `a` or `b` of a cable."""
    return f"c{number}{side}"


def make(owner: Owner, layout: Layout, *, own_emulator: bool) -> Network:
    """Make the namespaces, with nothing in them.

    With `own_emulator` there is one more, where both ends of a cable lead and the emulator takes over;
    without, they lead to each other.
    """
    names = {node: owner.create(node) for node in (*layout.hosts, *layout.nodes)}
    network = Network(names, owner.create("path") if own_emulator else None)
    for node, name in names.items():
        inside(name, partial(_set, {**EVERYWHERE, **({} if node in layout.hosts else NODE)}))
    if network.emulator is not None:
        inside(network.emulator, partial(_set, EVERYWHERE))
    return network


def connect(network: Network, layout: Layout, scenario: Scenario) -> None:
    """Make everything but what carries the packets between the ends of cables."""
    for number, cable in enumerate(layout.cables):
        _connect(network, number, cable)
    hosts = {host["name"]: host for host in scenario["hosts"]}
    for node in network.namespaces:
        _address(network, layout, node, hosts.get(node))
    _switch_offloads_off(network, layout)


def netlink(namespace: str, work: Callable[[Any], _T]) -> _T:
    """Call `work` with a netlink socket in a namespace."""

    def connected() -> _T:
        with IPRoute() as socket:
            return work(socket)

    return inside(namespace, connected)


def _set(sysctls: Mapping[str, str]) -> None:
    for name, value in sysctls.items():
        Path(kernel.path(name)).write_text(value, encoding="ascii")


def _switch_offloads_off(network: Network, layout: Layout) -> None:
    """Switch the offloads of all interfaces off but the hosts', which are set as their `nic` asks for."""
    for number, cable in enumerate(layout.cables):
        for side, port in (("a", cable.near), ("b", cable.far)):
            if port.node not in layout.hosts:
                _native.set_offloads(network.namespaces[port.node], port.interface, tso=False, gro=False)
            if network.emulator is not None:
                _native.set_offloads(network.emulator, emulated_end(number, side), tso=False, gro=False)


def _connect(network: Network, number: int, cable: Cable) -> None:
    if network.emulator is None:
        _pair(network, cable.near, cable.far.interface, network.namespaces[cable.far.node], cable.mtu)
        return
    for side, port in (("a", cable.near), ("b", cable.far)):
        _pair(network, port, emulated_end(number, side), network.emulator, cable.mtu)


def _pair(network: Network, port: Port, peer: str, peer_namespace: str, mtu: int) -> None:
    with (NAMESPACES / peer_namespace).open("rb") as handle:
        other = {"ifname": peer, "net_ns_fd": handle.fileno(), "mtu": mtu}

        def add(ours: Any) -> None:
            ours.link("add", ifname=port.interface, kind="veth", mtu=mtu, peer=other)
            ours.link("set", index=_index(ours, port.interface), state="up")

        netlink(network.namespaces[port.node], add)
    netlink(peer_namespace, lambda theirs: theirs.link("set", index=_index(theirs, peer), state="up"))


def _address(network: Network, layout: Layout, node: str, host: Host | None) -> None:
    """Give a node its address and its routes; every neighbour is known beforehand, so that nobody asks for
    it."""
    own = layout.hosts.get(node)
    others = {cable.near: cable.far for cable in layout.cables} | {
        cable.far: cable.near for cable in layout.cables
    }
    neighbours = {
        port.interface: _hardware_address(network, others[port]) for port, _ in layout.interfaces(node)
    }

    def configure(ours: Any) -> None:
        ours.link("set", index=_LO, state="up")
        if own is not None:
            ours.addr("add", index=_LO, address=own, prefixlen=32)
        indices = {interface: _index(ours, interface) for interface in neighbours}
        for interface, address in neighbours.items():
            ours.neigh("add", dst=GATEWAY, lladdr=address, ifindex=indices[interface], state="permanent")
        for target, interface in layout.routes[node].items():
            more: dict[str, Any] = {}
            if own is not None and host is not None:
                more = {"prefsrc": own, "metrics": {"attrs": [["RTAX_ADVMSS", host["mss"]]]}}
            ours.route(
                "add",
                dst=f"{layout.hosts[target]}/32",
                oif=indices[interface],
                gateway=GATEWAY,
                flags=_ONLINK,
                **more,
            )

    netlink(network.namespaces[node], configure)


def _hardware_address(network: Network, port: Port) -> str:
    def ask(theirs: Any) -> str:
        (link,) = theirs.get_links(_index(theirs, port.interface))
        return str(link.get_attr("IFLA_ADDRESS"))

    return netlink(network.namespaces[port.node], ask)


def _index(socket: Any, interface: str) -> int:
    (index,) = socket.link_lookup(ifname=interface)
    return int(index)
