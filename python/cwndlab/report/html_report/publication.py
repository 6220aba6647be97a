"""Published values beside ours: which rows of the results each is about, and how far apart they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from cwndlab import testbeds
from cwndlab.execution.resumption import changes
from cwndlab.experiment import suites
from cwndlab.report.html_report.facts import some
from cwndlab.report.plots.selection import floats
from cwndlab.results import columns, inferred_models
from cwndlab.results.labels import Labels
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds import loader


@dataclass(frozen=True)
class Comparison:
    """A published metric and ours, in its unit."""

    metric: str
    """What it is a metric of, in words."""
    published: float
    ours: tuple[float, float] | None
    """Lowest and highest value of ours over the combinations it is about, each a mean over repeats and flows;
    equal if it is about one only; None if these results hold none of them."""
    unit: str
    source: str
    note: str

    @property
    def difference_pct(self) -> float | None:
        """How far ours is from the published metric, in % of it; None unless ours is one value."""
        if self.ours is None or self.ours[0] != self.ours[1] or self.published == 0:
            return None
        return 100 * (self.ours[0] - self.published) / self.published


def suite_of(results: ResultSet) -> suites.Suite | None:
    """Return the suite these results are of, if any.

    Results that other tools left are of none, whatever their name; so are those of the tool loadlatency.
    """
    known = suites.suites() if results.header.testbed in testbeds.names() else []
    return next((suite for suite in known if suite.name == results.header.experiment), None)


def otherwise(suite: suites.Suite, results: ResultSet) -> list[str]:
    """Return sentences on combinations that were not run, and what else is not as in the suite."""
    stated = loader.load(suite.path)
    all_cells = math.prod(len(axis.rows) for axis in stated.axes)
    cells = len(results.arrow.group_by(results.keys).aggregate([])) if results.keys else 1
    swept = tuple(f"{key} " for axis in stated.axes for key in axis.keys)
    changed = [
        text
        for text in changes(stated.as_yaml(), results.experiment)
        if not text.startswith(("format ", "sweep", *swept))
    ]
    return [
        *([f"Only {cells} of the suite's {all_cells} combinations were run."] if cells < all_cells else []),
        *([f"The experiment is not the suite's as it stands: {some(changed)}."] if changed else []),
    ]


def findings(metrics: Sequence[suites.Metric], compared: Sequence[Comparison]) -> list[suites.Metric]:
    """Return the published metrics that no column of the summary stands beside."""
    beside = {(row.source, row.note) for row in compared}
    return [metric for metric in metrics if metric.note and (metric.source, metric.note) not in beside]


def compare(
    metrics: Sequence[suites.Metric], summary: pl.DataFrame, labels: Labels | None = None
) -> list[Comparison]:
    """Return the published values of columns of the summary beside ours; the others are `findings`.

    Combinations are named by the labels of their values.
    """
    labels = labels or Labels({})
    complete = summary.filter(pl.col("status") == "complete")
    numeric = columns.numeric_columns(summary)
    compared = []
    for metric in metrics:
        # A ratio compares two of our combinations, not one of them with the publication.
        if metric.value is None or metric.column not in numeric or metric.unit == "ratio":
            continue
        shown = columns.describe(metric.column)
        values = [str(labels.value(key, value)) for key, value in metric.cell.items()]
        named = ", ".join(map(inferred_models.marked, values)) or "all combinations"
        ours = _ours(metric, complete)
        compared.append(
            Comparison(f"{shown.words}, {named}", metric.value, ours, metric.unit, metric.source, metric.note)
        )
    return compared


def _ours(metric: suites.Metric, complete: pl.DataFrame) -> tuple[float, float] | None:
    rows = complete
    for key, value in metric.cell.items():
        if key not in rows.columns:
            return None
        rows = rows.filter(pl.col(key).cast(pl.String) == value)
    rows = rows.filter(pl.col(metric.column).is_not_null())
    if metric.column == "smoothness_hz":
        rows = rows.filter(pl.col("load_scenario").is_not_null())  # the scenario's, not one flow's
    if not rows.height:
        return None
    keys = columns.swept_keys(rows)
    groups = rows.group_by(keys, maintain_order=True) if keys else [((), rows)]
    means = [float(np.mean(floats(group[metric.column]))) for _, group in groups]
    return min(means), max(means)
