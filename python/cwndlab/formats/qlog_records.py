"""qlog files as traces with their events: JSON, newline-delimited JSON and JSON text sequences.

A file of JSON is read twice: what stands beside the events may come behind them. Memory depends on neither
the number of events nor the length of the file.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cwndlab.results.sampling import SAMPLED
from cwndlab.testbeds.logs.connections import LATEST_NS, LONGEST_LINE, Source

MOST_AROUND = 4 << 20
"""Characters beside the events that a file may have."""

EARLIEST_NS = 946_684_800 * 10**9
"""Times before the year 2000 are no dates: they count from something else."""

_EVENTS = re.compile(r'(?<!\\)"events"\s*:\s*\[')
_GAP = re.compile(r"[\s,]*")
_SEPARATOR = b"\x1e"
"""Beginning of a record in a JSON text sequence (RFC 7464)."""

_WANTED = re.compile(rb"metric|packet_sent|packets?_lost|acked|congestion|loss_|timer|app|parameters_set")
"""Words of a record that tells something about congestion; quicker to look for than to parse."""


@dataclass
class Trace:
    """One log of a connection, or of several in groups, as its header describes it."""

    vantage: str = ""
    group: str = ""
    fields: list[str] = field(default_factory=list)
    """Names of the values of an event, of the drafts that wrote events as lists."""
    unit_ns: float = 1e6
    """Unit of times and round trips."""
    reference_ns: int | None = None
    """The time that events count from, since 1970; None where that is not known."""
    deltas: bool = False
    """Whether times count from the event before."""
    facts: dict[str, str] = field(default_factory=dict)


@dataclass
class Event:
    """An event: its time in ns, its name without a category, in lower case, its data, and its group."""

    t_ns: int
    name: str
    data: Mapping[str, Any]
    group: str


class Reading:
    """The traces of a file, with what is not as it should be."""

    def __init__(self, source: Source) -> None:
        """Read what stands beside the events; raises ValueError for what is no qlog."""
        self._source = source
        self.damaged = 0
        """Records that cannot be read."""
        self.cut_off = False
        """Whether the file ends before its end."""
        first = next(source(), b"").lstrip()
        self._sequence = first.startswith(_SEPARATOR) or _is_record(first)
        if self._sequence:
            self.traces = [_trace(*_header_of_sequence(next(self._records(), b"")))]
        else:
            document = _Document(source())
            head = document.around()
            self.cut_off = document.cut_off
            self.traces = [_trace(head, each) for each in _list(head.get("traces"))]

    def events(self) -> Iterator[tuple[int, Event]]:
        """The events, each with the number of its trace."""
        raw = self._of_sequence() if self._sequence else _Document(self._source()).events()
        times = [0] * len(self.traces)
        for place, found in raw:
            if place >= len(self.traces):
                return
            trace = self.traces[place]
            event = _event(found, trace)
            if event is None:
                self.damaged += bool(found)
                continue
            if trace.deltas:
                event.t_ns += times[place]
                times[place] = event.t_ns
            yield place, event

    def _of_sequence(self) -> Iterator[tuple[int, Any]]:
        records = self._records()
        next(records, None)
        for record in records:
            if _WANTED.search(record) is None:
                continue
            found = _parsed(record)
            if found is None:
                self.damaged += 1
            else:
                yield 0, found

    def _records(self) -> Iterator[bytes]:
        separator, rest = b"", b""
        for piece in self._source():
            rest += piece
            separator = separator or (_SEPARATOR if rest.lstrip().startswith(_SEPARATOR) else b"\n")
            *whole, rest = rest.split(separator)
            yield from (record for record in map(_stripped, whole) if record)
            rest = rest[: LONGEST_LINE + 1]
        if record := _stripped(rest):
            yield record


class _Document:
    """A document of JSON whose lists called `events` are read element by element."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._decoder = pieces, codecs.getincrementaldecoder("utf-8")("replace")
        self._text, self._at = "", 0
        self.cut_off = False

    def around(self) -> dict[str, Any]:
        """The document with every list of events empty; raises ValueError for what is no JSON."""
        parts: list[str] = []
        size = 0
        while (found := self._until_events()) is not None:
            part, follows = found
            parts.append(part)
            size += len(part)
            if size > MOST_AROUND:
                raise ValueError(f"more than {MOST_AROUND >> 20} MiB beside its events")
            for _ in self._elements() if follows else ():
                pass
        text = "".join(parts).removeprefix("\ufeff") + ("]}]}" if self.cut_off else "")
        document = _parsed(text.encode())
        if not isinstance(document, dict):
            raise ValueError("not whole JSON beside its events")
        return document

    def events(self) -> Iterator[tuple[int, Any]]:
        """Every event with the number of the list it is in."""
        place = 0
        while (found := self._until_events()) is not None:
            if found[1]:
                for element in self._elements():
                    yield place, element
                place += 1

    def _fill(self) -> bool:
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._text, self._at = self._text[self._at :] + self._decoder.decode(piece), 0
        return True

    def _until_events(self) -> tuple[str, bool] | None:
        """The text up to the next list of events, or some of it, and whether that list follows; None at the
        end."""
        found = _EVENTS.search(self._text, self._at)
        if found is None:
            if not self._fill():
                rest, self._at = self._text[self._at :], len(self._text)
                return (rest, False) if rest else None
            found = _EVENTS.search(self._text, self._at)
        # What may be the beginning of the words stays for the next time.
        end = found.end() if found else max(len(self._text) - 64, self._at)
        part, self._at = self._text[self._at : end], end
        return part, found is not None

    def _elements(self) -> Iterator[Any]:
        decoder = json.JSONDecoder(strict=False)
        while True:
            gap = _GAP.match(self._text, self._at)
            self._at = gap.end() if gap else self._at
            if self._at == len(self._text):
                if self._fill():
                    continue
                self.cut_off = True
                return
            if self._text[self._at] == "]":
                return
            try:
                element, self._at = decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise ValueError("an event that is nested too deeply") from None
            except ValueError:
                if len(self._text) - self._at > LONGEST_LINE:
                    raise ValueError(f"an event that is longer than {LONGEST_LINE >> 20} MiB") from None
                if not self._fill():
                    self.cut_off, self._at = True, len(self._text)
                    return
                continue
            yield element


