"""Dotted keys and the values put at them: the axes of a sweep, and overrides from the command line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cwndlab.errors import ExperimentError, Place, nearest, one_of, shown
from cwndlab.experiment import locate, schema, units, yaml_nodes
from cwndlab.experiment.locate import SWEPT, Path
from cwndlab.experiment.units import BadValue
from cwndlab.experiment.yaml_nodes import Mapping, Node, Scalar

_OPTION = "--set "
"""What the place of a key that an option sets begins with."""

_STOP = r"flows\.([^.]+)\.stop"


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a sweep: keys that change together, and rows with a value for each."""

    keys: tuple[str, ...]
    places: tuple[Place, ...]
    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of swept values: values as text by key, and the tree with the values in it."""

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
    for axis in axes:
        for key, place in zip(axis.keys, axis.places, strict=True):
            if key in seen:
                raise _at(place, "sweep", BadValue(f"the key {shown(key)} again", "each key on one axis"))
            seen.add(key)
    return axes


def cells(tree: Mapping, axes: Sequence[Axis]) -> Iterator[Cell]:
    """Yield the cells, the last axis changing fastest; without axes, the one cell there is."""
    base = Mapping(tree.place, dict(tree.items), dict(tree.key_places))
    base.items.pop("sweep", None)
    for combination in itertools.product(*(axis.rows for axis in axes)):
        cell = yaml_nodes.copy(base)
        assert isinstance(cell, Mapping)  # a copy of a mapping
        values = {}
        for axis, row in zip(axes, combination, strict=True):
            for key, place, node in zip(axis.keys, axis.places, row, strict=True):
                put(cell, key, yaml_nodes.copy(node), place)
                values[key] = compact(node)
        yield Cell(values, cell)


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
    changed = []
    for axis in axes:
        stops = {at: found[1] for at, key in enumerate(axis.keys) if (found := re.fullmatch(_STOP, key))}
        rows = (
            tuple(cut(node, stops[at]) if at in stops else node for at, node in enumerate(row))
            for row in axis.rows
        )
        changed.append(Axis(axis.keys, axis.places, tuple(rows)))
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


def _axis(tree: Mapping, node: Node, path: Path) -> Axis:
    if not isinstance(node, Mapping) or len(node.items) != 1:
        found = f"{len(node.items)} keys" if isinstance(node, Mapping) else yaml_nodes.describe(node)
        raise locate.fault(tree, path, BadValue(found, "one key with its values, or zip with several such"))
    ((key, values),) = node.items.items()
    if key != "zip":
        column = _column(tree, key, values, (*path, key))
        return Axis((key,), (node.key_places[key],), tuple((value,) for value in column))
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
    places = tuple(values.key_places[name] for name in columns)
    return Axis(tuple(columns), places, tuple(zip(*columns.values(), strict=True)))


def _column(tree: Mapping, key: str, node: Node, path: Path) -> list[Node]:
    top = key.split(".", 1)[0]
    if top not in SWEPT:
        known = schema.Spec.known_keys()
        hint = None if top in known else nearest(top, SWEPT)
        what = f"the key {shown(key)}" if top in known else f"the unknown key {shown(key)}"
        raise locate.fault(tree, path, BadValue(what, f"a key of {', '.join(SWEPT)}", hint))
    if not isinstance(node, yaml_nodes.Sequence) or not node.items:
        found = "an empty list" if isinstance(node, yaml_nodes.Sequence) else yaml_nodes.describe(node)
        raise locate.fault(tree, path, BadValue(found, "a list of values"))
    return node.items


def _fixed(axis: Axis, key: str, node: Node, place: Place) -> Axis:
    if key not in axis.keys:
        return axis
    if len(axis.keys) == 1:
        return Axis(axis.keys, (place,), ((node,),))
    # Of a zip, the combinations with that value are left: what goes with another is not known.
    column = axis.keys.index(key)
    wanted = compact(node)
    rows = tuple(row for row in axis.rows if compact(row[column]) == wanted)
    if not rows:
        there = dict.fromkeys(compact(row[column]) for row in axis.rows)
        raise _at(place, key, BadValue(shown(wanted), f"one of the zip's values: {', '.join(there)}"))
    return Axis(axis.keys, axis.places, rows)


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
