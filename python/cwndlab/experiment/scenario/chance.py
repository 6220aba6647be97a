"""Draws of a Scenario, which decide how often a cell is run where the file does not say."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from cwndlab.contract.scenario import Change, Egress, Host, IngressStage, Link, Scenario
from cwndlab.experiment.scenario.memo import Memo
from cwndlab.experiment.scenario.queries import app_of

REPEATS = 5
"""Runs of each cell where something is drawn and the file has no `repeat`: the fewest of which an interval is
made by resampling (`statistics`)."""

LOSSES = frozenset({"random", "gilbert"})
QUEUES = frozenset({"red", "choke", "pie", "fq_pie", "dualpi2", "cake"})
"""Queue disciplines that drop or mark at random."""
HASHED = frozenset({"fq_codel", "fq"})
"""Queue disciplines of which only the hash of flows is drawn."""
CONTROLS = frozenset({"bbr", "bbr2", "bbr3", "cdg", "hd", "chd"})
"""Congestion controls that draw, of whatever system."""
APPS = frozenset({"background", "media"})
FIXED = frozenset({"constant", "list"})
"""Distributions of which nothing is drawn."""


class Chance:
    """Finds what draws decide in Scenarios. What several of them share is looked at once."""

    def __init__(self, *, start: bool) -> None:
        """`start`: whether the file gives the spread of starts."""
        self._start = start
        self._links: Memo[str] = Memo()
        self._ends: Memo[str] = Memo()

    def of(self, scenario: Scenario, ends: Hashable, path: Hashable) -> str:
        """Say what draws decide in a Scenario, the first of it; empty where nothing makes runs differ.

        Where in a tick a host's clock is, and when a flow alone starts, do not count, unless the file gives
        the spread of its `start`. `ends` and `path` are those of `Notes.of`.
        """
        found = self._links.of(path, _first, _of_links, scenario)
        found = found or self._ends.of(ends, _first, _of_ends, scenario)
        if not found and scenario["start_jitter_ns"] and (self._start or len(scenario["flows"]) > 1):
            found = "the start of each flow"
        if not found and scenario.get("phase_jitter_ns"):
            found = "the phase of each host"
        return found


def _first(find: Callable[[Scenario], Iterator[str]], scenario: Scenario) -> str:
    return next(find(scenario), "")


def _of_links(scenario: Scenario) -> Iterator[str]:
    several = len(scenario["flows"]) > 1
    named: list[tuple[str, Link | Change]] = [(link["name"], link) for link in scenario["links"]]
    changes = [(change["link"], change) for change in scenario["schedule"]]
    for name, link in (*named, *changes):
        yield from (f"the {what} of link {name}" for what in _of_link(link, several=several))


def _of_ends(scenario: Scenario) -> Iterator[str]:
    for host in scenario["hosts"]:
        yield from (f"the {what} of host {host['name']}" for what in _of_host(host))
    for flow in scenario["flows"]:
        app = app_of(flow)
        distributions = (app[key]["kind"] for key in ("size", "interval") if key in app)
        exponential = app.get("distribution") == "exponential"
        if app.get("kind") in APPS or exponential or not FIXED.issuperset(distributions):
            yield f"the traffic of flow {flow['name']}"
        if flow["cc"] in CONTROLS:
            yield f"what {flow['cc']} of flow {flow['name']} does"


def _of_link(link: Link | Change, *, several: bool) -> Iterator[str]:
    yield from _impairments(link)
    if (queue := link["queue"]) is not None:
        if queue["kind"] in QUEUES:
            yield f"drops of {queue['kind']}"
        if several and queue["kind"] in HASHED:
            yield f"hash of {queue['kind']}"


def _of_host(host: Host) -> Iterator[str]:
    ingress = host["ingress"]
    for stage in (host["egress"], ingress["before_gro"], ingress["after_gro"]):
        if stage is not None:
            yield from _impairments(stage)
    if noise := host["noise"]:
        if noise["stall"] is not None:
            yield "stalls"
        if noise["processing"] is not None and noise["processing"]["sd_ns"]:
            yield "processing time"


def _impairments(of: Link | Change | Egress | IngressStage) -> Iterator[str]:
    loss = of["loss"]
    if loss is not None and loss["kind"] in LOSSES:
        yield "loss"
    if of.get("jitter") is not None:
        yield "jitter"
    if of.get("duplicate_ppb"):
        yield "duplication"
    if of.get("corrupt_ppb"):
        yield "damage"
