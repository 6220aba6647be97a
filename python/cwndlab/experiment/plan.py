"""The plan of an experiment: the cells of its sweep, each repeated, each with its Scenario."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from cwndlab.contract.scenario import Scenario

MAX_RUNS = 200_000
"""Most runs of one plan."""

MAX_RECORDED = 4 * 10**9
"""Bytes of a capture, and of a table, of a run unless the experiment sets `record.limit`."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of the plan.

    ``index`` is the run's place in the plan and its ``run_id`` in every table; ``repeat`` counts from 0;
    ``cell`` maps each swept key, in the order of the sweep, to its value as text; ``scenario`` is the
    Scenario the engine takes; ``scenario_hash`` is `scenario_hash` of it; ``notes`` say what resolving
    decided, and ``warnings`` what to check before trusting the run, one sentence each; ``limit`` is how many
    bytes each of its captures and tables has at most.
    """

    index: int
    repeat: int
    cell: dict[str, str]
    scenario: Scenario
    scenario_hash: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    limit: int = MAX_RECORDED


@dataclass(frozen=True, slots=True)
class Plan:
    """All runs of an experiment: cells in the order of the sweep, the last axis changing fastest.

    ``keys`` are the swept keys in order, ``repeat`` the repeats of each cell, which follow each other, and
    ``why`` the sentence on their number where the experiment gives none and something is drawn; else empty.
    """

    experiment: str
    keys: tuple[str, ...]
    repeat: int
    runs: list[PlannedRun]
    why: str = ""

    @property
    def cells(self) -> int:
        """Number of combinations of swept values, at least 1."""
        return len(self.runs) // self.repeat

    @property
    def simulated_ns(self) -> int:
        """Sum of the runs' durations in nanoseconds of their own time."""
        return sum(run.scenario["duration_ns"] for run in self.runs)


def scenario_hash(scenario: Scenario) -> str:
    """Return 16 hex digits of SHA-256 over the Scenario's canonical JSON (sorted keys, no spaces, UTF-8)."""
    return hashlib.sha256(canonical(scenario).encode()).hexdigest()[:HASH_DIGITS]


HASH_DIGITS = 16
canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
