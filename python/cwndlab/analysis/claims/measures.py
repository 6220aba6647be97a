"""The metrics that decide claims, computed from the summary and series of runs.

A claim's `measure` names a metric of a cell (one combination of the swept keys; repeats are averaged first),
the cells it is about, and what is made of them:

    {of: utilisation, where: {KEY: VALUE, KEY: [VALUES], KEY: {has: TEXT}}, over: min}
    {of: cycle_s, ratio: [{KEY: A}, {KEY: B}], where: {...}}    A divided by B, cell by cell
    {of: rtt_max_ms, rising: KEY, where: {...}}    share of the series along KEY (suite's order) that rise

`of` is a column of the summary or one of `CELL_METRICS`; `over` is min, max, mean or median (default). Other
words compare a whole table: see `TABLE_METRICS`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import polars as pl

from cwndlab.analysis.claims.claim import Claim
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.scenario.queries import least_rate
from cwndlab.results import inferred_models
from cwndlab.results.resultset import ResultSet


class UndecidedError(Exception):
    """Results do not decide the claim; the text says why."""


def measure(claim: Claim, cells: Cells | None) -> tuple[float, str]:
    """Return (cwndlab's metric, a remark to print with it, often empty); raises UndecidedError
    without one.
    """
    asked = dict(claim.measure)
    if asked["of"] in PUBLISHED_METRICS:
        return PUBLISHED_METRICS[asked["of"]](**asked.get("with", {})), "from the published values alone"
    if cells is None:
        raise UndecidedError("no results")
    if asked["of"] in TABLE_METRICS:
        return TABLE_METRICS[asked["of"]](cells, **asked.get("with", {})), ""
    chosen = cells.where(asked.get("where", {}))
    if not chosen:
        raise UndecidedError("no run of these results is what the claim speaks of")
    metric = _metric_of(asked["of"], asked.get("with", {}))
    if "ratio" in asked:
        values = _ratios(chosen, metric, *asked["ratio"])
    elif "rising" in asked:
        return _rising(chosen, metric, asked["rising"]), ""
    else:
        values = [value for cell in chosen if (value := metric(cell)) is not None]
    if not values and "ratio" in asked:
        raise UndecidedError("no two runs of these results are what the claim compares")
    if not values:
        raise UndecidedError("the metric does not exist in these runs")
    return float(OVER[asked.get("over", "median")](values)), ""


def inferred_stacks(claim: Claim, results: ResultSet | None) -> tuple[str, ...]:
    """The stacks with inferred models that a claim names, by its cells; of one that names no stack at all,
    those of the results."""
    named = [word for word in _words(claim.measure) if catalogue().stack(word) is not None]
    if named or results is None:
        return tuple(name for name in dict.fromkeys(named) if inferred_models.is_inferred(name))
    return tuple(inferred_models.of_rows(results.summary))


def _words(part: object) -> Iterator[str]:
    """Every text within a claim's `measure`."""
    if isinstance(part, Mapping):
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from _words(one)
    elif isinstance(part, str):
        yield part


OVER: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "median": median,
    "mean": lambda values: sum(values) / len(values),
}
"""Functions that make one number of the values of several cells."""


