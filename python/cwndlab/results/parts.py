"""Parts, the unit of commit: some runs in one directory that appears whole or not at all."""

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from cwndlab.errors import InputError
from cwndlab.experiment.plan import PlannedRun
from cwndlab.results import tables

RUNS = "runs.jsonl"
"""The file of a part that holds a line per run."""

NAME = re.compile(r"[0-9]+-[0-9]+")
"""Names of parts: first and last run. Names read from disk are checked before they become paths."""

MAX_RUNS = 256
"""Runs in a part at most."""

PART_PACKETS = 1_000_000
"""Packets after which a part is closed.

That is less than a second of simulation: a killed sweep loses little, and workers end at about the same time,
while a sweep of thousands of short runs still makes only tens of parts."""


@dataclass(frozen=True)
class Part:
    """Consecutive runs of a plan that are carried out and committed together."""

    name: str
    runs: tuple[PlannedRun, ...]


def cut(runs: Sequence[PlannedRun], *, alone: bool = False) -> list[Part]:
    """Cut a plan into parts, by the plan alone: any number of workers writes the same files.

    `alone`: each run is a part, as where it takes real time.
    """
    groups: list[list[PlannedRun]] = []
    packets = 0
    for run in runs:
        if not groups or alone or packets >= PART_PACKETS or len(groups[-1]) == MAX_RUNS:
            groups.append([])
            packets = 0
        groups[-1].append(run)
        packets += expected_packets(run.scenario)
    digits = len(str(max(len(runs) - 1, 0)))
    return [Part(f"{group[0].index:0{digits}}-{group[-1].index:0{digits}}", tuple(group)) for group in groups]


