"""Makes the namespaces of a run and what connects them: interfaces, addresses, routes, as its layout says."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pyroute2 import IPRoute

from cwndlab import _native
from cwndlab.contract.scenario import Host, Scenario
from cwndlab.testbeds.live.addresses import family_of
from cwndlab.testbeds.live.linux import kernel
from cwndlab.testbeds.netns import ip, machine
from cwndlab.testbeds.netns.layout import Cable, Layout, Port
from cwndlab.testbeds.netns.namespaces import NAMESPACES, Owner, inside

_T = TypeVar("_T")

_ONLINK = 4
"""RTNH_F_ONLINK (linux/rtnetlink.h): a gateway that no address of the interface covers."""
_LO = 1
"""Index of `lo` in every namespace."""
_NUMBERS = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}


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
    v6 = machine.has_v6()
    for node, name in names.items():
        told = ip.sysctls(layout.families(node), v6=v6)
        inside(name, partial(_set, {**ip.ANY_SOURCE, **told}))
    if network.emulator is not None:
        told = ip.sysctls((), v6=v6)
        inside(network.emulator, partial(_set, {**ip.ANY_SOURCE, **told}))
    return network


def connect(network: Network, layout: Layout, scenario: Scenario) -> None:
    """Make everything but what carries the packets between the ends of cables."""
    for number, cable in enumerate(layout.cables):
        _connect(network, number, cable)
    for node in layout.nodes:
        told = {ip.FORWARDING[family]: "1" for family in layout.families(node)}
        inside(network.namespaces[node], partial(_set, told))
    hosts = {host["name"]: host for host in scenario["hosts"]}
    for node in network.namespaces:
        _address(network, layout, node, hosts.get(node))
    _switch_offloads_off(network, layout)


def netlink(namespace: str, work: Callable[[Any], _T]) -> _T:
    """Call `work` with a netlink socket in a namespace."""

    def connected() -> _T:
        with IPRoute() as opened:
            return work(opened)

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
            ours.link("set", index=_index(ours, port.interface), flags=ip.UP, change=ip.UP | ip.MULTICAST)

        netlink(network.namespaces[port.node], add)

    def switch_on(theirs: Any) -> None:
        theirs.link("set", index=_index(theirs, peer), flags=ip.UP, change=ip.UP | ip.MULTICAST)

    netlink(peer_namespace, switch_on)


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
            family = family_of(own)
            ours.addr(
                "add",
                index=_LO,
                address=own,
                prefixlen=ip.PREFIXES[family],
                family=_NUMBERS[family],
                flags=ip.NO_DETECTION[family],
            )
        indices = {interface: _index(ours, interface) for interface in neighbours}
        for interface, address in neighbours.items():
            for family in layout.families(node):
                ours.neigh(
                    "add",
                    family=_NUMBERS[family],
                    dst=ip.GATEWAYS[family],
                    lladdr=address,
                    ifindex=indices[interface],
                    state="permanent",
                )
        for _, to, interface in layout.ways(node):
            family, more = family_of(to), dict[str, Any]()
            if own is not None and host is not None:
                more = {"prefsrc": own, "metrics": {"attrs": [["RTAX_ADVMSS", host["mss"]]]}}
            ours.route(
                "add",
                family=_NUMBERS[family],
                dst=f"{to}/{ip.PREFIXES[family]}",
                oif=indices[interface],
                gateway=ip.GATEWAYS[family],
                flags=_ONLINK,
                **more,
            )

    netlink(network.namespaces[node], configure)


def _hardware_address(network: Network, port: Port) -> str:
    def ask(theirs: Any) -> str:
        (link,) = theirs.get_links(_index(theirs, port.interface))
        return str(link.get_attr("IFLA_ADDRESS"))

    return netlink(network.namespaces[port.node], ask)


def _index(opened: Any, interface: str) -> int:
    (index,) = opened.link_lookup(ifname=interface)
    return int(index)