@dataclass(frozen=True)
class Run:
    """One run of a cell: its scenario, its flows' rows of the summary, and its series when asked for."""

    results: ResultSet
    run_id: str
    rows: Sequence[Mapping[str, Any]]
    series: Callable[[str], pl.DataFrame]
    """The table `tcp` of a run."""

    @cached_property
    def scenario(self) -> Mapping[str, Any]:
        """The resolved Scenario."""
        return self.results.record(self.run_id).scenario

    @property
    def tcp(self) -> pl.DataFrame:
        """The table `tcp` of all flows; raises UndecidedError if it was not recorded."""
        frame = self.series(self.run_id)
        if not frame.height:
            raise UndecidedError("the series `tcp` was not recorded")
        return frame

    @property
    def link(self) -> Mapping[str, Any]:
        """The slowest bottleneck."""
        marked = [link for link in self.scenario["links"] if link["bottleneck"]]
        return min(marked, key=lambda link: _rate(link) or math.inf)

    @property
    def rate_bps(self) -> float:
        """The rate of that link, or of its shaper; raises UndecidedError where nothing limits it."""
        rate = _rate(self.link)
        if rate is None:
            raise UndecidedError(f"link {self.link['name']} has no rate")
        return float(rate)

    @property
    def mss(self) -> int:
        """Payload bytes of a full packet: 1500 less IP and TCP headers, timestamps where they are on.

        Only Windows has them off (RFC 1323 timestamps disabled: appendix C of the TEACUP report).
        """
        return 1460 if str(self.rows[0]["stack"]).startswith("windows") else 1448

    @property
    def packet_ms(self) -> float:
        """The time a packet of 1500 bytes takes on the bottleneck, its overhead included, in ms."""
        return float((1500 + self.link["overhead"]) * 8e3 / self.rate_bps)

    @property
    def base_ms(self) -> float:
        """Twice the bottleneck's one-way delay, in ms."""
        return float(2 * self.link["delay_ns"] / 1e6)

    @property
    def buffer_ms(self) -> float:
        """Time that the full bottleneck queue takes to drain, with the packet in service, in ms."""
        return float((self.link["queue"]["limit_packets"] + 1) * self.packet_ms)

    def windows(self, seconds: float = 1.0, start: float = 0.0) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Goodput of the first flow in whole windows of that length, from `start` s on, in Mbit/s."""
        frame = self.tcp
        first = frame.filter(pl.col("flow") == frame["flow"][0])
        times, delivered = first["t_s"].to_numpy(), first["delivered_bytes"].to_numpy().astype(float)
        edges = np.arange(start, self.scenario["duration_ns"] / 1e9 + 1e-9, seconds)
        at = np.searchsorted(times, edges, side="right") - 1
        return np.diff(np.where(at >= 0, delivered[np.maximum(at, 0)], 0.0)) * 8e-6 / seconds

    def carried(self, start: float = 0.0) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Rate to the first flow's receiver in each second from `start` s on, in Mbit/s on the wire.

        Headers, the bottleneck's overhead and retransmissions count. Raises UndecidedError where the
        testbed does not tell.
        """
        frame = self.results.series(self.run_id, table="samples")
        first = self.rows[0]["flow"]
        seconds = frame.filter(
            pl.col("kind").cast(pl.String) == "wire",
            pl.col("flow").cast(pl.String) == first,
            pl.col("t_s") >= start + 1 - 1e-9,
        )
        if not seconds.height:
            raise UndecidedError("what each second carried was not recorded")
        return seconds["value"].to_numpy().astype(float) * 8e-6


@dataclass(frozen=True)
class Cell:
    """One combination of the swept keys and its runs."""

    key: Mapping[str, str]
    runs: Sequence[Run]
    known: dict[str, float | None] = field(default_factory=dict)
    """Means that were asked for before, by metric: claims of a suite ask for the same."""

    def mean(self, of_run: Callable[[Run], float | None]) -> float | None:
        """The mean of a metric over the runs that have it."""
        values = [value for run in self.runs if (value := of_run(run)) is not None]
        return sum(values) / len(values) if values else None


class Cells:
    """The cells of a ResultSet, in the order of the plan; of one `repeat` only if given."""

    def __init__(
        self,
        results: ResultSet,
        standing_in: Mapping[str, Mapping[str, str]] | None = None,
        repeat: int | None = None,
    ) -> None:
        """`standing_in` is that of `judge`."""
        self.results = results

        @lru_cache(maxsize=1)  # a run's metrics are computed one after the other
        def series(run_id: str) -> pl.DataFrame:
            return results.series(run_id)

        summary = results.summary.filter(pl.col("status") == "complete")
        if repeat is not None:
            summary = summary.filter(pl.col("repeat") == repeat)
        runs: dict[tuple[str, ...], dict[str, list[dict[str, Any]]]] = {}
        for row in summary.iter_rows(named=True):
            key = tuple(self._value(name, str(row[name]), standing_in or {}) for name in results.keys)
            runs.setdefault(key, {}).setdefault(row["run_id"], []).append(row)
        self.all = [
            Cell(
                dict(zip(results.keys, key, strict=True)),
                [Run(results, name, rows, series) for name, rows in members.items()],
            )
            for key, members in runs.items()
        ]

    @staticmethod
    def _value(key: str, value: str, standing_in: Mapping[str, Mapping[str, str]]) -> str:
        for given, meant in standing_in.get(key, {}).items():
            value = value.replace(given, meant)
        return value

    def where(self, wanted: Mapping[str, Any]) -> list[Cell]:
        """Return the cells that have the values a claim's `where` says."""
        return [
            cell
            for cell in self.all
            if all(_matches(cell.key.get(key), want) for key, want in wanted.items())
        ]


