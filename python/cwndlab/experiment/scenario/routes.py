"""A Scenario with the ways that its flows take, for what looks at it as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from cwndlab.contract.scenario import Flow, Host, Link, Scenario
from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.scenario import graph
from cwndlab.experiment.scenario.graph import Routes
from cwndlab.experiment.scenario.queries import is_datagrams, least_rate, mean_rate

Way = Callable[[str, str], Sequence[str]]
"""Function that gives the names of the links between two hosts."""

_Shape = tuple[tuple[str, str, str], ...]
"""The name of each link, and its ends."""


class Ways:
    """The names of the links that packets take from host to host, found once for networks of one shape."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._routes: dict[_Shape, Routes] = {}

    def of(self, links: Sequence[Link]) -> Way:
        """Return what says the way from one host to another over these links."""
        shape = tuple((link["name"], link["from"], link["to"]) for link in links)
        if shape not in self._routes:
            self._routes[shape] = Routes(shape)
        routes = self._routes[shape]
        return lambda start, end: routes.way(start, end) or ()


class Routed:
    """A Scenario, and what several checks ask of it."""

    def __init__(self, scenario: Scenario, catalogue: Catalogue, way: Way) -> None:
        """Take a Scenario, and the ways through its links."""
        self.scenario = scenario
        self.flows = scenario["flows"]
        self.hosts = {host["name"]: host for host in scenario["hosts"]}
        self.links = {link["name"]: link for link in scenario["links"]}
        self._way = way
        self._taken: dict[tuple[str, str], list[Link]] = {}
        self._catalogue = catalogue

    def forward(self, flow: Flow) -> list[Link]:
        """The links that a flow's data takes."""
        return self._between(flow["from"], flow["to"])

    def back(self, flow: Flow) -> list[Link]:
        """The links that its acknowledgements take."""
        return self._between(flow["to"], flow["from"])

    def _between(self, start: str, end: str) -> list[Link]:
        if (start, end) not in self._taken:
            self._taken[start, end] = [self.links[name] for name in self._way(start, end)]
        return self._taken[start, end]

    @cached_property
    def crossing(self) -> dict[str, list[Flow]]:
        """By link, the flows whose data takes it; of links that none takes nothing."""
        found: dict[str, list[Flow]] = {}
        for flow in self.flows:
            for name in self._way(flow["from"], flow["to"]):
                found.setdefault(name, []).append(flow)
        return found

    def is_of_guests(self, flow: Flow) -> bool:
        """Whether a flow is sent by a guest."""
        stack = self._catalogue.stack(self.hosts[flow["from"]]["stack"])
        return stack is not None and stack.guest and not is_datagrams(flow)

    def base_rtt_ns(self, flow: Flow) -> int:
        """The base RTT of a flow."""
        links = (link["delay_ns"] for link in (*self.forward(flow), *self.back(flow)))
        egresses = (self.hosts[end]["egress"] for end in (flow["from"], flow["to"]))
        return graph.base_rtt_ns(links, (egress["delay_ns"] if egress else None for egress in egresses))

    def end_ns(self, flow: Flow) -> int:
        """When a flow stops sending."""
        return self.scenario["duration_ns"] if flow["stop_ns"] is None else flow["stop_ns"]

    def sysctl(self, host: Host, name: str) -> int | None:
        """A sysctl of a host: as set, or the system's; None where the system has none of that name."""
        stack = self._catalogue.stacks.get(host["stack"])
        known = stack.sysctls.get(name) if stack else None
        return host["sysctl"].get(name, known.default if known else None)

    def changed(self, link: Link, key: str) -> Iterator[Any]:
        """Yield the value of a link's key, and each that the schedule gives it."""
        first: Mapping[str, Any] = link
        yield first[key]
        for change in self.scenario["schedule"]:
            values: Mapping[str, Any] = change
            if change["link"] == link["name"] and values[key] is not None:
                yield values[key]

    def rates(self, link: Link) -> Iterator[int | None]:
        """The rates that a link has in the course of the run, None where it has none."""
        for rate in self.changed(link, "rate_bps"):
            yield least_rate(rate, link["shaper"] or {}, link["queue"])

    def highest_rate(self, link: Link) -> int | None:
        """The highest rate that a link ever has, of a trace its mean; None where it has none at some time."""
        shaper = link["shaper"]
        if not self.scenario["schedule"] or (shaper is not None and shaper["kind"] == "trace"):
            return mean_rate(link)
        rates = list(self.rates(link))
        return max((rate for rate in rates if rate is not None), default=None) if None not in rates else None
