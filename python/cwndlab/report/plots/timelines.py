"""The shared part of kinds over time: lines of one or more runs, in one panel or several, on a
common zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from cwndlab.analysis.numeric import Floats, envelope
from cwndlab.errors import InputError
from cwndlab.report.plots import facets, paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Run, Selection, floats
from cwndlab.results.columns import recorded
from cwndlab.results.keys import distinguishing

COLUMNS = 1600
"""Pixel columns of the envelope of a line (see `numeric.envelope`): more than a plot has at 200 dpi."""


@dataclass(frozen=True)
class Line:
    """One line of a plot over time."""

    run: Run
    name: str
    """Name of the line inside its run: the flow's or the hop's."""
    t_s: Floats
    y: Floats
    companion: Floats | None = None
    """A second quantity of the same flow (ssthresh beside cwnd), drawn thin and dotted in the same colour."""


MAX_FLOWS = 24
"""Number of flows of a run that are shown unless they are named, and, where lines would be too many, of the
lines of a panel.
"""


def flows_of(selection: Selection) -> Iterator[tuple[Run, str]]:
    """Yield the flows of every chosen run: those named, or as many as can be read."""
    runs, most = selection.runs()[0], _flows_shown(selection)
    for run in runs:
        for flow in run.flows[:most]:
            yield run, flow


def _flows_shown(selection: Selection) -> int:
    """Return how many flows of a run are shown at most."""
    runs = selection.runs()[0]
    flows = max(len(run.flows) for run in runs)
    if selection.options.flows is not None:
        return flows
    shown = selection.rows.filter(pl.col("run_id").is_in([run.run_id for run in runs]))
    lines = selection.cells(shown).height * min(flows, MAX_FLOWS)
    return MAX_FLOWS if lines <= facets.MAX_PANELS * facets.MAX_LINES else facets.MAX_LINES


def _left_out(selection: Selection) -> str:
    """Return the note that says of which runs not all flows are shown; nothing where they are."""
    flows, most = {len(run.flows) for run in selection.runs()[0]}, _flows_shown(selection)
    up_to = "up to " if len(flows) > 1 else ""
    return f"first {most} of {up_to}{max(flows)} flows" if max(flows) > most else ""


def _only(lines: Sequence[Line]) -> str:
    """Return the note that names the one flow that is drawn of runs of several; nothing of others."""
    drawn = {line.name for line in lines}
    others = {flow for line in lines for flow in line.run.flows} - drawn
    return f"only flow {drawn.pop()} has this" if len(drawn) == 1 and others else ""


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
    frame = frame.with_columns(t_s=shift(selection, floats(frame["t_s"])))
    frame = recorded(frame, column)
    t_s = floats(frame["t_s"])
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
    selection: Selection,
    lines: Sequence[Line],
    *,
    title: str,
    ylabel: str,
    steps: bool,
    companion: str = "",
    note: str = "",
) -> Plot:
    """Return the plot of `lines`; `steps` holds each value until the next sample.

    `note` is said below the plot. `companion` names the thin dotted second lines. Repeats of the same are
    faint, or a band where they are many, and their median is strong.
    """
    options = selection.options
    if not any((~np.isnan(line.y)).any() for line in lines):
        raise InputError(f"{title}: nothing was recorded for these runs, flows and times")
    # A flow of which this was not recorded, beside others of which it was, gets no place in the legend.
    known = [line for line in lines if len(line.t_s) and not np.isnan(line.y).all()]
    lines = known or [line for line in lines if len(line.t_s)]
    beside = companion if any(line.companion is not None for line in lines) else ""
    hop = any(line.name not in line.run.flows for line in lines)
    name = "hop" if hop else "flow"
    panels = facets.arrange(selection, _values(selection, lines, name), name=name)
    if max(len(panel.series) for panel in panels) > facets.FEW_LINES:
        lines, beside = [replace(line, companion=None) for line in lines], ""
    figure, axes = paint.canvas(options, len(panels))
    style = "steps-post" if steps else "default"
    entries: dict[str, Artist] = {}
    rows: list[pl.DataFrame] = []
    ends: list[paint.End] = []
    for axis, panel in zip(axes, panels, strict=True):
        for series in panel.series:
            members = [lines[place] for place in series.members]
            shown = _series(axis, members, series.pen, style)
            rows += _rows(series.values, shown, ylabel, beside)
            strong = shown[-1]
            entries.setdefault(series.label, Line2D([], [], **series.pen))
            ends.append(paint.End(series.label, series.pen, float(_last(strong.y))))
        axis.margins(x=0.01, y=0.06)
        if len(panels) > 1:
            paint.heading(axis, panel.heading)
    for axis in axes if "y" not in options.log and options.ylim is None else []:
        # Once all is drawn, as panels have a common axis; of zeros alone up to 1.
        axis.set_ylim(0, None if any((line.y > 0).any() for line in lines) else 1)
    paint.outer(options, axes, x=time_label(selection), y=ylabel)
    figure.data = pl.concat(rows, how="diagonal_relaxed") if rows else pl.DataFrame()
    said = [selection.runs()[1], "" if hop else _left_out(selection) or _only(lines), note]
    if most := max(len(series.members) for panel in panels for series in panel.series) - 1:
        said.append(f"strong: median of {most + 1} repeats")
    alone = len(entries) == 1
    direct = len(panels) == 1 and not alone and paint.labelled(axes[0], ends, options)
    names = {} if alone or direct else entries
    if beside:
        pens = {series.pen["color"] for panel in panels for series in panel.series}
        ink = pens.pop() if len(pens) == 1 else "#595959"
        names = names or ({} if direct else {title.partition(" and ")[0]: Line2D([], [], color=ink)})
        names = {**names, beside: Line2D([], [], color=ink, linestyle=(0, (1, 1.6)), linewidth=1)}
    paint.legend(figure, names, options)
    paint.finish(figure, axes, options, title, "; ".join(text for text in said if text))
    return figure


def _values(selection: Selection, lines: Sequence[Line], name: str) -> list[dict[str, object]]:
    """Values of each line: the keys that tell its run from the others, and its name."""
    runs = selection.rows.unique("run_id", keep="first", maintain_order=True)
    runs = runs.filter(pl.col("run_id").is_in({line.run.run_id for line in lines}))
    asked = facets.asked(selection)
    telling = distinguishing(runs, [key for key in selection.keys if key != "flow"])
    keys = [*asked, *(key for key in telling if key not in asked)]
    of_run = {row["run_id"]: row for row in runs.iter_rows(named=True)}
    known = [{**{key: of_run[line.run.run_id][key] for key in keys}, name: line.name} for line in lines]
    # Runs that no key tells apart, as those of imported files, are told apart by their names.
    if len({tuple(values.values()) for values in known}) < len(lines):
        return [{"run": line.run.run_id, **values} for line, values in zip(lines, known, strict=True)]
    return known


FAINT = 8
"""Number of repeats that are faint lines; more are a band from their 10th to their 90th percentile."""


def _series(axis: Axes, members: Sequence[Line], pen: Mapping[str, Any], style: str) -> list[Line]:
    """Draw lines that are the same but for their draws; return what is drawn, the strong one last."""
    if len(members) == 1:
        _drawn(axis, members[0], pen, style)
        return [members[0]]
    middle, low, high = _summed(members, held=style == "steps-post")
    if len(members) <= FAINT:
        for line in members:
            keep = envelope(line.t_s, line.y, COLUMNS)
            thin = {**pen, "alpha": 0.3, "linewidth": 0.6 * paint.scale()}
            axis.plot(line.t_s[keep], line.y[keep], drawstyle=style, zorder=2.2, **thin)
        shown = [*members, middle]
    else:
        step: Literal["post"] | None = "post" if style == "steps-post" else None
        axis.fill_between(
            middle.t_s, low, high, step=step, color=pen["color"], alpha=0.2, linewidth=0, zorder=2.1
        )
        shown = [
            replace(middle, name=f"{middle.name}, {share}", y=y, companion=None)
            for share, y in (("10th percentile", low), ("90th percentile", high))
        ] + [middle]
    _drawn(axis, middle, {**pen, "linewidth": 1.5 * paint.scale()}, style)
    return shown


def _drawn(axis: Axes, line: Line, pen: Mapping[str, Any], style: str) -> None:
    keep = envelope(line.t_s, line.y, COLUMNS)
    (strong,) = axis.plot(line.t_s[keep], line.y[keep], drawstyle=style, zorder=2.5, **pen)
    if line.companion is not None:
        keep = envelope(line.t_s, line.companion, COLUMNS)
        beside = {**pen, "linestyle": (0, (1, 1.6)), "linewidth": 0.7 * strong.get_linewidth()}
        axis.plot(line.t_s[keep], line.companion[keep], drawstyle=style, zorder=2, **beside)


def _summed(members: Sequence[Line], *, held: bool) -> tuple[Line, Floats, Floats]:
    """Return the median of repeats, and their 10th and 90th percentiles, at the same times."""
    first = members[0]
    if all(np.array_equal(line.t_s, first.t_s) for line in members):
        t_s = first.t_s
    else:
        t_s = np.linspace(
            min(line.t_s[0] for line in members), max(line.t_s[-1] for line in members), COLUMNS
        )
    values = np.stack([_at(line.t_s, line.y, t_s, held=held) for line in members])
    beside = None
    if all(line.companion is not None for line in members):
        stacked = [
            _at(line.t_s, line.companion, t_s, held=True) for line in members if line.companion is not None
        ]
        beside = _quantile(np.stack(stacked), 50)
    middle = Line(replace(first.run, run_id="median"), first.name, t_s, _quantile(values, 50), beside)
    return middle, _quantile(values, 10), _quantile(values, 90)


def _quantile(values: Floats, share: float) -> Floats:
    """Return a percentile over rows, of what there is; NaN where there is nothing."""
    known = ~np.isnan(values).all(axis=0)
    found = np.full(values.shape[1], np.nan)
    if known.any():
        found[known] = np.nanpercentile(values[:, known], share, axis=0)
    return found


def _at(t_s: Floats, y: Floats, times: Floats, *, held: bool) -> Floats:
    """Return a line at other times: held, or joined; NaN before it begins and after it ended."""
    if held:
        place = np.searchsorted(t_s, times, side="right") - 1
        found = np.where(place >= 0, y[np.maximum(place, 0)], np.nan)
    else:
        found = np.interp(times, t_s, y, left=np.nan, right=np.nan)
    return np.asarray(np.where(times <= t_s[-1], found, np.nan), dtype=np.float64)


def _last(y: Floats) -> float:
    """Return the last value of a line; 0 where it has none."""
    known = y[~np.isnan(y)]
    return float(known[-1]) if len(known) else 0.0


def _rows(
    values: facets.Values, shown: Sequence[Line], ylabel: str, companion: str
) -> Iterator[pl.DataFrame]:
    """The samples drawn of lines, a row each, with what tells the lines from others."""
    for line in shown:
        keep = envelope(line.t_s, line.y, COLUMNS)
        if line.companion is not None:
            keep = np.union1d(keep, envelope(line.t_s, line.companion, COLUMNS))
        told = {**values, "run": line.run.run_id, "line": line.name}
        frame: dict[str, Any] = {
            key: [str(value)] * len(keep)
            for key, value in told.items()
            if key not in ("repeat", "flow", "hop")
        }
        frame |= {"time [s]": line.t_s[keep], ylabel: line.y[keep]}
        if line.companion is not None:
            frame[companion] = line.companion[keep]
        yield pl.DataFrame(frame)


def time_label(selection: Selection) -> str:
    """Return the label of an axis of time."""
    return "time [s]" if selection.options.zero == "run" else "time since the flow's first sample [s]"
