"""The checked content of a sweep's cells, in which only what an axis touches is checked again."""

from __future__ import annotations

import functools
from collections.abc import Mapping as MappingType
from collections.abc import Sequence as SequenceType
from dataclasses import dataclass
from typing import Any, cast

from cwndlab.errors import Place
from cwndlab.experiment import locate, sweep, yaml_nodes
from cwndlab.experiment.locate import Path
from cwndlab.experiment.schema import Flow, Host, Link, Section, Spec
from cwndlab.experiment.subset import Subset
from cwndlab.experiment.yaml_nodes import Mapping

_ALONE = (Host, Flow, Link)
"""Sections of which nothing above them looks at the content, so that one is checked by itself."""


Rows = MappingType[str, tuple[int, ...]]
"""By top key of an experiment, the rows of the axes that touch what is below it: cells with equal rows have
equal content there. Nothing touches a key that is missing."""


@dataclass(frozen=True, slots=True)
class Content:
    """Checked content of a cell, and what tells each part of it apart from other cells'."""

    spec: Spec
    rows: Rows


class Sections:
    """Gives the content of each cell, put together out of the sections that the axes touch.

    A section is checked once for each combination of the axes that touch it.
    """

    def __init__(self, first: Spec, part: Subset) -> None:
        """`first` is the content of the first cell, as `locate.check` gives it."""
        self._first = first
        self._part = part
        self._fields = _names(type(first))
        whole = part.tree
        self._base = Mapping(whole.place, dict(whole.items), dict(whole.key_places))
        """The file without its sweep, which has every value of every axis."""
        self._base.items.pop("sweep", None)
        tree = next(part.cells()).tree
        keys = [(number, key) for number, axis in enumerate(part.axes) for key in axis.keys]
        rows = [row for axis in part.axes for row in axis.rows]
        places = {setting.key: setting.place for row in reversed(rows) for setting in row.settings}
        where = {key: _section(first, tree, key, place) for key, place in places.items()}
        # Of a section inside another that an axis touches, the outer one is checked.
        outer = {
            key: min((p for p in where.values() if path[: len(p)] == p), key=len)
            for key, path in where.items()
        }
        self._touched: dict[Path, dict[int, list[str]]] = {}
        for number, key in keys:
            self._touched.setdefault(outer[key], {}).setdefault(number, []).append(key)
        self._made: dict[tuple[Path, tuple[int, ...]], Any] = {}
        self._tops: dict[str, list[Path]] = {}
        for path in self._touched:
            self._tops.setdefault(str(path[0]), []).append(path)
        self._axes = {
            top: tuple(dict.fromkeys(axis for path in paths for axis in self._touched[path]))
            for top, paths in self._tops.items()
        }
        self._whole: dict[tuple[str, tuple[int, ...]], Any] = {}

    def content(self, combination: SequenceType[int]) -> Content:
        """Return the content of the cell that has these rows of the axes.

        Raises `ExperimentError` for what is wrong in it, which may not be what is found first in all of it.
        """
        made, rows = {}, {}
        for top, paths in self._tops.items():
            rows[top] = own = tuple(combination[axis] for axis in self._axes[top])
            whole = self._whole.get((top, own))
            if whole is None:
                here: Any = self._first
                for path in paths:
                    here = _put(here, path, self._checked(path, combination))
                whole = _field(here, top)
                if self._comes_again(own):
                    self._whole[top, own] = whole
            made[self._fields[top]] = whole
        return Content(self._first.model_copy(update=made), rows)

    def _comes_again(self, rows: tuple[int, ...]) -> bool:
        """Whether another cell has these rows of some axes: not if they are of all axes."""
        return len(rows) < len(self._part.axes)

    def _checked(self, path: Path, combination: SequenceType[int]) -> Any:
        """Return the section at a path with the values of the axes that touch it."""
        axes = self._touched[path]
        rows = tuple(combination[axis] for axis in axes)
        if (path, rows) in self._made:
            return self._made[path, rows]
        before = _at(self._first, path)
        tree = yaml_nodes.copy(self._base)
        assert isinstance(tree, Mapping)  # a copy of a mapping
        for number, axis in enumerate(self._part.axes):
            sweep.put_row(tree, axis.rows[combination[number] if number in axes else 0])
        if len(path) == 1:
            made = _field(locate.check(type(self._first), tree), str(path[0]))
        else:
            made = locate.check_at(type(before), tree, path)
            words = [sweep.words_of(key)[len(path) :] for keys in axes.values() for key in keys]
            if all(words):
                # A level may set what no other has, and what there is not, which the check above refuses.
                known = _names(cast(type[Section], type(before)))
                changed = {known[word[0]] for word in words if word[0] in known}
                same = {
                    name: getattr(before, name) for name in type(before).model_fields if name not in changed
                }
                written = made.model_fields_set
                made = made.model_copy(update=same)
                made.model_fields_set.intersection_update(written)
        if self._comes_again(rows):
            self._made[path, rows] = made
        return made


def _section(first: Spec, tree: Mapping, key: str, place: Place) -> Path:
    """Return the path of the section that is checked again where a swept key, which stands at a place,
    changes."""
    words = sweep.words_of(key)
    here: Any = first
    path: list[str | int] = []
    for depth, word in enumerate(words):
        if isinstance(here, _ALONE):
            return (words[0],) if words[-1] == "name" else tuple(path)
        node = locate.node_at(tree, tuple(path))
        step = sweep.member(node, words, depth, place) if isinstance(node, yaml_nodes.Sequence) else word
        if isinstance(here, Section) and word in _names(type(here)):
            here = _field(here, word)
        elif isinstance(here, list) or (isinstance(here, dict) and step in here):
            here = here[step]  # type: ignore[index]
        else:
            break
        path.append(step)
    in_list = any(isinstance(step, int) for step in path)
    return tuple(path) if isinstance(here, _ALONE) and not in_list else (words[0],)


@functools.cache
def _names(section: type[Section]) -> dict[str, str]:
    """Return the names of a section's fields by their keys in a file."""
    return {field.alias or name: name for name, field in section.model_fields.items()}


def _field(section: Section, key: str) -> Any:
    return getattr(section, _names(type(section))[key])


def _at(here: Any, path: Path) -> Any:
    for step in path:
        here = _field(here, str(step)) if isinstance(here, Section) else here[step]
    return here


def _put(here: Any, path: Path, made: Any) -> Any:
    """Return a copy with something else at a path; what is beside the path is shared."""
    if not path:
        return made
    step, rest = path[0], path[1:]
    if isinstance(here, Section):
        return here.model_copy(
            update={_names(type(here))[str(step)]: _put(_field(here, str(step)), rest, made)}
        )
    copy = here.copy()
    copy[step] = _put(here[step], rest, made)
    return copy
