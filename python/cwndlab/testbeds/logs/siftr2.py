"""siftr2 logs (FreeBSD, a successor of SIFTR outside the base system): records by flow ID, flows named in the
footer.

| version | records |
| --- | --- |
| up to 2.4 | 21 fields of text: direction, time, flow ID, cwnd, ssthresh, …, sequence, ACK, payload |
| 2.5, `rec_fmt=txt` | 18 hexadecimal fields: flow ID, direction, ms since the header, cwnd, … |
| 2.5, `rec_fmt=binary` | the same 18 fields as little-endian 32-bit numbers, 72 bytes a record |

srtt is in microseconds. Sequence numbers, where there are any, give what was delivered and retransmitted. A
log whose footer is missing, as when the machine stopped, names its flows by their IDs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np
import polars as pl

from cwndlab.testbeds.logs import connections
from cwndlab.testbeds.logs.connections import Column, Rows, Session, Source
from cwndlab.testbeds.logs.siftr import IN_RECOVERY, Cursor, Span, is_binary, spans

TEXT = [
    "direction",
    "time",
    "flow",
    "cwnd",
    "ssthresh",
    "snd_wnd",
    "rcv_wnd",
    "flags",
    "flags2",
    "state",
    "srtt",
    "rto",
    "snd_hiwat",
    "snd_cc",
    "rcv_hiwat",
    "rcv_cc",
    "inflight",
    "reassembly",
    "seq",
    "ack",
    "payload",
]
"""Fields of a record up to 2.4."""

HEX = [
    "flow",
    "direction",
    "time",
    "cwnd",
    "ssthresh",
    "srtt",
    "payload",
    "snd_wnd",
    "rcv_wnd",
    "flags",
    "flags2",
    "rto",
    "snd_hiwat",
    "snd_cc",
    "rcv_hiwat",
    "rcv_cc",
    "inflight",
    "reassembly",
]
"""Fields of a record of 2.5; in the binary form direction 0 is in, 1 out."""

RECORD = np.dtype([(name, "<i4" if name == "reassembly" else "<u4") for name in HEX])

MOST_FOOTER = 4 << 20
"""Bytes of a footer that are read."""


_KNOWN = ("siftrver", "sysname", "sysver")


@dataclass
class _Ends:
    header: dict[str, str]
    flows: dict[str, list[str]] = field(default_factory=dict)
    """Words of the footer for each flow ID: addresses and ports, stack, congestion control."""
    drops: str | None = None

    def start_ns(self) -> int:
        """Time at which logging began, 0 where no header says. Raises ValueError for a header that makes no
        sense.
        """
        if not self.header:
            return 0
        texts = [self.header.get(f"enable_time_{unit}", "") for unit in ("secs", "usecs")]
        if not all(re.fullmatch("[0-9]{1,18}", text) for text in texts):
            raise ValueError(f"enable_time_secs={texts[0][:40]} and enable_time_usecs={texts[1][:40]}")
        seconds, us = map(int, texts)
        if not 0 <= seconds * 10**9 + us * 1000 < connections.LATEST_NS:
            raise ValueError("a time that is not between 1970 and 2116")
        return seconds * 10**9 + us * 1000

    def name(self, flow: str) -> str:
        found = self.flows.get(flow)
        return connections.name_of(*found[:4]) if found else f"flow-{flow}"

    def facts(self) -> dict[str, str]:
        facts = {key: self.header[key] for key in _KNOWN if key in self.header}
        algorithms = {found[5] for found in self.flows.values() if len(found) > 5 and not found[5].isdigit()}
        return {**facts, "cc": algorithms.pop()} if len(algorithms) == 1 else facts


def sessions(source: Source) -> Iterator[Session]:
    """Yield the sessions of a log; the rows of each are read before the next one is asked for.

    Raises ValueError for one whose header makes no sense.
    """
    cursor = Cursor(source())
    for span in spans(source()):
        session = Session(iter(()))
        session.rows = _rows(session, cursor, span)
        yield session


def _rows(session: Session, cursor: Cursor, span: Span) -> Iterator[Rows]:
    body = cursor.upto(span.until if span.first_footer is None else span.first_footer)
    line, body = _first_line(body)
    log = _Ends(_pairs(line))
    start = log.start_ns()
    flows = _Flows(session)
    binary = log.header.get("rec_fmt") == "binary"
    if not log.header:
        start_of_body = line + next(body, b"")
        binary, body = is_binary(start_of_body), chain([start_of_body], body)
    if binary:
        frames: Iterator[tuple[pl.DataFrame, int]] = ((frame, 0) for frame in _binary(body))
    else:
        # Text is told from a footer that stands in it.
        body = chain(body, cursor.upto(span.until if span.footer is None else span.footer))
        frames = _texts(body, headless=not log.header)
    dated = False
    for frame, strange in frames:
        session.other += strange
        dated |= "t_ns" in frame.columns
        if frame.height:
            yield flows.rows(frame, start)
    footer = span.first_footer if binary else span.footer
    if footer is not None:
        text = b"".join(cursor.upto(min(span.until, footer + MOST_FOOTER)))
        left = sum(map(len, cursor.upto(span.until))) + len(text.partition(b"\n")[2].strip())
        if left:
            session.warnings.append(f"{left} bytes behind the footer are left out")
        _footer(log, text.decode("utf-8", "replace"))
    session.flows.names = [log.name(flow) for flow in session.flows.names]
    session.facts |= log.facts()
    if session.other:
        session.warnings.append(f"{session.other} lines are no records")
    if log.drops not in (None, "0"):
        session.warnings.append(f"siftr2 dropped {log.drops} records")
    if not log.flows:
        session.warnings.append("no footer: flows are named by their IDs")
    if not log.header and not dated:
        session.warnings.append(connections.NO_START)


def _first_line(body: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first line with its end, as far as `MOST_FOOTER` bytes, and what follows it."""
    start = b""
    for piece in body:
        start += piece
        if b"\n" in piece or len(start) > MOST_FOOTER:
            break
    line, end, rest = start.partition(b"\n")
    return line + end, chain([rest], body)


