"""iperf's text: iperf 2 (plain, `-e`, and `-y C`) and iperf3, logs of clients and of servers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.formats import base
from cwndlab.formats.base import Recording
from cwndlab.formats.intervals import Interval, Intervals, Totals
from cwndlab.testbeds.logs import connections

NAME = "iperf text"

_TIME = r"\d{1,9}\.\d{1,9}"
_NUMBER = r"\d{1,15}(?:\.\d{1,9})?"

_LINE = re.compile(
    rf"\[[ *]*(?P<id>\d+|SUM)(?:-\d+)?\](?:\[[^\]]*\])? +(?P<start>{_TIME}) *- *(?P<end>{_TIME}) +sec +"
    rf"(?P<amount>{_NUMBER}) +(?P<prefix>[KMGT]?)(?P<unit>Bytes|bits) +"
    rf"(?P<rate>{_NUMBER}) +(?P<rate_prefix>[KMGT]?)(?P<rate_unit>bits|Bytes)/sec(?P<rest>.*)"
)
_CSV = re.compile(
    r"(?P<stamp>\d{14})(?:\.\d+)?(?P<ends>,[^,]*,\d*,[^,]*,\d*),(?P<id>-?\d+),"
    rf"(?P<start>{_TIME})-(?P<end>{_TIME}),(?P<bytes>\d{{1,15}}),(?P<rate>\d{{1,15}})(?P<rest>.*)"
)
_OPENED = re.compile(r"\[[ *]*\d+\] local .* connected (?:with|to) ")
_BANNER = re.compile(r"(?:Client c|C)onnecting to |Server listening on ")
_DATE = re.compile(r" on (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)? \((?:UTC|GMT)\)")
# iperf 2 -e: packets written and errors, retransmissions, cwnd in KiB, RTT (and its deviation) in us.
_ENHANCED = re.compile(
    r" *\d+/\d+ +(?P<again>\d{1,15}) +(?P<cwnd>-?\d{1,9})K(?:/(?P<rtt>\d{1,9})(?:\(\d+\))? us)?"
)
# iperf3: retransmissions and cwnd.
_THREE = re.compile(rf" +(?P<again>\d{{1,15}}) +(?P<cwnd>{_NUMBER}) (?P<prefix>[KMG]?)Bytes")
_DATAGRAMS = re.compile(r" +[\d.]+ ms +(?P<lost>\d{1,15})/ *(?P<all>\d{1,15}) ")

_BINARY = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
"""iperf counts amounts in powers of 1024 ..."""
_DECIMAL = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
"""... and bits per second in powers of 1000."""


MARKS = {
    "[ID]": rb"^\[ *(?:\d+|SUM)\]",
    "an interval (0.00-1.00 sec)": rb"\d\.\d+ *- *\d+\.\d+ +sec",
    "an amount and a rate (1.00 MBytes 8.39 Mbits/sec)": rb"\d [KMGT]?Bytes +[\d.]+ [KMGT]?bits/sec",
}
"""Marks of a line of this format, in words, each with the pattern that finds it."""


def recognises(head: bytes) -> bool:
    """Whether the beginning has one of iperf's lines."""
    text = head.decode("utf-8", errors="replace")
    return any(
        _LINE.match(line) or _CSV.match(line) or _OPENED.match(line) or _BANNER.match(line)
        for line in text.splitlines()
    )


def read(path: Path) -> list[Recording]:
    """The runs of a log, in order: a server's log, or one that a client was started into again, has several.

    A run ends when every connection in it has had its summary, and another connects. The summary line of a
    connection, which covers all of it, is not an interval, wherever it stands. Goodput is the summary's; of a
    log cut off before it, that of the intervals. Numbers have the three digits iperf writes.
    Raises InputError for a number no counter can hold.
    """
    lines = (
        line
        for text in connections.lines(base.pieces(path)())
        for line in text.replace("\r\n", "\n").split("\n")
    )
    try:
        found: list[Recording] = []
        for run in _runs(lines):
            found.append(_recording(path, path.name if not found else f"{path.name} #{len(found) + 1}", run))
            if len(found) > MOST_RUNS:
                raise ValueError(f"more than {MOST_RUNS} runs")
        if len(found) > 1:
            first = f"{path.name} #1"
            warnings = tuple(said.replace(path.name, first, 1) for said in found[0].warnings)
            found[0] = replace(found[0], label=first, warnings=warnings)
        return found
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


MOST_RUNS = 10_000
"""Runs of one log at most."""


@dataclass
class _Interval(Interval):
    bps: float = 0.0
    lost: tuple[int, int] | None = None


@dataclass
class _Stream:
    number: int
    waiting: _Interval | None = None
    """The first interval, as long as it may be the whole of the connection."""
    last: _Interval | None = None
    some: bool = False
    """Whether anything was transferred in an interval."""
    summary: _Interval | None = None
    silent: bool = False
    """Whether one side claims 0 bytes of what the other has sent or received."""


@dataclass
class _Run:
    streams: dict[str, _Stream] = field(default_factory=dict)
    started: datetime | None = None
    intervals: Intervals = field(default_factory=Intervals)

    @property
    def over(self) -> bool:
        return bool(self.streams) and all(stream.summary for stream in self.streams.values())

    def stream(self, name: str) -> _Stream:
        if name not in self.streams:
            if len(self.streams) == connections.MAX_FLOWS:
                raise ValueError(f"more than {connections.MAX_FLOWS} connections")
            self.streams[name] = _Stream(len(self.streams))
        return self.streams[name]

    def add(self, stream: _Stream, interval: _Interval) -> None:
        if stream.last is None:
            stream.waiting = interval
        else:
            self.settle(stream)
            self.intervals.add(stream.number, interval)
        stream.last = interval
        stream.some |= bool(interval.bytes)

    def settle(self, stream: _Stream) -> None:
        """Count the first interval of a stream."""
        if stream.waiting is not None:
            self.intervals.add(stream.number, stream.waiting)
            stream.waiting = None


