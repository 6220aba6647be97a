"""Expressions that metrics of one's own are made of: a small closed grammar, read by recursive descent.

sum     = product { ("+" | "-") product }
product = factor { ("*" | "/") factor }
factor  = "-" factor | "(" sum ")" | NUMBER | METRIC | STATISTIC "(" series ["," series] ")"
series  = TABLE "." COLUMN | "events" "." KIND
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cwndlab.errors import one_of, shown
from cwndlab.experiment.units import BadValue

STATISTICS = ("mean", "min", "max", "p50", "p95", "first", "last")
"""Statistics of a series: over time, so that each value counts for as long as it lasts."""

COUNT, UNTIL = "count", "until"
"""Words for events alone: how many there are; the longest time from one to the next of another kind."""

EVENTS = "events"
"""The table of which a kind, with _ for -, stands in the place of a column."""

MOST_CHARACTERS = 300
MOST_NESTED = 20
"""Parentheses and signs inside each other."""

FORM = "an expression such as goodput_mbps / total_goodput_mbps or 100 * max(queue.backlog_bytes) / 500000"

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]{1,15}(?:\.[0-9]{1,15})?(?:e-?[0-9]{1,2})?)|(?P<name>[a-z_][a-z0-9_]*)|(?P<sign>[-+*/(),.]))",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it stands there."""

    value: float


@dataclass(frozen=True, slots=True)
class Name:
    """A metric of the flow."""

    name: str


@dataclass(frozen=True, slots=True)
class Series:
    """A statistic of a column of a table."""

    statistic: str
    table: str
    column: str
    then: str = ""
    """Kind of the event up to which time is taken, of `UNTIL`."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two parts and what joins them."""

    sign: str
    left: Part
    right: Part


Part = Number | Name | Series | Pair


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression, and its text."""

    text: str
    part: Part

    def leaves(self) -> Iterator[Name | Series]:
        """The metrics and series in it."""
        return _leaves(self.part)

    def value(self, known: Callable[[Name | Series], float | None]) -> float | None:
        """Value of the expression. None where a part of it is not known, or is divided by zero."""
        return _value(self.part, known)


def parse(text: str) -> Expression:
    """The expression that a text says; raises `BadValue` with the place of what is wrong in it."""
    if len(text) > MOST_CHARACTERS:
        raise BadValue(f"{len(text)} characters", f"at most {MOST_CHARACTERS}")
    return Expression(text.strip(), _Reading(text).whole())


def write(expression: Expression) -> str:
    """The expression as a file has it."""
    return expression.text


class _Reading:
    """A text that is read token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._kind, self._token = "", ""
        self._next()

    def whole(self) -> Part:
        """The part that all of the text is."""
        part = self._sum()
        if self._kind:
            raise self._wrong("+, -, *, / or the end")
        return part

    def _sum(self) -> Part:
        part = self._product()
        while self._token in ("+", "-"):
            part = Pair(self._taken(), part, self._product())
        return part

    def _product(self) -> Part:
        part = self._factor()
        while self._token in ("*", "/"):
            part = Pair(self._taken(), part, self._factor())
        return part

    def _factor(self) -> Part:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise self._wrong(f"at most {MOST_NESTED} parentheses and signs inside each other")
        part = self._unit()
        self._depth -= 1
        return part

    def _unit(self) -> Part:
        if self._kind == "number":
            return Number(float(self._taken()))
        if self._kind == "name":
            name = self._taken()
            return self._series(name) if self._token == "(" else Name(name)
        if self._token == "-":
            self._next()
            return Pair("-", Number(0.0), self._factor())
        if self._token == "(":
            self._next()
            part = self._sum()
            self._close()
            return part
        raise self._wrong("a number, a metric, a statistic of a series, or (")

    def _series(self, statistic: str) -> Series:
        if statistic not in (known := (*STATISTICS, COUNT, UNTIL)):
            raise BadValue(f"{shown(statistic)} before (", one_of(known))
        self._next()
        table, column = self._column()
        if statistic in (COUNT, UNTIL) and table != EVENTS:
            raise BadValue(f"{statistic} of {table}", f"{statistic} of {EVENTS}, such as {EVENTS}.rto")
        then = ""
        if statistic == UNTIL:
            if self._token != ",":
                raise self._wrong(f"a comma and another kind, as in until({EVENTS}.rto, {EVENTS}.undo)")
            self._next()
            other, then = self._column()
            if other != EVENTS:
                raise BadValue(f"{other}.{then} after the comma", f"{EVENTS} and a kind")
        self._close()
        return Series(statistic, table, column, then)

    def _column(self) -> tuple[str, str]:
        table = self._name("a table and a column, such as tcp.cwnd_bytes")
        if self._token != ".":
            raise self._wrong("a dot and a column, as in tcp.cwnd_bytes")
        self._next()
        return table, self._name("a column, as in tcp.cwnd_bytes")

    def _name(self, expected: str) -> str:
        if self._kind != "name":
            raise self._wrong(expected)
        return self._taken()

    def _close(self) -> None:
        if self._token != ")":
            raise self._wrong(")")
        self._next()

    def _taken(self) -> str:
        token = self._token
        self._next()
        return token

    def _next(self) -> None:
        """Go to the next token; at the end there is one without kind and text."""
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            rest = self._text[self._at :].lstrip()
            self._start = len(self._text) - len(rest)
            self._kind, self._token = ("unknown" if rest else ""), rest[:1]
        else:
            self._kind = str(found.lastgroup)
            self._start, self._at = found.span(self._kind)
            self._token = found[self._kind]

    def _wrong(self, expected: str) -> BadValue:
        found = shown(self._token) if self._kind else "the end"
        return BadValue(f"{found} at character {self._start + 1} of {shown(self._text)}", expected)


def _leaves(part: Part) -> Iterator[Name | Series]:
    if isinstance(part, Pair):
        yield from _leaves(part.left)
        yield from _leaves(part.right)
    elif not isinstance(part, Number):
        yield part


def _value(part: Part, known: Callable[[Name | Series], float | None]) -> float | None:
    if isinstance(part, Number):
        return part.value
    if not isinstance(part, Pair):
        return known(part)
    left, right = _value(part.left, known), _value(part.right, known)
    return None if left is None or right is None else _SIGNS[part.sign](left, right)


_SIGNS: dict[str, Callable[[float, float], float | None]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left / right if right else None,
}
