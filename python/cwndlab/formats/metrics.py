"""The metrics of flows, from records that come in order of time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from cwndlab.formats.external_sort import FIRST, SECOND, Sorter
from cwndlab.testbeds.logs.connections import STATES, Column, Rows, of_each


class Metrics:
    """The metrics that follow from the records of flows; what they do not hold is absent.

    cwnd is averaged over time, RTT over its samples (over smoothed ones where there are no others).
    """

    def __init__(self, columns: Collection[str], has_rtt: Column) -> None:
        """Begin without records, of these columns; `has_rtt` says which flows have a sample of RTT."""
        self._columns, self._has_rtt = columns, has_rtt
        self._flows: dict[int, _Flow] = {}
        self._rtts = Sorter()
        self._percentiles: dict[int, tuple[float, float]] | None = None

    def add(self, rows: Rows) -> None:
        """Take records that are not before those taken so far; their times count from the run's beginning."""
        cwnd, delivered, state = (rows.columns.get(name) for name in _USED)
        rtt = self._rtt(rows)
        for number, places in of_each(rows.flow):
            flow = self._flows.setdefault(number, _Flow(int(rows.t_ns[places[0]])))
            t_ns = rows.t_ns[places]
            flow.last_ns = int(t_ns[-1])
            if delivered is not None:
                flow.delivered.add(delivered[places])
            if cwnd is not None:
                flow.cwnd.add(t_ns, cwnd[places])
            if state is not None:
                flow.recoveries.add(t_ns, state[places] == STATES.index("recovery"))
            if rtt is not None:
                flow.rtt.add(rtt[places])

    def of(self, number: int) -> dict[str, float]:
        """The metrics of a flow, once all records were taken."""
        found: dict[str, float] = {}
        flow = self._flows[number]
        seconds = (flow.last_ns - flow.first_ns) / 1e9
        if flow.delivered.count > 1 and seconds > 0:
            found["goodput_mbps"] = 8e-6 * (flow.delivered.last - flow.delivered.first) / seconds
        found |= flow.cwnd.metrics(flow.last_ns) | flow.rtt.metrics()
        if flow.rtt.count:
            if self._percentiles is None:
                self._percentiles = self._rank()
            found["rtt_p50_ms"], found["rtt_p95_ms"] = self._percentiles[number]
        if "state" in self._columns:
            found |= flow.recoveries.metrics()
        return found

    def _rtt(self, rows: Rows) -> Column | None:
        """The round trips that count, ms, NaN for none; they are kept for `_rank`."""
        nothing = np.full(len(rows.t_ns), np.nan)
        sampled, smoothed = (rows.columns.get(name, nothing) for name in ("rtt_ns", "srtt_ns"))
        rtt = np.where(self._has_rtt[rows.flow], sampled, smoothed) / 1e6
        there = rtt > 0
        if not there.any():
            return None
        # Positive floats are ordered as their bits are, taken for integers.
        columns = [pa.array(rows.flow[there].astype(np.int64)), pa.array(rtt[there].view(np.int64))]
        self._rtts.add(pa.RecordBatch.from_arrays(columns, [FIRST, SECOND]))
        return np.where(there, rtt, np.nan)

    def _rank(self) -> dict[int, tuple[float, float]]:
        """The 50th and 95th percentile of the round trips of each flow."""
        found: dict[int, dict[int, float]] = {}
        passed: dict[int, int] = {}
        for batch in self._rtts.batches():
            values = batch.column(SECOND).to_numpy().view(np.float64)
            for number, places in of_each(batch.column(FIRST).to_numpy()):
                start = passed.get(number, 0)
                for rank in _ranks(self._flows[number].rtt.count):
                    if start <= rank < start + len(places):
                        found.setdefault(number, {})[rank] = float(values[places[rank - start]])
                passed[number] = start + len(places)
        return {number: _between(self._flows[number].rtt.count, known) for number, known in found.items()}


_USED = ("cwnd_bytes", "delivered_bytes", "state")

_SHARES = (0.5, 0.95)


def _ranks(count: int) -> list[int]:
    """Places, among so many sorted values, of those next to the percentiles."""
    lower = [int(share * (count - 1)) for share in _SHARES]
    return [*lower, *(min(place + 1, count - 1) for place in lower)]


