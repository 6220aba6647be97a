"""What the kinds over time share: lines of one or more runs, in one panel or several, on a common zero."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cwndlab.analysis.numeric import Floats, envelope
from cwndlab.errors import InputError
from cwndlab.plots import paint
from cwndlab.plots.grouped import checked
from cwndlab.plots.selection import Run, Selection, floats

COLUMNS = 1600
"""Pixel columns of the envelope of a line (see `numeric.envelope`): more than a plot has at 200 dpi."""


@dataclass(frozen=True)
class Line:
    """One line of a plot over time."""

    run: Run
    name: str
    """What it shows inside its run: the flow's or the hop's name."""
    t_s: Floats
    y: Floats
    companion: Floats | None = None
    """A second quantity of the same flow (ssthresh beside cwnd), drawn thin and dotted in the same colour."""


def flows_of(selection: Selection) -> Iterator[tuple[Run, str]]:
    """Yield every chosen flow of every chosen run."""
    for run in selection.runs()[0]:
        for flow in run.flows:
            yield run, flow


def tcp_line(
    selection: Selection,
    run: Run,
    flow: str,
    column: str,
    factor: float,
    *,
    companion: str | None = None,
    table: str = "tcp",
) -> Line:
    """Return a column of a flow's table as a line, shifted to the flow's own zero if that was asked for."""
    names = (column, companion) if companion else (column,)
    frame = selection.series(run, flow, table, *names)
    t_s = shift(selection, floats(frame["t_s"]))
    beside = floats(frame[companion]) * factor if companion else None
    return Line(run, flow, t_s, floats(frame[column]) * factor, beside)


def sample_line(selection: Selection, run: Run, flow: str, kind: str, factor: float) -> Line:
    """Return the samples of one kind as a line, shifted as `tcp_line` does."""
    frame = selection.series(run, flow, "samples", "value").filter(pl.col("kind").cast(pl.String) == kind)
    return Line(run, flow, shift(selection, floats(frame["t_s"])), floats(frame["value"]) * factor)


def shift(selection: Selection, t_s: Floats) -> Floats:
    """Return the times counted from the first of them, if the options put zero at the flow's start."""
    return t_s - t_s[0] if selection.options.zero == "flow" and len(t_s) else t_s


def draw(
    selection: Selection, lines: Sequence[Line], *, title: str, ylabel: str, steps: bool, companion: str = ""
) -> Figure:
    """Return the plot of `lines`; `steps` holds each value until the next sample.

    `companion` names the thin dotted second lines in the legend.
    """
    options = selection.options
    if not any((~np.isnan(line.y)).any() for line in lines):
        raise InputError(f"{title}: nothing was recorded for these runs, flows and times")
    # A flow of which this was not recorded, beside others of which it was, gets no place in the legend.
    known = [line for line in lines if len(line.t_s) and not np.isnan(line.y).all()]
    lines = known or [line for line in lines if len(line.t_s)]
    names = line_names(lines, options.labels)
    panels = _panels(selection, lines, names)
    figure, axes = paint.canvas(options, len(panels))
    style = "steps-post" if steps else "default"
    handles = []
    for axis, (heading, members) in zip(axes, panels, strict=True):
        for line, place, _ in members:
            pen = paint.pen(place)
            keep = envelope(line.t_s, line.y, COLUMNS)
            handles += axis.plot(line.t_s[keep], line.y[keep], drawstyle=style, zorder=2.5, **pen)
            if line.companion is not None:
                keep = envelope(line.t_s, line.companion, COLUMNS)
                beside = {**pen, "linestyle": (0, (1, 1.6)), "linewidth": 0.7 * handles[-1].get_linewidth()}
                axis.plot(line.t_s[keep], line.companion[keep], drawstyle=style, zorder=2, **beside)
        axis.set_ylabel(ylabel)
        axis.margins(x=0.01, y=0.06)
        if len(panels) > 1:
            axis.set_title(heading, loc="left")
        if "y" not in options.log and options.ylim is None:
            axis.set_ylim(bottom=0)
    axes[-1].set_xlabel(time_label(selection))
    entries = {place: (handle, text) for handle, (_, place, text) in zip(handles, _flat(panels), strict=True)}
    shown = [entries[place] for place in sorted(entries)]
    if len(shown) == 1 and not options.labels:
        shown = [] if not companion else [(shown[0][0], title.partition(" and ")[0])]
    if companion and any(line.companion is not None for line in lines):
        shown.append((Line2D([], [], color="#595959", linestyle=(0, (1, 1.6)), linewidth=1), companion))
    paint.legend(figure, [handle for handle, _ in shown], [text for _, text in shown], options)
    note = selection.runs()[1]
    paint.finish(figure, axes, options, title, note)
    return figure


def time_label(selection: Selection) -> str:
    """Return the label of an axis of time."""
    return "time [s]" if selection.options.zero == "run" else "time since the flow's first sample [s]"


def line_names(lines: Sequence[Line], labels: Sequence[str] | None) -> list[str]:
    """Return the legend names: those given, or of each line what tells it from the others."""
    if labels is not None:
        return checked(labels, len(lines))
    several_runs = len({line.run.run_id for line in lines}) > 1
    several_names = len({line.name for line in lines}) > 1
    names = []
    for line in lines:
        parts = [
            line.run.label if several_runs else "",
            line.name if several_names or not several_runs else "",
        ]
        names.append(", ".join(part for part in parts if part))
    return names


Members = list[tuple[Line, int, str]]
"""Lines of a panel, each with the number of its pen and its legend name."""


def _panels(selection: Selection, lines: Sequence[Line], names: Sequence[str]) -> list[tuple[str, Members]]:
    """Split the lines into panels; what a panel's heading says is left out of the legend, so pens repeat."""
    how = selection.options.panels
    if how is None:
        return [("", [(line, place, names[place]) for place, line in enumerate(lines)])]
    panels: dict[str, Members] = {}
    pens: dict[str, int] = {}
    for place, line in enumerate(lines):
        run = line.run.label or f"run {line.run.run_id}"
        heading, rest = (run, line.name) if how == "run" else (line.name, run)
        text = names[place] if selection.options.labels is not None else rest
        panels.setdefault(heading, []).append((line, pens.setdefault(text, len(pens)), text))
    return list(panels.items())


def _flat(panels: Sequence[tuple[str, Members]]) -> Iterator[tuple[Line, int, str]]:
    for _, members in panels:
        yield from members
