"""The catalogue of a results directory: a row per flow of each planned run, its summary and its part.

It is written once before the first run, when every metric is missing, and again when the runs are over.
Nothing in it depends on a clock, a machine or the number of workers.
"""

import csv
import functools
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import from_json

from cwndlab.errors import InputError, printable, shown
from cwndlab.experiment import locate
from cwndlab.experiment.damage import damage
from cwndlab.experiment.experiment import Experiment
from cwndlab.experiment.plan import PlannedRun
from cwndlab.experiment.units import BadValue
from cwndlab.results import metrics, summary, user_metrics
from cwndlab.results.checksums import Sums, damaged
from cwndlab.results.metrics import Metric, Value
from cwndlab.results.parts import NAME, Part, RunRecord, StoredPart
from cwndlab.results.texttable import csv_cell

FILE = "catalogue.parquet"
SUMMARY = "summary.csv"

FORMAT = 3
"""Version of the layout of a results directory."""

MOST_ROWS = 10_000_000
"""Rows of a catalogue, one for each flow of each run, at most."""

MISSING = "missing"
"""Status of a run that was planned and is not there (yet)."""

FAILED = "failed"
"""Status of a run that was carried out and gave no result."""

_FIRST = ("run_id", "repeat", "flow", "testbed")
_LAST = ("run_index", "scenario_hash", "part")
READ_IT = "read it with that version, or run the experiment again"
"""Advice for a catalogue of another version."""

_LATER = ("app", *metrics.NUMBERS)
"""Columns that an earlier version may not have known."""

_WORDS = ("run", "results", "hop", "line", "path", "metric", "none", "n")
_RESERVED = {*_FIRST, *metrics.NAMES, *_LAST, *_WORDS}
"""Columns of some table beside the swept ones, and words that stand for keys in options."""


@dataclass(frozen=True)
class Header:
    """Facts that hold for all runs of a directory."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")

    experiment: str
    """The experiment's name."""
    testbed: str
    keys: list[str]
    """Swept keys in order."""
    versions: dict[str, str]
    """Versions of what carried the packets, by component."""
    format: int = FORMAT
    metrics: dict[str, str] | None = None
    """Metrics of one's own, as the experiment says them. None without any."""
    shard: str | None = None
    """Share of the plan that is there, as `3/10`. None where all of it is."""


def run_id(run: PlannedRun) -> str:
    """The name of a run in the summary: its index in the plan and a hash of its Scenario."""
    return _run_id(run.index, run.scenario_hash)


def _run_id(index: Any, scenario_hash: Any) -> str:
    return f"{index}-{scenario_hash[:8]}"


def check_names(experiment: Experiment) -> None:
    """Raise `ExperimentError` for an axis with the name of something else that tables have, or of a metric of
    the experiment's own."""
    for index, axis in enumerate(experiment.axes):
        if axis.name in _RESERVED or axis.name in experiment.spec.metrics:
            taken = BadValue(shown(axis.name), f"another name, as {axis.name} means something else in tables")
            raise locate.fault(experiment.tree, ("sweep", index, "name"), taken)


def build(header: Header, planned: Sequence[Part], stored: Callable[[str], StoredPart | None]) -> pa.Table:
    """The catalogue of a plan; `stored` gives a part that is there, by its name."""
    # Records are much larger than their rows: those of one part at a time are held.
    of_parts = []
    for part in planned:
        there = stored(part.name)
        records = {record.run_id: record for record in (() if there is None else there.records)}
        rows = [
            row for run in part.runs for row in _rows(header, part.name, run, records.get(run.index), there)
        ]
        of_parts.append(pa.Table.from_pylist(rows, schema=_schema(header)))
    return with_header(
        header, pa.concat_tables(of_parts).combine_chunks() if of_parts else _schema(header).empty_table()
    )


