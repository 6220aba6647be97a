"""The choice of panels, colours and dashes: by what varies, unless keys are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import polars as pl

from cwndlab.errors import InputError
from cwndlab.report.plots import colours
from cwndlab.report.plots.selection import Selection
from cwndlab.results import columns
from cwndlab.results.keys import distinguishing, whole_key

MAX_LINES = 6
"""Lines of a panel that a reader can follow, without their repeats."""

FEW_LINES = 3
"""Number of lines of a sweep over several keys that stay in one panel."""

MAX_PANELS = 12
"""Panels that are chosen without being asked for."""

MANY_PANELS = 24
"""Panels that are chosen where fewer would hold too many lines each; more have no room."""

MEANINGS = ("results", "stack", "cc")
"""Keys that are colours before any other, as a reader compares by them."""

Values = Mapping[str, object]
"""Values of the keys that vary, of one line."""


@dataclass
class Series:
    """Lines that a reader takes for one: the repeats of the same."""

    label: str
    pen: dict[str, Any]
    place: int
    """Number of the line's pen among the others: equal in every panel."""
    values: Values
    members: list[int] = field(default_factory=list)
    """Places of its lines in what was arranged."""


@dataclass
class Panel:
    """One panel, with its heading."""

    heading: str
    series: list[Series] = field(default_factory=list)


def arrange(selection: Selection, known: Sequence[Values], *, name: str) -> list[Panel]:
    """Return the panels of lines of which is known what `known` says, in order.

    `name` is the key that holds the name of a line inside its run (`flow` or `hop`).
    """
    varying = [key for key in known[0] if len({line[key] for line in known}) > 1]
    asked = _asked(selection, varying, name)
    # The runs that somebody names stay apart, as do repeats that have panels of their own.
    together = selection.options.runs is None and "repeat" not in (asked or ())
    apart = [key for key in varying if key != "repeat"] if together else varying
    apart = _telling(known, apart)
    over = asked if asked is not None else _chosen(known, apart, name)
    inside = [key for key in apart if key not in over]
    pens = _pens(selection, known, over, inside)
    words = partial(selection.results.labels.words, among=varying, alone=[name], called=selection.names.of)
    panels: dict[tuple[object, ...], Panel] = {}
    found: dict[tuple[object, ...], Series] = {}
    for place, line in enumerate(known):
        where, what = tuple(line[key] for key in over), tuple(line[key] for key in inside)
        panel = panels.setdefault(where, Panel(words(line, over)))
        if (where, what) not in found:
            number, pen = pens[tuple(line[key] for key in (*over, *inside))]
            series = Series(words(line, inside), pen, number, line)
            found[where, what] = series
            panel.series.append(series)
        found[where, what].members.append(place)
    order = {key: columns.ordered(line[key] for line in known) for key in over}
    ranked = sorted(
        panels, key=lambda where: [order[key].index(value) for key, value in zip(over, where, strict=True)]
    )
    return [panels[where] for where in ranked]


def split(selection: Selection) -> tuple[list[tuple[str, Selection]], list[str]]:
    """Return the selection in parts by `facet`, each with its heading, and the keys; one part without it."""
    if selection.options.panels or "none" in selection.options.facet or not selection.options.facet:
        return [("", selection)], []
    keys = [whole_key("facet", key, selection.keys, selection.rows) for key in selection.options.facet]
    values = {key: columns.ordered(selection.rows[key].to_list()) for key in keys}
    telling = distinguishing(selection.rows, [key for key in selection.keys if key != "flow"])
    words = partial(selection.results.labels.words, among=[*telling, *keys], called=selection.names.of)
    parts = []
    for first in values[keys[0]]:
        for second in values[keys[1]] if len(keys) > 1 else [None]:
            row = dict(zip(keys, (first, second), strict=False))
            rows = selection.rows
            for key, value in row.items():
                rows = rows.filter(pl.col(key).eq_missing(pl.lit(value)))
            if rows.height:
                heading = words(row, list(row))
                parts.append((heading, replace(selection, rows=rows)))
    return parts, keys


def order_of(selection: Selection, key: str, known: Sequence[Values]) -> list[object]:
    """Return all values that the results have of a key, in order; those shown are only some of them."""
    summary = selection.results.labelled
    if key in summary.columns:
        return columns.ordered(summary[key].to_list())
    return columns.ordered(line[key] for line in known)


def _asked(selection: Selection, varying: Sequence[str], name: str) -> list[str] | None:
    """Return the keys that were asked to be panels. None if none were."""
    options = selection.options
    named = [*options.facet, *([options.panels] if options.panels else [])]
    if not named:
        return None
    keys: list[str] = []
    for key in named:
        if key == "run":
            keys += [other for other in varying if other != name and other not in keys]
        elif key in ("flow", "hop"):
            keys.append(name)
        elif key != "none":
            keys.append(whole_key("facet", key, [*selection.keys, "run", "none"], selection.rows))
    return keys if options.panels else [key for key in keys if key in varying]


