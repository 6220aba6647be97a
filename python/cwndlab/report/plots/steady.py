"""The plot kind `steady`: whether a run had settled, by its goodput and the mean of what is left of it."""

from __future__ import annotations

import numpy as np

from cwndlab.errors import InputError
from cwndlab.report.plots import timelines
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection
from cwndlab.results import steady

ALL = "all flows"


def draw(selection: Selection) -> Plot:
    """Return the plot of what all flows of a run deliver, in Mbit/s, in each whole second of its measurement.

    The dotted line is the mean from a second to the end: where it lies flat, nothing is gained by leaving out
    more of the beginning. The note says from when on the runs had settled, by MSER-5. Raises InputError where
    goodput was not recorded by the second, and for a flow, of which nothing alone is said.
    """
    if selection.options.flows is not None:
        raise InputError("steady: is of all flows of a run together; leave out the flow")
    lines, begins = [], []
    for run in selection.runs()[0]:
        record = selection.results.record(run.run_id)
        total = (
            np.zeros(0) if record.summary is None else steady.goodput(record.scenario, record.summary) * 8e-6
        )
        if not total.any():
            continue
        first = -(-record.scenario["measure"]["from_ns"] // steady.NS_PER_S)
        t_s = np.arange(first, first + len(total), dtype=np.float64)
        left = np.cumsum(total[::-1])[::-1] / np.arange(len(total), 0, -1)
        lines.append(timelines.Line(run, ALL, t_s, total, left))
        if len(total) >= steady.LEAST_BATCHES * steady.BATCH:
            begins.append(steady.begins(total))
    if not lines:
        raise InputError("steady: these runs do not say what they delivered in each second")
    return timelines.draw(
        selection,
        lines,
        title="goodput of all flows and its mean to the end",
        ylabel="goodput [Mbit/s]",
        steps=True,
        companion="mean from there to the end",
        note=_note(len(lines), begins, lines),
    )


def _note(runs: int, begins: list[int | None], lines: list[timelines.Line]) -> str:
    """When the runs had settled, of those that are long enough to tell."""
    if not begins:
        least = steady.LEAST_BATCHES * steady.BATCH
        return f"measured for less than {least} s, too short to tell whether it had settled"
    settled = [begin for begin in begins if begin is not None]
    if not settled:
        return "never settled (MSER-5)"
    first = int(lines[0].t_s[0])
    share = "" if len(settled) == runs else f" in {len(settled)} of {runs} runs"
    return f"settled from {first + max(settled)} s on{share} (MSER-5)"
