"""The catalogue of a results directory: a row per flow of each planned run, its summary and its part.

It is written once before the first run, when every figure is missing, and again when the runs are over.
Nothing in it depends on a clock, a machine or the number of workers.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cwndlab.analysis import summary
from cwndlab.analysis.summary import Figure
from cwndlab.errors import InputError, shown
from cwndlab.experiment.plan import PlannedRun
from cwndlab.results import parts
from cwndlab.results.parts import Part, RunRecord
from cwndlab.text import csv_cell

FILE = "catalogue.parquet"
SUMMARY = "summary.csv"

FORMAT = 2
"""Version of the layout of a results directory."""

MISSING = "missing"
"""Status of a run that was planned and is not there (yet)."""

FAILED = "failed"
"""Status of a run that was carried out and gave no result."""

_FIRST = ("run_id", "repeat", "flow", "testbed")
_LAST = ("run_index", "scenario_hash", "part")
_LATER = tuple(name for name in summary.FIGURES if name not in summary.WORDS)
"""Columns that an earlier version may not have known."""


@dataclass(frozen=True)
class Header:
    """What is true of all runs of a directory."""

    experiment: str
    """The experiment's name."""
    testbed: str
    keys: list[str]
    """Swept keys in order."""
    versions: dict[str, str]
    """What carried the packets, by component."""
    format: int = FORMAT


def run_id(run: PlannedRun) -> str:
    """The name of a run in the summary: its index in the plan and a hash of its Scenario."""
    return f"{run.index}-{run.scenario_hash[:8]}"


def build(header: Header, planned: Sequence[Part], records: Mapping[int, RunRecord]) -> pa.Table:
    """The catalogue of a plan whose runs with `records`, by index, are there."""
    pairs = ((part, run) for part in planned for run in part.runs)
    return of_rows(
        header, [row for part, run in pairs for row in _rows(header, part, run, records.get(run.index))]
    )


def of_rows(header: Header, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The catalogue of rows that are known already, with all its columns."""
    table = pa.Table.from_pylist(list(rows), schema=_schema(header))
    return table.replace_schema_metadata({"cwndlab": json.dumps(asdict(header), ensure_ascii=False)})


def write(directory: Path, table: pa.Table) -> None:
    """Put the catalogue into a results directory, whole or not at all."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="snappy", version="2.6", data_page_version="1.0")
    parts.replace(directory / FILE, buffer.getvalue())


def read(directory: Path) -> tuple[Header, pa.Table]:
    """The catalogue of a results directory with all its columns.

    A figure that the version which wrote it did not know is missing in every row. Raises InputError as
    `stored`.
    """
    header, table = stored(directory)
    columns = [
        table[field.name] if field.name in table.schema.names else pa.nulls(table.num_rows, field.type)
        for field in _schema(header)
    ]
    return header, pa.table(columns, names=_schema(header).names, metadata=table.schema.metadata)


def stored(directory: Path) -> tuple[Header, pa.Table]:
    """The catalogue of a results directory as it was written; an earlier version knew fewer figures.

    Raises InputError when it is none, is damaged, or is of a version that wrote what this one cannot read.
    """
    file = directory / FILE
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory")
    if not file.is_file():
        raise InputError(f"{directory}: not a directory of results ({FILE} is not there)")
    try:
        table = pq.read_table(file)
        header = Header(**json.loads((table.schema.metadata or {})[b"cwndlab"]))
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{file}: {reason}; the results are damaged") from None
    writer = f"was written by cwndlab {header.versions.get('cwndlab', 'of an unknown version')}"
    advice = "read it with that version, or run the experiment again"
    if header.format != FORMAT:
        raise InputError(
            f"{file}: {writer} in format {header.format}, and this version reads format {FORMAT}; {advice}"
        )
    known = _schema(header).names
    unknown = [name for name in table.schema.names if name not in known]
    if unknown:
        raise InputError(
            f"{file}: {writer} with columns that this version does not know, such as {shown(unknown[0])}; "
            + advice
        )
    if any(name not in table.schema.names for name in known if name not in _LATER):
        raise InputError(f"{file}: lacks columns that every catalogue has; the results are damaged")
    return header, table


def write_summary(directory: Path, table: pa.Table) -> None:
    """Write summary.csv beside the catalogue: a row per flow of each run, a missing figure empty."""
    columns = summary_columns(table.schema.names)
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows(zip(*(_texts(table.column(name).to_pylist()) for name in columns), strict=True))
    parts.replace(directory / SUMMARY, text.getvalue().encode())


def summary_columns(columns: Iterable[str]) -> list[str]:
    """The columns of a catalogue that make the summary, in its order."""
    return [name for name in columns if name not in _LAST]


def _rows(header: Header, part: Part, run: PlannedRun, record: RunRecord | None) -> Iterator[dict[str, Any]]:
    for flow, figures in _figures(run, record).items():
        yield {
            "run_id": run_id(run),
            "repeat": run.repeat,
            "flow": flow,
            "testbed": header.testbed,
            **run.cell,
            **figures,
            "run_index": run.index,
            "scenario_hash": run.scenario_hash,
            "part": part.name,
        }


def _figures(run: PlannedRun, record: RunRecord | None) -> dict[str, dict[str, Figure]]:
    if record is None:
        return summary.no_figures(run.scenario, MISSING)
    if record.summary is None:
        return summary.no_figures(run.scenario, record.status)
    return summary.flow_figures(run.scenario, record.summary)


def _schema(header: Header) -> pa.Schema:
    columns: list[tuple[str, pa.DataType]] = [
        *((name, pa.uint32() if name == "repeat" else pa.utf8()) for name in _FIRST),
        *((key, pa.utf8()) for key in header.keys),
        *((name, _type(name)) for name in summary.FIGURES),
        *((name, pa.uint32() if name == "run_index" else pa.utf8()) for name in _LAST),
    ]
    return pa.schema(columns)


def _type(figure: str) -> pa.DataType:
    if figure in summary.WORDS:
        return pa.utf8()
    return pa.uint64() if figure in summary.COUNTS else pa.float64()


def _texts(values: list[Any]) -> list[str]:
    return [f"{value:.6g}" if isinstance(value, float) else csv_cell(value) for value in values]
