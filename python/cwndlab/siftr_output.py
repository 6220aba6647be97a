"""SIFTR logs of FreeBSD: told apart by the header, by whether records carry a packet's hash, and by how many
fields they have.

| FreeBSD | header | records |
| --- | --- | --- |
| siftr(4) | `hz`, `tcp_rtt_scale` | 25 fields with the hash, none for the reassembly queue |
| 9.x | `hz`, `tcp_rtt_scale` | 26 fields with the hash; srtt in 1/(hz scale) s, RTO in ticks |
| 9.x with TEACUP's patch | the same | 27 fields: the last is ERTT's sample, in ticks |
| 10 to 13 | the same | 28 fields: flow ID and type at the end |
| 14, 15 | without `hz` | 27 fields, no hash; srtt and RTO in microseconds |

siftr(4) describes the fields. A record is the state of a connection's control block as one of its packets
passes, either way: the local end is the sender of the flow it is of. The log has no counter of what was
delivered or retransmitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from cwndlab import logged
from cwndlab.logged import Flow, Log

LONGEST_HEADER = 1 << 16
"""Characters of the first line at most."""

IN_RECOVERY = 0x0010_0000 | 0x2000_0000
"""TF_FASTRECOVERY and TF_CONGRECOVERY of netinet/tcp_var.h, in `t_flags`."""

HASHED = [
    "direction",
    "hash",
    "time",
    "laddr",
    "lport",
    "faddr",
    "fport",
    "ssthresh",
    "cwnd",
    "bwnd",
    "snd_wnd",
    "rcv_wnd",
    "snd_scale",
    "rcv_scale",
    "state",
    "mss",
    "srtt",
    "sack",
    "flags",
    "rto",
    "snd_hiwat",
    "snd_cc",
    "rcv_hiwat",
    "rcv_cc",
    "inflight",
    "reassembly",
]
"""Fields of a record up to FreeBSD 13, without those at the end that not every version has."""

USED = frozenset(
    ["direction", "hash", "time", "laddr", "lport", "faddr", "fport", "ssthresh", "cwnd", "srtt", "inflight"]
)
"""Fields that name a record, or have a place in the `tcp` table."""

FIELDS = (25, 32)
"""Fields of a record, at least and at most."""

FIELDS_2 = (18, 21)
"""Fields of a record of siftr2."""

PLAIN = [name for name in HASHED if name != "hash"]
"""Fields of a record from FreeBSD 14 on, without flow ID and type at the end."""


@dataclass(frozen=True)
class Header:
    """The first line."""

    values: dict[str, str]

    def srtt_ns(self, *, hashed: bool) -> float:
        """What one unit of srtt is in records with a packet's hash or without; NaN where nothing says."""
        if "hz" not in self.values:
            return np.nan if hashed and not self.values else 1e3
        scale = self._number("hz") * self._number("tcp_rtt_scale", "32")
        return 1e9 / scale

    @property
    def tick_ns(self) -> float:
        """What one tick is."""
        return 1e9 / self._number("hz", "1000")

    def _number(self, name: str, default: str = "") -> float:
        text = self.values.get(name, default)
        if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
            raise ValueError(f"{name}={text[:40]}")
        return float(text)


FOOTER = "(?:dis|en)able_time_secs="
"""The beginning of a line that is no record; a log may hold several."""

_HEADER = re.compile(rb"enable_time_secs=\d[^\n]*siftrver=[^\n]*|enable_time_secs=\d")
_RECORD = re.compile(
    rb"[io],(?:0x[0-9a-f]{8},)?\d{1,10}\.\d{1,9},[0-9a-f.:]{2,45},\d{1,5},[0-9a-f.:]{2,45},\d{1,5},[\d,-]*\r?"
)
_RECORD_2 = re.compile(
    rb"[io],[0-9]+\.[0-9]+,[0-9a-f]{8},[0-9,-]+\r?|[0-9a-f]{1,8},[io](?:,-?[0-9a-f]+){16}\r?"
)


def module(head: bytes) -> str | None:
    """The module that wrote a log which begins so, `siftr` or `siftr2`; None for other files.

    The header may be missing, or stand behind something else; the records tell then.
    """
    lines = head.split(b"\n")
    header = next((line for line in lines if _HEADER.match(line)), None)
    if header is not None and re.search(rb"\trec_fmt=|siftrver=2", header):
        return "siftr2"
    # A flow ID stands where SIFTR has the local address.
    counts = {FIELDS_2: 0, FIELDS: 0}
    for line in lines:
        commas = line.count(b",") + 1
        if commas in FIELDS_2 and _RECORD_2.fullmatch(line):
            counts[FIELDS_2] += 1
        elif FIELDS[0] <= commas <= FIELDS[1] and _RECORD.fullmatch(line):
            counts[FIELDS] += 1
    if counts[FIELDS_2] > counts[FIELDS]:
        return "siftr2"
    return "siftr" if counts[FIELDS] or (header is not None and b"siftrver=" in header) else None


