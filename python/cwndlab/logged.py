"""What loggers write of connections, as columns of numbers: bounds, times, windows, flows by their ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from cwndlab.errors import printable

Column = np.ndarray[Any, Any]

MAX_FLOWS = 10_000
"""Flows of one file at most."""

PIECE = 4 << 20
"""Characters of a log that are taken apart at a time."""

LARGEST = 2.0**53
"""Numbers of a log from here on are taken for absent: no window, time or counter of one connection is as
large, and a float holds every whole number below."""

LATEST_NS = 2**62
"""Times in ns from here on (the year 2116 since 1970) are taken for damage."""

INFINITE_BYTES = 65535 << 14
"""A window of so many bytes or more is no limit: the largest that TCP can announce (RFC 7323 section 2.3)."""


@dataclass
class Flow:
    """What was logged of the data that one host sends to another."""

    name: str
    t_ns: Column
    """When, ns since whatever the log counts from, as int64; any order."""
    columns: dict[str, Any] = field(default_factory=dict)
    """Columns of the `tcp` table: arrays of floats, NaN where nothing was logged, and `state` as a list."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Metrics the log itself gives, which win over those that follow from the columns."""
    more: dict[str, Column] = field(default_factory=dict)
    """Columns of the log that no table has a place for, by the log's own names, in its own units."""


@dataclass
class Log:
    """What a log says."""

    flows: list[Flow]
    facts: dict[str, str]
    """What its header says of the system, and its footer of the congestion control."""
    warnings: list[str]


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


def unwrapped(values: Column) -> Column:
    """32-bit sequence numbers as a counter from 0 that does not wrap and does not go back.

    Takes each number as the one nearest to that before it; NaN stays.
    """
    there = np.isfinite(values)
    if not there.any():
        return np.full(len(values), np.nan)
    known = values[there].astype(np.int64)
    steps = (np.diff(known) + 2**31) % 2**32 - 2**31
    counted = np.maximum.accumulate(np.concatenate([[0], np.cumsum(steps)]))
    out = np.full(len(values), np.nan)
    out[there] = counted
    return out


def states(cwnd: Column, ssthresh: Column, recovering: Column | None = None) -> list[str | None]:
    """The state of each row: recovery where the log says so, slow start below ssthresh, else avoidance."""
    known = np.isfinite(cwnd)
    # An infinite threshold is NaN, and every window is below it.
    below = ~(cwnd >= ssthresh)
    words = np.where(below, "slow-start", "avoidance").astype(object)
    if recovering is not None:
        words[recovering] = "recovery"
    words[~known] = None
    return list(words)


def by_flow(
    frame: pl.DataFrame, keys: Sequence[str], make: Callable[[str, pl.DataFrame], Flow | None]
) -> list[Flow]:
    """A Flow of each combination of `keys` (address, port, address, port), in order of appearance."""
    flows: dict[str, Flow] = {}
    places = frame.select(*keys, pl.int_range(pl.len(), dtype=pl.UInt32).alias("place"))
    groups = places.group_by(list(keys), maintain_order=True).agg("place")
    if len(groups) > MAX_FLOWS:
        raise ValueError(f"more than {MAX_FLOWS} connections")
    # One flow's rows are copied at a time, and none where they are all.
    for place in range(len(groups)):
        group = frame if len(groups) == 1 else frame[groups["place"][place]]
        name = name_of(*(groups[key][place] for key in keys))
        flow = make(name, group)
        if flow is not None and len(flow.t_ns):
            flows[name] = flow
    return list(flows.values())


def fields(
    text: str,
    counts: Sequence[int],
    separator: str = ",",
    *,
    span: tuple[int, int] | None = None,
    words: Sequence[int] | None = None,
    foreign: str = "",
) -> tuple[pl.DataFrame, int]:
    """The lines with one of `counts` fields as columns of text `c0`, `c1`, …, and how many have another.

    With `span` only that part of the text is read; with `words` only these columns are text, all others are
    numbers, null for what is none; lines that begin with `foreign` do not count.
    """
    frames, other = [], 0
    for piece in _pieces(text, *(span or (0, len(text)))):
        frame, more = _fields(piece, counts, separator, words, foreign)
        frames.append(frame)
        other += more
    return pl.concat(frames), other


def _pieces(text: str, start: int, until: int) -> Iterator[str]:
    """A part of a text cut at ends of lines into pieces of about `PIECE` characters, at least one piece."""
    while True:
        end = text.find("\n", start + PIECE, until) if start + PIECE < until else -1
        yield text[start : end if end >= 0 else until]
        if end < 0:
            return
        start = end + 1


def _fields(
    text: str, counts: Sequence[int], separator: str, words: Sequence[int] | None, foreign: str
) -> tuple[pl.DataFrame, int]:
    lines = pl.Series("line", text.split("\n"), pl.String).str.strip_chars("\r")
    lines = lines.filter(lines.str.len_bytes() > 0)
    if foreign:
        lines = lines.filter(~lines.str.contains(f"^(?:{foreign})"))
    # Counted before they are split: a line may be all separators.
    fitting = (lines.str.count_matches(separator, literal=True) + 1).is_in(list(counts))
    kept = lines.filter(fitting).str.split(separator)
    columns = []
    for place in range(max(counts)):
        column = kept.list.get(place, null_on_oob=True).str.strip_chars().alias(f"c{place}")
        columns.append(column if words is None or place in words else column.cast(pl.Float64, strict=False))
    return pl.DataFrame(columns), len(lines) - len(kept)
