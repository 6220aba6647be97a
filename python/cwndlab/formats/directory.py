"""Recordings of other tools as a directory of results, which plots and comparisons read as any other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import yaml

from cwndlab.contract.scenario import Scenario
from cwndlab.errors import printable
from cwndlab.execution import resumption, store
from cwndlab.execution.store import PartWriter, RunFiles
from cwndlab.experiment.plan import PlannedRun, scenario_hash
from cwndlab.formats import base
from cwndlab.formats.base import Recording
from cwndlab.formats.external_sort import StoredTable, give_back
from cwndlab.results import catalogue, directories, metrics, software, summary
from cwndlab.results.catalogue import Header
from cwndlab.results.metrics import Value
from cwndlab.results.parts import Part, RunRecord
from cwndlab.results.resultset import ResultSet

TESTBED = "import"
"""Name of the testbed in the summary of imported runs."""

KEY = "file"
"""The key that tells imported runs apart where nothing else does."""


@dataclass(frozen=True)
class Run:
    """A recording and its place among the others."""

    recording: Recording
    cell: Mapping[str, str] = field(default_factory=dict)
    """Values that were varied, by key."""
    repeat: int = 0


def write(runs: Sequence[Run], name: str, out: Path | None = None, testbed: str = TESTBED) -> ResultSet:
    """Write runs as a directory of results: `out`, or `results/NAME-DATE`; `testbed` stands in the summary.

    Raises InputError when the directory cannot be written, or holds something else.
    """
    runs = [
        Run(
            base.shown_as_text(run.recording),
            {printable(key): printable(value) for key, value in run.cell.items()},
            run.repeat,
        )
        for run in runs
    ]
    keys = list(dict.fromkeys(key for run in runs for key in run.cell))
    if not keys and len(runs) > 1:
        keys = [KEY]
        runs = [Run(run.recording, {KEY: run.recording.label}, run.repeat) for run in runs]
    cells = [{key: run.cell.get(key, "") for key in keys} for run in runs]
    planned = []
    for index, (run, cell) in enumerate(zip(runs, cells, strict=True)):
        scenario = _scenario(run, name)
        planned.append(PlannedRun(index, run.repeat, cell, scenario, scenario_hash(scenario)))
    versions = {"cwndlab": software.version()}
    header = Header(name, testbed, keys, versions)
    cut = store.cut(planned)
    directory = directories.choose(name, out)
    sources = {"experiment": name, "imported": [str(run.recording.source) for run in runs]}
    text = "# Imported from other tools' files: not an experiment to run.\n" + yaml.safe_dump(
        sources, sort_keys=False
    )
    with directories.locked(directory):
        resumption.prepare(directory, header, cut, text, resume=False)
        for part in cut:
            _write_part(directory / "runs", part, runs, header)
        rows = [
            row for part in cut for run in part.runs for row in _rows(part, run, runs[run.index], testbed)
        ]
        resumption.conclude(directory, catalogue.of_rows(header, rows))
    return ResultSet(directory)


def name_of(paths: Sequence[Path]) -> str:
    """A name for results of these files."""
    first = paths[0].name if paths[0].name else paths[0].resolve().name
    stem = re.sub(r"(\.(gz|log|json|txt|pcap|pcapng|dmp))+$", "", first)
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_")[:32] or "imported"


def _write_part(directory: Path, part: Part, runs: Sequence[Run], header: Header) -> None:
    with PartWriter(directory, part.name) as writer:
        for planned in part.runs:
            recording = runs[planned.index].recording
            files = writer.begin(planned.index)
            for table, rows in recording.tables.items():
                _hand_over(files, table, rows, planned.index)
            started = recording.started or datetime.fromtimestamp(0, UTC)
            record = RunRecord(
                run_id=planned.index,
                repeat=planned.repeat,
                cell=planned.cell,
                scenario_hash=planned.scenario_hash,
                status="complete",
                error=None,
                warnings=list(recording.warnings),
                notes=[],
                testbed=header.testbed,
                versions=header.versions,
                machine={},
                facts={"format": recording.format, "source": str(recording.source), **recording.facts},
                started=started.isoformat(timespec="seconds"),
                wall_s=0.0,
                tables=files.finish(),
                captures=files.captures,
                summary=None,
                scenario=planned.scenario,
            )
            writer.record(record)
        writer.commit()


def _hand_over(files: RunFiles, table: str, rows: StoredTable, index: int) -> None:
    give_back()
    ids = pa.array([index], pa.uint32())
    for batch in rows.batches():
        column = ids.take(pa.array([0] * batch.num_rows, pa.int32()))
        files.rows(table, batch.set_column(0, "run_id", column))
        # What Arrow keeps of batches that are gone would be half as much again as the row group.
        pa.default_memory_pool().release_unused()
    files.end(table)


def _rows(part: Part, planned: PlannedRun, run: Run, testbed: str) -> list[dict[str, Any]]:
    """The rows of the catalogue, one for each flow."""
    recording = run.recording
    fairness = _fairness(recording)
    return [
        {
            "run_id": catalogue.run_id(planned),
            "repeat": planned.repeat,
            "flow": flow,
            "testbed": testbed,
            **planned.cell,
            **_metrics(recording.metrics.get(flow, {}), fairness.get(flow)),
            "stack": recording.facts.get("stack"),
            "cc": recording.facts.get("cc"),
            "run_index": planned.index,
            "scenario_hash": planned.scenario_hash,
            "part": part.name,
        }
        for flow in recording.flows
    ]


def _fairness(recording: Recording) -> dict[str, float | None]:
    """Jain's index of each flow with those that were logged at the end where it was."""
    rates: dict[str, dict[str, Value]] = {}
    for flow in recording.flows:
        of_end = rates.setdefault(recording.ends.get(flow, ""), {})
        of_end[flow] = recording.metrics.get(flow, {}).get("goodput_mbps")
    return {flow: summary.jain(list(own.values())) for own in rates.values() for flow in own}


def _metrics(known: Mapping[str, float], fairness: float | None) -> dict[str, Value]:
    values: dict[str, Value] = dict.fromkeys(metrics.NAMES)
    for name, value in known.items():
        if name in values:
            values[name] = round(value) if name in metrics.COUNTS else summary.six_digits(value)
    return {**values, "jain": summary.six_digits(fairness), "status": "complete"}


def _scenario(run: Run, name: str) -> Scenario:
    """Make what stands in place of a Scenario: who sent to whom, and for how long; no path is known."""
    recording = run.recording
    last = max((table.last_ns for table in recording.tables.values()), default=0)
    flows: list[dict[str, Any]] = []
    hosts: dict[str, None] = {}
    for flow in recording.flows:
        source, _, target = flow.partition("-")
        ends = (source.rpartition(":")[0], target.rpartition(":")[0]) if target else ("sender", "receiver")
        ends = (ends[0] or "sender", ends[1] or "receiver")
        hosts |= dict.fromkeys(ends)
        flows.append({"name": flow, "from": ends[0], "to": ends[1], "cc": recording.facts.get("cc")})
    stack = recording.facts.get("stack")
    known = {
        "version": 1,
        "experiment": name,
        "imported": recording.label,
        "seed": 0,
        "repeat": run.repeat,
        "duration_ns": last,
        "start_jitter_ns": 0,
        "measure": {"from_ns": 0, "to_ns": last},
        "hosts": [{"name": host, "stack": stack} for host in hosts],
        "links": [],
        "flows": flows,
        "schedule": [],
    }
    return cast(Scenario, known)
