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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from cwndlab.testbeds.logs import connections
from cwndlab.testbeds.logs.connections import Rows, Session, Source, lines

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
        """Unit of srtt in records with a packet's hash or without, in ns. NaN where nothing says."""
        if "hz" not in self.values:
            return np.nan if hashed and not self.values else 1e3
        scale = self._number("hz") * self._number("tcp_rtt_scale", "32")
        return 1e9 / scale

    @property
    def tick_ns(self) -> float:
        """Length of a tick, in ns."""
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
    """The module that wrote a log which begins so, `siftr` or `siftr2`. None for other files.

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
    if counts[FIELDS_2] > counts[FIELDS] or (header is None and is_binary(head)):
        return "siftr2"
    return "siftr" if counts[FIELDS] or (header is not None and b"siftrver=" in header) else None


BINARY = 18
"""Numbers of 32 bits in a binary record of siftr2."""


def is_binary(head: bytes) -> bool:
    """Whether a file that begins so holds siftr2's binary records: of their 18 numbers the second is a
    direction, the third a time in ms that goes on, the fourth a window; buffers do not hold twice what they
    may. Numbers that also look so when counted from another one on are none: the first record may be cut
    off."""
    # A footer may stand where records end.
    numbers = head.partition(b"disable_time_secs=")[0]
    return _are_records(numbers) and not any(_are_records(numbers[4 * place :]) for place in range(1, BINARY))


def _are_records(numbers: bytes) -> bool:
    whole = min(len(numbers) // (4 * BINARY), 64)
    records = np.frombuffer(numbers, "<u4", whole * BINARY).reshape(whole, BINARY).astype(np.int64)
    flow, direction, time, cwnd = records[:, :4].T
    send_limit, send_held, receive_limit, receive_held = records[:, 12:16].T
    held = np.all(send_held <= 2 * send_limit) and np.all(receive_held <= 2 * receive_limit)
    later = (time[1:] >= time[:-1] - 1000) & (time[1:] <= time[:-1] + 3_600_000)
    later = later.all() and len(time) > 1 and time[-1] > time[0]
    return bool(later and held and np.all(flow > 0) and np.all(direction <= 1) and np.all(cwnd > 0))


MOST_SESSIONS = 10_000
"""Sessions of a log at most."""

_MARK = re.compile(rb"enable_time_secs=\d|disable_time_secs=")


@dataclass
class Span:
    """Offsets in bytes at which a session of a log begins and ends, and at which its footers begin."""

    start: int
    until: int
    footer: int | None = None
    """The last footer's."""
    first_footer: int | None = None


def spans(pieces: Iterable[bytes]) -> list[Span]:
    """The parts of a log that a header begins each, first what stands before all of them.

    Raises ValueError for more than `MOST_SESSIONS`.
    """
    found = [Span(0, 0)]
    rest, at = b"", 0
    for piece in pieces:
        text = rest + piece
        for mark in _MARK.finditer(text):
            place = at - len(rest) + mark.start()
            if mark[0].startswith(b"disable"):
                found[-1].footer = place
                found[-1].first_footer = place if found[-1].first_footer is None else found[-1].first_footer
                continue
            if len(found) == MOST_SESSIONS:
                raise ValueError(f"more than {MOST_SESSIONS} sessions")
            found[-1].until = place
            found.append(Span(place, place))
        at += len(piece)
        # As long as a mark without its last byte.
        rest = text[-17:]
    found[-1].until = at
    return found


class Cursor:
    """Reads pieces up to one place after the other."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        """Begin at the beginning."""
        self._pieces, self._rest, self._at = pieces, b"", 0

    def upto(self, until: int) -> Iterator[bytes]:
        """Yield the bytes from the end of the last call up to a place."""
        while self._at < until:
            piece = self._rest or next(self._pieces, b"")
            if not piece:
                return
            self._rest = piece[until - self._at :]
            piece = piece[: until - self._at]
            self._at += len(piece)
            yield piece


def sessions(source: Source) -> Iterator[Session]:
    """Yield the sessions of a log; the rows of each are read before the next one is asked for.

    Raises ValueError for one whose header makes no sense.
    """
    places = [span for span in spans(source()) if span.until > span.start]
    cursor = Cursor(source())
    surveys = [_survey(lines(cursor.upto(span.until))) for span in places]
    cursor = Cursor(source())
    for span, survey in zip(places, surveys, strict=True):
        header = _header(survey.first)
        facts = {key: header.values[key] for key in _FACTS if key in header.values}
        session = Session(iter(()), facts=facts)
        session.rows = _rows(session, lines(cursor.upto(span.until)), header, survey)
        yield session


_FACTS = ("siftrver", "sysname", "sysver")


@dataclass
class _Survey:
    """Properties that the records of a session have in common."""

    first: str = ""
    """The header, where it is there."""
    records: int = 0
    hashed: int = 0
    """Number of records with a packet's hash."""
    fields: int = 0
    """Number of fields of the longest record."""


