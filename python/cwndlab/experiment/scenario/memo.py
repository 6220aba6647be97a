"""Parts of Scenarios, made once and kept by explicit keys, as many as memory may hold."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cwndlab.experiment.plan import canonical

_T = TypeVar("_T")

MOST = 1024
"""Results kept at most: whatever was kept is forgotten when there are more."""


class Memo(Generic[_T]):
    """Gives a result that was made before, by its key."""

    def __init__(self) -> None:
        """Nothing is kept yet."""
        self._kept: dict[Hashable, tuple[_T]] = {}

    def of(self, key: Hashable, make: Callable[..., _T], *of: object) -> _T:
        """Return what is kept under a key, or what is made `of` something; what that raises is not kept."""
        kept = self._kept.get(key)
        if kept is not None:
            return kept[0]
        made = make(*of)
        if len(self._kept) >= MOST:
            self._kept.clear()
        self._kept[key] = (made,)
        return made


def joined(pieces: Sequence[Piece[list[_T]]]) -> Piece[list[_T]]:
    """Return lists that follow each other as one."""
    text = ",".join([piece.text[1:-1] for piece in pieces if piece.value])
    notes = tuple([note for piece in pieces for note in piece.notes])
    return Piece([item for piece in pieces for item in piece.value], notes, _text=f"[{text}]")


def around(whole: Mapping[str, Any], known: Mapping[str, str], missing: Sequence[str]) -> tuple[str, ...]:
    """Return canonical JSON without the values of some keys, which are sorted: what is before, between and
    after them. Of other values the JSON may be known."""
    found, own = [], "{"
    for key in sorted({*whole, *missing}):
        own += f'{"" if own == "{" else ","}"{key}":'
        if key in missing:
            found.append(own)
            own = ""
        else:
            own += known[key] if key in known else canonical(whole[key])
    return (*found, own + "}")


@dataclass(slots=True)
class Piece(Generic[_T]):
    """A part of Scenarios, what is to be said of it, and its canonical JSON."""

    value: _T
    notes: tuple[str, ...] = ()
    unnamed: str = ""
    """Name of the sender's stack, where neither a flow nor its host names a congestion control."""
    _text: str = ""

    @property
    def text(self) -> str:
        """The part as canonical JSON, made once."""
        if not self._text:
            self._text = canonical(self.value)
        return self._text
