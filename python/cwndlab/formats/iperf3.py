"""iperf3's JSON (`iperf3 -J`, and `--json-stream`): one document is one run; a file may hold several."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cwndlab.errors import InputError
from cwndlab.experiment.damage import damage
from cwndlab.formats import base
from cwndlab.formats.base import Recording
from cwndlab.formats.external_sort import StoredTable
from cwndlab.formats.intervals import Interval, Intervals
from cwndlab.formats.iperf3_documents import Document, documents

NAME = "iperf3 JSON"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


_KEYS = re.compile(
    rb'"(?:connecting_to|test_start|tcp_mss(?:_default)?|cookie|event|intervals|system_info)"\s*:|\{\s*"error"\s*:\s*"'
)


MARKS = {
    '"start"': rb'"start"\s*:\s*\{',
    '"intervals"': rb'"intervals"\s*:\s*\[',
    '"end"': rb'"end"\s*:\s*\{',
}
"""Marks of a file of this format, in words, and how it is found."""


def recognises(head: bytes) -> bool:
    """Whether a line begins a JSON object with a key of iperf3's; text may stand before it."""
    begin = re.search(rb"^(?:\xef\xbb\xbf)?[ \t]*\{", head, re.MULTILINE)
    return begin is not None and _KEYS.search(head, begin.start()) is not None


def read(path: Path) -> list[Recording]:
    """The runs of a file: documents one after the other, each as long as it may be.

    Goodput is what the receiver counted, where the client got to know it, else what a sender of TCP sent. RTT
    and cwnd are the kernel's, sampled by iperf3 at the end of each interval: the mean of those, not of every
    packet. Intervals that iperf3 omitted (`-O`) are left out. Of a run without its end the intervals so far
    count, which a warning says; one that is only an error is a warning, where the file holds other runs.
    Raises InputError for a file that is damaged, a document without intervals, or nothing but errors.
    """
    found = list(documents(path, base.json_text(path)))
    runs: list[Recording] = []
    failures: list[str] = []
    for place, document in enumerate(found, 1):
        label = path.name if len(found) == 1 else f"{path.name} #{place}"
        error = document.content.get("error")
        if error and not _intervals(document.content) and not _ends(document.content):
            failures.append(f"{label}: iperf3 ended with an error: {str(error)[:200]}")
        else:
            runs.append(_recording(path, label, document))
    if failures and not runs:
        raise InputError(f"{path.parent / failures[0]}")
    if failures:
        runs[0] = replace(runs[0], warnings=(*runs[0].warnings, *failures))
    return runs


def _recording(path: Path, label: str, document: Document) -> Recording:
    try:
        return _read(path, label, document)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: not a whole document of iperf3 ({damage(error)})") from None


