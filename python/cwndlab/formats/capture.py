"""pcap and pcapng captures: a run of what one capture shows, or of what several taken at different points
show together.

The packets are read and worked through in Rust (`crates/trace`); here columns are put together. A flow is a
direction of a connection that carries data. Its `tcp` table has a row for each data segment and each
acknowledgement at the capture point nearest to the sender: data in flight, bytes acknowledged, retransmitted
segments, and the round trip from there; cwnd and ssthresh are not in packets, and stay empty.

Kinds of samples: `throughput` (bytes in a sliding window, at its centre), `acked` (bytes newly acknowledged
in it), `segments-per-ack`, `flight-per-round` (bytes); with two points also `spp-rtt`, `one-way-delay` and
`one-way-delay-back` (ns). Kinds of events: `retransmission`, `duplicate-ack`, `sack` and `duplicate-sack`
(of each SACK block the first byte and the length); with two points also `drop`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cwndlab import _native
from cwndlab.errors import InputError, nearest, one_of, shown
from cwndlab.formats import base, capture_files, packets, series
from cwndlab.formats.base import Recording
from cwndlab.formats.external_sort import StoredTable
from cwndlab.testbeds.logs import connections
from cwndlab.testbeds.logs.connections import Column, Flow

NAME = "pcap or pcapng"

MAGICS = (
    b"\xa1\xb2\xc3\xd4",
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
    b"\x4d\x3c\xb2\xa1",
    b"\x0a\x0d\x0d\x0a",
)

ETHERNET_MSS = {"ipv4": 1460, "ipv6": 1440}
"""Segment size of a connection whose handshake the capture does not hold, by its IP version."""

TIMESTAMPS = 12
"""Bytes of options that most segments carry (RFC 7323)."""

MIN_BYTES = 1
"""Payload of a direction from which on it is a flow."""


MAX_WINDOWS = 1_000_000
"""Windows of all flows of a run at most: 27 hours of one flow at the default step."""

COUNTS = ("ip", "frame", "payload")
"""Bytes of a packet that may count."""

DELAYS = (("one-way-delay", "delays"), ("one-way-delay-back", "delays_back"))
"""Kinds of samples of delays, there and back, and what `_native.Capture.pairs` calls them."""

SHARED = 0.5
"""Share of the packets of a stream that two captures must both hold to be of the same run."""


@dataclass(frozen=True)
class Options:
    """Options for the evaluation of captures."""

    window_s: float = 1.0
    """Length of a sliding window."""
    step_s: float = 0.1
    """Time between the beginnings of windows; the length must be a multiple of it."""
    count: str = "ip"
    """Bytes of a packet that count: `ip` (from the IP header on), `frame`, or `payload`."""
    same_clock: bool = False
    """Whether all captures were taken with one clock, so that delays need no correction."""

    def __post_init__(self) -> None:
        """Refuse what no capture could be counted by."""
        if self.count not in COUNTS:
            hint = nearest(self.count, COUNTS)
            raise InputError(
                f"count: {shown(self.count)} is not {one_of(COUNTS)}" + (f"; {hint}" if hint else "")
            )
        if not 0 < self.step_s <= self.window_s <= 1e6:
            raise InputError(
                f"window: {self.window_s:g} s, a new one every {self.step_s:g} s; expected 0 < step <= window"
            )


@dataclass(frozen=True)
class _Stream:
    """A flow as one capture has it."""

    capture: _native.Capture
    path: Path
    connection: int
    backward: bool
    opener: tuple[str, int]
    """The side that opened the connection, as far as this capture knows."""
    ends: tuple[str, int, str, int]
    first_seq: int | None
    sender: dict[str, Any]
    receiver: dict[str, Any]

    @property
    def name(self) -> str:
        return connections.name_of(*self.ends)

    @property
    def header_bytes(self) -> float:
        """IP and TCP headers of the sender's packets, on average."""
        headers: int = self.sender["ip_bytes"] - self.sender["payload_bytes"]
        return float(headers / max(self.sender["packets"], 1))

    @property
    def mss(self) -> int:
        """The sender's segment size."""
        announced = int(self.receiver["mss"] or ETHERNET_MSS["ipv6" if ":" in self.ends[0] else "ipv4"])
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


