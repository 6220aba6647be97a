"""The plot kind `phase`: cwnd against cwnd of a second flow, or of a single flow against its RTT."""

from __future__ import annotations

import numpy as np
import polars as pl

from cwndlab.analysis.numeric import Floats
from cwndlab.errors import InputError
from cwndlab.report.plots import facets, paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Run, Selection, floats
from cwndlab.results import columns

MAX_POINTS = 20_000
"""Points of a trajectory; a longer one is drawn through every k-th."""


def draw(selection: Selection) -> Plot:
    """Return the plot of one run.

    With two flows: cwnd of the second against that of the first, with the line of equal shares (Chiu and Jain
    1989, figure 5). With one flow: cwnd against the RTT at the same time, which turns upright where the
    queue, and not the window, limits the rate. Colour is time. Raises InputError for several runs or more
    than two flows.
    """
    facets.refuse(selection, "phase")
    runs, note = selection.runs()
    if len(runs) != 1:
        raise InputError(f"runs: a phase plot shows one run, not {len(runs)}; name it")
    run = runs[0]
    if len(run.flows) > 2:
        raise InputError(f"flows: a phase plot shows one or two flows, not {len(run.flows)}; name them")
    cwnd = columns.describe("cwnd_bytes")
    figure, (axis,) = paint.canvas(selection.options)
    first_t, first = _column(selection, run, run.flows[0], "cwnd_bytes", cwnd.factor)
    if len(run.flows) == 2:
        other_t, other = _column(selection, run, run.flows[1], "cwnd_bytes", cwnd.factor)
        t_s = np.unique(np.concatenate((first_t, other_t)))
        t_s = t_s[t_s >= max(first_t[0], other_t[0])]
        x, y = held(first_t, first, t_s), held(other_t, other, t_s)
        top = float(max(x.max(), y.max())) * 1.05
        axis.plot([0, top], [0, top], color="#808080", linestyle=(0, (4, 3)), zorder=1)
        # Right of the line, which rises from there.
        place, beside = (0.9 * top, 0.9 * top), (6, -3)
        axis.annotate("equal", place, beside, textcoords="offset points", va="top", color="#606060")
        axis.set_xlabel(f"{run.flows[0]}: {cwnd.label}")
        axis.set_ylabel(f"{run.flows[1]}: {cwnd.label}")
        title = "cwnd of two flows"
    else:
        t_s, y = first_t, first
        x = _column(selection, run, run.flows[0], "rtt_ms", 1.0)[1]
        axis.set_xlabel(columns.describe("rtt_ms").label)
        axis.set_ylabel(cwnd.label)
        title = "cwnd against RTT"
    names = (axis.get_xlabel(), axis.get_ylabel())
    figure.data = pl.DataFrame({"time [s]": t_s, names[0]: x, names[1]: y})
    step = -(-len(t_s) // MAX_POINTS)
    axis.plot(x, y, color="#b0b0b0", linewidth=0.5, zorder=1.5)
    points = axis.scatter(x[::step], y[::step], c=t_s[::step], s=4, cmap="cividis", zorder=2, rasterized=True)
    figure.colorbar(points, ax=axis, label="time [s]")
    paint.finish(figure, [axis], selection.options, title, note)
    return figure


def held(t_s: Floats, y: Floats, at_s: Floats) -> Floats:
    """Return the value that holds at each time: that of the last sample at or before it, which must exist."""
    return np.asarray(y[np.searchsorted(t_s, at_s, side="right") - 1], dtype=np.float64)


def _column(selection: Selection, run: Run, flow: str, column: str, factor: float) -> tuple[Floats, Floats]:
    frame = selection.series(run, flow, "tcp", column)
    if not frame.height:
        raise InputError(f"phase: nothing was recorded of flow {flow} in this time")
    return floats(frame["t_s"]), floats(frame[column]) * factor