def _pairs(line: bytes) -> dict[str, str]:
    if not line.startswith(b"enable_time_secs="):
        return {}
    words = line.decode("utf-8", "replace").strip().split("\t")
    return dict(pair.split("=", 1) for pair in words if "=" in pair)


def _footer(log: _Ends, text: str) -> None:
    values = dict(pair.split("=", 1) for pair in text.split("\n", 1)[0].split("\t") if "=" in pair)
    log.drops = values.get("ring_drops")
    for entry in values.get("flow_list", "").split(";")[: connections.MAX_FLOWS]:
        fields = [part.strip() for part in entry.split(",")]
        if len(fields) == 14:
            del fields[1]  # 2.5 says the IP version
        if len(fields) >= 5 and re.fullmatch("[0-9a-fA-F]{1,8}", fields[0]):
            log.flows[fields[0].lower().zfill(8)] = [text[:64] for text in fields[1:]]


def _texts(pieces: Iterator[bytes], *, headless: bool) -> Iterator[tuple[pl.DataFrame, int]]:
    """The records with their times, and how many lines are none."""
    known: bool | None = None
    for text in connections.lines(pieces):
        first, known = known is None, _is_hexadecimal(text) if known is None else known
        frame, other = _text(text, hexadecimal=bool(known))
        if headless and first and known and _lost_digits(frame["flow"]):
            frame, other = frame[1:], other + 1
        yield frame, other


def _is_hexadecimal(text: str) -> bool | None:
    """Whether more lines have the columns of 2.5 than those before it. None where no line has either."""
    columns = connections.fields_in(connections.records(text))
    new, old = (int((columns == len(names)).sum()) for names in (HEX, TEXT))
    return new > old if new or old else None


def _lost_digits(flows: pl.Series) -> bool:
    """Whether the first flow ID is what is left of another one, in a log whose first line is cut off."""
    if len(flows) < 2 or (flows[1:] == flows[0]).any():
        return False
    return bool(flows[1:].str.ends_with(flows[0].lstrip("0")).any())


def _text(text: str, *, hexadecimal: bool) -> tuple[pl.DataFrame, int]:
    names = HEX if hexadecimal else TEXT
    frame, other = connections.fields(text, (len(names),))
    frame = frame.rename({f"c{place}": name for place, name in enumerate(names)})
    flow = frame["flow"].str.to_lowercase().str.zfill(8)
    frame = frame.with_columns(flow)
    good = frame["direction"].is_in(["i", "o"]) & frame["flow"].str.contains("^[0-9a-f]{8}$")
    if hexadecimal:
        numbers = [name for name in names if name not in ("flow", "direction")]
        frame = frame.with_columns(
            pl.col(name).str.to_integer(base=16, dtype=pl.Int64, strict=False).cast(pl.Float64)
            for name in numbers
        )
        return frame.filter(good & frame["time"].is_not_null()), other
    times = pl.Series("t_ns", connections.nanoseconds(frame["time"]))
    numbers = [name for name in names if name not in ("flow", "direction", "time")]
    frame = frame.with_columns(
        times, *(pl.Series(name, connections.numbers(frame[name])).fill_nan(None) for name in numbers)
    )
    return frame.filter(good & (times >= 0)), other


