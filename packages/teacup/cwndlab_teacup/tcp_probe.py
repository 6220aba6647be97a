"""tcp_probe output of Linux: the old module's `/proc/net/tcpprobe`, and the text of the `tcp:tcp_probe`
tracepoint.

A file of the old module, whose times count from when it was loaded, is a run for each time that they begin
again. cwnd and ssthresh are in segments of a size that neither form says; `MSS` is assumed, which the run's
warnings repeat. A record is written when a segment arrives. srtt is in microseconds since Linux 3.15 and in
clock ticks before: values of the old module that may be either are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
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


MOST_RUNS = 10_000
"""Runs of a file at most."""

AGAIN_NS = 1_000_000_000
"""Step back in time, in ns, with which the old module began anew."""


@dataclass
class _Run:
    """Records from one beginning on."""

    log: series.Log = field(default_factory=series.Log)
    flows: Flows = field(default_factory=Flows)
    acked: Unwrapped = field(default_factory=Unwrapped)
    slowest: dict[int, float] = field(default_factory=dict)
    last_ns: int = 0

    def add(self, frame: pl.DataFrame) -> None:
        """Take the next records."""
        rows = _rows(frame, self.flows, self.acked)
        for number, places in connections.of_each(rows.flow):
            srtt = rows.columns["srtt_ns"][places]
            self.slowest[number] = max(self.slowest.get(number, 0.0), float(np.nanmax(srtt, initial=0.0)))
        self.log.add(rows)
        self.last_ns = int(rows.t_ns[-1])


def read(path: Path) -> list[Recording]:
    """The runs of a file; raises InputError for one without records."""
    source = base.pieces(path)
    traced = any("tcp_probe:" in text for text in connections.lines(source()))
    runs = [_Run()]
    warnings = [f"windows are counted in segments of {MSS} bytes, which is assumed"]
    other = 0
    try:
        for text, cut in map(connections.whole_lines, connections.lines(source())):
            lines = pl.Series("line", text.split("\n"), pl.String)
            lines = lines.filter(lines.str.contains("tcp_probe:" if traced else r"\S"))
            frame = lines.str.extract_groups(_TRACE if traced else _OLD).struct.unnest()
            whole = frame["time"].is_not_null()
            other += cut + frame.height - int(whole.sum())
            frame = frame.filter(whole)
            if not traced and not runs[0].log.rows and _starts_torn(frame):
                frame = frame[1:]
                warnings.append(connections.TORN)
            for part, again in _parts(frame, runs[-1].last_ns, traced=traced):
                if again:
                    runs.append(_Run())
                if len(runs) > MOST_RUNS:
                    raise ValueError(f"times go back more than {MOST_RUNS} times")
                runs[-1].add(part)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    if other:
        warnings.append(f"{other} lines are no records")
    found = [_recording(path, run, traced, warnings) for run in runs]
    if len(found) == 1:
        return found
    return [replace(each, label=f"{path.name} #{place}") for place, each in enumerate(found, 1)]


def _starts_torn(frame: pl.DataFrame) -> bool:
    return connections.starts_torn(connections.nanoseconds(frame["time"][:2]))


def _parts(frame: pl.DataFrame, last_ns: int, *, traced: bool) -> Iterator[tuple[pl.DataFrame, bool]]:
    """The records up to each place where times begin again, and whether they do before the first."""
    if not frame.height:
        return
    back = np.diff(connections.nanoseconds(frame["time"]), prepend=last_ns) < -AGAIN_NS
    places = [] if traced else np.flatnonzero(back).tolist()
    begins = sorted({0, *places})
    for begin, until in zip(begins, [*begins[1:], frame.height], strict=True):
        yield frame[begin:until], begin in places


def _recording(path: Path, run: _Run, traced: bool, said: Sequence[str]) -> Recording:
    warnings, slowest = list(said), run.slowest
    unsure = {number for number, srtt in slowest.items() if not traced and srtt <= MAX_TICKS * 1e3}
    if not traced and len(unsure) == len(slowest):
        warnings.append("srtt is left out: it may be in clock ticks or in microseconds")
    without = {"srtt_ns": unsure}
    return run.log.recording(
        NAME, path, path.name, run.flows.names, epoch=False, warnings=warnings, without=without
    )


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
