"""Parts as they are read: some runs in one directory, which hold nothing but what was written."""

import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from cwndlab.errors import InputError, shown
from cwndlab.experiment.damage import damage
from cwndlab.experiment.plan import PlannedRun
from cwndlab.results.checksums import Sums, damaged
from cwndlab.testbeds import tables

if TYPE_CHECKING:
    from cwndlab.contract.scenario import Scenario
    from cwndlab.contract.summary import Summary
else:
    # What is read may be of another version, or of a stranger. So only what all that read results rely on, of
    # what docs/architecture.md says, is looked at; the rest is kept as it is.

    def _holding(**keys: Any) -> Any:
        return with_config(ConfigDict(strict=True, extra="allow"))(TypedDict("_holding", keys))

    _Named = _holding(name=str)
    Scenario = _holding(
        duration_ns=int,
        measure=_holding(from_ns=int, to_ns=int),
        hosts=list[_Named],
        links=list[_Named],
        flows=list[_holding(**{"name": str, "from": str, "to": str})],
    )
    Summary = _holding(flows=list[_holding(flow=str)])


RUNS = "runs.jsonl"
"""The file of a part that holds a line per run."""

AHEAD = 1 << 13
"""Rows up to which those of the next runs are read with those of a run that is asked for."""

NAME = re.compile(r"[0-9]+-[0-9]+")
"""Names of parts: first and last run. Names read from disk are checked before they become paths."""


@dataclass(frozen=True)
class Part:
    """Consecutive runs of a plan that are carried out and committed together."""

    name: str
    runs: tuple[PlannedRun, ...]


def _time(text: str) -> str:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{shown(text)} is no time") from None
    return text


def _beside(name: str) -> str:
    if "/" in name or name.startswith("."):
        raise ValueError(f"{name!r} is no name of a file beside it")
    return name


def _table(name: str) -> str:
    if name not in tables.SCHEMAS:
        raise ValueError(f"{name!r} is no table")
    return name


_STRICT = ConfigDict(strict=True, extra="forbid")

Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class TableRecord:
    """Place and hash of a run's rows of one table."""

    __pydantic_config__ = _STRICT

    rows: Count
    row_groups: list[Count]
    sha256: str


@dataclass(frozen=True)
class RunRecord:
    """One line of runs.jsonl: a run as it was carried out, with clock times and facts of the machine."""

    __pydantic_config__ = _STRICT

    run_id: Count
    repeat: Count
    cell: dict[str, str]
    scenario_hash: str
    status: Literal["complete", "failed"]
    """`complete`, or `failed` with the reason in `error`."""
    error: str | None
    warnings: list[str]
    notes: list[str]
    testbed: str
    versions: dict[str, str]
    machine: dict[str, str]
    facts: dict[str, Any]
    """Facts that the testbed found on its hosts, such as the sysctls in force."""
    started: Annotated[str, AfterValidator(_time)]
    """UTC, ISO 8601."""
    wall_s: float
    tables: dict[Annotated[str, AfterValidator(_table)], TableRecord]
    captures: list[Annotated[str, AfterValidator(_beside)]]
    """Names of the part's pcap files of this run."""
    summary: Summary | None
    """Counters of the run as docs/architecture.md gives them. None for a run that failed."""
    scenario: Scenario
    position: int | None = None
    """Place among the runs as they were carried out, from 0. None where time is virtual and order means
    nothing."""
    attachments: list[Annotated[str, AfterValidator(_beside)]] = field(default_factory=list)
    """Names of the part's files with what tools reported of this run."""

    def to_json(self) -> str:
        """The record as one line."""
        # Not dataclasses.asdict, which copies the whole Scenario.
        values = vars(self) | {"tables": {name: vars(table) for name, table in self.tables.items()}}
        return json.dumps(values, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str | bytes) -> "RunRecord":
        """The record of a line; raises ValueError when it is not one."""
        try:
            return _reader().validate_json(line)
        except ValidationError as error:
            raise ValueError(f"not the record of a run ({damage(error)})") from None


@functools.cache
def _reader() -> TypeAdapter[RunRecord]:
    return TypeAdapter(RunRecord)


