"""Text from strangers' files as it may be shown: on a terminal, in a message, in a table, in a spreadsheet.

Names, comments and messages of files that others wrote may hold escape sequences, which a terminal carries
out, marks that turn the direction of writing, and formulas, which a spreadsheet carries out.
"""

from __future__ import annotations

import re
import unicodedata

_KINDS = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""General categories of Unicode that are carried out instead of shown: controls (C0, C1, ESC, DEL), format
characters (marks of direction among them), halves of surrogate pairs, separators of lines and paragraphs."""

_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")


def printable(text: str) -> str:
    r"""The text with escapes such as `\x1b` for characters that are carried out instead of shown."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _KINDS:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def columns(text: str) -> int:
    """How many columns of a terminal a text takes: two for a wide character, none for an accent."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


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
