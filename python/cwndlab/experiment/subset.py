"""The part of an experiment that a testbed takes on: a tree, axes, and the cells they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cwndlab.experiment import sweep
from cwndlab.experiment.sweep import Axis, Row
from cwndlab.experiment.yaml_nodes import Mapping

ANALOGUE = "analogue "
"""Mark in every table before a swept value whose sysctls are not those that the file names."""


@dataclass(frozen=True, slots=True)
class Subset:
    """An experiment's tree without the testbeds' sections, its axes, and sentences on what became of it.

    ``analogous`` are the swept keys whose values are analogues.
    """

    tree: Mapping
    axes: tuple[Axis, ...]
    notes: tuple[str, ...] = ()
    analogous: frozenset[str] = frozenset()

    def cells(self) -> Iterator[sweep.Cell]:
        """Yield the cells, analogues marked as such."""
        return sweep.cells(self.tree, self.axes, self.values)

    def cell(self, combination: Sequence[int]) -> Mapping:
        """Return the tree of the cell that has these rows of the axes."""
        rows = zip(self.axes, combination, strict=True)
        axes = [replace(axis, rows=(axis.rows[row],)) for axis, row in rows]
        return next(sweep.cells(self.tree, axes)).tree

    def values(self, axis: Axis, row: Row) -> dict[str, str]:
        """Return the text of a row in each column, marked where it is an analogue."""
        keys = {setting.key for setting in row.settings}
        return {
            column: ANALOGUE + text if self.analogous & (keys if axis.name else {column}) else text
            for column, text in axis.values(row).items()
        }
