"""From columns of numbers that a logger wrote to a Recording: bounds, tables, and the metrics they yield."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from cwndlab import tables
from cwndlab.errors import InputError
from cwndlab.formats import base
from cwndlab.formats.base import Recording
from cwndlab.text import printable

Column = np.ndarray[Any, Any]

MAX_FLOWS = 10_000
"""Flows of one file at most."""

LARGEST = 2.0**53
"""Numbers of a log from here on are taken for absent: no window, time or counter of one connection is as
large, and a float holds every whole number below."""

LATEST_NS = 2**62
"""Times in ns from here on (the year 2116 since 1970) are taken for damage."""

INFINITE_BYTES = 65535 << 14
"""A window of so many bytes or more is no limit: the largest that TCP can announce (RFC 7323 section 2.3)."""


@dataclass
class Flow:
    """What was logged of the data that one host sends to another."""

    name: str
    t_ns: Column
    """When, ns since whatever the log counts from, as int64; any order."""
    columns: dict[str, Any] = field(default_factory=dict)
    """Columns of the `tcp` table: arrays of floats, NaN where nothing was logged, and `state` as a list."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Metrics the log itself gives, which win over those that follow from the columns."""
    more: dict[str, Column] = field(default_factory=dict)
    """Columns of the log that no table has a place for, by the log's own names, in its own units."""


def name_of(source: object, source_port: object, target: object, target_port: object) -> str:
    """The name of what `source` sends: `10.0.0.1:40000-10.0.1.1:5001`, addresses of IPv6 in brackets."""

    def end(address: object, port: object) -> str:
        text = str(address)
        return f"[{text}]:{port}" if ":" in text else f"{text}:{port}"

    return printable(f"{end(source, source_port)}-{end(target, target_port)}")


def recording(
    kind: str,
    path: Path,
    label: str,
    flows: Sequence[Flow],
    *,
    epoch: bool = True,
    zero_ns: int | None = None,
    facts: Mapping[str, str] | None = None,
    warnings: Sequence[str] = (),
    prefix: str = "",
) -> Recording:
    """One run of these flows; time 0 is `zero_ns`, or the earliest row.

    What the log has more becomes samples of kinds `PREFIX.COLUMN`. With `epoch` times count from 1970, which
    says when the run began. Raises InputError when there is no row.
    """
    flows = [flow for flow in flows if len(flow.t_ns)]
    if not flows:
        raise InputError(f"{path}: {kind} without a record of any connection")
    if len(flows) > MAX_FLOWS:
        raise InputError(f"{path}: more than {MAX_FLOWS} connections")
    for flow in flows:
        _order(flow)
    zero = min(int(flow.t_ns[0]) for flow in flows)
    zero = zero if zero_ns is None else min(zero, zero_ns)
    last = max(int(flow.t_ns[-1]) for flow in flows)
    if zero < 0 or last >= LATEST_NS:
        raise InputError(f"{path}: times that are not between 1970 and 2116")
    for flow in flows:
        flow.t_ns = flow.t_ns - zero
    return Recording(
        kind,
        path,
        label,
        tuple(flow.name for flow in flows),
        {flow.name: {**metrics(flow), **flow.metrics} for flow in flows},
        {"tcp": table(flows)} | _more(flows, prefix),
        datetime.fromtimestamp(zero / 1e9, UTC) if epoch else None,
        dict(facts or {}),
        tuple(warnings),
    )


def warned(found: Recording, warning: str) -> Recording:
    """The run with one more warning."""
    return replace(found, warnings=(*found.warnings, warning))