def _stripped(record: bytes) -> bytes:
    return record.strip(_SEPARATOR + b" \t\r\n")


def _parsed(record: bytes) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(record.decode("utf-8", "replace"), strict=False)
    return None


def _is_record(first: bytes) -> bool:
    """Whether a text begins with a whole record on its first line: newline-delimited JSON."""
    line, end, more = first.partition(b"\n")
    header = _parsed(line) if end else None
    return isinstance(header, dict) and "traces" not in header and bool(more.strip() or "trace" in header)


def _header_of_sequence(record: bytes) -> tuple[dict[str, Any], Any]:
    head = _parsed(record)
    if not isinstance(head, dict):
        raise ValueError("a first record that is no header")
    return head, head.get("trace")


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _dict(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def number(found: Any) -> float | None:
    """A value as a number, also where it stands as text; None for what is none."""
    if isinstance(found, str | int | float) and not isinstance(found, bool):
        with suppress(ValueError, OverflowError):
            value = float(found)
            return value if abs(value) < float("inf") else None
    return None


def _trace(head: Mapping[str, Any], found: Any) -> Trace:
    body = _dict(found)
    common, settings = _dict(body.get("common_fields")), _dict(body.get("configuration"))
    vantage = _dict(body.get("vantage_point"))
    trace = Trace(str(vantage.get("type", "")).lower())
    ids = (common.get(key) for key in ("group_id", "ODCID", "odcid", "dcid"))
    trace.group = next((each for each in ids if isinstance(each, str) and each), "")
    trace.fields = [str(name).lower() for name in _list(body.get("event_fields"))]
    trace.unit_ns = 1e3 if settings.get("time_units", common.get("time_units")) == "us" else 1e6
    form = str(common.get("time_format", ""))
    trace.deltas = form in ("delta", "relative_to_previous_event") or "delta_time" in trace.fields
    absolute = form == "absolute" or (
        bool(trace.fields) and not {"relative_time", "delta_time"} & {*trace.fields}
    )
    trace.reference_ns = 0 if absolute else _reference(common.get("reference_time"), trace.unit_ns)
    known = {"version": head.get("qlog_version", head.get("file_schema")), "title": head.get("title")}
    known |= {"sender": vantage.get("name"), "code": head.get("code_version")}
    known[SAMPLED] = number(body.get(SAMPLED))
    trace.facts = {key: str(value) for key, value in known.items() if value}
    return trace


def _reference(found: Any, unit_ns: float) -> int | None:
    """The time that a trace counts from, in ns since 1970; None where it is no date."""
    if isinstance(found, dict):
        known = (found.get("epoch"), found.get("wall_clock_time"))
        return next((time for time in map(_date, known) if time is not None), None)
    value = number(found)
    if value is None:
        return _date(found)
    time = round(value * unit_ns) if abs(value) < LATEST_NS / unit_ns else 0
    return time if time >= EARLIEST_NS else None


def _date(found: Any) -> int | None:
    if isinstance(found, str):
        with suppress(ValueError, OverflowError):
            time = datetime.fromisoformat(found)
            return round(time.timestamp() * 10**6) * 1000 if time.tzinfo else None
    return None


def _event(found: Any, trace: Trace) -> Event | None:
    """An event of any draft; None for what is none."""
    if isinstance(found, list):
        found = dict(zip(trace.fields, found, strict=False))
    if not isinstance(found, dict):
        return None
    read: Callable[..., Any] = found.get
    time = next((read(key) for key in ("time", "relative_time", "delta_time") if key in found), None)
    at = number(time)
    name = next((read(key) for key in ("name", "event", "event_type", "type") if key in found), None)
    if at is None or not isinstance(name, str) or abs(at) >= LATEST_NS / trace.unit_ns:
        return None
    group = read("group_id", "")
    group = group if isinstance(group, str) else json.dumps(group)
    if number(path := read("path_id")):
        # Each path of a connection has a window and round trips of its own.
        group = "-".join(part for part in (group or trace.group, f"path{path}") if part)
    return Event(round(at * trace.unit_ns), name.rpartition(":")[2].lower(), _dict(read("data")), group)