def of_rows(header: Header, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The catalogue of rows that are known already, with all its columns."""
    return with_header(header, pa.Table.from_pylist(list(rows), schema=_schema(header)))


def with_header(header: Header, table: pa.Table) -> pa.Table:
    """The catalogue with another header."""
    said = {name: value for name, value in asdict(header).items() if value is not None}
    return table.replace_schema_metadata({"cwndlab": json.dumps(said, ensure_ascii=False)})


def to_parquet(table: pa.Table) -> bytes:
    """The catalogue as the bytes of its file."""
    buffer = io.BytesIO()
    pq.write_table(
        table,
        buffer,
        compression="snappy",
        version="2.6",
        data_page_version="1.0",
        write_page_checksum=True,
    )
    return buffer.getvalue()


def read(directory: Path) -> tuple[Header, pa.Table]:
    """The catalogue of a results directory with all its columns.

    A metric that the version which wrote it did not know is missing in every row. Raises InputError as
    `stored`.
    """
    header, table = stored(directory)
    columns = [
        table[field.name] if field.name in table.schema.names else pa.nulls(table.num_rows, field.type)
        for field in _schema(header)
    ]
    return header, pa.table(columns, names=_schema(header).names, metadata=table.schema.metadata)


def stored(directory: Path) -> tuple[Header, pa.Table]:
    """The catalogue of a results directory as it was written; an earlier version knew fewer metrics.

    Raises InputError when it is none, is damaged, or is of a version that wrote what this one cannot read.
    """
    file = directory / FILE
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory")
    if not file.is_file():
        raise InputError(f"{directory}: not a directory of results ({FILE} is not there)")
    content = Sums(directory).load(FILE)
    try:
        parquet = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        # Rows that are all alike take no room in a file, however many it says there are.
        if (rows := parquet.metadata.num_rows) > MOST_ROWS:
            raise damaged(file, f"has {rows} rows; {MOST_ROWS} are allowed")
        # A thread of Arrow that drops bytes of Python while Python exits ends the process by SIGABRT.
        table = parquet.read(use_threads=False)
        table.validate(full=True)
        said = (table.schema.metadata or {})[b"cwndlab"]
        _check_format(file, said)
        header = _header_reader().validate_json(said)
    except ValidationError as error:
        raise damaged(file, f"in its header {damage(error)}") from None
    except (OSError, pa.ArrowException, KeyError, UnicodeDecodeError):
        raise damaged(file, "is no whole table of runs") from None
    try:
        user_metrics.of_texts(header.metrics or {}, header.keys)
    except BadValue as bad:
        raise damaged(file, f"header.metrics: {bad}") from None
    schema = _schema(header)
    unknown = [name for name in table.schema.names if name not in schema.names]
    if unknown:
        raise InputError(
            f"{file}: {_writer(header.versions)} with columns that this version does not know, such as "
            f"{shown(unknown[0])}; {READ_IT}"
        )
    if any(name not in table.schema.names for name in schema.names if name not in _LATER):
        raise damaged(file, "lacks columns that every catalogue has")
    for column in table.schema:
        if column.type != schema.field(column.name).type:
            raise damaged(file, f"{column.name} holds {column.type}, not {schema.field(column.name).type}")
    _check_rows(file, table)
    return header, table


def _check_format(file: Path, said: bytes) -> None:
    """Refuse the header of another format, whose other fields may be anything."""
    try:
        header = from_json(said)
    except ValueError:
        return  # which the reader of headers tells
    if isinstance(header, dict) and isinstance(found := header.get("format"), int) and found != FORMAT:
        raise InputError(
            f"{file}: {_writer(header.get('versions'))} in format {found}, and this version reads"
            f" format {FORMAT}; {READ_IT}"
        )


def _writer(versions: object) -> str:
    version = versions.get("cwndlab") if isinstance(versions, dict) else None
    return f"was written by cwndlab {printable(str(version)[:80]) if version else 'of an unknown version'}"


def _check_rows(file: Path, table: pa.Table) -> None:
    """Refuse rows that no plan has: runs without a name, parts that are no names of directories."""
    for name in (*_FIRST, "status", *_LAST):
        if table[name].null_count:
            raise damaged(file, f"{name} is empty in a row")
    runs = zip(*(table[name].to_pylist() for name in ("run_id", "run_index", "scenario_hash")), strict=True)
    if any(name != _run_id(index, scenario_hash) for name, index, scenario_hash in runs):
        raise damaged(file, "a run_id is not the run's number and hash")
    for column in table.schema:
        if pa.types.is_floating(column.type) and pc.any(pc.invert(pc.is_finite(table[column.name]))).as_py():
            raise damaged(file, f"{column.name} is not finite in a row")
    for part in map(str, table["part"].unique().to_pylist()):
        if not NAME.fullmatch(part):
            raise damaged(file, f"{shown(part)} is no name of a part")


@functools.cache
def _header_reader() -> TypeAdapter[Header]:
    return TypeAdapter(Header)


def completed(
    header: Header, table: pa.Table, records: Iterable[RunRecord], stored: Callable[[str], StoredPart | None]
) -> pa.Table:
    """The catalogue with the metrics of runs that were finished after it was written."""
    places: dict[Any, Any] = dict(zip(table["run_index"].to_pylist(), table["part"].to_pylist(), strict=True))
    rows: list[dict[str, Any]] = []
    found: list[int] = []
    for record in records:
        run = PlannedRun(record.run_id, record.repeat, record.cell, record.scenario, record.scenario_hash)
        part = places[record.run_id]
        rows += _rows(header, part, run, record, stored(part))
        found.append(record.run_id)
    others = table.filter(pc.invert(pc.is_in(table["run_index"], pa.array(found, pa.uint32()))))
    both = pa.concat_tables([others, of_rows(header, rows).select(table.schema.names)])
    # The sort is stable: flows of a run stay in their order.
    return both.take(pc.sort_indices(both, [("run_index", "ascending")]))


def to_csv(table: pa.Table) -> bytes:
    """The bytes of summary.csv: a row per flow of each run, a missing metric empty."""
    columns = summary_columns(table.schema.names)
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows(zip(*(_texts(table.column(name).to_pylist()) for name in columns), strict=True))
    return text.getvalue().encode()


def summary_columns(columns: Iterable[str]) -> list[str]:
    """The columns of a catalogue that make the summary, in its order."""
    return [name for name in columns if name not in _LAST]


def _rows(
    header: Header, part: str, run: PlannedRun, record: RunRecord | None, stored: StoredPart | None
) -> Iterator[dict[str, Any]]:
    metrics_of = _metrics(run, record)
    made: dict[str, dict[str, Value]] = {}
    if header.metrics and record is not None and record.summary is not None and stored is not None:
        expressions = user_metrics.of_texts(header.metrics, header.keys)
        made = user_metrics.values(expressions, record, metrics_of, lambda table: stored.rows(table, record))
    for flow, values in metrics_of.items():
        yield {
            "run_id": run_id(run),
            "repeat": run.repeat,
            "flow": flow,
            "testbed": header.testbed,
            **run.cell,
            **values,
            **made.get(flow, dict.fromkeys(header.metrics or ())),
            "run_index": run.index,
            "scenario_hash": run.scenario_hash,
            "part": part,
        }


def _metrics(run: PlannedRun, record: RunRecord | None) -> dict[str, dict[str, Value]]:
    if record is None:
        return summary.no_metrics(run.scenario, MISSING)
    if record.summary is None:
        return summary.no_metrics(run.scenario, record.status)
    return summary.flow_metrics(run.scenario, record.summary)


def _schema(header: Header) -> pa.Schema:
    columns: list[tuple[str, pa.DataType]] = [
        *((name, pa.uint32() if name == "repeat" else pa.utf8()) for name in _FIRST),
        *((key, pa.utf8()) for key in header.keys),
        *((metric.name, _type(metric)) for metric in metrics.METRICS[:-1]),
        *((name, pa.float64()) for name in header.metrics or ()),
        *((metric.name, _type(metric)) for metric in metrics.METRICS[-1:]),
        *((name, pa.uint32() if name == "run_index" else pa.utf8()) for name in _LAST),
    ]
    return pa.schema(columns)


def _type(metric: Metric) -> pa.DataType:
    if metric.kind == "word":
        return pa.utf8()
    return pa.uint64() if metric.kind == "count" else pa.float64()


def _texts(values: list[Any]) -> list[str]:
    return [f"{value:.6g}" if isinstance(value, float) else csv_cell(value) for value in values]
