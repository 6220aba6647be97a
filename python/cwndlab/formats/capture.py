"""pcap and pcapng captures: a run of what one capture shows, or of what several taken at different points show together.

The packets are read and worked through in Rust (`crates/trace`); here columns are put together. A flow is a direction of a
connection that carries data. Its `tcp` table has a row for each data segment and each acknowledgement at the capture point
nearest to the sender: data in flight, bytes acknowledged, retransmitted segments, and the round trip from there; cwnd and
ssthresh are not in packets, and stay empty.

Kinds of samples: `throughput` (bytes in a sliding window, at its centre), `acked` (bytes newly acknowledged in it),
`segments-per-ack`, `flight-per-round` (bytes); with two points also `spp-rtt`, `one-way-delay` and `one-way-delay-back`
(ns). Kinds of events: `retransmission` and `duplicate-ack`; with two points also `drop`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cwndlab import _native
from cwndlab.errors import InputError
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.formats.series import Column, Flow

NAME = "pcap or pcapng"

MAGICS = (b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1", b"\x0a\x0d\x0d\x0a")

ETHERNET_MSS = 1460
"""Segment size of a connection whose handshake the capture does not hold."""

TIMESTAMPS = 12
"""Bytes of options that most segments carry (RFC 7323)."""

LEAST_BYTES = 1
"""Payload of a direction from which on it is a flow."""


@dataclass(frozen=True)
class Options:
    """How captures are evaluated."""

    window_s: float = 1.0
    """Length of a sliding window."""
    step_s: float = 0.1
    """Time between the beginnings of windows; the length must be a multiple of it."""
    count: str = "ip"
    """Bytes of a packet that count: `ip` (from the IP header on), `frame`, or `payload`."""
    same_clock: bool = False
    """Whether all captures were taken with one clock, so that delays need no correction."""


@dataclass(frozen=True)
class _Stream:
    """A flow as one capture has it."""

    capture: _native.Capture
    path: Path
    connection: int
    backward: bool
    ends: tuple[str, int, str, int]
    first_seq: int | None
    sender: dict[str, Any]
    receiver: dict[str, Any]

    @property
    def name(self) -> str:
        return series.name_of(*self.ends)

    @property
    def mss(self) -> int:
        """The sender's segment size."""
        announced = int(self.receiver["mss"] or ETHERNET_MSS)
        largest = int(self.sender["largest_payload"])
        return max(largest if largest <= announced else announced - TIMESTAMPS, 1)


@dataclass
class _Rows:
    """Samples or events of one run, before they are sorted."""

    t_ns: list[Column] = field(default_factory=list)
    columns: list[dict[str, Any]] = field(default_factory=list)

    def add(self, t_ns: Column, **columns: Any) -> None:
        if len(t_ns):
            self.t_ns.append(t_ns.astype(np.int64))
            self.columns.append(columns)


def recognises(head: bytes) -> bool:
    """Whether the file begins as pcap or pcapng does."""
    return head[:4] in MAGICS


def read(path: Path) -> list[Recording]:
    """The one run that a capture shows; raises InputError when it cannot be read or holds no TCP data."""
    return read_all([path], Options())


def read_all(paths: Sequence[Path], options: Options) -> list[Recording]:
    """The runs that captures show: those of the same connections make one run, at several points.

    Raises InputError when one cannot be read, or holds no TCP data.
    """
    streams = []
    for path in paths:
        try:
            capture = _native.Capture(str(path), len(paths) > 1)
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None
        found = list(_streams(capture, path))
        if not found:
            raise InputError(f"{path}: no TCP data in this capture")
        if len(found) > series.MOST_FLOWS:
            raise InputError(f"{path}: more than {series.MOST_FLOWS} connections with data")
        streams.append(found)
    return [_recording([streams[place] for place in group], options) for group in _together(streams)]


