"""Makes the namespaces, interfaces, addresses, routes, sysctls and rules of a run, as its layout says."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pyroute2 import IPRoute

from cwndlab import _native
from cwndlab.scenario.queries import is_datagrams
from cwndlab.testbeds.netns import machine, polling, rules
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
"""Of routers and switches."""
HOST = {"net.ipv4.tcp_no_metrics_save": "1"}
"""Of hosts, where the experiment does not set it: no connection learns from those before it."""

PLAIN_CC = "reno"
"""A congestion control that every Linux has, that every namespace may choose, and that leaves nothing behind
(Documentation/networking/ip-sysctl.rst, tcp_congestion_control)."""

_ECN = {"off": "0", "on": "1", "accept": "2"}
"""net.ipv4.tcp_ecn (Documentation/networking/ip-sysctl.rst)."""


@dataclass(frozen=True)
class Network:
    """The namespaces of a run, by node; `emulator` holds the ends of cables that are emulated outside
    them."""

    namespaces: dict[str, str]
    emulator: str | None


def emulated_end(number: int, side: str) -> str:
    """The interface in the emulator's namespace at side `a` or `b` of a cable."""
    return f"c{number}{side}"


def build(owner: Owner, layout: Layout, scenario: Mapping[str, Any], *, own_emulator: bool) -> Network:
    """Make everything but what carries the packets between the ends of cables.

    With `own_emulator` both ends of a cable lead into one namespace more, where the emulator takes over;
    without, they lead to each other.
    """
    names = {node: owner.create(node) for node in (*layout.hosts, *layout.nodes)}
    middle = owner.create("path") if own_emulator else None
    network = Network(names, middle)
    hosts = {host["name"]: host for host in scenario["hosts"]}
    for node, name in names.items():
        own = sysctls_of(hosts[node], scenario["flows"]) if node in hosts else NODE
        inside(name, partial(machine.write_sysctls, {**EVERYWHERE, **own}))
    if middle is not None:
        inside(middle, lambda: machine.write_sysctls(EVERYWHERE))
    for number, cable in enumerate(layout.cables):
        _connect(network, number, cable)
    for node in names:
        _address(network, layout, node, hosts.get(node))
    offloads(network, layout, hosts)
    for cable in layout.cables:
        for port in (cable.near, cable.far):
            if port.node in hosts:
                polling.apply(names[port.node], port.interface, hosts[port.node]["nic"])
    for node, host in hosts.items():
        script = rules.script(host, layout)
        if script:
            rules.apply(names[node], script)
    return network


def sysctls_of(host: Mapping[str, Any], flows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """A host's sysctls as text, in the order they are set; three parts become one value again."""
    values: dict[str, str] = {
        **HOST,
        "net.ipv4.tcp_ecn": _ECN[host["ecn"]],
        "net.ipv4.tcp_congestion_control": first_cc(host, flows),
    }
    triples: dict[str, dict[str, int]] = {}
    for name, value in host["sysctl"].items():
        base, _, part = name.rpartition(".")
        if part in ("min", "default", "max") and name not in machine.kernel().sysctls:
            triples.setdefault(base, {})[part] = value
        else:
            values[name] = str(value)
    for base, parts in triples.items():
        present = dict(zip(("min", "default", "max"), machine.kernel().sysctls[base].split(), strict=True))
        values[base] = " ".join(str(parts.get(part, present[part])) for part in present)
    return values


def first_cc(host: Mapping[str, Any], flows: Iterable[Mapping[str, Any]]) -> str:
    """The congestion control with which connections of a host open, until their own is set.

    iperf3 sets a connection's own (`-C`) once it is open. What BBR has switched on by then, pacing, stays on
    for whatever follows (tcp_bbr.c and Linux's tcp_set_congestion_control), and many kernels begin with BBR.
    So it is that of all flows that the host sends, or Reno, where they differ or a namespace may not choose
    theirs (net.ipv4.tcp_allowed_congestion_control): it switches nothing on, and every Linux has it.
    """
    used = {flow["cc"] for flow in flows if flow["from"] == host["name"] and not is_datagrams(flow)}
    common = used.pop() if len(used) == 1 else PLAIN_CC
    return common if common in machine.kernel().allowed_congestion_controls else PLAIN_CC


def offloads(network: Network, layout: Layout, hosts: Mapping[str, Mapping[str, Any]]) -> None:
    """Switch offloads off everywhere; of a host's interface, those stay on that its `nic` asks for."""
    for number, cable in enumerate(layout.cables):
        for side, port in (("a", cable.near), ("b", cable.far)):
            nic = hosts[port.node]["nic"] if port.node in hosts else {"tso": False, "gro": False}
            _native.set_offloads(
                network.namespaces[port.node], port.interface, tso=nic["tso"], gro=nic["gro"]
            )
            if network.emulator is not None:
                _native.set_offloads(network.emulator, emulated_end(number, side), tso=False, gro=False)


def netlink(namespace: str, work: Callable[[Any], _T]) -> _T:
    """What `work` returns, given a netlink socket in a namespace."""

    def connected() -> _T:
        with IPRoute() as socket:
            return work(socket)

    return inside(namespace, connected)


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


def _address(network: Network, layout: Layout, node: str, host: Mapping[str, Any] | None) -> None:
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
