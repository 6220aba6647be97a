"""Transcripts of `ss -tin`: what it printed again and again, with the time printed before each.

A time is a line of its own before what it belongs to: seconds since 1970 (`date +%s.%N`), or as ISO 8601
(`date -Ins`). Where none stands, samples are taken to be one second apart, which the run's warnings say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cwndlab import logged, ss_output
from cwndlab.errors import InputError
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.logged import Flow

NAME = "ss -tin"

MAX_SAMPLES = 5_000_000
"""Samples of connections in one transcript at most."""

INFINITE_SEGMENTS = 0x7FFF_FFFF


@dataclass
class _Samples:
    times: list[int] = field(default_factory=list)
    columns: dict[str, list[float]] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    algorithm: str | None = None


def recognises(head: bytes) -> bool:
    """Whether somewhere at the beginning a connection is followed by what only `ss -i` prints."""
    text = head.decode("utf-8", "replace")
    found = ss_output.ENDS.search(text)
    return found is not None and re.search(r"\bcwnd:\d", text[found.end() : found.end() + 2000]) is not None


def read(path: Path) -> list[Recording]:
    """The one run of a transcript; raises InputError for one without samples of established connections."""
    text = base.text(path).replace("\r\n", "\n")
    flows: dict[str, _Samples] = {}
    stamped = False
    count = 0
    for time_ns, ends, details in ss_output.samples(text, logged.LATEST_NS):
        values = ss_output.values(details)
        if "cwnd" not in values or "mss" not in values:
            continue
        count += 1
        if count > MAX_SAMPLES:
            raise InputError(f"{path}: more than {MAX_SAMPLES} samples")
        samples = flows.setdefault(logged.name_of(*ends), _Samples())
        if len(flows) > logged.MAX_FLOWS:
            raise InputError(f"{path}: more than {logged.MAX_FLOWS} connections")
        stamped |= time_ns is not None
        samples.times.append(time_ns if time_ns is not None else (len(samples.times)) * 10**9)
        _add(samples, values)
        word = re.match(r"\s*(?:ts |sack |ecn |ecnseen |fastopen )*([a-z][a-z0-9_]{1,15})\s", details)
        samples.algorithm = word[1] if word else samples.algorithm
    made = [_flow(name, samples) for name, samples in flows.items()]
    algorithms = {samples.algorithm for samples in flows.values() if samples.algorithm}
    facts = {"cc": algorithms.pop()} if len(algorithms) == 1 else {}
    warnings = [] if stamped else ["no times in the transcript: samples are taken to be one second apart"]
    return [series.recording(NAME, path, path.name, made, epoch=stamped, facts=facts, warnings=warnings)]


def _add(samples: _Samples, values: dict[str, float]) -> None:
    missing, mss = float("nan"), values["mss"]
    threshold = values.get("ssthresh", missing)
    row = {
        "cwnd_bytes": values["cwnd"] * mss,
        "ssthresh_bytes": threshold * mss if threshold < INFINITE_SEGMENTS else missing,
        "srtt_ns": values.get("rtt", missing) * 1e6,
        "inflight_bytes": values.get("unacked", 0) * mss,
        "delivered_bytes": values.get("bytes_acked", missing),
        # `retrans:NOW/ALL` stands only once there was one.
        "retransmits": values.get("retrans/", 0),
        "pacing_bps": values.get("pacing_rate", missing),
    }
    for name, value in row.items():
        samples.columns.setdefault(name, []).append(value)
    samples.last |= values


def _flow(name: str, samples: _Samples) -> Flow:
    columns: dict[str, Any] = {
        column: logged.bounded(np.array(values, dtype=np.float64))
        for column, values in samples.columns.items()
    }
    columns["state"] = logged.states(columns["cwnd_bytes"], columns["ssthresh_bytes"])
    last, found = samples.last, dict[str, float]()
    if segments := last.get("data_segs_out"):
        found["retransmit_rate"] = last.get("retrans/", 0) / segments
    if busy := last.get("busy_ms"):
        # RFC 4898's limits as Linux counts them: of the time in which there was something to send.
        rwnd, sndbuf = last.get("rwnd_limited_ms", 0), last.get("sndbuf_limited_ms", 0)
        found |= {
            "limited_rwnd_pct": min(100 * rwnd / busy, 100),
            "limited_sndbuf_pct": min(100 * sndbuf / busy, 100),
        }
    return Flow(name, np.array(samples.times, dtype=np.int64), columns, found)
