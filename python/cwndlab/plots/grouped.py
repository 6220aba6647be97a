"""What the kinds over a key share: groups of runs with equal values of the chosen keys, and their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from cwndlab.analysis.numeric import Floats
from cwndlab.errors import InputError
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
    return sorted(found, key=lambda group: [columns.natural_key(name) for name in group.names])


@dataclass(frozen=True)
class Layout:
    """Where groups stand side by side: the last key as colours within a place, the others along the axis.

    A single key is along the axis.
    """

    places: list[str]
    """Values of the keys along the axis, a line for each."""
    series: list[str]
    """Values of the last key; empty where there is one only."""

    def slot(self, group: Group) -> tuple[float, float, int]:
        """Return (position on the axis, width, number of the colour) of a group."""
        count = max(1, len(self.series))
        width = 0.7 / count
        colour = self.series.index(group.names[-1]) if self.series else 0
        centre = self.places.index(_place(group))
        return centre + (colour - (count - 1) / 2) * width, 0.84 * width, colour


def layout(found: Sequence[Group]) -> Layout:
    """Return the layout of groups of any number of keys."""
    places = dict.fromkeys(_place(group) for group in found)
    series = columns.ordered(group.names[-1] for group in found if len(group.names) > 1)
    return Layout(list(places), [str(name) for name in series])


def _place(group: Group) -> str:
    return "\n".join(group.names[:-1] or group.names) or "all runs"


def label_axis(axis: Axes, layout: Layout, keys: Sequence[str]) -> None:
    """Write the values of the keys along the axis below it, slanted if they would run into each other."""
    axis.set_xticks(range(len(layout.places)), layout.places)
    longest = max(len(line) for place in layout.places for line in place.splitlines() or [""])
    if longest * len(layout.places) > 90:
        axis.tick_params(axis="x", labelrotation=35)
    axis.grid(visible=False, axis="x")
    axis.set_xlim(-0.6, len(layout.places) - 0.4)
    axis.set_xlabel(in_words(keys[:-1] or keys))


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
