"""Rates that the links on a flow's way can carry."""

import bisect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cwndlab.contract.scenario import Link, Scenario
from cwndlab.experiment.scenario.queries import least_rate


def narrowest(
    scenario: Scenario, flow: str, window: tuple[int, int] | None = None
) -> tuple[str, float] | None:
    """The bottleneck on a flow's way that can carry least in a window (ns), that of measurement unless given,
    and how many bits.

    None where no link on its way is a bottleneck with a rate, and where one changes with an event, whose time
    the Scenario does not say.
    """
    ends = next(each for each in scenario["flows"] if each["name"] == flow)
    links = [link for link in route(scenario, ends["from"], ends["to"]) if link["bottleneck"]]
    names = {link["name"] for link in links}
    if any(change["link"] in names for change in scenario["schedule"] if change.get("on")):
        return None
    carried = [(capacity_bits(scenario, link, window), str(link["name"])) for link in links]
    known = [(bits, name) for bits, name in carried if bits is not None]
    if not known or min(known)[0] <= 0:
        return None
    bits, name = min(known, key=lambda pair: pair[0])
    return name, bits


def capacity_bits(scenario: Scenario, link: Link, window: tuple[int, int] | None = None) -> float | None:
    """Bits the link can carry in a window (ns), that of measurement unless given, scheduled changes and
    outages included.

    What limits it is the least of its rate, the rate of its token bucket or policer and the bandwidth of
    CAKE, or the delivery opportunities of its trace; the burst that a bucket lets through once is not
    counted. None where nothing limits the link at some time of the window (a packet takes no time there).
    """
    start, end = window or (scenario["measure"]["from_ns"], scenario["measure"]["to_ns"])
    rate, queue, down, since, bits = link["rate_bps"], link.get("queue"), False, start, 0.0
    shaper: Mapping[str, Any] = link.get("shaper") or {}
    changes = [change for change in scenario["schedule"] if change["link"] == link["name"]]
    for change in [*changes, None]:
        until = min(max(change["at_ns"], start), end) if change else end
        if until > since:
            possible = _bits_between(least_rate(rate, shaper, queue), shaper, since, until)
            if possible is None:
                return None
            bits += 0 if down else possible
        since = until
        if change is not None:
            new_rate, new_queue, new_down = change.get("rate_bps"), change.get("queue"), change.get("down")
            rate = rate if new_rate is None else new_rate
            queue = queue if new_queue is None else new_queue
            down = down if new_down is None else new_down
    return bits


def _bits_between(rate: int | None, shaper: Mapping[str, Any], since: int, until: int) -> float | None:
    """Bits that a rate, or the opportunities of a trace, let pass between two times (ns)."""
    if shaper.get("kind") == "trace":
        count = _opportunities(shaper, until) - _opportunities(shaper, since)
        return float(count * shaper["bytes"] * 8)
    return None if rate is None else rate * (until - since) / 1e9


def _opportunities(trace: Mapping[str, Any], until: int) -> int:
    """Delivery opportunities of a repeated trace up to a time (ns)."""
    laps, rest = divmod(until, trace["period_ns"])
    times: Sequence[int] = trace["opportunities_ns"]
    return int(laps) * len(times) + bisect.bisect_right(times, rest)


def route(scenario: Scenario, source: str, target: str) -> list[Link]:
    """The links from host to host: fewest hops, ties by the order of links, as the engine routes."""
    ways: dict[str, list[Link]] = {source: []}
    frontier = [source]
    while frontier and target not in ways:
        frontier = list(_step(scenario["links"], ways, frontier))
    return ways.get(target, [])


def _step(links: Iterable[Link], ways: dict[str, list[Link]], frontier: list[str]) -> Iterable[str]:
    reached = [link for link in links if link["from"] in frontier and link["to"] not in ways]
    for link in reached:
        if link["to"] not in ways:
            ways[link["to"]] = [*ways[link["from"]], link]
            yield link["to"]
