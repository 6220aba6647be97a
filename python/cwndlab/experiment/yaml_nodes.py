"""YAML as plain nodes: every scalar is text with its place, and nothing but text, lists and mappings exists.

PyYAML's scanner and parser are used, its composer and constructors are not: the tree is built here from
parser events, so that no tag can name a type, no alias can multiply, and depth is bounded by a counter
and not by Python's stack.
"""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from cwndlab.errors import ExperimentError, Place, shown

MAX_BYTES = 1 << 20
"""Largest file that is read, in bytes: some hundred times the largest experiment."""
MAX_DEPTH = 24
"""Deepest nesting; the schema needs eleven."""
MAX_NODES = 200_000
"""Most scalars, lists and mappings in one file."""


@dataclass(slots=True)
class Scalar:
    """A piece of text. ``plain`` tells an unquoted scalar, which may stand for nothing at all."""

    place: Place
    text: str
    plain: bool = True


@dataclass(slots=True)
class Sequence:
    """A list of nodes."""

    place: Place
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Mapping:
    """Nodes under text keys, in order; ``key_places`` tells where each key stands."""

    place: Place
    items: dict[str, Node] = field(default_factory=dict)
    key_places: dict[str, Place] = field(default_factory=dict)

    def set(self, key: str, node: Node, place: Place) -> None:
        """Put ``node`` under ``key``, new or replaced."""
        self.items[key] = node
        self.key_places[key] = place


Node = Scalar | Sequence | Mapping
PlainData = str | list["PlainData"] | dict[str, "PlainData"]


