"""Results that are kept by explicit keys, as many as memory may hold."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T")

MOST = 4096
"""Results kept at most: whatever was kept is forgotten when there are more."""


class Memo(Generic[_T]):
    """Gives a result that was made before, by its key."""

    def __init__(self) -> None:
        """Nothing is kept yet."""
        self._kept: dict[Hashable, _T] = {}

    def of(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return what is kept under a key, or what `make` makes; what it raises is not kept."""
        if key in self._kept:
            return self._kept[key]
        made = make()
        if len(self._kept) >= MOST:
            self._kept.clear()
        self._kept[key] = made
        return made
