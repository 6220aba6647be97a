"""Published values beside ours: which rows of the results each is about, and how far apart they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from cwndlab import suites, testbeds
from cwndlab.plots.selection import floats
from cwndlab.results import columns, inferred
from cwndlab.results.resultset import ResultSet


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


def metrics_of(results: ResultSet) -> list[suites.Metric]:
    """Return the published values of the suite these results are of; none if they are of no suite.

    Results that other tools left are of none, whatever their name; so are those of the tool loadlatency.
    """
    header = results.header
    known = suites.suites() if header.testbed in testbeds.NAMES else []
    return next((suite.published() for suite in known if suite.name == header.experiment), [])


def compare(
    metrics: Sequence[suites.Metric], summary: pl.DataFrame
) -> tuple[list[Comparison], list[suites.Metric]]:
    """Return (comparisons of those with a value of a column of the summary, the other findings)."""
    complete = summary.filter(pl.col("status") == "complete")
    numeric = columns.numeric_columns(summary)
    compared, others = [], []
    for metric in metrics:
        # A ratio compares two of our combinations, not one of them with the publication.
        if metric.value is None or metric.column not in numeric or metric.unit == "ratio":
            others.append(metric)
            continue
        shown = columns.describe(metric.column)
        named = ", ".join(map(inferred.marked, metric.cell.values())) or "all combinations"
        ours = _ours(metric, complete)
        compared.append(
            Comparison(f"{shown.words}, {named}", metric.value, ours, metric.unit, metric.source, metric.note)
        )
    return compared, others


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
