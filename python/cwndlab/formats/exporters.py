"""Results in the formats of other tools: `export` chooses, each format has a module or a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from cwndlab.errors import CwndlabError, InputError, unknown
from cwndlab.experiment import extensions
from cwndlab.formats import flent, pcapng_export, qlog_export, siftr_log
from cwndlab.results.catalogue import MISSING, SUMMARY
from cwndlab.results.files import replace
from cwndlab.results.resultset import ResultSet
from cwndlab.results.texttable import csv_cell
from cwndlab.testbeds.tables import SCHEMAS

Writer = Callable[[ResultSet, str, Path], Iterator[Path]]
"""Writes one run, named by its run ID, into a directory; yields the files."""


def export(results: ResultSet, form: str, out: Path, runs: Sequence[str] = ()) -> Iterator[Path]:
    """Write runs (default: all that are there) in a format, and yield each file written.

    Raises InputError for a format or run that does not exist, a directory that is not empty or cannot be
    written, and runs without what the format holds.
    """
    writers: Mapping[str, Writer] = {**extensions.load("cwndlab.exporters"), **FORMATS}
    if form not in writers:
        refusal = unknown("--format", form, writers)
        raise InputError(f"{refusal}{extensions.others('cwndlab.exporters')}")
    chosen = [str(results.runs["run_id"][_place(results, run)]) for run in runs] or _all(results)
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise InputError(f"{out}: not empty; give another directory with -o")
        yield from _written(results, form, writers[form], chosen, out)
    except OSError as error:
        raise InputError(f"{error.filename or out}: {error.strerror or error}") from None


def _written(results: ResultSet, form: str, write: Writer, runs: Sequence[str], out: Path) -> Iterator[Path]:
    """Write everything, or nothing: the directory was empty before."""
    try:
        if form in ("csv", "parquet"):
            replace(out / SUMMARY, results.load(SUMMARY))
            yield out / SUMMARY
        written = 0
        for run in runs:
            for file in write(results, run, out):
                written += 1
                yield file
        if not written:
            raise InputError(f"{results.path}: these runs hold nothing that {form} has a place for")
    except (OSError, CwndlabError, KeyboardInterrupt):
        for file in out.iterdir():
            file.unlink()
        raise


def _all(results: ResultSet) -> list[str]:
    there = results.runs.filter(pl.col("status") != MISSING)["run_id"].to_list()
    if not there:
        raise InputError(f"{results.path}: no run was carried out")
    return [str(run) for run in there]


def _place(results: ResultSet, run: str) -> int:
    results.record(run)  # raises for one that does not exist
    ids = [str(found) for found in results.runs["run_id"].to_list()]
    return ids.index(run) if run in ids else [found.split("-")[0] for found in ids].index(run)


def _csv(results: ResultSet, run: str, out: Path) -> Iterator[Path]:
    """Every table as text, in seconds and milliseconds as the Python API has them; empty is null."""
    for table in SCHEMAS:
        frame = results.series(run, table=table)
        if frame.height:
            file = out / f"{_safe(run)}-{table}.csv"
            texts = [name for name, kind in frame.schema.items() if not kind.is_numeric()]
            frame.with_columns(_cells(frame[name]) for name in texts).write_csv(file)
            yield file


def _cells(column: pl.Series) -> pl.Series:
    """Names as cells that no spreadsheet takes for formulas."""
    names = column.cast(pl.String)
    known = names.drop_nulls().unique().to_list()
    return names.replace({name: csv_cell(name) for name in known}) if known else names


def _parquet(results: ResultSet, run: str, out: Path) -> Iterator[Path]:
    """Every table as it is recorded, integers in ns and bytes."""
    for table in SCHEMAS:
        rows = results.rows(run, table)
        if rows.num_rows:
            file = out / f"{_safe(run)}-{table}.parquet"
            pq.write_table(rows, file, compression="snappy")
            yield file


def _safe(run: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "_", run)


FORMATS: Mapping[str, Writer] = {
    "csv": _csv,
    "parquet": _parquet,
    "flent": flent.write,
    "siftr": siftr_log.write,
    "qlog": qlog_export.write,
    "qlog-0.3": qlog_export.write_0_3,
    "pcapng": pcapng_export.write,
}
"""Writers by the word for their format; others join by the entry point `cwndlab.exporters`."""
