"""Holds each flow on the model against the same flow on the kernel: metrics, differences, intervals over
repeats.

Everything but goodput and retransmissions is measured from the `tcp` tables of both, recorded at the same
interval, in the same way: what differs is then not how it was measured.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import polars as pl

from cwndlab.analysis.distributions import t_quantile
from cwndlab.contract.summary import FlowSummary, Summary
from cwndlab.results.parts import RunRecord
from cwndlab.results.resultset import ResultSet
from cwndlab.results.summary import RAN

METRICS: dict[str, str] = {
    "goodput_mbps": "goodput, Mbit/s",
    "retransmits": "retransmits",
    "period_s": "period, s",
    "peak_kb": "peak, kB",
    "trough_kb": "trough, kB",
    "rtt_p50_ms": "RTT p50, ms",
    "rtt_p95_ms": "RTT p95, ms",
}
"""Metrics that are compared, with their names in a table."""

WANTED: dict[str, float] = {"goodput_mbps": 0.03, "retransmits": 0.10, "period_s": 0.10}
"""Largest median error wanted, as a share of the kernel's metric."""

EPOCHS = 3
"""Entries of recovery from which a run has a period."""

ALL = "all flows"
"""The row of a run with several flows: goodputs and retransmissions added up."""

CONFIDENCE = 0.95
"""Confidence of the intervals over repeats."""

Metrics = Mapping[str, float | None]


@dataclass(frozen=True)
class Metric:
    """One metric of a flow in one cell, on both sides; means over the repeats in which it exists."""

    name: str
    model: float | None
    kernel: float | None
    interval: tuple[float, float] | None
    """Interval of the difference of means, model less kernel (Welch 1947). None without repeats on both
    sides.
    """

    @property
    def error(self) -> float | None:
        """The difference as a share of the kernel's metric. None where there is none."""
        if self.model is None or self.kernel is None:
            return None
        if self.kernel == 0:
            return 0.0 if self.model == 0 else math.inf
        return self.model / self.kernel - 1


@dataclass(frozen=True)
class Row:
    """One flow of one cell."""

    cell: Mapping[str, str]
    flow: str
    cc: str
    metrics: Mapping[str, Metric]
    doubtful: int
    """Repeats whose path fell behind on the kernel's side, of those there are."""


def compare(model: ResultSet, kernel: ResultSet) -> list[Row]:
    """A row per flow of each cell, and one of their sum where there are several; runs that failed are left
    out."""
    sides = [_by_flow(model), _by_flow(kernel)]
    rows = []
    for key in sides[0]:
        cell, flow, cc = key
        repeats = [[metrics for metrics, _ in side.get(key, [])] for side in sides]
        doubtful = sum(status == "unreliable" for _, status in sides[1].get(key, []))
        rows.append(Row(dict(cell), flow, cc, {name: _metric(name, *repeats) for name in METRICS}, doubtful))
    return rows


def median_errors(rows: Sequence[Row]) -> dict[str, tuple[float, int]]:
    """Median size of the error over single flows, and their number, by metric; periods count from three
    epochs.
    """
    found = {}
    for name in METRICS:
        errors = [row.metrics[name].error for row in rows if row.flow != ALL]
        known = [abs(error) for error in errors if error is not None]
        if known:
            found[name] = (statistics.median(known), len(known))
    return found


_Key = tuple[tuple[tuple[str, str], ...], str, str]
"""Swept keys, the flow, its congestion control: none of datagrams."""


def _by_flow(results: ResultSet) -> dict[_Key, list[tuple[Metrics, str]]]:
    """The metrics of each flow, in the order of the plan, over its repeats, with their statuses."""
    found: dict[_Key, list[tuple[Metrics, str]]] = {}
    for run in results.summary["run_id"].unique(maintain_order=True):
        # A pinger of loadlatency sends what its tool has to say, which is no traffic to compare.
        flows = results.summary.filter((pl.col("run_id") == run) & pl.col("load_scenario").is_null())
        rows = flows.to_dicts()
        cell = tuple((key, rows[0][key]) for key in results.keys)
        measured = []
        for row in rows:
            if row["status"] in RAN:
                metrics = _measure(results, run, row)
                measured.append((metrics, row["status"]))
                found.setdefault((cell, row["flow"], row["cc"] or ""), []).append((metrics, row["status"]))
        if len(rows) > 1 and len(measured) == len(rows):
            ccs = "+".join(dict.fromkeys(row["cc"] for row in rows if row["cc"]))
            total: Metrics = _total(results, run)
            found.setdefault((cell, ALL, ccs), []).append((total, measured[0][1]))
    return found


