"""Networks of the experiment file expanded to nodes and one-directional wires with stable names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cwndlab.errors import nearest, one_of, shown
from cwndlab.experiment import units
from cwndlab.experiment.locate import Misplaced, Path
from cwndlab.experiment.rows import ANY, Rows
from cwndlab.experiment.scenario.memo import Memo
from cwndlab.experiment.schema import Cable, Chain, Dumbbell, Host, Link, Network, Nic, Reversible, Star
from cwndlab.experiment.units import BadValue, Bdp

_IMPAIRMENTS = frozenset({"loss", "duplicate", "corrupt", "jitter", "schedule"})
"""Settings of a link that its other direction does not inherit."""

Paths = tuple[Path, ...]

_Layers = tuple[tuple[Path, Link], ...]
"""Sections that settings of a link come from, with their places, the most specific first."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One direction of a cable before its numbers are resolved.

    ``bottleneck`` is what the topology says of it, None where nothing is said; ``nic`` is the interface whose
    transmit queue stands at its sending end, if one does.
    """

    name: str
    from_: str
    to: str
    link: Link
    sources: _Layers
    bottleneck: bool | None
    nic: Nic | None = None

    def at(self, key: str) -> Path:
        """Return the path of the section that sets ``key``, with the key."""
        for path, link in self.sources:
            if key in link.model_fields_set:
                return (*path, key)
        return (*self.sources[-1][0], key)


@dataclass(frozen=True, slots=True)
class Cables:
    """Wires that are made of the same sections of the file; of equal keys in all cells of a sweep."""

    key: Hashable
    but_numbers: Hashable
    """Equal in all cells where the sections differ in rates and delays of links at most."""
    wires: tuple[Wire, ...]
    links: Mapping[str, Link]
    """Link of each wire, by the wire's name."""
    shape: tuple[tuple[str, str, str, int], ...]
    """The name of each wire, its ends, and its MTU."""
    in_bdp: tuple[str, ...]
    """The wires with a queue whose limit is in BDP."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Nodes between the hosts, and cables in the order of the Scenario."""

    nodes: tuple[str, ...]
    cables: tuple[Cables, ...]

    @property
    def shape(self) -> tuple[tuple[tuple[str, str, str, int], ...], ...]:
        """The name of each wire, its ends, and its MTU."""
        return tuple([cables.shape for cables in self.cables])

    @property
    def wires(self) -> tuple[Wire, ...]:
        """All wires, in the order of the Scenario."""
        return tuple([wire for cables in self.cables for wire in cables.wires])


@dataclass(frozen=True, slots=True)
class Wiring:
    """Makes cables once for all cells in which they are made of the same."""

    rows: Rows
    known: Memo[Cables]

    def of(self, name: str, paths: Paths, make: Callable[..., Iterable[Wire]], *of: object) -> Cables:
        """Return the cables of a name, which are made `of` what stands at some paths."""
        key = (name, self.rows.of(*paths))
        return self.known.of(key, self._cables, key, paths, make, *of)

    def _cables(
        self, key: tuple[str, tuple[int, ...]], paths: Paths, make: Callable[..., Iterable[Wire]], *of: object
    ) -> Cables:
        wires = tuple(make(*of))
        limited = [(wire.name, wire.link.queue) for wire in wires if wire.link.queue is not None]
        return Cables(
            key,
            (key[0], self.rows.of(*paths, but=_numbers(paths))),
            wires,
            {wire.name: wire.link for wire in wires},
            tuple((wire.name, wire.from_, wire.to, wire.link.mtu) for wire in wires),
            tuple(
                name for name, queue in limited if any(isinstance(value, Bdp) for _, value in queue.written())
            ),
        )


@functools.cache
def _numbers(sections: Paths) -> Paths:
    """Return the paths of rates and delays right below some paths."""
    return tuple([(*path, key) for path in sections for key in ("rate", "delay")])


