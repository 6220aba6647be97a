"""Time-sequence graphs for xplot (Shepard, MIT-LCS-TR-494): a file for each flow of a run.

Green is what the receiver has acknowledged, yellow what was sent: acknowledged and in flight. A red R stands
where a packet was retransmitted, a white x where one was dropped, an orange diamond at a duplicate
acknowledgement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from cwndlab.results.resultset import ResultSet

MARKS = {"drop": ("white", "x"), "duplicate-ack": ("orange", "diamond"), "retransmission": ("red", "rtext")}
"""Kinds of events with the colour and the mark they are drawn with."""


def write(results: ResultSet, run: str, out: Path) -> Iterator[Path]:
    """Write the flows of a run that have a counter of what was delivered."""
    frame = results.series(run)
    events = results.series(run, table="events")
    for flow in frame["flow"].cast(pl.String).unique(maintain_order=True).to_list() if frame.height else []:
        rows = frame.filter(pl.col("flow").cast(pl.String) == flow).filter(
            pl.col("delivered_bytes").is_not_null()
        )
        if rows.height < 2:
            continue
        name = re.sub(r"[^A-Za-z0-9.-]", "_", f"{run}-{flow}")
        file = out / f"{name}.xpl"
        mine = events.filter(pl.col("flow").cast(pl.String) == flow) if events.height else events
        file.write_text("\n".join(_lines(f"{run} {flow}", rows, mine)) + "\n", encoding="utf-8")
        yield file


def _lines(title: str, rows: pl.DataFrame, events: pl.DataFrame) -> Iterator[str]:
    printable = "".join(character for character in title if character.isprintable())
    yield from ("timeval unsigned", "title", printable, "xlabel", "time", "ylabel", "sequence number")
    acked = rows["delivered_bytes"].cast(pl.UInt64)
    sent = acked + rows["inflight_bytes"].fill_null(0).cast(pl.UInt64)
    yield "yellow"
    yield from _stairs(rows["t_s"], sent)
    yield "green"
    yield from _stairs(rows["t_s"], acked)
    if rows["retransmits"].null_count() < rows.height:
        yield "red"
        again = rows.filter(
            pl.Series(np.diff(rows["retransmits"].fill_null(0).to_numpy().astype(float), prepend=0) > 0)
        )
        for mark in _at(again["t_s"], again["delivered_bytes"].cast(pl.UInt64), "rtext"):
            yield from (mark, "R")
    for kind, (colour, mark) in MARKS.items():
        some = (
            events.filter(pl.col("kind").cast(pl.String) == kind, pl.col("seq").is_not_null())
            if events.height
            else events
        )
        if some.height:
            yield colour
            for line in _at(some["t_s"], some["seq"], mark):
                yield line
                if mark == "rtext":
                    yield "R"
    yield "go"


def _stairs(t_s: pl.Series, values: pl.Series) -> list[str]:
    """Each value held until the next, as lines across and up."""
    changes = (values != values.shift(1)).fill_null(True)
    frame = pl.DataFrame({"t": t_s, "y": values}).filter(
        changes | (pl.int_range(len(values), eager=True) == len(values) - 1)
    )
    frame = frame.with_columns(t=_seconds(frame["t"])).with_columns(
        t_next=pl.col("t").shift(-1), y_next=pl.col("y").shift(-1)
    )
    frame = frame.filter(pl.col("t_next").is_not_null())
    lines = frame.select(
        pl.format(
            "line {} {} {} {}\nline {} {} {} {}", "t", "y", "t_next", "y", "t_next", "y", "t_next", "y_next"
        )
    ).to_series()
    return [str(line) for line in lines.to_list()]


def _at(t_s: pl.Series, values: pl.Series, mark: str) -> list[str]:
    frame = pl.DataFrame({"t": _seconds(t_s), "y": values})
    return [str(line) for line in frame.select(pl.format(mark + " {} {}", "t", "y")).to_series().to_list()]


def _seconds(t_s: pl.Series) -> pl.Series:
    """Times as xplot's timeval: seconds and six digits of microseconds."""
    microseconds = (t_s * 1e6).round(0).cast(pl.Int64)
    whole, rest = microseconds // 1_000_000, microseconds % 1_000_000
    return whole.cast(pl.String) + "." + rest.cast(pl.String).str.zfill(6)
