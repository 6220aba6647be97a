"""The way from a fault in checked data back to the file, line and key of the node it came from."""

from __future__ import annotations

from collections import abc
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from cwndlab.errors import ExperimentError, Place, one_of, shown, together
from cwndlab.experiment import hints
from cwndlab.experiment.units import BadValue, NotSingle
from cwndlab.experiment.yaml_nodes import Mapping, Node, Scalar, Sequence, describe, plain

Path = tuple[str | int, ...]
"""Keys and list positions (from 0) that lead to a node."""

SWEPT = ("hosts", "network", "flows", "duration", "start_jitter", "phase_jitter", "measure", "record")
"""Top-level keys of an experiment that may differ between cells."""

Model = TypeVar("Model", bound=BaseModel)


class Misplaced(Exception):  # noqa: N818 - carries a BadValue to where places are known
    """A bad value and the path of the node it stands at; ``others`` were found as well."""

    def __init__(  # noqa: D107 - described by the class
        self, path: Path, bad: BadValue, others: abc.Sequence[Misplaced] = ()
    ) -> None:
        super().__init__(path, bad)
        self.path = path
        self.bad = bad
        self.others = tuple(others)


def check(model: type[Model], tree: Mapping) -> Model:
    """Return the model of the tree; raises `ExperimentError` for all faults in the order of lines."""
    try:
        return model.model_validate(plain(tree))
    except ValidationError as error:
        raise _together(tree, error.errors(include_url=False)) from None


def check_at(model: type[Model], tree: Mapping, path: Path) -> Model:
    """Return the model of the node at a path; raises `ExperimentError` for its faults."""
    node = node_at(tree, path)
    try:
        return model.model_validate(None if node is None else plain(node))
    except ValidationError as error:
        faults = error.errors(include_url=False)
        for details in faults:
            details["loc"] = (*path, *details["loc"])
        raise _together(tree, faults) from None


def check_partly(model: type[Model], tree: Mapping) -> Model | None:
    """Return the model of the tree, or None if keys are missing, as a sweep may bring them.

    Raises `ExperimentError` for every other fault.
    """
    try:
        return model.model_validate(plain(tree))
    except ValidationError as error:
        faults = error.errors(include_url=False)
        others = [details for details in faults if details["type"] not in _MISSING]
        if others:
            raise _together(tree, others) from None
        return None


def fault(tree: Mapping, path: Path, bad: BadValue) -> ExperimentError:
    """Return the error for a bad value at a path: the node's place, or that of the nearest one above it."""
    if bad.key is not None:
        path = (*path, bad.key)
    place = place_of(tree, path, of_key=bad.of_key)
    return ExperimentError(
        place,
        dotted(tree, path),
        bad.found,
        bad.expected,
        hint=bad.hint,
        problem=bad.problem,
    )


def place_of(tree: Mapping, path: Path, *, of_key: bool = False) -> Place:
    """Return where the node at the path stands, or its key; where there is none, the nearest one above it."""
    node: Node = tree
    place = tree.place
    for step in path:
        if isinstance(node, Mapping) and isinstance(step, str) and step in node.items:
            place = node.key_places[step]
            node = node.items[step]
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            place = node.place
        else:
            return place
    return node.place if isinstance(node, Scalar) and not of_key else place


def node_at(tree: Mapping, path: Path) -> Node | None:
    """Return the node at the path, or None."""
    node: Node | None = tree
    for step in path:
        if isinstance(node, Mapping) and isinstance(step, str):
            node = node.items.get(step)
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node


def dotted(tree: Mapping, path: Path) -> str:
    """Return the key of a path as a sweep would write it: a list's members by name, or counted from 1."""
    words = []
    for depth, step in enumerate(path):
        if isinstance(step, int):
            words.append(_member(node_at(tree, path[: depth + 1]), step))
        else:
            words.append(_clean(step))
    return ".".join(words)


def _member(node: Node | None, index: int) -> str:
    name = node.items.get("name") if isinstance(node, Mapping) else None
    return _clean(name.text) if isinstance(name, Scalar) and name.text else str(index + 1)


def _clean(key: str) -> str:
    return key if key.isprintable() and len(key) <= 80 and " " not in key else shown(key)


def placed(tree: Mapping, misplaced: Misplaced) -> ExperimentError:
    """Return the error of a bad value, which knows those of the others that were found."""
    return together(fault(tree, each.path, each.bad) for each in (misplaced, *misplaced.others))


_MISSING = frozenset({"missing", "union_tag_not_found"})
"""Faults that a value brought by a sweep can mend."""


def _together(tree: Mapping, faults: list[ErrorDetails]) -> ExperimentError:
    """Return the error of the fault that comes first in the file, which knows the others."""
    return together(_fault(tree, details) for details in faults)


def _fault(tree: Mapping, details: ErrorDetails) -> ExperimentError:
    path = _node_path(tree, details["loc"])
    context = details.get("ctx", {})
    bad = context.get("error")
    may_vary = "experiment" in tree.items and path[:1] and path[0] in SWEPT
    if isinstance(bad, NotSingle) and may_vary and isinstance(node_at(tree, path), Sequence):
        bad.hint = "to vary it, put it under `sweep:`"
    if isinstance(bad, BadValue) and path[:1] == ("hosts",) and path[2:3] == ("sysctl",) and len(path) == 4:
        bad.hint = bad.hint or hints.key_for_sysctl(str(path[3]))
    if isinstance(bad, BadValue):
        return fault(tree, path, bad)
    return fault(tree, path, _translated(details, node_at(tree, path)))


def _translated(details: ErrorDetails, node: Node | None) -> BadValue:
    """Return what pydantic itself found wrong, in cwndlab's words."""
    found = describe(node) if node is not None else "nothing"
    context = details.get("ctx", {})
    match details["type"]:
        case "missing" if isinstance(node, Scalar) and node.text in details["loc"]:
            lacking = str(details["loc"][-1])
            meant = f"write it as {{kind: {node.text}, {lacking}: ...}}"
            bad = BadValue(problem="missing; this key is required", hint=meant, key=lacking)
        case "missing":
            bad = BadValue(problem="missing; this key is required")
        case "union_tag_not_found":
            bad = BadValue(problem="missing; this key is required", key="kind")
        case "union_tag_invalid":
            known = [word.strip("' ") for word in context["expected_tags"].split(",")]
            kind = str(context["tag"])
            key = "kind" if isinstance(node, Mapping) else None
            bad = BadValue(shown(kind), one_of(known), hints.word(kind, known), key=key)
        case "list_type":
            bad = BadValue(found, "a list")
        case "dict_type":
            bad = BadValue(found, "a mapping")
        case _:
            bad = BadValue(found, details["msg"])
    return bad


def _node_path(tree: Mapping, loc: Path) -> Path:
    """Drop from pydantic's location what is no key of the file: the tags of unions and its word for keys."""
    path: list[str | int] = []
    steps = [step for step in loc if step != "[key]"]
    for number, step in enumerate(steps):
        node = node_at(tree, tuple(path))
        known = isinstance(node, Mapping) and step in node.items
        known = known or (isinstance(node, Sequence) and isinstance(step, int))
        last = number == len(steps) - 1
        if known or (last and isinstance(node, Mapping) and not _is_tag(node, step)):
            path.append(step)
    return tuple(path)


def _is_tag(node: Mapping, step: str | int) -> bool:
    kind = node.items.get("kind")
    return isinstance(kind, Scalar) and kind.text == step
