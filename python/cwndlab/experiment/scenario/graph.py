"""The network of a Scenario as a graph: ways from end to end, and what their delays come to.

Nothing here knows the experiment file, whose schema takes a worker longer to load than all else of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

BIT_NS = 8 * 10**9
"""Nanoseconds times bit/s that make a byte."""


def base_rtt_ns(links: Iterable[int], egresses: Iterable[int | None]) -> int:
    """Return the base RTT in ns: the delays of all links there and back, and of what stands at the egress of
    both hosts, None where nothing does.
    """
    return sum(links) + sum(delay or 0 for delay in egresses)


class Routes:
    """The ways through a network: the shortest in hops; of equal ones, the wire that comes first."""

    def __init__(self, wires: Iterable[tuple[str, str, str]]) -> None:
        """Take wires as (name, from, to), in order."""
        self._leaving: dict[str, list[tuple[str, str]]] = {}
        self._arriving: dict[str, list[tuple[str, str]]] = {}
        self._distances: dict[str, dict[str, int]] = {}
        self._found: dict[tuple[str, str], tuple[str, ...] | None] = {}
        for name, from_, to in wires:
            self._leaving.setdefault(from_, []).append((name, to))
            self._arriving.setdefault(to, []).append((name, from_))

    def way(self, start: str, end: str) -> tuple[str, ...] | None:
        """Return the names of the wires from one end to another, or None if there is no way."""
        if (start, end) not in self._found:
            self._found[start, end] = self._way(start, end)
        return self._found[start, end]

    def _way(self, start: str, end: str) -> tuple[str, ...] | None:
        last: list[str] = []
        while start != end and len(self._arriving.get(end, [])) == 1:
            # Only one wire leads there, so that all who are behind one router share the search for it.
            ((name, end),) = self._arriving[end]
            last.append(name)
            if len(last) > len(self._arriving):
                return None
        distance = self._distance(end)
        if start not in distance:
            return None
        way, here = [], start
        while here != end:
            name, here = next(
                hop for hop in self._leaving[here] if distance.get(hop[1]) == distance[here] - 1
            )
            way.append(name)
        return (*way, *reversed(last))

    def _distance(self, end: str) -> dict[str, int]:
        """Return the hops to an end from everywhere that leads there."""
        if end not in self._distances:
            distance = {end: 0}
            queue = deque([end])
            while queue:
                here = queue.popleft()
                for _, before in self._arriving.get(here, []):
                    if before not in distance:
                        distance[before] = distance[here] + 1
                        queue.append(before)
            self._distances[end] = distance
        return self._distances[end]