@dataclass
class _Run:
    """Findings about one run."""

    options: Options
    zero_ns: int
    """Time of the first packet of the run's captures, by the clocks of those at the senders, in ns."""
    streams: int
    """Number of the run's flows."""
    samples: _Rows = field(default_factory=_Rows)
    events: _Rows = field(default_factory=_Rows)
    flows: list[Flow] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def recognises(head: bytes) -> bool:
    """Whether the file begins as pcap or pcapng does."""
    return head[:4] in MAGICS


def read(path: Path) -> list[Recording]:
    """The one run that a capture shows; raises InputError when it cannot be read or holds no TCP data."""
    return read_all([path], Options())


def read_all(paths: Sequence[Path], options: Options, skipped: list[str] | None = None) -> list[Recording]:
    """The runs that captures show: those of the same connections make one run, at several points.

    One without TCP data is left out, and named in `skipped`. Raises InputError when one cannot be read, or,
    without `skipped`, holds no TCP data.
    """
    streams = []
    for opened in capture_files.open_all(paths):
        found = list(_streams(opened.capture, opened.path))
        if not found:
            why = f"{opened.path}: {capture_files.without_data(opened.capture)}"
            if skipped is None:
                raise InputError(why)
            skipped.append(why)
            continue
        if len(found) > connections.MAX_FLOWS:
            raise InputError(f"{opened.path}: more than {connections.MAX_FLOWS} connections with data")
        streams.append(found)
    return [_recording([streams[place] for place in group], options) for group in _together(streams)]


def _streams(capture: _native.Capture, path: Path) -> Iterator[_Stream]:
    control = capture_files.control_connections(capture)
    for number, entry in enumerate(capture.connections()):
        if number in control:
            continue
        ends = (entry["source"], entry["source_port"], entry["target"], entry["target_port"])
        halves = entry["forward"], entry["backward"]
        for backward in (False, True):
            mine, other = (halves[backward], halves[not backward])
            if mine["payload_bytes"] >= MIN_BYTES:
                turned = (ends[2], ends[3], ends[0], ends[1]) if backward else ends
                yield _Stream(
                    capture, path, number, backward, ends[:2], turned, mine["first_seq"], mine, other
                )


def _same(one: _Stream, other: _Stream) -> bool:
    """Whether two captures hold the same stream: equal ends, sequence numbers from about the same place."""
    if one.ends != other.ends:
        return False
    if one.first_seq is None or other.first_seq is None:
        return False
    apart = (one.first_seq - other.first_seq) % 2**32
    # One of them may have begun later.
    if min(apart, 2**32 - apart) > max(one.sender["payload_bytes"], other.sender["payload_bytes"]):
        return False
    # Repeated runs of one experiment may use the same ports and numbers again.
    least = min(one.sender["packets"], other.sender["packets"])
    return bool(_pairs(one, other, Options(same_clock=True))["matched"] >= SHARED * least)


def _together(streams: Sequence[Sequence[_Stream]]) -> list[list[int]]:
    """Captures that share a stream, as lists of their places."""
    group = list(range(len(streams)))
    seen: dict[tuple[str, int, str, int], list[tuple[int, _Stream]]] = {}
    for place, mine in enumerate(streams):
        for stream in mine:
            for before, other in seen.setdefault(stream.ends, []):
                if group[place] != group[before] and before != place and _same(stream, other):
                    old, new = group[place], group[before]
                    group = [new if member == old else member for member in group]
            seen[stream.ends].append((place, stream))
    return [
        [place for place, member in enumerate(group) if member == first] for first in dict.fromkeys(group)
    ]


