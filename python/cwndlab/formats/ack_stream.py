"""Streams of ACKs as CSV: what any sender saw, in six columns, for `cwndlab judge` and every plot.

`t_s,event,bytes,rtt_ms,in_flight_bytes,cwnd_bytes`, with this line first. `EVENTS` has the events; bytes are
those acknowledged or lost, in_flight_bytes what was in flight before, cwnd_bytes the window afterwards. Cells
may be empty.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from cwndlab.errors import InputError
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.testbeds.logs import connections
from cwndlab.testbeds.logs.connections import Column, Rows

NAME = "ACK stream CSV"

HEADER = "t_s,event,bytes,rtt_ms,in_flight_bytes,cwnd_bytes"

EVENTS = {"ack": "", "loss": "loss", "timeout": "rto", "ecn": "reduction", "app-limited": "app-limited"}
"""Events, and the kind that each becomes in the table `events`; an ACK becomes a row of `tcp` alone."""

MARKS = {"the header t_s,event,bytes,...": HEADER.encode()}
"""Marks of a file, in words, and how each is found."""

FLOW = "flow"
"""Name of the one flow."""


def recognises(head: bytes) -> bool:
    """Whether the first line is the header."""
    return head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].strip() == HEADER.encode()


def read(path: Path) -> list[Recording]:
    """The one run of a file; raises InputError for one without an ACK, and for an event that is none."""
    log, other, delivered = series.Log(), 0, 0.0
    kinds = list(EVENTS.values())
    notes = series.Events(kinds)
    for text in connections.lines(base.pieces(path)()):
        frame, strange = connections.fields(text, [6], words=[0, 1], foreign="\ufeff?t_s,")
        other += strange
        unknown = frame.filter(~pl.col("c1").is_in(list(EVENTS)))
        if unknown.height:
            raise InputError(f"{path}: event {unknown['c1'][0]!r} is none of {', '.join(EVENTS)}")
        if not frame.height:
            continue
        t_ns = connections.nanoseconds(frame["c0"])
        if (t_ns < 0).any():
            raise InputError(f"{path}: t_s {frame['c0'][int(np.argmax(t_ns < 0))]!r} is no time in seconds")
        acked = np.where(frame["c1"] == "ack", _numbers(frame["c2"], 0.0), 0.0)
        columns = {
            "cwnd_bytes": _numbers(frame["c5"]),
            "rtt_ns": _numbers(frame["c3"]) * 1e6,
            "inflight_bytes": _numbers(frame["c4"]),
            "delivered_bytes": delivered + np.cumsum(acked),
        }
        delivered += float(acked.sum())
        log.add(Rows(np.zeros(frame.height, np.int64), t_ns, columns))
        number = frame["c1"].replace_strict(list(EVENTS), list(range(len(EVENTS)))).to_numpy()
        told = number > 0
        notes.add(t_ns[told], np.zeros(int(told.sum())), number[told], _numbers(frame["c2"])[told])
    if not log.rows:
        raise InputError(f"{path}: {NAME} without a row")
    warnings = [f"{other} lines have other than six columns"] if other else []
    found = log.recording(NAME, path, path.name, [FLOW], epoch=False, zero_ns=0, warnings=warnings)
    return [series.with_tables(found, {"events": notes.table([FLOW])})]


def _numbers(column: pl.Series, missing: float = np.nan) -> Column:
    values = column.cast(pl.Float64, strict=False).fill_null(missing).to_numpy().astype(np.float64)
    return connections.bounded(values)
