"""ttprobe logs (TEACUP's logger for Linux), as text and as binary records.

Text has 17 fields: direction, time, source, port, destination, port, one that is not used here, MSS, srtt
(microseconds), cwnd, ssthresh, send and receive window (bytes), state of the socket, SND.UNA, SND.NXT,
length. A binary record of 96 bytes holds the same with cwnd in segments. ssthresh is left empty: the two
forms do not say in which unit it is.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cwndlab.errors import InputError
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.testbeds.logs import connections
from cwndlab.testbeds.logs.connections import Flows, Rows, Unwrapped

NAME = "ttprobe"

SYN_SENT = 2
"""State of a socket whose windows mean nothing yet (TCP_SYN_SENT of Linux)."""

_FIELDS: tuple[tuple[str, Any, int], ...] = (
    ("sec", "<u8", 0),
    ("usec", "<u8", 8),
    ("src", ("u1", 16), 16),
    ("dst", ("u1", 16), 32),
    ("sport", ">u2", 48),
    ("dport", ">u2", 50),
    ("snd_nxt", "<u4", 56),
    ("snd_una", "<u4", 60),
    ("cwnd", "<u4", 72),
    ("srtt", "<u4", 80),
    ("mss", "<u4", 84),
    ("state", "u1", 88),
    ("direction", "u1", 89),
    ("family", "u1", 90),
)
RECORD = np.dtype(
    {
        "names": [name for name, _, _ in _FIELDS],
        "formats": [kind for _, kind, _ in _FIELDS],
        "offsets": [offset for _, _, offset in _FIELDS],
        "itemsize": 96,
    }
)
"""Fields of the C structure that are used, with the padding of x86-64; ports are in network order."""

MORE = ("mss", "ssthresh", "snd_wnd", "rcv_wnd", "state", "length")
"""Fields of text that become samples `ttprobe.NAME`."""

TEXT = [
    "direction",
    "time",
    "src",
    "sport",
    "dst",
    "dport",
    "unused",
    "mss",
    "srtt",
    "cwnd",
    "ssthresh",
    "snd_wnd",
    "rcv_wnd",
    "state",
    "snd_una",
    "snd_nxt",
    "length",
]


MARKS = {
    "records that begin with i or o": rb"^[io],",
    f"{len(TEXT)} fields in them": rb"^(?:[^,\n]*,){%d}[^,\n]*\r?$" % (len(TEXT) - 1),
}
"""Marks of a log as text, in words, each with the pattern that finds it."""


def recognises(head: bytes) -> bool:
    """Whether a line is a record as text, or the file begins with a binary one."""
    if _is_text(head):
        return True
    if len(head) < RECORD.itemsize:
        return False
    first = np.frombuffer(head, RECORD, 1)[0]
    plausible = 10**8 < int(first["sec"]) < connections.LATEST_NS // 10**9 and int(first["usec"]) < 10**6
    return plausible and int(first["direction"]) in b"io" and int(first["family"]) in (2, 10)


def _is_text(head: bytes) -> bool:
    return any(line[:2] in (b"i,", b"o,") and line.count(b",") == len(TEXT) - 1 for line in head.split(b"\n"))


def read(path: Path) -> list[Recording]:
    """The one run of a log; raises InputError for one without records."""
    log, flows, acked = series.Log("ttprobe"), Flows(), connections.Unwrapped()
    source = base.pieces(path)
    other = 0
    try:
        if _is_text(base.head(path)):
            for text in connections.lines(source()):
                rows, strange = _text(text, flows, acked)
                other += strange
                log.add(rows)
        else:
            for records in _records(source()):
                log.add(_binary(records, flows, acked))
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    warnings = [f"{other} lines are no records"] if other else []
    return [log.recording(NAME, path, path.name, flows.names, warnings=warnings)]


def _text(text: str, flows: Flows, acked: Unwrapped) -> tuple[Rows, int]:
    frame, other = connections.fields(text, (len(TEXT),))
    frame = frame.rename({f"c{place}": name for place, name in enumerate(TEXT)})
    good = frame["direction"].is_in(["i", "o"]) & (frame["state"] != str(SYN_SENT))
    frame = frame.filter(good & pl.Series(connections.nanoseconds(frame["time"]) >= 0))
    flow = flows.by_ends(frame, ("src", "sport", "dst", "dport"))
    columns = _columns(
        flow, acked,
        *(connections.numbers(frame[column]) for column in ("cwnd", "srtt", "snd_una", "snd_nxt")),
    )  # fmt: skip
    more = {column: connections.numbers(frame[column]) for column in MORE}
    return Rows(flow, connections.nanoseconds(frame["time"]), columns, more), other


def _records(pieces: Iterator[bytes]) -> Iterator[connections.Column]:
    rest = b""
    for piece in pieces:
        data = rest + piece
        whole = len(data) // RECORD.itemsize
        rest = data[whole * RECORD.itemsize :]
        yield np.frombuffer(data, RECORD, whole)


def _binary(records: connections.Column, flows: Flows, acked: Unwrapped) -> Rows:
    good = (records["state"] != SYN_SENT) & np.isin(records["family"], (2, 10)) & (records["usec"] < 10**6)
    records = records[good & (records["sec"] < connections.LATEST_NS // 10**9)]
    ends = np.concatenate(
        [records["src"], records["dst"], records[["sport"]]["sport"][:, None].view("u1").reshape(-1, 2),
         records[["dport"]]["dport"][:, None].view("u1").reshape(-1, 2), records["family"][:, None]],
        axis=1,
    )  # fmt: skip
    # Bytes of an IPv4 address beyond its four mean nothing.
    for start in (0, 16):
        ends[records["family"] == 2, start + 4 : start + 16] = 0
    _, first, codes = np.unique(ends, axis=0, return_index=True, return_inverse=True)
    numbers = np.zeros(len(first), np.int64)
    for place in np.argsort(first):
        one = records[first[place]]
        numbers[place] = flows.number(ends[first[place]].tobytes(), partial(_name, one))
    flow = numbers[codes.ravel()]
    times = records["sec"].astype(np.int64) * 10**9 + records["usec"].astype(np.int64) * 1000
    cwnd = records["cwnd"].astype(np.float64) * records["mss"]
    others = (records[column].astype(np.float64) for column in ("srtt", "snd_una", "snd_nxt"))
    more = {column: records[column].astype(np.float64) for column in ("mss", "state")}
    return Rows(flow, times, _columns(flow, acked, cwnd, *others), more)


def _name(record: Any) -> str:
    family = int(record["family"])
    return connections.name_of(
        _address(record["src"], family), int(record["sport"]),
        _address(record["dst"], family), int(record["dport"]),
    )  # fmt: skip


def _address(octets: connections.Column, family: int) -> str:
    raw = bytes(octets)
    return str(ipaddress.IPv4Address(raw[:4]) if family == 2 else ipaddress.IPv6Address(raw))


def _columns(
    flow: connections.Column,
    acked: Unwrapped,
    cwnd: connections.Column,
    srtt_us: connections.Column,
    *sent: connections.Column,
) -> dict[str, connections.Column]:
    """`sent` is SND.UNA and SND.NXT."""
    una, nxt = sent
    flight = np.where(np.isfinite(una) & np.isfinite(nxt), (nxt - una) % 2.0**32, np.nan)
    return {
        "cwnd_bytes": connections.bounded(cwnd),
        "srtt_ns": np.where(srtt_us > 0, srtt_us * 1e3, np.nan),
        # A flight of half the sequence space is a number that went back.
        "inflight_bytes": np.where(flight < 2.0**31, flight, np.nan),
        "delivered_bytes": acked.of(flow, una),
    }
