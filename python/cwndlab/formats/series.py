"""From the flows of a log (`logged`) to a Recording: order, tables, and the metrics they yield."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cwndlab import tables
from cwndlab.errors import InputError
from cwndlab.formats import base
from cwndlab.formats.base import Recording
from cwndlab.logged import LATEST_NS, MAX_FLOWS, Column, Flow


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
