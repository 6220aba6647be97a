"""The plot kind `difference`: before and after, or a key's values: differences with their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
from matplotlib.lines import Line2D

from cwndlab.analysis import comparison as analysis
from cwndlab.analysis import contrasts, verdict
from cwndlab.analysis.comparison import Comparison, Kind
from cwndlab.errors import InputError
from cwndlab.report.plots import colours, facets, paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection
from cwndlab.results import columns, inferred_models
from cwndlab.results.keys import whole_key

MAX_ROWS = 60
"""Comparisons that a reader can take in."""


def draw(selection: Selection) -> Plot:
    """Return the plot: a row for each combination, with the difference of `value` and its interval.

    What is compared with the first is the key `by`, or several results, or the first key that varies; numbers
    and verdicts are those of `cwndlab compare`. A filled point is a difference that is proven or exact, a
    hollow one is not. Raises InputError where nothing can be compared.
    """
    facets.refuse(selection, "difference")
    options = selection.options
    if options.runs is not None or options.window is not None:
        raise InputError("runs: this kind compares all runs; choose with where")
    key = _key(selection)
    where = {
        name: [str(value) for value in (wanted if isinstance(wanted, list | tuple) else [wanted])]
        for name, wanted in options.where.items()
    }
    flow = options.flows[0] if options.flows and len(options.flows) == 1 else None
    chosen = contrasts.Selection([options.value] if options.value else [], flow, where)
    how = analysis.Options(confidence=options.confidence, within=False)
    found = contrasts.by_key(selection.results, key, chosen, how)
    every = [*found.overall, *found.each]
    # One axis has one metric: the first, where packets were marked.
    shown = [each for each in every if each.metric == every[0].metric]
    if len(shown) > MAX_ROWS:
        raise InputError(f"where: {len(shown)} combinations are too many to draw; choose up to {MAX_ROWS}")
    return _drawn(selection, key, shown)


def _key(selection: Selection) -> str:
    """Return the key whose values are compared."""
    swept = selection.results.keys
    if selection.options.by:
        return whole_key("by", selection.options.by[0], swept, selection.rows)
    for key in swept:
        if selection.rows[key].n_unique() > 1:
            return key
    raise InputError("by: nothing varies in these results; give two results, or a key that is swept")


def _drawn(selection: Selection, key: str, shown: Sequence[Comparison]) -> Plot:
    options = selection.options
    relative = all(verdict.is_relative(each) for each in shown)
    scaled = [_scaled(each, relative=relative) for each in shown]
    figure, (axis,) = paint.canvas(options)
    called = inferred_models.marked if inferred_models.is_stack_key(key) else str
    several = len({(each.a.label, each.b.label) for each in shown}) > 1
    # Names take less than half of the width.
    most = int(0.45 * figure.get_figwidth() * 72 / (0.58 * paint.type_size()))
    names = [paint.in_lines(_name(each, called, several=several), most) for each in shown]
    line = (0.5 + 1.2 * max(name.count("\n") + 1 for name in names)) * paint.type_size() / 72
    figure.set_figheight(max(figure.get_figheight() * 0.6, 1.1 + line * len(shown)))
    hues = colours.places(key, facets.order_of(selection, key, []))
    for place, (each, (middle, low, high)) in enumerate(zip(shown, scaled, strict=True)):
        colour = colours.pen(hues.get(each.b.label, 0))["color"]
        proven = each.kind in (Kind.DIFFERENCE, Kind.DETERMINISTIC, Kind.IDENTICAL)
        axis.plot([low, high], [place, place], color=colour, solid_capstyle="butt")
        size = paint.scale() * (6.5 if each.contrast.combinations else 4.5)
        axis.plot(
            middle,
            place,
            color=colour,
            marker="D" if each.contrast.combinations else "o",
            markersize=size,
            markerfacecolor=colour if proven else "white",
        )
    axis.axvline(0, color="#606060", linewidth=0.8)
    axis.set_yticks(range(len(shown)), names)
    axis.set_ylim(len(shown) - 0.4, -0.6)
    axis.grid(visible=False, axis="y")
    words = columns.describe(shown[0].metric)
    unit = "%" if relative else "points" if words.unit == "%" else words.unit
    before, after = called(shown[0].a.label), called(shown[0].b.label)
    sides = f"against {before}" if several else f"{after} against {before}"
    axis.set_xlabel(f"difference of {words.words} [{unit}]" if unit else f"difference of {words.words}")
    style: dict[str, Any] = {
        "linestyle": "",
        "marker": "o",
        "color": "#404040",
        "markersize": 4.5 * paint.scale(),
    }
    filled, hollow = Line2D([], [], **style), Line2D([], [], **style, markerfacecolor="white")
    paint.legend(figure, {"proven or exact": filled, "not proven": hollow}, options)
    figure.data = pl.DataFrame(
        [
            {**each.contrast.where, "a": each.a.label, "b": each.b.label, "difference": middle, "low": low,
             "high": high, "unit": unit, "p": each.corrected_p, "verdict": each.kind.value}
            for each, (middle, low, high) in zip(shown, scaled, strict=True)
        ],
        infer_schema_length=None,
    )  # fmt: skip
    note = f"line: {100 * shown[0].confidence:g} % interval" if any(each.interval for each in shown) else ""
    paint.finish(figure, [axis], options, f"{words.words}: {sides}", note)
    return figure


def _scaled(found: Comparison, *, relative: bool) -> tuple[float, float, float]:
    """Return the difference and its interval, in per cent of a's mean or in the unit shown."""
    low, high = (found.interval.low, found.interval.high) if found.interval else (found.difference,) * 2
    factor = columns.describe(found.metric).factor
    middle, low, high = (
        100 * (found.share(value) or 0.0) if relative else value * factor
        for value in (found.difference, low, high)
    )
    return middle, low if math.isfinite(low) else middle, high if math.isfinite(high) else middle


def _name(found: Comparison, called: Callable[[str], str], *, several: bool) -> str:
    where = found.contrast.name
    if found.contrast.combinations:
        where = f"over {found.contrast.combinations} combinations"
    name = called(found.b.label)
    return ", ".join(text for text in (name if several else "", where) if text) or name