def _recording(captures: list[list[_Stream]], options: Options) -> Recording:
    """The run of captures that belong together."""
    chosen: list[list[_Stream]] = []
    known: dict[tuple[str, int, str, int], list[list[_Stream]]] = {}
    for stream in (stream for streams in captures for stream in streams):
        candidates = known.setdefault(stream.ends, [])
        for points in candidates:
            if all(point.path != stream.path for point in points) and _same(points[0], stream):
                points.append(stream)
                break
        else:
            candidates.append([stream])
            chosen.append(candidates[-1])
    names = _names([points[0].name for points in chosen])
    ordered_points = [sorted(points, key=_round_trip, reverse=True) for points in chosen]
    run = _Run(options, min(_first(ordered[0]) for ordered in ordered_points), len(ordered_points))
    for ordered, name in zip(ordered_points, names, strict=True):
        flow = _flow(ordered[0], name, run)
        for near, far in itertools.pairwise(ordered):
            found = _pairs(near, far, options)
            _losses(near, far, found, flow, run)
            if len(ordered) == 2:
                _delays(far, found, flow, run)
        if len(ordered) > 2:
            _delays(ordered[-1], _pairs(ordered[0], ordered[-1], options), flow, run)
        run.flows.append(flow)
    for streams in captures:
        run.warnings += _skipped(streams[0])
    return _assemble(run, [streams[0].path for streams in captures])


