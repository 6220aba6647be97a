"""Transcripts of `ss -tin`: what it printed again and again, with the time printed before each.

A time stands before what it belongs to, on a line of its own or the same: seconds since 1970 (`date
+%s.%N`), as ISO 8601 (`date -Ins`), or as `date` prints it, its clock taken for UTC. Where none stands,
samples are taken to be one second apart, which the run's warnings say.
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

_ALGORITHM = re.compile(
    r"(?:^|\s)(?!(?:ts|sack|ecn|ecnseen|fastopen)\s)([a-z][a-z0-9_]{1,15})\s+(?:wscale|rto|backoff):\d"
)
"""The congestion control stands before the first number."""


@dataclass
class _Samples:
    times: list[int] = field(default_factory=list)
    columns: dict[str, list[float]] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    algorithm: str | None = None


MARKS = {"cwnd:N": rb"\bcwnd:\d", "mss:N": rb"\bmss:\d", "rtt:N": rb"\brtt:\d"}
"""What a line of this format has, in words, and how it is found."""


def recognises(head: bytes) -> bool:
    """Whether a line has what only `ss -i` prints, with or without its connection."""
    text = head.decode("utf-8", "replace")
    return any(
        re.search(r"\bmss:\d", line) and re.search(r"\brtt:\d", line)
        for line in text.split("\n")
        if re.search(r"\bcwnd:\d", line)
    )


def read(path: Path) -> list[Recording]:
    """The one run of a transcript; raises InputError for one without samples of established connections.

    Details without the addresses of their connection, as scripts that print a line a sample leave them, are
    of `connection-N`, the N-th at their time; where other connections have addresses they are left out.
    """
    text = base.text(path).replace("\r\n", "\n")
    flows: dict[str, _Samples] = {}
    nameless: dict[str, _Samples] = {}
    stamped = False
    count = 0
    latest: dict[int | None, int] = {}
    for time_ns, ends, details in ss_output.samples(text, logged.LATEST_NS):
        values = ss_output.values(details)
        if "cwnd" not in values or "mss" not in values:
            continue
        count += 1
        if count > MAX_SAMPLES:
            raise InputError(f"{path}: more than {MAX_SAMPLES} samples")
        if ends is not None:
            samples = flows.setdefault(logged.name_of(*ends), _Samples())
        else:
            number = latest.get(time_ns, 0) + 1 if time_ns is not None else 1
            latest = {time_ns: number}
            samples = nameless.setdefault(f"connection-{number}", _Samples())
        if len(flows) + len(nameless) > logged.MAX_FLOWS:
            raise InputError(f"{path}: more than {logged.MAX_FLOWS} connections")
        stamped |= time_ns is not None
        samples.times.append(time_ns if time_ns is not None else (len(samples.times)) * 10**9)
        _add(samples, values)
        word = _ALGORITHM.search(details)
        samples.algorithm = word[1] if word else samples.algorithm
    warnings = [] if stamped else ["no times in the transcript: samples are taken to be one second apart"]
    if nameless and flows:
        left = sum(len(samples.times) for samples in nameless.values())
        warnings.append(f"{left} samples without addresses are left out")
    elif nameless:
        flows = nameless
        warnings.append("no addresses in the transcript: connections are told apart by their order")
    made = [_flow(name, samples) for name, samples in flows.items()]
    algorithms = {samples.algorithm for samples in flows.values() if samples.algorithm}
    facts = {"cc": algorithms.pop()} if len(algorithms) == 1 else {}
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
