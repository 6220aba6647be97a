"""Dotted keys and the values put at them: the axes of a sweep, and overrides from the command line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cwndlab.errors import ExperimentError, Place, nearest, one_of, shown
from cwndlab.experiment import locate, schema, units, yaml_nodes
from cwndlab.experiment.locate import SWEPT, Path
from cwndlab.experiment.units import BadValue
from cwndlab.experiment.yaml_nodes import Mapping, Node, Scalar

_OPTION = "--set "
"""Prefix of the place of a key that an option sets."""

_STOP = r"flows\.([^.]+)\.stop"


NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
"""The name of an axis."""

MAX_LEVEL = 60
"""Greatest number of characters of a level's name."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that a row of an axis puts at a key, and where the key stands."""

    key: str
    place: Place
    node: Node


@dataclass(frozen=True, slots=True)
class Row:
    """Values that an axis sets at once; ``level`` is the row's name on an axis that has names, else empty."""

    settings: tuple[Setting, ...]
    level: str = ""

    def without(self, key: str) -> Row:
        """Return the row without what it sets at a key."""
        return replace(self, settings=tuple(each for each in self.settings if each.key != key))

    def changed(self, value: Callable[[str, Node], Node]) -> Row:
        """Return the row with other values, each made of a key and its value."""
        settings = tuple(replace(each, node=value(each.key, each.node)) for each in self.settings)
        return replace(self, settings=settings)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a sweep: what changes together, in rows.

    Each row of an axis without a name sets the same keys, each of which has a column in every table. An axis
    with a name has one column, of its rows' levels; a level that does not set a key leaves it as the file has
    it.
    """

    rows: tuple[Row, ...]
    name: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that a row sets, in order."""
        return tuple(dict.fromkeys(setting.key for row in self.rows for setting in row.settings))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the axis's columns in tables."""
        return (self.name,) if self.name else self.keys

    def values(self, row: Row) -> dict[str, str]:
        """Return the text of a row in each column."""
        if self.name:
            return {self.name: row.level}
        return {setting.key: compact(setting.node) for setting in row.settings}


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of swept values: values as text by column, and the tree with the values in it."""

    values: dict[str, str]
    tree: Mapping


def read_axes(tree: Mapping) -> tuple[Axis, ...]:
    """Return the axes of the file's ``sweep``, none if it has none; raises `ExperimentError`."""
    node = tree.items.get("sweep")
    if node is None:
        return ()
    if not isinstance(node, yaml_nodes.Sequence):
        raise locate.fault(tree, ("sweep",), BadValue(yaml_nodes.describe(node), "a list of axes"))
    axes = tuple(_axis(tree, item, ("sweep", index)) for index, item in enumerate(node.items))
    seen: set[str] = set()
    for index, axis in enumerate(axes):
        if axis.name in seen:
            again = BadValue(f"the name {shown(axis.name)} again", "each name once")
            raise locate.fault(tree, ("sweep", index, "name"), again)
        for key in axis.keys:
            if key in seen:
                place = next(each.place for row in axis.rows for each in row.settings if each.key == key)
                raise _at(place, "sweep", BadValue(f"the key {shown(key)} again", "each key on one axis"))
        seen |= {*axis.keys, *axis.columns}
    return axes


def cells(
    tree: Mapping, axes: Sequence[Axis], told: Callable[[Axis, Row], dict[str, str]] = Axis.values
) -> Iterator[Cell]:
    """Yield the cells, the last axis changing fastest; without axes, the one cell there is.

    ``told`` gives the text of a row in each column.
    """
    base = Mapping(tree.place, dict(tree.items), dict(tree.key_places))
    base.items.pop("sweep", None)
    for combination in itertools.product(*(axis.rows for axis in axes)):
        cell = yaml_nodes.copy(base)
        assert isinstance(cell, Mapping)  # a copy of a mapping
        values: dict[str, str] = {}
        for axis, row in zip(axes, combination, strict=True):
            put_row(cell, row)
            values |= told(axis, row)
        yield Cell(values, cell)


def put_row(tree: Mapping, row: Row) -> None:
    """Put all that a row sets into a tree."""
    for setting in row.settings:
        put(tree, setting.key, yaml_nodes.copy(setting.node), setting.place)


