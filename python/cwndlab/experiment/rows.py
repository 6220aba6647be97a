"""The rows that cells of a sweep have of its axes: what tells parts of one cell apart from another's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cwndlab.experiment.locate import Path

ANY = "*"
"""A step of a path that stands for every one."""


class Axes:
    """Which axes of a sweep touch what."""

    def __init__(self, paths: Iterable[tuple[int, Path]] = ()) -> None:
        """`paths` are of everything that rows set, each with the number of its axis."""
        self._paths = tuple(paths)
        self._touching: dict[tuple[Path, ...], tuple[int, ...]] = {}

    def touching(self, paths: tuple[Path, ...]) -> tuple[int, ...]:
        """Return the axes that set something at one of the paths, below it or above it."""
        found = self._touching.get(paths)
        if found is None:
            met = (axis for axis, own in self._paths if any(_meet(own, path) for path in paths))
            found = self._touching[paths] = tuple(dict.fromkeys(met))
        return found


def _meet(own: Path, path: Path) -> bool:
    return all(other in (step, ANY) for step, other in zip(own, path, strict=False))


@dataclass(slots=True)
class Rows:
    """The row that a cell has of each axis."""

    axes: Axes
    combination: Sequence[int]

    def of(self, *paths: Path) -> tuple[int, ...]:
        """Return the rows of the axes that touch some paths: cells with equal ones have equal content
        there."""
        return tuple([self.combination[axis] for axis in self.axes.touching(paths)])


NO_ROWS = Rows(Axes(), ())
"""Of a cell that is resolved alone."""
