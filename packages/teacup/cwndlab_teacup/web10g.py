"""Web10G logs of Linux and EStats logs of Windows, as TEACUP's loggers write them: CSV with the names of RFC
4898.

The first six columns are time, connection ID, local and remote end; the others are found by their names in
the line above the records. A log without that line has TEACUP's columns of web10g-logger, of which those are
used whose place is the same in all its versions. RTTs are milliseconds, windows bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from cwndlab.errors import InputError, printable
from cwndlab.formats import base, series
from cwndlab.formats.base import Recording
from cwndlab.testbeds.logs import connections
from cwndlab.testbeds.logs.connections import Column, Flows, Rows

NAME = "Web10G or EStats"

PLACES = {
    "datasegsout": 8,
    "segsretrans": 11,
    "pipesize": 21,
    "smoothedrtt": 23,
    "curcwnd": 26,
    "curssthresh": 27,
    "timeouts": 28,
    "sndlimtimerwin": 38,
    "sndlimtimecwnd": 39,
    "sndlimtimesnd": 40,
}
"""Columns of web10g-logger by their number, counted from 1, where no line of names stands above them."""

MAX_COLUMNS = 512

LONGEST_LINE = 1 << 16
"""Characters of the first line at most."""

USED = frozenset(
    [
        "curcwnd",
        "curssthresh",
        "smoothedrtt",
        "samplertt",
        "hcthruoctetsacked",
        "thruoctetsacked",
        "pipesize",
        "segsretrans",
    ]
)
"""Columns that have a place in the `tcp` table."""

ENDS = 6
"""Columns before the others: time, connection, its ends."""


_NAMES = rf"(?i)^(?:[^,\n]*,){{{ENDS},}}[ \t]*curcwnd[ \t]*(?:,|\r?$)"
"""A line of names, with RFC 4898's cwnd behind the ends."""

_RECORD = r"^\d+\.\d+,\d+,[0-9a-fA-F.:]+,\d+,(?:[^,\n]*,){113,130}[^,\n]*$"
"""A record of web10g-logger, by its first columns and their number."""

MARKS = {
    "CurCwnd among names with commas": _NAMES.encode(),
    "other names of RFC 4898": rb"(?i)\b(?:localaddress|remaddress|smoothedrtt|curcwnd)\b",
    "records of time, connection and ends": rb"^\d+\.\d+,\d+,[0-9a-fA-F.:]+,\d+,",
}
"""Marks of a log, in words, each with the pattern that finds it."""


def recognises(head: bytes) -> bool:
    """Whether a line names RFC 4898's cwnd, or has as many columns as web10g-logger writes."""
    return any(re.search(pattern.encode(), head, re.MULTILINE) for pattern in (_NAMES, _RECORD))


def read(path: Path) -> list[Recording]:
    """The one run of a log.

    Raises InputError for a log without records, or without the columns that name a connection.
    """
    source = base.pieces(path)
    text = next(connections.lines(source()), "")
    # What stands before the names, or before the first record where there are none, is not the log's.
    head = re.search(_NAMES, text, re.MULTILINE) or re.search(_RECORD, text, re.MULTILINE)
    first = text[head.start() if head else 0 :].partition("\n")[0].strip()
    if len(first) > LONGEST_LINE:
        raise InputError(f"{path}:1: a line of {len(first)} characters")
    words = [word.strip().lower() for word in first.split(",")]
    if len(words) > MAX_COLUMNS:
        raise InputError(f"{path}:1: more than {MAX_COLUMNS} columns")
    places = {word: place for place, word in enumerate(words)}
    if "curcwnd" not in places:
        places = {word: place - 1 for word, place in PLACES.items()}
        known = {place: word for word, place in places.items()}
        words = [known.get(place, f"column{place + 1}") for place in range(len(words))]
    more = {
        printable(word)[:64]: place
        for place, word in enumerate(words)
        if place >= ENDS and word and word not in USED
    }
    if len(words) < 7:
        raise InputError(
            f"{path}:1: {len(words)} columns; expected time, connection, four of its ends, and more"
        )
    log, flows, memory = series.Log("web10g"), connections.Flows(), _Known({}, set())
    other, torn = 0, list[str]()
    try:
        for text in connections.lines(source()):
            frame, strange = connections.fields(text, (len(words),), words=range(ENDS))
            other += strange
            good = pl.Series(connections.nanoseconds(frame["c0"]) >= 0)
            frame = frame.filter(good, frame["c3"].str.contains(r"^\d{1,5}$"))
            if not log.rows and connections.starts_torn(connections.nanoseconds(frame["c0"][:2])):
                frame, torn = frame[1:], [connections.TORN]
            log.add(_rows(frame, flows, places, more, memory))
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    warnings = [*torn, f"{other} lines are no records"] if other else torn
    metrics = {number: _metrics(last) for number, last in memory.last.items()}
    return [log.recording(NAME, path, path.name, flows.names, warnings=warnings, metrics=metrics)]


