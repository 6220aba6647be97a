"""The plot kind `bursts`: the rounds of an incast apart, and in each the answers of its flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Patch

from cwndlab.analysis.numeric import Floats
from cwndlab.errors import InputError, unknown
from cwndlab.experiment.scenario.queries import app_of
from cwndlab.report.plots import facets, paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Run, Selection, floats

ROUNDS = 6
"""Number of rounds that are drawn."""

VALUES = ("first", "slowest")

ANSWER, LAST = "#56b4e9", "#e69f00"
"""Colours of an answer, and of the one that comes last."""

MARKS = {"drop": ("x", "#d55e00", "dropped"), "rto": ("s", "#000000", "timeout")}
"""Kinds of events that are drawn: marker, colour, name."""


@dataclass(frozen=True)
class Round:
    """A round: from its requests to the last byte of the last answer."""

    number: int
    start_s: float
    end_s: float
    last: str
    """The flow that answers last."""
    ends_s: Mapping[str, float]
    """Time at which each answer was complete, in s."""


def draw(selection: Selection) -> Plot:
    """Return the plot of one run: a panel for each round, in it a row for each flow.

    A row is pale from the request to the last byte of the answer, and rises as bytes are delivered in order,
    as finely as the series has samples (`record: {tcp: per-ack}`); drops and timeouts stand on it. `value`
    chooses the rounds: the `first` of the time
    window, or the `slowest`. Raises InputError for several runs, and where the flows are not of one incast.
    """
    facets.refuse(selection, "bursts")
    chosen = selection.options.value or VALUES[0]
    if chosen not in VALUES:
        raise unknown("value", chosen, VALUES)
    runs, _ = selection.runs()
    if len(runs) != 1:
        raise InputError(f"runs: a bursts plot shows one run, not {len(runs)}; name it")
    run = runs[0]
    sizes = _sizes(selection, run)
    found = _rounds(selection, run, list(sizes))
    shown = found[:ROUNDS]
    if chosen == "slowest":
        shown = sorted(found, key=lambda each: each.start_s - each.end_s)[:ROUNDS]
        shown.sort(key=lambda each: each.number)
    frames = {
        flow: selection.results.series(run.run_id, flow=flow, table="tcp").drop_nulls("delivered_bytes")
        for flow in sizes
    }
    events = selection.results.series(run.run_id, table="events")
    figure, axes = paint.canvas(selection.options, len(shown))
    legend: dict[str, Artist] = {
        "delivered": Patch(color=ANSWER),
        "waiting": Patch(color=to_rgba(ANSWER, 0.3)),
        "the last to finish": Patch(color=LAST),
    }
    rows = []
    for axis, each in zip(axes, shown, strict=True):
        for place, (flow, size) in enumerate(sizes.items()):
            if flow not in each.ends_s:
                continue
            t_ms, come = _delivered(frames[flow], each, each.ends_s[flow])
            _row(axis, place, LAST if flow == each.last else ANSWER, t_ms, come / size)
            legend |= _marks(axis, events, flow, place, each)
            told = {"round": [each.number] * len(t_ms), "flow": [flow] * len(t_ms)}
            rows.append(pl.DataFrame({**told, "time [ms]": t_ms, "delivered [B]": come}))
        took_ms = 1e3 * (each.end_s - each.start_s)
        paint.heading(axis, f"round {each.number}: {took_ms:.3g} ms")
    figure.data = pl.concat(rows)
    _label_rows(figure, axes, list(sizes))
    paint.outer(selection.options, axes, x="time since the round began [ms]", y="")
    paint.legend(figure, legend, selection.options)
    note = "" if len(shown) == len(found) else f"{chosen} {len(shown)} of {len(found)} rounds"
    paint.finish(figure, axes, selection.options, "rounds of an incast", note)
    return figure


def _sizes(selection: Selection, run: Run) -> dict[str, int]:
    """Return the bytes of each flow's answer. Raises InputError where the flows are not of one incast."""
    scenario = selection.results.record(run.run_id).scenario
    apps: dict[str, Any] = {flow["name"]: app_of(flow) for flow in scenario["flows"]}
    sizes = {
        flow: int(apps[flow]["size_bytes"])
        for flow in run.flows
        if apps.get(flow, {}).get("kind") == "incast"
    }
    groups = list(dict.fromkeys(apps[flow]["group"] for flow in sizes))
    if not groups:
        raise InputError("bursts: this run has no flow of the application incast")
    if len(groups) > 1:
        raise InputError(f"flows: a bursts plot shows one incast, not {', '.join(groups)}; name its flows")
    return sizes


