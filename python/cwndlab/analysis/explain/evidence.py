"""The evidence of one connection: its packets as its sender saw them, or the rows that a log has of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cwndlab import _native
from cwndlab.analysis.numeric import Floats
from cwndlab.errors import InputError, unknown
from cwndlab.formats import base, capture, capture_files
from cwndlab.formats.base import Recording
from cwndlab.testbeds.logs import connections

USUAL_MSS = 1448
"""Bytes of payload in a packet where nothing says: 1500 less IP, TCP and timestamps."""

HEADERS = 52
"""Bytes of IP and TCP headers with timestamps, where packets are too large to be those of the wire."""

SENDER, RECEIVER, BETWEEN = "the sender", "the receiver", "a place between"
"""Words for where a capture was taken."""

NEAR = 0.15
"""Share of the round trip up to which a capture counts as taken at an end."""

FEW = 20
"""Packets with data below which nothing is explained."""

_LOG_COLUMNS = (
    "cwnd_bytes",
    "ssthresh_bytes",
    "srtt_ns",
    "rtt_ns",
    "inflight_bytes",
    "delivered_bytes",
    "retransmits",
    "send_window_bytes",
    "send_buffer_bytes",
)


@dataclass(frozen=True)
class Packets:
    """The packets of a connection by the sender's clock: those of a capture elsewhere are shifted."""

    sent_s: Floats
    offset: Floats
    length: Floats
    again: Floats
    """Payload that was below the highest byte before: sent again, or late."""
    acked_s: Floats
    acked: Floats
    """Bytes acknowledged so far."""
    window: Floats
    """Window that the receiver offers."""
    rtt_s: Floats
    """Times of round-trip samples, and the samples; none of a capture at the receiver."""
    rtt: Floats
    handshake_s: float | None
    """Round trip of the handshake; None where the capture does not hold it."""
    taken_at: str
    how: str
    """Reason why it is said to be taken there, to stand behind a colon."""
    lost_s: Floats
    """Times at which data were sent again, or, of a capture at the receiver, filled a hole."""
    echoes: int
    """ACKs that echo congestion marks."""


@dataclass(frozen=True)
class Connection:
    """All that is known of one connection that carries data from a sender to a receiver."""

    name: str
    source: str
    format: str
    mss: int
    headers: float
    """Bytes of IP and TCP headers of a packet with data."""
    begin_s: float
    end_s: float
    goodput_bps: float | None
    """Payload acknowledged in a second, from the first data to the last acknowledgement."""
    packets: Packets | None = None
    """Packets of a capture; None of a log."""
    rows: Mapping[str, Floats] = field(default_factory=dict)
    """Rows of a log, by columns of the `tcp` table with `t_s`; NaN where nothing is known."""
    told: Mapping[str, float] = field(default_factory=dict)
    """Metrics that the log itself has."""
    cc: str | None = None
    """Congestion control that the log names."""
    notes: Sequence[str] = ()

    @property
    def duration_s(self) -> float:
        """Time from the first data to the last acknowledgement."""
        return self.end_s - self.begin_s

    @property
    def family(self) -> str:
        """IP version of the packets, as the experiment file names it; IPv4 where the name has no address."""
        return "ipv6" if self.name.startswith("[") else "ipv4"

    @property
    def wire(self) -> float:
        """Bytes on the wire, an Ethernet header included, for a byte of payload."""
        return (self.mss + self.headers + 14) / self.mss


def read(path: Path, flow: str | None) -> Connection:
    """Read the connection of a file with most data, or the one that is named.

    Raises InputError for what cannot be read, holds too little, or has no such connection.
    """
    if not path.is_file():
        raise InputError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
    if capture.recognises(base.head(path)):
        return _of_capture(path, flow)
    return _of_log(path, base.read(path)[0], flow)