def _matches(value: str | None, wanted: object) -> bool:
    if value is None:
        return False
    if isinstance(wanted, Mapping):
        return str(wanted["has"]) in value
    if isinstance(wanted, list):
        return value in [str(one) for one in wanted]
    return value == str(wanted)


def _ratios(
    cells: Sequence[Cell],
    metric: Callable[[Cell], float | None],
    top: Mapping[str, Any],
    bottom: Mapping[str, Any],
) -> list[float]:
    """The metric of each cell of `top` over that of the cell of `bottom` like it in all other keys."""

    def rest(cell: Cell) -> tuple[tuple[str, str], ...]:
        differing = set(top) | set(bottom) | LINKED.get(frozenset(set(top) | set(bottom)), set())
        return tuple((key, value) for key, value in cell.key.items() if key not in differing)

    def chosen(by: Mapping[str, Any]) -> dict[tuple[tuple[str, str], ...], Cell]:
        return {
            rest(cell): cell for cell in cells if all(_matches(cell.key.get(k), v) for k, v in by.items())
        }

    below = chosen(bottom)
    pairs = [(metric(cell), metric(below[key])) for key, cell in chosen(top).items() if key in below]
    return [a / b for a, b in pairs if a is not None and b is not None and b > 0]


LINKED: dict[frozenset[str], set[str]] = {
    frozenset({"hosts.a.stack"}): {"hosts.b.stack", "hosts.a.cc", "hosts.a.hz", "hosts.a.sysctl"},
    frozenset({"hosts.a.cc"}): {"hosts.a.stack", "hosts.b.stack", "hosts.a.hz", "hosts.a.sysctl"},
    frozenset({"hosts.a.stack", "hosts.a.cc"}): {"hosts.b.stack", "hosts.a.hz", "hosts.a.sysctl"},
    frozenset({"hosts.a.stack", "hosts.a.cc", "hosts.a.sysctl"}): {"hosts.a.hz"},
}
"""Keys that change together with those a ratio compares, and do not have to agree in a pair."""


def _rising(cells: Sequence[Cell], metric: Callable[[Cell], float | None], along: str) -> float:
    series: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for cell in cells:
        value = metric(cell)
        rest = tuple((key, text) for key, text in cell.key.items() if key != along)
        if value is not None:
            series.setdefault(rest, []).append(value)
    long = [values for values in series.values() if len(values) > 1]
    if not long:
        raise UndecidedError(f"no series along {along} in these results")
    return sum(all(a < b for a, b in pairwise(v)) for v in long) / len(long)


def _metric_of(name: str, arguments: Mapping[str, Any]) -> Callable[[Cell], float | None]:
    asked = repr((name, sorted(arguments.items())))

    def of_run(run: Run) -> float | None:
        return CELL_METRICS[name](run, **arguments) if name in CELL_METRICS else _column(run, name)

    def of_cell(cell: Cell) -> float | None:
        if asked not in cell.known:
            cell.known[asked] = cell.mean(of_run)
        return cell.known[asked]

    return of_cell


def _rate(link: Mapping[str, Any]) -> int | None:
    return least_rate(link["rate_bps"], link["shaper"] or {}, link["queue"])


def _column(run: Run, name: str) -> float | None:
    """A column of the summary: rates and utilisation of all flows together, others of the first flow."""
    values = [row[name] for row in run.rows if row[name] is not None]
    if not values:
        return None
    together = name in {"goodput_mbps", "throughput_mbps", "utilisation"}
    return float(sum(values)) if together else float(values[0])


def _filled(run: Run, start: float = 0.0) -> float:
    """Median goodput of one-second windows over what the rate allows full segments."""
    allowed = run.rate_bps / 1e6 * run.mss / (1500 + run.link["overhead"])
    return float(np.median(run.windows(start=start)) / allowed)


def _carried(run: Run, start: float = 0.0) -> float:
    """Median of what single seconds carried on the wire, over the rate."""
    return float(np.median(run.carried(start)) * 1e6 / run.rate_bps)


