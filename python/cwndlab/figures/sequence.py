"""The figure kind `sequence`: sequence numbers over time: sent, delivered, retransmitted, lost."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cwndlab.errors import InputError
from cwndlab.figures import paint
from cwndlab.figures.numeric import Floats, envelope
from cwndlab.figures.request import Request, Run, floats
from cwndlab.figures.timelines import COLUMNS

MARKS = {
    "drop": ("x", "#d55e00", "dropped"),
    "mark": ("^", "#e69f00", "CE marked"),
    "rto": ("s", "#000000", "timeout"),
    "recovery-in": (">", "#cc79a7", "recovery begins"),
    "recovery-out": ("<", "#009e73", "recovery ends"),
}
"""Kinds of the events table that are drawn: marker, colour, name."""


def draw(request: Request) -> Figure:
    """Return the figure, a panel for each flow of each run: payload bytes since the stream began, in MB.

    The lower edge of the band is what the receiver has in all (SACKed data included), the upper edge
    that plus what is in flight, so its height is the flight. Retransmissions stand as red ticks on the
    lower edge, where the counter of retransmitted packets rose; drops, marks, timeouts and recovery are
    the run's events, a drop at the sequence number that was lost. Raises InputError for more than six
    panels.
    """
    runs, note = request.runs()
    panels = [(run, flow) for run in runs for flow in run.flows]
    if len(panels) > 6:
        raise InputError(f"runs: a sequence plot shows up to 6 flows, not {len(panels)}; name runs or flows")
    figure, axes = paint.canvas(request.options, len(panels))
    seen: dict[str, Line2D] = {}
    for axis, (run, flow) in zip(axes, panels, strict=True):
        seen |= _panel(axis, request, run, flow)
        axis.set_ylabel("sequence [MB]")
        if len(panels) > 1:
            axis.set_title(", ".join(part for part in (run.label, flow) if part), loc="left")
    axes[-1].set_xlabel("time [s]")
    paint.legend(figure, list(seen.values()), list(seen), request.options)
    paint.finish(figure, axes, request.options, "time-sequence", note)
    return figure


def _panel(axis: Axes, request: Request, run: Run, flow: str) -> dict[str, Line2D]:
    frame = request.series(run, flow, "tcp", "delivered_bytes", "inflight_bytes", "retransmits")
    if not frame.height:
        raise InputError(f"sequence: nothing was recorded of flow {flow} in this time")
    t_s, acked = floats(frame["t_s"]), floats(frame["delivered_bytes"]) / 1e6
    sent = acked + floats(frame["inflight_bytes"]) / 1e6
    keep = np.union1d(envelope(t_s, acked, COLUMNS), envelope(t_s, sent, COLUMNS))
    axis.fill_between(
        t_s[keep], acked[keep], sent[keep], step="post", color="#56b4e9", alpha=0.35, linewidth=0
    )
    edges = {
        "sent": axis.plot(t_s[keep], sent[keep], drawstyle="steps-post", color="#56b4e9")[0],
        "delivered": axis.plot(t_s[keep], acked[keep], drawstyle="steps-post", color="#0072b2")[0],
    }
    again = np.flatnonzero(np.diff(floats(frame["retransmits"]), prepend=float(frame["retransmits"][0])) > 0)
    if len(again):
        ticks = axis.plot(t_s[again], acked[again], "|", markersize=7, color="#c00000", zorder=3)
        edges["retransmitted"] = ticks[0]
    return edges | _events(axis, request.series(run, flow, "events"), t_s, acked)


def _events(axis: Axes, events: pl.DataFrame, t_s: Floats, acked: Floats) -> dict[str, Line2D]:
    drawn = {}
    for kind, (marker, colour, name) in MARKS.items():
        rows = events.filter(pl.col("kind").cast(pl.String) == kind) if events.height else events
        if not rows.height:
            continue
        at = floats(rows["t_s"])
        edge = acked[np.maximum(np.searchsorted(t_s, at, side="right") - 1, 0)]
        seq = floats(rows["seq"]) / 1e6
        y = np.where(np.isnan(seq), edge, seq)
        drawn[name] = axis.plot(at, y, marker, markersize=4.5, color=colour, zorder=3.5)[0]
    return drawn
