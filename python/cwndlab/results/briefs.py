"""The record of a run in few words: all but its Scenario and its counters, which are large."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cwndlab import testbeds
from cwndlab.experiment.scenario.capacity import narrowest
from cwndlab.results import marking, steady
from cwndlab.results.parts import RunRecord


@dataclass(frozen=True, slots=True)
class Brief:
    """A run that was carried out, as `cwndlab.results.parts.RunRecord` has it."""

    run_id: int
    cell: Mapping[str, str]
    complete: bool
    error: str | None
    warnings: Sequence[str]
    notes: Sequence[str]
    machine: Mapping[str, str]
    facts: Mapping[str, Any]
    started: str
    """UTC, ISO 8601."""
    wall_s: float
    seed: int | None
    """Seed of the Scenario's draws. None where nothing is drawn."""
    duration_ns: int
    rows: int
    """Number of rows of the run's longest table."""
    by_chance: bool
    """Whether more than its scenario and what carried it out decides it: it was not in virtual time."""
    identity: str | None
    """Hash of a run in virtual time, equal for runs that counted the same, to the times of every loss
    recovery and each percentile. Hashes of rows do not enter, as these hold the run's number. None for a run
    in real time.
    """
    unsettled: float | None
    """Share by which goodput is off that of the window's second half, if it never settled (`steady`)."""
    active: Mapping[str, tuple[int, int]]
    """Time in the measurement window in which each of several flows was active, ns: from when until when.

    Empty for a run of one flow.
    """
    bottlenecks: Mapping[str, str]
    """Bottleneck that the utilisation of each of several flows is of, where it has one.

    Empty for a run of one flow.
    """
    delivered: Mapping[str, int]
    """Data segments of each flow that arrived, where that is known."""
    sent: Mapping[str, int]
    """Data segments that each of several flows sent, where that is known. Empty for a run of one flow."""
    rtt_exponent: float | None
    """Exponent of goodput against base RTT (`marking`). None where flows do not differ in that alone."""

    def apart(self, flows: Iterable[str]) -> bool:
        """Whether flows pass different bottlenecks, so that their parts of these do not add up."""
        return len({self.bottlenecks[flow] for flow in flows if flow in self.bottlenecks}) > 1


def of_records(records: Iterable[RunRecord]) -> list[Brief]:
    """The briefs of records, in their order."""
    known: dict[str, Any] = {}

    def shared(value: Any) -> Any:
        """The first of equal values, so that each is held once."""
        return known.setdefault(repr(value), value)

    return [
        Brief(
            run_id=record.run_id,
            cell=shared(record.cell),
            complete=record.status == "complete",
            error=record.error,
            warnings=shared(record.warnings),
            notes=shared(record.notes),
            machine=shared(record.machine),
            facts=record.facts,
            started=record.started,
            wall_s=record.wall_s,
            seed=record.scenario.get("seed"),
            duration_ns=record.scenario["duration_ns"],
            rows=max((table.rows for table in record.tables.values()), default=0),
            by_chance=testbeds.facts(record.testbed).draws_by_chance,
            identity=_identity(record),
            unsettled=None if record.summary is None else steady.unsettled(record.scenario, record.summary),
            active=shared(_active(record)),
            bottlenecks=shared(_bottlenecks(record)),
            delivered={} if record.summary is None else shared(marking.delivered(record.summary)),
            sent=shared(_sent(record)),
            rtt_exponent=(
                None if record.summary is None else marking.rtt_exponent(record.scenario, record.summary)
            ),
        )
        for record in records
    ]


def said(texts: Iterable[Sequence[str]]) -> list[str]:
    """Texts of several runs, such as their warnings, each once."""
    return list(dict.fromkeys(text for of_run in texts for text in of_run))


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A note that goodput never settled."""

    text: str
    runs: Sequence[str]
    """The numbers of the runs in which it did not."""


def never_settled(briefs: Iterable[Brief]) -> Unsettled | None:
    """The note on combinations in which more than half of the runs never settled; None without any."""
    cells: dict[tuple[tuple[str, str], ...], list[Brief]] = {}
    for brief in briefs:
        cells.setdefault(tuple(brief.cell.items()), []).append(brief)
    off: dict[str, float] = {}
    for of_cell in cells.values():
        found = {str(each.run_id): each.unsettled for each in of_cell if each.unsettled is not None}
        if 2 * len(found) > len(of_cell):
            off |= found
    if not off:
        return None
    runs = sum(map(len, cells.values()))
    return Unsettled(
        f"goodput never settled in {len(off)} of {runs} runs (MSER-5): its mean is up to"
        f" {100 * max(off.values()):.0f} % off that of the second half; measure longer, or later",
        list(off),
    )


def _active(record: RunRecord) -> dict[str, tuple[int, int]]:
    counted = record.summary["flows"] if record.summary is not None else []
    if len(counted) < 2:
        return {}
    window = record.scenario["measure"]["from_ns"], record.scenario["measure"]["to_ns"]
    stops = {flow["name"]: flow.get("stop_ns") for flow in record.scenario["flows"]}
    found = {}
    for flow in counted:
        start, took = flow["start_ns"] or 0, flow["completion_ns"]
        stop = stops.get(flow["flow"]) if took is None else start + took
        end = min(max(window[1] if stop is None else stop, window[0]), window[1])
        # It begins with the end of the handshake, and goes on to the end.
        found[flow["flow"]] = (end - flow["active_ns"], end)
    return found


def _bottlenecks(record: RunRecord) -> dict[str, str]:
    counted = record.summary["flows"] if record.summary is not None else []
    if len(counted) < 2:
        return {}
    names: dict[tuple[str, str], str | None] = {}
    found = {}
    for flow in record.scenario["flows"]:
        ends = flow["from"], flow["to"]
        if ends not in names:
            link = narrowest(record.scenario, flow["name"])
            names[ends] = None if link is None else link[0]
        if (name := names[ends]) is not None:
            found[flow["name"]] = name
    return found


def _sent(record: RunRecord) -> dict[str, int]:
    counted = record.summary["flows"] if record.summary is not None else []
    known = {flow["flow"]: flow["segments_sent"] for flow in counted} if len(counted) > 1 else {}
    return {flow: sent for flow, sent in known.items() if sent is not None}


def _identity(record: RunRecord) -> str | None:
    if testbeds.facts(record.testbed).draws_by_chance or record.summary is None:
        return None
    return hashlib.sha256(json.dumps(record.summary, sort_keys=True).encode()).hexdigest()
