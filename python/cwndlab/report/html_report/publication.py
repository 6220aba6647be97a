"""Published values beside cwndlab's: which rows of the results each is about, and how far apart they are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from markupsafe import Markup

from cwndlab import testbeds
from cwndlab.analysis.claims import Judgement, claims, judge, known
from cwndlab.analysis.claims.causes import Known
from cwndlab.analysis.claims.judge import AGREE, CANNOT_TELL, DIFFER
from cwndlab.execution.resumption import changes
from cwndlab.experiment import suites
from cwndlab.report.html_report.facts import rounded, some
from cwndlab.report.html_report.html import Table
from cwndlab.report.plots.selection import floats
from cwndlab.results import columns, inferred_models
from cwndlab.results.labels import Labels
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds import loader


@dataclass(frozen=True)
class Comparison:
    """A published metric and cwndlab's, in its unit."""

    metric: str
    """Metric that is compared, in words."""
    published: float
    ours: tuple[float, float] | None
    """Lowest and highest value of cwndlab over the combinations that the published metric is about.

    Each is a mean over repeats and flows; both are equal for a single combination. None if these results hold
    none of the combinations.
    """
    unit: str
    source: str
    note: str

    @property
    def difference_pct(self) -> float | None:
        """Distance of cwndlab's metric from the published one, in % of it. None unless cwndlab's is one
        value.
        """
        if self.ours is None or self.ours[0] != self.ours[1] or self.published == 0:
            return None
        return 100 * (self.ours[0] - self.published) / self.published


def suite_of(results: ResultSet) -> suites.Suite | None:
    """Return the suite these results are of, if any.

    Results that other tools left are of none, whatever their name; so are those of the tool loadlatency.
    """
    known = suites.suites() if results.header.testbed in testbeds.names() else []
    return next((suite for suite in known if suite.name == results.header.experiment), None)


def findings(suite: suites.Suite, results: ResultSet) -> tuple[list[str], Table | None]:
    """Return (sentences above it, each finding of the suite's publication beside cwndlab's)."""
    stated = [claim for claim in claims() if claim.suite == suite.name]
    if not stated:
        return [], None
    judged = judge(stated, {suite.name: results})
    judged.sort(key=lambda each: _ORDER.index(each.verdict))
    causes = known()
    heads = ["finding", "published", "ours", "verdict, and why", "agrees if", "where"]
    counts = Counter(each.verdict for each in judged)
    said = [f"{counts[verdict]} {words}" for verdict, words in _COUNTED.items() if counts[verdict]]
    caption = f"{len(judged)} findings: {', '.join(said)}."
    cells, changed = _otherwise(suite, results)
    unknown = "the experiment is another" if changed else "why was not looked into"
    rows = [_finding(each, causes.get(each.claim.name), unknown) for each in judged]
    return [*cells, *changed], Table(heads, rows, caption, sortable=True, filterable=True)


_ORDER = (DIFFER, CANNOT_TELL, AGREE)

_COUNTED = {AGREE: "agree", DIFFER: "differ", CANNOT_TELL: "cannot be told from these runs"}

_VERDICTS = {AGREE: "agrees", DIFFER: "differs", CANNOT_TELL: "cannot tell"}


def _finding(judged: Judgement, cause: Known | None, unknown: str) -> list[object]:
    claim = judged.claim
    compared = claim.metric + "".join(f"; {name} is inferred" for name in judged.inferred)
    why = judged.reason
    if judged.verdict == DIFFER and not why:
        why = cause.words(claim.trial) if cause and claim.trial else unknown
    return [
        (Markup('{}<br><span class="hint">{}</span>').format(claim.says, compared), claim.says),
        _amount(claim.published, claim.unit),
        _amount(judged.value, claim.unit),
        _VERDICTS[judged.verdict] + (f": {why}" if why else ""),
        f"{claim.expected} {_unit(claim.unit)}".strip(),
        claim.place,
    ]


def _amount(value: float | None, unit: str) -> tuple[str, float]:
    return ("", math.nan) if value is None else (f"{rounded(value)} {_unit(unit)}".strip(), value)


def _unit(unit: str) -> str:
    """A unit as it stands behind a number: a ratio has none."""
    return "" if unit == "ratio" else unit


def _otherwise(suite: suites.Suite, results: ResultSet) -> tuple[list[str], list[str]]:
    """Return sentences on (combinations that were not run, what else is not as in the suite)."""
    stated = loader.load(suite.path)
    all_cells = math.prod(len(axis.rows) for axis in stated.axes)
    cells = len(results.arrow.group_by(results.keys, use_threads=False).aggregate([])) if results.keys else 1
    left = (
        f"Only {cells} of the suite's {all_cells} combinations were run: a finding over several is looked"
        " at in those, one over others cannot be told."
    )
    swept = tuple(f"{key} " for axis in stated.axes for key in axis.keys)
    changed = [
        text
        for text in changes(stated.as_yaml(), results.experiment)
        if not text.startswith(("format ", "sweep", *swept))
    ]
    said = [f"The experiment is not the suite's as it stands: {some(changed)}."] if changed else []
    return [left] if cells < all_cells else [], said


def compare(
    metrics: Sequence[suites.Metric], summary: pl.DataFrame, labels: Labels | None = None
) -> list[Comparison]:
    """Return the published values of columns of the summary beside cwndlab's; the others are findings.

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