def _of_capture(path: Path, flow: str | None) -> Connection:
    opened = capture_files.open_with_reverse(path)
    found = opened.capture
    if capture_files.is_one_way(found):
        raise InputError(
            f"{path}: holds one direction; explain needs both (a file named"
            f" {capture_files.reverse_of(path).name} beside it is read, too)"
        )
    entries = found.connections()
    control = capture_files.control_connections(found)
    streams = {
        connections.name_of(*_ends(entry, backward=backward)): (number, backward)
        for number, entry in enumerate(entries)
        if number not in control
        for backward in (False, True)
        if entry["backward" if backward else "forward"]["data_packets"]
    }
    if not streams:
        raise InputError(f"{path}: {capture_files.without_data(found)}")
    if flow is not None and flow not in streams:
        raise InputError(unknown("--flow", flow, list(streams)))

    def payload(name: str) -> int:
        number, backward = streams[name]
        return int(entries[number]["backward" if backward else "forward"]["payload_bytes"])

    name = flow or max(streams, key=payload)
    number, backward = streams[name]
    entry = entries[number]
    sender, receiver = (
        entry[way] for way in (("backward", "forward") if backward else ("forward", "backward"))
    )
    if sender["data_packets"] < FEW:
        raise InputError(
            f"{path}: {name} has {sender['data_packets']} packets with data; expected {FEW} or more"
        )
    whole = sender["largest_payload"] <= (receiver["mss"] or capture.ETHERNET_MSS)
    mss = int(sender["largest_payload"]) if whole else USUAL_MSS
    handshake = _handshake(found, number, entry, backward=backward)
    packets = _packets(found, number, mss, receiver["ece_packets"], handshake, backward=backward)
    if not len(packets.acked_s) or packets.acked[-1] <= 0:
        raise InputError(f"{path}: {name} has no acknowledgement of its data")
    begin, end = float(packets.sent_s[0]), float(packets.acked_s[-1])
    others = len(streams) - 1
    notes = [f"{others} more connections carry data; --flow chooses one"] if others and flow is None else []
    if not whole:
        notes.append("the capture lies above segmentation: packets are larger than those of the wire")
    return Connection(
        name,
        opened.name,
        "capture",
        mss,
        (sender["ip_bytes"] - sender["payload_bytes"]) / sender["packets"] if whole else HEADERS,
        begin,
        end,
        8 * float(packets.acked[-1]) / max(end - begin, 1e-9),
        packets,
        notes=notes + capture_files.passed_over(found.skipped()),
    )


def _ends(entry: Mapping[str, Any], *, backward: bool) -> tuple[str, int, str, int]:
    one, other = (entry["source"], entry["source_port"]), (entry["target"], entry["target_port"])
    return (*other, *one) if backward else (*one, *other)


def _handshake(
    found: _native.Capture, number: int, entry: Mapping[str, Any], *, backward: bool
) -> tuple[float, float] | None:
    """Times from the SYN to the SYN-ACK, and to the ACK behind it, those that the data's sender waits first.

    None where the capture does not hold both SYNs.
    """
    if entry["forward"]["mss"] is None or entry["backward"]["mss"] is None:
        return None
    answer, third = (_seconds(found.acks(number, back), entry["first_ns"]) for back in (False, True))
    if not len(answer) or not len(third):
        return None
    gaps = (float(answer[0]), float(third[0] - answer[0]))
    if min(gaps) < 0 or sum(gaps) <= 0:
        return None
    return (gaps[1], gaps[0]) if backward else gaps


def _packets(
    found: _native.Capture,
    number: int,
    mss: int,
    echoes: int,
    handshake: tuple[float, float] | None,
    *,
    backward: bool,
) -> Packets:
    data, acks = (pa.record_batch(rows(number, backward)) for rows in (found.data, found.acks))
    rounds = found.rounds(number, backward, mss)[0]
    zero = (found.span or (0, 0))[0]
    sent, acked, rtt_s = (_seconds(rows, zero) for rows in (data, acks, rounds))
    offset, length, again = (_numbers(data, name) for name in ("offset", "bytes", "repeated_bytes"))
    holes = _fills_holes(offset, again)
    where, how, part = _where(handshake, holes)
    # What leaves the receiver reaches the sender later than it passed here.
    later = (1 - part) * sum(handshake) if handshake else 0.0
    known = where != RECEIVER
    total = np.maximum.accumulate(np.maximum(_numbers(acks, "acked"), 0)) if len(acked) else acked
    return Packets(
        sent_s=sent,
        offset=offset,
        length=length,
        again=again,
        acked_s=acked + later,
        acked=np.minimum(total, float((offset + length).max(initial=0))),
        window=_numbers(acks, "window_bytes"),
        rtt_s=rtt_s + later if known else np.empty(0),
        rtt=_numbers(rounds, "value") / 1e9 + later if known else np.empty(0),
        handshake_s=sum(handshake) if handshake else None,
        taken_at=where,
        how=how,
        lost_s=sent[again > 0],
        echoes=echoes,
    )


def _where(handshake: tuple[float, float] | None, holes: bool | None) -> tuple[str, str, float]:
    """Say where a capture was taken, why, and the share of the round trip that lies behind it."""
    if handshake is not None:
        part = handshake[0] / sum(handshake)
        told = (
            f"of the handshake's {1e3 * sum(handshake):.3g} ms {100 * part:.0f} % pass on the receiver's side"
        )
        if part > 1 - NEAR:
            return SENDER, told, 1.0
        return (RECEIVER, told, 0.0) if part < NEAR else (BETWEEN, told, part)
    if holes is None:
        return SENDER, "taken for granted, as it holds neither the handshake nor a loss", 1.0
    if holes:
        return RECEIVER, "lost data are missing from it before they come again", 0.0
    return SENDER, "lost data stand in it before they are sent again", 1.0