def _sessions(text: str) -> Iterator[tuple[int, int]]:
    """Where each part of a log begins and ends that a header begins; first what stands before all of them."""
    places = [found.start() for found in re.finditer(r"enable_time_secs=\d", text)]
    if not places or text[: places[0]].strip():
        yield 0, places[0] if places else len(text)
    yield from pairwise([*places, len(text)])


def parse(text: str) -> list[Log]:
    """What each session of a log says; raises ValueError for one whose header makes no sense."""
    found = [_session(text, start, until) for start, until in _sessions(text)]
    # What stands before the first header is a session where it has records.
    return [log for log in found if log.flows] or found[:1]


def _session(text: str, start: int, until: int) -> Log:
    first = ""
    if text.startswith("enable_time_secs=", start):
        end = text.find("\n", start, until)
        first = text[start : end if end >= 0 else until]
        start += len(first)
    if len(first) > LONGEST_HEADER:
        raise ValueError(f"{len(first)} characters")
    header = Header(dict(pair.split("=", 1) for pair in first.split() if "=" in pair))
    counts = range(FIELDS[0], FIELDS[1] + 1)
    frame, other = logged.fields(text, counts, span=(start, until), words=range(9), foreign=FOOTER)
    hashed = _hashed(frame)
    srtt_ns = header.srtt_ns(hashed=hashed)
    names = _names(frame)
    frame = frame.rename({f"c{place}": name for place, name in enumerate(names)})
    more = [name for name in names if name not in USED and name != "ertt"]

    def flow(name: str, rows: pl.DataFrame) -> Flow:
        cwnd = logged.numbers(rows["cwnd"])
        ssthresh = logged.finite_window(logged.numbers(rows["ssthresh"]))
        flags = np.nan_to_num(logged.numbers(rows["flags"])).astype(np.int64)
        srtt = logged.numbers(rows["srtt"], srtt_ns)
        columns = {
            "cwnd_bytes": cwnd,
            "ssthresh_bytes": ssthresh,
            "srtt_ns": np.where(srtt > 0, srtt, np.nan),
            "inflight_bytes": logged.numbers(rows["inflight"]),
            "state": logged.states(cwnd, ssthresh, flags & IN_RECOVERY != 0),
        }
        if "ertt" in names and header.values:
            rtt = logged.numbers(rows["ertt"], header.tick_ns)
            columns["rtt_ns"] = np.where(rtt > 0, rtt, np.nan)
        rest = {column: logged.numbers(rows[column]) for column in more}
        return Flow(name, logged.nanoseconds(rows["time"]), columns, more=rest)

    frame = frame.filter(
        frame["direction"].is_in(["i", "o"]), logged.nanoseconds(frame["time"]) >= 0, _whole(frame)
    )
    flows = logged.by_flow(frame, ("laddr", "lport", "faddr", "fport"), flow)
    warnings = [f"{other} lines are no records"] if other else []
    if not header.values:
        unit = (
            "srtt is left out, as its unit is not known" if hashed else "srtt is taken to be in microseconds"
        )
        warnings.append(f"no header: {unit}")
    known = ("siftrver", "sysname", "sysver")
    return Log(flows, {key: header.values[key] for key in known if key in header.values}, warnings)


def _hashed(frame: pl.DataFrame) -> bool:
    return frame.height > 0 and bool((frame["c1"].str.starts_with("0x").sum() or 0) * 2 > frame.height)


def _names(frame: pl.DataFrame) -> list[str]:
    """The names of a log's fields, as many as a record has that holds the most."""
    hashed = _hashed(frame)
    names = HASHED if hashed else PLAIN
    filled = sum(frame[f"c{place}"].null_count() < frame.height for place in range(FIELDS[1]))
    # One field behind the reassembly queue is a sample of ERTT, two are the flow's ID and its type.
    ertt = hashed and filled == len(HASHED) + 1
    names = [*names, "ertt"] if ertt else [*names, "flowid", "flowtype"]
    return [*names, *(f"field{place + 1}" for place in range(len(names), FIELDS[1]))]


def _whole(frame: pl.DataFrame) -> pl.Series:
    """Whether ports and window of a record are numbers: a line torn apart at the end of a log is none."""
    found = frame["cwnd"].str.contains(r"^\d{1,12}$")
    for port in ("lport", "fport"):
        found &= frame[port].str.contains(r"^\d{1,5}$")
    return found.fill_null(False)
