"""Flent's data files (`.flent.gz`, format version 4): written from results as its test `tcp_nup`, and read.

The layout is that of Flent's `resultset.py`: `metadata`, `x_values` (seconds), `results` (a list for each
series, as long, null where there is no value) and `raw_values` (a list of points with their own time). A run
becomes the test with as many uploads as it has flows: `TCP upload::N` in Mbit/s, their sum and average, and
the round-trip time as `Ping (ms) ICMP`; cwnd and RTT of each flow are in the raw values under Flent's own
keys.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cwndlab.errors import InputError
from cwndlab.experiment.damage import damage
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds.logs import connections
from cwndlab.testbeds.logs.connections import Column, Flow

NAME = "Flent"

STEP_S = 0.2
"""Time between points: Flent's own default."""

_RATE = r"TCP (up|down)load(?!.*(avg|sum|fairness|::tcp_))"
"""Series that are rates of a flow."""

_SAMPLED = (
    ("tcp_rtt", "srtt_ns", 1e6),
    ("tcp_cwnd", "cwnd_bytes", 1448.0),
    ("tcp_pacing_rate", "pacing_bps", 1e6),
)
"""Samples that Flent takes of a socket with `ss`: ms, segments, Mbit/s on the grid."""

MAX_POINTS = 5_000_000
"""Points of a series at most."""


def write(results: ResultSet, run: str, out: Path) -> Iterator[Path]:
    """Write a run that has a counter of what was delivered."""
    frame = results.series(run)
    record = results.record(run)
    there = set(frame["flow"].cast(pl.String).unique()) if frame.height else set()
    ends = {flow["name"]: (flow["from"], flow["to"]) for flow in record.scenario["flows"]}
    flows = [name for name in ends if name in there]
    length = record.scenario["duration_ns"] / 1e9
    grid = np.arange(0, max(length, STEP_S) + STEP_S / 2, STEP_S)
    started = datetime.fromisoformat(record.started)
    rates: list[Column] = []
    raw: dict[str, list[dict[str, float]]] = {}
    rtts: list[Column] = []
    for number, flow in enumerate(flows, 1):
        rows = frame.filter(pl.col("flow").cast(pl.String) == flow)
        t_s = rows["t_s"].to_numpy()
        delivered = rows["delivered_bytes"].cast(pl.Float64).fill_null(np.nan).to_numpy()
        rates.append(_rates(t_s, delivered, grid))
        rtt = rows["rtt_ms"].fill_null(rows["srtt_ms"]).cast(pl.Float64).fill_null(np.nan).to_numpy()
        rtts.append(_means(t_s, rtt, grid))
        cwnd = rows["cwnd_bytes"].cast(pl.Float64).fill_null(np.nan).to_numpy()
        raw[f"TCP upload::{number}"] = _raw(started.timestamp(), grid, rates[-1], t_s=t_s, rtt=rtt, cwnd=cwnd)
    known = [values for values in rates if np.isfinite(values).any()]
    if not known:
        return
    total, many = np.sum(known, axis=0), len(flows)
    ping = _mean_of(rtts)
    columns = {
        **{f"TCP upload::{number}": values for number, values in enumerate(rates, 1)},
        "TCP upload sum": total,
        "TCP upload avg": total / len(known),
        "Ping (ms) ICMP": ping,
    }
    raw["Ping (ms) ICMP"] = [
        {"t": started.timestamp() + float(t), "val": float(value)}
        for t, value in zip(grid, ping, strict=True)
        if np.isfinite(value)
    ]
    stem = re.sub(r"[^A-Za-z0-9-]", "_", run)
    stamp = started.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    content = {
        "version": 4,
        "metadata": {
            "NAME": "tcp_nup",
            "TITLE": f"{results.header.experiment} {run}",
            "TIME": stamp,
            "T0": stamp,
            "DATA_FILENAME": f"tcp_nup-{stem}.flent.gz",
            "HOST": "receiver",
            "HOSTS": ["receiver"],
            "LOCAL_HOST": "sender",
            "LENGTH": round(length),
            "TOTAL_LENGTH": float(grid[-1]),
            "STEP_SIZE": STEP_S,
            "IP_VERSION": 4,
            "NOTE": f"exported by cwndlab from {record.testbed}",
            "TEST_PARAMETERS": {"upload_streams": str(many)},
            "SERIES_META": {
                name: {"UNITS": "ms" if "ms" in name else "Mbits/s"} | _meta(name, flows, ends)
                for name in columns
            },
            "FLENT_VERSION": "2.1.1",
            "FAILED_RUNNERS": 0,
        },
        "x_values": [round(float(x), 6) for x in grid],
        "results": {name: _nulls(values) for name, values in columns.items()},
        "raw_values": raw,
    }
    file = out / f"tcp_nup-{stem}.flent.gz"
    # No time in the file's header: equal results are equal bytes.
    file.write_bytes(gzip.compress(json.dumps(content, allow_nan=False).encode(), mtime=0))
    yield file


