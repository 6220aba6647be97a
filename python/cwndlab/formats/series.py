"""The way from the records of a log (`connections`) to a Recording: order, tables, and the metrics they
yield.

Records are sorted on the disk (`external_sort`), so that memory does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cwndlab.errors import InputError
from cwndlab.formats import base
from cwndlab.formats.base import Recording
from cwndlab.formats.external_sort import FIRST, SECOND, Sorter, StoredTable, TableWriter
from cwndlab.formats.metrics import Metrics, rtt_metrics
from cwndlab.testbeds import tables
from cwndlab.testbeds.logs import connections
from cwndlab.testbeds.logs.connections import LATEST_NS, MAX_FLOWS, STATES, Column, Flow, Rows, Session

__all__ = ["Events", "Log", "of_sessions", "recording", "rtt_metrics", "warned", "with_tables"]


def recording(
    kind: str, path: Path, label: str, flows: Sequence[Flow], *, zero_ns: int | None = None, **more: Any
) -> Recording:
    """Make one run of these flows, as `Log.recording` makes it."""
    if len(flows) > MAX_FLOWS:
        raise InputError(f"{path}: more than {MAX_FLOWS} connections")
    log = Log()
    columns = list(dict.fromkeys(name for flow in flows for name in flow.columns))
    for number, flow in enumerate(flows):
        count = len(flow.t_ns)
        nothing = np.full(count, np.nan)
        of_flow = {name: np.asarray(flow.columns.get(name, nothing)) for name in columns}
        log.add(Rows(np.full(count, number), flow.t_ns, of_flow))
    metrics = {number: flow.metrics for number, flow in enumerate(flows)}
    names = [flow.name for flow in flows]
    return log.recording(kind, path, label, names, metrics=metrics, zero_ns=zero_ns, **more)


def of_sessions(kind: str, path: Path, sessions: Iterable[Session], *, prefix: str = "") -> list[Recording]:
    """The runs of one file, told apart by their number where there are several.

    Raises InputError where there is none.
    """
    found, left = [], 0
    for session in sessions:
        recording = _of_session(kind, path, session, prefix)
        if recording is None:
            left += session.other
        else:
            found.append(recording)
    if not found:
        raise InputError(f"{path}: {kind} without a record of any connection")
    if left:
        found[0] = warned(found[0], f"{left} lines of sessions without a record are left out")
    if len(found) == 1:
        return found
    return [replace(each, label=f"{path.name} #{place}") for place, each in enumerate(found, 1)]


def _of_session(kind: str, path: Path, session: Session, prefix: str) -> Recording | None:
    """The run that a session of a log is, named by the file; None of one without records.

    Times of a session that says `NO_START` count from its beginning.
    """
    log = Log(prefix)
    for rows in session.rows:
        log.add(rows)
    if not log.rows:
        return None
    return log.recording(
        kind,
        path,
        path.name,
        session.flows.names,
        epoch=connections.NO_START not in session.warnings,
        facts=session.facts,
        warnings=session.warnings,
    )


class Log:
    """The records of one run, gathered and sorted. What has no place in the `tcp` table becomes samples
    `PREFIX.COLUMN`, of columns of whole numbers: a row where a value changes, and the last one."""

    def __init__(self, prefix: str = "") -> None:
        """Begin without records."""
        self._prefix = prefix
        self._sorter = Sorter()
        self._columns: list[str] = []
        self._more = _More([])
        self._flows = np.zeros(0, bool)
        """Whether each flow has a record."""
        self._has_rtt = np.zeros(0, bool)
        self._span = (LATEST_NS, -1)

    @property
    def rows(self) -> bool:
        """Whether there is a record."""
        return bool(self._flows.any())

    def add(self, rows: Rows) -> None:
        """Take the next records; all have the same columns."""
        if not len(rows.t_ns):
            return
        if not self._columns:
            self._columns = list(rows.columns)
            self._more = _More(list(rows.more))
        grown = max(len(self._flows), int(rows.flow.max()) + 1)
        self._flows = _grown(self._flows, grown)
        self._has_rtt = _grown(self._has_rtt, grown)
        self._flows[rows.flow] = True
        if "rtt_ns" in rows.columns:
            self._has_rtt[rows.flow[np.isfinite(rows.columns["rtt_ns"])]] = True
        self._span = min(self._span[0], int(rows.t_ns.min())), max(self._span[1], int(rows.t_ns.max()))
        self._more.look(rows, grown)
        columns = [rows.t_ns.astype(np.int64), rows.flow.astype(np.int64)]
        columns += [rows.columns[name] for name in self._columns]
        columns += [rows.more[name] for name in self._more.names]
        names = [FIRST, SECOND, *self._columns, *(f"{_MORE}{name}" for name in self._more.names)]
        self._sorter.add(pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names))

    def recording(
        self,
        kind: str,
        path: Path,
        label: str,
        names: Sequence[str],
        *,
        epoch: bool = True,
        zero_ns: int | None = None,
        facts: Mapping[str, str] | None = None,
        warnings: Sequence[str] = (),
        metrics: Mapping[int, Mapping[str, float]] | None = None,
        without: Mapping[str, Collection[int]] | None = None,
    ) -> Recording:
        """The run of the flows that have records, named `names` by their numbers.

        Time 0 is `zero_ns`, or the earliest record. With `epoch` times count from 1970, which says when the
        run began. `metrics` win over those that follow from the records; values of the columns in `without`
        are left out of these flows. Raises InputError when there is no record.
        """
        if not self.rows:
            raise InputError(f"{path}: {kind} without a record of any connection")
        zero, last = self._span
        zero = zero if zero_ns is None else min(zero, zero_ns)
        if zero < 0 or last >= LATEST_NS:
            raise InputError(f"{path}: times that are not between 1970 and 2116")
        found = Metrics(self._columns, self._has_rtt)
        written = TableWriter(tables.SCHEMAS["tcp"])
        for batch in self._sorter.batches():
            rows = self._rows_of(batch, zero, without or {})
            found.add(rows)
            self._more.add(rows)
            written.add(_tcp(rows, names))
        flows = [int(number) for number in np.flatnonzero(self._flows)]
        ours = metrics or {}
        made = {"tcp": written.table()}
        if self._more.any:
            made["samples"] = self._more.table(names, self._prefix)
        return Recording(
            kind,
            path,
            label,
            tuple(names[number] for number in flows),
            {names[number]: {**found.of(number), **ours.get(number, {})} for number in flows},
            made,
            datetime.fromtimestamp(zero / 1e9, UTC) if epoch else None,
            dict(facts or {}),
            tuple(warnings),
        )

    def _rows_of(self, batch: pa.RecordBatch, zero: int, without: Mapping[str, Collection[int]]) -> Rows:
        """Sorted records, whose times count from the run's beginning."""
        whole = {name: batch.column(name).to_numpy() for name in batch.schema.names}
        flow = whole[SECOND]
        columns = {name: whole[name] for name in self._columns}
        for name, flows in without.items():
            columns[name] = np.where(np.isin(flow, list(flows)), np.nan, columns[name])
        more = {name: whole[f"{_MORE}{name}"] for name in self._more.names}
        return Rows(flow, whole[FIRST] - zero, columns, more)


