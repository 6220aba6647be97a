"""The part of an experiment that this machine's kernel takes on, as the file's own section `netns` says."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from cwndlab.errors import ExperimentError
from cwndlab.experiment import locate, sweep, yaml_nodes
from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.schema import Section
from cwndlab.experiment.subset import Subset
from cwndlab.experiment.sweep import Axis, Row
from cwndlab.experiment.units import BadValue
from cwndlab.experiment.yaml_nodes import Mapping, Node, Scalar
from cwndlab.testbeds.netns.section import SECTION, KernelSubset


def take(whole: Subset, given: Section | None, source: Mapping, catalogue: Catalogue) -> Subset:
    """Return the subset of an experiment that the section describes, all of it without one; raises
    `ExperimentError` where it is wrong.

    Rows of the sweep whose hosts run a system that this kernel does not stand for are left out; `stacks`,
    `analogues` and `without` are applied to the rest. `source` is the tree of the file, section and all.
    """
    if given is None:
        return whole
    assert isinstance(given, KernelSubset)  # as the schema says
    own = yaml_nodes.copy(whole.tree)
    assert isinstance(own, Mapping)  # a copy of a mapping
    return _Taker(source, given, catalogue).take(own, whole.axes)


class _Taker:
    """Applies a section to a copy of its file's tree."""

    def __init__(self, source: Mapping, given: KernelSubset, catalogue: Catalogue) -> None:
        self._source, self._given, self._catalogue = source, given, catalogue
        self._taken: dict[str, str] = {}
        self._likened: dict[str, list[str]] = {}
        self._analogous: set[str] = set()

    def take(self, tree: Mapping, axes: tuple[Axis, ...]) -> Subset:
        """Return the part of the tree, which is changed, and of the axes."""
        before = prod(len(axis.rows) for axis in axes)
        axes = self._without(tree, axes)
        hosts = tree.items.get("hosts")
        for host in hosts.items.values() if isinstance(hosts, Mapping) else ():
            if isinstance(host, Mapping):
                self._host(host)
        axes = tuple(self._axis(axis) for axis in axes)
        left_out = before - prod(len(axis.rows) for axis in axes)
        return Subset(tree, axes, tuple(self._notes(before, left_out)), frozenset(self._analogous))

    def _without(self, tree: Mapping, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Take out the keys that only a model has, wherever they stand."""
        for place, key in enumerate(self._given.without):
            swept = any(key in axis.keys for axis in axes)
            if not sweep.remove(tree, key) and not swept:
                raise self._fault(
                    ("without", place), BadValue(f"the key {key}", "a key that the file writes")
                )
            axes = tuple(_less(axis, key) for axis in axes if axis.keys != (key,))
        return axes

    def _host(self, host: Mapping) -> None:
        stack, sysctls = host.items.get("stack"), host.items.get("sysctl")
        if isinstance(stack, Scalar):
            host.items["stack"] = self._stack(stack)
        if isinstance(sysctls, Mapping):
            host.items["sysctl"] = self._sysctls(sysctls)

    def _axis(self, axis: Axis) -> Axis:
        rows = tuple(row.changed(self._value) for row in axis.rows if self._takes(row))
        if rows:
            return replace(axis, rows=rows)
        key = next(filter(names_stack, axis.keys))
        there = dict.fromkeys(
            sweep.compact(each.node) for row in axis.rows for each in row.settings if each.key == key
        )
        stacks = ", ".join(self._given.stacks) or "none"
        problem = (
            f"leaves no row of the sweep: {key} has {', '.join(there)}, and this kernel stands for {stacks}"
        )
        raise self._fault(("stacks",), BadValue(problem=problem))

    def _takes(self, row: Row) -> bool:
        """Whether this kernel stands for all systems of a row."""
        stacks = [sweep.compact(each.node) for each in row.settings if names_stack(each.key)]
        return all(
            stack in self._given.stacks or self._catalogue.stack(stack) is not None for stack in stacks
        )

    def _value(self, key: str, node: Node) -> Node:
        """A swept value as this kernel is told it."""
        words = key.split(".")
        if names_stack(key) and isinstance(node, Scalar):
            return self._stack(node)
        if len(words) == 3 and words[0] == "hosts" and words[2] == "sysctl" and isinstance(node, Mapping):
            if any(self._given.analogues.get(name) for name in node.items):
                self._analogous.add(key)
            return self._sysctls(node)
        return node

    def _stack(self, node: Scalar) -> Scalar:
        stands_for = self._given.stacks.get(node.text)
        if stands_for is None:
            return node
        self._taken[node.text] = stands_for
        return Scalar(node.place, stands_for)

    def _sysctls(self, node: Mapping) -> Mapping:
        """Sysctls under the names of their analogues."""
        made = Mapping(node.place)
        for name, value in node.items.items():
            analogues = self._given.analogues.get(name)
            if analogues is not None:
                self._likened[name] = analogues
            for own in [name] if analogues is None else analogues:
                made.set(own, value, node.key_places[name])
        return made

    def _notes(self, before: int, left_out: int) -> list[str]:
        notes = [f"{stands} of this machine stands for {name}" for name, stands in self._taken.items()]
        notes += [
            f"analogue: {' and '.join(own)} for {name}"
            if own
            else f"left out: {name}, which no namespace of this kernel has"
            for name, own in self._likened.items()
        ]
        if left_out:
            notes.append(f"{left_out} of {before} combinations need systems that this machine is not")
        return notes

    def _fault(self, path: locate.Path, bad: BadValue) -> ExperimentError:
        return locate.fault(self._source, (SECTION, *path), bad)


def names_stack(key: str) -> bool:
    """Whether a swept key is the system of a host."""
    words = key.split(".")
    return len(words) == 3 and words[0] == "hosts" and words[2] == "stack"


def _less(axis: Axis, key: str) -> Axis:
    """An axis without one of its keys."""
    return replace(axis, rows=tuple(row.without(key) for row in axis.rows))