def _streams(capture: _native.Capture, path: Path) -> Iterator[_Stream]:
    for number, entry in enumerate(capture.connections()):
        ends = (entry["source"], entry["source_port"], entry["target"], entry["target_port"])
        halves = entry["forward"], entry["backward"]
        for backward in (False, True):
            mine, other = (halves[backward], halves[not backward])
            if mine["payload_bytes"] >= LEAST_BYTES:
                turned = (ends[2], ends[3], ends[0], ends[1]) if backward else ends
                yield _Stream(capture, path, number, backward, turned, mine["first_seq"], mine, other)


def _same(one: _Stream, other: _Stream) -> bool:
    """Whether two captures hold the same stream: the same ends, and sequence numbers from about the same place."""
    if one.ends != other.ends:
        return False
    if one.first_seq is None or other.first_seq is None:
        return True
    apart = (one.first_seq - other.first_seq) % 2**32
    # One of them may have begun later.
    return min(apart, 2**32 - apart) <= max(one.sender["payload_bytes"], other.sender["payload_bytes"])


def _together(streams: Sequence[Sequence[_Stream]]) -> list[list[int]]:
    """Captures that share a stream, as lists of their places."""
    group = list(range(len(streams)))
    for place, mine in enumerate(streams):
        for before in range(place):
            if any(_same(one, other) for one in mine for other in streams[before]):
                old, new = group[place], group[before]
                group = [new if member == old else member for member in group]
    return [[place for place, member in enumerate(group) if member == first] for first in dict.fromkeys(group)]


def _recording(captures: list[list[_Stream]], options: Options) -> Recording:
    """The run of captures that belong together."""
    chosen: list[list[_Stream]] = []
    for stream in (stream for streams in captures for stream in streams):
        same = next((points for points in chosen if _same(points[0], stream)), None)
        if same is None:
            chosen.append([stream])
        elif all(point.path != stream.path for point in same):
            same.append(stream)
    names = _names([points[0].name for points in chosen])
    samples, events, flows, warnings, facts = _Rows(), _Rows(), list[Flow](), list[str](), dict[str, str]()
    for points, name in zip(chosen, names, strict=True):
        ordered = sorted(points, key=_round_trip, reverse=True)
        flow = _flow(ordered[0], name, options, samples, events, warnings)
        for near, far in zip(ordered, ordered[1:], strict=False):
            _between(near, far, name, flow, options, samples, events, facts, ends=len(ordered) == 2)
        if len(ordered) > 2:
            _between(ordered[0], ordered[-1], name, flow, options, samples, None, facts, ends=True)
        flows.append(flow)
    for streams in captures:
        warnings += _skipped(streams[0])
    paths = [streams[0].path for streams in captures]
    label = " + ".join(path.name for path in paths)
    return _assemble(flows, samples, events, paths[0], label, facts, warnings)


