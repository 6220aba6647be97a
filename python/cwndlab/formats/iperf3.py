"""iperf3's JSON (`iperf3 -J`, and `--json-stream`): one document is one run; a file may hold several."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from cwndlab.errors import InputError
from cwndlab.formats import base
from cwndlab.formats.base import Interval, Recording

NAME = "iperf3 JSON"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def recognises(head: bytes) -> bool:
    """Whether the file begins with a JSON object that has a key of iperf3's."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith(b"{") and any(
        key in start for key in (b'"connecting_to"', b'"test_start"', b'"tcp_mss', b'"cookie"', b'"event"')
    )


def read(path: Path) -> list[Recording]:
    """The runs of a file: documents one after the other, each as long as it may be.

    Goodput is what the receiver counted, where the client got to know it, else what the sender sent. RTT and
    cwnd are the kernel's, sampled by iperf3 at the end of each interval: the mean of those, not of every
    packet. Intervals that iperf3 omitted (`-O`) are left out. Raises InputError for a file that is not JSON,
    a document without intervals and end, or one that ended in an error.
    """
    documents = list(_documents(path))
    label = path.name
    return [
        _recording(path, label if len(documents) == 1 else f"{label} #{place}", document)
        for place, document in enumerate(documents, 1)
    ]


def _documents(path: Path) -> Iterator[Mapping[str, Any]]:
    text = base.json_text(path).lstrip("\ufeff")
    decoder = json.JSONDecoder()
    streamed: dict[str, Any] = {}
    at = 0
    while (at := _next(text, at)) < len(text):
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, getattr(error, "pos", at)) + 1
            raise InputError(
                f"{path}:{line}: not JSON: {getattr(error, 'msg', 'nested too deeply')}"
            ) from None
        if not isinstance(document, dict):
            raise InputError(f"{path}:{text.count(chr(10), 0, at) + 1}: expected an object of iperf3")
        if "event" not in document:
            yield document
            continue
        event, data = document["event"], document.get("data")
        if event == "start" and streamed:
            yield streamed
            streamed = {}
        if event == "interval":
            streamed.setdefault("intervals", []).append(data)
        elif event in ("start", "end", "error"):
            streamed[event] = data
    if streamed:
        yield streamed


def _next(text: str, at: int) -> int:
    """The place of the next character that is no white space."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _recording(path: Path, label: str, document: Mapping[str, Any]) -> Recording:
    if document.get("error"):
        raise InputError(f"{label}: iperf3 ended with an error: {str(document['error'])[:200]}")
    try:
        return _read(path, label, document)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        what = f"{type(error).__name__} {error}" if not isinstance(error, KeyError) else f"no {error}"
        raise InputError(f"{path}: not a whole document of iperf3 ({what})") from None


def _read(path: Path, label: str, document: Mapping[str, Any]) -> Recording:
    start, end = document["start"], document["end"]
    test = start.get("test_start", {})
    udp = test.get("protocol") == "UDP"
    mss = start.get("tcp_mss") or start.get("tcp_mss_default")
    ends = {_socket(stream): stream for stream in end.get("streams", [])}
    if not ends:
        raise ValueError("no streams at its end")
    names = {
        socket: f"{'r' if test.get('bidir') and not _sends(stream) else 'f'}{place}"
        for place, (socket, stream) in enumerate(ends.items(), 1)
    }
    series = _series(document.get("intervals", []))
    metrics = {}
    for socket, name in names.items():
        metrics[name] = _metrics(ends[socket], series.get(socket, []), None if udp else mss)
    seconds = start.get("timestamp", {}).get("timesecs")
    facts = {
        "version": start.get("version"),
        "system": start.get("system_info"),
        "cc": end.get("sender_tcp_congestion"),
        "protocol": test.get("protocol"),
    }
    warnings = []
    if any("goodput_mbps" not in found for found in metrics.values()):
        warnings.append(f"{label}: no stream says how much was transferred")
    return Recording(
        NAME,
        path,
        label,
        tuple(names.values()),
        metrics,
        {"tcp": _rows({names[socket]: found for socket, found in series.items() if socket in names})},
        _EPOCH + timedelta(seconds=float(seconds)) if seconds else None,
        {key: str(value)[:200] for key, value in facts.items() if value},
        tuple(warnings),
    )


def _socket(stream: Mapping[str, Any]) -> int:
    """The socket of a stream in `end`: TCP has sender and receiver, UDP one object."""
    sides = [side for side in (stream.get("sender"), stream.get("receiver"), stream.get("udp")) if side]
    return int(sides[0]["socket"])


def _sends(stream: Mapping[str, Any]) -> bool:
    """Whether the host that wrote the file sent this stream."""
    return any((stream.get(side) or {}).get("sender") for side in ("sender", "receiver", "udp"))


def _series(intervals: list[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    """Intervals of each socket that count, in order."""
    series: dict[int, list[Mapping[str, Any]]] = {}
    for interval in intervals:
        for stream in interval["streams"]:
            if not stream.get("omitted"):
                series.setdefault(int(stream["socket"]), []).append(stream)
    return series


def _metrics(
    end: Mapping[str, Any], intervals: list[Mapping[str, Any]], mss: float | None
) -> dict[str, float]:
    sender, receiver = end.get("sender") or {}, end.get("receiver") or {}
    udp = end.get("udp") or {}
    metrics: dict[str, float] = {}
    for counted in (receiver, sender, udp):
        if counted.get("seconds") and counted.get("bytes"):
            metrics["goodput_mbps"] = float(counted["bits_per_second"]) / 1e6
            break
    if udp.get("packets"):
        # Of datagrams, drop_rate is the loss; the sender's bits include what was lost.
        metrics["drop_rate"] = float(udp["lost_packets"]) / float(udp["packets"])
        if "goodput_mbps" in metrics:
            metrics["goodput_mbps"] *= 1 - metrics["drop_rate"]
    if sender.get("bytes") and mss and _has_tcp_info(sender, intervals):
        metrics["retransmit_rate"] = float(sender["retransmits"]) * float(mss) / float(sender["bytes"])
    # iperf3 writes 0 where the other side, or this system, knows nothing.
    for name, key in (("rtt_min_ms", "min_rtt"), ("rtt_mean_ms", "mean_rtt"), ("rtt_max_ms", "max_rtt")):
        if sender.get(key):
            metrics[name] = float(sender[key]) / 1e3
    if sender.get("max_snd_cwnd"):
        metrics["cwnd_max_bytes"] = float(sender["max_snd_cwnd"])
    windows = [float(interval["snd_cwnd"]) for interval in intervals if interval.get("snd_cwnd")]
    if windows:
        metrics["cwnd_mean_bytes"] = sum(windows) / len(windows)
    return metrics


def _has_tcp_info(sender: Mapping[str, Any], intervals: list[Mapping[str, Any]]) -> bool:
    """Whether retransmissions were counted: in `end` the receiving side writes 0 for want of knowledge."""
    return "retransmits" in sender and any("retransmits" in interval for interval in intervals)


def _rows(series: Mapping[str, list[Mapping[str, Any]]]) -> pa.Table:
    return base.interval_rows(
        {
            flow: [
                Interval(
                    float(interval["end"]),
                    float(interval["bytes"]),
                    interval.get("snd_cwnd") or None,
                    1000 * interval["rtt"] if interval.get("rtt") else None,
                    interval.get("retransmits"),
                )
                for interval in intervals
            ]
            for flow, intervals in series.items()
        }
    )
