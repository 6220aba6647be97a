"""A connection of a qlog file: what its events say about window, round trips, deliveries and losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from cwndlab.formats.qlog_records import Event, number
from cwndlab.testbeds.logs.connections import INFINITE_BYTES, NO_STATE, STATES

MOST_OUTSTANDING = 1 << 20
"""Packets of a connection that are remembered until they are acknowledged or lost."""

COLUMNS = (
    "cwnd_bytes",
    "ssthresh_bytes",
    "srtt_ns",
    "rtt_ns",
    "inflight_bytes",
    "delivered_bytes",
    "pacing_bps",
    "state",
)
"""Columns of the `tcp` table that a connection fills."""

KINDS = (
    "loss",
    "recovery-in",
    "recovery-out",
    "slow-start-exit",
    "persistent-congestion",
    "probe-timeout",
    "app-limited",
)
"""Kinds of its events."""

_NAN = float("nan")

_STATES = {
    "slow_start": "slow-start",
    "hystart": "slow-start",
    "startup": "slow-start",
    "congestion_avoidance": "avoidance",
    "avoidance": "avoidance",
    "steady": "avoidance",
    "recovery": "recovery",
    "fast_recovery": "recovery",
    "loss": "recovery",
    "cwr": "recovery",
}
"""States as stacks call them, and what they are here."""

_METRICS = {
    "cwnd_bytes": ("congestion_window", "cwnd", "current_cwnd"),
    "ssthresh_bytes": ("ssthresh",),
    "inflight_bytes": ("bytes_in_flight",),
    "pacing_bps": ("pacing_rate",),
}
_TIMES = {"srtt_ns": "smoothed_rtt", "rtt_ns": "latest_rtt"}
INITIAL_RTT_S = 0.333
"""Round trip before the first sample (RFC 9002 section 6.2.2)."""
_ACKS = {
    "ack",
    "ack_ecn",
    "ack_extended",
    "ack_receive_timestamps",
    "ack_receive_timestamps_draft_02",
    "ack_receive_timestamps_draft_02_ecn",
}
"""Frames that acknowledge: the drafts' own, and those that mvfst tells apart."""
_LIMITS = ("app_limited", "idle")
"""Fields that say whether the application limits the sender."""
_PERSISTENT = "persistent_congestion"
_NOT_IN_FLIGHT = _ACKS | {"connection_close"}