def expected_packets(scenario: dict[str, Any]) -> int:
    """Packets that cross the bottlenecks of a run if flows fill them: what a run costs, roughly.

    Links without a rate count as 1 Gbit/s, a run without a bottleneck by its fastest link.
    """
    rates = [link["rate_bps"] or 10**9 for link in scenario["links"] if link["bottleneck"]]
    rates = rates or [max((link["rate_bps"] or 10**9 for link in scenario["links"]), default=0)]
    return int(sum(rates) * scenario["duration_ns"] // (10**9 * 8 * 1500)) + 1


@dataclass(frozen=True)
class TableRecord:
    """Where a run's rows of one table are, and what they hash to."""

    rows: int
    row_groups: list[int]
    sha256: str


@dataclass(frozen=True)
class RunRecord:
    """One line of runs.jsonl: a run as it was carried out, with clock times and facts of the machine."""

    run_id: int
    repeat: int
    cell: dict[str, str]
    scenario_hash: str
    status: str
    """`complete`, or `failed` with the reason in `error`."""
    error: str | None
    warnings: list[str]
    notes: list[str]
    testbed: str
    versions: dict[str, str]
    machine: dict[str, str]
    facts: dict[str, Any]
    """What the testbed found on its hosts, such as the sysctls in force."""
    started: str
    """UTC, ISO 8601."""
    wall_s: float
    tables: dict[str, TableRecord]
    captures: list[str]
    """Names of the part's pcap files of this run."""
    summary: dict[str, Any] | None
    """Counters of the run as docs/architecture.md gives them; None of a run that failed."""
    scenario: dict[str, Any]
    position: int | None = None
    """Place among the runs as they were carried out, from 0; None where time is virtual and order means
    nothing."""
    attachments: list[str] = field(default_factory=list)
    """Names of the part's files with what tools reported of this run."""

    def to_json(self) -> str:
        """The record as one line."""
        # Not dataclasses.asdict, which copies the whole Scenario.
        values = vars(self) | {"tables": {name: vars(table) for name, table in self.tables.items()}}
        return json.dumps(values, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> Self:
        """The record of a line; raises ValueError when it is not one."""
        try:
            values = json.loads(line)
            records = {name: TableRecord(**table) for name, table in values.pop("tables").items()}
            if any("/" in name or not name.endswith(".pcap") for name in values["captures"]):
                raise ValueError("a capture has a bad name")
            if any("/" in name or name.startswith(".") for name in values.get("attachments", ())):
                raise ValueError("an attachment has a bad name")
            return cls(**values, tables=records)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not the record of a run ({error})") from None


def read_records(part: Path) -> list[RunRecord]:
    """The runs of a part in order; raises InputError when the part is damaged."""
    file = part / RUNS
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        return [RunRecord.from_json(line) for line in lines]
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}; the results are damaged") from None
    except ValueError as error:
        raise InputError(f"{file}: {error}; the results are damaged") from None


def read_rows(part: Path, table: str, record: RunRecord) -> pa.Table:
    """The rows of one run in a table, empty if it has none; raises InputError when the part is damaged."""
    kept = record.tables.get(table)
    if kept is None:
        return tables.SCHEMAS[table].empty_table()
    file = part / f"{table}.parquet"
    try:
        with pq.ParquetFile(file) as parquet:
            rows = parquet.read_row_groups(kept.row_groups)
    except (OSError, pa.ArrowException, IndexError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{file}: {reason}; the results are damaged") from None
    if rows.num_rows != kept.rows or rows.schema.names != tables.SCHEMAS[table].names:
        raise InputError(
            f"{file}: holds other rows than {RUNS} says of run {record.run_id}; the results are damaged"
        )
    return rows


def verify(part: Path, record: RunRecord) -> None:
    """Read all of a run's rows again; raises InputError unless they hash to what was recorded."""
    for table, kept in record.tables.items():
        rows = read_rows(part, table, record)
        digest = tables.RowsHash()
        for start in range(0, rows.num_rows, tables.ROWS_PER_GROUP):
            digest.update(rows.slice(start, tables.ROWS_PER_GROUP))
        if digest.hexdigest() != kept.sha256:
            raise InputError(f"{part / table}.parquet: the rows of run {record.run_id} were altered")


class PartWriter:
    """Writes a part aside and puts it in place when it is whole.

    Used as a context: what was not committed when it ends is removed again. Not for several threads.
    """

    def __init__(self, runs: Path, name: str) -> None:
        """Start the part `name` below the directory `runs`."""
        self._final = runs / name
        self._aside = runs / f".{name}.{os.getpid()}"
        self._aside.mkdir()
        self._files: dict[str, pq.ParquetWriter] = {}
        self._groups: dict[str, int] = {}
        self._lines: list[str] = []

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove what was not committed."""
        shutil.rmtree(self._aside, ignore_errors=True)

    def begin(self, run_id: int) -> "RunFiles":
        """Take the rows of the next run; the run before must be finished."""
        return RunFiles(self, run_id)

    def record(self, record: RunRecord) -> None:
        """Add the line of a finished run."""
        self._lines.append(record.to_json() + "\n")

    def commit(self) -> None:
        """Put the part in place, all of it safely on disk before; a part of that name is replaced."""
        for file in self._files.values():
            file.close()
        (self._aside / RUNS).write_text("".join(self._lines), encoding="utf-8")
        for path in self._aside.iterdir():
            sync(path)
        sync(self._aside)
        if self._final.exists():
            shutil.rmtree(self._final)
        self._aside.rename(self._final)
        sync(self._final.parent)

    def write_group(self, table: str, rows: pa.Table) -> int:
        """Write one row group, and say which it is in its file."""
        if table not in self._files:
            self._files[table] = tables.parquet_writer(table, self._aside / f"{table}.parquet")
        self._files[table].write_table(rows, row_group_size=tables.ROWS_PER_GROUP)
        group = self._groups.get(table, 0)
        self._groups[table] = group + 1
        return group

    def append(self, name: str, data: bytes) -> None:
        """Append bytes to a file of the part."""
        with (self._aside / name).open("ab") as file:
            file.write(data)


@dataclass
class RunFiles:
    """The `RunWriter` of one run in a part."""

    part: PartWriter
    run_id: int
    captures: list[str] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)
    _tables: "dict[str, _Rows]" = field(default_factory=dict)

    def rows(self, table: str, batch: pa.RecordBatch) -> None:
        """Append rows; raises ValueError for an unknown table or other columns."""
        batch = tables.conform(table, batch)
        if table not in self._tables:
            self._tables[table] = _Rows(self.part, table)
        self._tables[table].add(batch)

    def capture(self, point: str, data: bytes) -> None:
        """Append bytes to the pcap file of a capture point."""
        name = f"{self.run_id}-{quote(point, safe='')}.pcap"
        if name not in self.captures:
            self.captures.append(name)
        self.part.append(name, data)

    def attach(self, name: str, data: bytes) -> None:
        """Keep a file beside the tables."""
        name = f"{self.run_id}-{quote(name, safe='')}"
        if name not in self.attachments:
            self.attachments.append(name)
        self.part.append(name, data)

    def finish(self) -> dict[str, TableRecord]:
        """Write what is still held, and say what every table got."""
        return {name: self._tables[name].finish() for name in tables.SCHEMAS if name in self._tables}


class _Rows:
    """Gathers the batches of one run and table into row groups of a fixed length."""

    def __init__(self, part: PartWriter, table: str) -> None:
        self._part = part
        self._table = table
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._written = 0
        self._groups: list[int] = []
        self._hash = tables.RowsHash()

    def add(self, batch: pa.RecordBatch) -> None:
        while self._held_rows + batch.num_rows >= tables.ROWS_PER_GROUP:
            fits = tables.ROWS_PER_GROUP - self._held_rows
            self._hold(batch.slice(0, fits))
            self._write()
            batch = batch.slice(fits)
        self._hold(batch)

    def finish(self) -> TableRecord:
        if self._held_rows:
            self._write()
        return TableRecord(self._written, self._groups, self._hash.hexdigest())

    def _hold(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._held.append(batch)
            self._held_rows += batch.num_rows

    def _write(self) -> None:
        # One chunk and one dictionary, so that the bytes do not tell where the testbed cut its batches.
        group = pa.Table.from_batches(self._held).unify_dictionaries().combine_chunks()
        self._hash.update(group)
        self._groups.append(self._part.write_group(self._table, group))
        self._written += group.num_rows
        self._held.clear()
        self._held_rows = 0


def sync(path: Path) -> None:
    """Wait until a file or directory is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(path: Path, data: bytes) -> None:
    """Write a file so that it is either as before or whole, whenever the machine stops."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(data)
    sync(aside)
    aside.replace(path)
    sync(path.parent)
