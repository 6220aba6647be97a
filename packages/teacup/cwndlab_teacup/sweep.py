"""The way from the runs of a TEACUP configuration to the axes of a sweep: what all share, what changes
together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cwndlab.errors import printable
from cwndlab_teacup.values import Place, as_text


@dataclass(frozen=True)
class Parameter:
    """One entry of TPCONF_vary_parameters: what it sets, and to what."""

    name: str
    variables: tuple[str, ...]
    short_names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    extra: Mapping[str, Any]
    place: Place

    def label(self, row: int) -> str:
        """Part of the test ID that stands for a value."""
        pairs = zip(self.short_names, self.rows[row], strict=True)
        return "".join(f"_{short}_{printable(as_text(value)).replace('_', '-')}" for short, value in pairs)


Leaves = dict[str, Any]
"""Values of an experiment file by their dotted keys."""


def simplify(leaves: Sequence[Leaves], ways: Sequence[tuple[str, str]]) -> None:
    """Leave out what goes without saying, and sweep over parts of queues where only those differ.

    `ways` are the keys of links, there and back.
    """
    for there, back in ways:
        both = [key for key in leaves[0] if key.startswith(f"{back}.")]
        mirror = all(leaf[key] == leaf[there + key.removeprefix(back)] for leaf in leaves for key in both)
        losses = [f"{way}.loss" for way in (there, back)]
        lossless = all(leaf.get(key, {}).get("random", "0%") == "0%" for leaf in leaves for key in losses)
        for leaf in leaves if lossless else ():
            for key in [*losses, *(both if mirror else ())]:
                leaf.pop(key, None)
        for way in (there, back):
            key = f"{way}.queue"
            if key not in leaves[0]:
                continue
            rest = {json.dumps({**leaf[key], "limit": None}, sort_keys=True) for leaf in leaves}
            if len(rest) == 1:
                _spread(leaves, key)
    for key in [key for key in leaves[0] if re.fullmatch(r"flows\.[^.]+\.app", key)]:
        shapes = {(leaf[key]["kind"], *leaf[key]) for leaf in leaves}
        if len(shapes) == 1 and any(leaf[key] != leaves[0][key] for leaf in leaves):
            _spread(leaves, key)


def _spread(leaves: Sequence[Leaves], key: str) -> None:
    """Put the parts of a mapping in its place."""
    for leaf in leaves:
        whole = leaf.pop(key)
        leaf |= {f"{key}.{name}": value for name, value in whole.items()}


def axes_of(
    key: str,
    parameters: Sequence[Parameter],
    cells: Sequence[tuple[int, ...]],
    leaves: Sequence[Leaves],
    at: Mapping[tuple[int, ...], int],
) -> set[int]:
    """The parameters that a value depends on."""
    texts = [json.dumps(leaf[key], sort_keys=True) for leaf in leaves]
    if len(set(texts)) == 1:
        return set()
    found = set()
    for axis in range(len(parameters)):
        for cell in cells:
            if cell[axis] and texts[at[cell]] != texts[at[(*cell[:axis], 0, *cell[axis + 1 :])]]:
                found.add(axis)
                break
    return found


def linked(sizes: Sequence[int], axes_of_values: Iterable[set[int]]) -> list[list[int]]:
    """Axes that must be swept together because one value depends on several of them, in order."""
    group = list(range(len(sizes)))
    for axes in axes_of_values:
        targets = {group[axis] for axis in axes}
        if targets:
            least = min(targets)
            group = [least if member in targets else member for member in group]
    return [
        [axis for axis, member in enumerate(group) if member == leader] for leader in dict.fromkeys(group)
    ]