def _survey(texts: Iterator[str]) -> _Survey:
    survey = _Survey()
    for place, text in enumerate(texts):
        if place == 0 and text.startswith("enable_time_secs="):
            survey.first = text.partition("\n")[0]
        found = connections.records(text, FOOTER)
        fields = connections.fields_in(found)
        found = found.filter(fields.is_between(*FIELDS))
        survey.records += len(found)
        survey.hashed += int(found.str.contains(r"^[^,]*,\s*0x").sum())
        # The stub gives max() the type of any column's values; this column holds whole numbers.
        longest = int(fields.filter(fields <= FIELDS[1]).max() or 0)  # type: ignore[arg-type]
        survey.fields = max(survey.fields, longest)
    return survey


def _header(first: str) -> Header:
    if len(first) > LONGEST_HEADER:
        raise ValueError(f"{len(first)} characters")
    return Header(dict(pair.split("=", 1) for pair in first.split() if "=" in pair))


def _rows(session: Session, texts: Iterator[str], header: Header, survey: _Survey) -> Iterator[Rows]:
    hashed = survey.hashed * 2 > survey.records
    srtt_ns = header.srtt_ns(hashed=hashed)
    names = _names(survey, hashed=hashed)
    more = [name for name in names if name not in USED and name != "ertt"]
    counts = range(FIELDS[0], FIELDS[1] + 1)
    other = 0
    for text in texts:
        frame, strange = connections.fields(text, counts, words=range(9), foreign=FOOTER)
        other += strange
        frame = frame.rename({f"c{place}": name for place, name in enumerate(names)})
        t_ns = connections.nanoseconds(frame["time"])
        good = frame["direction"].is_in(["i", "o"]) & pl.Series(t_ns >= 0) & _whole(frame)
        frame, t_ns = frame.filter(good), t_ns[good.to_numpy()]
        if not len(t_ns):
            continue
        cwnd = connections.numbers(frame["cwnd"])
        ssthresh = connections.finite_window(connections.numbers(frame["ssthresh"]))
        flags = np.nan_to_num(connections.numbers(frame["flags"])).astype(np.int64)
        srtt = connections.numbers(frame["srtt"], srtt_ns)
        columns = {
            "cwnd_bytes": cwnd,
            "ssthresh_bytes": ssthresh,
            "srtt_ns": np.where(srtt > 0, srtt, np.nan),
            "inflight_bytes": connections.numbers(frame["inflight"]),
            "state": connections.states(cwnd, ssthresh, flags & IN_RECOVERY != 0),
        }
        if "ertt" in names and header.values:
            rtt = connections.numbers(frame["ertt"], header.tick_ns)
            columns["rtt_ns"] = np.where(rtt > 0, rtt, np.nan)
        flow = session.flows.by_ends(frame, ("laddr", "lport", "faddr", "fport"))
        yield Rows(flow, t_ns, columns, {column: connections.numbers(frame[column]) for column in more})
    session.other = other
    if other:
        session.warnings.append(f"{other} lines are no records")
    if not header.values:
        unit = (
            "srtt is left out, as its unit is not known" if hashed else "srtt is taken to be in microseconds"
        )
        session.warnings.append(f"no header: {unit}")


def _names(survey: _Survey, *, hashed: bool) -> list[str]:
    """The names of a log's fields, as many as a record has that holds the most."""
    names = HASHED if hashed else PLAIN
    # One field behind the reassembly queue is a sample of ERTT, two are the flow's ID and its type.
    ertt = hashed and survey.fields == len(HASHED) + 1
    names = [*names, "ertt"] if ertt else [*names, "flowid", "flowtype"]
    return [*names, *(f"field{place + 1}" for place in range(len(names), FIELDS[1]))]


def _whole(frame: pl.DataFrame) -> pl.Series:
    """Whether ports and window of a record are numbers: a line torn apart at the end of a log is none."""
    found = frame["cwnd"].str.contains(r"^\d{1,12}$")
    for port in ("lport", "fport"):
        found &= frame[port].str.contains(r"^\d{1,5}$")
    return found.fill_null(False)
