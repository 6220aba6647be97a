"""The plan of an experiment: the cells of its sweep, each repeated, each resolved to a Scenario."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from cwndlab.errors import ExperimentError
from cwndlab.experiment import locate, taking_part
from cwndlab.experiment.resolve import resolve
from cwndlab.experiment.schema import Spec

if TYPE_CHECKING:
    from cwndlab.experiment.experiment import Experiment

MAX_RUNS = 200_000
"""Most runs of one plan."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of the plan.

    ``index`` is the run's place in the plan and its ``run_id`` in every table; ``repeat`` counts from 0;
    ``cell`` maps each swept key, in the order of the sweep, to its value as text; ``scenario`` is the
    Scenario the engine takes; ``scenario_hash`` is `scenario_hash` of it; ``notes`` say what resolving
    decided, and ``warnings`` what to check before trusting the run, one sentence each.
    """

    index: int
    repeat: int
    cell: dict[str, str]
    scenario: dict[str, Any]
    scenario_hash: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All runs of an experiment: cells in the order of the sweep, the last axis changing fastest.

    ``keys`` are the swept keys in order, ``repeat`` the repeats of each cell, which follow each other.
    """

    experiment: str
    keys: tuple[str, ...]
    repeat: int
    runs: list[PlannedRun]

    @property
    def cells(self) -> int:
        """Number of combinations of swept values, at least 1."""
        return len(self.runs) // self.repeat

    @property
    def simulated_ns(self) -> int:
        """Sum of the runs' durations in nanoseconds of their own time."""
        return sum(run.scenario["duration_ns"] for run in self.runs)


def make(experiment: Experiment, told: Callable[[int, int], None] | None = None) -> Plan:
    """Return the plan of an experiment; raises `ExperimentError` for the first cell that is refused.

    ``told`` is told of each cell how many runs of how many are planned.
    """
    repeat = experiment.spec.repeat
    catalogue = experiment.support.catalogue()
    part = taking_part.part_of(experiment.tree, experiment.axes, experiment.support, catalogue)
    count = repeat * prod(len(axis.rows) for axis in part.axes)
    if count > MAX_RUNS:
        raise ExperimentError(experiment.file, None, "sweep", f"{count} runs", f"at most {MAX_RUNS}")
    runs: list[PlannedRun] = []
    for cell in part.cells():
        resolved = resolve(locate.check(Spec, cell.tree), cell.tree, catalogue, experiment.support)
        notes = (*experiment.notes, *part.notes, *resolved.notes)
        for number in range(repeat):
            scenario = {**resolved.scenario, "repeat": number}
            digest = scenario_hash(scenario)
            runs.append(
                PlannedRun(len(runs), number, cell.values, scenario, digest, notes, resolved.warnings)
            )
        if told is not None:
            told(len(runs), count)
    keys = tuple(key for axis in part.axes for key in axis.keys)
    return Plan(experiment.name, keys, repeat, runs)


def scenario_hash(scenario: dict[str, Any]) -> str:
    """Return 16 hex digits of SHA-256 over the Scenario's canonical JSON (sorted keys, no spaces, UTF-8)."""
    canonical = json.dumps(scenario, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
