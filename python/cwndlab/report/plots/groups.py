"""The shared part of kinds over a key: groups of runs with equal values of the chosen keys, and
their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from cwndlab.analysis.numeric import Floats
from cwndlab.errors import InputError
from cwndlab.report.plots import colours, facets, names, paint, sizes
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection
from cwndlab.results import columns, inferred_models
from cwndlab.results.texttable import short_names

_Part = TypeVar("_Part")

ALL = "all runs"
"""Name of a group that no key makes."""


@dataclass(frozen=True)
class Group:
    """The rows of the summary that share one value of each key, and the column's values over them."""

    cell: tuple[object, ...]
    """The keys' values."""
    names: tuple[str, ...]
    """Names of the keys' values in the picture."""
    values: Floats
    rows: pl.DataFrame

    @property
    def texts(self) -> list[str]:
        """The keys' values, as the data beside a picture have them."""
        return [_text(value) for value in self.cell]


def _text(value: object) -> str:
    return names.NONE if value is None else inferred_models.marked(value)


def groups(selection: Selection, column: str, keys: Sequence[str]) -> list[Group]:
    """Return the groups in the order a reader expects, numbers by size, without those that have no value."""
    found = []
    parts = selection.rows.group_by(list(keys), maintain_order=True) if keys else [((), selection.rows)]
    for cell, rows in parts:
        values = selection.values(column, rows)
        values = values[~np.isnan(values)]
        if len(values):
            pairs = zip(keys, cell, strict=True)
            names = tuple(selection.names.of(key, value, _text(value)) for key, value in pairs)
            found.append(Group(cell, names, values, rows))
    if not found:
        raise InputError(f"{column}: no value was recorded for these runs and flows")
    return _ordered(found)


def _ordered(found: Sequence[Group]) -> list[Group]:
    """Return groups in the order of their first key, then of their second, and so on."""
    ranks = [places(values) for values in zip(*(group.cell for group in found), strict=True)]
    return sorted(
        found, key=lambda group: [rank[value] for rank, value in zip(ranks, group.cell, strict=True)]
    )


def places(values: Iterable[object]) -> dict[object, int]:
    """Return the place of each value among the distinct ones, in the order a reader expects."""
    return {value: place for place, value in enumerate(columns.ordered(values))}


def hues(selection: Selection, keys: Sequence[str], values: Iterable[object]) -> dict[object, int]:
    """Return the number of the pen of each value of the last key, the same in every plot of these results."""
    if not keys:
        return dict.fromkeys(values, 0)
    every = colours.places(keys[-1], facets.order_of(selection, keys[-1], []))
    return {value: every[value] for value in values}


@dataclass(frozen=True)
class Layout:
    """Places of groups that stand side by side: the last key as colours within a place, the others along the
    axis.

    A single key is along the axis.
    """

    places: Mapping[tuple[object, ...], str]
    """Values of the keys along the axis, in order, with what they are called, a line for each key."""
    series: Mapping[object, str]
    """Values of the last key, in order, with what they are called; empty where there is one key only."""
    colours: Mapping[object, int]
    """The number of the colour of each value of the last key, or of the only one if it has colours."""

    def slot(self, group: Group) -> tuple[float, float, int]:
        """Return (position on the axis, width, number of the colour) of a group."""
        count = max(1, len(self.series))
        width = 0.7 / count
        beside = list(self.series).index(group.cell[-1]) if self.series else 0
        centre = list(self.places).index(_along(group.cell))
        colour = self.colours.get(group.cell[-1], 0) if group.cell else 0
        return centre + (beside - (count - 1) / 2) * width, 0.84 * width, colour


def layout(selection: Selection, found: Sequence[Panel], keys: Sequence[str]) -> Layout:
    """Return the layout of the groups of all panels, of any number of keys."""
    every = together(found)
    along = {_along(group.cell): "\n".join(_along(group.names)) or ALL for group in every}
    called = {group.cell[-1]: group.names[-1] for group in every if group.cell}
    series = {value: called[value] for value in places(called)} if len(keys) > 1 else {}
    # Of a single key, along the axis, only stacks and congestion controls have colours.
    meant = keys and keys[-1].rpartition(".")[2] in facets.MEANINGS
    return Layout(along, series, hues(selection, keys, called if series or meant else ()))


def _along(cell: tuple[_Part, ...]) -> tuple[_Part, ...]:
    """Return what of a cell, or of its names, is along the axis."""
    return cell[:-1] or cell


def panels(selection: Selection, column: str, keys: Sequence[str]) -> tuple[list[Panel], list[str]]:
    """Return the panels of `facet` with their groups, and the keys left to group by."""
    parts, over = facets.split(selection)
    left = [key for key in keys if key not in over]
    return [Panel(heading, groups(own, column, left)) for heading, own in parts], left


MAX_ENTRIES = 12
"""Number of entries of a legend that can be looked up."""


