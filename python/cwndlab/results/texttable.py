"""Tables of text for a terminal: which keys tell rows apart, short names for them, columns of equal width;
sentences in lines; the cells of CSV files."""

import itertools
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cwndlab.errors import printable

WIDTH = 80
"""Characters of a line of a table unless the terminal is wider."""

PARTS = tuple(map(re.compile, (r"\S+\s*", r"[^\s/.-]+[/.-]*\s*|[/.-]+\s*", r"\S{1,8}\s*")))
"""Patterns of the pieces into which a cell is cut that goes on in a new line: words; what ends in a hyphen, a
slash or a dot; and at last any eight characters.
"""

GAP = "  "


def telling(keys: Sequence[str], rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The keys, in order, without those that the ones before determine: a `zip` sweeps many together."""
    chosen: list[str] = []
    for key in keys:
        known: dict[tuple[str, ...], str] = {}
        if any(known.setdefault(tuple(row[name] for name in chosen), row[key]) != row[key] for row in rows):
            chosen.append(key)
    return chosen


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The shortest ends of dotted names that tell them apart, and the way back from the way there."""
    short = {}
    for name in names:
        words = name.split(".")
        others = [other for other in names if other != name]
        least = len(words) - words.index("reverse") if "reverse" in words[:-1] else 1
        for count in range(least, len(words) + 1):
            short[name] = ".".join(words[-count:])
            if not any(f".{other}".endswith(f".{short[name]}") for other in others):
                break
    return short


@dataclass(frozen=True)
class Column:
    """A column of a table: its cells, heads among them, at the left unless they are numbers."""

    cells: Sequence[str]
    right: bool = False

    @cached_property
    def width(self) -> int:
        """Number of characters of its widest line."""
        return max(len(line) for cell in self._distinct for line in _lines(cell))

    def narrowed(self, width: int, parts: re.Pattern[str]) -> "Column":
        """The column with its cells over several lines where they are wider."""
        made = {cell: _wrapped(cell, width, parts) for cell in self._distinct}
        return Column([made[cell] for cell in self.cells], self.right)

    def least(self, parts: re.Pattern[str]) -> int:
        """Number of characters of the longest part of a cell; of numbers, of a cell."""
        if self.right:
            return self.width
        found = (part for cell in self._distinct for part in parts.findall(printable(cell)))
        return max((len(part.rstrip()) for part in found), default=0)

    @cached_property
    def _distinct(self) -> list[str]:
        return list(dict.fromkeys(self.cells))


def width_of(columns: Sequence[Column]) -> int:
    """Number of characters of a line of a table."""
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def fitted(columns: Sequence[Column], width: int, parts: Sequence[re.Pattern[str]] = PARTS) -> list[Column]:
    """The columns, the widest ones of text made narrower until all have room: by words first, then inside
    words. They stay too wide if that is not enough."""
    found = list(columns)
    for each in parts:
        least = [column.least(each) for column in columns]
        while width_of(found) > width:
            room = [column.width - most for column, most in zip(found, least, strict=True)]
            places = [place for place, more in enumerate(room) if more > 0]
            if not places:
                break
            place = max(places, key=lambda place: found[place].width)
            found[place] = columns[place].narrowed(found[place].width - 1, each)
    return found


def lines(columns: Sequence[Column], width: int | None = None) -> list[str]:
    """The columns side by side, as lines of at most `width` characters, if that can be."""
    chosen = list(columns) if width is None else fitted(columns, width)
    widths = [column.width for column in chosen]
    found = []
    for row in zip(*(column.cells for column in chosen), strict=True):
        for texts in itertools.zip_longest(*map(_lines, row), fillvalue=""):
            cells = zip(texts, widths, chosen, strict=True)
            padded = (text.rjust(wide) if of.right else text.ljust(wide) for text, wide, of in cells)
            found.append(GAP.join(padded).rstrip())
    return found


def _lines(cell: str) -> list[str]:
    """The lines of a cell, as a terminal can show them."""
    return [printable(line) for line in cell.split("\n")]


def _wrapped(cell: str, width: int, parts: re.Pattern[str]) -> str:
    lines = [""]
    for part in parts.findall(printable(cell)):
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


_BEFORE_UNIT = re.compile(r"(?<=[\d∞]) (?=(?:%|points|[num]?s|min|h|[kMG]?bit/s|[kMG]?B|[KMG]iB)(?![\w/]))")
"""The space between a number and its unit."""


def unbroken(text: str) -> str:
    """The text with spaces between numbers and their units at which no line is broken."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)


def wrapped(text: str, width: int, *, first: str = "", others: str | None = None) -> str:
    """The text in lines of `width` characters, a number and its unit in the same one.

    `first` stands before the first line, `others` (default: the same) before the others.
    """
    lines = textwrap.wrap(
        unbroken(text), width, initial_indent=first, subsequent_indent=first if others is None else others
    )
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")


def csv_cell(value: object) -> str:
    """A cell of a CSV file; an empty one for None.

    An apostrophe stands before text that a spreadsheet would take for a formula: what begins with `=`, `+`,
    `-`, `@`, a tab or a carriage return. Numbers stay as they are.
    """
    if value is None:
        return ""
    text = str(value)
    formula = text[:1] in ("=", "+", "-", "@", "\t", "\r") and not _NUMBER.fullmatch(text)
    return f"'{text}" if formula else text