def _runs(lines: Iterable[str]) -> Iterable[_Run]:
    run = _Run()
    opened: dict[str, str] = {}
    for line in lines:
        begins = _BANNER.match(line) or (_OPENED.match(line) and run.over)
        if begins and run.streams:
            yield run
            run, opened = _Run(), {}
        if (date := _DATE.search(line)) and run.started is None:
            run.started = _stamp(re.sub(r"\D", "", date[1]), 0)
        if found := _LINE.match(line):
            _add(run, found["id"], _interval(found), line)
        elif found := _CSV.match(line):
            # A new connection of -y C is known by its ports only.
            ends = opened.setdefault(found["id"], found["ends"])
            if run.over and ends != found["ends"]:
                yield run
                run, opened = _Run(), {found["id"]: found["ends"]}
            # Times have one digit after the point here, the rate has all of its own.
            end_s, amount, rate = float(found["end"]), float(found["bytes"]), float(found["rate"])
            if run.started is None:
                run.started = _stamp(found["stamp"], end_s)
            _add(run, found["id"], _Interval(float(found["start"]), end_s, amount, bps=rate), line)
    if run.streams:
        yield run


def _stamp(text: str, after_s: float) -> datetime | None:
    """Time at which a run began whose line of that time covers it until `after_s`; its clock is taken for
    UTC.
    """
    try:
        return datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC) - timedelta(seconds=after_s)
    except (ValueError, OverflowError):
        return None


def _add(run: _Run, name: str, interval: _Interval, line: str) -> None:
    if name in ("SUM", "-1") or "(omitted)" in line:
        return
    stream = run.stream(name)
    last = stream.last
    # The whole of the connection: named so by iperf3, or beginning at 0 again.
    whole = line.rstrip().endswith(("sender", "receiver")) or (
        interval.start_s == 0 and last is not None and interval.end_s >= last.end_s
    )
    if not whole:
        run.add(stream, interval)
    elif not interval.bytes and (stream.summary or stream.some):
        # Of an interrupted run iperf3 writes 0 for the side that did not tell what it counted.
        stream.silent = line.rstrip().endswith(("sender", "receiver"))
    elif stream.summary is None or line.rstrip().endswith("receiver"):
        if stream.summary is not None:
            interval.retransmits = stream.summary.retransmits
        stream.summary, stream.silent = interval, False
    elif last is not None and interval.lost is not None:
        # Below "Server Report:" stands what the receiver of datagrams counted.
        stream.summary = interval


def _interval(found: re.Match[str]) -> _Interval:
    bits = found["unit"] == "bits"
    amount = float(found["amount"]) * _BINARY[found["prefix"]] / (8 if bits else 1)
    if found["rate_unit"] == "bits":
        rate = float(found["rate"]) * _DECIMAL[found["rate_prefix"]]
    else:
        rate = 8 * float(found["rate"]) * _BINARY[found["rate_prefix"]]
    interval = _Interval(float(found["start"]), float(found["end"]), amount, bps=rate)
    rest = found["rest"]
    if more := _ENHANCED.match(rest):
        interval.retransmits = int(more["again"])
        interval.cwnd_bytes = int(more["cwnd"]) << 10 if int(more["cwnd"]) > 0 else None
        interval.rtt_us = int(more["rtt"]) if more["rtt"] and int(more["rtt"]) else None
    elif more := _THREE.match(rest):
        interval.retransmits = int(more["again"])
        interval.cwnd_bytes = round(float(more["cwnd"]) * _BINARY[more["prefix"]])
    elif more := _DATAGRAMS.match(rest):
        interval.lost = int(more["lost"]), int(more["all"])
    return interval


def _recording(path: Path, label: str, run: _Run) -> Recording:
    streams = list(run.streams.values())
    for stream in streams:
        # A single line is what iperf writes without -i: the whole.
        if stream.summary is None and stream.waiting is not None and stream.waiting.start_s == 0:
            stream.summary, stream.waiting = stream.waiting, None
        run.settle(stream)
    names = tuple(f"f{place}" for place in range(1, len(streams) + 1))
    cut = [name for name, stream in zip(names, streams, strict=True) if stream.summary is None]
    warnings = [f"{label}: no summary of {', '.join(cut)}: cut off before its end"] if cut else []
    silent = [name for name, stream in zip(names, streams, strict=True) if stream.silent]
    if silent:
        warnings.append(
            f"{label}: one side of {', '.join(silent)} told nothing: goodput is what the other counted, "
            "of datagrams it is not known"
        )
    return Recording(
        NAME,
        path,
        label,
        names,
        {
            name: _metrics(stream, run.intervals.totals.get(stream.number, Totals()))
            for name, stream in zip(names, streams, strict=True)
        },
        {"tcp": run.intervals.table(names)},
        run.started,
        {},
        tuple(warnings),
    )


def _metrics(stream: _Stream, totals: Totals) -> dict[str, float]:
    whole = stream.summary
    if stream.silent and whole is not None and whole.lost is not None:
        return {}
    metrics = {"goodput_mbps": whole.bps / 1e6} if whole is not None else totals.goodput()
    if whole is not None and whole.lost is not None and whole.lost[1]:
        metrics["drop_rate"] = whole.lost[0] / whole.lost[1]
    return metrics | totals.windows_metrics() | totals.rtt_metrics()