def expand(network: Network, hosts: Mapping[str, Host], wiring: Wiring) -> Topology:
    """Return the topology; raises `Misplaced` for hosts that do not exist or are attached twice or never.

    ``hosts`` are those of the file, copies not yet made.
    """
    if network.dumbbell is not None:
        return _dumbbell(network.dumbbell, hosts, wiring)
    if network.chain is not None:
        return _chain(network.chain, hosts, wiring)
    if network.star is not None:
        return _star(network.star, hosts, wiring)
    return _general(network, hosts, wiring)


def copies(name: str, host: Host) -> list[str]:
    """Return the names of a host's copies: its own, or NAME.1, NAME.2 … where it has a count."""
    return [name] if host.count == 1 else [f"{name}.{number}" for number in range(1, host.count + 1)]


def origin(copy: str, hosts: Mapping[str, Host]) -> str:
    """Return the name in the file of a host or one of its copies."""
    return copy if copy in hosts else copy.rpartition(".")[0]


def all_copies(hosts: Mapping[str, Host]) -> dict[str, Host]:
    """Return every host with its copies, in the order of the file."""
    return {copy: host for name, host in hosts.items() for copy in copies(name, host)}


def _dumbbell(net: Dumbbell, hosts: Mapping[str, Host], wiring: Wiring) -> Topology:
    root: Path = ("network", "dumbbell")
    places = {(*root, "left"): net.left, (*root, "right"): net.right}
    at = dict.fromkeys(net.left, "router.left") | dict.fromkeys(net.right, "router.right")
    cabling = _Cabling(root, "access", net.access, net.access_of)
    access = wiring.of("access", (*places, *cabling.paths), cabling.attach, at, hosts, places)
    between = wiring.of("bottleneck", ((*root, "bottleneck"), (*root, "reverse")), _bottleneck, net, root)
    return Topology(("router.left", "router.right"), (between, access))


def _bottleneck(net: Dumbbell, root: Path) -> Iterator[Wire]:
    """Yield both directions of a dumbbell's bottleneck."""
    forward: _Layers = (((*root, "bottleneck"), net.bottleneck),)
    back = _other_direction(forward)
    if net.reverse is not None:
        back = (((*root, "reverse"), net.reverse), *back)
    yield Wire("bottleneck", "router.left", "router.right", net.bottleneck, forward, bottleneck=True)
    yield Wire("bottleneck.reverse", "router.right", "router.left", _merged(back), back, bottleneck=True)


def _chain(net: Chain, hosts: Mapping[str, Host], wiring: Wiring) -> Topology:
    root: Path = ("network", "chain")
    if not net.bottlenecks:
        raise Misplaced((*root, "bottlenecks"), BadValue("an empty list", "at least one bottleneck"))
    if len(net.hosts) != len(net.bottlenecks) + 1:
        expected = f"{len(net.bottlenecks) + 1} lists of hosts, one for each router"
        raise Misplaced((*root, "hosts"), BadValue(f"{len(net.hosts)} lists", expected))
    routers = tuple(f"router.{number}" for number in range(1, len(net.hosts) + 1))
    places = {(*root, "hosts", place): names for place, names in enumerate(net.hosts)}
    at = {name: router for router, names in zip(routers, net.hosts, strict=True) for name in names}
    cabling = _Cabling(root, "access", net.access, net.access_of)
    access = wiring.of("access", ((*root, "hosts"), *cabling.paths), cabling.attach, at, hosts, places)
    between = []
    for index, link in enumerate(net.bottlenecks):
        name, path = f"bottleneck.{index + 1}", (*root, "bottlenecks", index)
        ends = routers[index], routers[index + 1]
        between.append(
            wiring.of(name, (path,), functools.partial(_both_ways, bottleneck=True), name, *ends, link, path)
        )
    return Topology(routers, (*between, access))