def _rounds(selection: Selection, run: Run, flows: Sequence[str]) -> list[Round]:
    """Return the rounds that lie within the time window."""
    samples = selection.results.series(run.run_id, table="samples")
    flow, kind = pl.col("flow").cast(pl.String), pl.col("kind").cast(pl.String)
    found: list[Round] = []
    if samples.height:
        samples = samples.filter(flow.is_in(flows), kind.is_in(("round", "response")))
        ended: dict[str, float] = {}
        for end_s, name, what, took_ns in samples.select("t_s", flow, kind, "value").iter_rows():
            ended[name] = end_s
            if what == "round":
                found.append(Round(len(found) + 1, end_s - took_ns / 1e9, end_s, name, ended))
                ended = {}
    start, stop = selection.options.window or (None, None)
    found = [
        each
        for each in found
        if (start is None or each.start_s >= start) and (stop is None or each.end_s <= stop)
    ]
    if not found:
        raise InputError("bursts: no round was completed by these flows in this time")
    return found


def _row(axis: Axes, place: int, colour: str, t_ms: Floats, share: Floats) -> None:
    """Draw how an answer arrives: a pale row, in which what is delivered rises."""
    height = 0.85
    axis.fill_between(t_ms[[0, -1]], place, place + height, color=to_rgba(colour, 0.3), linewidth=0)
    top = place + height * np.clip(share, 0, 1)
    axis.fill_between(t_ms, place, top, step="post", color=colour, linewidth=0, zorder=2)


def _delivered(frame: pl.DataFrame, each: Round, end_s: float) -> tuple[Floats, Floats]:
    """Return times since the round began, ms, up to the answer's end, and the bytes delivered by then."""
    at_s, total = floats(frame["t_s"]), floats(frame["delivered_bytes"])
    at_s, total = np.concatenate(([-np.inf], at_s)), np.concatenate(([0.0], total))
    inside = at_s[(at_s > each.start_s) & (at_s < end_s)]
    times = np.concatenate(([each.start_s], inside, [end_s]))
    held = total[np.searchsorted(at_s, times, side="right") - 1]
    return 1e3 * (times - each.start_s), np.asarray(held - held[0], dtype=np.float64)


def _marks(axis: Axes, events: pl.DataFrame, flow: str, place: int, each: Round) -> dict[str, Artist]:
    """Draw drops and timeouts of a flow; return what is drawn, by its name in the legend."""
    drawn: dict[str, Artist] = {}
    for kind, (marker, colour, name) in MARKS.items() if events.height else ():
        of_flow = (pl.col("flow").cast(pl.String) == flow) & (pl.col("kind").cast(pl.String) == kind)
        times = floats(events.filter(of_flow, pl.col("t_s").is_between(each.start_s, each.end_s))["t_s"])
        if len(times):
            x, y = 1e3 * (times - each.start_s), np.full(len(times), place + 0.4)
            drawn[name] = axis.plot(x, y, marker, markersize=3.5 * paint.scale(), color=colour, zorder=3)[0]
    return drawn


def _label_rows(figure: Plot, axes: Sequence[Axes], flows: Sequence[str]) -> None:
    """Name the rows; of many only every so many-th."""
    rows = paint.grid(figure.options, len(axes))[0]
    room = 0.7 * figure.get_figheight() / rows * 72 / (1.3 * paint.type_size())
    places = range(0, len(flows), max(1, -(-len(flows) // max(1, int(room)))))
    for axis in axes:
        axis.set_yticks([place + 0.4 for place in places], [flows[place] for place in places])
        axis.set_ylim(-0.2, len(flows))
        axis.set_xlim(left=0)
        axis.grid(visible=False, axis="y")
