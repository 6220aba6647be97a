"""An experiment: a file that was read and found sound, ready to be planned."""

from __future__ import annotations

from collections import abc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from cwndlab.experiment import locate, suites, sweep, yaml_nodes
from cwndlab.experiment.schema import Format, Spec
from cwndlab.experiment.support import Support
from cwndlab.experiment.yaml_nodes import Mapping


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment as it stands in its file, overrides applied.

    ``source`` is the file's text as read, ``spec`` its checked content without the sweep, or that of
    the first cell where only the sweep makes it complete; ``support`` is that of the testbed that is to carry
    it out.
    """

    name: str
    file: str
    source: str
    tree: Mapping
    axes: tuple[sweep.Axis, ...]
    spec: Spec
    support: Support
    notes: tuple[str, ...] = ()
    """Changes that the overrides made besides what they say."""
    overrides: tuple[str, ...] = ()

    def as_yaml(self) -> str:
        """Return the experiment as a file that plans the same runs, defaults and overrides written out."""
        content = self.spec.model_dump(by_alias=True, exclude_none=True)
        if self.axes:
            content["sweep"] = [_axis(axis) for axis in self.axes]
        return yaml.safe_dump(content, sort_keys=False, width=120, allow_unicode=True)


Source = Path | str | abc.Mapping[str, object]
"""A file, the name of a built-in suite, a text of several lines, or the keys of a file as dictionaries."""


def text_of(source: Source) -> tuple[str, str]:
    """Return the name and the text of what an experiment is read from.

    A word that is no file and has neither a directory nor a suffix is taken for a suite's name.
    """
    if isinstance(source, abc.Mapping):
        return "<dict>", yaml_nodes.text_of(source, "<dict>")
    if isinstance(source, str) and "\n" in source:
        return "<text>", source
    path = _file(source)
    return str(path), yaml_nodes.read_file(path)


def read(
    tree: Mapping, source: str, overrides: Sequence[str], schema: type[Spec], support: Support
) -> Experiment:
    """Return the experiment of a tree, which is changed, and of the text that it was parsed from.

    ``overrides`` are ``KEY=VALUE`` with the dotted keys of a sweep, applied in order before anything is
    checked; overriding a key that an axis sweeps cuts the axis to that value, and a shorter ``duration``
    the flows that the file lets stop later, which is noted. ``schema`` is with the testbeds' sections.
    Raises `ExperimentError` for everything that the schema says is wrong without the sweep; names are not
    looked at.
    """
    if "format" in tree.items:  # before what else a later format may say otherwise
        locate.check(Format, tree)
    axes, notes = sweep.cut_stops(tree, sweep.override(tree, sweep.read_axes(tree), overrides))
    base = next(sweep.cells(tree, ()))
    spec = locate.check_partly(schema, base.tree) or locate.check(schema, next(sweep.cells(tree, axes)).tree)
    file = tree.place.file
    return Experiment(spec.experiment, file, source, tree, axes, spec, support, notes, tuple(overrides))


def _file(name: Path | str) -> Path:
    """Return the path of a file, or of the suite of that name."""
    path = Path(name)
    if isinstance(name, Path) or path.suffix or path.name != name or path.exists():
        return path
    return suites.suite(name).path


def _axis(axis: sweep.Axis) -> dict[str, object]:
    """Return an axis as a file has it."""
    rows = [{each.key: yaml_nodes.plain(each.node) for each in row.settings} for row in axis.rows]
    if axis.name:
        levels = {row.level: values for row, values in zip(axis.rows, rows, strict=True)}
        return {"name": axis.name, "values": levels}
    columns: dict[str, object] = {key: [values[key] for values in rows] for key in axis.keys}
    return columns if len(columns) == 1 else {"zip": columns}
