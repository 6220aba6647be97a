"""Colours, dashes and markers by meaning: a stack, a congestion control, a value keep theirs everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours that people with colour-vision deficiency can tell apart (Okabe and Ito 2008, without the yellow,
which white paper swallows)."""

DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.3)), (0, (6, 2, 1, 2)))
"""Dash patterns. After every colour was used solid, all come again with the next: 28 distinct lines."""

HATCHES = ("", "////", "....", "xxxx")

MARKERS = "osD^vPX*<>hp"

_FIXED: Mapping[str, int] = {
    "cubic": 0, "newreno": 1, "reno": 1, "bbr": 2, "dctcp": 3, "htcp": 4, "vegas": 5, "cdg": 6,
    "linux": 0, "freebsd": 1,
}  # fmt: skip
"""The colour of a congestion control, and of the first version of a system that is met."""


def places(key: str, values: Sequence[object]) -> dict[object, int]:
    """The number of the pen of each value of a key; `values` are all that the results have, in order.

    A congestion control and a stack have a colour of their own, as long as no earlier value took it; the
    values of any other key have the colours in order. Hence a plot of some of the values has the colours of a
    plot of all.
    """
    if key.rpartition(".")[2] not in ("cc", "stack"):
        return {value: place for place, value in enumerate(values)}
    found: dict[object, int] = {}
    taken: set[int] = set()
    wanting: list[object] = []
    for value in values:
        name = str(value)
        own = _FIXED.get(name, _FIXED.get(name.partition("-")[0]))
        if own is None or own in taken:
            wanting.append(value)
        else:
            found[value] = own
            taken.add(own)
    free = (place for place in range(len(values) + len(PALETTE)) if place not in taken)
    return found | {value: next(free) for value in wanting}


def pen(place: int) -> dict[str, Any]:
    """Colour and dash of the line number `place` (see `DASHES`)."""
    return {"color": PALETTE[place % len(PALETTE)], "linestyle": DASHES[place // len(PALETTE) % len(DASHES)]}


def fill(place: int) -> dict[str, Any]:
    """Colour and hatching of the area number `place`: colours first, then all again hatched."""
    return {
        "facecolor": PALETTE[place % len(PALETTE)],
        "hatch": HATCHES[place // len(PALETTE) % len(HATCHES)],
    }


def marker(place: int) -> dict[str, Any]:
    """Colour and shape of the points number `place`."""
    return {"color": PALETTE[place % len(PALETTE)], "marker": MARKERS[place % len(MARKERS)]}
