"""The rows that cells of a sweep have of its axes: what tells parts of one cell apart from another's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cwndlab.experiment import yaml_nodes
from cwndlab.experiment.locate import Path
from cwndlab.experiment.sweep import Axis

ANY = "*"
"""A step of a path that stands for every one."""

_Kinds = tuple[int, ...]
"""Number, for each row of an axis, of the first row that sets the same."""

Touching = tuple[tuple[int, _Kinds], ...]
"""Axes that set something at some paths."""


class Axes:
    """Axes of a sweep by the keys that they touch, and the rows of each that set the same there."""

    def __init__(self, axes: Sequence[Axis], paths: Mapping[str, Path]) -> None:
        """`paths` say where what the axes set stands, by its key."""
        self._paths = paths
        self._keys = [axis.keys for axis in axes]
        self._rows = [
            [[(each.key, yaml_nodes.content(each.node)) for each in row.settings] for row in axis.rows]
            for axis in axes
        ]
        self._kinds: dict[tuple[int, frozenset[str]], _Kinds] = {}
        self._known: dict[tuple[tuple[Path, ...], tuple[Path, ...]], Touching] = {}

    def touching(self, paths: tuple[Path, ...], but: tuple[Path, ...] = ()) -> Touching:
        """Return the axes that set something at one of the paths, below it or above it, `but` at those."""
        found = self._known.get((paths, but))
        if found is None:
            left_out = {key for key, own in self._paths.items() if any(_same(own, path) for path in but)}
            met = {key for key, own in self._paths.items() if any(_meet(own, path) for path in paths)}
            met -= left_out
            touched = [(axis, met.intersection(keys)) for axis, keys in enumerate(self._keys)]
            found = tuple((axis, self._of(axis, frozenset(keys))) for axis, keys in touched if keys)
            self._known[paths, but] = found
        return found

    def _of(self, axis: int, keys: frozenset[str]) -> _Kinds:
        if (axis, keys) not in self._kinds:
            first: dict[tuple[object, ...], int] = {}
            set_there = (tuple([each for each in row if each[0] in keys]) for row in self._rows[axis])
            kinds = tuple(first.setdefault(each, place) for place, each in enumerate(set_there))
            self._kinds[axis, keys] = kinds
        return self._kinds[axis, keys]


def _same(own: Path, path: Path) -> bool:
    return len(own) == len(path) and _meet(own, path)


def _meet(own: Path, path: Path) -> bool:
    return all(other in (step, ANY) for step, other in zip(own, path, strict=False))


@dataclass(slots=True)
class Rows:
    """The row that a cell has of each axis."""

    axes: Axes
    combination: Sequence[int]

    def of(self, *paths: Path, but: tuple[Path, ...] = ()) -> tuple[int, ...]:
        """Return the rows of the axes that touch some paths, of those that set the same there the first:
        cells with equal ones have equal content there, `but` at those."""
        return self.at(self.axes.touching(paths, but))

    def at(self, touching: Touching) -> tuple[int, ...]:
        """Return what `of` does, where the axes that touch the paths are known already."""
        combination = self.combination
        return tuple([kinds[combination[axis]] for axis, kinds in touching])


NO_ROWS = Rows(Axes((), {}), ())
"""Rows of a cell that is resolved alone."""
