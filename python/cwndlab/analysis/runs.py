"""Runs as a comparison sees them: a value per metric and run, and what the run shares with others."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from cwndlab.analysis import recorded as recorded_series
from cwndlab.analysis.numeric import Floats, windowed_rate
from cwndlab.analysis.recorded import LEVELS, RATES, SERIES_S
from cwndlab.errors import InputError, unknown
from cwndlab.formats import base
from cwndlab.formats.base import Recording
from cwndlab.results import columns, inferred_models
from cwndlab.results.briefs import Brief
from cwndlab.results.catalogue import FAILED, MISSING
from cwndlab.results.keys import filtered
from cwndlab.results.metrics import BY_NAME, METRICS

if TYPE_CHECKING:
    from cwndlab.results.resultset import ResultSet


GOODPUT = "goodput_mbps"
"""Metric of which a run has the sum over its flows, and `Run.flows` that of each."""

OF_BOTTLENECK = ("utilisation",)
"""Metrics that are parts of what a bottleneck can carry, and so add up over its flows only."""


@dataclass(frozen=True)
class Run:
    """One run of one side of a comparison."""

    label: str
    metrics: Mapping[str, float]
    """Metrics by column of the summary, in its unit; a metric that does not exist is absent."""
    mixed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Metrics that flows have no common value of, with their applications where these are why: means over
    flows of different ones, and parts of different bottlenecks.
    """
    over: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Fewest and most flows that a metric is the mean of, where there are several."""
    cell: Mapping[str, str] = field(default_factory=dict)
    """Value of each swept key."""
    repeat: int | None = None
    draws: tuple[int, int] | None = None
    """Seed and repeat, which name the random draws of a simulated run. None where the world draws."""
    identity: str | None = None
    """Equal for runs that recorded the same. None where that cannot be told."""
    started: datetime | None = None
    """Time at which the run began, if that can matter. None for simulated runs."""
    by_chance: bool = True
    """Whether something besides seed and repeat decides what it records."""
    unsettled: float | None = None
    """Share by which its goodput is off that of the second half of its window, if that never settled."""
    flows: Mapping[str, float] = field(default_factory=dict)
    """Goodput of each flow in Mbit/s, of a run with several."""
    series: Callable[[str], Floats] = field(default=lambda metric: np.empty(0), compare=False)
    """The metric over windows of a second, in order; empty where none was recorded."""


def of_results(
    results: "ResultSet", flow: str | None = None, where: Mapping[str, Sequence[str]] | None = None
) -> tuple[list[Run], list[str]]:
    """The complete runs of results in the order of the plan, and what to know about the others.

    `flow` takes one flow instead of all of a run. `where` gives keys the values they may have. Raises
    InputError for a flow, key or value that does not exist.
    """
    rows = results.summary
    if flow is not None:
        flows = rows["flow"].unique(maintain_order=True).to_list()
        if flow not in flows:
            raise unknown("flow", flow, flows)
        rows = rows.filter(pl.col("flow") == flow)
    for key, wanted in (where or {}).items():
        rows = filtered(rows, key, list(wanted), results.labels)
    keys = columns.swept_keys(rows)
    counted = ~pl.col("status").is_in([FAILED, MISSING])
    there = rows.filter(counted.any().over("run_id"))
    bad = rows["run_id"].n_unique() - there["run_id"].n_unique()
    notes = [f"{results.path}: {bad} runs failed or are missing, and do not count"] if bad else []
    if broken := there.filter(~counted).height:
        notes.append(
            f"{results.path}: {broken} flows failed, and do not count; the other flows of their runs do"
        )
    doubtful = rows.filter(pl.col("status") == "unreliable")["run_id"].n_unique()
    if doubtful:
        notes.append(f"{results.path}: {doubtful} runs are unreliable, as their warnings say; they count")
    cut = rows.filter(pl.col("status") == "unfinished")["run_id"].n_unique()
    if cut:
        notes.append(
            f"{results.path}: {cut} runs ended before a flow had done all; they count, without a"
            " completion time"
        )
    rows = rows.filter(counted)
    notes += [note] if (note := inferred_models.note(inferred_models.of_rows(rows))) else []
    runs = _of_rows(results, rows, keys)
    # Of one flow a change may be another's coming or going.
    return runs if flow is None else [replace(run, unsettled=None) for run in runs], notes


class Chosen:
    """Choices of the runs of results, each made once for all comparisons."""

    def __init__(self, results: "ResultSet") -> None:
        """No choice is made yet."""
        self._results = results
        self._made: dict[tuple[object, ...], tuple[list[Run], list[str]]] = {}

    def of(
        self, flow: str | None = None, where: Mapping[str, Sequence[str]] | None = None
    ) -> tuple[list[Run], list[str]]:
        """Return what `of_results` gives."""
        choice = (flow, *((key, *values) for key, values in (where or {}).items()))
        if choice not in self._made:
            self._made[choice] = of_results(self._results, flow, where)
        return self._made[choice]


def _of_rows(results: "ResultSet", rows: pl.DataFrame, keys: Sequence[str]) -> list[Run]:
    """The runs whose flows are in rows of the summary."""
    briefs = {brief.run_id: brief for brief in results.briefs}
    metrics = [name for name in columns.numeric_columns(rows) if rows[name].null_count() < rows.height]
    of_flows = {name: rows[name].to_list() for name in (*metrics, "flow", "app", "status")}
    places: dict[str, list[int]] = {}
    for place, name in enumerate(rows["run_id"].to_list()):
        places.setdefault(name, []).append(place)
    cells = list(zip(*(rows[key].to_list() for key in keys), strict=True)) or [()] * rows.height
    repeats = rows["repeat"].to_list()
    runs = []
    for name, mine in places.items():
        index = int(str(name).partition("-")[0])
        brief, repeat = briefs[index], int(repeats[mine[0]])
        here = {column: [values[place] for place in mine] for column, values in of_flows.items()}
        names, apps, statuses = here.pop("flow"), here.pop("app"), here.pop("status")
        if "unfinished" in statuses:
            # The last of its transfers would end later than the last of those that ended.
            here.pop("completion_s", None)
        mixed = _mixed(here, apps)
        if brief.apart(names):
            mixed |= {column: [] for column in OF_BOTTLENECK if column in here}
        beside = _beside_marks(brief, names, here.get("ce_marks", ()))
        told = len(names) > 1 and all(flow in brief.active for flow in names)
        active = [brief.active[flow] for flow in names] if told else []
        sent = [brief.sent[flow] for flow in names] if all(flow in brief.sent for flow in names) else []
        here = {column: of for column, of in here.items() if column not in mixed}
        runs.append(
            Run(
                label=str(name),
                metrics=_all_flows(here, active, sent) | beside,
                mixed=mixed,
                over=_averaged(here, sent),
                cell={key: str(value) for key, value in zip(keys, cells[mine[0]], strict=True)},
                repeat=repeat,
                draws=None if brief.by_chance or brief.seed is None else (brief.seed, repeat),
                identity=brief.identity,
                started=_time(brief.started) if brief.by_chance else None,
                by_chance=brief.by_chance,
                unsettled=brief.unsettled,
                flows=_each_flow(names, here.get(GOODPUT, ())),
                series=partial(_series_of, results, index, names),
            )
        )
    return runs


def _each_flow(names: Sequence[str], goodputs: Sequence[float | None]) -> dict[str, float]:
    found = {name: rate for name, rate in zip(names, goodputs, strict=False) if rate is not None}
    return found if len(found) > 1 else {}


def _beside_marks(brief: Brief, flows: Sequence[str], marks: Sequence[float | None]) -> dict[str, float]:
    """The part of what these flows had delivered that was marked, and the run's `rtt_exponent`."""
    found: dict[str, float] = {}
    known = [count for count in marks if count is not None]
    arrived = sum(brief.delivered.get(flow, 0) for flow in flows)
    if arrived and len(known) == len(flows) and all(flow in brief.delivered for flow in flows):
        found["mark_rate"] = sum(known) / arrived
    if brief.rtt_exponent is not None:
        found["rtt_exponent"] = brief.rtt_exponent
    return found


