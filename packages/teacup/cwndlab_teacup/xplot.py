"""Time-sequence graphs for xplot (Shepard, MIT-LCS-TR-494): a file for each flow of a run.

Green is what the receiver has acknowledged, yellow what was sent: acknowledged and in flight. A red R stands
where a packet was retransmitted, a white x where one was dropped, an orange diamond at a duplicate
acknowledgement. Where packets tell (see `packets.marks`), the data sent again are red lines, SACK blocks
purple ones and D-SACK blocks magenta ones, from their first to their last byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from cwndlab.formats import packets
from cwndlab.results.resultset import ResultSet

MARKS = {"drop": ("white", "x"), "duplicate-ack": ("orange", "diamond")}
"""Kinds of events with the colour and the mark they are drawn with."""

BARS = {"retransmission": "red", "sack": "purple", "duplicate-sack": "magenta"}
"""Kinds that packets tell, with their colours."""


def write(results: ResultSet, run: str, out: Path) -> Iterator[Path]:
    """Write the flows of a run that have a counter of what was delivered."""
    frame = results.series(run)
    events = results.series(run, table="events")
    told = packets.marks(results, run)
    for flow in frame["flow"].cast(pl.String).unique(maintain_order=True).to_list() if frame.height else []:
        rows = frame.filter(pl.col("flow").cast(pl.String) == flow).filter(
            pl.col("delivered_bytes").is_not_null()
        )
        if rows.height < 2:
            continue
        name = re.sub(r"[^A-Za-z0-9.-]", "_", f"{run}-{flow}")
        file = out / f"{name}.xpl"
        mine = events.filter(pl.col("flow").cast(pl.String) == flow) if events.height else events
        file.write_text(
            "\n".join(_lines(f"{run} {flow}", rows, mine, told.filter(pl.col("flow") == flow))) + "\n",
            encoding="utf-8",
        )
        yield file


def _lines(title: str, rows: pl.DataFrame, events: pl.DataFrame, told: pl.DataFrame) -> Iterator[str]:
    printable = "".join(character for character in title if character.isprintable())
    yield from ("timeval unsigned", "title", printable, "xlabel", "time", "ylabel", "sequence number")
    acked = rows["delivered_bytes"].cast(pl.UInt64)
    sent = acked + rows["inflight_bytes"].fill_null(0).cast(pl.UInt64)
    yield "yellow"
    yield from _stairs(rows["t_s"], sent)
    yield "green"
    yield from _stairs(rows["t_s"], acked)
    for kind, colour in BARS.items():
        bars = told.filter(pl.col("kind") == kind)
        if bars.height:
            yield colour
            yield from _bars(bars)
    again = told.filter(pl.col("kind") == "retransmission").select("t_s", pl.col("seq").cast(pl.UInt64))
    if not again.height and rows["retransmits"].null_count() < rows.height:
        grown = np.diff(rows["retransmits"].fill_null(0).to_numpy().astype(float), prepend=0) > 0
        again = rows.filter(pl.Series(grown)).select("t_s", seq=pl.col("delivered_bytes").cast(pl.UInt64))
    if again.height:
        yield "red"
        for mark in _at(again["t_s"], again["seq"], "rtext"):
            yield from (mark, "R")
    for kind, (colour, mark) in MARKS.items():
        some = (
            events.filter(pl.col("kind").cast(pl.String) == kind, pl.col("seq").is_not_null())
            if events.height
            else events
        )
        if some.height:
            yield colour
            yield from _at(some["t_s"], some["seq"], mark)
    yield "go"


def _stairs(t_s: pl.Series, values: pl.Series) -> list[str]:
    """Draw each value held until the next, as lines across and up."""
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


def _bars(rows: pl.DataFrame) -> list[str]:
    """A line upwards for each row, from its first to its last byte."""
    rows = rows.filter(pl.col("seq") >= 0)
    rows = rows.with_columns(t=_seconds(rows["t_s"]))
    ends = [pl.col("seq").cast(pl.UInt64), (pl.col("seq") + pl.col("value")).cast(pl.UInt64)]
    lines = rows.select(pl.format("line {} {} {} {}", "t", ends[0], "t", ends[1])).to_series()
    return [str(line) for line in lines.to_list()]


def _at(t_s: pl.Series, values: pl.Series, mark: str) -> list[str]:
    frame = pl.DataFrame({"t": _seconds(t_s), "y": values})
    return [str(line) for line in frame.select(pl.format(mark + " {} {}", "t", "y")).to_series().to_list()]


def _seconds(t_s: pl.Series) -> pl.Series:
    """Times as xplot's timeval: seconds and six digits of microseconds."""
    microseconds = (t_s * 1e6).round(0).cast(pl.Int64)
    whole, rest = microseconds // 1_000_000, microseconds % 1_000_000
    return whole.cast(pl.String) + "." + rest.cast(pl.String).str.zfill(6)
