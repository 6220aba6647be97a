"""The logs of connections as columns of numbers: bounds, times, windows, flows by their ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from cwndlab.errors import printable

Column = np.ndarray[Any, Any]

MAX_FLOWS = 10_000
"""Flows of one file at most."""

LARGEST = 2.0**53
"""Numbers of a log from here on are taken for absent: no window, time or counter of one connection is as
large, and a float holds every whole number below."""

LATEST_NS = 2**62
"""Times in ns from here on (the year 2116 since 1970) are taken for damage."""

INFINITE_BYTES = 65535 << 14
"""A window of so many bytes or more is no limit: the largest that TCP can announce (RFC 7323 section 2.3)."""


STATES = ("slow-start", "avoidance", "recovery")
"""States of a connection, by the numbers that stand for them in `Rows`; `NO_STATE` is none of them."""

NO_STATE = -1


@dataclass
class Rows:
    """Records that follow each other in a log, of any number of flows."""

    flow: Column
    """Number of the flow that each record is of, in order of appearance."""
    t_ns: Column
    """Time of each row, in ns since whatever the log counts from, as int64; any order."""
    columns: dict[str, Column]
    """Columns of the `tcp` table: floats, NaN where nothing was logged; `state` in numbers of `STATES`."""
    more: dict[str, Column] = field(default_factory=dict)
    """Columns of the log that no table has a place for, by the log's own names, in its own units."""


@dataclass
class Flow:
    """Records of a log about the data that one host sends to another."""

    name: str
    t_ns: Column
    """Time of each row, in ns since whatever the log counts from, as int64; any order."""
    columns: dict[str, Any] = field(default_factory=dict)
    """Columns of the `tcp` table, as those of `Rows`."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Metrics the log itself gives, which win over those that follow from the columns."""
    more: dict[str, Column] = field(default_factory=dict)
    """Columns of the log that no table has a place for, as those of `Rows`."""


class Flows:
    """Flows of a log, numbered in order of appearance."""

    def __init__(self) -> None:
        """Begin without any flow."""
        self.names: list[str] = []
        self._numbers: dict[Any, int] = {}

    def number(self, key: Any, name: Callable[[], str]) -> int:
        """The number of the flow that `key` stands for in the log.

        Raises ValueError for more than `MAX_FLOWS`.
        """
        if key not in self._numbers:
            if len(self._numbers) == MAX_FLOWS:
                raise ValueError(f"more than {MAX_FLOWS} connections")
            self._numbers[key] = len(self._numbers)
            self.names.append(name())
        return self._numbers[key]

    def by_ends(self, frame: pl.DataFrame, columns: Sequence[str]) -> Column:
        """The number of each row's flow, by columns of text: address, port, address, port."""
        ends = frame.select(*columns)
        known = ends.unique(maintain_order=True)
        numbers = [self.number(row, partial(name_of, *row)) for row in known.iter_rows()]
        known = known.with_columns(pl.Series("number", numbers, pl.Int64))
        if known.height == 1:
            return np.full(frame.height, numbers[0], np.int64)
        joined = ends.join(known, on=list(columns), how="left", nulls_equal=True, maintain_order="left")
        return joined["number"].to_numpy().astype(np.int64)


def name_of(source: object, source_port: object, target: object, target_port: object) -> str:
    """The name of what `source` sends: `10.0.0.1:40000-10.0.1.1:5001`, addresses of IPv6 in brackets."""

    def end(address: object, port: object) -> str:
        text = str(address)
        return f"[{text}]:{port}" if ":" in text else f"{text}:{port}"

    return printable(f"{end(source, source_port)}-{end(target, target_port)}")


def numbers(column: pl.Series, scale: float = 1.0) -> Column:
    """A column of text as floats times `scale`; NaN for what is no number, negative or too large."""
    values = column.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().astype(np.float64)
    return bounded(values * scale)


def bounded(values: Column) -> Column:
    """The values with NaN for what is negative or too large."""
    with np.errstate(invalid="ignore"):
        return np.where((values >= 0) & (values < LARGEST), values, np.nan)


def finite_window(values: Column) -> Column:
    """A slow-start threshold with NaN where it is infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(values < INFINITE_BYTES, values, np.nan)


def nanoseconds(column: pl.Series) -> Column:
    """A column of `SECONDS.FRACTION` as int64 ns, exactly; -1 for what is none."""
    parts = column.str.extract_groups(r"^\s*(\d{1,10})(?:\.(\d{1,9})\d*)?\s*$").struct
    names = parts.fields
    seconds = parts.field(names[0]).cast(pl.Int64, strict=False)
    fraction = parts.field(names[1]).fill_null("0").str.pad_end(9, "0").cast(pl.Int64, strict=False)
    return (seconds * 1_000_000_000 + fraction).fill_null(-1).to_numpy().astype(np.int64)


def starts_torn(t_ns: Column) -> bool:
    """Whether the first of a log's times, in ns, lost its first digits, as the second one shows."""
    if len(t_ns) < 2:
        return False
    first, second = int(t_ns[0]) // 10**9, int(t_ns[1]) // 10**9
    kept = range(len(str(first)), len(str(second)))
    # A log that is cut off goes on soon after its first record.
    return second - first > 3600 and any(
        (second - first) % 10**digits <= min(60, 10 ** (digits - 1)) for digits in kept
    )


TORN = "the first line is cut off within its time: it is left out"