def asked(selection: Selection) -> list[str]:
    """Return the keys of runs that were asked to be panels."""
    special = ("run", "flow", "hop", "none")
    known = [*selection.keys, *special]
    rows = selection.rows
    return [whole_key("facet", key, known, rows) for key in selection.options.facet if key not in special]


def _telling(known: Sequence[Values], keys: Sequence[str]) -> list[str]:
    """Return the fewest of the keys that tell the lines apart as well as all of them do."""
    telling = list(keys)
    for key in reversed(keys):
        fewer = [other for other in telling if other != key]
        if fewer and len(_combinations(known, fewer)) == len(_combinations(known, telling)):
            telling = fewer
    return telling


def _combinations(known: Sequence[Values], keys: Sequence[str]) -> dict[tuple[object, ...], None]:
    return dict.fromkeys(tuple(line[key] for key in keys) for line in known)


def _chosen(known: Sequence[Values], keys: Sequence[str], name: str) -> list[str]:
    """Return the fewest keys, swept ones first, whose panels hold few enough lines each."""
    lines = len(_combinations(known, keys))
    several = sum(key != name for key in keys) > 0 and len(keys) > 1
    if lines <= (FEW_LINES if several else MAX_LINES):
        return []
    swept = [key for key in keys if key not in (*MEANINGS, name)]
    ends = [key for key in swept if key.rpartition(".")[2] in MEANINGS]
    candidates = [key for key in swept if key not in ends] + ends + [key for key in keys if key not in swept]
    pairs = [[one, other] for place, one in enumerate(candidates) for other in candidates[place + 1 :]]
    for over in [*([key] for key in candidates), *pairs]:
        panels = len(_combinations(known, over))
        if panels <= MAX_PANELS and _most(known, over, keys) <= (MAX_LINES if lines > MAX_LINES else lines):
            return over
    found = [(over, len(_combinations(known, over))) for over in [*([key] for key in candidates), *pairs]]
    fit = [pair for pair in found if pair[1] <= MANY_PANELS] or [min(found, key=lambda pair: pair[1])]
    return min(fit, key=lambda pair: (max(MAX_LINES, _most(known, pair[0], keys)), pair[1]))[0]


def _most(known: Sequence[Values], over: Sequence[str], keys: Sequence[str]) -> int:
    """Return the lines of the fullest panel."""
    counts: dict[tuple[object, ...], int] = {}
    for line in _combinations(known, [*over, *(key for key in keys if key not in over)]):
        counts[line[: len(over)]] = counts.get(line[: len(over)], 0) + 1
    return max(counts.values())


def _pens(
    selection: Selection, known: Sequence[Values], over: Sequence[str], inside: Sequence[str]
) -> dict[tuple[object, ...], tuple[int, dict[str, Any]]]:
    """Return the number and the look of the pen of each combination of the keys of panels and of lines.

    One key is the colour, the others are the dash; where there are more values than colours or dashes, every
    combination gets its own pair of them.
    """
    meant = [key for key in (*inside, *over) if key.rpartition(".")[2] in MEANINGS]
    meant.sort(key=lambda key: (key in over, MEANINGS.index(key.rpartition(".")[2])))
    first = next(iter([*(key for key in meant if key in inside), *inside, *meant]), None)
    rest = [key for key in inside if key != first]
    combinations = list(_combinations(known, [*over, *inside]))
    keys = [*over, *inside]
    insides = list(_combinations(known, inside))
    hue = _hues(selection, first, known) if first else {}
    dashes = list(_combinations(known, rest))
    fits = len(dashes) <= len(colours.DASHES) and max(hue.values(), default=0) < len(colours.PALETTE)
    pens = {}
    for combination in combinations:
        line = dict(zip(keys, combination, strict=True))
        number = insides.index(tuple(line[key] for key in inside))
        if fits and first is not None:
            dash = dashes.index(tuple(line[key] for key in rest))
            pens[combination] = number, colours.pen(hue[line[first]] + dash * len(colours.PALETTE))
        else:
            pens[combination] = number, colours.pen(number)
    return pens


def _hues(selection: Selection, key: str, known: Sequence[Values]) -> dict[object, int]:
    """Return the colour of each value; flows that differ in stack or congestion control have those."""
    if key == "flow":
        for other in ("stack", "cc"):
            pairs = selection.results.summary.select("flow", other).unique(maintain_order=True)
            if 1 < pairs.height == pairs["flow"].n_unique() == pairs[other].n_unique():
                meant = colours.places(other, pairs[other].to_list())
                return {flow: meant[value] for flow, value in pairs.iter_rows()}
    return colours.places(key, order_of(selection, key, known))


def refuse(selection: Selection, kind: str) -> None:
    """Raise InputError where panels are asked of a kind that has none."""
    if selection.options.facet:
        raise InputError(f"facet: the kind {kind} has one panel")
