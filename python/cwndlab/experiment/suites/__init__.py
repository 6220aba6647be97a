"""The built-in experiments: published set-ups as files, with the published values beside them.

`NAME.csv` holds published values, `plots/NAME.yaml` the plots of the publication that are drawn again.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from cwndlab.errors import InputError, nearest
from cwndlab.experiment.suites import evaluations

_FOLDER = Path(str(files(__package__)))


@dataclass(frozen=True, slots=True)
class Metric:
    """A published metric: where it stands, what it is of, its value and unit.

    ``cell`` maps the swept keys of the suite it belongs to to their values, as in a plan; ``column`` is the
    summary column to compare with, empty for a finding that is not one of them; ``note`` is the finding in
    words, or what to know before comparing.
    """

    source: str
    cell: dict[str, str]
    column: str
    value: float | None
    unit: str
    note: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of the publication that is drawn again from results."""

    number: int
    """The figure's number in the publication."""
    part: str
    """`a`, `b`, ... of a figure of several plots; empty of one."""
    caption: str
    kind: str
    """A kind of `cwndlab.report.plots.KINDS`."""
    options: Mapping[str, Any]
    """Fields of `cwndlab.report.plots.selection.Options`."""

    @property
    def file(self) -> str:
        """The name of its file, without an ending: `figure-02a`."""
        return f"figure-{self.number:02}{self.part}"


@dataclass(frozen=True, slots=True)
class Suite:
    """A built-in experiment: its name, a line of title, the publication it is from, and its file."""

    name: str
    title: str
    source: str
    path: Path

    def published(self) -> list[Metric]:
        """Return the published values, none for a suite without any."""
        path = self.path.with_suffix(".csv")
        if not path.exists():
            return []
        with path.open(newline="", encoding="utf-8") as stream:
            return [_metric(row) for row in csv.DictReader(stream)]

    def plots(self) -> list[Plot]:
        """Return the publication's plots in their order, none for a suite without any."""
        path = _FOLDER / "plots" / self.path.name
        if not path.exists():
            return []
        return [
            plot for entry in yaml.safe_load(path.read_text(encoding="utf-8")) for plot in _plots(**entry)
        ]


def plots_of(experiment: str, wanted: Sequence[str]) -> list[Plot]:
    """Return the plots of a suite's publication that `wanted` names, as `20`, `2a` or `all`.

    Raises InputError for an experiment that is no suite with plots, and for a figure that there is not.
    """
    plots = next((entry.plots() for entry in suites() if entry.name == experiment), [])
    if not plots:
        known = ", ".join(entry.name for entry in suites() if entry.plots())
        raise InputError(f"figure: {experiment!r} is no suite with published plots; there are {known}")
    found: list[Plot] = []
    for name in wanted:
        chosen = [plot for plot in plots if name in ("all", str(plot.number), f"{plot.number}{plot.part}")]
        if not chosen:
            numbers = list(dict.fromkeys(plot.number for plot in plots))
            raise InputError(
                f"figure: {name!r} does not exist; there are {numbers[0]} to {numbers[-1]}, or all"
            )
        found += [plot for plot in chosen if plot not in found]
    return found


def suites() -> list[Suite]:
    """Return all built-in experiments, by name."""
    return [_suite(path) for path in sorted(_FOLDER.glob("*.yaml"), key=lambda path: path.stem)]


def suite(name: str) -> Suite:
    """Return the suite of that name; raises `InputError` naming the suites there are."""
    if name in evaluations.SUITES:
        judged = evaluations.command(name)
        raise InputError(f"{name} is no experiment: it judges a congestion control, with {judged} OLD")
    known = {entry.name: entry for entry in suites()}
    if name not in known:
        hint = nearest(name, known)
        message = f"no file and no suite {name!r}; suites are {', '.join(known)}"
        raise InputError(message + (f" (hint: {hint})" if hint else ""))
    return known[name]


def _suite(path: Path) -> Suite:
    """Read the two comment lines at the head of a suite: its title and its source."""
    with path.open(encoding="utf-8") as stream:
        title, source = (stream.readline().removeprefix("#").strip() for _ in range(2))
    return Suite(path.stem, title, source.removeprefix("Source:").strip(), path)


def _metric(row: dict[str, str]) -> Metric:
    cell = yaml.safe_load(row["cell"] or "{}")
    return Metric(
        source=row["source"],
        cell={str(key): str(value) for key, value in cell.items()},
        column=row["column"],
        value=float(row["value"]) if row["value"] else None,
        unit=row["unit"],
        note=row["note"],
    )


def _plots(
    number: int,
    caption: str,
    kinds: Sequence[str],
    options: Mapping[str, Any] | None = None,
    **where: str | list[str],
) -> Iterator[Plot]:
    """A figure's plots: one of each of `kinds`, all of the runs that have the values `where` says."""
    for place, kind in enumerate(kinds):
        part = "abcdefgh"[place] if len(kinds) > 1 else ""
        yield Plot(number, part, caption, kind, {"where": where, **(options or {})})