@dataclass
class Connection:
    """State of a connection, and what its events add to the rows and events of the run."""

    flow: int
    unit_ns: float
    row: Callable[[int, int, list[float]], None]
    """Takes a row of `COLUMNS`: time, flow, values."""
    note: Callable[[int, int, str, float], None]
    """Takes an event: time, flow, kind, value."""
    largest: int = 0
    """Bytes of the largest packet sent."""
    knows_states: bool = False
    _values: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COLUMNS, _NAN))
    _sent: dict[tuple[str, int], int] = field(default_factory=dict)
    _delivered: float = 0
    _flight: float = 0
    _tells_flight: bool = False
    _state: int = NO_STATE
    _probes: float = 0
    _sample: Any = None
    """Newest round trip, as it was written."""
    _sampled: float = 0
    """Bytes that had been acknowledged then."""
    _rtt_unit_ns: float = 0
    """Unit of round trips; 0 before the first of them."""

    def take(self, event: Event) -> None:
        """Take the next event."""
        handler = _HANDLERS.get(event.name)
        if handler is not None:
            handler(self, event.t_ns, event.data)

    def _write(self, t_ns: int) -> None:
        values = [self._values[name] for name in COLUMNS]
        if not self._tells_flight and self._sent:
            values[COLUMNS.index("inflight_bytes")] = self._flight
        if self._delivered:
            values[COLUMNS.index("delivered_bytes")] = self._delivered
        values[-1] = self._state
        self.row(t_ns, self.flow, values)
        # A sample counts once.
        self._values["rtt_ns"] = _NAN

    def _metrics(self, t_ns: int, data: Mapping[str, Any]) -> None:
        told, flight = False, self._values["inflight_bytes"]
        for column, names in _METRICS.items():
            value = next((found for name in names if (found := number(data.get(name))) is not None), None)
            if value is not None and value >= 0:
                told = True
                self._values[column] = value
        self._tells_flight |= number(data.get("bytes_in_flight")) is not None
        if not self._values["ssthresh_bytes"] < INFINITE_BYTES:
            self._values["ssthresh_bytes"] = _NAN
        sampled = self._samples(data)
        for column, name in _TIMES.items():
            value = number(data.get(name))
            if sampled and value is not None and value > 0:
                told = True
                self._values[column] = value * self._rtt_unit_ns
        # Some stacks write all they know with each packet that they send, or several times for an ACK.
        sends = bool(self._sent) and self._values["inflight_bytes"] > flight
        again = sends or 0 < self._delivered == self._sampled
        if again and data.get("latest_rtt") == self._sample:
            self._values["rtt_ns"] = _NAN
        if "latest_rtt" in data:
            self._sample, self._sampled = data["latest_rtt"], self._delivered
        probes = number(data.get("pto_count"))
        if probes is not None and probes > self._probes:
            self.note(t_ns, self.flow, "probe-timeout", _NAN)
        self._probes = self._probes if probes is None else probes
        if "state" in data:
            self._enter(t_ns, data["state"])
        if data.get("app_limited"):
            self._limited(t_ns, data)
        if _word(data.get("congestion_event")) == _PERSISTENT:
            self.note(t_ns, self.flow, "persistent-congestion", _NAN)
        if told:
            self._write(t_ns)

    @property
    def has_round_trips(self) -> bool:
        """Whether a round trip was told."""
        return not isnan(self._values["srtt_ns"])

    def _samples(self, data: Mapping[str, Any]) -> bool:
        """Whether round trips were measured.

        quinn writes them in seconds, and the initial one before the first.
        """
        if not self._rtt_unit_ns and any(name in data for name in _TIMES.values()):
            initial = all(number(data.get(name)) == INITIAL_RTT_S for name in _TIMES.values())
            self._rtt_unit_ns = 1e9 if initial else self.unit_ns
            return not initial
        return True

    def _congestion(self, t_ns: int, data: Mapping[str, Any]) -> None:
        if _word(data.get("trigger")) == _PERSISTENT:
            self.note(t_ns, self.flow, "persistent-congestion", _NAN)
        if "new" in data:
            self._enter(t_ns, data["new"])
        elif any(name in data for name in _LIMITS):
            self._limited(t_ns, data)

    def _enter(self, t_ns: int, name: Any) -> None:
        word = _word(name)
        if word in ("application_limited", "app_limited"):
            self.note(t_ns, self.flow, "app-limited", _NAN)
            return
        known = _STATES.get(word)
        if known is None:
            return
        self.knows_states = True
        before = STATES[self._state] if self._state != NO_STATE else ""
        self._state = STATES.index(known)
        if "recovery" in (known, before) and known != before:
            kind = "recovery-in" if known == "recovery" else "recovery-out"
            self.note(t_ns, self.flow, kind, self._values["cwnd_bytes"])
        elif (before, known) == ("slow-start", "avoidance"):
            self.note(t_ns, self.flow, "slow-start-exit", self._values["cwnd_bytes"])

    def _sends(self, _t_ns: int, data: Mapping[str, Any]) -> None:
        key, size = _packet(data), _size(data)
        kinds = {str(_get(frame, "frame_type")).lower() for frame in _frames(data)}
        if key is None or size is None or (kinds and kinds <= _NOT_IN_FLIGHT):
            return
        self.largest = max(self.largest, size)
        if len(self._sent) >= MOST_OUTSTANDING:
            self._flight -= self._sent.pop(next(iter(self._sent)))
        self._sent[key] = size
        self._flight += size

    def _receives(self, t_ns: int, data: Mapping[str, Any]) -> None:
        for frame in _frames(data):
            if str(_get(frame, "frame_type")).lower() in _ACKS:
                ranges = _get(frame, "acked_ranges")
                self._acknowledged(t_ns, _space(data), ranges if isinstance(ranges, list) else [])

    def _acked(self, t_ns: int, data: Mapping[str, Any]) -> None:
        numbers = data.get("packet_numbers")
        space = {"application_data": ""}.get(found := str(data.get("packet_number_space", "")), found)
        self._acknowledged(t_ns, space, [[each] for each in numbers] if isinstance(numbers, list) else [])

    def _acknowledged(self, t_ns: int, space: str, ranges: list[Any]) -> None:
        acked = 0
        for each in ranges:
            ends = [number(end) for end in each] if isinstance(each, list) and each else [None]
            low, high = ends[0], ends[-1]
            if low is None or high is None:
                continue
            # Ranges reach back to what was acknowledged long ago: the shorter one is walked through.
            if high - low < len(self._sent):
                keys = [(space, packet) for packet in range(int(low), int(high) + 1)]
            else:
                keys = [key for key in self._sent if key[0] == space and low <= key[1] <= high]
            acked += sum(self._sent.pop(key, 0) for key in keys)
        if acked:
            self._delivered += acked
            self._flight -= acked
            self._write(t_ns)

    def _loses(self, t_ns: int, data: Mapping[str, Any]) -> None:
        several = number(data.get("lost_bytes"))
        key = _packet(data)
        size = self._sent.pop(key, 0) if key is not None else 0
        self._flight -= size
        self.note(t_ns, self.flow, "loss", several if several is not None else size or _NAN)

    def _alarm(self, t_ns: int, data: Mapping[str, Any]) -> None:
        kind = _word(data.get("timer_type", data.get("type"))).removesuffix("_alarm")
        if kind == "pto" and str(data.get("event_type", "expired")).lower() == "expired":
            self.note(t_ns, self.flow, "probe-timeout", _NAN)
            # Metrics that follow may tell the count.
            self._probes = number(data.get("alarm_count")) or self._probes

    def _limited(self, t_ns: int, data: Mapping[str, Any]) -> None:
        told = next((data[name] for name in _LIMITS if name in data), True)
        if told and _word(told) != "app_unlimited":
            self.note(t_ns, self.flow, "app-limited", _NAN)

    def _parameters(self, _t_ns: int, data: Mapping[str, Any]) -> None:
        self.largest = max(self.largest, int(number(data.get("max_datagram_size")) or 0))


