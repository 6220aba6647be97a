"""The facts from which several sections of a report are made, and the form of their metrics."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from functools import cached_property

import polars as pl

from cwndlab.analysis.runs import Chosen
from cwndlab.contract.scenario import Scenario
from cwndlab.report.html_report import pack
from cwndlab.report.live_page import link, serve
from cwndlab.report.plots import colours
from cwndlab.report.plots.selection import rate_window_s
from cwndlab.results import columns, inferred_models
from cwndlab.results.keys import distinguishing
from cwndlab.results.metrics import TOTALS
from cwndlab.results.resultset import ResultSet
from cwndlab.results.summary import RAN
from cwndlab.results.texttable import short_names
from cwndlab.results.union import Together

MAX_LIVE = 50
"""Number of runs of which the report says where they are in the live lab; each has to be planned again for
that.
"""

MAX_ROWS = 2000
"""Rows of the table of runs; the rest is in summary.csv."""


class Facts:
    """Facts of the results that several sections need."""

    def __init__(self, results: ResultSet) -> None:
        """Compute the facts that are asked for more than once."""
        self.results = results
        self.chosen = Chosen(results)
        self.summary = inferred_models.with_marks(results.labelled)
        self.keys = results.keys
        self.telling = distinguishing(self.summary, self.keys)
        """The swept keys that tell combinations apart; the others vary along with them."""
        self.short = short_names(self.telling)
        self.ran = self.summary.filter(pl.col("status").is_in(RAN))
        """The flows that were carried out, those too that had not done all when their run ended."""
        self.shown_runs = self.ran["run_id"].unique(maintain_order=True).to_list()
        self.flows = self.summary["flow"].unique(maintain_order=True).to_list()
        fitting, self.columns = pack.columns_for(len(self.shown_runs), len(self.flows))
        self.packed_runs = self.shown_runs[:fitting]

    @property
    def directory(self) -> str:
        """The results' directories as words for a shell."""
        words = self.results.arguments if isinstance(self.results, Together) else [str(self.results.path)]
        return " ".join(map(shlex.quote, words))

    @cached_property
    def scenario(self) -> Scenario | None:
        """The Scenario of the first run that was carried out."""
        first = next(iter(self.results.briefs), None)
        return None if first is None else self.results.record(first.run_id).scenario

    @cached_property
    def live(self) -> dict[str, str]:
        """Addresses in the live lab of the runs that it can show."""
        there = {brief.run_id for brief in self.results.briefs}
        names = {int(str(run_id).partition("-")[0]): str(run_id) for run_id in self.packed_runs[:MAX_LIVE]}
        found = {
            name: link.of_scenario(self.results.record(index).scenario)
            for index, name in names.items()
            if index in there
        }
        return {
            run_id: f"http://127.0.0.1:{serve.PORT}/#{address}"
            for run_id, address in found.items()
            if address
        }

    @cached_property
    def pens(self) -> tuple[str, dict[object, int]]:
        """Return (the swept key whose values have colours by meaning, place of each in the palette).

        The key is empty where the results, stacks and congestion controls are not what is swept.
        """
        meant = [key for key in self.telling if key.rpartition(".")[2] in ("results", "cc", "stack")]
        if not meant:
            return "", {}
        return meant[0], colours.places(meant[0], columns.ordered(self.summary[meant[0]].to_list()))

    @cached_property
    def duration_s(self) -> float:
        """The longest run."""
        return max((brief.duration_ns / 1e9 for brief in self.results.briefs), default=0.0)

    @cached_property
    def window_s(self) -> float:
        """Length of the throughput windows of the viewer: a second, less for short runs."""
        return rate_window_s(self.results)


def capital(text: str) -> str:
    """A sentence with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def plain(values: pl.Series, factor: float) -> list[float | None]:
    """Values in shown units, with the six digits a summary has."""
    return [None if value is None else float(f"{value * factor:.6g}") for value in values.to_list()]


def some(items: Sequence[str]) -> str:
    """The first of many items, and how many more there are."""
    return ", ".join(items[:20]) + (f" and {len(items) - 20} more" if len(items) > 20 else "")


def varying_metrics(summary: pl.DataFrame) -> list[str]:
    """The summary's metrics that hold any value; those of all flows together only where a run has several."""
    known = [name for name in columns.numeric_columns(summary) if not summary[name].is_null().all()]
    alone = summary["run_id"].is_unique().all()
    return [name for name in known if not (alone and name in TOTALS)]


def key_cell(value: object) -> tuple[str, float | str]:
    """A cell of a swept key, with what it is sorted by."""
    text = "–" if value is None else str(value)
    ((kind, amount, unit),) = columns.natural_key(value)
    # Behind the first of several numbers stands no unit.
    return text, amount if kind == 0 and not any(sign.isdigit() for sign in unit) else text


def distinct(values: pl.Series) -> list[str]:
    """The values of a column, each once, in order."""
    return [str(value) for value in columns.ordered(values.drop_nulls().to_list())]


def rounded(value: float) -> str:
    """Four significant digits, without an exponent where a reader does better without."""
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e4:
        return f"{value:.4g}"
    if 1e-7 <= abs(value) < 1e-4:
        return f"{value:.{3 - math.floor(math.log10(abs(value)))}f}".rstrip("0")
    return (
        f"{value:,.0f}".replace(",", "\u202f") if abs(value) < 1e9 and abs(value) >= 1e4 else f"{value:.3e}"
    )


def with_interval(mean: float, half: float) -> str:
    """A mean and the half width of its interval.

    To the interval's second significant digit, but of the mean at most four; an interval that ends beyond
    these has one digit, and is left out where it is what floating point makes of none.
    """
    if math.isnan(mean):
        return ""
    if math.isnan(half) or half <= 1e-9 * abs(mean):
        return rounded(mean)
    finest = -math.floor(math.log10(half))
    decimals = max(0, finest + 1)
    if mean:
        decimals = max(0, min(decimals, 3 - math.floor(math.log10(abs(mean)))))
    beyond = round(half, decimals) == 0
    return f"{mean:.{decimals}f} ± {half:.{finest if beyond else decimals}f}"