Source = Callable[[], Iterator[bytes]]
"""A log as pieces of bytes, from its beginning each time it is called."""

LONGEST_LINE = 1 << 20
"""Bytes of a line that are looked at; no record is as long."""


NO_START = "no header: times count from when logging began, which is not known"


@dataclass
class Session:
    """Part of a log from one start of logging on; all but the rows is known once `rows` has ended."""

    rows: Iterator[Rows]
    flows: Flows = field(default_factory=Flows)
    facts: dict[str, str] = field(default_factory=dict)
    """Facts of the system in the header, and of the congestion control in the footer."""
    warnings: list[str] = field(default_factory=list)
    other: int = 0
    """Number of lines that are no records."""


def lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Pieces of a text that end with whole lines; bytes that are no UTF-8 become U+FFFD."""
    rest = b""
    for piece in pieces:
        end = piece.rfind(b"\n") + 1
        if end:
            yield (rest + piece[:end]).decode("utf-8", "replace")
            rest = piece[end:]
        else:
            rest = (rest + piece)[:LONGEST_LINE]
    if rest:
        yield rest.decode("utf-8", "replace")


def whole_lines(text: str) -> tuple[str, int]:
    """A text without a last line that has no end, and how many lines that leaves out."""
    end = text.rfind("\n") + 1
    return text[:end], int(end < len(text))


def flows_of(session: Session) -> list[Flow]:
    """The flows of a session, all their rows together."""
    parts: dict[int, list[tuple[Rows, Column]]] = {}
    for rows in session.rows:
        for number, places in of_each(rows.flow):
            parts.setdefault(number, []).append((rows, places))
    found = []
    for number, several in sorted(parts.items()):
        first = several[0][0]
        columns = {
            name: np.concatenate([rows.columns[name][places] for rows, places in several])
            for name in first.columns
        }
        more = {
            name: np.concatenate([rows.more[name][places] for rows, places in several]) for name in first.more
        }
        t_ns = np.concatenate([rows.t_ns[places] for rows, places in several])
        found.append(Flow(session.flows.names[number], t_ns, columns, more=more))
    return found


def of_each(flow: Column) -> Iterator[tuple[int, Column]]:
    """Yield each flow's number, and the places of its rows."""
    order = np.argsort(flow, kind="stable")
    cuts = np.flatnonzero(np.diff(flow[order])) + 1
    for places in np.split(order, cuts) if len(flow) else ():
        yield int(flow[places[0]]), places


class Unwrapped:
    """32-bit sequence numbers of flows as counters from 0 that do not wrap and do not go back.

    Takes each number as the one nearest to that before it; NaN stays.
    """

    def __init__(self) -> None:
        """Begin before the first record."""
        self._last: dict[int, tuple[int, int, int]] = {}
        """Each flow's last number, its distance from the first one, and the farthest distance."""

    def of(self, flow: Column, values: Column) -> Column:
        """The counters of the next records."""
        out = np.full(len(values), np.nan)
        for number, places in of_each(flow):
            there = places[np.isfinite(values[places])]
            if not len(there):
                continue
            known = values[there].astype(np.int64)
            last, place, most = self._last.get(number, (int(known[0]), 0, 0))
            steps = (np.diff(known, prepend=last) + 2**31) % 2**32 - 2**31
            counted = place + np.cumsum(steps)
            out[there] = np.maximum(np.maximum.accumulate(counted), most)
            self._last[number] = int(known[-1]), int(counted[-1]), int(out[there[-1]])
        return out


def states(cwnd: Column, ssthresh: Column, recovering: Column | None = None) -> Column:
    """The state of each row: recovery where the log says so, slow start below ssthresh, else avoidance."""
    # An infinite threshold is NaN, and every window is below it.
    found = np.where(cwnd >= ssthresh, STATES.index("avoidance"), STATES.index("slow-start"))
    if recovering is not None:
        found[recovering] = STATES.index("recovery")
    found[~np.isfinite(cwnd)] = NO_STATE
    return found.astype(np.int8)


def fields(
    text: str,
    counts: Sequence[int],
    separator: str = ",",
    *,
    words: Sequence[int] | None = None,
    foreign: str = "",
) -> tuple[pl.DataFrame, int]:
    """The lines with one of `counts` fields as columns of text `c0`, `c1`, …, and how many have another.

    With `words` only these columns are text, all others are numbers, null for what is none; lines that begin
    with `foreign` do not count.
    """
    found = records(text, foreign)
    fitting = fields_in(found, separator).is_in(list(counts))
    kept = found.filter(fitting).str.split(separator)
    columns = []
    for place in range(max(counts)):
        column = kept.list.get(place, null_on_oob=True).str.strip_chars().alias(f"c{place}")
        columns.append(column if words is None or place in words else column.cast(pl.Float64, strict=False))
    return pl.DataFrame(columns), len(found) - len(kept)


def records(text: str, foreign: str = "") -> pl.Series:
    """The lines of a text that are not empty, and do not begin with `foreign`."""
    found = pl.Series("line", text.split("\n"), pl.String).str.strip_chars("\r")
    found = found.filter(found.str.len_bytes() > 0)
    return found.filter(~found.str.contains(f"^(?:{foreign})")) if foreign else found


def fields_in(found: pl.Series, separator: str = ",") -> pl.Series:
    """Number of fields in each line, counted before it is split: it may be all separators."""
    return found.str.count_matches(separator, literal=True) + 1
