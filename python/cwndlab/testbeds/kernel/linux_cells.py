"""The part of an experiment that a kernel takes on: the cells all of whose hosts are a Linux."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain, product
from math import prod

from cwndlab.errors import ExperimentError, InputError
from cwndlab.experiment import sweep
from cwndlab.experiment.catalogue import Catalogue, catalogue
from cwndlab.experiment.schema import Section
from cwndlab.experiment.subset import Subset
from cwndlab.experiment.sweep import Row
from cwndlab.experiment.yaml_nodes import Mapping, Node, Scalar
from cwndlab.testbeds.netns.kernel_subset import names_stack


def take(whole: Subset, given: Section | None, source: Mapping, known: Catalogue) -> Subset:
    """Return an experiment without the rows of its sweep that name a system which a Linux kernel is not.

    A note counts the cells that are left out, by system. Raises InputError where none is left. Files
    have no section (`given`) for this testbed.
    """
    every = catalogue()
    others = {name for name in (*every.stacks, *every.newest) if known.stack(name) is None}
    named = [[_named(row, others) for row in axis.rows] for axis in whole.axes]
    swept = [rows for rows in named if any(rows)]
    _check_hosts(whole, others)
    if not swept:
        return whole
    cells = prod(len(axis.rows) for axis in whole.axes)
    each = cells // prod(map(len, swept))
    counts: Counter[str] = Counter()
    for combination in product(*swept):
        counts[" with ".join(dict.fromkeys(chain(*combination)))] += each
    left = counts.pop("", 0)
    told = ", ".join(f"{count} of {systems}" for systems, count in counts.items())
    if not left:
        rows = next(axis.rows for axis, systems in zip(whole.axes, named, strict=True) if all(systems))
        setting = next(each for each in rows[0].settings if names_stack(each.key))
        raise _refused(setting.node, setting.key, told)
    axes = tuple(
        replace(axis, rows=tuple(row for row, systems in zip(axis.rows, rows, strict=True) if not systems))
        for axis, rows in zip(whole.axes, named, strict=True)
    )
    note = f"{left} of {cells} cells are of Linux and run; left out: {told}"
    return replace(whole, axes=axes, notes=(*whole.notes, note))


def _check_hosts(whole: Subset, others: set[str]) -> None:
    """Raises InputError where a host is another system in every cell."""
    hosts = whole.tree.items.get("hosts")
    swept = {key for axis in whole.axes for key in axis.keys}
    for name, host in hosts.items.items() if isinstance(hosts, Mapping) else ():
        stack = host.items.get("stack") if isinstance(host, Mapping) else None
        key = f"hosts.{name}.stack"
        if isinstance(stack, Scalar) and stack.text in others and key not in swept:
            raise _refused(stack, key, f"{stack.text} in every cell")


def _refused(node: Node, key: str, found: str) -> InputError:
    """The refusal of a file no cell of which is of Linux: nothing else that is wrong with it is of use."""
    error = ExperimentError(node.place, key, found, "a Linux, the only system that testbed kernel runs")
    return InputError(str(error))


def _named(row: Row, others: set[str]) -> tuple[str, ...]:
    """The systems of a row that a Linux kernel is not."""
    stacks = (sweep.compact(each.node) for each in row.settings if names_stack(each.key))
    return tuple(dict.fromkeys(stack for stack in stacks if stack in others))