def of_files(paths: Iterable[Path]) -> tuple[list[Run], list[str]]:
    """The runs in other tools' files, and what their readers warn of.

    Raises InputError for a file that cannot be read, and for one that is named twice.
    """
    runs: list[Run] = []
    notes: list[str] = []
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise InputError(f"{path}: is named twice")
        seen.add(path.resolve())
        for recording in base.read(path):
            notes += recording.warnings
            runs.append(_of_recording(recording))
    return runs, notes


def _of_recording(recording: Recording) -> Run:
    table = recording.tables.get("tcp")
    recorded = recorded_series.of_table(table) if table is not None else recorded_series.Recorded()
    by_flow: dict[str, dict[str, float]] = {}
    for flow in recording.flows:
        found = dict(recording.metrics.get(flow, {}))
        for name in LEVELS:
            mean = recorded.mean(flow, name)
            if name not in found and mean is not None:
                found[name] = mean
        by_flow[flow] = found
    names = list(dict.fromkeys(name for found in by_flow.values() for name in found))
    of_flows = {name: [found.get(name) for found in by_flow.values()] for name in names}
    return Run(
        label=recording.label,
        metrics=_all_flows(of_flows),
        over=_averaged(of_flows),
        identity=_content(recording),
        started=recording.started,
        series=recorded.series,
    )


def _mixed(flows: Mapping[str, Sequence[float | None]], apps: Sequence[str]) -> dict[str, list[str]]:
    """The metrics that are means over a run's flows where these are of different applications."""
    mixed: dict[str, list[str]] = {}
    if len(set(apps)) == 1:
        return mixed
    for name, values in flows.items():
        if _over(name) in ("mean", "share"):
            of = dict.fromkeys(app for app, value in zip(apps, values, strict=True) if value is not None)
            if len(of) > 1:
                mixed[name] = [str(app) for app in of]
    return mixed