def _counted(record: RunRecord) -> list[FlowSummary]:
    """The flows of a run that was carried out, which has a summary."""
    return cast(Summary, record.summary)["flows"]


def _total(results: ResultSet, run: str) -> Metrics:
    """Goodput over the whole window and retransmissions of all flows of a run together."""
    record = results.record(run)
    flows, window = _counted(record), record.scenario["measure"]
    goodput = sum(flow["goodput_bytes"] for flow in flows) * 8e3 / (window["to_ns"] - window["from_ns"])
    return {"goodput_mbps": goodput, "retransmits": sum(flow["retransmits"] for flow in flows)}


def _measure(results: ResultSet, run: str, row: Mapping[str, object]) -> Metrics:
    record = results.record(run)
    counted = next(flow for flow in _counted(record) if flow["flow"] == row["flow"])
    window = record.scenario["measure"]
    series = results.series(run, flow=str(row["flow"])).filter(
        pl.col("t_s").is_between(window["from_ns"] / 1e9, window["to_ns"] / 1e9, closed="left")
    )
    goodput = row["goodput_mbps"]
    return {
        "goodput_mbps": goodput if isinstance(goodput, float) else None,
        "retransmits": counted["retransmits"],
        **_epochs(series),
        **_round_trips(series),
    }


def _epochs(series: pl.DataFrame) -> Metrics:
    """Period, peak and trough of the congestion epochs; none below `EPOCHS` entries of recovery.

    An entry is the first row that finds the sender in recovery; the peak is the window of the row before, the
    trough that of the first row after.
    """
    recovering = series["state"].cast(pl.String).is_in(["recovery"]).to_numpy()
    times, cwnd = series["t_s"].to_numpy(), series["cwnd_bytes"].to_numpy()
    entries = np.flatnonzero(~recovering[:-1] & recovering[1:])
    exits = np.flatnonzero(recovering[:-1] & ~recovering[1:])
    if len(entries) < EPOCHS:
        return dict.fromkeys(("period_s", "peak_kb", "trough_kb"))
    return {
        "period_s": float(np.diff(times[entries + 1]).mean()),
        "peak_kb": float(np.median(cwnd[entries])) / 1e3,
        "trough_kb": float(np.median(cwnd[exits + 1])) / 1e3 if len(exits) else None,
    }


def _round_trips(series: pl.DataFrame) -> Metrics:
    """Percentiles of the sender's smoothed round-trip time, over time."""
    values = series["srtt_ms"].drop_nulls().to_numpy()
    if not len(values):
        return dict.fromkeys(("rtt_p50_ms", "rtt_p95_ms"))
    middle, high = np.percentile(values, [50, 95])
    return {"rtt_p50_ms": float(middle), "rtt_p95_ms": float(high)}


def _metric(name: str, model: Sequence[Metrics], kernel: Sequence[Metrics]) -> Metric:
    ours, theirs = list(_known(model, name)), list(_known(kernel, name))
    return Metric(
        name,
        statistics.fmean(ours) if ours else None,
        statistics.fmean(theirs) if theirs else None,
        _interval(ours, theirs),
    )


def _known(repeats: Sequence[Metrics], name: str) -> Iterator[float]:
    for metrics in repeats:
        value = metrics.get(name)
        if value is not None:
            yield value


def _interval(ours: list[float], theirs: list[float]) -> tuple[float, float] | None:
    """Welch's confidence interval of the difference of two means. None where nothing varies."""
    if min(len(ours), len(theirs)) < 2:
        return None
    errors = [statistics.variance(side) / len(side) for side in (ours, theirs)]
    if not any(errors):
        return None
    freedom = sum(errors) ** 2 / sum(
        error**2 / (len(side) - 1) for error, side in zip(errors, (ours, theirs), strict=True)
    )
    half = t_quantile((1 + CONFIDENCE) / 2, freedom) * math.sqrt(sum(errors))
    difference = statistics.fmean(ours) - statistics.fmean(theirs)
    return difference - half, difference + half
