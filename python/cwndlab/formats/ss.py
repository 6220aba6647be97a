"""Transcripts of `ss -tin`: what it printed again and again, with the time printed before each.

A time stands before what it belongs to, on a line of its own or the same: seconds since 1970 (`date
+%s.%N`), as ISO 8601 (`date -Ins`), or as `date` prints it, its clock taken for UTC. Where none stands,
samples are taken to be one second apart, which the run's warnings say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cwndlab.errors import InputError
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.testbeds.logs import connections, ss
from cwndlab.testbeds.logs.connections import Rows

NAME = "ss -tin"

INFINITE_SEGMENTS = 0x7FFF_FFFF

_ALGORITHM = re.compile(
    r"(?:^|\s)(?!(?:ts|sack|ecn|ecnseen|fastopen)\s)([a-z][a-z0-9_]{1,15})\s+(?:wscale|rto|backoff):\d"
)
"""The congestion control stands before the first number."""


GATHERED = 8192
"""Samples that are gathered before they are sorted."""


MARKS = {"cwnd:N": rb"\bcwnd:\d", "mss:N": rb"\bmss:\d", "rtt:N": rb"\brtt:\d"}
"""Marks of a line of this format, in words, each with the pattern that finds it."""


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
    found = _Transcript()
    try:
        for time_ns, ends, details in ss.samples(_texts(path), connections.LATEST_NS):
            values = ss.values(details)
            if "cwnd" in values and "mss" in values:
                word = _ALGORITHM.search(details)
                found.add(time_ns, ends, values, word[1] if word else None)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    return [found.recording(path)]


def _texts(path: Path) -> Iterator[str]:
    return (text.replace("\r\n", "\n") for text in connections.lines(base.pieces(path)()))


_UNDATED = "without a time"


@dataclass
class _Connection:
    """State of a connection so far."""

    count: int = 0
    last: dict[str, float] = field(default_factory=dict)
    algorithm: str | None = None

    def metrics(self) -> dict[str, float]:
        last, found = self.last, dict[str, float]()
        if segments := last.get("data_segs_out"):
            found["retransmit_rate"] = last.get("retrans/", 0) / segments
        if busy := last.get("busy_ms"):
            # RFC 4898's limits as Linux counts them: of the time in which there was something to send.
            rwnd, sndbuf = last.get("rwnd_limited_ms", 0), last.get("sndbuf_limited_ms", 0)
            found |= {
                "limited_rwnd_pct": min(100 * rwnd / busy, 100),
                "limited_sndbuf_pct": min(100 * sndbuf / busy, 100),
            }
        return found


class _Transcript:
    """The samples of a transcript; those without addresses apart from the others."""

    def __init__(self) -> None:
        self._stamped = False
        self._times: list[int] = []
        """The first two times."""
        self._left = {_UNDATED: 0, connections.TORN: 0}
        """Numbers of samples that are left out, by why."""
        self._empty()

    def _empty(self) -> None:
        self._flows = {True: connections.Flows(), False: connections.Flows()}
        """Connections that have addresses, and those that have none."""
        self._logs = {named: series.Log() for named in self._flows}
        self._known: dict[bool, dict[int, _Connection]] = {named: {} for named in self._flows}
        self._held: dict[bool, list[tuple[int, int, dict[str, float]]]] = {named: [] for named in self._flows}
        self._latest: tuple[int | None, int] = (None, 0)
        """The time of the last sample without addresses, and how many there were at it."""

    def add(
        self, time_ns: int | None, ends: ss.Ends | None, values: dict[str, float], word: str | None
    ) -> None:
        """Take a sample; raises ValueError for too many connections."""
        if not self._wanted(time_ns):
            return
        named = ends is not None
        if ends is not None:
            name = connections.name_of(*ends)
        else:
            again = time_ns is not None and time_ns == self._latest[0]
            self._latest = time_ns, self._latest[1] + 1 if again else 1
            name = f"connection-{self._latest[1]}"
        flow = self._flows[named].number(name, lambda: name)
        known = self._known[named].setdefault(flow, _Connection())
        held = self._held[named]
        held.append((time_ns if time_ns is not None else known.count * 10**9, flow, _row(values)))
        known.count += 1
        known.last |= values
        known.algorithm = word or known.algorithm
        if len(held) == GATHERED:
            self._sort(named)

    def _wanted(self, time_ns: int | None) -> bool:
        """Whether a sample counts: not one without a time, where others have one. What came before the
        first time, or is of a time that the second one shows to be cut off, is forgotten.
        """
        if time_ns is None:
            self._left[_UNDATED] += self._stamped
            return not self._stamped
        if not self._stamped:
            self._forget(_UNDATED)
        self._stamped = True
        if len(self._times) < 2 and time_ns not in self._times:
            self._times.append(time_ns)
            if connections.starts_torn(np.array(self._times)):
                self._forget(connections.TORN)
        return True

    def _forget(self, why: str) -> None:
        self._left[why] += sum(known.count for several in self._known.values() for known in several.values())
        self._empty()

    def recording(self, path: Path) -> Recording:
        for named in self._flows:
            self._sort(named)
        warnings = (
            [] if self._stamped else ["no times in the transcript: samples are taken to be one second apart"]
        )
        if self._left[_UNDATED]:
            warnings.append(f"{self._left[_UNDATED]} samples without a time are left out")
        warnings += [connections.TORN] if self._left[connections.TORN] else []
        named = bool(self._known[True])
        nameless = self._known[False]
        if nameless and named:
            left = sum(known.count for known in nameless.values())
            warnings.append(f"{left} samples without addresses are left out")
        elif nameless:
            warnings.append("no addresses in the transcript: connections are told apart by their order")
        named = named or not nameless
        kept = self._known[named]
        algorithms = {known.algorithm for known in kept.values() if known.algorithm}
        return self._logs[named].recording(
            NAME,
            path,
            path.name,
            self._flows[named].names,
            epoch=self._stamped,
            facts={"cc": algorithms.pop()} if len(algorithms) == 1 else {},
            warnings=warnings,
            metrics={number: known.metrics() for number, known in kept.items()},
        )

    def _sort(self, named: bool) -> None:
        held, self._held[named] = self._held[named], []
        if not held:
            return
        t_ns, flow, rows = zip(*held, strict=True)
        columns = {
            name: connections.bounded(np.array([row[name] for row in rows], np.float64)) for name in rows[0]
        }
        columns["state"] = connections.states(columns["cwnd_bytes"], columns["ssthresh_bytes"])
        self._logs[named].add(Rows(np.array(flow, np.int64), np.array(t_ns, np.int64), columns))


def _row(values: dict[str, float]) -> dict[str, float]:
    missing, mss = float("nan"), values["mss"]
    threshold = values.get("ssthresh", missing)
    return {
        "cwnd_bytes": values["cwnd"] * mss,
        "ssthresh_bytes": threshold * mss if threshold < INFINITE_SEGMENTS else missing,
        "srtt_ns": values.get("rtt", missing) * 1e6,
        "inflight_bytes": values.get("unacked", 0) * mss,
        "delivered_bytes": values.get("bytes_acked", missing),
        # `retrans:NOW/ALL` stands only once there was one.
        "retransmits": values.get("retrans/", 0),
        "pacing_bps": values.get("pacing_rate", missing),
    }
