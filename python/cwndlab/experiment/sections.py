"""The checked content of a sweep's cells, in which only what an axis touches is checked again."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import create_model

from cwndlab.errors import ExperimentError, Place
from cwndlab.experiment import locate, sweep, yaml_nodes
from cwndlab.experiment.locate import Misplaced, Path
from cwndlab.experiment.rows import Axes, Rows
from cwndlab.experiment.scenario.memo import Memo
from cwndlab.experiment.schema import Flow, Host, Link, Section, Spec
from cwndlab.experiment.subset import Subset
from cwndlab.experiment.support import Support
from cwndlab.experiment.units import BadValue
from cwndlab.experiment.yaml_nodes import Mapping

_ALONE = (Host, Flow, Link)
"""Sections of which nothing above them looks at the content, so that one is checked by itself."""


@dataclass(frozen=True, slots=True)
class Content:
    """Checked content of a cell, and what tells each part of it apart from other cells'."""

    spec: Spec
    rows: Rows


@dataclass(frozen=True, slots=True)
class _Part:
    """Part of the section at a path that is checked at once: some fields, or all where none are named."""

    path: Path
    fields: tuple[str, ...]
    paths: tuple[Path, ...]
    """Paths of these fields, or of the section."""


class Sections:
    """Gives the content of each cell, put together out of what the axes touch.

    Fields are checked once for each combination of the axes that touch them, or what a rule looks at with
    them.
    """

    def __init__(self, first: Spec, part: Subset, support: Support) -> None:
        """`first` is the content of the first cell, as `locate.check` gives it."""
        self._first = first
        self._part = part
        self._support = support
        self._fields = _names(type(first))
        whole = part.tree
        self._base = Mapping(whole.place, dict(whole.items), dict(whole.key_places))
        """The file without its sweep, which has every value of every axis."""
        self._base.items.pop("sweep", None)
        tree = next(part.cells()).tree
        rows = [row for axis in part.axes for row in axis.rows]
        places = {setting.key: setting.place for row in reversed(rows) for setting in row.settings}
        where = {key: _section(first, tree, key, place) for key, place in places.items()}
        inside = {key: tuple(sweep.words_of(key)[len(path) :]) for key, path in where.items()}
        below = {key: inside[key] if len(path) > 1 else () for key, path in where.items()}
        self.axes = Axes(part.axes, {key: (*path, *below[key]) for key, path in where.items()})
        # Of a section inside another that an axis touches, the outer one is checked.
        outer = {
            key: min((p for p in where.values() if path[: len(p)] == p), key=len)
            for key, path in where.items()
        }
        self._outer = outer
        touched: dict[Path, list[str]] = {}
        for key, path in outer.items():
            word = sweep.words_of(key)[len(path) :][:1]
            touched.setdefault(path, []).append(word[0] if word else "")
        self._parts: dict[Path, list[_Part]] = {}
        self._tops: dict[str, list[Path]] = {}
        for path, each in touched.items():
            self._tops.setdefault(str(path[0]), []).append(path)
            self._parts[path] = list(_parts(type(_at(first, path)), path, each))
        self._touching = {top: self.axes.touching(((top,),)) for top in self._tops}
        self._wholes: Memo[Any] = Memo()
        self._checked: Memo[Any] = Memo()

    def content(self, combination: Sequence[int]) -> Content:
        """Return the content of the cell that has these rows of the axes.

        Raises `ExperimentError` or `Misplaced` for what is wrong in it, which may not be what is found first
        in all of it.
        """
        rows = Rows(self.axes, combination)
        made = {
            self._fields[top]: self._wholes.of((top, rows.at(touching)), self._whole, top, rows)
            for top, touching in self._touching.items()
        }
        return Content(self._first.copied(made), rows)

    def _whole(self, top: str, rows: Rows) -> Any:
        """Return what stands at a key of the file."""
        here = _field(self._first, top)
        for path in self._tops[top]:
            made = _at(self._first, path)
            fields: dict[str, Any] = {}
            written: set[str] = set()
            for part in self._parts[path]:
                found = self._checked.of((part.paths, rows.of(*part.paths)), self._check, part, rows)
                if not part.fields:
                    made = found
                    continue
                fields |= {name: getattr(found, name) for name in part.fields}
                written |= found.model_fields_set.intersection(part.fields)
            made = made.copied(fields, written) if fields else made
            here = _put(here, path[1:], made)
        return here

    def _check(self, part: _Part, rows: Rows) -> Any:
        """Return a section with these rows of the axes that touch a part of it, and the first of others."""
        path, top = part.path, str(part.path[0])
        own = {axis: rows.combination[axis] for axis, _ in self.axes.touching(part.paths)}
        ruled = len(path) == 1 and self._fields[top] in self._first.ruled
        tree = yaml_nodes.opened(self._base, () if ruled else path)
        assert isinstance(tree, Mapping)  # a copy of a mapping
        for number, axis in enumerate(self._part.axes):
            for setting in axis.rows[own.get(number, 0)].settings:
                if ruled or self._outer[setting.key] == path:
                    sweep.put(tree, setting.key, yaml_nodes.copy(setting.node), setting.place)
        if len(path) == 1:
            made = _field(locate.check(type(self._first), tree), top) if ruled else self._top(top, tree)
            refused = self._support.refused(self._first.copied({self._fields[top]: made}), only={top})
        else:
            made = locate.check_at(type(_at(self._first, path)), tree, path)
            refused = self._support.refused(made, path)
        for found in refused:
            raise Misplaced(found, BadValue(problem="not supported"))
        return made

    def _top(self, key: str, tree: Mapping) -> Any:
        """Return what stands at a key of the file, checked by itself."""
        schema, name = type(self._first), self._fields[key]
        there = {key: tree.items[key]} if key in tree.items else {}
        return getattr(locate.check(_with(schema, name), Mapping(tree.place, there, tree.key_places)), name)


@functools.cache
def _with(schema: type[Section], name: str) -> type[Section]:
    """Return a section with one field of another."""
    field = schema.model_fields[name]
    fields: dict[str, Any] = {name: (field.annotation, field)}
    return create_model(schema.__name__, __base__=Section, **fields)


def _parts(section: type, path: Path, words: Sequence[str]) -> Iterator[_Part]:
    """Yield the parts of the section at a path of which axes touch some fields, `words`, or all of it."""
    known = _names(section) if issubclass(section, Section) else {}
    if len(path) == 1 or not all(word in known for word in words):
        yield _Part(path, (), (path,))
        return
    keys = {name: key for key, name in known.items()}
    for fields in dict.fromkeys(_looked_at(cast(type[Section], section), known[word]) for word in words):
        names = tuple(sorted(fields))
        yield _Part(path, names, tuple((*path, keys[name]) for name in names))


def _looked_at(section: type[Section], field: str) -> frozenset[str]:
    """Return the fields that are looked at together with one."""
    return section.ruled if field in section.ruled else frozenset({field})


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
        try:
            step = sweep.member(node, words, depth, place) if isinstance(node, yaml_nodes.Sequence) else word
        except ExperimentError:
            return (words[0],)  # of a member that another axis has renamed
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
        return here.copied({_names(type(here))[str(step)]: _put(_field(here, str(step)), rest, made)})
    copy = here.copy()
    copy[step] = _put(here[step], rest, made)
    return copy
