"""The plan of an experiment: the cells of its sweep, each repeated, each with its Scenario."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

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


def scenario_hash(scenario: Scenario) -> str:
    """Return 16 hex digits of SHA-256 over the Scenario's canonical JSON (sorted keys, no spaces, UTF-8)."""
    return Hashes().of(scenario)


class Hashes:
    """Hashes Scenarios; the text of what many of them share is made once."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._texts: dict[Hashable, str] = {}
        self._held = 0

    def of(self, scenario: Scenario, keys: Mapping[str, Hashable] = MappingProxyType({})) -> str:
        """Return `scenario_hash` of a Scenario.

        `keys` tell parts of it apart from those of others that are hashed here: equal keys, equal parts. Of
        its links each has a key.
        """
        parts = []
        for name, value in sorted(scenario.items()):
            key = keys.get(name)
            if name == "links" and isinstance(key, tuple) and isinstance(value, list):
                each = (self._text(link, (name, own)) for link, own in zip(value, key, strict=True))
                text = f"[{','.join(each)}]"
            else:
                text = _CANONICAL.encode(value) if key is None else self._text(value, (name, key))
            parts.append(f'"{name}":{text}')
        return hashlib.sha256(f"{{{','.join(parts)}}}".encode()).hexdigest()[:16]

    def _text(self, value: object, key: Hashable) -> str:
        text = self._texts.get(key)
        if text is None:
            text = _CANONICAL.encode(value)
            self._held += len(text)
            if self._held > MAX_TEXTS:
                self._texts.clear()
                self._held = len(text)
            self._texts[key] = text
        return text


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
MAX_TEXTS = 8_000_000
"""Characters of text held at most."""