def readable(selection: Selection, column: str, *, default: int, entries: int) -> tuple[Selection, list[str]]:
    """Return the keys to group by, three at most, and the selection with a key that gets panels.

    There are no more than so many entries of a legend where that can be: by panels for one of the keys, and
    where keys are not asked for, by fewer than the `default`.
    """
    options = selection.options
    chosen = selection.group_keys(most=3, default=default)
    tried = [chosen] if options.by else [chosen[:count] for count in range(len(chosen), 0, -1)] or [[]]
    free = not options.facet and options.panels is None
    for keys in (selection.apart(some, column) for some in tried):
        if _count(selection, keys) <= entries:
            return selection, keys
        for over in keys if free and len(keys) > 1 else []:
            left = [key for key in keys if key != over]
            if _count(selection, [over]) <= facets.MAX_PANELS and _count(selection, left) <= entries:
                return replace(selection, options=replace(options, facet=[over])), keys
    if free and len(keys) > 1 and _count(selection, keys[:1]) <= facets.MANY_PANELS:
        selection = replace(selection, options=replace(options, facet=keys[:1]))
    return selection, keys


def _count(selection: Selection, keys: Sequence[str]) -> int:
    return selection.rows.select(*keys).n_unique() if keys else 1


@dataclass(frozen=True)
class Panel:
    """A panel of groups."""

    heading: str
    groups: list[Group]


def together(found: Sequence[Panel]) -> list[Group]:
    """Return the groups of all panels, one of each cell, in order: they have a common axis and colours."""
    return _ordered(list({group.cell: group for panel in found for group in panel.groups}.values()))


@dataclass(frozen=True)
class Line:
    """Name of a group that is a line, and the number of its pen."""

    name: str
    pen: int


def lines(
    selection: Selection, found: Sequence[Panel], keys: Sequence[str]
) -> dict[tuple[object, ...], Line]:
    """Return the line of each cell, the same in all panels; of a single key, the pen is its value's."""
    every = together(found)
    hue = hues(selection, keys, {group.cell[-1]: None for group in every if keys})
    words = partial(
        selection.results.labels.words, keys=keys, alone=("app", "flow"), called=selection.names.of
    )
    return {
        group.cell: Line(
            words(dict(zip(keys, group.cell, strict=True))) or ALL,
            hue[group.cell[-1]] if len(keys) == 1 else number,
        )
        for number, group in enumerate(every)
    }


def table(found: Sequence[Panel], keys: Sequence[str], **drawn: Callable[[Group], float]) -> pl.DataFrame:
    """Return a row for each group of each panel, with what is drawn of it."""
    rows = []
    for panel in found:
        for group in panel.groups:
            told: dict[str, object] = {"panel": panel.heading} if panel.heading else {}
            told |= dict(zip(keys, group.texts, strict=True))
            rows.append(
                told | {"n": len(group.values)} | {name: value(group) for name, value in drawn.items()}
            )
    return pl.DataFrame(rows, infer_schema_length=None)


MAX_LINES = 6
"""Lines of a name below the axis; longer ones are slanted."""

SMALLER = 0.85
"""Share of its size to which type is reduced before names are slanted."""


def label_axes(figure: Plot, axes: Sequence[Axes], places: Sequence[str], share: float = 0.87) -> None:
    """Write the names of the places along the axis below the panels, which are `share` of the width.

    They are smaller, or else slanted, where they would run into each other; then the plot grows, so that the
    panels keep their height.
    """
    _, cols = paint.grid(figure.options, len(axes))
    room = share * figure.get_figwidth() / cols / (len(places) + 0.2)
    for size in (1.0, SMALLER):
        most = max(1, int(room * 72 / (0.7 * size * paint.type_size())))
        names = [paint.in_lines(name, most) for name in places]
        lines = max(name.count("\n") + 1 for name in names)
        for axis in axes:
            axis.set_xticks(range(len(names)), names, fontsize=size * paint.type_size())
        widest = max(label.get_window_extent().width / figure.dpi for label in axes[-1].get_xticklabels())
        if 1.1 * widest <= room and lines <= MAX_LINES:
            break
    else:
        flat = [name.replace("\n", ", ") for name in places]
        upright = 1.5 * paint.type_size() / 72 > room
        how: dict[str, Any] = {"rotation": 90} if upright else {"rotation": 35, "ha": "right"}
        how["rotation_mode"] = "default" if upright else "anchor"
        how["fontsize"] = min(SMALLER * paint.type_size(), 72 * room / 1.2)
        for axis in axes:
            axis.set_xticks(range(len(flat)), flat, **how)
    height = max(label.get_window_extent().height / figure.dpi for label in axes[-1].get_xticklabels())
    if sizes.parse(figure.options.size).grows:
        figure.set_figheight(figure.get_figheight() + max(0.0, height - 2.5 * paint.type_size() / 72))


def in_words(keys: Sequence[str]) -> str:
    """Return the keys in a row of words, as titles and axes name them."""
    *first, last = words(keys) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def words(keys: Sequence[str]) -> list[str]:
    """Return each key in words, under the shortest name that tells it from the others, as it is written."""
    short = short_names(keys)
    labels = {key: columns.describe(short[key]).label for key in keys}
    return [short[key] if label == short[key].replace("_", " ") else label for key, label in labels.items()]


def counted(selection: Selection, column: str) -> str:
    """Return what one value is, for the note in a title."""
    return "one value per flow and run" if selection.locate(column)[0] is None else "all samples"
