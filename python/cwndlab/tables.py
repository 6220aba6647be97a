"""The tables every testbed records: their columns, their Parquet settings, and the hash of their rows."""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROWS_PER_GROUP = 1 << 20
"""Rows in a row group at most.

A run that has fewer is one row group; a longer one is cut at exact multiples, so that what is held in memory
stays bounded (about 80 MB a table before encoding) and the bytes do not depend on how the testbed cut its
batches."""

_NAME = pa.dictionary(pa.int32(), pa.utf8())


def _columns(**types: pa.DataType) -> pa.Schema:
    return pa.schema([("run_id", pa.uint32()), ("t_ns", pa.uint64()), *types.items()])


SCHEMAS: dict[str, pa.Schema] = {
    "tcp": _columns(
        flow=_NAME,
        cwnd_bytes=pa.uint64(),
        ssthresh_bytes=pa.uint64(),
        srtt_ns=pa.uint64(),
        rtt_ns=pa.uint64(),
        inflight_bytes=pa.uint64(),
        delivered_bytes=pa.uint64(),
        arrived_bytes=pa.uint64(),
        retransmits=pa.uint64(),
        pacing_bps=pa.uint64(),
        rto_ns=pa.uint64(),
        send_window_bytes=pa.uint64(),
        receive_window_bytes=pa.uint64(),
        send_buffer_bytes=pa.uint64(),
        receive_buffer_bytes=pa.uint64(),
        state=_NAME,
    ),
    "tcp_info": _columns(
        flow=_NAME,
        local_port=pa.uint16(),
        remote_port=pa.uint16(),
        mss_bytes=pa.uint32(),
        rttvar_ns=pa.uint64(),
        min_rtt_ns=pa.uint64(),
        delivery_bps=pa.uint64(),
        busy_ns=pa.uint64(),
        rwnd_limited_ns=pa.uint64(),
        sndbuf_limited_ns=pa.uint64(),
        lost_packets=pa.uint64(),
        reordering_packets=pa.uint64(),
        sent_bytes=pa.uint64(),
        sent_segments=pa.uint64(),
        retransmitted_bytes=pa.uint64(),
        notsent_bytes=pa.uint64(),
        received_bytes=pa.uint64(),
        received_segments=pa.uint64(),
        delivered_ce_packets=pa.uint64(),
        bbr_bandwidth_bps=pa.uint64(),
        bbr_min_rtt_ns=pa.uint64(),
        recoveries=pa.uint64(),
    ),
    "queue": _columns(
        hop=_NAME,
        backlog_bytes=pa.uint64(),
        backlog_packets=pa.uint32(),
        drops=pa.uint64(),
        ce_marks=pa.uint64(),
    ),
    "events": _columns(flow=_NAME, hop=_NAME, kind=_NAME, seq=pa.uint64(), value=pa.int64()),
    "samples": _columns(flow=_NAME, kind=_NAME, value=pa.int64()),
}
"""Columns of each table in order, as docs/architecture.md gives them: integers and names, times in ns
since the start of the run, sizes in bytes."""


def api_name(column: str) -> str:
    """The name under which the API shows a stored column: `t_s` in s, every other `*_ns` as `*_ms`."""
    if column == "t_ns":
        return "t_s"
    return f"{column.removesuffix('_ns')}_ms" if column.endswith("_ns") else column


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
        return batch.cast(schema)
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
            self._sha.update(f"{name} {len(chunks)} {chunks.null_count}\n".encode())
            self._add(pa.concat_arrays(chunks.chunks) if chunks.num_chunks != 1 else chunks.chunk(0))

    def hexdigest(self) -> str:
        """The digest of everything added so far, in hexadecimal."""
        return self._sha.hexdigest()

    def _add(self, column: Any) -> None:
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.utf8())
        text = pa.types.is_string(column.type)
        if column.null_count:
            self._sha.update(_integers(column.is_valid().cast(pa.uint8())))
            column = column.fill_null("" if text else 0)
        if text:
            self._sha.update(_integers(pc.binary_length(column)))
            self._sha.update(_characters(column))
        else:
            self._sha.update(_integers(column))


# Arrays are typed Any below because the type stubs do not follow an array's type through a cast.


def _integers(column: Any) -> memoryview:
    """The values of a column of integers without nulls, as bytes."""
    width = column.type.bit_width // 8
    start = column.offset * width
    return memoryview(column.buffers()[1])[start : start + len(column) * width]


def _characters(column: Any) -> memoryview:
    """The characters of a column of strings without nulls, one value after the other."""
    _, offsets, text = column.buffers()
    if text is None:
        return memoryview(b"")
    at = memoryview(offsets).cast("b").cast("i")
    return memoryview(text)[at[column.offset] : at[column.offset + len(column)]]
