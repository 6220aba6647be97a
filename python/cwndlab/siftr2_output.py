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
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import polars as pl

from cwndlab import logged
from cwndlab.logged import Column, Flow, Log
from cwndlab.siftr_output import IN_RECOVERY

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

NO_START = "no header: times count from when logging began, which is not known"

FOOTER = b"disable_time_secs="


@dataclass
class _Ends:
    header: dict[str, str]
    flows: dict[str, list[str]] = field(default_factory=dict)
    """What the footer says of each flow ID: addresses and ports, stack, congestion control."""
    drops: str | None = None

    def name(self, flow: str) -> str:
        found = self.flows.get(flow)
        return logged.name_of(*found[:4]) if found else f"flow-{flow}"


def parse(data: bytes) -> list[Log]:
    """What each session of a log says; raises ValueError for one whose header makes no sense."""
    places = [found.start() for found in re.finditer(rb"enable_time_secs=\d", data)]
    found = [_session(data[start:until]) for start, until in pairwise([*places, len(data)])]
    before = data[: places[0] if places else None]
    if before.strip():
        found.insert(0, _session(b"\n" + before))
    return [log for log in found if log.flows] or found[:1]


def _session(data: bytes) -> Log:
    line, _, body = data.partition(b"\n")
    pairs = (
        pair.split("=", 1) for pair in line.decode("utf-8", "replace").strip().split("\t") if "=" in pair
    )
    log = _Ends(dict(pairs))
    at = body.rfind(FOOTER)
    if at >= 0:
        _footer(log, body[at:].decode("utf-8", "replace"))
        body = body[:at]
    start = 0
    try:
        if log.header:
            start = int(log.header["enable_time_secs"]) * 10**9 + int(log.header["enable_time_usecs"]) * 1000
        if not 0 <= start < logged.LATEST_NS:
            raise ValueError("a time that is not between 1970 and 2116")
    except KeyError as error:
        raise ValueError(str(error)) from None
    kind = log.header.get("rec_fmt", "")
    other = 0
    if kind == "binary":
        frame, start_ns = _binary(body), start
    else:
        text = body.decode("utf-8", "replace")
        hexadecimal = kind != "" if log.header else text.split("\n", 1)[0].count(",") < len(TEXT) - 1
        frame, other, start_ns = _text(text, hexadecimal=hexadecimal, start=start)
    names = {flow: log.name(flow) for flow in frame["flow"].unique(maintain_order=True).to_list()}
    if len(names) > logged.MAX_FLOWS:
        raise ValueError(f"more than {logged.MAX_FLOWS} connections")
    flows = [
        _flow(names[group["flow"][0]], group, start_ns)
        for group in frame.partition_by("flow", maintain_order=True)
    ]
    known = ("siftrver", "sysname", "sysver")
    facts: dict[str, str] = {str(key): log.header[key] for key in known if key in log.header}
    algorithms = {found[5] for found in log.flows.values() if len(found) > 5 and not found[5].isdigit()}
    if len(algorithms) == 1:
        facts["cc"] = algorithms.pop()
    warnings = [f"{other} lines are no records"] if other else []
    if log.drops not in (None, "0"):
        warnings.append(f"siftr2 dropped {log.drops} records")
    if not log.flows:
        warnings.append("no footer: flows are named by their IDs")
    if not log.header and start_ns == 0 and "t_ns" not in frame.columns:
        warnings.append(NO_START)
    return Log(flows, facts, warnings)


def _footer(log: _Ends, text: str) -> None:
    values = dict(pair.split("=", 1) for pair in text.split("\n", 1)[0].split("\t") if "=" in pair)
    log.drops = values.get("ring_drops")
    for entry in values.get("flow_list", "").split(";")[: logged.MAX_FLOWS]:
        fields = [part.strip() for part in entry.split(",")]
        if len(fields) == 14:
            del fields[1]  # 2.5 says the IP version
        if len(fields) >= 5 and re.fullmatch("[0-9a-fA-F]{1,8}", fields[0]):
            log.flows[fields[0].lower().zfill(8)] = [text[:64] for text in fields[1:]]


def _text(text: str, *, hexadecimal: bool, start: int) -> tuple[pl.DataFrame, int, int]:
    """The records, how many lines are none, and what time 0 of the column `t_ns` is."""
    names = HEX if hexadecimal else TEXT
    frame, other = logged.fields(text, (len(names),))
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
        return frame.filter(good & frame["time"].is_not_null()), other, start
    times = pl.Series("t_ns", logged.nanoseconds(frame["time"]))
    numbers = [name for name in names if name not in ("flow", "direction", "time")]
    frame = frame.with_columns(
        times, *(pl.Series(name, logged.numbers(frame[name])).fill_nan(None) for name in numbers)
    )
    return frame.filter(good & (times >= 0)), other, 0


def _binary(body: bytes) -> pl.DataFrame:
    whole = len(body) // RECORD.itemsize
    records = np.frombuffer(body, RECORD, whole)
    columns = {name: records[name].astype(np.float64) for name in HEX if name not in ("flow", "direction")}
    flows, codes = np.unique(records["flow"], return_inverse=True)
    names = np.array([f"{flow:08x}" for flow in flows], object)
    return pl.DataFrame(
        {
            "flow": pl.Series(names[codes].tolist(), dtype=pl.String),
            "direction": pl.Series(np.where(records["direction"] == 0, "i", "o").tolist(), dtype=pl.String),
            **columns,
        }
    )


def _flow(name: str, rows: pl.DataFrame, start_ns: int) -> Flow:
    def column(wanted: str) -> Column:
        return logged.bounded(rows[wanted].fill_null(np.nan).to_numpy().astype(np.float64))

    cwnd, ssthresh = column("cwnd"), logged.finite_window(column("ssthresh"))
    flags = np.nan_to_num(column("flags")).astype(np.int64)
    srtt = column("srtt") * 1e3
    found = {
        "cwnd_bytes": cwnd,
        "ssthresh_bytes": ssthresh,
        "srtt_ns": np.where(srtt > 0, srtt, np.nan),
        "inflight_bytes": column("inflight"),
        "state": logged.states(cwnd, ssthresh, flags & IN_RECOVERY != 0),
    }
    if "t_ns" not in rows.columns:
        times = start_ns + (rows["time"].to_numpy() * 1e6).astype(np.int64)
        return Flow(name, times, found)
    inward = (rows["direction"] == "i").to_numpy()
    found["delivered_bytes"] = _held(logged.unwrapped(np.where(inward, column("ack"), np.nan)))
    found["retransmits"] = _again(np.where(inward, np.nan, column("seq")), column("payload"))
    return Flow(name, rows["t_ns"].to_numpy(), found)


def _held(values: Column) -> Column:
    """The values with each gap filled by what stood before it, 0 before the first."""
    places = np.where(np.isfinite(values), np.arange(len(values)), -1)
    last = np.maximum.accumulate(places) if len(places) else places
    return np.where(last >= 0, values[np.maximum(last, 0)], 0.0)


def _again(seq: Column, payload: Column) -> Column:
    """How many packets so far began below the end of the data sent before them."""
    sent = np.isfinite(seq) & (np.nan_to_num(payload) > 0)
    counted = np.zeros(len(seq))
    if sent.any():
        known = seq[sent].astype(np.int64)
        place = np.concatenate([[0], np.cumsum((np.diff(known) + 2**31) % 2**32 - 2**31)])
        ends = np.maximum.accumulate(place + payload[sent])
        counted[np.flatnonzero(sent)[1:]] = place[1:] < ends[:-1]
    return np.cumsum(counted)
