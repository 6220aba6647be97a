"""Results as qlog: a file for each run, a trace for each flow, in names of the current draft or of 0.3.

The events are those of QUIC (draft-ietf-quic-qlog-quic-events), filled with what TCP has of the same meaning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from cwndlab.results import sampling
from cwndlab.results.resultset import ResultSet

DRAFT = 13
"""Number of draft-ietf-quic-qlog-quic-events that the names of events are of."""

_FIELDS = {
    "congestion_window": pl.col("cwnd_bytes"),
    "ssthresh": pl.col("ssthresh_bytes"),
    "bytes_in_flight": pl.col("inflight_bytes"),
    "smoothed_rtt": (pl.col("srtt_ns") / 1e6).round(6),
    "latest_rtt": (pl.col("rtt_ns") / 1e6).round(6),
    "pacing_rate": pl.col("pacing_bps"),
}
"""Fields of metrics, and what fills each, in the units of the draft: bytes, ms, bit/s."""

_STATES = {"slow-start": "slow_start", "avoidance": "congestion_avoidance"}
"""States that the draft's text calls otherwise; a state of `disorder` changes nothing yet."""


@dataclass(frozen=True)
class _Version:
    """Names of a version of qlog."""

    head: Mapping[str, str]
    trace: Mapping[str, Any]
    metrics: str
    state: str
    lost: str
    timer: str


_HEAD = {
    "file_schema": "urn:ietf:params:qlog:file:contained",
    "serialization_format": "application/qlog+json",
}
# qvis asks for these two, whatever else a file says.
_OLD_HEAD = {"qlog_version": "0.3", "qlog_format": "JSON"}
_CLOCK = {"clock_type": "monotonic", "epoch": "unknown"}

VERSIONS = {
    "qlog": _Version(
        {**_HEAD, **_OLD_HEAD},
        {
            "event_schemas": [f"urn:ietf:params:qlog:events:quic-{DRAFT}"],
            "common_fields": {"time_format": "relative_to_epoch", "reference_time": _CLOCK},
        },
        metrics="quic:recovery_metrics_updated",
        state="quic:congestion_state_updated",
        lost="quic:packet_lost",
        timer="quic:timer_updated",
    ),
    "qlog-0.3": _Version(
        _OLD_HEAD,
        {"common_fields": {"time_format": "relative", "reference_time": 0}},
        metrics="recovery:metrics_updated",
        state="recovery:congestion_state_updated",
        lost="recovery:packet_lost",
        timer="recovery:loss_timer_updated",
    ),
}
"""Versions that are written, by the word for the format."""


def write(results: ResultSet, run: str, out: Path, form: str = "qlog") -> Iterator[Path]:
    """Write the rows of a run that have a congestion window, and its losses and timeouts."""
    version = VERSIONS[form]
    rows = _frame(results, run, "tcp").filter(pl.col("cwnd_bytes").is_not_null())
    if not rows.height:
        return
    events = _frame(results, run, "events")
    trace_of_run = {**version.trace, **_sampling(results, run)}
    file = out / f"{re.sub(r'[^A-Za-z0-9-]', '_', run)}.qlog"
    head = {**version.head, "title": f"{results.header.experiment} {run}"}
    with file.open("w", encoding="utf-8") as written:
        written.write(json.dumps(head)[:-1] + ', "traces": [')
        for place, flow in enumerate(rows["flow"].unique(maintain_order=True).to_list()):
            trace = {"title": flow, "vantage_point": {"name": flow, "type": "client"}, **trace_of_run}
            written.write(
                ("," if place else "") + "\n" + json.dumps(_grouped(trace, flow))[:-1] + ', "events": [\n'
            )
            of_flow = pl.col("flow") == flow
            lines = _lines(version, rows.filter(of_flow), events.filter(of_flow))
            written.write(",\n".join(lines) + "\n]}")
        written.write("]}\n")
    yield file


def write_0_3(results: ResultSet, run: str, out: Path) -> Iterator[Path]:
    """Write a run as version 0.3, whose names qvis draws windows by."""
    yield from write(results, run, out, "qlog-0.3")


def _sampling(results: ResultSet, run: str) -> dict[str, Any]:
    """Say how often the windows were looked at, where that was not at each ACK."""
    every = sampling.every_ms(results.record(run))
    return {} if every is None else {"description": f"windows every {every:g} ms", sampling.SAMPLED: every}


def _grouped(trace: Mapping[str, Any], flow: str) -> dict[str, Any]:
    return {**trace, "common_fields": {**trace["common_fields"], "group_id": flow}}


def _frame(results: ResultSet, run: str, table: str) -> pl.DataFrame:
    frame = pl.from_arrow(results.rows(run, table))
    if not isinstance(frame, pl.DataFrame):
        raise TypeError("a table of Arrow makes a frame")
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))


def _lines(version: _Version, rows: pl.DataFrame, events: pl.DataFrame) -> Sequence[str]:
    """The events of a flow as JSON, in order of time; a state or a loss before the window that follows it."""
    parts = [
        _changes(version, rows),
        _losses(version, events),
        _timeouts(version, events),
        _metrics(version, rows),
    ]
    return pl.concat(parts).sort("t_ns", maintain_order=True)["line"].to_list()


def _metrics(version: _Version, rows: pl.DataFrame) -> pl.DataFrame:
    fields = [pl.format(f'"{name}": {{}}', value) for name, value in _FIELDS.items()]
    return _told(rows, version.metrics, pl.concat_str(*fields, separator=", ", ignore_nulls=True))


def _changes(version: _Version, rows: pl.DataFrame) -> pl.DataFrame:
    states = rows.select("t_ns", pl.col("state").replace("disorder", None).forward_fill()).drop_nulls()
    states = states.with_columns(pl.col("state").replace(_STATES))
    states = states.with_columns(pl.col("state").shift().alias("before"))
    changed = states.filter(pl.col("state").ne_missing(pl.col("before")))
    old, new = pl.format('"old": "{}"', "before"), pl.format('"new": "{}"', "state")
    return _told(changed, version.state, pl.concat_str(old, new, separator=", ", ignore_nulls=True))


def _losses(version: _Version, events: pl.DataFrame) -> pl.DataFrame:
    lost = events.filter(pl.col("kind").is_in(["drop", "loss"]))
    opened = pl.lit('"header": {"packet_type": "1RTT", "packet_number": ')
    header = pl.concat_str(opened, pl.col("seq").cast(pl.String), pl.lit("}"))
    return _told(lost, version.lost, header.fill_null(""))


def _timeouts(version: _Version, events: pl.DataFrame) -> pl.DataFrame:
    fired = events.filter(pl.col("kind").is_in(["rto", "probe-timeout"]))
    return _told(fired, version.timer, pl.lit('"timer_type": "pto", "event_type": "expired"'))


def _told(rows: pl.DataFrame, name: str, data: pl.Expr) -> pl.DataFrame:
    """Events of one name as lines, with their times."""
    time = (pl.col("t_ns") / 1e6).round(6).cast(pl.String)
    opened = pl.lit(f', "name": "{name}", "data": {{')
    line = pl.concat_str(pl.lit('{"time": '), time, opened, data, pl.lit("}}"))
    return rows.select(pl.col("t_ns").cast(pl.Int64), line.alias("line"))
