"""The expectation of an experiment about a metric: one comparison with a number, or several."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from cwndlab.errors import shown
from cwndlab.experiment.units import BadValue

_SIGNS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
FORM = 'a comparison such as ">= 9", "> 95%" or ">= 9, < 10"'
"""Form of a condition, in words."""

_ONE = re.compile(r"\s*(>=|<=|>|<)\s*(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)\s*(%?)\s*")


@dataclass(frozen=True, slots=True)
class Condition:
    """Comparisons that all have to hold, and their text."""

    text: str
    comparisons: tuple[tuple[str, float], ...]

    def holds(self, value: float) -> bool:
        """Whether a value is as expected."""
        return all(_SIGNS[sign](value, bound) for sign, bound in self.comparisons)


def parse(text: str) -> Condition:
    """`>= 9`, `> 95%` or `>= 9, < 10`; raises `BadValue`."""
    comparisons = []
    for part in text.split(","):
        found = _ONE.fullmatch(part)
        if found is None:
            raise BadValue(
                shown(text) if text.strip() else "nothing",
                'a comparison such as ">= 9", "> 95%" or ">= 9, < 10"',
            )
        sign, number, percent = found.groups()
        comparisons.append((sign, float(number) / (100 if percent else 1)))
    return Condition(text.strip(), tuple(comparisons))


def write(condition: Condition) -> str:
    """The condition as a file has it."""
    return condition.text