def _carried_spread(run: Run, start: float = 10.0) -> float | None:
    """Coefficient of variation of what single seconds carried on the wire."""
    seconds = run.carried(start)
    mean = float(seconds.mean())
    return float(seconds.std()) / mean if mean else None


def _spread(run: Run, start: float = 10.0) -> float | None:
    """Coefficient of variation of the goodput in one-second windows."""
    windows = run.windows(start=start)
    return float(windows.std() / windows.mean()) if windows.mean() else None


def _rtt(run: Run, column: str, unit: str) -> float | None:
    """An RTT column less the base RTT, in ms, in packets' times, or as a share of the full queue."""
    value = _column(run, column)
    if value is None:
        return None
    above = value - run.base_ms
    return above / {"ms": 1.0, "packets": run.packet_ms, "buffer": run.buffer_ms}[unit]


def _rtt_difference(run: Run, high: str, low: str) -> float | None:
    """Difference of two RTT columns, in ms."""
    above, below = _column(run, high), _column(run, low)
    return None if above is None or below is None else above - below


def _rtt_single_and_double(run: Run) -> float:
    """Number of the steps by one and by two packets' times that are among the two commonest rises:
    0, 1 or 2.
    """
    return float(len({1.0, 2.0} & set(_rtt_steps(run)[:2])))


def _rtt_steps(run: Run) -> list[float]:
    """The rises from one RTT sample to the next in packets' times, the commonest first.

    Rises are counted in bins of a tenth of a packet's time; those below half a packet are no jump.
    """
    rises = np.diff(run.tcp["rtt_ms"].drop_nulls().to_numpy())
    bins = np.round(rises[rises > run.packet_ms / 2] / run.packet_ms, 1)
    values, counts = np.unique(bins, return_counts=True)
    return [float(value) for value in values[np.argsort(-counts, kind="stable")]]


def _trough(run: Run, unit: str, after_s: float = 0.0) -> float:
    """The smallest cwnd from `after_s` after the first loss on, in segments or as a share of the largest."""
    frame = run.tcp
    lost = frame.filter(pl.col("state").is_in(["recovery", "loss"]))
    if not lost.height:
        raise UndecidedError("nothing was lost")
    later = frame.filter(pl.col("t_s") >= lost["t_s"][0] + after_s)["cwnd_bytes"].to_numpy()
    low, high = float(later.min()), float(later.max())
    return low / run.mss if unit == "segments" else low / high


def _time_to(run: Run, mbps: float) -> float:
    """Time at which the goodput of a second first reached a rate, in s from the start; else the
    run's length.
    """
    frame = run.tcp
    times, delivered = frame["t_s"].to_numpy(), frame["delivered_bytes"].to_numpy().astype(float)
    before = np.searchsorted(times, times - 1.0, side="right") - 1
    gained = delivered - np.where(before >= 0, delivered[np.maximum(before, 0)], 0.0)
    reached = np.nonzero(gained * 8e-6 >= mbps)[0]
    return float((times[reached[0]] if len(reached) else run.scenario["duration_ns"] / 1e9) - times[0])


def _rounds(run: Run) -> list[float]:
    """The highest byte sent in each round trip: a round ends when all of the round before is acknowledged."""
    frame = run.tcp
    delivered = frame["delivered_bytes"].to_numpy().astype(float)
    sent = np.maximum.accumulate(delivered + frame["inflight_bytes"].to_numpy())
    ends = [float(sent[delivered < 1].max(initial=0.0))]
    while ends[-1] > 0 and (past := np.nonzero(delivered >= ends[-1])[0]).size and sent[past[0]] > ends[-1]:
        ends.append(float(sent[past[0]]))
    return ends


def _flight(run: Run, number: int) -> float:
    """Segments sent in a round trip, the first being 1; a short one counts as one, as in a trace."""
    return float(np.ceil(_flight_bytes(run, number) / run.mss))


def _flight_bytes(run: Run, number: int) -> float:
    ends = [0.0, *_rounds(run)]
    if len(ends) <= number:
        raise UndecidedError(f"the flow has no round {number}")
    return ends[number] - ends[number - 1]


def _acks_of_round(run: Run, number: int) -> float:
    """Acknowledgements that the flight of a round trip got, the first being 1.

    The table has a row for each. What was delivered is the receiver's, half a round trip ahead of the sender:
    it tells the flight, not the ACK.
    """
    ends = [0.0, *_rounds(run)]
    if len(ends) <= number:
        raise UndecidedError(f"the flow has no round {number}")
    delivered = run.tcp["delivered_bytes"].to_numpy()
    return float(((delivered > ends[number - 1]) & (delivered <= ends[number])).sum())