def _star(net: Star, hosts: Mapping[str, Host], wiring: Wiring) -> Topology:
    root: Path = ("network", "star")
    cabling = _Cabling(root, "link", net.link, net.link_of)
    at = dict.fromkeys(hosts, "star.switch")
    return Topology(("star.switch",), (wiring.of("link", cabling.paths, cabling.attach, at, hosts, {}),))


def _general(network: Network, hosts: Mapping[str, Host], wiring: Wiring) -> Topology:
    nodes, cables = network.nodes or [], network.links or []
    everyone = all_copies(hosts)
    for index, node in enumerate(nodes):
        if node in hosts or node in nodes[:index]:
            raise Misplaced(
                ("network", "nodes", index), BadValue(shown(node), "a name that no host or node has yet")
            )
    wires: list[Cables] = []
    names: set[str] = set()
    for index, cable in enumerate(cables):
        path: Path = ("network", "links", index)
        ends = [*everyone, *nodes]
        for key, end in (("from", cable.from_), ("to", cable.to)):
            if end not in ends:
                expected = f"a host or node: {one_of(ends[:20])}"
                raise Misplaced((*path, key), BadValue(shown(end), expected, nearest(end, ends)))
        if cable.from_ == cable.to:
            raise Misplaced((*path, "to"), BadValue(shown(cable.to), "another end than from"))
        name = cable.name or f"{cable.from_}-{cable.to}"
        if name in names:
            raise Misplaced(path, BadValue(f"a second link {shown(name)}", "a name of its own", key="name"))
        if cable.one_way and cable.reverse is not None:
            raise Misplaced((*path, "reverse"), BadValue("reverse on a one-way link", "one or the other"))
        names |= {name} if cable.one_way else {name, f"{name}.reverse"}
        ends_nics = {end: everyone[end].nic for end in (cable.from_, cable.to) if end in everyone}
        of_ends = tuple(("hosts", origin(end, hosts), key) for end in ends_nics for key in ("nic", "count"))
        wires.append(wiring.of(name, (path, *of_ends), _cable, cable, name, path, ends_nics, hosts))
    return Topology(tuple(nodes), tuple(wires))


def _cable(
    cable: Cable, name: str, path: Path, nics: Mapping[str, Nic], hosts: Mapping[str, Host]
) -> Iterator[Wire]:
    """Yield the wires of a cable of a general network, with the interfaces of hosts at its ends."""
    pair = _both_ways(name, cable.from_, cable.to, cable, path, bottleneck=cable.bottleneck)
    at_ends = {origin(end, hosts): nic for end, nic in nics.items()}
    for wire in pair[:1] if cable.one_way else pair:
        yield replace(wire, link=_at_the_nics_rate(wire.link, at_ends), nic=nics.get(wire.from_))


def _both_ways(
    name: str, near: str, far: str, link: Reversible, path: Path, *, bottleneck: bool | None
) -> tuple[Wire, Wire]:
    forward, back = _directions([(path, link)])
    return (
        Wire(name, near, far, _merged(forward), forward, bottleneck),
        Wire(f"{name}.reverse", far, near, _merged(back), back, bottleneck),
    )


def _directions(layers: Sequence[tuple[Path, Reversible]]) -> tuple[_Layers, _Layers]:
    """Return the layers of a cable's two directions: what a section says of the way back comes before what
    it says of both, and both before what a less specific section says."""
    back: _Layers = ()
    for path, link in layers:
        if link.reverse is not None:
            back += (((*path, "reverse"), link.reverse),)
        back += _other_direction(((path, link),))
    return tuple(layers), back


def _other_direction(forward: _Layers) -> _Layers:
    """Return what the other direction has of a direction's settings: all but its impairments."""
    return tuple(
        (path, _link({key: value for key, value in _written(link).items() if key not in _IMPAIRMENTS}))
        for path, link in forward
    )


