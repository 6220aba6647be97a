"""The columns of the summary and of the series: a label, a unit and, for plots, a scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from cwndlab.results.metrics import BY_NAME
from cwndlab.testbeds import tables

if TYPE_CHECKING:
    import polars as pl

_NAMES = ("run_id", "t_ns", "local_port", "remote_port")
"""Whole numbers of the tables that name a row, and measure nothing."""

SERIES: Mapping[str, tuple[str, ...]] = {
    table: tuple(
        tables.api_name(field.name)
        for field in tables.SCHEMAS[table]
        if pa.types.is_integer(field.type) and field.name not in _NAMES
    )
    for table in ("tcp", "queue", "samples", "tcp_info")
}
"""The numeric columns of each series table, as `ResultSet.series` names them."""


RATES = {"throughput": "arrived_bytes", "goodput": "delivered_bytes"}
"""The kinds of metric that show a rate, and the column of `tcp` that each counts."""


GAPS = frozenset(["ssthresh_bytes", "pacing_bps"])
"""Columns of `tcp` in which null says something, no threshold and no pacing; in others it says nothing."""


@dataclass(frozen=True)
class Column:
    """Form of a column: its name in words, its unit, and the factor from the stored unit to that."""

    words: str
    unit: str
    factor: float = 1.0
    signed: bool = False
    """Whether it may be below 0."""

    @property
    def in_shares(self) -> bool:
        """Whether a difference is told as a share: a per cent of per cents misleads, as does one of what may
        be next to 0 or below.
        """
        return self.unit != "%" and not self.signed

    @property
    def label(self) -> str:
        """The text of an axis or a table head."""
        return f"{self.words} [{self.unit}]" if self.unit else self.words


def recorded(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """The rows that say something of a column; between those of one thing there may be those of another."""
    whole = column in GAPS or not rows[column].null_count()
    return rows if whole else rows.filter(rows[column].is_not_null())


_WORDS = {
    **{
        metric.name: Column(metric.words, metric.unit, metric.factor, metric.signed)
        for metric in BY_NAME.values()
    },
    "cwnd_bytes": Column("cwnd", "kB", 1e-3),
    "ssthresh_bytes": Column("ssthresh", "kB", 1e-3),
    "srtt_ms": Column("smoothed RTT of the sender's TCP", "ms"),
    "rtt_ms": Column("RTT", "ms"),
    "inflight_bytes": Column("bytes in flight", "kB", 1e-3),
    "delivered_bytes": Column("bytes delivered in order", "MB", 1e-6),
    "arrived_bytes": Column("bytes arrived", "MB", 1e-6),
    "rto_ms": Column("retransmission timeout", "ms"),
    "send_window_bytes": Column("send window", "kB", 1e-3),
    "receive_window_bytes": Column("receive window", "kB", 1e-3),
    "send_buffer_bytes": Column("send buffer", "kB", 1e-3),
    "receive_buffer_bytes": Column("receive buffer", "kB", 1e-3),
    "retransmits": Column("retransmissions", "packets"),
    "pacing_bps": Column("pacing rate", "Mbit/s", 1e-6),
    "backlog_bytes": Column("queue", "kB", 1e-3),
    "backlog_packets": Column("queue", "packets"),
    "drops": Column("drops so far", "packets"),
    "spp-rtt": Column("round trip between the ends", "ms", 1e-6),
    "probe-rtt": Column("round trip of probes", "ms", 1e-6),
    "connect": Column("time to open a connection", "ms", 1e-6),
    "in-band": Column("round trip of probes within the flows", "ms", 1e-6),
    "one-way-up": Column("change of the delay from client to server", "ms", 1e-6),
    "one-way-down": Column("change of the delay from server to client", "ms", 1e-6),
    "one-way-delay": Column("one-way delay", "ms", 1e-6),
    "one-way-delay-back": Column("one-way delay, back", "ms", 1e-6),
    "target-rate": Column("target rate", "Mbit/s", 1e-6),
    "queue-delay": Column("queueing delay as the sender sees it", "ms", 1e-6),
    "feedback-rtt": Column("round trip of a packet and its report", "ms", 1e-6),
    "feedback-loss": Column("packets that the sender takes for lost", "%", 1e-4),
    "left-out": Column("packets that were left out", "packets"),
    "completion": Column("completion time", "ms", 1e-6),
    "response": Column("response time", "ms", 1e-6),
    "round": Column("round of an incast", "ms", 1e-6),
    "stall": Column("stall", "ms", 1e-6),
    "goodput": Column("goodput of seconds", "Mbit/s", 8e-6),
    "wire": Column("throughput of seconds", "Mbit/s", 8e-6),
    "throughput": Column("carried in a window", "kB", 1e-3),
    "acked": Column("acknowledged in a window", "kB", 1e-3),
    "segments-per-ack": Column("segments per ACK", "segments"),
    "flight-per-round": Column("flight per round trip", "kB", 1e-3),
    "flow": Column("flow", ""),
    "repeat": Column("repeat", ""),
    "testbed": Column("testbed", ""),
    "run_id": Column("run", ""),
}

_UNITS = {
    "_mbps": "Mbit/s",
    "_ms": "ms",
    "_s": "s",
    "_bytes": "B",
    "_pct": "%",
    "_bps": "bit/s",
    "_packets": "packets",
}


def describe(name: str) -> Column:
    """Return how column `name` is shown; one not listed keeps its own words and the unit of its suffix."""
    if name in _WORDS:
        return _WORDS[name]
    for suffix, unit in _UNITS.items():
        if name.endswith(suffix) and "." not in name:
            return Column(name.removesuffix(suffix).replace("_", " "), unit)
    return Column(name if "." in name else name.replace("_", " "), "")


def swept_keys(summary: pl.DataFrame) -> list[str]:
    """Return the swept keys of a summary: the columns between `testbed` and `stack`."""
    names = summary.columns
    return names[names.index("testbed") + 1 : names.index("stack")]


def numeric_columns(summary: pl.DataFrame) -> list[str]:
    """Return the summary's columns that can be drawn on an axis, in their order."""
    keys = {*swept_keys(summary), "run_id", "repeat"}
    return [name for name, kind in summary.schema.items() if kind.is_numeric() and name not in keys]