def override(tree: Mapping, axes: tuple[Axis, ...], options: Sequence[str]) -> tuple[Axis, ...]:
    """Put ``KEY=VALUE`` options into the tree, in order; return the axes, a set one cut to its value."""
    for option in options:
        place = Place(_OPTION + (option if option.isprintable() else shown(option)), None)
        key, equals, text = option.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ExperimentError(place, "", shown(option), "KEY=VALUE such as duration=10s")
        if key == "sweep" or key.startswith("sweep."):
            raise _at(place, key, BadValue(shown(key), "another key: a sweep is changed in its file"))
        node = yaml_nodes.parse_value(text, place.file, numbered=False)
        if node is None:
            raise _at(place, key, BadValue("nothing", "a value"))
        if all(key != axis.name for axis in axes):
            put(tree, key, yaml_nodes.copy(node), place)
        axes = tuple(_fixed(axis, key, node, place) for axis in axes)
    return axes


def cut_stops(tree: Mapping, axes: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], tuple[str, ...]]:
    """Let no flow go on after a duration that an option sets; return the axes and what was cut, in words.

    A flow that would not even have started is left out. The file's own duration and stops must fit each
    other, as must a stop that an option sets.
    """
    duration = tree.items.get("duration")
    place = tree.key_places.get("duration")
    if place is None or not place.file.startswith(_OPTION) or not isinstance(duration, Scalar):
        return axes, ()
    notes: dict[str, None] = {}

    def cut(node: Node, name: str) -> Node:
        if not isinstance(node, Scalar) or not _later(node, duration):
            return node
        notes[f"flow {name} is cut: it stops at the end, {duration.text}, and not at {node.text}"] = None
        return yaml_nodes.copy(duration)

    flows = tree.items.get("flows")
    listed = flows.items if isinstance(flows, yaml_nodes.Sequence) else []
    swept = {key.split(".")[1] for axis in axes for key in axis.keys if key.startswith("flows.")}
    for index, flow in reversed(list(enumerate(listed))):
        if not isinstance(flow, Mapping):
            continue
        named, start = flow.items.get("name"), flow.items.get("start")
        name = named.text if isinstance(named, Scalar) else f"f{index + 1}"
        written = {key for key, place in flow.key_places.items() if not place.file.startswith(_OPTION)}
        late = isinstance(start, Scalar) and "start" in written and not _later(duration, start)
        if late and named is not None and name not in swept and len(listed) > 1:
            del listed[index]
            notes[f"flow {name} is left out: it would start when the run is over"] = None
        elif "stop" in written and not late:
            flow.items["stop"] = cut(flow.items["stop"], name)

    def kept(key: str, node: Node) -> Node:
        found = re.fullmatch(_STOP, key)
        return cut(node, found[1]) if found else node

    changed = (replace(axis, rows=tuple(row.changed(kept) for row in axis.rows)) for axis in axes)
    return tuple(changed), tuple(reversed(notes))


def _later(node: Scalar, other: Scalar) -> bool:
    try:
        return units.parse_time(node.text) > units.parse_time(other.text)
    except BadValue:
        return False  # refused where it is checked


def put(tree: Mapping, key: str, node: Node, place: Place) -> None:
    """Put a node at a dotted key, making the mappings on the way; ``place`` is where the key stands.

    Members of lists are named, or counted from 1; after ``sysctl.`` the rest of the key is one name.
    """
    words = words_of(key)
    here: Node = tree
    for depth, word in enumerate(words[:-1]):
        here = _step(here, words, depth, word, place)
    last = words[-1]
    if isinstance(here, yaml_nodes.Sequence):
        here.items[member(here, words, len(words) - 1, place)] = node
    elif isinstance(here, Mapping):
        if words[:-1] == ["hosts"] and last not in here.items:
            raise _unknown(place, key, last, here.items)
        here.set(last, node, place)
    else:
        raise _at(
            place,
            key,
            BadValue(f"{shown(words[-2])} with the value {yaml_nodes.describe(here)}", "a mapping"),
        )


def remove(tree: Mapping, key: str) -> bool:
    """Take what stands at a dotted key out of the tree; whether there was something."""
    *words, last = words_of(key)
    here: Node | None = tree
    for word in words:
        here = here.items.get(word) if isinstance(here, Mapping) else None
    if not isinstance(here, Mapping) or last not in here.items:
        return False
    del here.items[last], here.key_places[last]
    return True


