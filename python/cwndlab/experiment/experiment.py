"""An experiment: a file that was read and found sound, ready to be planned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from cwndlab.errors import InputError, nearest, one_of, shown
from cwndlab.experiment import locate, plan, sweep, taking_part, yaml_nodes
from cwndlab.experiment.resolve import resolve
from cwndlab.experiment.schema import Spec
from cwndlab.experiment.support import TESTBEDS, Support
from cwndlab.experiment.yaml_nodes import Mapping

if TYPE_CHECKING:
    from cwndlab.results.resultset import ResultSet


def load(path_or_text: Path | str, overrides: Sequence[str] = (), testbed: str = "sim") -> Experiment:
    """Return the experiment of a file, of the suite of that name, or of a text of several lines.

    A word that is no file and has neither a directory nor a suffix is taken for a suite's name.
    ``overrides`` are ``KEY=VALUE`` with the dotted keys of a sweep, applied in order before anything is
    checked; overriding a key that an axis sweeps cuts the axis to that value, and a shorter ``duration``
    the flows that the file lets stop later, which is noted. ``testbed`` decides which keys are carried out.
    Raises `ExperimentError` for everything that is wrong without the sweep.
    """
    support = _support(testbed)
    if isinstance(path_or_text, str) and "\n" in path_or_text:
        file, source = "<text>", path_or_text
    else:
        path = _file(path_or_text)
        file, source = str(path), yaml_nodes.read_file(path)
    tree = yaml_nodes.parse(source, file)
    axes, notes = sweep.cut_stops(tree, sweep.override(tree, sweep.read_axes(tree), overrides))
    base = next(sweep.cells(tree, ()))
    spec = locate.check_partly(Spec, base.tree) or locate.check(Spec, next(sweep.cells(tree, axes)).tree)
    _check(tree, axes, support)
    return Experiment(spec.experiment, file, source, tree, axes, spec, support, notes)


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment as it stands in its file, overrides applied.

    ``source`` is the file's text as read, ``spec`` its checked content without the sweep, or that of
    the first cell where only the sweep makes it complete.
    """

    name: str
    file: str
    source: str
    tree: Mapping
    axes: tuple[sweep.Axis, ...]
    spec: Spec
    support: Support
    notes: tuple[str, ...] = ()
    """What the overrides changed besides what they say."""

    def plan(self, told: Callable[[int, int], None] | None = None) -> plan.Plan:
        """Return all runs, every cell of them checked and resolved; raises `ExperimentError`.

        ``told`` is told now and then how many runs of how many are planned.
        """
        return plan.make(self, told)

    def run(
        self, testbed: str = "sim", out: Path | str | None = None, jobs: int = 1, *, resume: bool = False
    ) -> ResultSet:
        """Carry out every run and return the results; as `cwndlab.runner.run`, which says what is raised."""
        from cwndlab import runner

        experiment = replace(self, support=_support(testbed))
        return runner.run(experiment, testbed=testbed, out=out, jobs=jobs, resume=resume)

    def as_yaml(self) -> str:
        """Return the experiment as a file that plans the same runs, defaults and overrides written out."""
        content = self.spec.model_dump(by_alias=True, exclude_none=True)
        if self.axes:
            content["sweep"] = [_axis(axis) for axis in self.axes]
        return yaml.safe_dump(content, sort_keys=False, width=120, allow_unicode=True)


def _check(tree: Mapping, axes: tuple[sweep.Axis, ...], support: Support) -> None:
    """Refuse what is wrong without the sweep, or with its first cell where only that makes it complete."""
    catalogue = support.catalogue()
    part = taking_part.part_of(tree, axes, support, catalogue)
    base = next(sweep.cells(part.tree, ()))
    # Where this kernel takes part in some rows only, what stands outside the sweep may be another system.
    spec = None if part.notes else locate.check_partly(Spec, base.tree)
    if spec is None:
        base = next(part.cells())
        spec = locate.check(Spec, base.tree)
    resolve(spec, base.tree, catalogue, support)


def _support(testbed: str) -> Support:
    if testbed not in TESTBEDS:
        hint = nearest(testbed, TESTBEDS)
        message = f"testbed {shown(testbed)} is not {one_of(TESTBEDS)}"
        raise InputError(message + (f" (hint: {hint})" if hint else ""))
    return TESTBEDS[testbed]


def _file(name: Path | str) -> Path:
    """Return the path of a file, or of the suite of that name."""
    from cwndlab.suites import suite

    path = Path(name)
    if isinstance(name, Path) or path.suffix or path.name != name or path.exists():
        return path
    return suite(name).path


def _axis(axis: sweep.Axis) -> dict[str, object]:
    columns: dict[str, object] = {
        key: [yaml_nodes.plain(row[place]) for row in axis.rows] for place, key in enumerate(axis.keys)
    }
    return columns if len(columns) == 1 else {"zip": columns}