def natural_key(value: object) -> tuple[tuple[int, float, str], ...]:
    """Return a sort key that puts `9ms` before `10ms` and `2mbit` before `1gbit` (units by their prefix)."""
    text = "" if value is None else str(value)
    number = ""
    for character in text:
        if not (character.isdigit() or character == "."):
            break
        number += character
    try:
        amount = float(number)
    except ValueError:
        return ((1, 0.0, text),)
    unit = text[len(number) :].strip()
    return ((0, amount * _PREFIX.get(unit, 1.0), unit),)


_PREFIX = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "min": 60.0, "h": 3600.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9,
    "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1024.0, "MiB": 1048576.0, "GiB": 1073741824.0,
}  # fmt: skip


def _dimension(unit: str) -> str:
    """Dimension of a unit: times compare with times, and not with bytes."""
    if unit in ("ns", "us", "ms", "s", "min", "h"):
        return "time"
    return next((ending for ending in ("bit", "B") if unit.endswith(ending)), unit)


def ordered(values: Iterable[object]) -> list[object]:
    """Return the distinct values in the order a reader expects: quantities by size, words as they came.

    Words stand behind them, and quantities that do not compare (64KB beside 1bdp) are words: they keep the
    order of the experiment file, which a summary has.
    """
    distinct = list(dict.fromkeys(values))
    keys = {value: natural_key(value)[0] for value in distinct}
    if len({_dimension(unit) for kind, _, unit in keys.values() if not kind and unit}) > 1:
        return distinct
    return sorted(distinct, key=lambda value: keys[value][:2])