def _names(names: list[str]) -> list[str]:
    """The names with a number where ports were used again."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return unique


def _first(stream: _Stream) -> int:
    """Time at which a capture begins, in ns."""
    span = stream.capture.span
    return span[0] if span else 0


def _round_trip(stream: _Stream) -> float:
    """The median round trip from a point to the receiver: the longer, the nearer it is to the sender."""
    rtt, _, _ = stream.capture.rounds(stream.connection, stream.backward, stream.mss)
    values = _column(rtt, "value")
    return float(np.median(values)) if len(values) else 0.0


def _flow(stream: _Stream, name: str, run: _Run) -> Flow:
    """The flow at the capture point nearest to its sender; samples and events go to the run."""
    capture, connection, backward = stream.capture, stream.connection, stream.backward
    data, acks = (
        pa.record_batch(capture.data(connection, backward)),
        pa.record_batch(capture.acks(connection, backward)),
    )
    rtt, segments, flight = (
        pa.record_batch(rows) for rows in capture.rounds(connection, backward, stream.mss)
    )
    sent_ns, acked_ns = _times(data), _times(acks)
    again = _values(data, "repeated_bytes")
    times = np.concatenate([sent_ns, acked_ns])
    order = np.argsort(times, kind="stable")
    # Rows of acknowledgements carry what was acknowledged, rows of data hold it.
    acked = np.maximum.accumulate(np.maximum(_values(acks, "acked"), 0)) if len(acked_ns) else np.empty(0)
    # A FIN takes a number that is no byte.
    acked = np.minimum(acked, (_values(data, "offset") + _values(data, "bytes")).max(initial=0))
    delivered = np.concatenate([np.full(len(sent_ns), -1.0), acked])[order]
    delivered = np.maximum.accumulate(np.maximum(delivered, 0)) if len(delivered) else delivered
    sample = np.concatenate([np.full(len(sent_ns), np.nan), _at(acked_ns, rtt)])[order]
    retransmits = np.cumsum(np.concatenate([again > 0, np.zeros(len(acked_ns), bool)])[order])
    passed = np.concatenate([_values(data, "bytes") + stream.header_bytes, np.zeros(len(acked_ns))])[order]
    columns: dict[str, Any] = {
        "rtt_ns": sample,
        "inflight_bytes": np.concatenate([_values(data, "flight_bytes"), _values(acks, "flight_bytes")])[
            order
        ],
        # Without an acknowledgement nothing is known, not even that it was nothing.
        "delivered_bytes": connections.bounded(delivered) if len(acked_ns) else np.full(len(times), np.nan),
        "arrived_bytes": np.cumsum(passed),
        "retransmits": retransmits.astype(np.float64),
    }
    for kind, rows in (("segments-per-ack", segments), ("flight-per-round", flight)):
        run.samples.add(_times(rows), flow=name, kind=kind, value=_values(rows, "value"))
    _windows(stream, name, run)
    resent = again > 0
    run.events.add(
        sent_ns[resent], flow=name, hop=None, kind="retransmission", seq=_values(data, "offset")[resent],
        value=_values(data, "bytes")[resent],
    )  # fmt: skip
    duplicate = _values(acks, "duplicate") > 0
    run.events.add(
        acked_ns[duplicate], flow=name, hop=None, kind="duplicate-ack", seq=_values(acks, "acked")[duplicate],
        value=np.full(int(duplicate.sum()), np.nan),
    )  # fmt: skip
    blocks = pa.record_batch(capture.sacks(connection, backward))
    for kind, t_ns, seq, count in packets.rows(_times(blocks), blocks):
        run.events.add(t_ns, flow=name, hop=None, kind=kind, seq=seq, value=count)
    return Flow(name, times[order], columns, _metrics(stream, acked_ns, sent_ns, run.options))


def _windows(stream: _Stream, name: str, run: _Run) -> None:
    """Count the bytes that passed and those acknowledged in sliding windows over the whole capture."""
    window_ns, step_ns = round(run.options.window_s * 1e9), round(run.options.step_s * 1e9)
    first, last = stream.capture.span or (0, 0)
    try:
        # Times of a damaged capture may be centuries apart.
        if (last - first) // step_ns * run.streams > MAX_WINDOWS:
            raise ValueError(f"there would be more than {MAX_WINDOWS}; choose a longer step")
        for kind, count in (("throughput", run.options.count), ("acked", "acked")):
            windows = pa.record_batch(
                stream.capture.throughput(stream.connection, stream.backward, count, window_ns, step_ns)
            )
            run.samples.add(_times(windows), flow=name, kind=kind, value=_values(windows, "value"))
    except ValueError as error:
        if f"no windows: {error}" not in run.warnings:
            run.warnings.append(f"no windows: {error}")


def _metrics(stream: _Stream, acked_ns: Column, sent_ns: Column, options: Options) -> dict[str, float]:
    sender = stream.sender
    found = {"retransmit_rate": sender["repeated_packets"] / max(sender["data_packets"], 1)}
    if len(sent_ns):
        # Whole numbers of Python: times of a damaged capture may be centuries apart.
        seconds = (max(int(acked_ns.max(initial=0)), int(sent_ns.max())) - int(sent_ns.min())) / 1e9
        if seconds > 0:
            if len(acked_ns):
                found["goodput_mbps"] = 8e-6 * sender["acked_bytes"] / seconds
            total = {"ip": sender["ip_bytes"], "payload": sender["payload_bytes"]}.get(options.count)
            if total is not None:
                found["throughput_mbps"] = 8e-6 * total / seconds
    return found


def _pairs(near: _Stream, far: _Stream, options: Options) -> dict[str, Any]:
    """The packets of a flow at two points, by `_native.Capture.pairs`."""
    found: dict[str, Any] = near.capture.pairs(
        near.connection,
        near.backward,
        far.capture,
        far.connection,
        turned=near.opener != far.opener,
        same_clock=options.same_clock,
    )
    return found


def _losses(near: _Stream, far: _Stream, found: dict[str, Any], flow: Flow, run: _Run) -> None:
    """Find the packets lost between two points; the shares add up over all of them."""
    lost = pa.record_batch(found["lost"])
    payload = _values(lost, "bytes") > 0
    run.events.add(
        _times(lost)[payload],
        flow=flow.name,
        hop=f"{near.path.name} to {far.path.name}",
        kind="drop",
        seq=_values(lost, "offset")[payload],
        value=_values(lost, "bytes")[payload],
    )
    # What was lost on the way did not arrive, as seen from where the flow's rows are.
    gone = np.concatenate(([0.0], np.cumsum(_values(lost, "bytes")[payload] + near.header_bytes)))
    gone = gone[np.searchsorted(_times(lost)[payload], flow.t_ns, side="right")]
    # A capture that is damaged may lack more than it has.
    flow.columns["arrived_bytes"] = np.maximum(flow.columns["arrived_bytes"] - gone, 0)
    share = float(payload.sum()) / max(near.sender["data_packets"], 1)
    flow.metrics["drop_rate"] = flow.metrics.get("drop_rate", 0.0) + share


def _delays(far: _Stream, found: dict[str, Any], flow: Flow, run: _Run) -> None:
    """Round trips and delays between the ends."""
    trips = pa.record_batch(found["round_trips"])
    run.samples.add(_times(trips), flow=flow.name, kind="spp-rtt", value=_values(trips, "value"))
    positive = _values(trips, "value")
    positive = positive[positive > 0] / 1e6
    if len(positive):
        flow.metrics |= series.rtt_metrics(positive)
    least_ms = []
    for kind, key in DELAYS:
        delays = pa.record_batch(found[key])
        run.samples.add(_times(delays), flow=flow.name, kind=kind, value=_values(delays, "value"))
        values = _values(delays, "value") / 1e6
        least_ms += [float(values.min())] if len(values) else []
        if kind == "one-way-delay" and len(values):
            middle, high = np.percentile(values, [50, 95])
            flow.metrics |= {"one_way_p50_ms": float(middle), "one_way_p95_ms": float(high)}
    run.facts[f"{flow.name}: packets seen at both points"] = str(found["matched"])
    run.facts[f"{flow.name}: packets that look alike, left out"] = str(found["ambiguous"])
    if found["offset_ns"] is not None and not run.options.same_clock:
        ahead = f"{found['offset_ns']} ns ahead, {found['skew'] * 1e6:.3f} ppm fast"
        run.facts[f"{flow.name}: clock of {far.path.name}"] = ahead
        # Each delay is at least 0, so the clocks differ by no more from what makes the least ones equal.
        off_ms = sum(least_ms) / 2
        if len(least_ms) == len(DELAYS):
            flow.metrics["one_way_error_ms"] = off_ms
            run.warnings.append(f"{flow.name}: one-way delays may be off by {off_ms:.4g} ms: two clocks")


def _skipped(stream: _Stream) -> list[str]:
    name = stream.path.name
    control = len(capture_files.control_connections(stream.capture))
    alone = capture_files.is_one_way(stream.capture)
    said = [
        (control, f"{name}: {control} control connections of iperf3 are left out"),
        (
            alone,
            f"{name}: holds one direction, and no capture here the other; acknowledgements are not known",
        ),
    ]
    others = capture_files.passed_over(stream.capture.skipped())
    return [text for count, text in said if count] + [f"{name}: {text}" for text in others]


def _assemble(run: _Run, paths: Sequence[Path]) -> Recording:
    zero = run.zero_ns
    epoch = zero > 10**17  # a capture of a simulation counts from 0
    label = " + ".join(path.name for path in paths)
    found = series.recording(
        NAME, paths[0], label, run.flows, epoch=epoch, zero_ns=zero, facts=run.facts, warnings=run.warnings
    )
    more = {"samples": _table("samples", run.samples, zero), "events": _table("events", run.events, zero)}
    stored = {name: StoredTable.of(rows) for name, rows in more.items() if rows.num_rows}
    return replace(found, tables={**found.tables, **stored})


def _table(name: str, rows: _Rows, zero: int) -> pa.Table:
    """The rows in order of time, counted from the run's beginning; what is before it stands at it."""
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
            whole = connections.bounded(whole.astype(np.float64))
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
