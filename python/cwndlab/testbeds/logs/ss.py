"""The reader of what `ss -ti` prints of TCP's sockets, again and again, with the time printed before each."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_MOMENT = (
    r"(?:(?P<s>\d{9,10})(?:\.(?P<fraction>\d{1,9}))?"
    r"|(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
    r"|[A-Z][a-z]{2} (?P<date>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?:[A-Z]{3,5} )?(?P<year>\d{4}))"
)
_AMOUNTS = r"\d{1,12}[ \t]+\d{1,12}[ \t]+"
# A number of nine digits may also be the first of a line's two queues.
_STAMP = re.compile(rf"(?:^|\n)[ \t#]*{_MOMENT}(?=[ \t\r\n]|$)(?![ \t]+\d{{1,12}}[ \t]+\S{{1,64}}:\d)")
ENDS = re.compile(
    rf"(?:^|\n)[ \t]*(?:{re.sub('[?]P<[a-z]+>', '?:', _MOMENT)}[ \t]+)?"
    rf"(?:tcp[ \t]+)?(?:[A-Z][A-Z0-9-]{{2,11}}[ \t]+)?{_AMOUNTS}"
    r"(\S{1,64}):(\d{1,5})[ \t]+(\S{1,64}):(\d{1,5})(?=\s)"
)
DETAILS = re.compile(r"(?:^|\n)[^\n]{0,1000}?\bcwnd:\d")
"""A line with what `ss -i` prints of a connection."""
_VALUE = re.compile(r"(?<![\w])([a-z_]{2,20}):([0-9./,]{1,40})")
_RATE = re.compile(r"(?<![\w])(pacing_rate|delivery_rate) ([0-9.]{1,20})([KMGT]?)bps")
_MILLISECONDS = re.compile(r"(?<![\w])(busy|rwnd_limited|sndbuf_limited):(\d{1,12})ms")
_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

Ends = tuple[str, str, str, str]
"""Own address and port, and the peer's, as printed."""

_Sample = tuple[int | None, Ends | None, str]


MOST_DETAILS = 4096
"""Characters of a connection's details at most."""


def samples(texts: Iterable[str], latest_ns: int) -> Iterator[_Sample]:
    """Time, ends and details of each connection printed; times up to `latest_ns` are believed.

    The text comes in pieces of whole lines. Ends are None for details in front of which none stand.
    """
    reader = _Reader(latest_ns)
    rest = ""
    for text in texts:
        rest = yield from reader.read(rest + text)
    yield from reader.read(rest, last=True)


@dataclass
class _Reader:
    """State from the text before that tells how to read on."""

    latest_ns: int
    now: int | None = None
    expected: bool = False
    """Whether a connection's details are still to come."""

    def read(self, text: str, *, last: bool = False) -> Generator[_Sample, None, str]:
        """The samples of a text whose details cannot go on behind it, and the rest of it."""
        marks: list[tuple[int, int, Any]] = [(found.start(), 0, found) for found in _STAMP.finditer(text)]
        marks += [(found.start(), 1, found) for found in ENDS.finditer(text)]
        marks += [(found.start(), 2, found) for found in DETAILS.finditer(text)]
        marks.sort(key=lambda mark: mark[:2])
        for place, (start, kind, found) in enumerate(marks):
            if kind == 0:
                time_ns = _time(found)
                # A year that no clock shows is damage, and no time.
                self.now = time_ns if time_ns is not None and 0 <= time_ns < self.latest_ns else None
                self.expected = False
            elif kind == 1:
                after = place + 1
                while after < len(marks) and marks[after][1] == 2:
                    after += 1
                until = marks[after][0] if after < len(marks) else len(text)
                if after == len(marks) and not last and until - found.end() < MOST_DETAILS:
                    return text[start:]
                ends = [end.strip("[]").split("%")[0] for end in (found[1], found[3])]
                self.expected = True
                details = text[found.end() : min(until, found.end() + MOST_DETAILS)]
                yield self.now, (ends[0], found[2], ends[1], found[4]), details
            elif self.expected:
                self.expected = False
            else:
                end = text.find("\n", found.end())
                until = min(end if end >= 0 else len(text), start + MOST_DETAILS)
                yield self.now, None, text[start:until].lstrip("\n")
        return ""


def _time(found: re.Match[str]) -> int | None:
    if found["s"]:
        return int(found["s"]) * 10**9 + int((found["fraction"] or "").ljust(9, "0"))
    try:
        if found["date"]:
            moment = datetime.strptime(f"{found['date']} {found['year']}", "%b %d %H:%M:%S %Y")
            return int(moment.replace(tzinfo=UTC).timestamp()) * 10**9
        whole, _, fraction = found["iso"].replace(",", ".").partition(".")
        digits = re.match(r"\d*", fraction)
        parts = digits[0] if digits else ""
        moment = datetime.fromisoformat(whole + fraction[len(parts) :])
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
