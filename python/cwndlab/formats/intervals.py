"""The reports of tools that report now and then, such as iperf: the `tcp` table of their intervals,
and sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from cwndlab.formats import base
from cwndlab.formats.external_sort import FIRST, SECOND, Sorter, StoredTable, TableWriter
from cwndlab.testbeds import tables

GATHERED = 4096
"""Intervals that are gathered before they are sorted."""


@dataclass
class Interval:
    """One interval of a flow, as a tool reports it; a field is None where the tool does not say."""

    start_s: float
    end_s: float
    bytes: float
    cwnd_bytes: float | None = None
    rtt_us: float | None = None
    retransmits: float | None = None


@dataclass
class Totals:
    """Sums over the intervals of one flow."""

    count: int = 0
    start_s: float = 0.0
    end_s: float = 0.0
    bytes: float = 0.0
    retransmits: float = 0.0
    counted: bool = True
    """Whether each of them says what was retransmitted."""
    windows: list[float] = field(default_factory=lambda: [0, 0.0, 0.0])
    """Number, sum and largest of the congestion windows, bytes."""
    rtts: list[float] = field(default_factory=lambda: [0, 0.0, np.inf, 0.0])
    """Number, sum, least and most of the round trips, ms."""

    def add(self, interval: Interval) -> None:
        """Count an interval."""
        self.start_s = self.start_s if self.count else interval.start_s
        self.count, self.end_s = self.count + 1, interval.end_s
        self.bytes += interval.bytes
        self.counted &= interval.retransmits is not None
        self.retransmits += interval.retransmits or 0
        if window := interval.cwnd_bytes:
            self.windows = [self.windows[0] + 1, self.windows[1] + window, max(self.windows[2], window)]
        if interval.rtt_us:
            rtt, (count, total, least, most) = interval.rtt_us / 1e3, self.rtts
            self.rtts = [count + 1, total + rtt, min(least, rtt), max(most, rtt)]

    def goodput(self) -> dict[str, float]:
        """The metric of what was transferred, from the first interval's beginning to the last one's end."""
        seconds = self.end_s - self.start_s
        return {"goodput_mbps": 8e-6 * self.bytes / seconds} if seconds > 0 else {}

    def windows_metrics(self) -> dict[str, float]:
        """The metrics of the congestion window."""
        count, total, most = self.windows
        return {"cwnd_mean_bytes": total / count, "cwnd_max_bytes": float(most)} if count else {}

    def rtt_metrics(self) -> dict[str, float]:
        """The metrics of round trips."""
        count, total, least, most = self.rtts
        return {"rtt_mean_ms": total / count, "rtt_min_ms": least, "rtt_max_ms": most} if count else {}


class Intervals:
    """The intervals of the flows of a run, which are numbered as they come."""

    def __init__(self) -> None:
        """Begin without any."""
        self.totals: dict[int, Totals] = {}
        self._rows: list[tuple[float, ...]] = []
        self._sorter = Sorter()

    def add(self, flow: int, interval: Interval) -> None:
        """Take the next interval of a flow; raises ValueError for a number no counter can hold."""
        totals = self.totals.setdefault(flow, Totals())
        totals.add(interval)
        missing = np.nan
        self._rows.append(
            (
                round(interval.end_s * 1e9),
                flow,
                missing if interval.cwnd_bytes is None else interval.cwnd_bytes,
                missing if interval.rtt_us is None else 1000 * interval.rtt_us,
                totals.bytes,
                totals.retransmits,
            )
        )
        if len(self._rows) == GATHERED:
            self._sort()

    def table(self, names: Sequence[str | None]) -> StoredTable:
        """The `tcp` table of the flows by their numbers, without those named None; amounts become counters at
        the end of each interval."""
        self._sort()
        written = TableWriter(tables.SCHEMAS["tcp"])
        left = [number for number, name in enumerate(names) if name is None]
        silent = [number for number, totals in self.totals.items() if not totals.counted]
        known = [name or "" for name in names]
        for batch in self._sorter.batches():
            flow = batch.column(SECOND).to_numpy()
            kept = ~np.isin(flow, left)
            column = {name: batch.column(name).to_numpy()[kept] for name in batch.schema.names}
            resent = np.where(np.isin(flow[kept], silent), np.nan, column["retransmits"])
            rows = base.rows(
                "tcp",
                t_ns=column[FIRST],
                flow=base.words(flow[kept], known),
                cwnd_bytes=column["cwnd"],
                srtt_ns=column["srtt"],
                delivered_bytes=column["delivered"],
                retransmits=resent,
            )
            for each in rows.to_batches():
                written.add(each)
        return written.table()

    def _sort(self) -> None:
        if not self._rows:
            return
        t_ns, flow, *values = zip(*self._rows, strict=True)
        self._rows = []
        try:
            keys = [pa.array(t_ns, pa.int64()), pa.array(flow, pa.int64())]
        except (pa.ArrowInvalid, OverflowError):
            raise ValueError("a number is out of range") from None
        if min(t_ns) < 0:
            raise ValueError("a number is out of range")
        columns = [pa.array(np.array(column, dtype=np.float64)) for column in values]
        names = [FIRST, SECOND, "cwnd", "srtt", "delivered", "retransmits"]
        self._sorter.add(pa.RecordBatch.from_arrays([*keys, *columns], names))
