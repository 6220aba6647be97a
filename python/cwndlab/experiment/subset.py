"""What of an experiment a testbed takes part in: a tree, axes, and the cells they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cwndlab.experiment import sweep
from cwndlab.experiment.sweep import Axis
from cwndlab.experiment.yaml_nodes import Mapping

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
            marked = {
                key: ANALOGUE + text if key in self.analogous else text for key, text in cell.values.items()
            }
            yield sweep.Cell(marked, cell.tree)