def _names(names: list[str]) -> list[str]:
    """The names with a number where ports were used again."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return unique


def _round_trip(stream: _Stream) -> float:
    """The median round trip from a point to the receiver: the longer, the nearer it is to the sender."""
    rtt, _, _ = stream.capture.rounds(stream.connection, stream.backward, stream.mss)
    values = _column(rtt, "value")
    return float(np.median(values)) if len(values) else 0.0


def _flow(
    stream: _Stream, name: str, options: Options, samples: _Rows, events: _Rows, warnings: list[str]
) -> Flow:
    capture, connection, backward = stream.capture, stream.connection, stream.backward
    data, acks = pa.record_batch(capture.data(connection, backward)), pa.record_batch(capture.acks(connection, backward))
    rtt, segments, flight = (pa.record_batch(rows) for rows in capture.rounds(connection, backward, stream.mss))
    sent_ns, acked_ns = _times(data), _times(acks)
    again = _values(data, "repeated_bytes")
    times = np.concatenate([sent_ns, acked_ns])
    order = np.argsort(times, kind="stable")
    # Rows of acknowledgements carry what was acknowledged, rows of data hold it.
    acked = np.maximum.accumulate(np.maximum(_values(acks, "acked"), 0)) if len(acked_ns) else np.empty(0)
    delivered = np.concatenate([np.full(len(sent_ns), -1.0), acked])[order]
    delivered = np.maximum.accumulate(np.maximum(delivered, 0)) if len(delivered) else delivered
    sample = np.concatenate([np.full(len(sent_ns), np.nan), _at(acked_ns, rtt)])[order]
    retransmits = np.cumsum(np.concatenate([again > 0, np.zeros(len(acked_ns), bool)])[order])
    columns: dict[str, Any] = {
        "rtt_ns": sample,
        "inflight_bytes": np.concatenate([_values(data, "flight_bytes"), _values(acks, "flight_bytes")])[order],
        "delivered_bytes": series.bounded(delivered),
        "retransmits": retransmits.astype(np.float64),
    }
    for kind, rows in (("segments-per-ack", segments), ("flight-per-round", flight)):
        samples.add(_times(rows), flow=name, kind=kind, value=_values(rows, "value"))
    window_ns, step_ns = round(options.window_s * 1e9), round(options.step_s * 1e9)
    for kind, count in (("throughput", options.count), ("acked", "acked")):
        try:
            windows = pa.record_batch(capture.throughput(connection, backward, count, window_ns, step_ns))
        except ValueError as error:
            if f"no windows: {error}" not in warnings:
                warnings.append(f"no windows: {error}")
            continue
        samples.add(_times(windows), flow=name, kind=kind, value=_values(windows, "value"))
    resent = again > 0
    events.add(
        sent_ns[resent], flow=name, hop=None, kind="retransmission", seq=_values(data, "offset")[resent],
        value=_values(data, "bytes")[resent],
    )  # fmt: skip
    duplicate = _values(acks, "duplicate") > 0
    events.add(
        acked_ns[duplicate], flow=name, hop=None, kind="duplicate-ack", seq=_values(acks, "acked")[duplicate],
        value=np.full(int(duplicate.sum()), np.nan),
    )  # fmt: skip
    return Flow(name, times[order], columns, _figures(stream, data, acked_ns, sent_ns, options))


def _figures(
    stream: _Stream, data: pa.RecordBatch, acked_ns: Column, sent_ns: Column, options: Options
) -> dict[str, float]:
    sender = stream.sender
    found = {"retransmit_rate": sender["repeated_packets"] / max(sender["data_packets"], 1)}
    if len(acked_ns) and len(sent_ns):
        seconds = (max(acked_ns.max(), sent_ns.max()) - sent_ns.min()) / 1e9
        if seconds > 0:
            found["goodput_mbps"] = 8e-6 * sender["acked_bytes"] / seconds
            total = {"ip": sender["ip_bytes"], "payload": sender["payload_bytes"]}.get(options.count)
            if total is not None:
                found["throughput_mbps"] = 8e-6 * total / seconds
    return found


def _between(
    near: _Stream,
    far: _Stream,
    name: str,
    flow: Flow,
    options: Options,
    samples: _Rows,
    events: _Rows | None,
    facts: dict[str, str],
    *,
    ends: bool,
) -> None:
    """Losses between two points and, between the ends, round trips and delays."""
    connection = far.capture.connections()[far.connection]
    mine = near.capture.connections()[near.connection]
    turned = (connection["source"], connection["source_port"]) != (mine["source"], mine["source_port"])
    found = near.capture.pairs(
        near.connection, near.backward, far.capture, far.connection, turned, options.same_clock
    )
    lost = pa.record_batch(found["lost"])
    hop = f"{near.path.name} to {far.path.name}"
    payload = _values(lost, "bytes") > 0
    if events is not None:
        events.add(
            _times(lost)[payload], flow=name, hop=hop, kind="drop", seq=_values(lost, "offset")[payload],
            value=_values(lost, "bytes")[payload],
        )  # fmt: skip
    if not ends:
        return
    if near.sender["data_packets"]:
        flow.figures["drop_rate"] = float(payload.sum()) / near.sender["data_packets"]
    trips = pa.record_batch(found["round_trips"])
    samples.add(_times(trips), flow=name, kind="spp-rtt", value=_values(trips, "value"))
    positive = _values(trips, "value")
    positive = positive[positive > 0] / 1e6
    if len(positive):
        flow.figures |= series.rtt_figures(positive)
    for kind, key in (("one-way-delay", "delays"), ("one-way-delay-back", "delays_back")):
        delays = pa.record_batch(found[key])
        samples.add(_times(delays), flow=name, kind=kind, value=_values(delays, "value"))
        values = _values(delays, "value") / 1e6
        if kind == "one-way-delay" and len(values):
            flow.figures["one_way_p50_ms"], flow.figures["one_way_p95_ms"] = map(
                float, np.percentile(values, [50, 95])
            )
    facts[f"{name}: packets seen at both points"] = str(found["matched"])
    facts[f"{name}: packets that look alike, left out"] = str(found["ambiguous"])
    if found["offset_ns"] is not None and not options.same_clock:
        facts[f"{name}: clock of {far.path.name}"] = f"{found['offset_ns']} ns ahead, {found['skew'] * 1e6:.3f} ppm fast"


def _skipped(stream: _Stream) -> list[str]:
    other, fragments, cut, malformed, ends = stream.capture.skipped()
    name = stream.path.name
    said = [
        (fragments, f"{name}: {fragments} fragments without a TCP header"),
        (cut, f"{name}: {cut} packets of which the capture holds too little"),
        (malformed, f"{name}: {malformed} malformed packets"),
        (ends, f"{name}: ends in the middle of a record"),
    ]
    return [text for count, text in said if count]


def _assemble(
    flows: list[Flow],
    samples: _Rows,
    events: _Rows,
    path: Path,
    label: str,
    facts: dict[str, str],
    warnings: list[str],
) -> Recording:
    zero = min(int(flow.t_ns.min()) for flow in flows if len(flow.t_ns))
    epoch = zero > 10**17  # a capture of a simulation counts from 0
    found = series.recording(NAME, path, label, flows, epoch=epoch, facts=facts, warnings=warnings)
    more = {"samples": _table("samples", samples, zero), "events": _table("events", events, zero)}
    started = datetime.fromtimestamp(zero / 1e9, UTC) if epoch else None
    return replace(found, tables={**found.tables, **{k: v for k, v in more.items() if v.num_rows}}, started=started)


def _table(name: str, rows: _Rows, zero: int) -> pa.Table:
    """The rows in order of time, counted from the run's beginning; earlier ones (clocks that differ) stand at it."""
    if not rows.t_ns:
        return base.rows(name)
    times = np.concatenate(rows.t_ns)
    order = np.argsort(times, kind="stable")
    columns: dict[str, Any] = {"t_ns": np.maximum(times[order] - zero, 0).astype(np.uint64)}
    for column in rows.columns[0]:
        parts = []
        for part, t_ns in zip(rows.columns, rows.t_ns, strict=True):
            value = part[column]
            parts.append(value if isinstance(value, np.ndarray) else np.full(len(t_ns), value, dtype=object))
        whole = np.concatenate(parts)[order]
        if column == "seq":
            whole = series.bounded(whole.astype(np.float64))
        columns[column] = whole.tolist() if whole.dtype == object else whole
    return base.rows(name, **columns)


def _at(times: Column, rows: pa.RecordBatch) -> Column:
    """Values of rows that stand at some of these times, NaN at the others."""
    at = np.full(len(times), np.nan)
    places = np.searchsorted(times, _times(rows)) if len(times) else np.empty(0, int)
    fitting = places < len(times)
    at[places[fitting]] = _values(rows, "value")[fitting]
    return at


def _times(rows: pa.RecordBatch) -> Column:
    return _column(rows, "t_ns").astype(np.int64)


def _values(rows: pa.RecordBatch, name: str) -> Column:
    return _column(rows, name).astype(np.float64)


def _column(rows: Any, name: str) -> Column:
    found: Column = pa.record_batch(rows).column(name).to_numpy(zero_copy_only=False)
    return found
