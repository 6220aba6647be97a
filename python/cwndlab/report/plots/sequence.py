"""The plot kind `sequence`: sequence numbers over time: sent, delivered, retransmitted, SACKed, lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from cwndlab.analysis.numeric import Floats, envelope
from cwndlab.errors import InputError
from cwndlab.formats import packets
from cwndlab.report.plots import facets, paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Run, Selection, floats
from cwndlab.report.plots.timelines import COLUMNS, time_label

MARKS = {
    "drop": ("x", "#d55e00", "dropped"),
    "mark": ("^", "#e69f00", "CE marked"),
    "rto": ("s", "#000000", "timeout"),
    "recovery-in": (">", "#cc79a7", "recovery begins"),
    "recovery-out": ("<", "#009e73", "recovery ends"),
}
"""Kinds of the events table that are drawn: marker, colour, name."""

BLOCKS = {
    "sack": ("#7b3294", "SACK block"),
    "duplicate-sack": ("#1b7837", "D-SACK block"),
}
"""Kinds that are bars from their first to their last byte: colour, name."""

RESENT = ("#c00000", "retransmitted")

ROWS = 1200
"""Places that bars are rounded to where they are many: more than a panel is pixels high."""


def draw(selection: Selection) -> Plot:
    """Return the plot, a panel for each flow of each run: payload bytes since the stream began, in MB.

    The lower edge of the band is what the receiver has in all (SACKed data included), the upper edge
    that plus what is in flight, so its height is the flight. Of runs with packets (imported captures, or
    `record: {pcap: true}`), SACK blocks are bars from their first to their last byte when the acknowledgement
    came, and retransmissions are red where the data lie; of others red ticks stand on the lower edge, where
    the counter of retransmitted packets rose. Drops, marks, timeouts and recovery are the run's events, a
    drop at the sequence number that was lost. Raises InputError for more than six panels.
    """
    facets.refuse(selection, "sequence")
    runs, note = selection.runs()
    panels = [(run, flow) for run in runs for flow in run.flows]
    if len(panels) > 6:
        raise InputError(f"runs: a sequence plot shows up to 6 flows, not {len(panels)}; name runs or flows")
    figure, axes = paint.canvas(replace(selection.options, cols=1, rows=None), len(panels), shared="x")
    told = {run.run_id: selection.cut(packets.marks(selection.results, run.run_id)) for run in runs}
    seen: dict[str, Artist] = {}
    for axis, (run, flow) in zip(axes, panels, strict=True):
        drawn, rows = _panel(axis, selection, run, flow, told[run.run_id].filter(pl.col("flow") == flow))
        seen |= drawn
        figure.data = pl.concat([figure.data, rows], how="diagonal")
        axis.set_ylabel("sequence [MB]")
        if len(panels) > 1:
            paint.heading(axis, ", ".join(part for part in (run.label, flow) if part))
    axes[-1].set_xlabel(time_label(selection))
    paint.legend(figure, seen, selection.options)
    paint.finish(figure, axes, selection.options, "time-sequence", note)
    return figure


def _panel(
    axis: Axes, selection: Selection, run: Run, flow: str, told: pl.DataFrame
) -> tuple[dict[str, Artist], pl.DataFrame]:
    """Draw a flow of a run; return what is drawn, by its name in the legend, and the rows of it."""
    frame = selection.series(run, flow, "tcp", "delivered_bytes", "inflight_bytes", "retransmits")
    if not frame.height:
        raise InputError(f"sequence: nothing was recorded of flow {flow} in this time")
    first_s = float(frame["t_s"][0]) if selection.options.zero == "flow" else 0.0
    t_s, acked = floats(frame["t_s"]) - first_s, floats(frame["delivered_bytes"]) / 1e6
    sent = acked + floats(frame["inflight_bytes"]) / 1e6
    keep = np.union1d(envelope(t_s, acked, COLUMNS), envelope(t_s, sent, COLUMNS))
    axis.fill_between(
        t_s[keep], acked[keep], sent[keep], step="post", color="#56b4e9", alpha=0.35, linewidth=0
    )
    drawn: dict[str, Artist] = {
        "sent": axis.plot(t_s[keep], sent[keep], drawstyle="steps-post", color="#56b4e9")[0],
        "delivered": axis.plot(t_s[keep], acked[keep], drawstyle="steps-post", color="#0072b2")[0],
    }
    for kind, (colour, name) in BLOCKS.items():
        drawn |= _bars(axis, told.filter(pl.col("kind") == kind), first_s, colour, name)
    resent = told.filter(pl.col("kind") == "retransmission")
    colour, name = RESENT
    if resent.height:
        drawn |= _bars(axis, resent, first_s, colour, name)
        at, y = floats(resent["t_s"]) - first_s, (floats(resent["seq"]) + floats(resent["value"]) / 2) / 1e6
    else:
        counted = floats(frame["retransmits"])
        again = np.flatnonzero(np.diff(counted, prepend=counted[0]) > 0)
        at, y = t_s[again], acked[again]
    if len(at):
        drawn[name] = axis.plot(at, y, "|", markersize=7 * paint.scale(), color=colour, zorder=3)[0]
    drawn |= _events(axis, selection.series(run, flow, "events"), first_s, t_s, acked)
    rows = {"time [s]": t_s[keep], "sent [MB]": sent[keep], "delivered [MB]": acked[keep]}
    return drawn, pl.DataFrame({"run": [str(run.run_id)] * len(keep), "flow": [flow] * len(keep), **rows})


def _bars(axis: Axes, rows: pl.DataFrame, first_s: float, colour: str, name: str) -> dict[str, Artist]:
    """Draw a vertical bar for each row, from its first to its last byte; of those that look alike, one."""
    if not rows.height:
        return {}
    t_s, low = floats(rows["t_s"]) - first_s, floats(rows["seq"]) / 1e6
    high = low + floats(rows["value"]) / 1e6
    if len(t_s) > COLUMNS:
        places = np.stack(
            (_places(t_s, t_s, COLUMNS), _places(low, (low, high), ROWS), _places(high, (low, high), ROWS))
        )
        kept = np.unique(places, axis=1, return_index=True)[1]
        t_s, low, high = t_s[kept], low[kept], high[kept]
    axis.vlines(t_s, low, high, color=colour, linewidth=0.8, zorder=2.8)
    size = paint.scale()
    looks: dict[str, Any] = {"marker": "|", "markersize": 9 * size, "markeredgewidth": 1.5 * size}
    return {name: Line2D([], [], color=colour, linestyle="", **looks)}


def _places(values: Floats, over: Floats | tuple[Floats, Floats], count: int) -> Floats:
    """Return which of `count` equal parts of the range of `over` each value is in."""
    lowest, highest = float(np.min(over)), float(np.max(over))
    return np.floor((values - lowest) / max(highest - lowest, 1e-12) * count)


def _events(
    axis: Axes, events: pl.DataFrame, first_s: float, t_s: Floats, acked: Floats
) -> dict[str, Artist]:
    drawn: dict[str, Artist] = {}
    for kind, (marker, colour, name) in MARKS.items():
        rows = events.filter(pl.col("kind").cast(pl.String) == kind) if events.height else events
        if not rows.height:
            continue
        at = floats(rows["t_s"]) - first_s
        edge = acked[np.maximum(np.searchsorted(t_s, at, side="right") - 1, 0)]
        seq = floats(rows["seq"]) / 1e6
        y = np.where(np.isnan(seq), edge, seq)
        drawn[name] = axis.plot(at, y, marker, markersize=4.5 * paint.scale(), color=colour, zorder=3.5)[0]
    return drawn
