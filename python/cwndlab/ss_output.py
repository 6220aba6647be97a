"""What `ss -ti` prints of TCP's sockets, again and again, with the time printed before each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

ENDS = re.compile(
    r"(?:^|\n)[ \t]*(?:tcp[ \t]+)?(?:[A-Z][A-Z0-9-]{2,11}[ \t]+)?\d{1,12}[ \t]+\d{1,12}[ \t]+"
    r"(\S{1,64}):(\d{1,5})[ \t]+(\S{1,64}):(\d{1,5})(?=\s)"
)
_STAMP = re.compile(
    r"(?:^|\n)[ \t#]*(?:(\d{9,10})(?:\.(\d{1,9}))?"
    r"|(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?))[ \t\r]*(?=\n|$)"
)
_VALUE = re.compile(r"(?<![\w])([a-z_]{2,20}):([0-9./,]{1,40})")
_RATE = re.compile(r"(?<![\w])(pacing_rate|delivery_rate) ([0-9.]{1,20})([KMGT]?)bps")
_MILLISECONDS = re.compile(r"(?<![\w])(busy|rwnd_limited|sndbuf_limited):(\d{1,12})ms")
_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

Ends = tuple[str, str, str, str]
"""Own address and port, and the peer's, as printed."""


def samples(text: str, latest_ns: int) -> Iterator[tuple[int | None, Ends, str]]:
    """Time, ends and details of each connection printed; times up to `latest_ns` are believed."""
    marks: list[tuple[int, int, Any]] = [(found.start(), 0, found) for found in _STAMP.finditer(text)]
    marks += [(found.start(), 1, found) for found in ENDS.finditer(text)]
    marks.sort(key=lambda mark: mark[:2])
    now: int | None = None
    for place, (_, kind, found) in enumerate(marks):
        if kind == 0:
            time_ns = _time(found)
            # A year that no clock shows is damage, and no time.
            now = time_ns if time_ns is not None and 0 <= time_ns < latest_ns else None
            continue
        until = marks[place + 1][0] if place + 1 < len(marks) else len(text)
        ends = [end.strip("[]").split("%")[0] for end in (found[1], found[3])]
        details = text[found.end() : min(until, found.end() + 4096)]
        yield now, (ends[0], found[2], ends[1], found[4]), details


def _time(found: re.Match[str]) -> int | None:
    if found[1]:
        return int(found[1]) * 10**9 + int((found[2] or "").ljust(9, "0"))
    whole, _, fraction = found[3].replace(",", ".").partition(".")
    digits = re.match(r"\d*", fraction)
    parts = digits[0] if digits else ""
    zone = fraction[len(parts) :]
    try:
        moment = datetime.fromisoformat(whole + zone)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * 10**9 + int((parts or "0").ljust(9, "0")[:9])


def values(details: str) -> dict[str, float]:
    """The numbers by name; the second of two, as in `rtt:1.5/0.7`, under the name with a slash."""
    found: dict[str, float] = {}
    for name, text in _VALUE.findall(details):
        first, _, second = text.partition("/")
        try:
            found[name] = float(first)
            if second:
                found[f"{name}/"] = float(second)
        except ValueError:
            continue
    for name, number, scale in _RATE.findall(details):
        try:
            found[name] = float(number) * _SCALES[scale]
        except ValueError:
            continue
    found |= {f"{name}_ms": float(number) for name, number in _MILLISECONDS.findall(details)}
    return found
