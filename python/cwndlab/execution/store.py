"""Parts, the unit of commit: some runs in one directory that appears whole or not at all."""

import mmap
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cwndlab.contract.scenario import Link, Scenario
from cwndlab.errors import InputError
from cwndlab.execution import captures
from cwndlab.experiment.plan import MAX_RECORDED, PlannedRun
from cwndlab.experiment.scenario.queries import least_rate
from cwndlab.results import checksums, files
from cwndlab.results.checksums import Sums, damaged
from cwndlab.results.parts import NAME, RUNS, Part, RunRecord, StoredPart, TableRecord
from cwndlab.testbeds import tables

ASIDE = re.compile(rf"\.{NAME.pattern}\.[0-9]+")
"""Names of parts that are being written, or were when the machine stopped: `.PART.PID`."""

MAX_RUNS = 256
"""Runs in a part at most."""

FOREIGN_RUNS = 4
"""Runs in a part at most where code from outside runs: each may take seconds until it is ended."""

PART_PACKETS = 1_000_000
"""Packets after which a part is closed.

That is less than a second of simulation: a killed sweep loses little, and workers end at about the same time,
while a sweep of thousands of short runs still makes only tens of parts."""


def cut(runs: Sequence[PlannedRun], *, most: int = MAX_RUNS) -> list[Part]:
    """Cut a plan into parts, by the plan alone: any number of workers writes the same files.

    `most`: runs in a part, which are lost together if it is stopped; one, where a kernel takes seconds.
    """
    groups: list[list[PlannedRun]] = []
    packets = 0
    for run in runs:
        if not groups or packets >= PART_PACKETS or len(groups[-1]) == most:
            groups.append([])
            packets = 0
        groups[-1].append(run)
        packets += expected_packets(run.scenario)
    digits = len(str(max(len(runs) - 1, 0)))
    return [Part(f"{group[0].index:0{digits}}-{group[-1].index:0{digits}}", tuple(group)) for group in groups]


