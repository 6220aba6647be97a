"""Logs as mvfst's FileQLogger writes them, of a sender that is simulated here.

A packet is acknowledged a round trip of 50 ms after it was sent, or 300 us after the one before. Slow start
goes to 100 packets, where one packet is lost; the window falls by a factor, and stays.
"""

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any

SIZE = 1252
RTT_US, APART_US = 50_000, 300
LARGEST = 100
"""Packets in flight when one is lost."""
BOOT_US = 103_863_842_389
"""Time of the first event: mvfst counts from the start of the machine."""

Data = dict[str, Any]


@dataclass
class Sender:
    """Connection whose events are logged in the names of one of the two drafts."""

    newer: bool
    factor: float = 0.7
    packets: int = 1500
    events: list[Any] = field(default_factory=list)
    acks: int = 0
    _now: int = BOOT_US
    _window: int = 10 * SIZE
    _flight: int = 0
    _state: str = "Hystart"
    _last_us: int = BOOT_US
    _rtt_us: int = 0

    def log(self, name: str, category: str, data: Data) -> None:
        """Write an event; each takes 1 us."""
        self._now += 1
        if self.newer:
            self.events.append({"data": data, "name": name, "time": self._now / 1000})
        else:
            self.events.append([str(self._now), category, name, data])

    def run(self) -> str:
        """Return the log."""
        self._congestion("cubic init")
        waiting: deque[tuple[int, int]] = deque()
        number, lost, recovered_by = 0, None, None
        while number < self.packets or waiting:
            while self._flight + SIZE <= self._window and number < self.packets:
                self._packet("sent", number, SIZE, self._stream(number))
                waiting.append((number, self._now))
                self._flight += SIZE
                number += 1
            packet, sent_us = waiting.popleft()
            if lost is None and self._flight >= LARGEST * SIZE:
                lost = packet
                continue
            self._now = self._last_us = max(self._now, sent_us + RTT_US, self._last_us + APART_US)
            self._rtt_us = self._now - sent_us
            ranges = [[0, packet]] if lost is None else [[lost + 1, packet], [0, lost - 1]]
            self._packet(
                "received",
                5000 + packet,
                40,
                {"frame_type": "ack", "ack_delay": 0} | {"acked_ranges": ranges},
            )
            self.acks += 1
            if not self.newer:
                self._round_trip()
            if lost is not None and packet == lost + 3:
                recovered_by = number
                self._loses(lost)
            self._flight -= SIZE
            self._acknowledged(recovered=recovered_by is not None and packet >= recovered_by)
        return self._document()

    def _stream(self, number: int) -> Data:
        length: Data = {"raw": {"length": SIZE - 30}} if self.newer else {"length": SIZE - 30}
        frame = {"frame_type": "stream", "fin": False, "stream_id": "0", "offset": number * (SIZE - 30)}
        return frame | length

    def _packet(self, what: str, number: int, size: int, frame: Data) -> None:
        if self.newer:
            header = {"packet_number": number, "packet_type": "1RTT"}
            self.log(
                f"quic:packet_{what}", "", {"frames": [frame], "header": header, "raw": {"length": size}}
            )
        else:
            header = {"packet_number": number, "packet_size": size}
            data = {"frames": [frame], "header": header, "packet_type": "1RTT"}
            self.log(f"packet_{what}", "transport", data)

    def _round_trip(self) -> None:
        told = dict.fromkeys(("latest_rtt", "min_rtt", "smoothed_rtt"), self._rtt_us)
        self.log("metric_update", "recovery", told | {"ack_delay": 0})

    def _congestion(self, event: str) -> None:
        """Tell the window: by one event, or since the end of 2025 by two."""
        if not self.newer:
            data = {"bytes_in_flight": self._flight, "current_cwnd": self._window, "congestion_event": event}
            data |= {"state": self._state, "recovery_state": ""}
            self.log("congestion_metric_update", "metric_update", data)
            return
        told = dict.fromkeys(("latest_rtt", "min_rtt", "smoothed_rtt"), self._rtt_us / 1000)
        data = told | {"congestion_window": self._window, "bytes_in_flight": self._flight, "pto_count": 0}
        self.log("quic:recovery_metrics_updated", "", data)
        self.log("quic:congestion_state_updated", "", {"new": self._state, "trigger": event})

    def _loses(self, lost: int) -> None:
        self._flight -= SIZE
        data = {"largest_lost_packet_num": lost, "lost_bytes": SIZE, "lost_packets": 1}
        self.log("quic:packet_lost" if self.newer else "packets_lost", "loss", data)
        self._congestion("remove bytes in flight")
        self._window, self._state = int(self.factor * self._window), "Recovery"
        if self.newer:
            data = {"old": "Steady", "new": self._state, "trigger": "cubic loss"}
            self.log("quic:congestion_state_updated", "", data)
        else:
            self._congestion("cubic loss")

    def _acknowledged(self, *, recovered: bool) -> None:
        self._congestion("remove bytes in flight")
        if self._state == "Recovery" and recovered:
            self._state = "Steady"
        if self._state == "Recovery":
            self._congestion("cubic skip ack")
            return
        if self._state == "Hystart":
            self._window += SIZE
        self._congestion("congestion packet ack")

    def _document(self) -> str:
        trace: Data = {"description": "Generated qlog from connection", "events": self.events}
        trace["title"] = "mvfst qlog from single connection"
        head: Data = {"description": "Converted from file", "title": "mvfst qlog", "traces": [trace]}
        if self.newer:
            head |= {"file_schema": "urn:ietf:params:qlog:file:contained"}
            head["serialization_format"] = "application/qlog+json"
            clock = {"clock_type": "monotonic", "epoch": "unknown"}
            common = {"odcid": "c0ffee", "scid": "", "reference_time": clock}
            trace["common_fields"] = common | {"time_format": "relative_to_epoch"}
            trace["event_schemas"] = [f"urn:ietf:params:qlog:events:{of}" for of in ("quic", "mvfst")]
            trace["vantage_point"] = {"type": "server"}
        else:
            head |= {"qlog_version": "draft-00"}
            common = {"dcid": "c0ffee", "scid": "", "protocol_type": "QUIC_HTTP3", "reference_time": "0"}
            trace["common_fields"] = common
            trace["configuration"] = {"time_offset": 0, "time_units": "us"}
            trace["event_fields"] = ["relative_time", "category", "event", "data"]
            trace["vantage_point"] = {"name": "server", "type": "server"}
        # A dynamic of folly is written with its keys in order: what a reader needs stands behind the events.
        return json.dumps(head, sort_keys=True)
