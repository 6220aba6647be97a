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


def is_siftr2(head: bytes) -> bool:
    """Whether a file with SIFTR's kind of header is of siftr2: by its records, or by its header."""
    lines = head.split(b"\n", 2)
    if re.search(rb"\trec_fmt=|siftrver=2", lines[0]):
        return True
    # A flow ID stands where SIFTR has the local address.
    return len(lines) > 1 and re.match(rb"[io],[0-9]+\.[0-9]+,[0-9a-f]{8},[0-9]+,", lines[1]) is not None


def parse(text: str) -> Log:
    """What a log says; raises ValueError for one whose header makes no sense."""
    first, _, body = text.partition("\n")
    if len(first) > LONGEST_HEADER:
        raise ValueError(f"{len(first)} characters")
    header = Header(dict(pair.split("=", 1) for pair in first.split() if "=" in pair))
    frame, other = logged.fields("\n".join(_records(body)), range(FIELDS[0], FIELDS[1] + 1))
    names = _names(frame)
    frame = frame.rename({f"c{place}": name for place, name in enumerate(names)})
    more = [name for name in names if name not in USED and name != "ertt"]

    def flow(name: str, rows: pl.DataFrame) -> Flow:
        cwnd = logged.numbers(rows["cwnd"])
        ssthresh = logged.finite_window(logged.numbers(rows["ssthresh"]))
        flags = np.nan_to_num(logged.numbers(rows["flags"])).astype(np.int64)
        srtt = logged.numbers(rows["srtt"], header.srtt_ns)
        columns = {
            "cwnd_bytes": cwnd,
            "ssthresh_bytes": ssthresh,
            "srtt_ns": np.where(srtt > 0, srtt, np.nan),
            "inflight_bytes": logged.numbers(rows["inflight"]),
            "state": logged.states(cwnd, ssthresh, flags & IN_RECOVERY != 0),
        }
        if "ertt" in names:
            rtt = logged.numbers(rows["ertt"], header.tick_ns)
            columns["rtt_ns"] = np.where(rtt > 0, rtt, np.nan)
        rest = {column: logged.numbers(rows[column]) for column in more}
        return Flow(name, logged.nanoseconds(rows["time"]), columns, more=rest)

    frame = frame.filter(
        frame["direction"].is_in(["i", "o"]), logged.nanoseconds(frame["time"]) >= 0, _whole(frame)
    )
    flows = logged.by_flow(frame, ("laddr", "lport", "faddr", "fport"), flow)
    warnings = [f"{other} lines are no records"] if other else []
    known = ("siftrver", "sysname", "sysver")
    return Log(flows, {key: header.values[key] for key in known if key in header.values}, warnings)


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
