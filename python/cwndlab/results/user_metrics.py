"""Metrics of one's own: what an experiment file says under `metrics`, computed for each flow of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cwndlab.errors import ExperimentError, nearest, one_of, together
from cwndlab.errors import shown as quoted
from cwndlab.experiment import expression, locate
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.experiment import Experiment
from cwndlab.experiment.expression import Expression, Name, Series
from cwndlab.experiment.scenario.capacity import narrowest
from cwndlab.experiment.units import BadValue
from cwndlab.results.columns import SERIES, describe
from cwndlab.results.metrics import BY_NAME, NUMBERS, SHOWN, Metric, Value
from cwndlab.results.parts import RunRecord
from cwndlab.results.summary import six_digits
from cwndlab.testbeds import tables

TABLES = ("tcp", "queue", "tcp_info", expression.EVENTS)
"""Tables whose columns expressions may use, of `queue` those of the flow's bottleneck; of `events` kinds."""

_OTHERS = ("drop", "mark", "change", "app", "loss")
"""Kinds of events that endpoints of the engine do not tell: of hops, of applications and of real systems."""

MOST = 50
"""Metrics of one's own in a file."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_TAKEN = ("run_id", "repeat", "flow", "testbed", "run_index", "scenario_hash", "part", *BY_NAME)

_Tables = Callable[[str], pa.Table]


def check(experiment: Experiment) -> None:
    """Raise `ExperimentError` for names that are taken, and for metrics and series that do not exist."""
    swept = [key for axis in experiment.axes for key in axis.keys]
    faults: list[ExperimentError] = []
    for name, bad in _faults(experiment.spec.metrics, swept):
        faults.append(locate.fault(experiment.tree, ("metrics", name), bad))
    if faults:
        raise together(faults)


def numbers(own: Iterable[str]) -> tuple[str, ...]:
    """The metrics that are numbers, an experiment's own too."""
    return (*NUMBERS, *own)


def shown(own: Iterable[str]) -> dict[str, Metric]:
    """The metrics of a table for a terminal, an experiment's own first."""
    named = {name: describe(name) for name in own}
    made = {name: Metric(name, of.words, of.unit, head=of.words) for name, of in named.items()}
    return made | SHOWN


def of_texts(texts: Mapping[str, str], keys: Sequence[str]) -> dict[str, Expression]:
    """The expressions that a header of results has; raises `BadValue` for what no experiment could say."""
    found = {name: expression.parse(text) for name, text in texts.items()}
    for _, bad in _faults(found, keys):
        raise bad
    return found


def values(
    expressions: Mapping[str, Expression],
    record: RunRecord,
    rows: Mapping[str, Mapping[str, Value]],
    table: _Tables,
) -> dict[str, dict[str, Value]]:
    """The metrics of each flow of a run, from its rows of the summary and its tables as they are stored."""
    read = cache(table)
    return {flow: _of_flow(expressions, record, flow, row, read) for flow, row in rows.items()}


def _of_flow(
    expressions: Mapping[str, Expression],
    record: RunRecord,
    flow: str,
    row: Mapping[str, Value],
    table: _Tables,
) -> dict[str, Value]:
    found: dict[str, Value] = {}

    def known(leaf: Name | Series) -> float | None:
        if isinstance(leaf, Series):
            return _statistic(leaf, record, flow, table)
        value = found[leaf.name] if leaf.name in found else row[leaf.name]
        return float(value) if isinstance(value, int | float) else None

    for name, each in expressions.items():
        value = each.value(known)
        found[name] = six_digits(value) if value is not None and math.isfinite(value) else None
    return found


def _statistic(asked: Series, record: RunRecord, flow: str, table: _Tables) -> float | None:
    """A statistic over the measurement window, of the flow or, of the table `queue`, of its bottleneck."""
    if asked.table == expression.EVENTS:
        return _of_events(asked, record, flow, table(asked.table))
    rows, (key, owner) = table(asked.table), ("flow", flow)
    if asked.table == "queue":
        bottleneck = narrowest(record.scenario, flow)
        if bottleneck is None:
            return None
        key, owner = "hop", bottleneck[0]
    column = next(name for name in rows.column_names if tables.api_name(name) == asked.column)
    start, end = record.scenario["measure"]["from_ns"], record.scenario["measure"]["to_ns"]
    own = rows.filter(
        (pc.field(key).cast(pa.utf8()) == owner)
        & (pc.field("t_ns") >= start)
        & (pc.field("t_ns") < end)
        & pc.field(column).is_valid()
    )
    if not own.num_rows:
        return None
    taken = own[column].to_numpy().astype(float) / (1e6 if column.endswith("_ns") else 1.0)
    lasts = np.diff(own["t_ns"].to_numpy().astype(float), append=float(end))
    return _OF[asked.statistic](taken, lasts)