_Handler = Callable[[Connection, int, Mapping[str, Any]], None]

_HANDLERS: dict[str, _Handler] = {
    **dict.fromkeys(
        ("metrics_updated", "recovery_metrics_updated", "metric_update", "congestion_metric_update"),
        Connection._metrics,
    ),
    **dict.fromkeys(("congestion_state_updated", "congestion_state_update"), Connection._congestion),
    "packet_sent": Connection._sends,
    "packet_received": Connection._receives,
    "packets_acked": Connection._acked,
    **dict.fromkeys(("packet_lost", "packets_lost"), Connection._loses),
    **dict.fromkeys(("loss_alarm", "loss_timer_updated", "timer_updated"), Connection._alarm),
    **dict.fromkeys(
        ("custom_cc_application_limited", "app_limited_update", "app_idle_update"), Connection._limited
    ),
    **dict.fromkeys(("recovery_parameters_set", "parameters_set"), Connection._parameters),
}
"""Methods that take an event, by its name in the drafts and in stacks of their own mind."""


def _word(name: Any) -> str:
    return str(name).lower().replace("-", "_").replace(" ", "_")


def _frames(data: Mapping[str, Any]) -> list[Any]:
    frames = data.get("frames")
    return frames if isinstance(frames, list) else []


def _get(found: Any, key: str) -> Any:
    return found.get(key) if isinstance(found, dict) else None


def _packet(data: Mapping[str, Any]) -> tuple[str, int] | None:
    """Number space and number of the packet that an event is about."""
    found = _get(data.get("header"), "packet_number")
    value = number(data.get("packet_number") if found is None else found)
    return None if value is None else (_space(data), int(value))


def _space(data: Mapping[str, Any]) -> str:
    """Number space of a packet: of its own before the handshake is done, all others together."""
    kind = str(_get(data.get("header"), "packet_type") or data.get("packet_type") or "").lower()
    return kind if kind in ("initial", "handshake") else ""


def _size(data: Mapping[str, Any]) -> int | None:
    header, raw = data.get("header"), data.get("raw")
    places = (_get(raw, "length"), _get(header, "packet_size"), data.get("packet_size"))
    value = next((found for each in places if (found := number(each)) is not None), None)
    return None if value is None or value <= 0 else int(value)