def _merged(layers: _Layers) -> Link:
    """Return the link of some layers. A rate and a trace take each other's place, as a trace is a rate."""
    if len(layers) == 1:
        return layers[0][1]
    settings: dict[str, Any] = {}
    for _, link in reversed(layers):
        own = _written(link)
        if "rate" in own and link.shaper is None and _link(settings).has_trace:
            del settings["shaper"]
        if "rate" not in own and link.has_trace:
            settings.pop("rate", None)
        settings |= own
    return _link(settings)


def _at_the_nics_rate(link: Link, at_ends: Mapping[str, Nic]) -> Link:
    """Return one direction of a cable at the rate of the interfaces at its ends, the lower where there are
    two."""
    rates = {name: nic.rate for name, nic in at_ends.items() if nic.rate is not None}
    if rates and link.has_trace:
        name, rate = next(iter(rates.items()))
        found = f"{units.format_rate(rate)} of a host whose cable has a trace"
        raise Misplaced(("hosts", name, "nic", "rate"), BadValue(found, "one or the other"))
    return link.copied({"rate": min(rates.values())}) if rates else link


@dataclass(frozen=True, slots=True)
class _Cabling:
    """The cables between hosts and their routers: ``key`` in the file for all of them, ``key_of`` for one."""

    root: Path
    key: str
    common: Reversible
    special: Mapping[str, Reversible]

    @property
    def paths(self) -> Paths:
        """Keys of the file that the cables are made of, besides which host is at which router."""
        return (*self.root, self.key), (*self.root, f"{self.key}_of"), *_OF_HOSTS

    def attach(
        self, at: Mapping[str, str], hosts: Mapping[str, Host], places: Mapping[Path, list[str]]
    ) -> Iterator[Wire]:
        """Yield both directions of the cable between each copy of a host and the router that it is `at`.

        `places` are where the file says so, if it does.
        """
        if places:
            _attached_once(hosts, places, self.root)
        for name in self.special:
            if name not in hosts:
                raise Misplaced((*self.root, f"{self.key}_of", name), _no_host(name, hosts))
        for name, router in at.items():
            nic = hosts[name].nic
            layers: list[tuple[Path, Reversible]] = [((*self.root, self.key), self.common)]
            if name in self.special:
                layers.insert(0, ((*self.root, f"{self.key}_of", name), self.special[name]))
            forward, back = _directions(layers)
            there, here = (_at_the_nics_rate(_merged(way), {name: nic}) for way in (forward, back))
            for copy in copies(name, hosts[name]):
                yield Wire(f"{self.key}.{copy}", copy, router, there, forward, bottleneck=None, nic=nic)
                yield Wire(f"{self.key}.{copy}.reverse", router, copy, here, back, bottleneck=None)


_OF_HOSTS: Paths = (("hosts", ANY, "nic"), ("hosts", ANY, "count"))
"""Keys of hosts that cables are made of."""


def _link(settings: dict[str, Any]) -> Link:
    """Return a link of settings that have been checked already."""
    return _NO_SETTINGS.copied(settings)


_NO_SETTINGS = Link.model_construct()

_SETTINGS = frozenset(Link.model_fields)


def _written(link: Link) -> dict[str, Any]:
    return {name: getattr(link, name) for name in link.model_fields_set & _SETTINGS}


def _attached_once(hosts: Mapping[str, Host], places: Mapping[Path, list[str]], root: Path) -> None:
    seen: set[str] = set()
    for path, names in places.items():
        for index, name in enumerate(names):
            if name not in hosts:
                raise Misplaced((*path, index), _no_host(name, hosts))
            if name in seen:
                raise Misplaced((*path, index), BadValue(f"{shown(name)} again", "each host once"))
            seen.add(name)
    for name in hosts:
        if name not in seen:
            raise Misplaced(root, BadValue(problem=f"host {shown(name)} is not attached to this network"))


def _no_host(name: str, hosts: Mapping[str, Host]) -> BadValue:
    return BadValue(shown(name), f"a host: {one_of(hosts)}", nearest(name, hosts))