_MORE = "more "
"""Prefix of the names of columns that have no place in the `tcp` table."""


def _tcp(rows: Rows, names: Sequence[str]) -> pa.RecordBatch:
    columns: dict[str, Any] = {name: rows.columns[name] for name in rows.columns}
    if "state" in columns:
        columns["state"] = base.words(columns["state"], STATES)
    flow = base.words(rows.flow, names)
    return base.rows("tcp", t_ns=rows.t_ns.astype(np.uint64), flow=flow, **columns).to_batches()[0]


class Events:
    """Events of a run, gathered and sorted."""

    def __init__(self, kinds: Sequence[str]) -> None:
        """Begin without events, which are of these kinds."""
        self._kinds, self._sorter = kinds, Sorter()

    def add(self, t_ns: Column, flow: Column, kind: Column, value: Column) -> None:
        """Take events: kinds by their numbers, values as floats, NaN for none."""
        whole = [pa.array(column.astype(np.int64)) for column in (t_ns, flow, kind)]
        arrays = [*whole, pa.array(value.astype(np.float64))]
        self._sorter.add(pa.RecordBatch.from_arrays(arrays, [FIRST, SECOND, "kind", "value"]))

    def table(self, names: Sequence[str], zero: int = 0) -> StoredTable:
        """The table `events`; times count from `zero`, flows are called `names` by their numbers."""
        written = TableWriter(tables.SCHEMAS["events"])
        for batch in self._sorter.batches():
            rows = base.rows(
                "events",
                t_ns=(batch.column(FIRST).to_numpy() - zero).astype(np.uint64),
                flow=base.words(batch.column(SECOND).to_numpy(), names),
                kind=base.words(batch.column("kind").to_numpy(), self._kinds),
                value=batch.column("value").to_numpy(),
            )
            written.add(rows.to_batches()[0])
        return written.table()


