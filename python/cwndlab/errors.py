"""The errors a user can cause, each of which prints as exactly one line; text of others, made printable."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

_KINDS = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""General categories of Unicode that are carried out instead of shown: controls (C0, C1, ESC, DEL), format
characters (marks of direction among them), halves of surrogate pairs, separators of lines and paragraphs."""
_SHOWN = 60
"""Characters of a bad value that a message repeats."""
_LISTED = 12
"""Names that a message lists where none resembles what was found."""
_BEFORE, _AFTER = 70, 60
"""Characters of a line that an error shows before and from what is wrong."""


class CwndlabError(Exception):
    """Base of every error that is the user's to mend: the command line prints ``str(error)`` and exits.

    ``exit_code`` is 2 for bad input and 1 for everything else.
    """

    exit_code = 1

    def __str__(self) -> str:
        """Return the message on one line that a terminal only shows, whatever went into it."""
        return printable(" ".join(super().__str__().split()))


class InputError(CwndlabError):
    """Input that cannot be used: a bad option, file or directory. Exit code 2."""

    exit_code = 2


class RunError(CwndlabError):
    """A run that failed by a machine, an agent or the engine. Exit code 1."""


class StoppedError(CwndlabError):
    """Stopped by Ctrl-C or a signal that asks for the end; what is whole is kept. Exit code 130."""

    exit_code = 130


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value came from: a file and its line (from 1), or a command-line option without a line.

    Of a line that is known, ``text`` is the whole of it, and the value stands there at ``column`` (from 0),
    over ``length`` characters.
    """

    file: str
    line: int | None = None
    column: int = 0
    length: int = 0
    text: str = ""


class ExperimentError(InputError):
    """An experiment that is refused: ``FILE:LINE: KEY: found X; expected Y (hint: did you mean Z?)``.

    ``place.file`` is the file's name, or the command-line option the value came from (then it has no line).
    ``key`` is the dotted name of what is wrong, empty where the file as a whole is. ``found`` is the
    offending text as it stands, or None where the message is not about a value; ``problem`` replaces
    ``found X; expected Y`` where that form does not say it best. ``all`` has every error of the file that is
    known, this one among them, in the order of lines.
    """

    def __init__(  # noqa: D107 - described by the class
        self,
        place: Place,
        key: str,
        found: str | None = None,
        allowed: str | None = None,
        *,
        hint: str | None = None,
        problem: str | None = None,
    ) -> None:
        self.place = place
        self.key = key
        self.found = found
        self.allowed = allowed
        self.hint = hint
        self.problem = problem
        self.all: tuple[ExperimentError, ...] = (self,)
        where = place.file if place.line is None else f"{place.file}:{place.line}"
        parts = [where, key] if key else [where]
        parts.append(problem if problem is not None else f"found {found}; expected {allowed}")
        super().__init__(": ".join(parts) + (f" (hint: {hint})" if hint else ""))

    def excerpt(self) -> list[str]:
        """Return the line of the file, and marks under what is wrong; nothing where no line is known."""
        place = self.place
        if place.line is None or not place.text.strip():
            return []
        before, there = place.text[: place.column], place.text[place.column :]
        if len(before) > _BEFORE:
            before = "…" + before[-_BEFORE:]
        if len(there) > _AFTER:
            there = there[:_AFTER] + "…"
        marked = printable(there[: max(place.length, 1)].replace("\t", " "))
        before, there = (printable(part.replace("\t", " ")) for part in (before, there))
        number = f"{place.line:>5}"
        return [
            f"{number} | {before}{there}".rstrip(),
            f"{' ' * len(number)} | {' ' * _columns(before)}{'^' * max(_columns(marked), 1)}",
        ]


def together(errors: Iterable[ExperimentError]) -> ExperimentError:
    """Return the first of some errors in the order of lines, which knows all of them."""
    ordered = sorted(errors, key=lambda error: (error.place.line or 0, error.place.column))
    ordered[0].all = tuple(ordered)
    return ordered[0]


def shown(text: str) -> str:
    """Quote a value for a message: escaped, and cut when it is long."""
    cut = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return repr(cut)


def unknown(what: str, found: object, known: Iterable[object]) -> InputError:
    """Return the error for a name that does not exist: what was found, and the nearest names or what there
    is."""
    names = [str(name) for name in dict.fromkeys(known)]
    near = nearest_names(str(found), names, 3)
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    elif names:
        hint = f"there is {', '.join(names[:_LISTED])}{' …' if len(names) > _LISTED else ''}"
    else:
        hint = "there is none"
    return InputError(f"{what}: {shown(str(found))} does not exist; {hint}")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the hint ``did you mean X?`` for the known word closest to ``word``, None if none is close."""
    close = nearest_names(word, known, 1)
    return f"did you mean {close[0]}?" if close else None


def nearest_names(word: str, known: Iterable[str], count: int) -> list[str]:
    """Return up to ``count`` known names: those that begin with ``word``, the last first, then others."""
    names = list(known)
    begin = [name for name in reversed(names) if len(word) > 3 and name.startswith(word)]
    found = dict.fromkeys([*begin, *difflib.get_close_matches(word, names, n=count, cutoff=0.6)])
    return list(found)[:count]


def one_of(names: Iterable[str]) -> str:
    """Spell out a choice: ``one of a, b, c``, or just the one."""
    names = list(names)
    return names[0] if len(names) == 1 else "one of " + ", ".join(names)


def printable(text: str) -> str:
    r"""The text with escapes such as `\x1b` for characters that are carried out instead of shown.

    Names and comments of files that others wrote may hold escape sequences, which a terminal carries out, and
    marks that turn the direction of writing.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _KINDS:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes: two for a wide character, none for an accent."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )
