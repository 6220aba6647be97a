"""What the kinds over a key share: groups of runs with equal values of the chosen keys, and their places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes

from cwndlab.analysis.numeric import Floats
from cwndlab.errors import InputError
from cwndlab.plots import colours, facets
from cwndlab.plots.selection import Selection
from cwndlab.results import columns, inferred
from cwndlab.results.texttable import short_names


@dataclass(frozen=True)
class Group:
    """The rows of the summary that share one value of each key, and the column's values over them."""

    names: tuple[str, ...]
    """The keys' values, as text."""
    values: Floats
    rows: pl.DataFrame

    @property
    def label(self) -> str:
        """The keys' values in one line."""
        return ", ".join(self.names) or "all runs"


def groups(selection: Selection, column: str, keys: Sequence[str]) -> list[Group]:
    """Return the groups in the order a reader expects, numbers by size, without those that have no value."""
    found = []
    parts = selection.rows.group_by(list(keys), maintain_order=True) if keys else [((), selection.rows)]
    for names, rows in parts:
        values = selection.values(column, rows)
        values = values[~np.isnan(values)]
        if len(values):
            texts = tuple("–" if name is None else inferred.marked(name) for name in names)
            found.append(Group(texts, values, rows))
    if not found:
        raise InputError(f"{column}: no value was recorded for these runs and flows")
    ranks = [
        {name: place for place, name in enumerate(columns.ordered(group.names[number] for group in found))}
        for number in range(len(keys))
    ]
    return sorted(
        found, key=lambda group: [rank[name] for rank, name in zip(ranks, group.names, strict=True)]
    )


def hues(selection: Selection, keys: Sequence[str], values: Sequence[str]) -> dict[str, int]:
    """Return the number of the pen of each value of the last key, the same in every plot of these results."""
    if not keys:
        return dict.fromkeys(values, 0)
    every = colours.places(keys[-1], facets.order_of(selection, keys[-1], []))
    named = {"–" if value is None else inferred.marked(value): place for value, place in every.items()}
    return {value: named[value] for value in values}


@dataclass(frozen=True)
class Layout:
    """Where groups stand side by side: the last key as colours within a place, the others along the axis.

    A single key is along the axis.
    """

    places: list[str]
    """Values of the keys along the axis, a line for each."""
    series: list[str]
    """Values of the last key; empty where there is one only."""
    colours: Mapping[str, int]
    """The number of the colour of each value of the last key, or of the only one if it has colours."""

    def slot(self, group: Group) -> tuple[float, float, int]:
        """Return (position on the axis, width, number of the colour) of a group."""
        count = max(1, len(self.series))
        width = 0.7 / count
        beside = self.series.index(group.names[-1]) if self.series else 0
        centre = self.places.index(_place(group))
        colour = self.colours.get(group.names[-1], 0) if group.names else 0
        return centre + (beside - (count - 1) / 2) * width, 0.84 * width, colour


def layout(selection: Selection, found: Sequence[Group], keys: Sequence[str]) -> Layout:
    """Return the layout of groups of any number of keys."""
    places = dict.fromkeys(_place(group) for group in found)
    series = [str(name) for name in columns.ordered(group.names[-1] for group in found if len(keys) > 1)]
    # Of a single key, along the axis, only stacks and congestion controls have colours.
    meant = keys and keys[-1].rpartition(".")[2] in facets.MEANINGS
    values = series or (list(dict.fromkeys(group.names[-1] for group in found)) if meant else [])
    return Layout(list(places), series, hues(selection, keys, values))


def panels(selection: Selection, column: str, keys: Sequence[str]) -> tuple[list[Panel], list[str]]:
    """Return the panels of `facet` with their groups, and the keys left to group by."""
    parts, over = facets.split(selection)
    left = [key for key in keys if key not in over]
    return [Panel(heading, groups(own, column, left)) for heading, own in parts], left


@dataclass(frozen=True)
class Panel:
    """A panel of groups."""

    heading: str
    groups: list[Group]


