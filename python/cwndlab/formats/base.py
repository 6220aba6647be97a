"""Interface of a format to the rest of cwndlab: a module that turns one file of another tool into runs.

A format is a module of this package, named in `FORMATS`, or of another one, an entry point of the group
`cwndlab.importers`, with

    NAME: str                          the word for it in messages, such as "iperf3 JSON"
    def recognises(head: bytes) -> bool    whether a file that begins with these bytes is one
    def read(path: Path) -> list[Recording]    its runs, in the order of the file

It may have `MARKS`, what such a file has: words, and a pattern for each, to say why a file is not one.
`read` raises InputError, one line with file and (where there is one) line, for a file that is damaged. It
never executes, or follows as a path, anything a file says.
"""

import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa

from cwndlab.errors import InputError, printable
from cwndlab.experiment import extensions
from cwndlab.formats import compression
from cwndlab.formats.external_sort import StoredTable
from cwndlab.testbeds import tables
from cwndlab.testbeds.logs.connections import Source

FORMATS: tuple[str, ...] = (
    "capture",
    "loadlatency",
    "siftr",
    "siftr2",
    "qlog",
    "flent",
    "iperf3",
    "ss",
    "iperf_text",
    "ack_stream",
)
"""Modules of this package that read a format, in the order in which they are asked about a file.

Those that join by the entry point `cwndlab.importers` are asked after them."""

HEAD_BYTES = 64 << 10
"""Bytes of the beginning of a file that `recognises` is shown, decompressed."""

MAX_BYTES = 4 << 30
"""Decompressed bytes of a log above which it is refused: its rows go to the disk, with as much again."""

MAX_JSON_BYTES = 32 << 20
"""Decompressed bytes of JSON above which it is refused: read whole, it takes several times as much."""

MAX_JSON_OBJECTS = 1 << 20
"""Objects and lists in JSON above which it is refused: empty ones take twenty times their bytes."""


MAX_JSON_VALUES = 1 << 22
"""Commas in JSON above which it is refused: a number takes 32 bytes, however short it is."""

MAX_JSON_TEXTS = 64 << 20
"""Bytes of memory that the texts of JSON may take, by `_memory_of_texts`."""


@dataclass(frozen=True)
class Recording:
    """Record that another tool made of one run."""

    format: str
    """`NAME` of the format it was read from."""
    source: Path
    label: str
    """Name that a person would give the run: the file's name, with a number where the file holds several."""
    flows: tuple[str, ...]
    """Names of its flows, in the order of the file."""
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By flow, then by column of the summary (docs/results.md, in the units of its name): what the tool says
    of the whole run. A metric it does not give is absent, not zero."""
    tables: Mapping[str, StoredTable] = field(default_factory=dict)
    """By table: rows in the columns of `cwndlab.testbeds.tables.SCHEMAS`, with run_id 0, in order of time;
    what the tool did not record is null."""
    started: datetime | None = None
    """When the run began, with its time zone; None where the file does not say."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts of the file that tell runs apart: version of the tool, hosts, congestion control."""
    warnings: tuple[str, ...] = ()
    """Warnings for a reader before trusting the metrics, a sentence each."""
    ends: Mapping[str, str] = field(default_factory=dict)
    """By flow: the end that logged it, where the file has both directions of connections, which do not
    compete with each other."""


class Format(Protocol):
    """A module that reads a format."""

    NAME: str

    def recognises(self, head: bytes) -> bool:
        """Whether a file that begins with `head` is one."""

    def read(self, path: Path) -> list[Recording]:
        """The runs in a file."""


def read(path: Path) -> list[Recording]:
    """The runs in a file of any format, at least one.

    Raises InputError, one line, when it cannot be read or is of no known format, or holds no run.
    """
    module = _format(head(path))
    if module is None:
        raise InputError(f"{path}: of no known format{_nearest(head(path))}; {all_known()}")
    found = module.read(path)
    if not found:
        raise InputError(f"{path}: holds no run ({module.NAME})")
    return [shown_as_text(recording) for recording in found]


def shown_as_text(found: Recording) -> Recording:
    """The recording with names and remarks in which nothing is left that a terminal would carry out."""
    names = {flow: printable(flow) for flow in found.flows}
    return replace(
        found,
        label=printable(found.label),
        flows=tuple(dict.fromkeys(names.values())),
        metrics={names.get(flow, flow): metrics for flow, metrics in found.metrics.items()},
        tables={name: rows.changed(_shown_names) for name, rows in found.tables.items()},
        facts={printable(key): printable(value) for key, value in found.facts.items()},
        warnings=tuple(map(printable, found.warnings)),
    )


def _shown_names(rows: pa.RecordBatch) -> pa.RecordBatch:
    for place, column in enumerate(rows.schema):
        if pa.types.is_dictionary(column.type):
            held: Any = rows.column(place)
            names = pa.array([printable(name) for name in held.dictionary.to_pylist()], pa.utf8())
            shown = pa.DictionaryArray.from_arrays(held.indices, names)
            rows = rows.set_column(place, column.name, shown)
    return rows


def known(path: Path) -> bool:
    """Whether a file is of a known format; raises InputError when it cannot be read or is empty."""
    return _format(head(path)) is not None


def _format(start: bytes) -> Format | None:
    """The format of a file that begins so."""
    return next((module for module in modules() if module.recognises(start)), None)