def compact(node: Node) -> str:
    """Return a value as one line of text: a scalar as it stands, lists and mappings in flow style."""
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, yaml_nodes.Sequence):
        return "[" + ", ".join(compact(item) for item in node.items) + "]"
    return "{" + ", ".join(f"{key}: {compact(item)}" for key, item in node.items.items()) + "}"


_EXPECTED = "one key with its values, zip with several such, or name and values"


def _axis(tree: Mapping, node: Node, path: Path) -> Axis:
    if isinstance(node, Mapping) and {"name", "values"} & node.items.keys():
        return _named(tree, node, path)
    if not isinstance(node, Mapping) or len(node.items) != 1:
        found = f"{len(node.items)} keys" if isinstance(node, Mapping) else yaml_nodes.describe(node)
        raise locate.fault(tree, path, BadValue(found, _EXPECTED))
    ((key, values),) = node.items.items()
    if key != "zip":
        column = _column(tree, key, values, (*path, key))
        return Axis(tuple(Row((Setting(key, node.key_places[key], value),)) for value in column))
    if not isinstance(values, Mapping) or not values.items:
        raise locate.fault(
            tree, (*path, "zip"), BadValue(yaml_nodes.describe(values), "keys with their values")
        )
    columns = {
        name: _column(tree, name, column, (*path, "zip", name)) for name, column in values.items.items()
    }
    lengths = {name: len(column) for name, column in columns.items()}
    first = next(iter(lengths))
    for name, length in lengths.items():
        if length != lengths[first]:
            expected = f"a list of {lengths[first]}, as {first} has"
            raise locate.fault(tree, (*path, "zip", name), BadValue(f"a list of {length}", expected))
    set_by_key = [
        [Setting(name, values.key_places[name], value) for value in column]
        for name, column in columns.items()
    ]
    return Axis(tuple(map(Row, zip(*set_by_key, strict=True))))


def _named(tree: Mapping, node: Mapping, path: Path) -> Axis:
    """Return the axis of ``{name: NAME, values: {LEVEL: {KEY: VALUE, ...}, ...}}``."""
    for key in node.items:
        if key not in _NAMED:
            unknown = BadValue(f"the unknown key {shown(key)}", one_of(_NAMED), nearest(key, _NAMED))
            raise locate.fault(tree, (*path, key), unknown)
    for key in _NAMED:
        if key not in node.items:
            raise locate.fault(tree, path, BadValue(problem="missing; this key is required", key=key))
    name, levels = node.items["name"], node.items["values"]
    word = name.text if isinstance(name, Scalar) else ""
    if not NAME.fullmatch(word):
        expected = "a name of at most 32 letters, digits, '-' and '_' that begins with a letter"
        raise locate.fault(tree, (*path, "name"), BadValue(yaml_nodes.describe(name), expected))
    if word in schema.Spec.known_keys():
        expected = f"another name, as {word} is a key of experiments"
        raise locate.fault(tree, (*path, "name"), BadValue(shown(word), expected))
    if not isinstance(levels, Mapping) or not levels.items:
        found = "an empty mapping" if isinstance(levels, Mapping) else yaml_nodes.describe(levels)
        raise locate.fault(tree, (*path, "values"), BadValue(found, "levels by their names"))
    rows = (_level(tree, level, content, (*path, "values", level)) for level, content in levels.items.items())
    return Axis(tuple(rows), word)


_NAMED = ("name", "values")


def _level(tree: Mapping, name: str, node: Node, path: Path) -> Row:
    """Return the row of a level, which may set nothing."""
    if not name.strip() or not name.isprintable() or len(name) > MAX_LEVEL:
        expected = f"a name of 1 to {MAX_LEVEL} printable characters"
        raise locate.fault(tree, path, BadValue(f"the level {shown(name)}", expected, of_key=True))
    if isinstance(node, Scalar) and node.plain and not node.text:
        return Row((), name)
    if not isinstance(node, Mapping):
        expected = "keys with a value each, such as {hosts.a.cc: cubic}"
        raise locate.fault(tree, path, BadValue(yaml_nodes.describe(node), expected))
    for key in node.items:
        _check_key(tree, key, (*path, key))
    return Row(tuple(Setting(key, node.key_places[key], value) for key, value in node.items.items()), name)


