"""qlog files of QUIC stacks, from draft-00 to the current draft: JSON, lines of it, JSON text sequences.

A connection as one end logged it is a flow, called by that end's part and the connection's ID. What the
sender declared lost, its recoveries, probe timeouts and application limits are events.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from cwndlab.errors import InputError
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.formats.qlog_connection import COLUMNS, KINDS, Connection
from cwndlab.formats.qlog_records import EARLIEST_NS, Event, Reading, Trace
from cwndlab.testbeds.logs import connections
from cwndlab.testbeds.logs.connections import Flows, Rows

NAME = "qlog"

MARKS = {
    "qlog_version, or a file_schema of qlog": rb'"qlog_version"|urn:ietf:params:qlog',
    "traces, or a trace": rb'"traces?"\s*:',
    "a vantage_point or common_fields": rb'"(?:vantage_point|common_fields|event_fields)"\s*:',
}
"""Marks of a file, in words, and how each is found."""

HELD_ROWS = 1 << 13
"""Rows that are gathered before they are handed on."""

DATAGRAM = "max_datagram_size"
"""Fact of a run: bytes of its largest packet, which is the unit of its windows."""


def recognises(head: bytes) -> bool:
    """Whether the file has the version of qlog, or, as some write that last, what surrounds the events."""
    version, *others = (re.search(pattern, head) is not None for pattern in MARKS.values())
    return (version and any(others)) or all(others)


def read(path: Path) -> list[Recording]:
    """The one run of a file, all its traces.

    Raises InputError for a file without a window, a round trip or an acknowledged packet.
    """
    try:
        reading = Reading(base.pieces(path))
        return [_Run(reading).recording(path)]
    except ValueError as error:
        raise InputError(f"{path}: not {NAME}: {error}") from None


class _Run:
    """The connections of a file, their rows and their events."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._log, self._flows, self._events = series.Log(), Flows(), series.Events(KINDS)
        self._connections: dict[int, Connection] = {}
        self._ends: dict[str, str] = {}
        self._rows: list[tuple[int, int, list[float]]] = []
        self._notes: list[tuple[int, int, int, float]] = []
        self._zero: int | None = None
        self._keys: dict[tuple[int, str], tuple[int, str]] = {}
        self._newest: dict[int, tuple[int, str]] = {}
        """By trace: the connection that began last."""
        dated = all(trace.reference_ns is not None for trace in reading.traces)
        self._offsets = [(trace.reference_ns or 0) if dated else 0 for trace in reading.traces]

    def recording(self, path: Path) -> Recording:
        for place, event in self._reading.events():
            event.t_ns += self._offsets[place]
            if self._zero is None or event.t_ns < self._zero:
                self._zero = event.t_ns
            name = partial(self._name, self._reading.traces[place], event.group)
            number = self._flows.number(self._key(place, event), name)
            known = self._connections.get(number)
            if known is None:
                self._ends[self._flows.names[number]] = self._reading.traces[place].vantage
                unit_ns = self._reading.traces[place].unit_ns
                known = self._connections[number] = Connection(number, unit_ns, self._row, self._note)
            known.take(event)
        self._hand_over()
        if not self._log.rows:
            raise InputError(f"{path}: {NAME} without a window, a round trip or an acknowledged packet")
        zero = self._zero or 0
        facts = {key: value for trace in self._reading.traces for key, value in trace.facts.items()}
        largest = max(each.largest for each in self._connections.values())
        facts |= {DATAGRAM: str(largest)} if largest else {}
        found = self._log.recording(
            NAME,
            path,
            path.name,
            self._flows.names,
            epoch=zero >= EARLIEST_NS,
            zero_ns=zero,
            facts=facts,
            warnings=self._warnings(),
        )
        told = {self._flows.names[each.flow]: each.knows_states for each in self._connections.values()}
        metrics = {
            flow: {name: value for name, value in of_flow.items() if told[flow] or name not in _BY_STATES}
            for flow, of_flow in found.metrics.items()
        }
        return series.with_tables(
            replace(found, ends=self._ends, metrics=metrics),
            {"events": self._events.table(self._flows.names, zero)},
        )

    def _key(self, place: int, event: Event) -> tuple[int, str]:
        """Return what tells the connection of an event apart: its group, or the one before.

        quinn changes the group to the other end's own ID during the handshake. A group whose first metrics
        are without a window goes on with the connection before it, if that one has no round trip yet.
        """
        given = (place, event.group)
        if given not in self._keys:
            earlier = self._newest.get(place)
            known = None if earlier is None else self._connections[self._flows.number(earlier, str)]
            later = event.name == "metrics_updated" and "congestion_window" not in event.data
            goes_on = later and known is not None and not known.has_round_trips
            self._keys[given] = self._newest[place] = earlier if earlier and goes_on else given
        return self._keys[given]

    def _name(self, trace: Trace, group: str) -> str:
        name = "-".join(part for part in (trace.vantage, group or trace.group) if part) or "connection"
        return name if name not in self._flows.names else f"{name}-{len(self._flows.names) + 1}"

    def _row(self, t_ns: int, flow: int, values: list[float]) -> None:
        self._rows.append((t_ns, flow, values))
        if len(self._rows) >= HELD_ROWS:
            self._hand_over()

    def _note(self, t_ns: int, flow: int, kind: str, value: float) -> None:
        self._notes.append((t_ns, flow, KINDS.index(kind), value))
        if len(self._notes) >= HELD_ROWS:
            self._hand_over()

    def _hand_over(self) -> None:
        if self._rows:
            t_ns, flow, values = zip(*self._rows, strict=True)
            columns = dict(zip(COLUMNS, np.array(values, np.float64).T, strict=True))
            columns = {name: connections.bounded(column) for name, column in columns.items()}
            columns["state"] = np.nan_to_num(columns["state"], nan=connections.NO_STATE).astype(np.int8)
            self._log.add(Rows(np.array(flow, np.int64), np.array(t_ns, np.int64), columns))
            self._rows.clear()
        if self._notes:
            t_ns, flow, kind, value = zip(*self._notes, strict=True)
            self._events.add(*map(np.array, (t_ns, flow, kind, value)))
            self._notes.clear()

    def _warnings(self) -> list[str]:
        found = []
        if self._reading.cut_off:
            found.append("the file ends before its end: what stands in it counts")
        if self._reading.damaged:
            found.append(f"{self._reading.damaged} records are no events")
        if not all(offset for offset in self._offsets):
            found.append("the file does not say when it began: times count from its first event")
        return found


_BY_STATES = ("fast_recoveries", "cycle_s")
"""Metrics that a log which does not tell its states cannot have."""