def modules() -> Iterator[Format]:
    """Modules that read a format, in the order in which they are asked."""
    for name in FORMATS:
        yield cast(Format, importlib.import_module(f"cwndlab.formats.{name}"))
    yield from extensions.load("cwndlab.importers").values()


def _nearest(start: bytes) -> str:
    """Return what a file of no known format has of the format that it resembles most, and what it has not."""
    best: tuple[float, str] = (0.0, "")
    for module in modules():
        marks: Mapping[str, bytes] = getattr(module, "MARKS", {})
        there = [what for what, pattern in marks.items() if re.search(pattern, start, re.MULTILINE)]
        missing = [what for what in marks if what not in there]
        share = len(there) / max(len(marks), 1)
        if share > best[0]:
            why = f"but not {', nor '.join(missing)}" if missing else "but not where it should be"
            best = share, f"; nearest is {module.NAME}: it has {', '.join(there)}, {why}"
    return best[1]


def names() -> list[str]:
    """The words for all formats."""
    return [module.NAME for module in modules()]


def all_known() -> str:
    """Return the formats that can be read, and what a package that is not installed would read."""
    return f"known are {', '.join(names())}{extensions.others('cwndlab.importers')}"


def head(path: Path) -> bytes:
    """The first bytes of a file, decompressed; raises InputError when it cannot be read or is empty."""
    found = compression.beginning(path, HEAD_BYTES)
    if not found:
        raise InputError(f"{path}: is empty")
    return found


def pieces(path: Path) -> Source:
    """A log as pieces of bytes, decompressed.

    What reads it gets InputError when it cannot be read, and once more than `MAX_BYTES` have come.
    """
    return lambda: compression.pieces(path, MAX_BYTES)


def json_text(path: Path) -> str:
    """A file of JSON as `text` in ASCII, of what `MAX_JSON_BYTES` and the other limits allow."""
    found = data(path, MAX_JSON_BYTES)
    if found.count(b"{") + found.count(b"[") > MAX_JSON_OBJECTS:
        raise InputError(f"{path}: holds more than {MAX_JSON_OBJECTS} objects and lists of JSON")
    if found.count(b",") > MAX_JSON_VALUES:
        raise InputError(f"{path}: holds more than {MAX_JSON_VALUES} values of JSON")
    # One character beyond ASCII makes a text in memory up to four times as large, all of it.
    found = re.sub(rb"[\x80-\xff]+", _escaped, found.removeprefix(b"\xef\xbb\xbf"))
    if _memory_of_texts(found) > MAX_JSON_TEXTS:
        raise InputError(f"{path}: holds texts of JSON that take more than {MAX_JSON_TEXTS >> 20} MiB")
    return found.decode("ascii")


def _escaped(found: re.Match[bytes]) -> bytes:
    return json.dumps(found[0].decode("utf-8", "replace"))[1:-1].encode()


def _memory_of_texts(document: bytes) -> int:
    """Bytes at most that the texts of JSON take in memory: each value, and each name once.

    Counts no further than above the limit.
    """
    names: set[int] = set()
    total = 0
    for text in re.finditer(rb'"((?:[^"\\]|\\.)*+)"(\s*:)?', document, re.DOTALL):
        if text[2] is not None:
            number = hash(text[1])
            if number in names:
                continue
            names.add(number)
        # A character takes up to 4 bytes, and a text or a name beside them so many with its place.
        total += 4 * len(text[1]) + (240 if text[2] is not None else 100)
        if total > MAX_JSON_TEXTS:
            break
    return total


def data(path: Path, most: int) -> bytes:
    """A whole file, decompressed; raises InputError when it cannot be read or is larger than `most`."""
    if compression.is_longer(path, most):
        raise InputError(f"{path}: holds more than {most >> 20} MiB")
    return compression.beginning(path, most)


def rows(table: str, **columns: Sequence[Any] | np.ndarray[Any, Any]) -> pa.Table:
    """Rows of a table as a Recording holds them: run_id 0, columns not given null.

    Columns of numbers may hold None or NaN for null; floats are rounded. Raises ValueError for a column the
    table does not have, and for a number that its column cannot hold.
    """
    schema = tables.SCHEMAS[table]
    unknown = set(columns) - set(schema.names)
    if unknown:
        raise ValueError(f"table {table} has no column {', '.join(sorted(unknown))}")
    length = len(next(iter(columns.values()))) if columns else 0
    arrays: list[Any] = []
    for column in schema:
        if column.name == "run_id":
            arrays.append(pa.array(np.zeros(length, np.uint32)))
        elif column.name not in columns:
            arrays.append(pa.nulls(length, column.type))
        else:
            arrays.append(_array(columns[column.name], column.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def words(codes: np.ndarray[Any, Any], names: Sequence[str]) -> Any:
    """A column of names by their numbers, null where that is negative."""
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.utf8()))


def _array(values: Any, kind: pa.DataType) -> Any:
    if isinstance(values, pa.DictionaryArray):
        return values.cast(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(list(values), pa.utf8()).dictionary_encode().cast(kind)
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        numbers = values.astype(np.float64)
    else:
        numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return pa.array(values).cast(kind)
    missing = np.isnan(numbers)
    low = 0.0 if pa.types.is_unsigned_integer(kind) else -(2.0**63)
    if np.any((numbers < low) | (numbers >= 2.0 ** min(kind.bit_width, 63))):
        raise ValueError("a number is out of range")
    whole = np.rint(np.where(missing, 0, numbers)).astype(np.int64)
    return pa.array(whole, mask=missing).cast(kind)