@dataclass
class _Known:
    """State of flows, by their numbers, from one record to the next."""

    last: dict[int, dict[str, float]]
    """The last values of the columns that metrics are made of."""
    long: set[int]
    """Numbers of flows that have the long counter of bytes acknowledged."""


_LAST = (
    "sndlimtimerwin",
    "sndlimtimecwnd",
    "sndlimtimesnd",
    "timeouts",
    "fastretran",
    "datasegsout",
    "segsretrans",
)


def _rows(
    frame: pl.DataFrame, flows: Flows, places: dict[str, int], more: dict[str, int], known: _Known
) -> Rows:
    def column(wanted: str, scale: float = 1.0) -> Column:
        place = places.get(wanted)
        if place is None or f"c{place}" not in frame.columns:
            return np.full(frame.height, np.nan)
        return connections.numbers(frame[f"c{place}"], scale)

    flow = flows.by_ends(frame, ("c2", "c3", "c4", "c5"))
    cwnd, ssthresh = column("curcwnd"), connections.finite_window(column("curssthresh"))
    srtt, rtt = column("smoothedrtt", 1e6), column("samplertt", 1e6)
    acked = column("hcthruoctetsacked")
    known.long.update(np.unique(flow[np.isfinite(acked)]).tolist())
    acked = np.where(np.isin(flow, list(known.long)), acked, column("thruoctetsacked"))
    recovering = np.nan_to_num(column("inrecovery")) == 1
    columns = {
        "cwnd_bytes": cwnd,
        "ssthresh_bytes": ssthresh,
        "srtt_ns": np.where(srtt > 0, srtt, np.nan),
        "rtt_ns": np.where(rtt > 0, rtt, np.nan),
        "inflight_bytes": column("pipesize"),
        "delivered_bytes": acked,
        "retransmits": column("segsretrans"),
        "state": connections.states(cwnd, ssthresh, recovering if "inrecovery" in places else None),
    }
    for word in _LAST:
        values = column(word)
        for number, rows in connections.of_each(flow):
            there = rows[np.isfinite(values[rows])]
            last = known.last.setdefault(number, {})
            if len(there):
                last[word] = float(values[there[-1]])
    rest = {word: connections.numbers(frame[f"c{place}"]) for word, place in more.items()}
    return Rows(flow, connections.nanoseconds(frame["c0"]), columns, rest)


def _metrics(last: dict[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    limits = [last.get(f"sndlimtime{limit}") for limit in ("rwin", "cwnd", "snd")]
    known = [limit for limit in limits if limit is not None]
    if len(known) == len(limits) and sum(known) > 0:
        # SndLimTimeSnd is the sender's own limit: its buffer and its application together.
        rwin, cwnd, _ = (100 * limit / sum(known) for limit in known)
        found |= {"limited_rwnd_pct": rwin, "limited_cwnd_pct": cwnd}
    if "timeouts" in last:
        found["rtos"] = last["timeouts"]
    if "fastretran" in last:
        found["fast_recoveries"] = last["fastretran"]
    if last.get("datasegsout") and "segsretrans" in last:
        found["retransmit_rate"] = last["segsretrans"] / last["datasegsout"]
    return found