def _intervals(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The intervals in which every stream says what it transferred; the last may be cut off."""
    found = content.get("intervals")
    return [
        interval
        for interval in (found if isinstance(found, list) else [])
        if isinstance(interval, dict)
        and interval.get("streams")
        and all("bytes" in stream and "end" in stream for stream in interval["streams"])
    ]


def _ends(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what the document says of each stream at its end; nothing where it has none."""
    end = content.get("end")
    found = end.get("streams") if isinstance(end, dict) else None
    return found if isinstance(found, list) else []


def _read(path: Path, label: str, document: Document) -> Recording:
    content = document.content
    start, end = content.get("start") or {}, content.get("end") or {}
    test = start.get("test_start", {})
    udp = test.get("protocol") == "UDP"
    mss = start.get("tcp_mss") or start.get("tcp_mss_default")
    intervals = _intervals(content)
    ends = {_socket(stream): stream for stream in _ends(content)}
    warnings = [f"{label}: {remark}" for remark in document.remarks]
    if content.get("error"):
        warnings.append(f"{label}: iperf3 ended with an error: {str(content['error'])[:200]}")
    if not ends:
        if not intervals:
            raise InputError(f"{path}: not a whole document of iperf3: no intervals, no streams at its end")
        warnings.append(f"{label}: has no end: metrics are of the {len(intervals)} intervals so far")
    series = _series(intervals)
    sends = {socket: _sends(stream) for socket, stream in ends.items()} or {
        socket: bool(found[0].get("sender", True)) for socket, found in series.items()
    }
    if not sends:
        raise InputError(f"{path}: not a whole document of iperf3: no end, and all its intervals are omitted")
    names = {
        socket: f"{'r' if test.get('bidir') and not sending else 'f'}{place}"
        for place, (socket, sending) in enumerate(sends.items(), 1)
    }
    metrics = {}
    for socket, name in names.items():
        mine = series.get(socket, [])
        if ends:
            metrics[name] = _metrics(ends[socket], mine, None if udp else mss)
        else:
            metrics[name] = _metrics_so_far(mine, None if udp else mss, arrived=not (udp and sends[socket]))
    for back in (False, True) if test.get("bidir") else (False,):
        way = {
            names[socket]: stream["udp"]
            for socket, stream in ends.items()
            if "udp" in stream and names[socket].startswith("r") == back
        }
        arrived = end.get("sum_received_bidir_reverse" if back else "sum_received")
        for name, mbps in _goodput_of_datagrams(way, arrived).items():
            metrics[name]["goodput_mbps"] = mbps
    seconds = (start.get("timestamp") or {}).get("timesecs")
    facts = {
        "version": start.get("version"),
        "system": start.get("system_info"),
        "cc": end.get("sender_tcp_congestion"),
        "protocol": test.get("protocol"),
    }
    unknown = [name for name, found in metrics.items() if "goodput_mbps" not in found]
    if unknown:
        warnings.append(f"{label}: what arrived of {', '.join(unknown)} is not known")
    if not_told := [names[socket] for socket, stream in ends.items() if _receiver_is_silent(stream)]:
        warnings.append(
            f"{label}: the receiver of {', '.join(not_told)} told nothing: goodput is what was sent"
        )
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


def _figure(found: Mapping[str, Any], key: str) -> float:
    """A number that iperf3 gives, 0 where it gives none: it writes 0 for what it does not know."""
    value = found.get(key)
    return float(value) if value is not None else 0.0


def _rate(found: Mapping[str, Any]) -> float:
    """Bits a second, of bytes and seconds where iperf3 divided by an end that it did not know."""
    if found.get("bits_per_second") is not None:
        return float(found["bits_per_second"])
    seconds = _figure(found, "seconds")
    return 8 * _figure(found, "bytes") / seconds if seconds > 0 else 0.0


def _receiver_is_silent(stream: Mapping[str, Any]) -> bool:
    """Whether a receiver of TCP claims 0 bytes of what was sent, as when a run is interrupted."""
    sender, receiver = stream.get("sender") or {}, stream.get("receiver") or {}
    return _figure(sender, "bytes") > 0 and not _figure(receiver, "bytes")


def _goodput_of_datagrams(
    streams: Mapping[str, Mapping[str, Any]], arrived: Mapping[str, Any] | None
) -> dict[str, float]:
    """Mbit/s of each stream: its share of `sum_received`, by the datagrams that were not lost; what was sent
    less what was lost, where there is no such sum (iperf3 before 3.2). A sum of 0 bytes is not known."""
    parts = {
        name: _rate(udp) * (1 - _figure(udp, "lost_packets") / _figure(udp, "packets"))
        for name, udp in streams.items()
        if _figure(udp, "packets") > 0
    }
    whole = sum(parts.values())
    if arrived is None or not whole:
        return {name: part / 1e6 for name, part in parts.items()}
    if not _figure(arrived, "bytes"):
        return {}
    rate = _rate(arrived)
    return {name: rate * part / whole / 1e6 for name, part in parts.items()}


def _metrics(
    end: Mapping[str, Any], intervals: list[Mapping[str, Any]], mss: float | None
) -> dict[str, float]:
    sender, receiver = end.get("sender") or {}, end.get("receiver") or {}
    udp = end.get("udp") or {}
    metrics: dict[str, float] = {}
    for counted in (receiver, sender):
        if _figure(counted, "seconds") and _figure(counted, "bytes"):
            metrics["goodput_mbps"] = _rate(counted) / 1e6
            break
    if _figure(udp, "packets") and udp.get("lost_packets") is not None:
        metrics["drop_rate"] = _figure(udp, "lost_packets") / _figure(udp, "packets")
    if sender.get("bytes") and mss and _has_tcp_info(sender, intervals):
        metrics["retransmit_rate"] = _figure(sender, "retransmits") * float(mss) / _figure(sender, "bytes")
    # iperf3 writes 0 where the other side, or this system, knows nothing.
    for name, key in (("rtt_min_ms", "min_rtt"), ("rtt_mean_ms", "mean_rtt"), ("rtt_max_ms", "max_rtt")):
        if sender.get(key):
            metrics[name] = float(sender[key]) / 1e3
    metrics |= _windows(intervals)
    if sender.get("max_snd_cwnd"):
        metrics["cwnd_max_bytes"] = float(sender["max_snd_cwnd"])
    return metrics


def _metrics_so_far(
    intervals: list[Mapping[str, Any]], mss: float | None, *, arrived: bool
) -> dict[str, float]:
    """The metrics of a stream without its end; `arrived` tells whether its bytes are those that arrived."""
    metrics = _windows(intervals)
    if not intervals:
        return metrics
    seconds = _figure(intervals[-1], "end") - _figure(intervals[0], "start")
    transferred = sum(_figure(interval, "bytes") for interval in intervals)
    if arrived and seconds > 0:
        metrics["goodput_mbps"] = 8e-6 * transferred / seconds
    if mss and transferred and all("retransmits" in interval for interval in intervals):
        again = sum(_figure(interval, "retransmits") for interval in intervals)
        metrics["retransmit_rate"] = again * float(mss) / transferred
    rtts = [float(interval["rtt"]) / 1e3 for interval in intervals if interval.get("rtt")]
    if rtts:
        metrics |= {"rtt_min_ms": min(rtts), "rtt_mean_ms": sum(rtts) / len(rtts), "rtt_max_ms": max(rtts)}
    return metrics


def _windows(intervals: list[Mapping[str, Any]]) -> dict[str, float]:
    windows = [float(interval["snd_cwnd"]) for interval in intervals if interval.get("snd_cwnd")]
    if not windows:
        return {}
    return {"cwnd_mean_bytes": sum(windows) / len(windows), "cwnd_max_bytes": max(windows)}


def _has_tcp_info(sender: Mapping[str, Any], intervals: list[Mapping[str, Any]]) -> bool:
    """Whether retransmissions were counted: in `end` the receiving side writes 0 for want of knowledge."""
    return "retransmits" in sender and any("retransmits" in interval for interval in intervals)


def _rows(series: Mapping[str, list[Mapping[str, Any]]]) -> StoredTable:
    found = Intervals()
    for number, intervals in enumerate(series.values()):
        for interval in intervals:
            found.add(
                number,
                Interval(
                    0,
                    float(interval["end"]),
                    float(interval["bytes"]),
                    interval.get("snd_cwnd") or None,
                    interval.get("rtt") or None,
                    interval.get("retransmits"),
                ),
            )
    return found.table(list(series))
