"""qlog files as stacks write them: one connection whose sender sends a packet of 1200 bytes every 10 ms.

Packet n leaves at 10 n ms and is acknowledged 40 ms later, but for number 30, which is lost at 350 ms. The
window is 12,000 bytes and one packet more with each ACK, and 0.7 of that from the loss on.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

SIZE = 1200
PACKETS = 60
LOST = 30
LOST_MS = 350
CUT = int(0.7 * (12_000 + 30 * SIZE))
REFERENCE_MS = 1_767_323_045_000
"""2026-01-02 03:04:05 UTC."""

Event = tuple[float, str, str, dict[str, Any]]


def cwnd(acked: int) -> int:
    return 12_000 + acked * SIZE


def events(rtt: float = 40.0) -> Iterator[Event]:
    """Time in ms, category, name and data of each event as in draft-02; `rtt` in the log's unit."""
    steps: list[tuple[float, int, int]] = []
    for n in range(PACKETS):
        steps += [(10.0 * n, 0, n), (10.0 * n + 40, 1, n)]
    for t_ms, kind, n in sorted(steps):
        if kind == 0:
            frames = [{"frame_type": "stream", "stream_id": 0, "offset": n * SIZE, "length": SIZE}]
            header = {"packet_type": "1RTT", "packet_number": n}
            yield (
                t_ms,
                "transport",
                "packet_sent",
                {"header": header, "raw": {"length": SIZE}, "frames": frames},
            )
            continue
        if n == LOST:
            continue
        ranges = [[0, n]] if n < LOST else [[LOST + 1, n], [0, LOST - 1]]
        header = {"packet_type": "1RTT", "packet_number": 500 + n}
        ack = {"frame_type": "ack", "ack_delay": 0, "acked_ranges": ranges}
        yield t_ms, "transport", "packet_received", {"header": header, "raw": {"length": 40}, "frames": [ack]}
        told = {"latest_rtt": rtt, "smoothed_rtt": rtt}
        if n < LOST:
            yield t_ms, "recovery", "metrics_updated", {"congestion_window": cwnd(n + 1), **told}
        if t_ms == LOST_MS:
            lost = {"packet_type": "1RTT", "packet_number": LOST}
            yield t_ms, "recovery", "packet_lost", {"header": lost, "trigger": "reordering_threshold"}
            yield t_ms, "recovery", "congestion_state_updated", {"new": "recovery"}
            yield t_ms, "recovery", "metrics_updated", {"congestion_window": CUT, "ssthresh": CUT, **told}
        if n == 45:
            yield (
                t_ms,
                "recovery",
                "congestion_state_updated",
                {"old": "recovery", "new": "congestion_avoidance"},
            )
            yield t_ms, "recovery", "metrics_updated", {"congestion_window": CUT, **told}


def quic_go() -> str:
    head = {
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "qlog_format": "JSON-SEQ",
        "qlog_version": "0.3",
        "title": "quic-go qlog",
        "code_version": "v0.60.0",
        "trace": {
            "vantage_point": {"type": "server"},
            "common_fields": {
                "group_id": "c0ffee",
                "reference_time": {
                    "clock_type": "monotonic", "epoch": "unknown", "wall_clock_time": "2026-01-02T03:04:05Z",
                },
            },
        },
    }  # fmt: skip
    return _sequence(head, "{}:{}".format, "\x1e")


def quiche() -> str:
    head = {
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "title": "quiche-server",
        "trace": {
            "vantage_point": {"type": "server"},
            "common_fields": {"ODCID": "c0ffee", "reference_time": REFERENCE_MS, "time_format": "relative"},
        },
    }
    return _sequence(head, "{}:{}".format, "\x1e")


def current_draft() -> str:
    """Log as quinn writes it, with the newest draft's names, and times that count from the event before."""
    head = {
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "trace": {
            "vantage_point": {"type": "server"},
            "event_schemas": ["urn:ietf:params:qlog:events:quic-13"],
            "common_fields": {
                "group_id": "c0ffee",
                "time_format": "relative_to_previous_event",
                "reference_time": {"clock_type": "system", "epoch": "2026-01-02T03:04:05Z"},
            },
        },
    }
    names = {"metrics_updated": "recovery_metrics_updated"}
    return _sequence(head, lambda _, name: f"quic:{names.get(name, name)}", "\x1e", deltas=True)


def lines() -> str:
    """Newline-delimited JSON, as draft-02 had it."""
    head = {
        "qlog_version": "draft-02",
        "qlog_format": "NDJSON",
        "trace": {
            "vantage_point": {"type": "server"},
            "common_fields": {
                "ODCID": "c0ffee",
                "reference_time": str(REFERENCE_MS),
                "time_format": "relative",
            },
        },
    }
    return _sequence(head, "{}:{}".format, "")


def picoquic() -> str:
    """draft-00, lists, microseconds."""
    rows = [
        [round(t_ms * 1000), category, _NAMES_OF_OLD.get(name, name), _old(data)]
        for t_ms, category, name, data in events(rtt=40_000)
    ]
    body = {
        "vantage_point": {"name": "backend-67", "type": "server"},
        "event_fields": ["relative_time", "category", "event", "data"],
        "configuration": {"time_units": "us"},
        "common_fields": {
            "protocol_type": "QUIC_HTTP3",
            "reference_time": str(REFERENCE_MS * 1000),
            "dcid": "c0ffee",
        },
        "events": rows,
    }
    return json.dumps({"qlog_version": "draft-00", "title": "picoquic", "traces": [body]})


ALL: dict[str, Callable[[], str]] = {
    made.__name__: made for made in (quic_go, quiche, current_draft, lines, picoquic)
}

_NAMES_OF_OLD = {"metrics_updated": "metric_update"}


def _old(data: dict[str, Any]) -> dict[str, Any]:
    """The data of an event in the fields of the first drafts."""
    data = dict(data)
    header = dict(data.pop("header", {}))
    if "packet_number" in header:
        header["packet_number"] = str(header["packet_number"])
        header["packet_size"] = data.pop("raw", {}).get("length", 0)
        data |= {"packet_type": header.pop("packet_type"), "header": header}
    if "congestion_window" in data:
        data["cwnd"] = data.pop("congestion_window")
    return data


def _sequence(
    head: dict[str, Any], name_of: Callable[[str, str], str], mark: str, *, deltas: bool = False
) -> str:
    rows, before = [head], 0.0
    for t_ms, category, name, data in events():
        rows.append({"time": t_ms - before, "name": name_of(category, name), "data": data})
        before = t_ms if deltas else 0.0
    return "".join(f"{mark}{json.dumps(row)}\n" for row in rows)
