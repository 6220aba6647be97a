"""The tables every testbed records: their columns, their Parquet settings, and the hash of their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cwndlab.contract.tables import TABLES

ROWS_PER_GROUP = 1 << 20
"""Rows in a row group at most.

A run that has fewer is one row group; a longer one is cut at exact multiples, so that what is held in memory
stays bounded (about 80 MB a table before encoding) and the bytes do not depend on how the testbed cut its
batches."""

_TYPES = {
    "u16": pa.uint16(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "i64": pa.int64(),
    "name": pa.dictionary(pa.int32(), pa.utf8()),
}

SCHEMAS: dict[str, pa.Schema] = {
    table: pa.schema([("run_id", pa.uint32()), *((name, _TYPES[kind]) for name, kind in columns.items())])
    for table, columns in TABLES.items()
}
"""Columns of each table in order, as docs/architecture.md gives them: integers and names, times in ns
since the start of the run, sizes in bytes."""


def api_name(column: str) -> str:
    """The name under which the API shows a stored column: `t_s` in s, every other `*_ns` as `*_ms`."""
    if column == "t_ns":
        return "t_s"
    return f"{column.removesuffix('_ns')}_ms" if column.endswith("_ns") else column


def row_memory(table: str) -> int:
    """Bytes that a row of a table counts for, each value for 8."""
    return 8 * len(SCHEMAS[table].names)


def conform(table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with exactly the columns of `table`.

    Raises ValueError when the table is unknown, or a column is missing, superfluous or of another type.
    """
    schema = SCHEMAS.get(table)
    if schema is None:
        raise ValueError(f"unknown table {table!r}; the tables are {', '.join(SCHEMAS)}")
    if batch.schema.names != schema.names:
        raise ValueError(f"table {table} has columns {batch.schema.names}, expected {schema.names}")
    try:
        return batch if batch.schema.equals(schema) else batch.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"table {table}: {error}") from None


def parquet_writer(table: str, path: Path) -> pq.ParquetWriter:
    """The one way this project writes a table: every option that reaches the bytes is pinned here."""
    schema = SCHEMAS[table]
    names = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    pinned: dict[str, Any] = {
        "version": "2.6",
        "data_page_version": "1.0",
        "compression": "snappy",
        "use_dictionary": names,
        "column_encoding": {field.name: "DELTA_BINARY_PACKED" for field in schema if field.name not in names},
        "write_statistics": True,
        "write_page_index": False,
        "write_page_checksum": True,
        "store_schema": True,
    }
    return pq.ParquetWriter(path, schema, **pinned)


_CONVERTED = 1 << 14
"""Rows of a column of names that are converted at a time."""


class RowsHash:
    """SHA-256 of a run's rows in one table: what was recorded, whatever wrote it to disk.

    Fed with consecutive slices of `ROWS_PER_GROUP` rows (the last may be shorter). A slice contributes,
    column by column, which values are null (if any), then the values: little-endian integers with null as 0,
    or the lengths and the UTF-8 of names.
    """

    def __init__(self) -> None:
        """Hash of no rows."""
        self._sha = hashlib.sha256()

    def update(self, rows: pa.Table) -> None:
        """Add the next slice."""
        for name, chunks in zip(rows.column_names, rows.columns, strict=True):
            column = _whole(chunks)
            nulls = column.null_count
            self._sha.update(f"{name} {len(column)} {nulls}\n".encode())
            if nulls:
                self._sha.update(_integers(column.is_valid().cast(pa.uint8())))
            named = pa.types.is_dictionary(column.type)
            fixed = pc.binary_length(column.dictionary).take(column.indices) if named else column
            self._sha.update(_integers(fixed.fill_null(0) if nulls else fixed))
            # A little at a time: the names of a million rows take more memory than all else.
            for start in range(0, len(column) if named else 0, _CONVERTED):
                part = column.slice(start, _CONVERTED)
                text, offsets = _characters(part.cast(pa.utf8()))
                self._sha.update(text[offsets[0] : offsets[len(part)]])

    def hexdigest(self) -> str:
        """The digest of everything added so far, in hexadecimal."""
        return self._sha.hexdigest()


class Hashable:
    """Rows of one run after the other as bytes that `RowsHash` takes: converted once for all runs."""

    def __init__(self, rows: pa.Table) -> None:
        """Convert every column."""
        self._columns = [
            (name, *_bytes(_whole(chunks)))
            for name, chunks in zip(rows.column_names, rows.columns, strict=True)
        ]

    def hexdigest(self, start: int, count: int) -> str:
        """The digest of a run's rows: `count` of them from `start` on."""
        sha = hashlib.sha256()
        for first in range(start, start + count, ROWS_PER_GROUP):
            self.feed(sha, first, min(first + ROWS_PER_GROUP, start + count))
        return sha.hexdigest()

    def feed(self, sha: hashlib._Hash, start: int, stop: int) -> None:
        """Add the rows from `start` to `stop`, at most `ROWS_PER_GROUP`, to a hash."""
        for name, valid, fixed, width, text, offsets in self._columns:
            nulls = 0 if valid is None else bytes(valid[start:stop]).count(0)
            sha.update(f"{name} {stop - start} {nulls}\n".encode())
            if valid is not None and nulls:
                sha.update(valid[start:stop])
            sha.update(fixed[start * width : stop * width])
            if offsets is not None:
                sha.update(text[offsets[start] : offsets[stop]])


def result_hash(rows: Mapping[str, str]) -> str:
    """SHA-256, in hexadecimal, of a whole run: of a line for each table with rows, and their hash."""
    lines = (f"{table} {rows[table]}\n" for table in _TOGETHER if table in rows)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


_TOGETHER = ("tcp", "queue", "events", "samples", "tcp_info")
"""Tables in the order in which `result_hash` takes them."""


# Arrays are typed Any below because the type stubs do not follow an array's type through a cast.


def _whole(column: Any) -> Any:
    """A column in one piece, which Arrow would copy where it is one already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _bytes(column: Any) -> tuple[memoryview | None, memoryview, int, memoryview, memoryview | None]:
    """A column: a byte a row that says whether it is there, or None where all are; its integers, or the
    lengths of its names, and their width; the characters of all names; where each begins, or None."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.utf8())
    text = pa.types.is_string(column.type)
    valid = _integers(column.is_valid().cast(pa.uint8())) if column.null_count else None
    if valid is not None:
        column = column.fill_null("" if text else 0)
    fixed = pc.binary_length(column) if text else column
    width = fixed.type.bit_width // 8
    if not text:
        return valid, _integers(fixed), width, memoryview(b""), None
    return valid, _integers(fixed), width, *_characters(column)


def _integers(column: Any) -> memoryview:
    """The values of a column of integers without nulls, as bytes."""
    width = column.type.bit_width // 8
    start = column.offset * width
    return memoryview(column.buffers()[1])[start : start + len(column) * width]


def _characters(column: Any) -> tuple[memoryview, memoryview]:
    """The characters of a column of strings without nulls, where each begins, and where the last ends."""
    _, offsets, text = column.buffers()
    at = memoryview(offsets).cast("b").cast("i") if offsets is not None else memoryview(bytes(4)).cast("i")
    at = at[column.offset : column.offset + len(column) + 1]
    return memoryview(b"" if text is None else text), at