def _all_flows(
    metrics: Mapping[str, Sequence[float | None]],
    active: Sequence[tuple[int, int]] = (),
    sent: Sequence[int] = (),
) -> dict[str, float]:
    """The metrics of a run from those of its flows.

    `active` says from when until when each flow was active, and `sent` how many segments it sent, where that
    is known.
    """
    whole = {}
    for name, values in metrics.items():
        known = [float(value) for value in values if value is not None]
        if not known:
            continue
        if active and name in BY_NAME and BY_NAME[name].adds_up:
            whole[name] = _over_common_time(values, active)
            continue
        match _over(name):
            case "sum":
                whole[name] = sum(known)
            case "min":
                whole[name] = min(known)
            case "max":
                whole[name] = max(known)
            case "share" if sent and sum(sent):
                whole[name] = _share(values, sent)
            case _:
                whole[name] = sum(known) / len(known)
    return whole


def _averaged(
    metrics: Mapping[str, Sequence[float | None]], sent: Sequence[int] = ()
) -> dict[str, tuple[int, int]]:
    """Number of flows that `_all_flows` takes the mean of, where there are several, as `Run.over` has it."""
    counts = {
        name: sum(value is not None for value in values)
        for name, values in metrics.items()
        if _over(name) == "mean" or (_over(name) == "share" and not (sent and sum(sent)))
    }
    shared = {metric.name for metric in METRICS if metric.of == "run"}
    return {name: (count, count) for name, count in counts.items() if count > 1 and name not in shared}


def _share(rates: Sequence[float | None], sent: Sequence[int]) -> float:
    """The part of all segments, from that of each flow."""
    known = [(rate, count) for rate, count in zip(rates, sent, strict=True) if rate is not None]
    whole = sum(count for _, count in known)
    return sum(rate * count for rate, count in known) / whole if whole else 0.0


def _over_common_time(rates: Sequence[float | None], active: Sequence[tuple[int, int]]) -> float:
    """The rate of flows together over the time in which any of them was active.

    Each flow's rate is over its own time: where one follows the other, their sum is more than a link carries.
    """
    known = [(rate, when) for rate, when in zip(rates, active, strict=True) if rate is not None]
    carried = sum(rate * (end - begin) for rate, (begin, end) in known)
    common, until = 0, min(begin for _, (begin, _) in known)
    for begin, end in sorted(when for _, when in known):
        common += max(0, end - max(begin, until))
        until = max(until, end)
    return carried / common if common else 0.0


def _over(name: str) -> str:
    """Choose the statistic of a metric over the flows of a run."""
    metric = BY_NAME.get(name)
    return "mean" if metric is None else metric.over


def _content(recording: Recording) -> str | None:
    """Equal for recordings of the same. None for a recording that holds too little to tell."""
    rows = sum(table.num_rows for table in recording.tables.values())
    if recording.started is None and rows < 10:
        return None
    text = hashlib.sha256(repr((recording.started, sorted(recording.metrics.items()))).encode())
    for name, table in sorted(recording.tables.items()):
        text.update(f"{name}\n".encode())
        for batch in table.batches():
            # Lines do not tell where the rows were cut.
            text.update(recorded_series.frame_of(batch).write_csv(include_header=False).encode())
    return text.hexdigest()


def _series_of(results: "ResultSet", index: int, flows: Sequence[str], metric: str) -> Floats:
    """A metric of a run of results over windows of a second of its measurement window."""
    if metric not in RATES and metric not in LEVELS:
        return np.empty(0)
    window = results.record(index).scenario["measure"]
    start, end = window["from_ns"] / 1e9, window["to_ns"] / 1e9
    frame = results.series(index).filter(pl.col("flow").is_in(list(flows)))
    if metric in LEVELS:
        return _level(frame.filter(pl.col("t_s").is_between(start, end)), flows, metric)
    total: Floats = np.zeros(0)
    for flow in flows:
        part = frame.filter(pl.col("flow") == flow)
        done = part["delivered_bytes"].cast(pl.Float64).to_numpy()
        rate = windowed_rate(part["t_s"].to_numpy(), done, start_s=start, stop_s=end, window_s=SERIES_S)[1]
        total = rate if not len(total) else total + rate
    return total


def _level(frame: pl.DataFrame, flows: Sequence[str], metric: str) -> Floats:
    """Means over each second of the first column of a metric that was recorded, over all flows."""
    for name in LEVELS.get(metric, ()):
        if name in frame.columns:
            rows = frame.filter(pl.col("flow").is_in(list(flows))).drop_nulls(name)
            if rows.height:
                second = (pl.col("t_s") / SERIES_S).floor()
                means = rows.group_by(second.alias("second")).agg(pl.col(name).cast(pl.Float64).mean())
                return means.sort("second")[name].to_numpy()
    return np.empty(0)


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
