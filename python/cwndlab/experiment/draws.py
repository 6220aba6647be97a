"""The distributions of sizes and intervals, as a file writes them: `200B`, `exp(20ms)`, `file(x.csv)`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cwndlab.errors import nearest, shown
from cwndlab.experiment import units
from cwndlab.experiment.units import BadValue

DISTRIBUTIONS = {
    "constant": ("constant", ("value",)),
    "uniform": ("uniform", ("low", "high")),
    "exp": ("exponential", ("mean",)),
    "normal": ("normal", ("mean", "deviation")),
    "lognormal": ("lognormal", ("mean", "deviation")),
    "pareto": ("pareto", ("mean", "shape_milli")),
    "extreme": ("extreme", ("mode", "scale")),
}
"""Kind of a distribution in a Scenario, and its numbers in order, by the word of a file."""

FILE = "file"

_CALL = re.compile(r"([a-z]+) ?\(([^()]*)\)")


@dataclass(frozen=True)
class Drawn:
    """Sizes or intervals as a file gives them."""

    text: str
    """Text of the distribution as it is written again."""
    scenario: dict[str, Any]
    """Distribution in a Scenario's form; for a file its name, which the content replaces."""


def parse(text: str, quantity: Callable[[str], int], example: str) -> Drawn:
    """Read a distribution whose numbers are quantities; a quantity alone is always the same.

    Numbers are parted by spaces or commas; a comma needs quotes where YAML takes it for its own. Raises
    `BadValue`.
    """
    match = _CALL.fullmatch(text.strip())
    if match is None:
        if "(" in text:
            raise BadValue(shown(text), expected(example))
        return Drawn(text, _checked(text, {"kind": "constant", "value": quantity(text)}))
    word, inside = match[1], match[2].replace(",", " ").split()
    if word == FILE and len(inside) == 1:
        return Drawn(f"{FILE}({inside[0]})", {"kind": FILE, "name": inside[0]})
    if word not in DISTRIBUTIONS:
        raise BadValue(shown(text), expected(example), nearest(word, [*DISTRIBUTIONS, FILE]))
    kind, names = DISTRIBUTIONS[word]
    if len(inside) != len(names):
        raise BadValue(shown(text), f"{word}({' '.join(name.removesuffix('_milli') for name in names)})")
    numbers = {
        name: _shape(each) if name == "shape_milli" else quantity(each)
        for name, each in zip(names, inside, strict=True)
    }
    return Drawn(f"{word}({' '.join(inside)})", _checked(text, {"kind": kind, **numbers}))


def expected(example: str) -> str:
    """List the forms of a value for a message, with `example` as the plain one."""
    return (
        f"{example}, exp({example}), {', '.join(list(DISTRIBUTIONS)[1:])} with their numbers, or file(NAME)"
    )


def _checked(text: str, scenario: dict[str, Any]) -> dict[str, Any]:
    """Refuse what would be nothing: a mean of 0, or a range that is none."""
    kind, first, *others = scenario.values()
    if kind == "uniform" and first > others[0]:
        raise BadValue(shown(text), "the smaller one first")
    if max([first, *others]) == 0 or (first == 0 and kind not in ("uniform", "extreme")):
        raise BadValue(shown(text), "a number above 0")
    return scenario


def _shape(text: str) -> int:
    shape = units.parse_factor(text)
    if not 1 < shape <= 1000:
        raise BadValue(shown(text), "a shape above 1 up to 1000, so that there is a mean")
    return int(shape * 1000)
