"""What of an experiment a testbed takes part in: a tree, axes, and the cells they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cwndlab.experiment import sweep
from cwndlab.experiment.sweep import Axis
from cwndlab.experiment.yaml_nodes import Mapping, Node

ANALOGUE = "analogue "
"""What stands before a swept value whose sysctls are not those that the file names, in every table."""


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
        for cell in sweep.cells(self.tree, self.axes):
            marked = {key: self._marked(key, text) for key, text in cell.values.items()}
            yield sweep.Cell(marked, cell.tree)

    def cell(self, combination: Sequence[int]) -> Mapping:
        """Return the tree of the cell that has these rows of the axes."""
        rows = zip(self.axes, combination, strict=True)
        axes = [replace(axis, rows=(axis.rows[row],)) for axis, row in rows]
        return next(sweep.cells(self.tree, axes)).tree

    def label(self, key: str, node: Node) -> str:
        """Return the text of a swept value, marked if it is an analogue."""
        return self._marked(key, sweep.compact(node))

    def _marked(self, key: str, text: str) -> str:
        return ANALOGUE + text if key in self.analogous else text
