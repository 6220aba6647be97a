"""The reader of what `ss -ti` prints of TCP's sockets, again and again, with the time printed before each."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_CLOCK = r"\d\d:\d\d:\d\d(?: [AP]M)?(?: (?:[A-Z]{3,5}|[+-]\d\d(?:\d\d)?))?"
_DAY = r"[A-Z][a-z]{2},? +(?:[A-Z][a-z]{2} +\d{1,2}|\d{1,2} [A-Z][a-z]{2})"
_MOMENT = (
    # date +%s, +%s.%N, +%s%3N, +%s%6N and +%s%N
    r"(?:(?P<s>\d{9,10})(?:[.,](?P<fraction>\d{1,12}))?|(?P<units>\d{13}(?:\d{3}|\d{6})?)"
    r"|(?P<iso>\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d(?::?\d\d)?)?)"
    rf"|(?P<date>{_DAY} \d{{4}} {_CLOCK}|{_DAY} {_CLOCK} \d{{4}}))"
)
_AMOUNTS = r"\d{1,12}[ \t]+\d{1,12}[ \t]+"
_BEFORE, _AFTER = r"[ \t#\[]*", r"\]?"
# A number of nine digits may also be the first of a line's two queues.
_STAMP = re.compile(
    rf"(?:^|\n){_BEFORE}{_MOMENT}{_AFTER}(?=[ \t\r\n]|$)(?![ \t]+\d{{1,12}}[ \t]+\S{{1,64}}:\d)"
)
_PORT = r"(\d{1,5}|[a-z][a-z0-9-]{1,31})"
ENDS = re.compile(
    rf"(?:^|\n){_BEFORE}(?:{re.sub('[?]P<[a-z]+>', '?:', _MOMENT)}{_AFTER}[ \t]+)?"
    rf"(?:tcp[ \t]+)?(?:[A-Z][A-Z0-9-]{{2,11}}[ \t]+)?{_AMOUNTS}"
    rf"(\S{{1,64}}):{_PORT}[ \t]+(\S{{1,64}}):{_PORT}(?=\s)"
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
                # A time may stand before each line.
                self.expected &= _at(marks, place + 1) == (start, 2)
            elif kind == 1:
                after = place + 1
                if _at(marks, after) is not None and _at(marks, after + 1) == (marks[after][0], 2):
                    after += 1
                self.expected = (_at(marks, after) or (0, 0))[1] == 2 and not _between(
                    text[found.end() : marks[after][0]]
                )
                after += self.expected
                until = marks[after][0] if after < len(marks) else len(text)
                if after >= len(marks) and not last and until - found.end() < MOST_DETAILS:
                    return text[start:]
                if not self.expected:
                    continue
                ends = [end.split("%")[0].strip("[]") for end in (found[1], found[3])]
                details = text[found.end() : min(until, found.end() + MOST_DETAILS)]
                yield self.now, (ends[0], found[2], ends[1], found[4]), details
            elif self.expected:
                self.expected = False
            else:
                end = text.find("\n", found.end())
                until = min(end if end >= 0 else len(text), start + MOST_DETAILS)
                yield self.now, None, text[start:until].lstrip("\n")
        return ""


def _at(marks: list[tuple[int, int, Any]], place: int) -> tuple[int, int] | None:
    """Offset and kind of a mark. None behind the last."""
    return marks[place][:2] if place < len(marks) else None


def _between(text: str) -> bool:
    """Whether another line of text stands between the line of a connection and its details, which are
    indented or follow at once.
    """
    return any(line and not line[0].isspace() for line in text.split("\n")[1:])


def _time(found: re.Match[str]) -> int | None:
    if found["s"]:
        return int(found["s"]) * 10**9 + int((found["fraction"] or "")[:9].ljust(9, "0"))
    if found["units"]:
        return int(found["units"].ljust(19, "0"))
    try:
        if found["date"]:
            return _of_date(found["date"])
        whole, _, fraction = found["iso"].replace(",", ".").replace("/", "-").partition(".")
        digits = re.match(r"\d*", fraction)
        parts = digits[0] if digits else ""
        moment = datetime.fromisoformat(whole + fraction[len(parts) :])
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * 10**9 + int((parts or "0").ljust(9, "0")[:9])


def _of_date(text: str) -> int:
    """The time of what `date` prints; a zone's name says nothing. Raises ValueError."""
    words = text.replace(",", "").split()[1:]
    clock = next(word for word in words if ":" in word)
    year = next(word for word in words if re.fullmatch(r"\d{4}", word))
    half = next((word for word in words if word in ("AM", "PM")), "")
    offset = next((word for word in words if word[0] in "+-"), "+0000").ljust(5, "0")
    day, month = sorted(words[:2])
    form = "%d %b %Y %I:%M:%S %p %z" if half else "%d %b %Y %H:%M:%S  %z"
    moment = datetime.strptime(f"{day} {month} {year} {clock} {half} {offset}", form)
    return int(moment.timestamp()) * 10**9


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
