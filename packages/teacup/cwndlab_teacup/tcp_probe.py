"""tcp_probe output of Linux: the old module's `/proc/net/tcpprobe`, and the text of the `tcp:tcp_probe`
tracepoint.

cwnd and ssthresh are in segments of a size that neither form says; `MSS` is assumed, which the run's warnings
repeat. A record is written when a segment arrives. srtt is in microseconds since Linux 3.15 and in clock
ticks before: values of the old module that may be either are left out.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl

from cwndlab.errors import InputError
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.testbeds.logs import connections
from cwndlab.testbeds.logs.connections import Column, Flows, Rows, Unwrapped

NAME = "tcp_probe"

MSS = 1448
"""Bytes of a segment that windows are counted in: 1500 less IP, TCP and timestamps."""

INFINITE_SEGMENTS = 0x7FFF_FFFF
"""TCP_INFINITE_SSTHRESH of Linux."""

MAX_TICKS = 2000
"""An srtt of the old module up to here may be clock ticks (2 s at 1000 Hz) as well as microseconds."""

_END = r"(?P<{0}>\[[0-9a-fA-F:.]{{2,45}}\]|[0-9.]{{7,15}}):(?P<{0}_port>\d{{1,5}})"
_OLD = (
    r"^\s*(?P<time>\d{1,10}\.\d{1,9})\s+" + _END.format("src") + r"\s+" + _END.format("dst")
    + r"\s+\d+\s+(?P<nxt>(?:0x)?[0-9a-f]{1,8})\s+(?P<una>(?:0x)?[0-9a-f]{1,8})\s+"
    r"(?P<cwnd>\d{1,10})\s+"
    r"(?P<ssthresh>\d{1,10})\s+(?P<wnd>\d{1,10})\s+(?P<srtt>\d{1,10})(?:\s+\d+)*\s*$"
)  # fmt: skip
_TRACE = (
    r"\s(?P<time>\d{1,10}\.\d{1,9}):\s+(?:tcp:)?tcp_probe:\s+(?:family=\w+ )?src="
    + _END.format("src") + r" dest=" + _END.format("dst")
    + r" .*?snd_nxt=0x(?P<nxt>[0-9a-f]{1,8}) snd_una=0x(?P<una>[0-9a-f]{1,8}) "
    r"snd_cwnd=(?P<cwnd>\d{1,10}) ssthresh=(?P<ssthresh>\d{1,10}) snd_wnd=(?P<wnd>\d{1,10}) "
    r"srtt=(?P<srtt>\d{1,10})"
)  # fmt: skip


MARKS = {
    "tcp_probe:": rb"tcp_probe:",
    "ADDRESS:PORT of both ends": rb"[0-9.\]]:\d+\s+(?:dest=)?[\[0-9.]",
    "snd_nxt= and snd_una=": rb"snd_nxt=0x[0-9a-f]+ snd_una=0x",
    "snd_cwnd=": rb"snd_cwnd=\d",
}
"""Marks of a record of the tracepoint, in words, each with the pattern that finds it."""


def recognises(head: bytes) -> bool:
    """Whether a line is a record of either form; the first may be cut off."""
    lines = head.decode("utf-8", "replace").split("\n")
    return any(re.search(_TRACE, line[:2000]) or re.match(_OLD, line[:2000]) for line in lines)


def read(path: Path) -> list[Recording]:
    """The one run of a file; raises InputError for one without records."""
    source = base.pieces(path)
    traced = any("tcp_probe:" in text for text in connections.lines(source()))
    log, flows, acked = series.Log(), Flows(), Unwrapped()
    slowest: dict[int, float] = {}
    other = 0
    try:
        for text in connections.lines(source()):
            lines = pl.Series("line", text.split("\n"), pl.String)
            lines = lines.filter(lines.str.contains("tcp_probe:" if traced else r"\S"))
            frame = lines.str.extract_groups(_TRACE if traced else _OLD).struct.unnest()
            whole = frame["time"].is_not_null()
            other += frame.height - int(whole.sum())
            rows = _rows(frame.filter(whole), flows, acked)
            for number, places in connections.of_each(rows.flow):
                srtt = rows.columns["srtt_ns"][places]
                slowest[number] = max(slowest.get(number, 0.0), float(np.nanmax(srtt, initial=0.0)))
            log.add(rows)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    warnings = [f"windows are counted in segments of {MSS} bytes, which is assumed"]
    if other:
        warnings.append(f"{other} lines are no records")
    unsure = {number for number, srtt in slowest.items() if not traced and srtt <= MAX_TICKS * 1e3}
    if not traced and len(unsure) == len(slowest):
        warnings.append("srtt is left out: it may be in clock ticks or in microseconds")
    without = {"srtt_ns": unsure}
    return [
        log.recording(NAME, path, path.name, flows.names, epoch=False, warnings=warnings, without=without)
    ]


def _rows(frame: pl.DataFrame, flows: Flows, acked: Unwrapped) -> Rows:
    for end in ("src", "dst"):
        frame = frame.with_columns(frame[end].str.strip_chars("[]"))
    flow = flows.by_ends(frame, ("src", "src_port", "dst", "dst_port"))
    cwnd = connections.numbers(frame["cwnd"], MSS)
    threshold = connections.numbers(frame["ssthresh"])
    ssthresh = np.where(threshold < INFINITE_SEGMENTS, threshold * MSS, np.nan)
    una, nxt = _sequence(frame["una"]), _sequence(frame["nxt"])
    flight = (nxt - una) % 2.0**32
    srtt = connections.numbers(frame["srtt"], 1e3)
    columns = {
        "cwnd_bytes": cwnd,
        "ssthresh_bytes": ssthresh,
        "srtt_ns": np.where(srtt > 0, srtt, np.nan),
        "inflight_bytes": np.where(flight < 2.0**31, flight, np.nan),
        "delivered_bytes": acked.of(flow, una),
        "send_window_bytes": connections.numbers(frame["wnd"]),
        "state": connections.states(cwnd, ssthresh),
    }
    return Rows(flow, connections.nanoseconds(frame["time"]), columns)


def _sequence(column: pl.Series) -> Column:
    plain = column.str.strip_prefix("0x")
    values = plain.str.to_integer(base=16, dtype=pl.Int64, strict=False).cast(pl.Float64)
    return values.fill_null(np.nan).to_numpy().astype(np.float64)