def _more(flows: Sequence[Flow], prefix: str) -> dict[str, pa.Table]:
    """Samples of the columns that no table has a place for: a row where a value changes, and the last one.

    Only whole numbers; a column of a flow without any has no row.
    """
    times, names, kinds, values = [], [], [], []
    for flow in flows:
        for name, column in flow.more.items():
            there = np.isfinite(column)
            if not there.any() or np.any(column[there] != np.rint(column[there])):
                continue
            t_ns, known = flow.t_ns[there], column[there]
            changes = np.append(True, known[1:] != known[:-1])
            changes[-1] = True
            times.append(t_ns[changes])
            values.append(known[changes])
            names += [flow.name] * int(changes.sum())
            kinds += [f"{prefix}.{name}"] * int(changes.sum())
    if not times:
        return {}
    t_ns = np.concatenate(times)
    order = np.argsort(t_ns, kind="stable")
    return {
        "samples": base.rows(
            "samples",
            t_ns=t_ns[order].astype(np.uint64),
            flow=np.array(names, object)[order].tolist(),
            kind=np.array(kinds, object)[order].tolist(),
            value=np.concatenate(values)[order],
        )
    }


def table(flows: Sequence[Flow]) -> pa.Table:
    """The `tcp` table of flows whose times count from the run's beginning."""
    times = np.concatenate([flow.t_ns for flow in flows])
    order = np.argsort(times, kind="stable")
    columns: dict[str, Any] = {"t_ns": times[order].astype(np.uint64)}
    # Objects: numpy's own strings lose NULs at their end, which a damaged name may have.
    names = np.repeat(np.array([flow.name for flow in flows], object), [len(flow.t_ns) for flow in flows])
    columns["flow"] = names[order].tolist()
    wanted = {name for flow in flows for name in flow.columns}
    for name in tables.SCHEMAS["tcp"].names:
        if name in wanted:
            parts = [np.asarray(flow.columns.get(name, _nothing(name, len(flow.t_ns)))) for flow in flows]
            whole = np.concatenate(parts)[order]
            columns[name] = whole.tolist() if name == "state" else whole
    return base.rows("tcp", **columns)


def metrics(flow: Flow) -> dict[str, float]:
    """The metrics that follow from a flow's columns; what they do not hold is absent.

    cwnd is averaged over time, RTT over its samples (over smoothed ones where there are no others).
    """
    found: dict[str, float] = {}
    seconds = (flow.t_ns[-1] - flow.t_ns[0]) / 1e9 if len(flow.t_ns) else 0.0
    delivered = _known(flow, "delivered_bytes")
    if len(delivered) > 1 and seconds > 0:
        found["goodput_mbps"] = 8e-6 * float(delivered[-1] - delivered[0]) / seconds
    cwnd = flow.columns.get("cwnd_bytes")
    if cwnd is not None and np.isfinite(cwnd).any():
        there = np.isfinite(cwnd)
        held = np.diff(flow.t_ns[there], append=flow.t_ns[-1])
        weights = held if held.sum() > 0 else np.ones(int(there.sum()))
        found["cwnd_mean_bytes"] = float(np.average(cwnd[there], weights=weights))
        found["cwnd_max_bytes"] = float(cwnd[there].max())
    rtt = _known(flow, "rtt_ns")
    rtt = rtt if len(rtt) else _known(flow, "srtt_ns")
    rtt = rtt[rtt > 0] / 1e6
    if len(rtt):
        found |= rtt_metrics(rtt)
    state = flow.columns.get("state")
    if state is not None:
        recovering = np.asarray([word in ("recovery", "loss") for word in state])
        entries = flow.t_ns[1:][recovering[1:] & ~recovering[:-1]]
        found["fast_recoveries"] = float(len(entries))
        if len(entries) > 1:
            found["cycle_s"] = float(entries[-1] - entries[0]) / 1e9 / (len(entries) - 1)
    return found


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


def numbers(column: pl.Series, scale: float = 1.0) -> Column:
    """A column of text as floats times `scale`; NaN for what is no number, negative or too large."""
    values = column.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().astype(np.float64)
    return bounded(values * scale)


def bounded(values: Column) -> Column:
    """The values with NaN for what is negative or too large."""
    with np.errstate(invalid="ignore"):
        return np.where((values >= 0) & (values < LARGEST), values, np.nan)