class StoredPart:
    """A part on disk. Nothing of it is taken for data unless its bytes are those that were written.

    Raises InputError, one line, wherever the part is damaged. A file is hashed when it is first needed; a
    part has about a million packets or one run, so that hardly more is read than was asked for.
    """

    def __init__(self, directory: Path) -> None:
        """Open the part in `directory`."""
        if not directory.is_dir():
            raise damaged(directory, "is not there")
        self.directory = directory
        self._sums = Sums(directory)
        self._footers: dict[str, pq.FileMetaData] = {}
        """Footers of tables that were read: that of hundreds of row groups reads slower than a group."""

    @functools.cached_property
    def records(self) -> list[RunRecord]:
        """The runs in order."""
        file = self.directory / RUNS
        lines = self._sums.load(RUNS).split(b"\n")[:-1]
        if not lines:
            raise damaged(file, "holds no run")
        try:
            return [RunRecord.from_json(line) for line in lines]
        except ValueError as error:
            raise damaged(file, str(error)) from None

    def ahead(self, table: str, record: RunRecord) -> tuple[list[RunRecord], pa.Table]:
        """A run that has rows in a table, some of those behind it, and the rows of one after the other."""
        behind = self.records[self.records.index(record) :]
        together = next(_read_together(table, behind, AHEAD))
        return together, self._rows(table, together)

    def rows(self, table: str, record: RunRecord) -> pa.Table:
        """The rows of one run in a table, empty if it has none."""
        if table not in record.tables:
            return tables.SCHEMAS[table].empty_table()
        return self._rows(table, [record])

    def _rows(self, table: str, records: Sequence[RunRecord]) -> pa.Table:
        """The rows of runs that have some in a table, one run after the other, read in one go."""
        name = f"{table}.parquet"
        self._sums.check(name)
        file = self.directory / name
        kept = [record.tables[table] for record in records]
        try:
            footer = self._footers.get(name)
            with pq.ParquetFile(file, metadata=footer, page_checksum_verification=True) as parquet:
                self._footers[name] = parquet.metadata
                groups = []
                for each in kept:
                    groups.append([parquet.metadata.row_group(group) for group in each.row_groups])
                    # Rows that are all alike take no room in a file, however many it says there are.
                    if any(group.num_rows > tables.ROWS_PER_GROUP for group in groups[-1]):
                        raise damaged(file, f"has a row group of more than {tables.ROWS_PER_GROUP} rows")
                read = parquet.read_row_groups([group for each in kept for group in each.row_groups])
        except (OSError, pa.ArrowException, IndexError, OverflowError):
            raise damaged(file, "is no whole table of the rows that it should hold") from None
        same = read.schema == tables.SCHEMAS[table]
        for record, each, there in zip(records, kept, groups, strict=True):
            if sum(group.num_rows for group in there) != each.rows or not same:
                raise damaged(file, f"holds other rows than {RUNS} says of run {record.run_id}")
        return read

    def file(self, name: str) -> Path:
        """A file beside the tables, a capture or what a tool reported."""
        self._sums.check(name)
        return self.directory / name

    def check(self) -> None:
        """Read every file again; raises InputError unless all are as they were written."""
        names = {RUNS}
        for record in self.records:
            names |= {f"{table}.parquet" for table in record.tables}
            names |= {*record.captures, *record.attachments}
        for name in sorted(names):
            self._sums.check(name)

    def verify(self) -> None:
        """Read every file and row again; raises InputError unless all hash to what was recorded."""
        self.check()
        for table in tables.SCHEMAS:
            for records in _read_together(table, self.records):
                rows, start = tables.Hashable(self._rows(table, records)), 0
                for record in records:
                    of_run = record.tables[table]
                    if rows.hexdigest(start, of_run.rows) != of_run.sha256:
                        file = self.directory / f"{table}.parquet"
                        raise InputError(f"{file}: the rows of run {record.run_id} were altered")
                    start += of_run.rows


def _read_together(
    table: str, records: Iterable[RunRecord], most: int = tables.ROWS_PER_GROUP
) -> Iterator[list[RunRecord]]:
    """The runs that have rows in a table, as many at a time as have at most so many rows, at least one."""
    held: list[RunRecord] = []
    rows = 0
    for record in records:
        if table not in record.tables:
            continue
        more = record.tables[table].rows
        if held and rows + more > most:
            yield held
            held, rows = [], 0
        held.append(record)
        rows += more
    if held:
        yield held