def expected_packets(scenario: Scenario) -> int:
    """Packets that cross the bottlenecks of a run if flows fill them: what a run costs, roughly.

    Links without a rate count as 1 Gbit/s, a run without a bottleneck by its fastest link.
    """
    rates = [_rate(link) for link in scenario["links"] if link["bottleneck"]]
    rates = rates or [max(map(_rate, scenario["links"]), default=0)]
    return int(sum(rates) * scenario["duration_ns"] // (10**9 * 8 * 1500)) + 1


def _rate(link: Link) -> int:
    return least_rate(link["rate_bps"], link.get("shaper") or {}, link.get("queue")) or 10**9


def copy(directory: Path, runs: Path) -> None:
    """Copy a part to other results; raises InputError unless each file arrives as it was written."""
    names = [*Sums(directory).names, checksums.FILE]
    _put(runs, directory.name, lambda name, into: shutil.copyfile(directory / name, into), names)


def place(runs: Path, part: str, contents: Mapping[str, bytes]) -> None:
    """Put a part in place that was written elsewhere, as the bytes of its files.

    Raises InputError unless they are those that were written.
    """
    _put(runs, part, lambda name, into: into.write_bytes(contents[name]), contents)


def _put(runs: Path, part: str, write: Callable[[str, Path], object], names: Iterable[str]) -> None:
    final = runs / part
    aside = runs / f".{part}.{os.getpid()}"
    with files.naming(final):
        aside.mkdir()
    try:
        with files.naming(final):
            for name in names:
                if not _MADE.fullmatch(name) or "/" in name:
                    raise damaged(final, f"{name!r} is no name of a file of a part")
                write(name, aside / name)
        StoredPart(aside).check()
        with files.naming(final):
            for name in names:
                files.sync(aside / name)
            _settle(aside, final)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _settle(aside: Path, final: Path) -> None:
    """Give a part that is whole its name; one that had it is replaced."""
    if os.path.lexists(final):
        discard(final)
    aside.rename(final)
    files.sync(final.parent)


def discard(directory: Path) -> None:
    """Remove a part, or one that was being written; raises InputError as `check_ours`."""
    check_ours(directory)
    shutil.rmtree(directory)


def check_ours(directory: Path) -> None:
    """Refuse a directory that is to be removed if it is a symlink, or holds anything that no part has."""
    if directory.is_symlink() or not directory.is_dir():
        raise InputError(f"{directory}: is a symlink or a file where a directory belongs; move it elsewhere")
    for entry in directory.iterdir():
        if not _MADE.fullmatch(entry.name) or entry.is_symlink() or not entry.is_file():
            problem = "was not written by cwndlab, so its directory is not removed"
            raise InputError(f"{entry}: {problem}; move it elsewhere")


_MADE = re.compile(
    rf"{re.escape(RUNS)}|{checksums.FILE}|\.{checksums.FILE}\.[0-9]+|({'|'.join(tables.SCHEMAS)})\.parquet|[0-9]+-.+"
)
"""Files that a part can have."""


def unfinished(runs: Path, part: str, process: int) -> Path:
    """Place where a process writes a part until it is whole."""
    return runs / f".{part}.{process}"


class PartWriter:
    """Writes a part aside and puts it in place when it is whole.

    Used as a context: what was not committed when it ends is removed again. Not for several threads.
    """

    def __init__(self, runs: Path, name: str) -> None:
        """Start the part `name` below the directory `runs`."""
        self._final = runs / name
        self._aside = unfinished(runs, name, os.getpid())
        with files.naming(self._final):
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

    def begin(self, run_id: int, limit: int = MAX_RECORDED) -> "RunFiles":
        """Take the rows of the next run; the run before must be finished."""
        return RunFiles(self, run_id, limit)

    def record(self, record: RunRecord) -> None:
        """Add the line of a finished run."""
        self._lines.append(record.to_json() + "\n")

    def commit(self) -> None:
        """Put the part in place, all of it safely on disk before; a part of that name is replaced."""
        with files.naming(self._final):
            for file in self._files.values():
                file.close()
            (self._aside / RUNS).write_text("".join(self._lines), encoding="utf-8")
            names = sorted(path.name for path in self._aside.iterdir())
            for name in names:
                files.sync(self._aside / name)
            checksums.seal(self._aside, names)
            _settle(self._aside, self._final)

    def write_group(self, table: str, rows: pa.Table) -> int:
        """Write one row group, and say which it is in its file."""
        with files.naming(self._final / f"{table}.parquet"):
            if table not in self._files:
                self._files[table] = tables.parquet_writer(table, self._aside / f"{table}.parquet")
            self._files[table].write_table(rows, row_group_size=tables.ROWS_PER_GROUP)
        group = self._groups.get(table, 0)
        self._groups[table] = group + 1
        return group

    def append(self, name: str, data: bytes) -> None:
        """Append bytes to a file of the part."""
        with files.naming(self._final / name), (self._aside / name).open("ab") as file:
            file.write(data)


@dataclass
class RunFiles:
    """The `RunWriter` of one run in a part."""

    part: PartWriter
    run_id: int
    limit: int = MAX_RECORDED
    """Bytes of each capture and each table at most; what comes when it is reached is left out."""
    captures: list[str] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    """A sentence for each capture and table that reached its limit, by name."""
    _tables: "dict[str, _Rows]" = field(default_factory=dict)
    _captured: dict[str, int] = field(default_factory=dict)

    def rows(self, table: str, batch: pa.RecordBatch) -> None:
        """Append rows; raises ValueError for an unknown table or other columns."""
        batch = tables.conform(table, batch)
        if table not in self._tables:
            self._tables[table] = _Rows(self.part, table)
        room = self.limit // tables.row_memory(table) - self._tables[table].rows
        if batch.num_rows > room:
            if table not in self.ended:
                since = batch["t_ns"][room].as_py() / 1e9
                self.ended[table] = (
                    f"table {table} ends at {since:.6g} s, with its {self._tables[table].rows + room} rows at"
                    f" the limit of {self.limit} B: record less, or set record.limit"
                )
            batch = batch.slice(0, room)
        self._tables[table].add(batch)

    def capture(self, point: str, data: bytes) -> None:
        """Append bytes to the pcap file of a capture point."""
        name = f"{self.run_id}-{quote(point, safe='')}.pcap"
        if name not in self.captures:
            self.captures.append(name)
        before = self._captured.get(name, 0)
        if name in self.ended:
            return
        if before + len(data) > self.limit:
            data = data[: captures.whole(data, self.limit - before, first=not before)]
            self.ended[name] = (
                f"the capture at {point} ends early, at its limit of {self.limit} B: keep less of each packet"
                " (snaplen), capture at fewer places, or set record.limit"
            )
        self._captured[name] = before + len(data)
        self.part.append(name, data)

    def attach(self, name: str, data: bytes) -> None:
        """Keep a file beside the tables."""
        name = f"{self.run_id}-{quote(name, safe='')}"
        if name not in self.attachments:
            self.attachments.append(name)
        self.part.append(name, data)

    def end(self, table: str) -> None:
        """Write what is still held of a table that gets no more rows."""
        if table in self._tables:
            self._tables[table].finish()

    def finish(self) -> dict[str, TableRecord]:
        """Write what is still held, and say what every table got."""
        return {name: self._tables[name].finish() for name in tables.SCHEMAS if name in self._tables}


class _Rows:
    """Gathers the batches of one run and table into row groups of a fixed length."""

    def __init__(self, part: PartWriter, table: str) -> None:
        self._part = part
        self._table = table
        self._alone: pa.RecordBatch | None = None
        """The batch that is held, as long as it is the only one."""
        self._held: list[_Column] = []
        self._held_rows = 0
        self._written = 0
        self._groups: list[int] = []
        self._hash = tables.RowsHash()

    @property
    def rows(self) -> int:
        """Rows added so far."""
        return self._written + self._held_rows

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
        self._held = []
        return TableRecord(self._written, self._groups, self._hash.hexdigest())

    def _hold(self, batch: pa.RecordBatch) -> None:
        if not self._held and self._alone is None:
            self._alone = batch
        else:
            self._held = self._held or [_Column(column.type) for column in tables.SCHEMAS[self._table]]
            if self._alone is not None:
                self._put(0, self._alone)
                self._alone = None
            self._put(self._held_rows, batch)
        self._held_rows += batch.num_rows

    def _put(self, start: int, batch: pa.RecordBatch) -> None:
        for column, piece in zip(self._held, batch.columns, strict=True):
            column.put(start, piece)

    def _write(self) -> None:
        if self._alone is not None:
            columns = self._alone.columns
        else:
            pa.default_memory_pool().release_unused()  # by the pieces
            columns = [column.take(self._held_rows) for column in self._held]
        group = pa.Table.from_arrays(columns, schema=tables.SCHEMAS[self._table])
        self._hash.update(group)
        self._groups.append(self._part.write_group(self._table, group))
        self._written += group.num_rows
        self._held_rows = 0
        self._alone = None


class _Column:
    """A column of a row group that comes in pieces: one array and one dictionary, so that the bytes do not
    tell where the testbed cut its batches, and no second copy. What was not written to takes no memory."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._named = pa.types.is_dictionary(kind)
        self._values = _zeros((kind.index_type if self._named else kind).to_pandas_dtype())
        self._there = _zeros(np.bool_)
        self._names: dict[str, int] = {}

    def put(self, start: int, piece: Any) -> None:
        """Set the rows from `start` on."""
        if self._named:
            names = piece.dictionary.to_pylist()
            numbers: Any = [self._names.setdefault(name, len(self._names)) for name in names]
            piece = pa.array([*numbers, 0], self._kind.index_type).take(piece.indices)
        if piece.null_count < len(piece):
            rows = slice(start, start + len(piece))
            self._values[rows] = piece.fill_null(0).to_numpy()
            self._there[rows] = piece.is_valid().to_numpy(zero_copy_only=False) if piece.null_count else True

    def take(self, count: int) -> Any:
        """The first `count` rows, which hold until others are put in their place."""
        there = self._there[:count]
        bits: Any = np.packbits(there, bitorder="little")
        bitmap = None if there.all() else pa.py_buffer(bits)
        kind = self._kind.index_type if self._named else self._kind
        values: Any = self._values[:count]
        made: Any = pa.Array.from_buffers(kind, count, [bitmap, pa.py_buffer(values)])
        if self._named:
            made = pa.DictionaryArray.from_arrays(made, pa.array(list(self._names), pa.utf8()))
            self._names = {}
        if there.any():
            there[:] = False
        return made


def _zeros(kind: Any) -> np.ndarray[Any, Any]:
    """Room for a row group, in memory that the system provides once it is written to."""
    size = tables.ROWS_PER_GROUP * np.dtype(kind).itemsize
    return np.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANON), kind)
