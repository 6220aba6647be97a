"""What the tests of results share: a made-up testbed's rows, a tiny plan, and a directory made of both.

The rows come from here, not from the engine: these tests say what is stored and shown, whatever is recorded.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa

from cwndlab.execution import resumption, store
from cwndlab.execution.store import PartWriter
from cwndlab.experiment.plan import PlannedRun, scenario_hash
from cwndlab.results import catalogue, checksums
from cwndlab.results.catalogue import Header
from cwndlab.results.parts import Part, RunRecord
from cwndlab.testbeds.tables import SCHEMAS

EXPERIMENT = "experiment: made-up\nduration: 10s\n"


def scenario(cc: str = "newreno", repeat: int = 0, **changed: Any) -> dict[str, Any]:
    def link(name: str, ends: tuple[str, str], bottleneck: bool) -> dict[str, Any]:
        return {
            "name": name,
            "from": ends[0],
            "to": ends[1],
            "rate_bps": 10_000_000,
            "delay_ns": 0,
            "bottleneck": bottleneck,
        }

    return {
        "version": 1,
        "experiment": "made-up",
        "seed": 1,
        "repeat": repeat,
        "duration_ns": 10 * 10**9,
        "measure": {"from_ns": 2 * 10**9, "to_ns": 10 * 10**9},
        "hosts": [
            {"name": "a", "stack": "freebsd-9.2", "egress": None},
            {"name": "b", "stack": "linux-6.8", "egress": None},
        ],
        "links": [link("there", ("a", "b"), True), link("back", ("b", "a"), False)],
        "flows": [{"name": "f1", "from": "a", "to": "b", "cc": cc}],
        "schedule": [],
        **changed,
    }


def flow_counters(name: str = "f1", **changed: Any) -> dict[str, Any]:
    return {
        "flow": name,
        "status": "complete",
        "goodput_bytes": 8_000_000,
        "unacknowledged_bytes": 100_000,
        "wire_bytes": 9_000_000,
        "segments_sent": 6000,
        "retransmits": 60,
        "drops": 50,
        "ce_marks": 0,
        "rtos": 0,
        "fast_recoveries": 3,
        "recovery_entries_ns": [3 * 10**9, 5 * 10**9, 8 * 10**9],
        "rtt": {
            "count": 5,
            "min_ns": 40_000_000,
            "mean_ns": 60_123_456,
            "p50_ns": 61_000_000,
            "p95_ns": 80_000_000,
            "max_ns": 90_000_000,
        },
        "queue_delay": {"count": 5, "p50_ns": 20_000_000, "p95_ns": 39_000_000, "max_ns": 45_000_000},
        "cwnd_mean_bytes": 80_000,
        "cwnd_max_bytes": 120_000,
        "limited_ns": {"cwnd": 6 * 10**9, "rwnd": 0, "sndbuf": 10**9, "app": 0},
        "active_ns": 8 * 10**9,
        "completion_ns": None,
        "start_ns": 0,
        **changed,
    }


def plan(ccs: tuple[str, ...] = ("newreno", "cubic"), repeats: int = 2) -> list[PlannedRun]:
    runs: list[PlannedRun] = []
    for cc in ccs:
        for repeat in range(repeats):
            resolved = scenario(cc, repeat)
            runs.append(PlannedRun(len(runs), repeat, {"hosts.a.cc": cc}, resolved, scenario_hash(resolved)))
    return runs


def tcp_rows(run_id: int, start: int, count: int) -> pa.RecordBatch:
    """Rows that differ from one another, as an engine's batch would hold them."""
    numbers = range(start, start + count)
    states = pa.array(["slow-start", "avoidance"])
    columns: dict[str, pa.Array[Any]] = {
        "run_id": pa.array([run_id] * count, pa.uint32()),
        "t_ns": pa.array([1000 * number for number in numbers], pa.uint64()),
        "flow": pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["f1"])),
        "state": pa.DictionaryArray.from_arrays(
            pa.array([number % 7 // 6 for number in numbers], pa.int32()), states
        ),
        "ssthresh_bytes": pa.array([None if number % 5 else number for number in numbers], pa.uint64()),
        "pacing_bps": pa.nulls(count, pa.uint64()),
    }
    for name in SCHEMAS["tcp"].names:
        columns.setdefault(name, pa.array([number * 3 for number in numbers], pa.uint64()))
    return pa.record_batch([columns[name] for name in SCHEMAS["tcp"].names], names=SCHEMAS["tcp"].names)


def record(run: PlannedRun, tables: dict[str, Any], **changed: Any) -> RunRecord:
    values = {
        "run_id": run.index,
        "repeat": run.repeat,
        "cell": run.cell,
        "scenario_hash": run.scenario_hash,
        "status": "complete",
        "error": None,
        "warnings": [],
        "notes": [],
        "testbed": "sim",
        "versions": {"engine": "made-up"},
        "machine": {},
        "facts": {},
        "started": "2026-01-01T00:00:00+00:00",
        "wall_s": 0.1,
        "tables": tables,
        "captures": [],
        "summary": {"flows": [flow_counters(goodput_bytes=8_000_000 + 100_000 * run.index)]},
        "scenario": run.scenario,
        **changed,
    }
    return RunRecord(**values)


def write_part(runs: Path, part: Part, rows: int = 100, **changed: Any) -> None:
    with PartWriter(runs, part.name) as writer:
        for run in part.runs:
            files = writer.begin(run.index)
            files.rows("tcp", tcp_rows(run.index, 0, rows))
            writer.record(record(run, files.finish(), **changed))
        writer.commit()


def header(**changed: Any) -> Header:
    return Header(
        **{"experiment": "made-up", "testbed": "sim", "keys": ["hosts.a.cc"], "versions": {}, **changed}
    )


def begun(directory: Path, cut: list[Part]) -> Path:
    """A results directory before the first run."""
    directory.mkdir(parents=True)
    resumption.prepare(directory, header(), cut, EXPERIMENT, resume=False)
    return directory


def results(directory: Path, runs: list[PlannedRun] | None = None, **changed: Any) -> Path:
    """A results directory as a sweep leaves it; `changed` are fields of its records."""
    cut = store.cut(plan() if runs is None else runs)
    begun(directory, cut)
    for part in cut:
        write_part(directory / "runs", part, **changed)
    resumption.conclude(directory, catalogue.build(header(), cut, resumption.stored(directory)))
    return directory


def exchange(directory: Path, table: pa.Table) -> None:
    """Put another catalogue into a directory, with its digest."""
    checksums.replace(directory, {catalogue.FILE: catalogue.to_parquet(table)})


def seal(directory: Path) -> None:
    """Make every SHA256SUMS anew, as whoever alters results on purpose would."""
    for listed in [*directory.glob("runs/*/SHA256SUMS"), directory / "SHA256SUMS"]:
        names = checksums.Sums(listed.parent).names
        checksums.seal(
            listed.parent, dict.fromkeys(name for name in names if (listed.parent / name).exists())
        )
