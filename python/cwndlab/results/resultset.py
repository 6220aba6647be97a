"""ResultSet: what a results directory holds, as data frames. Nothing else reads parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa
import pyarrow.compute as pc

from cwndlab.errors import InputError, unknown
from cwndlab.results import briefs, catalogue
from cwndlab.results.briefs import Brief
from cwndlab.results.catalogue import FAILED, MISSING, Header
from cwndlab.results.checksums import Sums, damaged
from cwndlab.results.labels import Labels
from cwndlab.results.parts import RunRecord, StoredPart
from cwndlab.testbeds import tables

if TYPE_CHECKING:
    import polars as pl  # takes long to import, and a run that prints its table needs none of it

_OWN = ("experiment.yaml", catalogue.SUMMARY, "loadlatency.txt", "loadlatency.json")
"""Files that SHA256SUMS lists beside the catalogue, where they are."""


Table = Literal["tcp", "queue", "events", "samples", "tcp_info"]
"""The tables of series, with a row per sample or event."""

PARTS_HELD = 2
"""Parts whose records are held once they are read: those of 256 runs take some tens of MB."""


class ResultSet:
    """The results of an experiment, opened from their directory.

    Raises InputError, one line, for a directory that holds no results or damaged ones; parts are read, and
    damage in them noticed, when they are asked for.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the directory `path`."""
        self.path = Path(path)
        self._header, self._catalogue = catalogue.read(self.path)

    @property
    def header(self) -> Header:
        """Name, testbed, swept keys and versions: what is true of all runs."""
        return self._header

    @property
    def keys(self) -> list[str]:
        """The swept keys, in the order of the sweep."""
        return self._header.keys

    @cached_property
    def arrow(self) -> pa.Table:
        """The summary as a table of Arrow, with what the plan knows of each run behind it."""
        return self._with_newer()

    @cached_property
    def summary(self) -> pl.DataFrame:
        """A row per flow of each planned run, with the columns of summary.csv; a missing metric is null.

        Swept keys hold their values as text, as the experiment wrote them. docs/results.md says what each
        column means, and what `status` can be.
        """
        return self._frame.select(catalogue.summary_columns(self._frame.columns))

    @cached_property
    def runs(self) -> pl.DataFrame:
        """A row per planned run: run_id, run_index, repeat, the swept keys, status, part, scenario_hash."""
        columns = ["run_id", "run_index", "repeat", *self.keys, "status", "part", "scenario_hash"]
        return self._frame.unique("run_id", keep="first", maintain_order=True).select(columns)

    @cached_property
    def labels(self) -> Labels:
        """Names of the values of swept keys for readers."""
        return Labels({key: self.values_of(key) for key in self.keys})

    def values_of(self, key: str) -> list[object]:
        """The values of a swept key, each once."""
        return list(self.arrow[key].unique().to_pylist())

    @cached_property
    def labelled(self) -> pl.DataFrame:
        """The summary with the labels of values in place of these."""
        return self.labels.shown(self.summary)

    @property
    def complete(self) -> bool:
        """Whether every planned run was carried out and did not fail."""
        return not {MISSING, FAILED} & set(self.arrow["status"].unique().to_pylist())

    @property
    def experiment(self) -> str:
        """The text of experiment.yaml: the experiment as run, defaults written out."""
        try:
            return self.load("experiment.yaml").decode()
        except UnicodeDecodeError:
            raise damaged(self.path / "experiment.yaml", "is no text in UTF-8") from None

    def load(self, name: str) -> bytes:
        """A file of the directory, such as summary.csv; raises InputError unless it is as it was written."""
        return Sums(self.path).load(name)

    @overload
    def series(self, run_id: Table, flow: str | None = None) -> pl.LazyFrame: ...  # type: ignore[overload-overlap]  # a run is never called so

    @overload
    def series(self, run_id: object, flow: str | None = None, table: str = "tcp") -> pl.DataFrame: ...

    def series(
        self, run_id: object, flow: str | None = None, table: str = "tcp"
    ) -> pl.DataFrame | pl.LazyFrame:
        """Return one table of one run, or of all runs, of all flows or one.

        Of one run, `series(0, table="queue")`, a data frame: `run_id` is the run's whole name or the index in
        front of it, as a number or text; `table` is `tcp`, `queue`, `events`, `samples` or, of real kernels,
        `tcp_info`. The columns are those on disk without `run_id`, with times as floats: `t_s` in s, every
        other `*_ns` as `*_ms`; `*_bytes` and `*_bps` stay integers. A table that was not recorded is empty.
        `samples` have `error` besides: how far `value` may be off, in its unit, null where nothing says so.

        Of all runs, `series("tcp")`, a lazy frame: the same columns behind `run_id`, `repeat` and the swept
        keys. `collect` reads one run after the other, and of them only what the query needs.

        Raises InputError for a run, table or flow that does not exist, and for a damaged part.
        """
        if isinstance(run_id, str) and run_id in tables.SCHEMAS:
            return self._of_all(run_id, flow)
        return self._of_run(run_id, flow, table)

    def _of_run(self, run_id: object, flow: str | None, table: str) -> pl.DataFrame:
        if table not in tables.SCHEMAS:
            raise unknown("table", table, tables.SCHEMAS)
        index = self._index(run_id)
        if flow is not None:
            flows = self.arrow.filter(pc.field("run_index") == index)["flow"].to_pylist()
            if flow not in flows:
                raise unknown("flow", flow, flows)
        frame = self._read(index, table)
        if table == "samples":
            frame = frame.with_columns(self._clock_errors(index, frame))
        return frame if flow is None or "flow" not in frame.columns else frame.filter(frame["flow"] == flow)

    def _read(self, index: int, table: str) -> pl.DataFrame:
        """A table of a run, which is read together with those of the next runs."""
        record = self._record(index)
        if table not in record.tables:
            return _polars(_floats(tables.SCHEMAS[table].empty_table()))
        held, run = self._ahead.get(table), (record.run_id, record.scenario_hash)
        if held is None or run not in held[0]:
            records, rows = self._part(self._part_of(index)).ahead(table, record)
            ends = itertools.accumulate(each.tables[table].rows for each in records)
            places = {
                (each.run_id, each.scenario_hash): (end - each.tables[table].rows, each.tables[table].rows)
                for each, end in zip(records, ends, strict=True)
            }
            held = self._ahead[table] = places, _polars(_floats(rows))
        places, frame = held
        return frame.slice(*places[run])

    def _clock_errors(self, index: int, samples: pl.DataFrame) -> pl.Series:
        """Error of each sample, in the unit of its value: of delays between two clocks."""
        import polars as pl

        rows = self._frame.filter(pl.col("run_index") == index)
        off_ms = rows.get_column(_OFF_MS, default=pl.Series(_OFF_MS, [None] * rows.height, pl.Float64))
        by_flow = rows.select(pl.col("flow").cast(pl.String), (off_ms * 1e6).round().cast(pl.Int64))
        found = samples.select(pl.col("flow", "kind").cast(pl.String)).join(
            by_flow, on="flow", how="left", maintain_order="left"
        )
        between_clocks = pl.col("kind").str.starts_with("one-way-")
        return found.select(pl.when(between_clocks).then(pl.col(_OFF_MS)).alias("error"))["error"]

    def _of_all(self, table: str, flow: str | None) -> pl.LazyFrame:
        """A table of all runs that were carried out, read as a query asks for it."""
        import polars as pl
        from polars.io.plugins import register_io_source

        if flow is not None and flow not in (flows := self.summary["flow"].unique(maintain_order=True)):
            raise unknown("flow", flow, flows)
        empty = _polars(_floats(tables.SCHEMAS[table].empty_table()))
        if table == "samples":
            empty = empty.with_columns(pl.Series("error", [], pl.Int64))
        runs = self.runs.filter(pl.col("status") != MISSING)
        # A series' own column comes before a key of that name.
        keys = runs.select("run_id", *(key for key in ("repeat", *self.keys) if key not in empty.columns))

        def read(
            columns: list[str] | None, predicate: pl.Expr | None, most: int | None, _: int | None
        ) -> Iterator[pl.DataFrame]:
            asked = keys
            if predicate is not None and set(predicate.meta.root_names()) <= set(keys.columns):
                asked = keys.filter(predicate)
            for row in asked.iter_rows(named=True):
                frame = self._of_run(row["run_id"], None, table)
                constant = (
                    pl.lit(value, dtype=kind).alias(name)
                    for (name, kind), value in zip(keys.schema.items(), row.values(), strict=True)
                )
                frame = frame.select(*constant, pl.all())
                if flow is not None and "flow" in frame.columns:
                    frame = frame.filter(pl.col("flow") == flow)
                if predicate is not None:
                    frame = frame.filter(predicate)
                if most is not None:
                    frame = frame.head(most)
                    most -= frame.height
                yield frame.select(columns or pl.all())
                if most == 0:
                    return

        schema = pl.Schema({**keys.schema, **empty.schema})
        return register_io_source(read, schema=schema, is_pure=True, explain_name=f"series {table}")

    def rows(self, run_id: object, table: str = "tcp") -> pa.Table:
        """Return one table of one run as it is stored, integers in ns and bytes; raises InputError as
        `series`.
        """
        if table not in tables.SCHEMAS:
            raise unknown("table", table, tables.SCHEMAS)
        return self._rows(self._index(run_id), table)

    def record(self, run_id: object) -> RunRecord:
        """Return the record of a run: its Scenario, versions, machine, times, warnings, hashes.

        Raises InputError when it was not, or its part is damaged.
        """
        return self._record(self._index(run_id))

    def records(self) -> Iterator[RunRecord]:
        """The records of all runs that are there, in the order of the plan.

        Raises InputError where one lacks of which the catalogue says that it is there.
        """
        wanted: dict[str, list[int]] = {}
        for index, planned in self._planned.items():
            if planned.status != MISSING:
                wanted.setdefault(planned.part, []).append(index)
        for part, indices in wanted.items():
            records = self._part(part).records
            there = {record.run_id for record in records}
            if lacking := [index for index in indices if index not in there]:
                self._record(lacking[0])
            yield from records

    @cached_property
    def briefs(self) -> list[Brief]:
        """Records of all runs in few words, held in memory."""
        return briefs.of_records(self.records())

    def captures(self, run_id: object) -> list[Path]:
        """The pcap files of a run."""
        record = self.record(run_id)
        part = self._part(self._part_of(record.run_id))
        return [part.file(name) for name in record.captures]

    def verify(self) -> None:
        """Read every file and every row again; raises InputError unless all hash to what was recorded."""
        own = Sums(self.path)
        # Those that are there and not listed, too: a list that was cut lists less.
        there = [name for name in _OWN if (self.path / name).exists()]
        for name in dict.fromkeys([*own.names, *there]):
            own.check(name)
        for part in self._parts_there():
            StoredPart(self._place(part)).verify()  # of which nothing is held

    def __repr__(self) -> str:
        """The directory and how much is in it."""
        return f"ResultSet({str(self.path)!r}, {self.runs.height} runs of {self._header.experiment})"

    def _parts_there(self) -> Iterable[str]:
        """The parts with runs that were carried out, in the order of the plan."""
        return dict.fromkeys(run.part for run in self._planned.values() if run.status != MISSING)

    @cached_property
    def _frame(self) -> pl.DataFrame:
        return _polars(self.arrow)

    def _with_newer(self) -> pa.Table:
        """The catalogue with what was finished since it was written: the sweep goes on, or was killed."""
        table = self._catalogue
        lacking = table.filter(pc.equal(table["status"], pa.scalar(MISSING)))
        wanted = set(lacking["run_index"].to_pylist())
        names = [
            name for name in map(str, lacking["part"].unique().to_pylist()) if self._place(name).is_dir()
        ]
        newer = [record for name in names for record in self._part(name).records if record.run_id in wanted]
        # What an import knows of a run is not in its record.
        newer = [record for record in newer if record.summary is not None or record.status == FAILED]
        return catalogue.completed(self._header, table, newer, self._part) if newer else table

    @cached_property
    def _ahead(self) -> dict[str, tuple[dict[tuple[int, str], tuple[int, int]], pl.DataFrame]]:
        """Rows of each table that were read last: the first one and the number of those of a run, and all."""
        return {}

    @cached_property
    def _parts(self) -> dict[str, StoredPart]:
        return {}

    def _index(self, run_id: object) -> int:
        text = str(run_id)
        found = self._indices.get(text)
        if found is None:
            raise unknown("run", text, [*(run.run_id for run in self._planned.values()), *tables.SCHEMAS])
        return found

    @cached_property
    def _indices(self) -> dict[str, int]:
        """The index of each run, by its whole name and by the number in front of it."""
        names = {planned.run_id: index for index, planned in self._planned.items()}
        return names | {str(index): index for index in self._planned}

    @cached_property
    def _planned(self) -> dict[int, _Planned]:
        names = ("run_index", "run_id", "status", "part", "scenario_hash")
        planned: dict[int, _Planned] = {}
        for index, *row in zip(*(self.arrow[name].to_pylist() for name in names), strict=True):
            planned.setdefault(index, _Planned(*row))  # a run has a row for each flow
        return planned

    def _part_of(self, index: int) -> str:
        return self._planned[index].part

    def _place(self, part: str) -> Path:
        return self.path / "runs" / part

    def _part(self, name: str) -> StoredPart:
        part = self._parts.pop(name, None) or StoredPart(self._place(name))
        self._parts[name] = part  # the newest is the last
        if len(self._parts) > PARTS_HELD:
            del self._parts[next(iter(self._parts))]
        return part

    def _record(self, index: int) -> RunRecord:
        planned = self._planned[index]
        if planned.status == MISSING:
            raise InputError(
                f"{self.path}: run {planned.run_id} was not carried out; run again with --resume"
            )
        for record in self._part(planned.part).records:
            if record.run_id == index and record.scenario_hash == planned.scenario_hash:
                return record
        raise damaged(self._place(planned.part), f"lacks run {planned.run_id}")

    def _rows(self, index: int, table: str) -> pa.Table:
        record = self._record(index)
        return self._part(self._part_of(index)).rows(table, record)


_OFF_MS = "one_way_error_ms"


@dataclass(frozen=True, slots=True)
class _Planned:
    """A planned run, where it is and what came of it."""

    run_id: str
    status: str
    part: str
    scenario_hash: str


def _polars(table: pa.Table) -> pl.DataFrame:
    import polars as pl

    frame = pl.from_arrow(table)
    if not isinstance(frame, pl.DataFrame):
        raise TypeError("a table of Arrow makes a frame")
    return frame


def _floats(rows: pa.Table) -> pa.Table:
    """The rows as the API shows them: seconds, milliseconds, and no run_id."""
    columns: dict[str, Any] = {}
    for name in rows.column_names:
        if name != "run_id":
            ns = 1e9 if name == "t_ns" else 1e6 if name.endswith("_ns") else None
            columns[tables.api_name(name)] = rows[name] if ns is None else _divided(rows[name], ns)
    return pa.table(columns)


def _divided(column: Any, by: float) -> Any:
    # By Arrow, whose division is exact to the last bit; polars multiplies by the inverse.
    return pc.divide(column.cast(pa.float64()), by)
