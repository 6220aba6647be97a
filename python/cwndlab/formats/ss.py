"""Transcripts of `ss -tin`: what it printed again and again, with the time printed before each.

A time is a line of its own before what it belongs to: seconds since 1970 (`date +%s.%N`), or as ISO 8601
(`date -Ins`). Where none stands, samples are taken to be one second apart, which the run's warnings say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from cwndlab.errors import InputError
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.formats.series import Flow

NAME = "ss -tin"

MAX_SAMPLES = 5_000_000
"""Samples of connections in one transcript at most."""

_ENDS = re.compile(
    r"(?:^|\n)[ \t]*(?:tcp[ \t]+)?(?:[A-Z][A-Z0-9-]{2,11}[ \t]+)?\d{1,12}[ \t]+\d{1,12}[ \t]+"
    r"(\S{1,64}):(\d{1,5})[ \t]+(\S{1,64}):(\d{1,5})(?=\s)"
)
_STAMP = re.compile(
    r"(?:^|\n)[ \t#]*(?:(\d{9,10})(?:\.(\d{1,9}))?"
    r"|(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?))[ \t\r]*(?=\n|$)"
)
_VALUE = re.compile(r"(?<![\w])([a-z_]{2,20}):([0-9./,]{1,40})")
_RATE = re.compile(r"(?<![\w])(pacing_rate) ([0-9.]{1,20})([KMGT]?)bps")
_MILLISECONDS = re.compile(r"(?<![\w])(busy|rwnd_limited|sndbuf_limited):(\d{1,12})ms")
_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
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
    found = _ENDS.search(text)
    return found is not None and re.search(r"\bcwnd:\d", text[found.end() : found.end() + 2000]) is not None


def read(path: Path) -> list[Recording]:
    """The one run of a transcript; raises InputError for one without samples of established connections."""
    text = base.text(path).replace("\r\n", "\n")
    flows: dict[str, _Samples] = {}
    stamped = False
    count = 0
    for time_ns, name, details in _samples(text):
        values = _values(details)
        if "cwnd" not in values or "mss" not in values:
            continue
        count += 1
        if count > MAX_SAMPLES:
            raise InputError(f"{path}: more than {MAX_SAMPLES} samples")
        samples = flows.setdefault(name, _Samples())
        if len(flows) > series.MAX_FLOWS:
            raise InputError(f"{path}: more than {series.MAX_FLOWS} connections")
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


def _samples(text: str) -> Iterator[tuple[int | None, str, str]]:
    """Time, flow and details of each connection printed."""
    marks: list[tuple[int, int, Any]] = [(found.start(), 0, found) for found in _STAMP.finditer(text)]
    marks += [(found.start(), 1, found) for found in _ENDS.finditer(text)]
    marks.sort(key=lambda mark: mark[:2])
    now: int | None = None
    for place, (_, kind, found) in enumerate(marks):
        if kind == 0:
            time_ns = _time(found)
            # A year that no clock shows is damage, and no time.
            now = time_ns if time_ns is not None and 0 <= time_ns < series.LATEST_NS else None
            continue
        until = marks[place + 1][0] if place + 1 < len(marks) else len(text)
        ends = [end.strip("[]").split("%")[0] for end in (found[1], found[3])]
        yield (
            now,
            series.name_of(ends[0], found[2], ends[1], found[4]),
            text[found.end() : min(until, found.end() + 4096)],
        )


def _time(found: re.Match[str]) -> int | None:
    if found[1]:
        return int(found[1]) * 10**9 + int((found[2] or "").ljust(9, "0"))
    whole, _, fraction = found[3].replace(",", ".").partition(".")
    digits = re.match(r"\d*", fraction)
    parts = digits[0] if digits else ""
    zone = fraction[len(parts) :]
    try:
        moment = datetime.fromisoformat(whole + zone)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * 10**9 + int((parts or "0").ljust(9, "0")[:9])


def _values(details: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, text in _VALUE.findall(details):
        first, _, second = text.partition("/")
        try:
            found[name] = float(first)
            if second:
                found[f"{name}/"] = float(second)
        except ValueError:
            continue
    for name, number, scale in _RATE.findall(details):
        try:
            found[name] = float(number) * _SCALES[scale]
        except ValueError:
            continue
    found |= {f"{name}_ms": float(number) for name, number in _MILLISECONDS.findall(details)}
    return found


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
        column: series.bounded(np.array(values, dtype=np.float64))
        for column, values in samples.columns.items()
    }
    columns["state"] = series.states(columns["cwnd_bytes"], columns["ssthresh_bytes"])
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
