"""Files of rows that an agent wrote (crates/agent/src/samples.rs)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from cwndlab.errors import RunError

_KINDS: Mapping[str, tuple[Any, int]] = {
    "u32": (pa.uint32(), 4),
    "u64": (pa.uint64(), 8),
    "i64": (pa.int64(), 8),
    "dict": (pa.int32(), 4),
}


def batches(data: bytes) -> list[tuple[str, pa.Table]]:
    """The batches of a file, each with its table's name; raises RunError where it is damaged."""
    try:
        return list(_batches(data))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise RunError("what an agent recorded cannot be read") from None


def _batches(data: bytes) -> Iterator[tuple[str, pa.Table]]:
    place = 0
    while place < len(data):
        end = data.index(b"\n", place)
        head = json.loads(data[place:end])
        place, rows, columns = end + 1, head["rows"], {}
        for column in head["columns"]:
            kind, width = _KINDS[column["kind"]]
            if not 0 <= rows * width <= len(data) - place:
                raise ValueError(f"{rows} rows in {len(data) - place} bytes")
            values, place = pa.py_buffer(data[place : place + rows * width]), place + rows * width
            valid = None
            if column["nulls"]:
                size = -(-rows // 8)
                if size > len(data) - place:
                    raise ValueError(f"marks of {rows} rows in {len(data) - place} bytes")
                valid, place = pa.py_buffer(data[place : place + size]), place + size
            array = pa.Array.from_buffers(kind, rows, [valid, values])
            if column["kind"] == "dict":
                array = pa.DictionaryArray.from_arrays(array, pa.array(column["values"], pa.utf8()))
            columns[column["name"]] = array
        table = pa.table(columns)
        table.validate(full=True)
        yield head["table"], table