def _meta(name: str, flows: list[str], ends: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Which flow of the experiment a series is of."""
    number = name.removeprefix("TCP upload::")
    if number == name or not number.isdigit():
        return {}
    flow = flows[int(number) - 1]
    return {"FLOW": flow, "FROM": ends[flow][0], "TO": ends[flow][1]}


MARKS = {f'"{key}"': rb'"%s"\s*:' % key.encode() for key in ("metadata", "results", "x_values", "raw_values")}
"""Marks of a file of this format, in words, and how it is found."""


_OWN = rb'"(?:x_values|raw_values|FLENT_VERSION)"\s*:|\{\s*"version"\s*:\s*\d+\s*,\s*"metadata"\s*:'
"""Keys that no other tool's JSON has, or has so."""


def recognises(head: bytes) -> bool:
    """Whether the file is a JSON object with a key of Flent's own, wherever that stands."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return start.startswith(b"{") and re.search(_OWN, start) is not None


def read(path: Path) -> list[Recording]:
    """The one run of a file: a flow for each `TCP upload` and `TCP download`, with its rate and what was
    sampled of it.

    Raises InputError for a file that is damaged, or holds no TCP stream.
    """
    try:
        content = json.loads(base.json_text(path), object_hook=_lean)
        return [_recording(path, content)]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError) as error:
        raise InputError(f"{path}: not a whole file of Flent ({damage(error)})") from None


def _lean(found: dict[str, Any]) -> Any:
    """A raw value as its time, RTT and cwnd: with all its keys it would take most of the memory."""
    return (found["t"], found.get("tcp_rtt"), found.get("tcp_cwnd")) if "t" in found else found


def _recording(path: Path, content: Mapping[str, Any]) -> Recording:
    x = np.array(content["x_values"], dtype=np.float64)
    if len(x) > MAX_POINTS or x.ndim != 1 or not np.all((x >= 0) & (x < 1e9)):
        raise InputError(f"{path}: x_values are no times")
    results = content["results"]
    names = [name for name in results if re.match(_RATE, name)]
    # Flent keeps what it sampled of a socket in series of their own: `TCP upload::1::tcp_cwnd`.
    flows = []
    for name in names:
        values = results[name]
        rates = np.array([np.nan if value is None else float(value) for value in values])
        if len(rates) != len(x):
            raise InputError(f"{path}: {name[:40]} has another length than x_values")
        steps = np.diff(x, prepend=0)
        with np.errstate(invalid="ignore"):
            delivered = np.cumsum(np.nan_to_num(rates * 1e6 / 8 * steps, posinf=0, neginf=0))
        if not np.isfinite(rates).any():
            delivered = np.full(len(x), np.nan)
        columns: dict[str, Any] = {"delivered_bytes": connections.bounded(delivered)}
        points = content.get("raw_values", {}).get(name, [])
        columns |= _beside(path, results, name, len(x)) | _sampled(points, x)
        whole = rates[np.isfinite(rates)]
        metrics = {"goodput_mbps": float(whole.mean())} if len(whole) else {}
        flows.append(Flow(str(name)[:64], (x * 1e9).astype(np.int64), columns, metrics))
    facts = {
        key: str(content["metadata"][key])[:100]
        for key in ("NAME", "TITLE", "HOST")
        if key in content["metadata"]
    }
    return series.recording(NAME, path, path.name, flows, epoch=False, facts=facts)


def _beside(path: Path, results: Mapping[str, Any], flow: str, length: int) -> dict[str, Column]:
    """Return the samples of a flow's socket, on the grid."""
    found = {}
    for key, column, scale in _SAMPLED:
        values = results.get(f"{flow}::{key}")
        if values is None:
            continue
        known = np.array([np.nan if value is None else float(value) for value in values])
        if len(known) != length:
            raise InputError(f"{path}: {flow[:40]}::{key} has another length than x_values")
        found[column] = connections.bounded(known * scale)
    return found


def _sampled(points: list[tuple[Any, ...]], x: Column) -> dict[str, Column]:
    """cwnd and RTT among the raw values, held until the next point of the grid."""
    found = {}
    zero = min((float(point[0]) for point in points if point), default=0.0)
    for place, (_, column, scale) in enumerate(_SAMPLED[:2], 1):
        known = [point for point in points if point and point[place] is not None]
        if known:
            t_s, values = (np.array([point[at] for point in known], np.float64) for at in (0, place))
            t_s -= zero
            places = np.searchsorted(t_s, x, side="right") - 1
            held = np.where(places >= 0, values[np.maximum(places, 0)] * scale, np.nan)
            found[column] = connections.bounded(held)
    return found


def _rates(t_s: Column, delivered: Column, grid: Column) -> Column:
    """Mbit/s of each step that ends at a point of the grid; 0 before the first row and where nothing came."""
    known = np.isfinite(delivered)
    if not known.any():
        return np.full(len(grid), np.nan)
    places = np.searchsorted(t_s[known], grid, side="right") - 1
    counted = np.where(places >= 0, delivered[known][np.maximum(places, 0)], 0.0)
    return np.diff(counted, prepend=0.0) * 8e-6 / STEP_S


def _means(t_s: Column, values: Column, grid: Column) -> Column:
    """The mean of the samples in each step; NaN in one without any."""
    known = np.isfinite(values)
    places = np.clip(np.ceil(t_s[known] / STEP_S - 1e-9).astype(int), 0, len(grid) - 1)
    sums = np.bincount(places, values[known], len(grid))
    counts = np.bincount(places, minlength=len(grid))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counts > 0, sums / counts, np.nan)


def _mean_of(columns: list[Column]) -> Column:
    stacked = np.array(columns)
    counts = np.isfinite(stacked).sum(axis=0)
    return np.where(counts > 0, np.nansum(stacked, axis=0) / np.maximum(counts, 1), np.nan)


def _raw(
    start: float, grid: Column, rates: Column, *, t_s: Column, rtt: Column, cwnd: Column
) -> list[dict[str, float]]:
    """Points with Flent's keys: rate in bit/s, RTT in ms, cwnd in segments as `ss` counts them."""
    places = np.clip(np.searchsorted(t_s, grid, side="right") - 1, 0, max(len(t_s) - 1, 0))
    points = []
    for place, t, rate in zip(places, grid, rates, strict=True):
        point = {"t": start + float(t), "dur": STEP_S}
        if np.isfinite(rate):
            point["val"] = float(rate)
        if len(t_s) and np.isfinite(rtt[place]):
            point["tcp_rtt"] = float(rtt[place])
        if len(t_s) and np.isfinite(cwnd[place]):
            point["tcp_cwnd"] = float(cwnd[place]) / 1448
        points.append(point)
    return points


def _nulls(values: Column) -> list[float | None]:
    return [round(float(value), 6) if np.isfinite(value) else None for value in values]