def _of_events(asked: Series, record: RunRecord, flow: str, rows: pa.Table) -> float | None:
    """Statistic of a flow's events of a kind, or of changes of links, in the measurement window."""
    start, end = record.scenario["measure"]["from_ns"], record.scenario["measure"]["to_ns"]
    own = rows.filter(
        ((pc.field("flow").cast(pa.utf8()) == flow) | pc.field("flow").is_null())
        & (pc.field("t_ns") >= start)
        & (pc.field("t_ns") < end)
    )
    kinds = np.array([str(kind).replace("-", "_") for kind in own["kind"].to_pylist()], dtype=np.str_)
    times = own["t_ns"].to_numpy().astype(float)
    asked_for = np.isin(kinds, [asked.column])
    if asked.statistic == expression.COUNT:
        return float(asked_for.sum())
    if asked.statistic == expression.UNTIL:
        return _longest(times[asked_for], times[kinds == asked.then])
    has_value = own["value"].is_valid().to_numpy()
    given = own.filter(pa.array(asked_for & has_value))
    if not given.num_rows:
        return None
    lasts = np.diff(given["t_ns"].to_numpy().astype(float), append=float(end))
    return _OF[asked.statistic](given["value"].to_numpy().astype(float), lasts)


def _longest(begins: _Numbers, ends: _Numbers) -> float | None:
    """The longest time (ms) to one of `ends` from the last of `begins` that came since the one before."""
    at = np.searchsorted(begins, ends, side="right")
    first = np.diff(at, prepend=0) > 0
    return float((ends[first] - begins[at[first] - 1]).max()) / 1e6 if first.any() else None


_Numbers = np.ndarray[tuple[int], np.dtype[np.float64]]


def _share(taken: _Numbers, lasts: _Numbers, share: float) -> float:
    """The smallest value that the series does not exceed for that share of the time."""
    order = np.argsort(taken, kind="stable")
    passed = np.cumsum(lasts[order])
    return float(taken[order][np.searchsorted(passed, share * passed[-1])])


_OF: Mapping[str, Callable[[_Numbers, _Numbers], float]] = {
    "mean": lambda taken, lasts: float((taken * lasts).sum() / lasts.sum()),
    "min": lambda taken, lasts: float(taken.min()),
    "max": lambda taken, lasts: float(taken.max()),
    "p50": lambda taken, lasts: _share(taken, lasts, 0.5),
    "p95": lambda taken, lasts: _share(taken, lasts, 0.95),
    "first": lambda taken, lasts: float(taken[0]),
    "last": lambda taken, lasts: float(taken[-1]),
}
"""Statistics that `expression.STATISTICS` names, of values and the time each lasts."""


def _faults(expressions: Mapping[str, Expression], keys: Iterable[str]) -> Iterator[tuple[str, BadValue]]:
    """Yield the faults of metrics, by name; each may use those before it."""
    if len(expressions) > MOST:
        name = list(expressions)[MOST]
        yield name, BadValue(f"{len(expressions)} metrics", f"at most {MOST}", of_key=True)
    before: list[str] = list(NUMBERS)
    for name, each in expressions.items():
        if not _NAME.fullmatch(name):
            expected = "small letters, digits and _, such as queue_p50_ms; the ending is the unit"
            yield name, BadValue(f"the name {quoted(name)}", expected, of_key=True)
        elif name in _TAKEN or name in keys:
            yield name, BadValue(f"the name {quoted(name)}", "one that no other column has", of_key=True)
        for leaf in each.leaves():
            bad = _series_fault(leaf) if isinstance(leaf, Series) else _name_fault(leaf, before)
            if bad is not None:
                yield name, bad
        before.append(name)


def _name_fault(leaf: Name, known: Sequence[str]) -> BadValue | None:
    if leaf.name in known:
        return None
    expected = "a metric of the summary, one defined before, or a statistic such as mean(tcp.cwnd_bytes)"
    return BadValue(f"the metric {quoted(leaf.name)}", expected, nearest(leaf.name, known))


def _series_fault(leaf: Series) -> BadValue | None:
    if leaf.table not in TABLES:
        return BadValue(f"the table {quoted(leaf.table)}", one_of(TABLES), nearest(leaf.table, TABLES))
    if leaf.table == expression.EVENTS:
        return _kind_fault(leaf.column) or (_kind_fault(leaf.then) if leaf.then else None)
    known = SERIES[leaf.table]
    if leaf.column in known:
        return None
    hint = nearest(leaf.column, known)
    return BadValue(f"the column {quoted(leaf.column)} of {leaf.table}", one_of(known), hint)


def _kind_fault(column: str) -> BadValue | None:
    known = [kind.replace("-", "_") for kind in (*catalogue().events, *_OTHERS)]
    if column in known:
        return None
    return BadValue(f"the kind of events {quoted(column)}", one_of(known), nearest(column, known))
