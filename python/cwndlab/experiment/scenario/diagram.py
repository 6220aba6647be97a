"""The topology of a Scenario as a picture of plain text, at most 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cwndlab.contract.scenario import Scenario

WIDTH = 78
"""Most columns of a picture of routers side by side."""

MAX_HOSTS = 6
"""Hosts of a router that are drawn; of more, the first, and how many there are besides."""

MAX_LINES = 60
"""Most lines of a picture that goes down."""

_Cable = tuple[str, str, str]
"""The name of a cable, and its ends."""


def draw(scenario: Scenario) -> list[str]:
    """The picture: routers that form a line side by side with their hosts above them, others as a tree."""
    hosts = [host["name"] for host in scenario["hosts"]]
    nodes = [node["name"] for node in scenario["nodes"]]
    names = {link["name"] for link in scenario["links"]}
    cables = [
        (link["name"], link["from"], link["to"])
        for link in scenario["links"]
        if not (link["name"].endswith(".reverse") and link["name"].removesuffix(".reverse") in names)
    ]
    line = _line(nodes, hosts, cables)
    side_by_side = _side_by_side(line, hosts, cables) if line else []
    if side_by_side and max(map(len, side_by_side)) <= WIDTH:
        return side_by_side
    return _tree([*nodes, *hosts], set(hosts), cables)


def _line(nodes: Sequence[str], hosts: Sequence[str], cables: Sequence[_Cable]) -> list[tuple[str, str]]:
    """Routers in the order of a line, each with the cable to the next; nothing if they form none."""
    ends = set(hosts)
    between = [cable for cable in cables if cable[1] not in ends and cable[2] not in ends]
    attached = [(set(cable[1:]) - ends) for cable in cables if cable not in between]
    once = len(attached) == len(hosts) and all(len(routers) == 1 for routers in attached)
    if not once or len(nodes) < 2 or len(between) != len(nodes) - 1:
        return []
    neighbours: dict[str, list[_Cable]] = {node: [] for node in nodes}
    for cable in between:
        neighbours[cable[1]].append(cable)
        neighbours[cable[2]].append(cable)
    first = next((node for node in nodes if len(neighbours[node]) == 1), None)
    found: list[tuple[str, str]] = []
    here, before = first, ""
    while here is not None:
        onward = [cable for cable in neighbours[here] if cable[0] != before]
        if len(onward) > 1 or len(found) > len(nodes):
            return []
        before = onward[0][0] if onward else ""
        found.append((here, before))
        here = (onward[0][2] if onward[0][1] == here else onward[0][1]) if onward else None
    return found if len(found) == len(nodes) else []


def _side_by_side(
    line: Sequence[tuple[str, str]], hosts: Sequence[str], cables: Sequence[_Cable]
) -> list[str]:
    at: dict[str, list[str]] = {router: [] for router, _ in line}
    for host in hosts:
        router = next(
            other for _, one, to in cables for other in (one, to) if host in (one, to) and other != host
        )
        at[router].append(host)
    stacks = {router: _some(names) for router, names in at.items()}
    height = max(map(len, stacks.values()))
    rows = [""] * (height + 2)
    for router, cable in line:
        width = max([len(router), *map(len, stacks[router])])
        column = ["", *stacks[router]] if stacks[router] else []
        texts = [""] * (height - len(stacks[router])) + stacks[router]
        texts += ["|" if column else "", router]
        gap = f" == {cable} == " if cable else ""
        for row, text in enumerate(texts):
            rows[row] += text.center(width) + (gap if row == height + 1 else " " * len(gap))
    return [row.rstrip() for row in rows]


def _some(names: Sequence[str]) -> list[str]:
    if len(names) <= MAX_HOSTS:
        return list(names)
    return [*names[: MAX_HOSTS - 1], f"and {len(names) - MAX_HOSTS + 1} more"]


def _tree(members: Sequence[str], hosts: set[str], cables: Sequence[_Cable]) -> list[str]:
    """Everything below the member it is first reached from; cables that close a circle stand below."""
    seen: set[str] = set()
    used: set[str] = set()

    def below(member: str, indent: str) -> Iterator[str]:
        found: list[tuple[str, str]] = []
        for name, one, to in cables:
            if member in (one, to) and name not in used:
                other = to if one == member else one
                if other not in seen:
                    used.add(name)
                    seen.add(other)
                    found.append((other, name))
        leaves = [entry for entry in found if entry[0] in hosts]
        hidden = leaves[MAX_HOSTS - 1 :] if len(leaves) > MAX_HOSTS else []
        shown = [entry for entry in found if entry not in hidden]
        for number, (other, name) in enumerate(shown):
            last = number == len(shown) - 1 and not hidden
            yield f"{indent}{'`' if last else '|'}-- {other}" + (f"  ({name})" if other not in hosts else "")
            yield from below(other, indent + ("    " if last else "|   "))
        if hidden:
            yield f"{indent}`-- and {len(hidden)} more hosts"

    lines: list[str] = []
    for member in members:
        if member not in seen:
            seen.add(member)
            lines += [member, *below(member, "")]
    lines += [f"also {one} -- {to}  ({name})" for name, one, to in cables if name not in used]
    return lines[:MAX_LINES] + (
        [f"and {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    )