def _fills_holes(offset: Floats, again: Floats) -> bool | None:
    """Whether data below the highest byte are such as were not seen before; None without any."""
    late = np.flatnonzero(again > 0)
    if len(late) < 3:
        return None
    first = {int(value): place for place, value in reversed(list(enumerate(offset)))}
    known = sum(first[int(offset[place])] < place for place in late)
    return bool(2 * known < len(late))


def _of_log(path: Path, found: Recording, flow: str | None) -> Connection:
    stored = found.tables.get("tcp")
    if stored is None or not stored.num_rows:
        raise InputError(f"{path}: {found.format} without a row over time of any connection")
    table = stored.read()
    names = np.array(table["flow"].cast(pa.utf8()).to_pylist(), dtype=object)
    known = [name for name in names if name is not None]
    every, counts = np.unique(np.array(known, dtype=object), return_counts=True)
    if not len(every):
        raise InputError(f"{path}: {found.format} without a connection's name")
    if flow is not None and flow not in every:
        raise InputError(unknown("--flow", flow, [str(each) for each in every]))
    name = flow if flow is not None else _busiest(table, names, every, counts)
    chosen = table.filter(pa.array(names == name))
    rows = {column: _numbers(chosen, column) for column in _LOG_COLUMNS}
    rows = {
        column.replace("_ns", "_s"): values / 1e9 if column.endswith("_ns") else values
        for column, values in rows.items()
        if not np.all(np.isnan(values))
    }
    rows["t_s"] = _numbers(chosen, "t_ns") / 1e9
    rows |= _more(found, name, rows["t_s"])
    begin, end = float(rows["t_s"][0]), float(rows["t_s"][-1])
    told = dict(found.metrics.get(name, {}))
    goodput = told.get("goodput_mbps")
    others = len(every) - 1
    mss = _largest(rows.get("mss"), USUAL_MSS)
    return Connection(
        name,
        path.name,
        found.format,
        mss,
        HEADERS,
        begin,
        end,
        None if goodput is None else 1e6 * goodput,
        None,
        rows,
        told,
        cc=found.facts.get("congestion control") or found.facts.get("cc"),
        notes=[
            *(
                [f"{others} more connections have rows; --flow chooses one"]
                if others and flow is None
                else []
            ),
            *found.warnings,
        ],
    )


def _busiest(table: pa.Table, names: np.ndarray[Any, Any], every: Any, counts: Any) -> str:
    """Name the connection that carried most, or, where nothing says what was carried, has most rows."""
    carried = {}
    for column in ("delivered_bytes", "inflight_bytes"):
        values = np.nan_to_num(_numbers(table, column))
        carried = {name: float(values[names == name].max(initial=0)) for name in every}
        if any(carried.values()):
            return str(max(carried, key=lambda name: carried[name]))
    return str(every[int(np.argmax(counts))])


_SAMPLES = {
    "snd_wnd": "send_window_bytes",
    "snd_hiwat": "send_buffer_bytes",
    "snd_cc": "queued",
    "mss": "mss",
}
"""Fields of SIFTR that become samples, and what they are here: the peer's window, the size of the send
buffer, bytes in it, and the segment size."""


def _more(found: Recording, flow: str, t_s: Floats) -> dict[str, Floats]:
    """Columns that a log has as samples, each value from its time on."""
    stored = found.tables.get("samples")
    if stored is None or not stored.num_rows:
        return {}
    table = stored.read()
    flows, kinds = (
        np.array(table[name].cast(pa.utf8()).to_pylist(), dtype=object) for name in ("flow", "kind")
    )
    times, values = _numbers(table, "t_ns") / 1e9, _numbers(table, "value")
    columns = {}
    for kind in set(kinds):
        name = _SAMPLES.get(str(kind).rpartition(".")[2])
        chosen = (flows == flow) & (kinds == kind)
        # Zero is no size: whoever writes it does not know.
        if name is None or not values[chosen].any():
            continue
        place = np.searchsorted(times[chosen], t_s, side="right") - 1
        columns[name] = np.where(place >= 0, values[chosen][np.maximum(place, 0)], np.nan)
    return columns


def _largest(values: Floats | None, otherwise: int) -> int:
    known = np.empty(0) if values is None else values[np.isfinite(values)]
    return int(known.max()) if len(known) and known.max() > 0 else otherwise


def _seconds(rows: Any, zero_ns: int) -> Floats:
    """Times from one on, in seconds; floats of ns since 1970 would be 256 ns apart."""
    times = pa.record_batch(rows).column("t_ns").to_numpy(zero_copy_only=False).astype(np.int64)
    return np.asarray((times - zero_ns) / 1e9, dtype=np.float64)


def _numbers(rows: Any, name: str) -> Floats:
    found = (rows if isinstance(rows, pa.Table) else pa.record_batch(rows)).column(name)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    return np.asarray(found.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
