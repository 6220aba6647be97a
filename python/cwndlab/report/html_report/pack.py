"""The time series of a report, packed small: an envelope of each line, delta-coded, deflated, in base64.

A packed run is the raw deflate (RFC 1951) of its lines one after the other. A line of n samples is n time
steps in microseconds, then n codes of values: 0 for a gap, otherwise 1 + the zigzag of the step from the
last value (2s for s >= 0, -2s - 1 below). Every number is a little-endian base-128 varint, as in Protocol
Buffers. What a line shows, its n and the unit of its values stand in the report's table of runs.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from cwndlab.analysis.numeric import Floats, Ints, envelope, windowed_rate
from cwndlab.report.plots.selection import floats, held
from cwndlab.results.columns import RATES, recorded
from cwndlab.results.resultset import ResultSet

BUDGET = 9_000_000
"""Bytes that all packed series of a report may take before base64: with the rest it stays below 20 MB."""

BYTES_PER_SAMPLE = 3.5
"""Bytes of a packed sample, as measured on sawtooth cwnd, RTT and queue series: about 3."""

MAX_COLUMNS, MIN_COLUMNS = 6000, 120
"""Columns of an envelope: more than a screen has, for zooming into a lone run; and the least worth seeing."""

MAX_FLOWS = 24
"""Flows of a run that a report shows as lines. Tables show all."""

LINES_PER_FLOW = 6


@dataclass(frozen=True)
class Line:
    """One line of the viewer."""

    panel: str
    """`cwnd`, `rtt`, `throughput`, `goodput` or `queue`."""
    name: str
    """The flow or the hop."""
    companion: bool
    """Drawn thin and dotted beside the line before it (ssthresh beside cwnd, smoothed RTT beside samples)."""
    t_s: Floats
    y: Floats
    unit: float
    """Worth of an integer step of the packed values, in the unit of the panel."""


@dataclass(frozen=True)
class Packed:
    """The lines of one run."""

    text: str
    lines: list[dict[str, object]]
    """Facts of each line: panel, name, companion, n (samples kept), of (samples recorded), unit."""


def columns_for(runs: int, flows: int) -> tuple[int, int]:
    """Return (runs whose series fit into the budget, columns of an envelope) for so many runs and flows."""
    lines = LINES_PER_FLOW * min(flows, MAX_FLOWS) + 1
    per_column = lines * 4 * BYTES_PER_SAMPLE
    fitting = max(1, min(runs, int(BUDGET / (per_column * MIN_COLUMNS))))
    return fitting, min(MAX_COLUMNS, max(MIN_COLUMNS, int(BUDGET / (per_column * fitting))))


_PANELS = (("cwnd", ("cwnd_bytes", "ssthresh_bytes"), 1e-3), ("rtt", ("rtt_ms", "srtt_ms"), 1.0))
"""Panels of columns: the one that is drawn, its companion, and a factor."""


def lines_of(results: ResultSet, run_id: object, flows: Sequence[str], window_s: float) -> list[Line]:
    """Return the lines of a run: each flow's cwnd, ssthresh, RTTs and rates, each hop's queue."""
    lines: list[Line] = []
    tcp = results.series(run_id, table="tcp")
    end = float(tcp["t_s"][-1]) if tcp.height else 0.0
    for flow in flows:
        frame = _of(tcp, "flow", flow)
        if not frame.height:
            continue
        for panel, pair, factor in _PANELS:
            for place, column in enumerate(pair):
                rows = recorded(frame, column)
                y = floats(rows[column]) * factor
                t_s = floats(rows["t_s"])
                lines.append(Line(panel, flow, companion=place > 0, t_s=t_s, y=y, unit=1e-3))
        t_s = floats(frame["t_s"])
        for rate, counter in RATES.items():
            if frame[counter].count():
                counted = floats(held(frame[counter]))
                centres, rates = windowed_rate(
                    t_s, counted, start_s=0.0, stop_s=end, window_s=window_s, steps=rate != "throughput"
                )
                lines.append(Line(rate, flow, companion=False, t_s=centres, y=rates, unit=1e-3))
    queue = results.series(run_id, table="queue")
    for hop in queue["hop"].cast(pl.String).unique(maintain_order=True):
        rows = _of(queue, "hop", str(hop))
        waiting = floats(rows["backlog_packets"])
        lines.append(Line("queue", str(hop), companion=False, t_s=floats(rows["t_s"]), y=waiting, unit=1.0))
    return [line for line in lines if len(line.t_s) and not np.isnan(line.y).all()]


def _of(rows: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    """The rows with a name in a column, which often are all."""
    chosen = rows[column].cast(pl.String) == name
    return rows if chosen.all() else rows.filter(chosen)


def pack(lines: Sequence[Line], columns: int) -> Packed:
    """Return the lines packed, each reduced to the envelope of so many columns."""
    codes: list[Ints] = []
    heads: list[dict[str, object]] = []
    for line in lines:
        keep = envelope(line.t_s, line.y, columns)
        codes.append(_steps(line.t_s[keep] * 1e6))
        codes.append(_value_codes(line.y[keep] / line.unit))
        heads.append(
            {
                "panel": line.panel,
                "name": line.name,
                "companion": line.companion,
                "n": len(keep),
                "of": len(line.t_s),
                "unit": line.unit,
            }
        )
    numbers = np.concatenate(codes) if codes else np.empty(0, dtype=np.int64)
    compress = zlib.compressobj(9, zlib.DEFLATED, -15)
    raw = compress.compress(varints(numbers)) + compress.flush()
    return Packed(base64.b64encode(raw).decode("ascii"), heads)


def _value_codes(y: Floats) -> Ints:
    gap = np.isnan(y)
    steps = _steps(y[~gap])
    codes = np.zeros(len(y), dtype=np.int64)
    codes[~gap] = np.where(steps >= 0, 2 * steps, -2 * steps - 1) + 1
    return codes


def _steps(values: Floats) -> Ints:
    """Return the differences of the values rounded to integers, the first to 0."""
    rounded = np.concatenate(([0], np.rint(values).astype(np.int64)))
    return rounded[1:] - rounded[:-1]


def varints(numbers: Ints) -> bytes:
    """Return non-negative integers as base-128 varints, least significant group first."""
    groups = np.maximum(1, -(-_bit_length(numbers) // 7))
    out = np.zeros(int(groups.sum()), dtype=np.uint8)
    ends = np.cumsum(groups)
    starts = ends - groups
    for group in range(int(groups.max(initial=0))):
        has = groups > group
        more = groups[has] > group + 1
        out[starts[has] + group] = ((numbers[has] >> (7 * group)) & 0x7F) | np.where(more, 0x80, 0)
    return out.tobytes()


def _bit_length(numbers: Ints) -> Ints:
    length = np.zeros(len(numbers), dtype=np.int64)
    rest = numbers.copy()
    while rest.any():
        length += rest > 0
        rest >>= 1
    return length
