"""Tables that may be larger than memory: their rows lie on the disk, in pieces, and are sorted there."""

from __future__ import annotations

import ctypes
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from cwndlab.results.files import naming

Column = np.ndarray[Any, Any]

KEPT_BYTES = 1 << 20
"""Bytes of a store, compressed, up to which it stays in memory."""

HELD_BYTES = 4 << 20
"""Bytes of rows that are sorted at a time."""

BLOCK_BYTES = 128 << 10
"""Bytes of rows that are read back at a time, of each run of a merge."""

MOST_RUNS = 64
"""Runs that are merged at a time."""

BATCH_ROWS = 1 << 14
"""Rows of a batch of sorted ones, about."""


_C = ctypes.CDLL(None)


def give_back() -> None:
    """Hand memory that nothing holds any more back to the system: Arrow's, and that of glibc."""
    pa.default_memory_pool().release_unused()
    if hasattr(_C, "malloc_trim"):
        _C.malloc_trim(0)


class Store:
    """Batches of rows, compressed, in memory as long as they are few, then in a file that ends with this."""

    def __init__(self) -> None:
        """Begin empty."""
        self._places: list[tuple[int, int]] = []
        self._kept = bytearray()
        self._path: Path | None = None

    def __len__(self) -> int:
        """Number of batches."""
        return len(self._places)

    def put(self, batch: pa.RecordBatch) -> int:
        """Keep a batch, and say its number; raises InputError when the disk is full."""
        sink = pa.BufferOutputStream()
        # Each thread of Arrow's keeps memory of its own, so a piece is for one.
        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
        if self._path is None and len(self._kept) + data.size > KEPT_BYTES:
            self._move()
        start = sum(self._places[-1]) if self._places else 0
        if self._path is None:
            self._kept += memoryview(data)
        else:
            with naming(self._path), self._path.open("ab") as file:
                file.write(memoryview(data))
        self._places.append((start, data.size))
        return len(self._places) - 1

    def get(self, number: int) -> pa.RecordBatch:
        """The batch of a number."""
        start, size = self._places[number]
        if self._path is None:
            data = bytes(self._kept[start : start + size])
        else:
            with naming(self._path), self._path.open("rb") as file:
                file.seek(start)
                data = file.read(size)
        options = pa.ipc.IpcReadOptions(use_threads=False)
        return pa.ipc.open_stream(data, options=options).read_next_batch()

    def _move(self) -> None:
        with naming(Path(tempfile.gettempdir())):
            handle, name = tempfile.mkstemp(prefix="cwndlab-")
            weakref.finalize(self, Path(name).unlink, missing_ok=True)
            with os.fdopen(handle, "wb") as file:
                file.write(self._kept)
        self._path, self._kept = Path(name), bytearray()