def finite_window(values: Column) -> Column:
    """A slow-start threshold with NaN where it is infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(values < INFINITE_BYTES, values, np.nan)


def nanoseconds(column: pl.Series) -> Column:
    """A column of `SECONDS.FRACTION` as int64 ns, exactly; -1 for what is none."""
    parts = column.str.extract_groups(r"^\s*(\d{1,10})(?:\.(\d{1,9})\d*)?\s*$").struct
    names = parts.fields
    seconds = parts.field(names[0]).cast(pl.Int64, strict=False)
    fraction = parts.field(names[1]).fill_null("0").str.pad_end(9, "0").cast(pl.Int64, strict=False)
    return (seconds * 1_000_000_000 + fraction).fill_null(-1).to_numpy().astype(np.int64)


def unwrapped(values: Column) -> Column:
    """32-bit sequence numbers as a counter from 0 that does not wrap and does not go back.

    Takes each number as the one nearest to that before it; NaN stays.
    """
    there = np.isfinite(values)
    if not there.any():
        return np.full(len(values), np.nan)
    known = values[there].astype(np.int64)
    steps = (np.diff(known) + 2**31) % 2**32 - 2**31
    counted = np.maximum.accumulate(np.concatenate([[0], np.cumsum(steps)]))
    out = np.full(len(values), np.nan)
    out[there] = counted
    return out


def states(cwnd: Column, ssthresh: Column, recovering: Column | None = None) -> list[str | None]:
    """The state of each row: recovery where the log says so, slow start below ssthresh, else avoidance."""
    known = np.isfinite(cwnd)
    # An infinite threshold is NaN, and every window is below it.
    below = ~(cwnd >= ssthresh)
    words = np.where(below, "slow-start", "avoidance").astype(object)
    if recovering is not None:
        words[recovering] = "recovery"
    words[~known] = None
    return list(words)


def by_flow(
    frame: pl.DataFrame, keys: Sequence[str], make: Callable[[str, pl.DataFrame], Flow | None]
) -> list[Flow]:
    """A Flow of each combination of `keys` (address, port, address, port), in order of appearance."""
    flows: dict[str, Flow] = {}
    groups = frame.partition_by(list(keys), maintain_order=True)
    if len(groups) > MAX_FLOWS:
        raise ValueError(f"more than {MAX_FLOWS} connections")
    for group in groups:
        name = name_of(*(group[key][0] for key in keys))
        flow = make(name, group)
        if flow is not None and len(flow.t_ns):
            flows[name] = flow
    return list(flows.values())


def fields(text: str, counts: Sequence[int], separator: str = ",") -> tuple[pl.DataFrame, int]:
    """The lines with one of `counts` fields as columns of text `c0`, `c1`, …, and how many have another."""
    lines = pl.Series("line", text.split("\n")).str.strip_chars("\r")
    lines = lines.filter(lines.str.len_bytes() > 0)
    # Counted before they are split: a line may be all separators.
    fitting = (lines.str.count_matches(separator, literal=True) + 1).is_in(list(counts))
    kept = lines.filter(fitting).str.split(separator)
    names = [f"c{place}" for place in range(max(counts))]
    columns = [
        kept.list.get(place, null_on_oob=True).str.strip_chars().alias(name)
        for place, name in enumerate(names)
    ]
    return pl.DataFrame(columns), len(lines) - len(kept)


def _known(flow: Flow, name: str) -> Column:
    values = flow.columns.get(name)
    return np.empty(0) if values is None else values[np.isfinite(values)]


def _order(flow: Flow) -> None:
    if np.all(flow.t_ns[1:] >= flow.t_ns[:-1]):
        return
    order = np.argsort(flow.t_ns, kind="stable")
    flow.t_ns = flow.t_ns[order]
    flow.more = {name: values[order] for name, values in flow.more.items()}
    flow.columns = {
        name: [values[place] for place in order] if isinstance(values, list) else values[order]
        for name, values in flow.columns.items()
    }


def _nothing(name: str, rows: int) -> Column:
    return np.full(rows, None, object) if name == "state" else np.full(rows, np.nan)