def read_file(path: Path) -> str:
    """Return the text of an experiment file, refusing what is missing, too large or not UTF-8."""
    file = str(path)
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ExperimentError(Place(file), "", problem=f"cannot be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise ExperimentError(Place(file), "", "more than 1 MiB", "an experiment file of at most 1 MiB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        found = f"the byte 0x{raw[error.start]:02x}"
        raise ExperimentError(Place(file, line), "", found, "text in UTF-8") from error


def parse(text: str, file: str) -> Mapping:
    """Return the tree of an experiment file's text; ``file`` is its name in messages."""
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise ExperimentError(Place(file), "", "more than 1 MiB", "an experiment file of at most 1 MiB")
    node = parse_value(text, file)
    if isinstance(node, Mapping):
        return node
    if node is None or (isinstance(node, Scalar) and node.plain and not node.text):
        raise ExperimentError(Place(file), "", "an empty file", "an experiment: a mapping of keys to values")
    raise ExperimentError(node.place, "", describe(node), "a mapping of keys to values")


def text_of(data: abc.Mapping[str, object], file: str) -> str:
    """Return the text of an experiment given as dictionaries, lists and plain values.

    Raises `ExperimentError` for a value that no file can hold.
    """
    try:
        return yaml.dump(dict(data), Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)
    except yaml.representer.RepresenterError as error:
        found = f"{shown(repr(error.args[-1]))} of type {type(error.args[-1]).__name__}"
        raise ExperimentError(Place(file), "", found, "text, numbers, lists and dictionaries") from None
    except RecursionError:
        raise ExperimentError(Place(file), "", "a value within itself", "an experiment") from None


class _Dumper(yaml.SafeDumper):
    """Writes what `parse` reads: no aliases, and nothing where a value is None."""

    def ignore_aliases(self, data: object) -> bool:
        """Return true: a value that stands in two places is written twice."""
        return True


_Dumper.add_representer(type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", ""))


def parse_value(text: str, file: str, *, numbered: bool = True) -> Node | None:
    """Return the tree of one YAML value, or None for no document at all.

    With ``numbered`` false places carry no line: the value of a command-line option.
    """
    lines = _BREAKS.split(text) if numbered else []
    try:
        return _Builder(file, lines).build(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"not valid YAML: {error.problem or error.context}"
        raise ExperimentError(_place(file, lines, mark), "", problem=problem) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if numbered else None
        found = f"the character U+{int(error.character):04X}"
        raise ExperimentError(Place(file, line), "", found, "printable text") from error


_Mark = yaml.Mark | yaml._yaml.Mark
_BREAKS = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""Ends of a line of YAML 1.1."""


def _place(file: str, lines: list[str], mark: _Mark | None, end: _Mark | None = None) -> Place:
    """Return the place of a mark, and how far what begins there goes on its line; without a line if none has
    numbers."""
    if mark is None or not lines:
        return Place(file)
    text = lines[mark.line] if mark.line < len(lines) else ""
    stop = mark.column + 1 if end is None else end.column if end.line == mark.line else len(text)
    return Place(file, mark.line + 1, mark.column, stop - mark.column, text)


def plain(node: Node) -> PlainData:
    """Return the tree as text, lists and dictionaries."""
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {key: plain(item) for key, item in node.items.items()}


def copy(node: Node) -> Node:
    """Return a copy of the tree that shares only scalars, which are never changed in place."""
    if isinstance(node, Scalar):
        return node
    if isinstance(node, Sequence):
        return Sequence(node.place, [copy(item) for item in node.items])
    return Mapping(node.place, {key: copy(item) for key, item in node.items.items()}, dict(node.key_places))


def content(node: Node) -> Hashable:
    """Return what tells the content of a node apart from others', wherever they stand."""
    if isinstance(node, Scalar):
        return node.text, node.plain
    if isinstance(node, Sequence):
        return "list", *map(content, node.items)
    return tuple([(key, content(item)) for key, item in node.items.items()])


def opened(node: Node, path: tuple[str | int, ...]) -> Node:
    """Return a copy of the tree that shares what is beside the path."""
    if not path or isinstance(node, Scalar):
        return copy(node)
    step, rest = path[0], path[1:]
    if isinstance(node, Sequence):
        return Sequence(
            node.place, [opened(each, rest) if n == step else each for n, each in enumerate(node.items)]
        )
    items = {key: opened(item, rest) if key == step else item for key, item in node.items.items()}
    return Mapping(node.place, items, dict(node.key_places))


def describe(node: Node) -> str:
    """Say what a node is, for messages: its text, or its shape."""
    if isinstance(node, Scalar):
        return shown(node.text) if node.text or not node.plain else "nothing"
    return "a list" if isinstance(node, Sequence) else "a mapping"


class _Builder:
    """Builds the tree from parser events with its own stack."""

    def __init__(self, file: str, lines: list[str]) -> None:
        self.file = file
        self.lines = lines
        self.nodes = 0
        self.root: Node | None = None
        self.open: list[Sequence | Mapping] = []
        self.keys: list[str | None] = []
        self.names: list[str] = []

    def build(self, events: Iterator[yaml.Event]) -> Node | None:
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self.refuse(event, "a second document", "one experiment in one file")
            elif isinstance(event, yaml.AliasEvent):
                raise self.refuse(event, f"the alias {shown('*' + str(event.anchor))}", "the value itself")
            elif isinstance(event, yaml.NodeEvent):
                self.start(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self.open.pop()
                self.keys.pop()
                self.names.pop()
        return self.root

    def start(self, event: yaml.NodeEvent) -> None:
        if event.anchor is not None:
            raise self.refuse(
                event, f"the anchor {shown('&' + str(event.anchor))}", "the value without an anchor"
            )
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise self.refuse(event, f"the tag {shown(str(tag))}", "a plain value: tags are not read")
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.refuse(event, f"more than {MAX_NODES} values", "a smaller experiment")
        place = self.place(event)
        if isinstance(event, yaml.ScalarEvent):
            if self.open and isinstance(self.open[-1], Mapping) and self.keys[-1] is None:
                self.start_key(event, self.open[-1])
            else:
                self.add(Scalar(place, event.value, plain=event.style is None), event)
            return
        if len(self.open) == MAX_DEPTH:
            raise self.refuse(event, f"more than {MAX_DEPTH} levels", "an experiment, which needs no more")
        name = self.name()
        node: Sequence | Mapping
        node = Sequence(place) if isinstance(event, yaml.SequenceStartEvent) else Mapping(place)
        self.add(node, event)
        self.open.append(node)
        self.keys.append(None)
        self.names.append(name)

    def start_key(self, event: yaml.ScalarEvent, mapping: Mapping) -> None:
        key = event.value
        if key in mapping.items:
            first = mapping.key_places[key].line
            seen = f" (first in line {first})" if first else ""
            raise self.refuse(event, f"the key {shown(key)} again{seen}", "each key once")
        mapping.set(key, Scalar(self.place(event), ""), self.place(event))
        self.keys[-1] = key

    def add(self, node: Node, event: yaml.NodeEvent) -> None:
        if not self.open:
            self.root = node
            return
        parent = self.open[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
            return
        key = self.keys[-1]
        if key is None:
            raise self.refuse(event, f"{describe(node)} as a key", "text as a key")
        parent.items[key] = node
        self.keys[-1] = None

    def place(self, event: yaml.Event) -> Place:
        end = event.end_mark if isinstance(event, yaml.ScalarEvent) else None
        return _place(self.file, self.lines, event.start_mark, end)

    def refuse(self, event: yaml.Event, found: str, expected: str) -> ExperimentError:
        key = ".".join(name for name in [*self.names, self.name()] if name)
        return ExperimentError(self.place(event), key, found, expected)

    def name(self) -> str:
        """Return the name, in the innermost open list or mapping, of what comes next."""
        if self.open and isinstance(self.open[-1], Sequence):
            return str(len(self.open[-1].items) + 1)
        key = self.keys[-1] if self.keys else None
        return key if key and key.isprintable() and len(key) <= 80 else ""