@dataclass(frozen=True)
class StoredTable:
    """A table whose rows are read in batches."""

    schema: pa.Schema
    num_rows: int
    last_ns: int
    """Time of the last row, 0 without any."""
    batches: Callable[[], Iterator[pa.RecordBatch]]
    """The rows, from the first on, each time it is called."""

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """A table that is in memory."""
        return cls(
            table.schema,
            table.num_rows,
            int(table["t_ns"][-1].as_py()) if table.num_rows else 0,
            lambda: iter(table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)),
        )

    def changed(self, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Self:
        """The table with each of its batches changed, which have as many rows as before."""
        return replace(self, batches=lambda: map(change, self.batches()))

    def read(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(self.batches(), self.schema).unify_dictionaries().combine_chunks()


class TableWriter:
    """A `StoredTable` that is made of batches."""

    def __init__(self, schema: pa.Schema) -> None:
        """Begin a table of these columns."""
        self._schema, self._store, self._rows, self._last_ns = schema, Store(), 0, 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        if batch.num_rows:
            self._store.put(batch)
            self._rows += batch.num_rows
            self._last_ns = int(batch["t_ns"][-1].as_py())

    def table(self) -> StoredTable:
        """The rows so far."""
        store = self._store
        numbers = range(len(store))
        return StoredTable(self._schema, self._rows, self._last_ns, lambda: map(store.get, numbers))


FIRST, SECOND = "first", "second"
"""Columns of int64 that rows are sorted by."""


@dataclass
class _Run:
    """Rows in order, as numbers of batches of a store, and the keys of its last row."""

    blocks: list[int] = field(default_factory=list)
    last: tuple[int, int] = (-(2**63), -(2**63))


class Sorter:
    """Sorts rows by the columns `FIRST` and `SECOND`; equal ones stay in the order in which they came."""

    def __init__(self) -> None:
        """Begin empty."""
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._store = Store()
        self._runs: list[_Run] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; all batches have the same columns."""
        if batch.num_rows:
            self._held.append(batch)
            self._held_bytes += batch.nbytes
        if self._held_bytes > HELD_BYTES:
            self._put_aside()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in order; no more can be added."""
        if self._runs:
            self._put_aside()
            runs, self._runs = self._runs, []
            yield from self._joined(self._merged(runs))
        elif self._held:
            yield from self._sorted().to_batches(max_chunksize=BATCH_ROWS)

    def _sorted(self) -> pa.Table:
        rows = pa.Table.from_batches(self._held).unify_dictionaries().combine_chunks()
        self._held, self._held_bytes = [], 0
        first, second = _keys(rows)
        order = np.lexsort((second, first))
        return rows if np.all(order[1:] > order[:-1]) else rows.take(order).combine_chunks()

    def _put_aside(self) -> None:
        if not self._held:
            return
        rows = self._sorted()
        first, second = _keys(rows)
        # Rows of a log are mostly in order: they lengthen the last run.
        if not self._runs or (int(first[0]), int(second[0])) < self._runs[-1].last:
            if len(self._runs) == MOST_RUNS:
                whole = _Run()
                for batch in self._merged(self._runs):
                    self._lengthen(whole, batch)
                self._runs = [whole]
            self._runs.append(_Run())
        for batch in rows.to_batches():
            self._lengthen(self._runs[-1], batch)
        # What was sorted is gone; Arrow keeps its memory otherwise.
        pa.default_memory_pool().release_unused()

    def _lengthen(self, run: _Run, batch: pa.RecordBatch) -> None:
        """Put rows at the end of a run, in blocks, of which a merge holds one of each run."""
        rows = max(BLOCK_BYTES * batch.num_rows // batch.nbytes, 1)
        for start in range(0, batch.num_rows, rows):
            run.blocks.append(self._store.put(batch.slice(start, rows)))
        first, second = _keys(batch)
        run.last = int(first[-1]), int(second[-1])

    def _merged(self, runs: list[_Run]) -> Iterator[pa.RecordBatch]:
        """The rows of runs in order: each time as many as come before all that is still to be read."""
        waiting = [list(reversed(run.blocks)) for run in runs]
        heads = [self._store.get(blocks.pop()) for blocks in waiting]
        while len(heads) > 1:
            ends = [(int(first[-1]), int(second[-1])) for first, second in map(_keys, heads)]
            bound = min(range(len(heads)), key=lambda place: (ends[place], place))
            taken = []
            for place, head in enumerate(heads):
                count = _before(head, ends[bound], equal=place <= bound)
                if count:
                    taken.append(head.slice(0, count))
                    heads[place] = head.slice(count)
            rows = pa.Table.from_batches(taken).unify_dictionaries().combine_chunks()
            first, second = _keys(rows)
            if len(taken) > 1:
                rows = rows.take(np.lexsort((second, first))).combine_chunks()
            yield from rows.to_batches()
            for place in reversed([place for place, head in enumerate(heads) if not head.num_rows]):
                if waiting[place]:
                    heads[place] = self._store.get(waiting[place].pop())
                else:
                    del heads[place], waiting[place]
        yield from heads
        for blocks in waiting:
            while blocks:
                yield self._store.get(blocks.pop())

    @staticmethod
    def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join rows into batches of `BATCH_ROWS` or a little more."""
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(each.num_rows for each in held) >= BATCH_ROWS:
                yield from pa.Table.from_batches(held).unify_dictionaries().combine_chunks().to_batches()
                held = []
        if held:
            yield from pa.Table.from_batches(held).unify_dictionaries().combine_chunks().to_batches()


def _keys(rows: pa.RecordBatch | pa.Table) -> tuple[Column, Column]:
    return rows.column(FIRST).to_numpy(), rows.column(SECOND).to_numpy()


def _before(rows: pa.RecordBatch, end: tuple[int, int], *, equal: bool) -> int:
    """Number of rows, from the first on, that have keys below `end`, or equal ones if those count."""
    first, second = _keys(rows)
    low, high = np.searchsorted(first, end[0], "left"), np.searchsorted(first, end[0], "right")
    return int(low + np.searchsorted(second[low:high], end[1], "right" if equal else "left"))
