"""The files that TEACUP's analysis extracts from captures and logs: one for each flow and kind, a value a
line.

`TESTID_ADDRESS_PORT_ADDRESS_PORT.psiz` has the IP length of each packet at the receiver, `.rtts` the round
trips by synthetic packet pairs (s), `.cwnd` the congestion window (bytes) and `.tcp_rtt` the smoothed RTT of
the stack (ms), of which `_siftr`, `_web10g` or `_ttprobe` before the dot says the logger. Before the value
stands the time since 1970. `.tscorr` at the end is the same with times that were corrected by TEACUP.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.testbeds.logs import connections
from cwndlab.testbeds.logs.connections import Column, Flows, Rows

NAME = "data of TEACUP's analysis"

COLUMNS = {
    "psiz": ("arrived_bytes", 1.0),
    "rtts": ("rtt_ns", 1e9),
    "cwnd": ("cwnd_bytes", 1.0),
    "tcp_rtt": ("srtt_ns", 1e6),
}
"""Column of the `tcp` table, and the factor of its values, by the end of a file's name."""

OF_PACKETS = frozenset(["psiz", "rtts"])
"""Kinds that are extracted of captures; the others are of the stacks' logs."""

HEADERS = 120
"""Bytes of the longest headers of IP and TCP: a direction without larger packets only acknowledges."""

UNKNOWN = "flow"
"""The name of a flow where the file's does not say it."""

FILE = re.compile(
    r"(?:(?P<id>.+)_)?(?P<source>[^_]+)_(?P<sport>[0-9]{1,5})_(?P<target>[^_]+)_(?P<tport>[0-9]{1,5})"
    r"(?:_(?P<logger>siftr|web10g|ttprobe))?\.(?P<kind>psiz|rtts|cwnd|tcp_rtt)(?P<corrected>\.tscorr)?"
    r"(?:\.(?:gz|xz|zst))?"
)

_TIME = r"[0-9]{9,10}\.[0-9]{6}"

_BY_HEAD = {
    "psiz": rf"{_TIME} [0-9]{{2,5}}",
    "rtts": rf"{_TIME} [0-9]{{1,4}}\.[0-9]{{1,9}}",
    "cwnd": rf"{_TIME},[0-9]{{1,12}}(?:,[0-9]{{0,12}})?",
}
"""Patterns of a whole line, by kind; `tcp_rtt` looks as `cwnd` does, and only its name tells it."""

_LINE = r"^([0-9]{1,10}\.[0-9]{1,9})[ ,]([0-9]{1,15}(?:\.[0-9]{1,12})?)(?:[ ,].*)?$"

MARKS = {"lines of a time since 1970 and a value": rf"^{_TIME}[ ,][0-9.]+(?:,[0-9]*)?$".encode()}
"""Marks of such a file, in words, each with the pattern that finds it."""


@dataclass(frozen=True)
class Extracted:
    """A file, and what its name says."""

    path: Path
    kind: str
    flow: str
    """`ADDRESS:PORT-ADDRESS:PORT`; empty where the name does not say it."""
    corrected: bool = False
    ends: tuple[str, ...] = ()
    """Addresses and ports, the sender's first."""


def of(path: Path) -> Extracted | None:
    """Recognise a file by its name. None for a file of another tool."""
    found = FILE.fullmatch(path.name)
    if found is None:
        return None
    ends = tuple(found[word] for word in ("source", "sport", "target", "tport"))
    return Extracted(path, found["kind"], connections.name_of(*ends), bool(found["corrected"]), ends)


def recognises(head: bytes) -> bool:
    """Whether all lines are a time since 1970 and a value; the first and the last may be cut off."""
    return _kind(head) is not None


def _kind(head: bytes) -> str | None:
    lines = [line.rstrip("\r") for line in head.decode("utf-8", "replace").split("\n")]
    whole = [line for line in (lines if len(lines) < 4 else lines[1:-1]) if line]
    fitting = (kind for kind, line in _BY_HEAD.items() if all(re.fullmatch(line, each) for each in whole))
    return next(fitting, None) if whole else None


def read(path: Path) -> list[Recording]:
    """The one flow of a file, of the kind that its name says, or else its first lines."""
    found = of(path) or Extracted(path, _kind(base.head(path)) or "cwnd", "")
    return [together(path.name, [found])]