def _column(tree: Mapping, key: str, node: Node, path: Path) -> list[Node]:
    _check_key(tree, key, path)
    if not isinstance(node, yaml_nodes.Sequence) or not node.items:
        found = "an empty list" if isinstance(node, yaml_nodes.Sequence) else yaml_nodes.describe(node)
        raise locate.fault(tree, path, BadValue(found, "a list of values"))
    return node.items


def _check_key(tree: Mapping, key: str, path: Path) -> None:
    """Refuse a key that no sweep may change."""
    top = key.split(".", 1)[0]
    if top not in SWEPT:
        known = schema.Spec.known_keys()
        hint = None if top in known else nearest(top, SWEPT)
        what = f"the key {shown(key)}" if top in known else f"the unknown key {shown(key)}"
        raise locate.fault(tree, path, BadValue(what, f"a key of {', '.join(SWEPT)}", hint))


def _fixed(axis: Axis, key: str, node: Node, place: Place) -> Axis:
    wanted = compact(node)
    if key == axis.name:
        rows = tuple(row for row in axis.rows if row.level == wanted)
        if not rows:
            levels = [row.level for row in axis.rows]
            raise _at(place, key, BadValue(shown(wanted), one_of(levels), nearest(wanted, levels)))
        return replace(axis, rows=rows)
    if key not in axis.keys:
        return axis
    if axis.keys == (key,) and not axis.name:
        return Axis((Row((Setting(key, place, node),)),))
    # Of several keys the rows with that value are left: what goes with another is not known. A level that
    # does not set the key has the value, as the file has it now.
    there = [[compact(each.node) for each in row.settings if each.key == key] for row in axis.rows]
    rows = tuple(row for row, found in zip(axis.rows, there, strict=True) if found in ([], [wanted]))
    if not rows:
        known = dict.fromkeys(text for found in there for text in found)
        of = f"of {axis.name}'s" if axis.name else "of the zip's"
        raise _at(place, key, BadValue(shown(wanted), f"one {of} values: {', '.join(known)}"))
    return replace(axis, rows=rows)


def words_of(key: str) -> list[str]:
    """Return the words of a dotted key; after ``sysctl.`` the rest is one."""
    words = key.split(".")
    if "sysctl" in words[:-1]:
        at = words.index("sysctl") + 1
        words[at:] = [".".join(words[at:])]
    return words


def _step(here: Node, words: list[str], depth: int, word: str, place: Place) -> Node:
    """Return the node one step deeper, made if it is not there."""
    if isinstance(here, yaml_nodes.Sequence):
        return here.items[member(here, words, depth, place)]
    if not isinstance(here, Mapping):
        key = ".".join(words[:depth])
        raise _at(
            place, ".".join(words), BadValue(f"{key} with the value {yaml_nodes.describe(here)}", "a mapping")
        )
    node = here.items.get(word)
    if node is None:
        if words[:depth] == ["hosts"]:
            raise _unknown(place, ".".join(words), word, here.items)
        node = Mapping(place)
        here.set(word, node, place)
    elif isinstance(node, Scalar) and word in {"app", "queue"}:
        node = Mapping(node.place, {"kind": node}, {"kind": node.place})
        here.items[word] = node
    return node


def member(here: yaml_nodes.Sequence, words: list[str], depth: int, place: Place) -> int:
    """Return the position of a list's member: by its ``name``, its default name, or counted from 1."""
    names: dict[str, int] = {}
    for index, item in enumerate(here.items):
        name = item.items.get("name") if isinstance(item, Mapping) else None
        own = name.text if isinstance(name, Scalar) else None
        names.setdefault(own or (f"f{index + 1}" if words[:depth] == ["flows"] else str(index + 1)), index)
    word = words[depth]
    if word in names:
        return names[word]
    if word.isascii() and word.isdigit() and len(word) < 7 and 1 <= int(word) <= len(here.items):
        return int(word) - 1
    raise _unknown(place, ".".join(words), word, names)


def _unknown(
    place: Place, key: str, word: str, known: Sequence[str] | dict[str, int] | dict[str, Node]
) -> ExperimentError:
    return _at(
        place, key, BadValue(shown(word), one_of(known) if known else "nothing there", nearest(word, known))
    )


def _at(place: Place, key: str, bad: BadValue) -> ExperimentError:
    return ExperimentError(place, key, bad.found, bad.expected, hint=bad.hint, problem=bad.problem)