class _More:
    """The columns that the `tcp` table has no place for."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self._there = np.zeros((0, len(names)), bool)
        """Whether each flow has a number in each column."""
        self._broken = np.zeros((0, len(names)), bool)
        """Whether each flow has a number that is not whole in each column."""
        self._last = np.zeros((0, len(names)))
        self._last_ns = np.zeros((0, len(names)), np.int64)
        self._told = np.ones((0, len(names)), bool)
        """Whether the last number of all has its sample."""
        self._samples = Sorter()

    @property
    def any(self) -> bool:
        return bool((self._there & ~self._broken).any())

    def look(self, rows: Rows, flows: int) -> None:
        """Learn what the columns hold, before `add` is given them in order of time."""
        if not self.names:
            return
        self._there, self._broken = _grown(self._there, flows), _grown(self._broken, flows)
        for place, name in enumerate(self.names):
            values = rows.more[name]
            self._there[rows.flow[np.isfinite(values)], place] = True
            with np.errstate(invalid="ignore"):
                self._broken[rows.flow[np.isfinite(values) & (values != np.rint(values))], place] = True

    def add(self, rows: Rows) -> None:
        if not len(self._last):
            shape = self._there.shape
            self._last, self._last_ns = np.full(shape, np.nan), np.zeros(shape, np.int64)
            self._told = np.ones(shape, bool)
        for place, name in enumerate(self.names):
            values = rows.more[name]
            there = np.flatnonzero(np.isfinite(values) & ~self._broken[rows.flow, place])
            if not len(there):
                continue
            there = there[np.argsort(rows.flow[there], kind="stable")]
            flow, known, t_ns = rows.flow[there], values[there], rows.t_ns[there]
            begins = np.append(True, flow[1:] != flow[:-1])
            ends = np.append(begins[1:], True)
            before = np.append(np.nan, known[:-1])
            before[begins] = self._last[flow[begins], place]
            changes = known != before
            self._last[flow[ends], place] = known[ends]
            self._last_ns[flow[ends], place] = t_ns[ends]
            self._told[flow[ends], place] = changes[ends]
            self._sample(flow[changes], np.full(int(changes.sum()), place), t_ns[changes], known[changes])

    def table(self, names: Sequence[str], prefix: str) -> StoredTable:
        """The samples, in order of time, then of flows and columns."""
        flow, place = np.nonzero(~self._told)
        self._sample(flow, place, self._last_ns[flow, place], self._last[flow, place])
        kinds = [f"{prefix}.{name}" for name in self.names]
        written = TableWriter(tables.SCHEMAS["samples"])
        for batch in self._samples.batches():
            both = batch.column(SECOND).to_numpy()
            rows = base.rows(
                "samples",
                t_ns=batch.column(FIRST).to_numpy().astype(np.uint64),
                flow=base.words(both // len(kinds), names),
                kind=base.words(both % len(kinds), kinds),
                value=batch.column("value").to_numpy(),
            )
            written.add(rows.to_batches()[0])
        return written.table()

    def _sample(self, flow: Column, place: Column, t_ns: Column, value: Column) -> None:
        both = flow.astype(np.int64) * len(self.names) + place
        columns = [pa.array(t_ns), pa.array(both), pa.array(value)]
        self._samples.add(pa.RecordBatch.from_arrays(columns, [FIRST, SECOND, "value"]))


def _grown(rows: Column, count: int) -> Column:
    """The array with so many rows, or twice as many."""
    if count <= len(rows):
        return rows
    grown = np.zeros((max(count, min(2 * len(rows), MAX_FLOWS)), *rows.shape[1:]), rows.dtype)
    grown[: len(rows)] = rows
    return grown


def with_tables(found: Recording, more: Mapping[str, StoredTable]) -> Recording:
    """The run with further tables, those that have rows."""
    there = {name: table for name, table in more.items() if table.num_rows}
    return replace(found, tables={**found.tables, **there})


def warned(found: Recording, warning: str) -> Recording:
    """The run with one more warning."""
    return replace(found, warnings=(*found.warnings, warning))