def _between(count: int, known: dict[int, float]) -> tuple[float, float]:
    """The percentiles, from the values at `_ranks`."""
    ranks = _ranks(count)
    middle, high = (
        float(np.percentile([known[ranks[place]], known[ranks[place + 2]]], 100 * (share * (count - 1) % 1)))
        for place, share in enumerate(_SHARES)
    )
    return middle, high


@dataclass
class _Delivered:
    first: float = np.nan
    last: float = np.nan
    count: int = 0

    def add(self, values: Column) -> None:
        known = values[np.isfinite(values)]
        if len(known):
            self.first = self.first if self.count else float(known[0])
            self.last = float(known[-1])
            self.count += len(known)


@dataclass
class _Cwnd:
    weighted: float = 0.0
    held_ns: int = 0
    total: float = 0.0
    count: int = 0
    largest: float = 0.0
    last: tuple[int, float] = (0, 0.0)
    """The time of the last value, and that."""

    def add(self, t_ns: Column, values: Column) -> None:
        there = np.isfinite(values)
        if not there.any():
            return
        t_ns, values = t_ns[there], values[there]
        if self.count:
            self._hold(self.last[1], int(t_ns[0]) - self.last[0])
        held = np.diff(t_ns)
        self.weighted += float(np.sum(values[:-1] * held))
        self.held_ns += int(held.sum())
        self.total += float(values.sum())
        self.count += len(values)
        self.largest = max(self.largest, float(values.max()))
        self.last = int(t_ns[-1]), float(values[-1])

    def _hold(self, value: float, held_ns: int) -> None:
        self.weighted += value * held_ns
        self.held_ns += held_ns

    def metrics(self, last_ns: int) -> dict[str, float]:
        if not self.count:
            return {}
        more_ns = last_ns - self.last[0]
        whole_ns = self.held_ns + more_ns
        if whole_ns > 0:
            mean = (self.weighted + self.last[1] * more_ns) / whole_ns
        else:
            mean = self.total / self.count
        return {"cwnd_mean_bytes": mean, "cwnd_max_bytes": self.largest}


@dataclass
class _Recoveries:
    recovering: bool | None = None
    count: int = 0
    span_ns: tuple[int, int] = (0, 0)
    """Times of the first and the last entry."""

    def add(self, t_ns: Column, recovering: Column) -> None:
        before = np.append(recovering[0] if self.recovering is None else self.recovering, recovering[:-1])
        entries = t_ns[recovering & ~before]
        if len(entries):
            self.span_ns = (self.span_ns[0] if self.count else int(entries[0])), int(entries[-1])
        self.count += len(entries)
        self.recovering = bool(recovering[-1])

    def metrics(self) -> dict[str, float]:
        found = {"fast_recoveries": float(self.count)}
        if self.count > 1:
            found["cycle_s"] = float(self.span_ns[1] - self.span_ns[0]) / 1e9 / (self.count - 1)
        return found


@dataclass
class _Rtt:
    count: int = 0
    total: float = 0.0
    least: float = np.inf
    most: float = 0.0

    def add(self, rtt_ms: Column) -> None:
        known = rtt_ms[np.isfinite(rtt_ms)]
        if len(known):
            self.count += len(known)
            self.total += float(known.sum())
            self.least, self.most = min(self.least, float(known.min())), max(self.most, float(known.max()))

    def metrics(self) -> dict[str, float]:
        if not self.count:
            return {}
        mean = self.total / self.count
        return {"rtt_min_ms": self.least, "rtt_mean_ms": mean, "rtt_max_ms": self.most}


@dataclass
class _Flow:
    first_ns: int
    last_ns: int = 0
    delivered: _Delivered = field(default_factory=_Delivered)
    cwnd: _Cwnd = field(default_factory=_Cwnd)
    recoveries: _Recoveries = field(default_factory=_Recoveries)
    rtt: _Rtt = field(default_factory=_Rtt)


def rtt_metrics(rtt_ms: Column) -> dict[str, float]:
    """The summary's columns of round-trip times."""
    middle, high = np.percentile(rtt_ms, [50, 95])
    return {
        "rtt_min_ms": float(rtt_ms.min()),
        "rtt_mean_ms": float(rtt_ms.mean()),
        "rtt_p50_ms": float(middle),
        "rtt_p95_ms": float(high),
        "rtt_max_ms": float(rtt_ms.max()),
    }
