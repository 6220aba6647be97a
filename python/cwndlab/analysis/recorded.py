"""Series of another tool's recording, made while its rows are read: what is held grows with its seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from cwndlab.analysis.numeric import Floats
from cwndlab.formats.external_sort import StoredTable

SERIES_S = 1.0
"""Length of the windows of levels, s."""

LEAST_WINDOW_S = 0.05
"""Shortest window of rates, half of iperf3's shortest interval, s; longer ones are as the tool reported them.

A log of every packet has more rows; a rate from one packet to the next says nothing."""

RATES = ("goodput_mbps", "throughput_mbps")

LEVELS = {"rtt_mean_ms": ("rtt_ms", "srtt_ms"), "cwnd_mean_bytes": ("cwnd_bytes",)}
"""Metrics that a series of levels belongs to, and the columns it is made of, the first that was recorded."""

_COLUMNS = ("cwnd_bytes", "rtt_ms", "srtt_ms")
_NS = 1_000_000_000


@dataclass
class Recorded:
    """Series and means of the rows of a recording, as a comparison asks for them."""

    levels: Mapping[str, Floats] = field(default_factory=dict)
    """By column: means over each second with a value, over all flows."""
    means: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By flow and column: the mean of its seconds."""
    rates: Floats = field(default_factory=lambda: np.empty(0))
    """Mbit/s of all flows together, up to the end of the first that ends."""

    def series(self, metric: str) -> Floats:
        """Give a metric over the intervals that the tool reported, or over seconds."""
        if metric in RATES:
            return self.rates
        return next(
            (self.levels[name] for name in LEVELS.get(metric, ()) if name in self.levels), np.empty(0)
        )

    def mean(self, flow: str, metric: str) -> float | None:
        """Give a flow's mean of a metric, None where no column of it was recorded."""
        known = self.means.get(flow, {})
        return next((known[name] for name in LEVELS[metric] if name in known), None)


def of_table(table: StoredTable) -> Recorded:
    """Read the rows of `tcp` once, in order of time."""
    levels, counters = _Levels(), _Counters()
    for batch in table.batches():
        rows = _rows(batch)
        levels.add(rows)
        counters.add(rows)
    levels.end()
    return Recorded(levels.of_all(), levels.of_flows(), counters.rates())


def frame_of(batch: pa.RecordBatch) -> pl.DataFrame:
    """Show a batch of Arrow as a frame."""
    frame = pl.from_arrow(batch)
    if not isinstance(frame, pl.DataFrame):
        raise TypeError("a batch of Arrow makes a frame")
    return frame


def _rows(batch: pa.RecordBatch) -> pl.DataFrame:
    return frame_of(batch).select(
        "t_ns",
        "delivered_bytes",
        pl.col("flow").cast(pl.String),
        pl.col("cwnd_bytes").cast(pl.Float64),
        (pl.col("rtt_ns") / 1e6).alias("rtt_ms"),
        (pl.col("srtt_ns") / 1e6).alias("srtt_ms"),
    )