def _flight_growth(run: Run, first: int, last: int) -> float:
    """Growth of a flight from one round trip to the next, in segments, from round `first` to `last`."""
    grown = _flight_bytes(run, last) - _flight_bytes(run, first)
    return grown / run.mss / (last - first)


def _cwnd_step(run: Run) -> float:
    """The largest growth of cwnd from one ACK to the next in congestion avoidance, in segments."""
    frame = run.tcp
    cwnd = frame["cwnd_bytes"].to_numpy().astype(float)
    calm = (frame["state"] == "avoidance").to_numpy()
    steps = np.diff(cwnd)[calm[1:] & calm[:-1]]
    if not len(steps):
        raise UndecidedError("no congestion avoidance")
    return float(steps.max()) / run.mss


def _burst(run: Run, quantile: float = 0.999) -> float:
    """Segments that one ACK let out, at that quantile over the ACKs, in congestion avoidance."""
    frame = run.tcp
    sent = (frame["delivered_bytes"] + frame["inflight_bytes"]).to_numpy().astype(float)
    calm = (frame["state"] == "avoidance").to_numpy()
    let_out = np.diff(sent)[calm[1:] & calm[:-1]]
    if not len(let_out):
        raise UndecidedError("no congestion avoidance")
    return float(np.quantile(let_out, quantile)) / run.mss


def _over_second(run: Run, column: str) -> float | None:
    """A column of the summary of the first flow over that of the second."""
    first, second = (row[column] for row in run.rows[:2])
    return None if first is None or not second else float(first / second)


def _marks_per_round(run: Run) -> float | None:
    """Packets of the first flow that were marked in a smoothed round trip."""
    window = run.scenario["measure"]
    rounds = (window["to_ns"] - window["from_ns"]) / 1e6 / run.rows[0]["srtt_mean_ms"]
    return float(run.rows[0]["ce_marks"] / rounds)


CELL_METRICS: dict[str, Callable[..., float | None]] = {
    "filled": _filled,
    "spread": _spread,
    "carried": _carried,
    "carried_spread": _carried_spread,
    "rtt_above_base": _rtt,
    "rtt_difference": _rtt_difference,
    "rtt_single_and_double": _rtt_single_and_double,
    "cwnd_trough": _trough,
    "time_to_rate_s": _time_to,
    "flight_segments": _flight,
    "flight_growth": _flight_growth,
    "acks_of_round": _acks_of_round,
    "cwnd_step_segments": _cwnd_step,
    "burst_segments": _burst,
    "over_second": _over_second,
    "marks_per_round": _marks_per_round,
}
"""Metrics of a run beyond the columns of the summary, by the names that claims use."""


def _table_pairs(cells: Cells, without: Mapping[str, Any] | None = None) -> list[tuple[float, float]]:
    """(ours, published) of the published goodputs of the results' suite, but those of cells `without`."""
    from cwndlab.experiment import suites

    published = [
        metric
        for metric in suites.suite(cells.results.header.experiment).published()
        if metric.column == "goodput_mbps" and metric.value is not None
        if without is None or not all(_matches(metric.cell.get(key), want) for key, want in without.items())
    ]
    pairs = []
    for metric in published:
        for cell in cells.where(metric.cell):
            ours = cell.mean(lambda run: _column(run, "goodput_mbps"))
            if ours is not None and metric.value is not None:
                pairs.append((ours, metric.value))
    if len(pairs) < len(published):
        raise UndecidedError(f"only {len(pairs)} of {len(published)} cells were run")
    return pairs


