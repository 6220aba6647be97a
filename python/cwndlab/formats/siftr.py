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
delivered or retransmitted, so goodput stays empty. Fields that the `tcp` table has no place for become
samples `siftr.NAME`; those behind the known ones are named by their number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from cwndlab.errors import InputError
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.formats.series import Flow

NAME = "SIFTR"

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

PLAIN = [name for name in HASHED if name != "hash"]
"""Fields of a record from FreeBSD 14 on, without flow ID and type at the end."""


@dataclass(frozen=True)
class Header:
    """The first line."""

    values: dict[str, str]

    @property
    def srtt_ns(self) -> float:
        """What one unit of srtt is."""
        if "hz" not in self.values:
            return 1e3
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


def recognises(head: bytes) -> bool:
    """Whether the file begins with SIFTR's header, and not with that of siftr2."""
    line = head.split(b"\n", 1)[0]
    return line.startswith(b"enable_time_secs=") and b"siftrver=" in line and not is_siftr2(head)


def is_siftr2(head: bytes) -> bool:
    """Whether a file with SIFTR's kind of header is of siftr2: by its records, or by its header."""
    lines = head.split(b"\n", 2)
    if re.search(rb"\trec_fmt=|siftrver=2", lines[0]):
        return True
    # A flow ID stands where SIFTR has the local address.
    return len(lines) > 1 and re.match(rb"[io],[0-9]+\.[0-9]+,[0-9a-f]{8},[0-9]+,", lines[1]) is not None


def read(path: Path) -> list[Recording]:
    """The one run of a log.

    Raises InputError for a log without records, or one whose header makes no sense.
    """
    text = base.text(path)
    first, _, body = text.partition("\n")
    if len(first) > LONGEST_HEADER:
        raise InputError(f"{path}:1: not a header of SIFTR: {len(first)} characters")
    header = Header(dict(pair.split("=", 1) for pair in first.split() if "=" in pair))
    frame, other = series.fields("\n".join(_records(body)), range(FIELDS[0], FIELDS[1] + 1))
    names = _names(frame)
    frame = frame.rename({f"c{place}": name for place, name in enumerate(names)})
    more = [name for name in names if name not in USED and name != "ertt"]

    def flow(name: str, rows: pl.DataFrame) -> Flow:
        cwnd = series.numbers(rows["cwnd"])
        ssthresh = series.finite_window(series.numbers(rows["ssthresh"]))
        flags = np.nan_to_num(series.numbers(rows["flags"])).astype(np.int64)
        srtt = series.numbers(rows["srtt"], header.srtt_ns)
        columns = {
            "cwnd_bytes": cwnd,
            "ssthresh_bytes": ssthresh,
            "srtt_ns": np.where(srtt > 0, srtt, np.nan),
            "inflight_bytes": series.numbers(rows["inflight"]),
            "state": series.states(cwnd, ssthresh, flags & IN_RECOVERY != 0),
        }
        if "ertt" in names:
            rtt = series.numbers(rows["ertt"], header.tick_ns)
            columns["rtt_ns"] = np.where(rtt > 0, rtt, np.nan)
        rest = {column: series.numbers(rows[column]) for column in more}
        return Flow(name, series.nanoseconds(rows["time"]), columns, more=rest)

    try:
        frame = frame.filter(
            frame["direction"].is_in(["i", "o"]), series.nanoseconds(frame["time"]) >= 0, _whole(frame)
        )
        flows = series.by_flow(frame, ("laddr", "lport", "faddr", "fport"), flow)
    except ValueError as error:
        raise InputError(f"{path}:1: not a header of SIFTR: {error}") from None
    warnings = [f"{other} lines are no records"] if other else []
    known = ("siftrver", "sysname", "sysver")
    facts: dict[str, str] = {str(key): header.values[key] for key in known if key in header.values}
    return [series.recording(NAME, path, path.name, flows, facts=facts, warnings=warnings, prefix="siftr")]


def _names(frame: pl.DataFrame) -> list[str]:
    """The names of a log's fields, as many as a record has that holds the most."""
    hashed = frame.height > 0 and frame["c1"][0].startswith("0x")
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


def _records(body: str) -> Iterator[str]:
    """The lines before each footer; a log may hold several headers and footers."""
    for part in re.split(r"^(?:dis|en)able_time_secs=.*$", body, flags=re.MULTILINE):
        if part.strip():
            yield part