def together(label: str, files: Sequence[Extracted]) -> Recording:
    """The run of files of one test ID: of each flow and kind the file with corrected times, or the first.

    A direction whose packets only acknowledge those of the other is left out. Raises InputError where no
    line is left.
    """
    chosen: dict[tuple[str, str], Extracted] = {}
    warnings: list[str] = []
    for file in sorted(files, key=lambda file: (not file.corrected, file.path.name)):
        first = chosen.setdefault((file.flow, file.kind), file)
        if first is not file and first.corrected == file.corrected:
            warnings.append(f"{file.path.name} is left out: {first.path.name} has the same of another logger")
    log, flows = series.Log(), Flows()
    metrics: dict[int, dict[str, float]] = {}
    only_acks = set()
    columns = sorted({COLUMNS[kind][0] for _, kind in chosen})
    for file in sorted(chosen.values(), key=lambda file: (file.kind != "psiz", file.path.name)):
        if file.flow in only_acks:
            continue
        turned = connections.name_of(*file.ends[2:], *file.ends[:2]) if file.ends else ""
        if file.kind == "psiz" and (turned, "psiz") in chosen and _largest(file.path) <= HEADERS:
            only_acks.add(file.flow)
            continue
        number = flows.number(file.flow, partial(str, file.flow or UNKNOWN))
        metrics.setdefault(number, {}).update(_add(log, file, number, columns, warnings))
    if only_acks:
        warnings.append(f"left out, as they only acknowledge: {', '.join(sorted(only_acks))}")
    if any(not flow for flow, _ in chosen):
        warnings.append("the file's name does not say the flow, nor for certain what its values are")
    return log.recording(NAME, files[0].path, label, flows.names, warnings=warnings, metrics=metrics)


def _add(
    log: series.Log, file: Extracted, number: int, columns: Sequence[str], warnings: list[str]
) -> dict[str, float]:
    """Take the lines of a file; the metrics they give that do not follow from the `tcp` table."""
    name, scale = COLUMNS[file.kind]
    arrived = _Arrived()
    for times, values in _values(file.path, warnings):
        t_ns, given = arrived.count(times, values) if file.kind == "psiz" else (times, values)
        rows = {column: np.full(len(t_ns), np.nan) for column in columns}
        rows[name] = connections.bounded(given * scale)
        log.add(Rows(np.full(len(t_ns), number), t_ns, rows))
    return arrived.metrics()


@dataclass
class _Arrived:
    """The bytes of packets so far."""

    total: float = 0.0
    span_ns: tuple[int, int] | None = None

    def count(self, times: Column, sizes: Column) -> tuple[Column, Column]:
        """Times and the counter at them.

        Corrected times may go back a little where the correction changes; a counter does not.
        """
        if not len(times):
            return times, sizes
        t_ns = np.maximum.accumulate(np.maximum(times, self.span_ns[1] if self.span_ns else 0))
        counted = self.total + np.cumsum(sizes)
        self.total = float(counted[-1])
        self.span_ns = self.span_ns[0] if self.span_ns else int(t_ns[0]), int(t_ns[-1])
        return t_ns, counted

    def metrics(self) -> dict[str, float]:
        """Metrics that follow from the arrivals alone."""
        first, last = self.span_ns or (0, 0)
        return {"throughput_mbps": 8e3 * self.total / (last - first)} if last > first else {}


def _largest(path: Path) -> float:
    return max((float(values.max(initial=0)) for _, values in _values(path, [])), default=0.0)


def _values(path: Path, warnings: list[str]) -> Iterator[tuple[Column, Column]]:
    """Times and values of the lines, in pieces; what is no such line is passed over, which `warnings` say."""
    other, first = 0, True
    for text, cut in map(connections.whole_lines, connections.lines(base.pieces(path)())):
        found = connections.records(text).str.extract_groups(_LINE).struct
        times, values = (found.field(name) for name in found.fields)
        whole = values.is_not_null()
        other += cut + len(whole) - int(whole.sum())
        t_ns, numbers = (
            connections.nanoseconds(times.filter(whole)),
            connections.numbers(values.filter(whole)),
        )
        if first and connections.starts_torn(t_ns):
            warnings.append(f"{path.name}: {connections.TORN}")
            t_ns, numbers = t_ns[1:], numbers[1:]
        first = first and not len(t_ns)
        yield t_ns, numbers
    if other:
        warnings.append(f"{path.name}: {other} lines are no records")