def _rank_order(cells: Cells) -> float:
    """Spearman's rank correlation between cwndlab's table and the published one."""
    ours, theirs = (_ranks(side) for side in zip(*_table_pairs(cells), strict=True))
    return float(np.corrcoef(ours, theirs)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Ranks from 1 on; equal values share the mean of theirs."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[place])


def _median_factor(cells: Cells, without: Mapping[str, Any] | None = None) -> float:
    """The median of max(ours / theirs, theirs / ours) over the published table, but the cells `without`."""
    return median(max(ours / theirs, theirs / ours) for ours, theirs in _table_pairs(cells, without))


def _change_pct(cells: Cells, before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """Distance of the mean goodput after from that before, in %."""
    means = []
    for where in (before, after):
        found = [cell.mean(lambda run: _column(run, "goodput_mbps")) for cell in cells.where(where)]
        values = [value for value in found if value is not None]
        if len(values) != 1:
            raise UndecidedError("not exactly one cell is what the claim speaks of")
        means.append(values[0])
    return 100 * (means[1] - means[0]) / means[0]


def _beyond_spread(cells: Cells, before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """The change in mean goodput in standard deviations of single runs (pooled over both cells)."""
    groups = []
    for where in (before, after):
        found = cells.where(where)
        if len(found) != 1 or len(found[0].runs) < 2:
            raise UndecidedError("two runs of each are needed at least")
        groups.append([value for run in found[0].runs if (value := _column(run, "goodput_mbps")) is not None])
    pooled = np.sqrt(np.mean([np.var(group, ddof=1) for group in groups]))
    change = abs(float(np.mean(groups[1]) - np.mean(groups[0])))
    if pooled == 0:
        raise UndecidedError("the runs cannot vary")
    return change / float(pooled)


def _load_overall(cells: Cells, what: str, where: Mapping[str, Any]) -> float:
    """A metric of the nineteen loadlatency scenarios together, in the first session that `where` chooses."""
    from cwndlab.results import loadlatency

    for one in loadlatency.series(cells.results):
        if all(_matches(one.cell.get(key), want) for key, want in where.items()):
            every = len(catalogue().load_scenarios)
            if len(one.scenarios) < every:
                raise UndecidedError(f"only {len(one.scenarios)} of {every} scenarios were run")
            return float(one.document({})["overall"][what])
    raise UndecidedError("no run of these results is what the claim speaks of")


TABLE_METRICS: dict[str, Callable[..., float]] = {
    "load_overall": _load_overall,
    "rank_order": _rank_order,
    "median_factor": _median_factor,
    "change_pct": _change_pct,
    "change_in_deviations": _beyond_spread,
}
"""Metrics of all of a suite's results together."""


def _product(factors: Sequence[float]) -> float:
    """A product of quantities that the publication states."""
    return float(np.prod(factors))


def _window_sweep(what: str, **choice: Any) -> float:
    """A metric of the 15 published cells of the tuning article; see `_WINDOW_SWEEP`."""
    from cwndlab.experiment import suites

    path = suites.suite("window-sweep").path.with_name("window-sweep-cells.csv")
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return _WINDOW_SWEEP[what](rows, **choice)


def _averages(rows: Sequence[Mapping[str, str]], test: int) -> list[float]:
    return [float(row["average_mbps"]) for row in rows if row["test"] == str(test)]


_WINDOW_SWEEP: dict[str, Callable[..., float]] = {
    # Mean of a test's averages over those of another.
    "ratio": lambda rows, test, to: float(np.mean(_averages(rows, test)) / np.mean(_averages(rows, to))),
    # In how many of the five windows a test has the highest average of the three.
    "wins": lambda rows, test: float(
        sum(
            _averages(rows, test)[window] == max(_averages(rows, other)[window] for other in (1, 2, 3))
            for window in range(5)
        )
    ),
    # Largest average over smallest, within a test.
    "within": lambda rows, test: max(_averages(rows, test)) / min(_averages(rows, test)),
    "lowest": lambda rows: min(float(row["min_mbps"]) for row in rows),
    "highest": lambda rows: max(float(row["max_mbps"]) for row in rows),
}


def _loadlatency(what: str) -> float:
    """A metric of the OVERALL block, aggregated by cwndlab from the 19 lines published above the block."""
    from cwndlab import _native
    from cwndlab.experiment import suites

    lines = suites.suite("cubic-patch").path.with_name("loadlatency-2011.txt").read_text(encoding="utf-8")
    names = ("upload", "download", "responsiveness", "smoothness")
    value = dict(zip(names, _native.loadlatency_overall(lines), strict=True))[what]
    if value is None:
        raise UndecidedError("the published lines do not give it for each scenario")
    return value


PUBLISHED_METRICS: dict[str, Callable[..., float]] = {
    "product": _product,
    "loadlatency": _loadlatency,
    "window_sweep": _window_sweep,
}
"""Metrics that need no run: what the published values themselves say."""