def _binary(pieces: Iterator[bytes]) -> Iterator[pl.DataFrame]:
    rest = b""
    for piece in pieces:
        body = rest + piece
        whole = len(body) // RECORD.itemsize
        rest = body[whole * RECORD.itemsize :]
        records = np.frombuffer(body, RECORD, whole)
        columns = {
            name: records[name].astype(np.float64) for name in HEX if name not in ("flow", "direction")
        }
        flows, codes = np.unique(records["flow"], return_inverse=True)
        names = np.array([f"{flow:08x}" for flow in flows], object)
        way = np.where(records["direction"] == 0, "i", "o").tolist()
        yield pl.DataFrame(
            {
                "flow": pl.Series(names[codes].tolist(), dtype=pl.String),
                "direction": pl.Series(way, dtype=pl.String),
                **columns,
            }
        )


class _Flows:
    """The flows of a session, and what is to be remembered of each from one record to the next."""

    def __init__(self, session: Session) -> None:
        self._flows = session.flows
        self._acked = connections.Unwrapped()
        self._held: dict[int, float] = {}
        self._sent: dict[int, tuple[int, int, float, int] | None] = {}
        """Each flow's last sequence number, its distance from the first one, the farthest end of data, and
        the number of packets that began below that end."""

    def rows(self, frame: pl.DataFrame, start_ns: int) -> Rows:
        def column(wanted: str) -> Column:
            return connections.bounded(frame[wanted].fill_null(np.nan).to_numpy().astype(np.float64))

        known = frame["flow"].unique(maintain_order=True).to_list()
        numbers = {flow: self._flows.number(flow, partial(str, flow)) for flow in known}
        flow = frame["flow"].replace_strict(numbers, return_dtype=pl.Int64).to_numpy()
        cwnd, ssthresh = column("cwnd"), connections.finite_window(column("ssthresh"))
        flags = np.nan_to_num(column("flags")).astype(np.int64)
        srtt = column("srtt") * 1e3
        found = {
            "cwnd_bytes": cwnd,
            "ssthresh_bytes": ssthresh,
            "srtt_ns": np.where(srtt > 0, srtt, np.nan),
            "inflight_bytes": column("inflight"),
            "state": connections.states(cwnd, ssthresh, flags & IN_RECOVERY != 0),
        }
        if "t_ns" not in frame.columns:
            times = start_ns + (frame["time"].to_numpy() * 1e6).astype(np.int64)
            return Rows(flow, times, found)
        inward = (frame["direction"] == "i").to_numpy()
        acked = self._acked.of(flow, np.where(inward, column("ack"), np.nan))
        seq, payload = np.where(inward, np.nan, column("seq")), column("payload")
        found["delivered_bytes"], found["retransmits"] = np.zeros(len(flow)), np.zeros(len(flow))
        for number, places in connections.of_each(flow):
            held = _held(acked[places], self._held.get(number, 0.0))
            found["delivered_bytes"][places], self._held[number] = held, float(held[-1])
            again, self._sent[number] = _again(seq[places], payload[places], self._sent.get(number))
            found["retransmits"][places] = again
        return Rows(flow, frame["t_ns"].to_numpy(), found)


def _held(values: Column, before: float) -> Column:
    """The values with each gap filled by what stood before it, `before` at the beginning."""
    places = np.where(np.isfinite(values), np.arange(len(values)), -1)
    last = np.maximum.accumulate(places)
    return np.where(last >= 0, values[np.maximum(last, 0)], before)


def _again(
    seq: Column, payload: Column, before: tuple[int, int, float, int] | None
) -> tuple[Column, tuple[int, int, float, int] | None]:
    """Number of packets so far that began below the end of the data sent before them, and the state to
    remember.
    """
    sent = np.flatnonzero(np.isfinite(seq) & (np.nan_to_num(payload) > 0))
    counted = np.zeros(len(seq))
    if not len(sent):
        return counted + (before[3] if before else 0), before
    known = seq[sent].astype(np.int64)
    last, place, end, count = before or (int(known[0]), 0, -np.inf, 0)
    places = place + np.cumsum((np.diff(known, prepend=last) + 2**31) % 2**32 - 2**31)
    ends = np.maximum(np.maximum.accumulate(places + payload[sent]), end)
    counted[sent] = places < np.concatenate([[end], ends[:-1]])
    total = count + np.cumsum(counted)
    return total, (int(known[-1]), int(places[-1]), float(ends[-1]), int(total[-1]))
