"""The plot kind `losses`: packets of each flow that were lost, or sent again, or duplicate ACKs, so far."""

from __future__ import annotations

import numpy as np
import polars as pl

from cwndlab.analysis.numeric import Floats
from cwndlab.errors import InputError, unknown
from cwndlab.formats import packets
from cwndlab.report.plots import timelines
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Run, Selection, floats

VALUES = {
    "drops": "packets dropped",
    "retransmits": "packets sent again",
    "duplicate-acks": "duplicate ACKs",
}


def draw(selection: Selection) -> Plot:
    """Return the plot: `value` is `drops`, what queues and links dropped of a flow, `retransmits`, or
    `duplicate-acks`, those for a flow's data (RFC 5681 section 2).

    Without `value` it is the drops, and of runs that recorded none the retransmissions. Duplicate ACKs are
    known of imported captures, and of runs with `record: {pcap: true}`; raises InputError for others.
    """
    column = selection.options.value
    if column is not None and column not in VALUES:
        raise unknown("value", column, VALUES)
    flows = list(timelines.flows_of(selection))
    lines = []
    if column in (None, "drops"):
        lines = [_counted(selection, run, flow, _drops(selection, run, flow)) for run, flow in flows]
        if column is None and not any(len(line.t_s) > 2 for line in lines):
            column = "retransmits"
    if column == "retransmits":
        lines = [timelines.tcp_line(selection, run, flow, column, 1.0) for run, flow in flows]
    elif column == "duplicate-acks":
        told = {run.run_id: _duplicates(selection, run) for run, _ in flows}
        lines = [
            _counted(selection, run, flow, told[run.run_id].get(flow, np.empty(0))) for run, flow in flows
        ]
    words = VALUES[column or "drops"]
    unit = "" if column == "duplicate-acks" else " [packets]"
    return timelines.draw(selection, lines, title=f"{words}, so far", ylabel=f"{words}{unit}", steps=True)


def _drops(selection: Selection, run: Run, flow: str) -> Floats:
    """Return the times of a flow's drops."""
    events = selection.series(run, flow, "events")
    if not events.height:
        return np.empty(0)
    return floats(events.filter(pl.col("kind").cast(pl.String) == "drop")["t_s"])


def _duplicates(selection: Selection, run: Run) -> dict[str, Floats]:
    """Return the times of the duplicate ACKs for each flow's data."""
    told = packets.marks(selection.results, run.run_id).filter(pl.col("kind") == "duplicate-ack")
    if not told.height and not selection.results.captures(run.run_id):
        raise InputError(
            f"value: of run {run.run_id} no packets are known, which tell duplicate ACKs; run it with"
            " record: {pcap: true}"
        )
    return {
        str(flow): floats(rows["t_s"])
        for (flow,), rows in selection.cut(told).group_by("flow", maintain_order=True)
    }


def _counted(selection: Selection, run: Run, flow: str, at: Floats) -> timelines.Line:
    """Return a count that rises at some times, from 0 at the run's start to its last sample."""
    sampled = floats(selection.series(run, flow, "tcp")["t_s"])
    first, last = (sampled[0], sampled[-1]) if len(sampled) else (0.0, 0.0)
    t_s = np.concatenate(([min([first, *at[:1]])], at, [max([last, *at[-1:]])]))
    count = np.concatenate((np.arange(len(at) + 1), [len(at)])).astype(np.float64)
    return timelines.Line(run, flow, timelines.shift(selection, t_s), count)
