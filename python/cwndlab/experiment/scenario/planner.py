"""From an experiment to its plan: every cell that the testbed takes part in, checked and resolved."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import prod
from operator import attrgetter, mul

from cwndlab.contract.scenario import Scenario
from cwndlab.errors import ExperimentError, Place
from cwndlab.experiment import locate, sweep, yaml_nodes
from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.experiment import Experiment
from cwndlab.experiment.locate import Misplaced
from cwndlab.experiment.plan import MAX_RUNS, Plan, PlannedRun
from cwndlab.experiment.scenario import chance, notes
from cwndlab.experiment.scenario.notes import Notes
from cwndlab.experiment.scenario.resolve import OF_NETWORK, Resolved, Resolving, resolve
from cwndlab.experiment.schema import Spec
from cwndlab.experiment.sections import Sections
from cwndlab.experiment.subset import Subset
from cwndlab.experiment.support import Support
from cwndlab.experiment.sweep import Axis
from cwndlab.experiment.units import BadValue
from cwndlab.experiment.yaml_nodes import Mapping

_Cells = Iterator[tuple[int, dict[str, str], Resolved | ExperimentError]]
"""The cells of an experiment: place in the plan, values, and Scenario or what is wrong."""


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the collector of cyclic garbage from looking through a plan, which has no cycle: not while it
    grows, and then no sooner than through all else that stays."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.unfreeze()  # to the oldest generation
            gc.enable()


@_uncollected()
def make(experiment: Experiment, told: Callable[[int, int], None] | None = None) -> Plan:
    """Return the plan of an experiment; raises `ExperimentError` for the first cell that is refused.

    ``told`` is told of each cell how many runs of how many are planned.
    """
    planned = _plan(experiment, told)
    if isinstance(planned, Plan):
        return planned
    again = _plan(experiment, told, chance.REPEATS)
    assert isinstance(again, Plan)  # as it is given how often cells are run
    why = f"repeat: {chance.REPEATS} by default, as draws decide {planned}; repeat: 1 makes one run"
    return replace(again, why=why)


def _plan(experiment: Experiment, told: Callable[[int, int], None] | None, repeats: int = 0) -> Plan | str:
    """Return the plan, or what draws decide where neither caller nor file says how often to run a cell.

    Cells that draw nothing are run once.
    """
    schema = type(experiment.spec)
    catalogue = experiment.support.catalogue()
    part = subset(experiment.tree, experiment.axes, schema, experiment.support, catalogue)
    spec = experiment.spec
    repeat = repeats or spec.repeat or 1
    count = repeat * prod(len(axis.rows) for axis in part.axes)
    if count > MAX_RUNS:
        raise ExperimentError(Place(experiment.file), "sweep", f"{count} runs", f"at most {MAX_RUNS}")
    runs: list[PlannedRun] = []
    found, draws = Notes(catalogue), chance.Chance(start=bool(spec.start_jitter))
    cells = partial(_resolved, part, schema, catalogue, experiment.support, repeat=repeat)
    for place, values, resolved in cells(listed=False):
        if isinstance(resolved, ExperimentError):
            raise next(error for _, _, error in cells() if isinstance(error, ExperimentError))
        undecided = spec.repeat is None and not repeats
        if undecided and (drawn := draws.of(resolved.scenario, resolved.ends, resolved.path)):
            return drawn
        noted = found.of(resolved)
        said = (*experiment.notes, *part.notes, *resolved.notes, *noted)
        for number, own in enumerate(resolved.hashes(repeat)):
            scenario: Scenario = {**resolved.scenario, "repeat": number} if number else resolved.scenario
            runs.append(
                PlannedRun(
                    place * repeat + number,
                    number,
                    values,
                    scenario,
                    own,
                    said,
                    resolved.warnings,
                    resolved.limit,
                )
            )
        if told is not None:
            told(len(runs), count)
    runs.sort(key=attrgetter("index"))
    keys = tuple(column for axis in part.axes for column in axis.columns)
    alike = _levels_alike(part, runs[::repeat])
    if alike:
        runs = [replace(run, notes=(*run.notes, *alike)) for run in runs]
    return Plan(experiment.name, keys, repeat, runs)


def errors(experiment: Experiment, cells: int, most: int) -> list[ExperimentError]:
    """Return what is wrong with the first `cells` combinations, each fault once, as they come.

    It ends when so many (`most`) were found, or as many combinations were refused.
    """
    schema, catalogue = type(experiment.spec), experiment.support.catalogue()
    part = subset(experiment.tree, experiment.axes, schema, experiment.support, catalogue)
    found: dict[str, ExperimentError] = {}
    refused = 0
    each = _resolved(part, schema, catalogue, experiment.support)
    for _, _, resolved in itertools.islice(each, cells):
        if isinstance(resolved, ExperimentError):
            refused += 1
            found |= {str(error): error for error in resolved.all}
            if max(refused, len(found)) >= most:
                break
    return list(found.values())


def _levels_alike(part: Subset, runs: Sequence[PlannedRun]) -> list[str]:
    """Return what is to be said of levels that make the same runs, of which one of each cell is given."""
    rows = [[", ".join(part.values(axis, row).values()) for row in axis.rows] for axis in part.axes]
    return notes.of_levels([axis.columns for axis in part.axes], rows, [run.scenario_hash for run in runs])


def _resolved(
    part: Subset,
    schema: type[Spec],
    catalogue: Catalogue,
    support: Support,
    *,
    listed: bool = True,
    repeat: int = 1,
) -> _Cells:
    """Yield each cell's place in the plan, its values, and its Scenario or what is wrong with it.

    They come as they are `listed` in the plan, else so that cells with the same network follow each other.
    What is wrong with a cell is said by resolving that cell alone. Raises `ExperimentError` if that is the
    first.
    """
    first = next(part.cells())
    whole = locate.check(schema, first.tree)
    sections = Sections(whole, part, support)
    resolving = Resolving(first.tree.place.file, catalogue, support, repeat, sections.axes)
    lacking = next(support.refused(whole), None)
    labels = [[part.values(axis, row) for row in axis.rows] for axis in part.axes]
    sizes = [len(axis.rows) for axis in part.axes]
    of_network = {axis for axis, _ in sections.axes.touching(OF_NETWORK)}
    order = sorted(range(len(sizes)), key=lambda axis: not listed and axis not in of_network)
    steps = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    where = [order.index(axis) for axis in range(len(sizes))]
    for ordered in itertools.product(*(range(sizes[axis]) for axis in order)):
        combination = tuple([ordered[place] for place in where])
        values: dict[str, str] = {}
        for rows, row in zip(labels, combination, strict=True):
            values |= rows[row]
        resolved: Resolved | ExperimentError
        try:
            if lacking is not None:
                raise Misplaced(lacking, BadValue(problem="not supported"))
            content = sections.content(combination)
            resolved = resolving.resolve(content.spec, content.rows)
        except (ExperimentError, Misplaced):
            tree = part.cell(combination)
            try:
                resolved = resolve(locate.check(schema, tree), tree, catalogue, support, repeat)
            except ExperimentError as error:
                resolved = error
        yield sum(map(mul, combination, steps)), values, resolved


def check(experiment: Experiment) -> None:
    """Raise `ExperimentError` for what is wrong without the sweep, or with its first cell where only that
    makes the file complete."""
    schema, catalogue = type(experiment.spec), experiment.support.catalogue()
    part = subset(experiment.tree, experiment.axes, schema, experiment.support, catalogue)
    base = next(sweep.cells(part.tree, ()))
    # Where the testbed takes part in some rows only, what stands outside the sweep may be another system.
    spec = None if part.notes else locate.check_partly(schema, base.tree)
    if spec is None:
        base = next(part.cells())
        spec = locate.check(schema, base.tree)
    resolve(spec, base.tree, catalogue, experiment.support)


def subset(
    source: Mapping, axes: tuple[Axis, ...], schema: type[Spec], support: Support, catalogue: Catalogue
) -> Subset:
    """Return what the testbed carries out of a file: all but the testbeds' sections, unless its own says
    otherwise.

    Raises `ExperimentError` for a section that is wrong, also for one of another testbed.
    """
    sections = {key: model for key, model in schema.of_testbeds.items() if key in source.items}
    given = {key: locate.check_at(model, source, (key,)) for key, model in sections.items()}
    own = yaml_nodes.copy(source) if sections else source
    assert isinstance(own, Mapping)  # a copy of a mapping
    for key in sections:
        del own.items[key]
    whole = Subset(own, axes)
    if support.subset is None:
        return whole
    return support.subset(whole, given.get(support.testbed), source, catalogue)