class _Levels:
    """Sums and counts of each column: of the second that is open by flow, of others by second and by flow."""

    def __init__(self) -> None:
        self._open = pl.DataFrame()
        self._seconds: list[pl.DataFrame] = []
        self._flows = pl.DataFrame()

    def add(self, rows: pl.DataFrame) -> None:
        """Take rows, none of them before those that came."""
        second = (pl.col("t_ns") // round(SERIES_S * _NS)).alias("second")
        sums = [pl.col(name).sum() for name in _COLUMNS]
        counts = [pl.col(name).count().alias(f"n_{name}") for name in _COLUMNS]
        found = rows.group_by("flow", second).agg(*sums, *counts)
        self._open = _summed([self._open, found], "flow", "second")
        ended = pl.col("second") < self._open.select(pl.max("second")).item()
        self._close(self._open.filter(ended))
        self._open = self._open.filter(~ended)

    def end(self) -> None:
        """Take the last second for ended."""
        self._close(self._open)

    def _close(self, ended: pl.DataFrame) -> None:
        if not ended.height:
            return
        self._seconds.append(_summed([ended.drop("flow")], "second"))
        means = [(pl.col(name) / pl.col(f"n_{name}")).fill_nan(None).alias(name) for name in _COLUMNS]
        counts = [(pl.col(f"n_{name}") > 0).cast(pl.UInt32).alias(f"n_{name}") for name in _COLUMNS]
        self._flows = _summed([self._flows, ended.select("flow", *means, *counts)], "flow")

    def of_all(self) -> dict[str, Floats]:
        """Give the means over each second of the columns that have any."""
        if not self._seconds:
            return {}
        seconds = pl.concat(self._seconds).sort("second")
        return {name: held.to_numpy() for name in _COLUMNS if len(held := _mean(seconds, name).drop_nulls())}

    def of_flows(self) -> dict[str, dict[str, float]]:
        """Give the mean of each flow's seconds."""
        if not self._flows.height:
            return {}
        columns = {name: _mean(self._flows, name).to_list() for name in _COLUMNS}
        return {
            flow: {name: values[place] for name, values in columns.items() if values[place] is not None}
            for place, flow in enumerate(self._flows["flow"].to_list())
        }


def _mean(sums: pl.DataFrame, name: str) -> pl.Series:
    return sums.select((pl.col(name) / pl.col(f"n_{name}")).fill_nan(None))[name]


def _summed(parts: Sequence[pl.DataFrame], *keys: str) -> pl.DataFrame:
    whole = pl.concat([part for part in parts if part.height])
    return whole.group_by(*keys).agg(pl.all().sum())


class _Counters:
    """Bytes that were delivered by the end of each window, all flows together."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float]] = {}
        self._windows: list[pl.DataFrame] = []

    def add(self, rows: pl.DataFrame) -> None:
        """Take rows, none of them before those that came."""
        rows = rows.select("t_ns", "flow", pl.col("delivered_bytes").cast(pl.Float64)).drop_nulls()
        if not rows.height:
            return
        before = pl.DataFrame(
            {"flow": list(self._last), "before": [done for _, done in self._last.values()]},
            schema={"flow": pl.String, "before": pl.Float64},
        )
        # A flow's row follows the flow's last one, or 0.
        more = (
            rows.join(before, on="flow", how="left", maintain_order="left")
            .with_columns(
                pl.col("delivered_bytes")
                .shift(1)
                .over("flow")
                .fill_null(pl.col("before"))
                .fill_null(0.0)
                .alias("before")
            )
            .with_columns((pl.col("delivered_bytes") - pl.col("before")).alias("more"))
        )
        self._windows.append(_windows(more.with_columns(_window(pl.col("t_ns")))))
        for flow, t_ns, done in rows.group_by("flow").last().select("flow", "t_ns", "delivered_bytes").rows():
            self._last[flow] = t_ns, done

    def rates(self) -> Floats:
        """Give the rate of each window."""
        if not self._windows:
            return np.empty(0)
        end = min(t_ns for t_ns, _ in self._last.values())
        windows = _windows(pl.concat(self._windows)).sort("window")
        windows = windows.filter(pl.col("window") <= _window(pl.lit(end)), pl.col("t_ns") > 0)
        return 8e-6 * windows["more"].to_numpy() / (np.diff(windows["t_ns"].to_numpy(), prepend=0) / _NS)


def _window(t_ns: pl.Expr) -> pl.Expr:
    """Number the windows: rounded, as the reports of a second come a little before or after its end."""
    return (t_ns / (LEAST_WINDOW_S * _NS)).round().cast(pl.Int64).alias("window")


def _windows(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("window").agg(pl.col("t_ns").max().cast(pl.Int64), pl.col("more").sum())