def together(found: Sequence[Panel]) -> list[Group]:
    """Return the groups of all panels, one of each name, in order: they have a common axis and colours."""
    of_name = {group.names: group for panel in found for group in panel.groups}
    if not of_name:
        return []
    ranks = [
        {name: place for place, name in enumerate(columns.ordered(names[number] for names in of_name))}
        for number in range(len(next(iter(of_name))))
    ]
    return [
        of_name[names]
        for names in sorted(of_name, key=lambda names: [r[n] for r, n in zip(ranks, names, strict=True)])
    ]


@dataclass(frozen=True)
class Lines:
    """What groups are called and drawn with that are lines, those of one name in all panels alike."""

    names: list[str]
    pens: list[int]
    """Numbers of their pens: by the last key's value, if that alone tells."""
    pen_of: dict[tuple[str, ...], int]


def lines(selection: Selection, found: Sequence[Panel], keys: Sequence[str]) -> Lines:
    """Return the lines of all panels; raises InputError where there are not as many as `labels`."""
    every, labels = together(found), selection.options.labels
    names = checked(labels, len(every)) if labels else [group.label for group in every]
    hue = hues(selection, keys, list(dict.fromkeys(group.names[-1] for group in every if keys)))
    pens = [hue[group.names[-1]] for group in every] if len(keys) == 1 else list(range(len(every)))
    return Lines(names, pens, {group.names: pen for group, pen in zip(every, pens, strict=True)})


def table(found: Sequence[Panel], keys: Sequence[str], **drawn: Callable[[Group], float]) -> pl.DataFrame:
    """Return a row for each group of each panel, with what is drawn of it."""
    rows = []
    for panel in found:
        for group in panel.groups:
            told: dict[str, object] = {"panel": panel.heading} if panel.heading else {}
            told |= dict(zip(keys, group.names, strict=True))
            rows.append(
                told | {"n": len(group.values)} | {name: value(group) for name, value in drawn.items()}
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def _place(group: Group) -> str:
    return "\n".join(group.names[:-1] or group.names) or "all runs"


def label_axis(axis: Axes, layout: Layout, keys: Sequence[str], width: float) -> None:
    """Write the values of the keys along the axis below it, slanted if they would run into each other.

    `width` is that of the panel in inches.
    """
    axis.set_xticks(range(len(layout.places)), layout.places)
    longest = max(len(line) for place in layout.places for line in place.splitlines() or [""])
    # A character is about 0.6 em wide.
    em = float(mpl.rcParams["font.size"]) / 72
    if longest * len(layout.places) * 0.6 * em > 0.75 * width:
        flat = [place.replace("\n", ", ") for place in layout.places]
        upright = len(layout.places) * 2 * em > width
        axis.set_xticks(
            range(len(flat)), flat, rotation=90 if upright else 35, ha="center" if upright else "right"
        )
        for label in axis.get_xticklabels():
            label.set_rotation_mode("default" if upright else "anchor")
    axis.grid(visible=False, axis="x")
    axis.set_xlim(-0.6, len(layout.places) - 0.4)


def series_names(layout: Layout, labels: Sequence[str] | None) -> list[str]:
    """Return the legend names of the last key's values: those given, or the values."""
    if labels is None:
        return layout.series
    return checked(labels, len(layout.series))


def checked(labels: Sequence[str], count: int) -> list[str]:
    """Return `labels` if there are `count`; raise InputError otherwise."""
    if len(labels) != count:
        raise InputError(f"labels: {len(labels)} names for {count} series")
    return list(labels)


def in_words(keys: Sequence[str]) -> str:
    """Return the keys in a row of words, as titles and axes name them."""
    *first, last = words(keys) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def words(keys: Sequence[str]) -> list[str]:
    """Return each key in words, under the shortest name that tells it from the others."""
    short = short_names(keys)
    return [columns.describe(short[key]).label for key in keys]


def counted(selection: Selection, column: str) -> str:
    """Return what one value is, for the note in a title."""
    return "one value per flow and run" if selection.locate(column)[0] is None else "all samples"
