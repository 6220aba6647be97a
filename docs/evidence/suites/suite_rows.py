"""Rows of results and published values, as the tables of the pages put them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import mean, stdev
from typing import Any

import numpy as np
from scipy.stats import t as student

from cwndlab.experiment.suites import suite
from cwndlab.results.catalogue import MISSING
from cwndlab.results.resultset import ResultSet

Row = dict[str, Any]

Floats = np.ndarray[Any, np.dtype[np.float64]]


# Reading results ---


def of_suite(results: ResultSet, *names: str) -> ResultSet:
    """The same results; raises ValueError if they are not of a suite of these names."""
    if results.header.experiment not in names:
        raise ValueError(f"{results.path} holds {results.header.experiment}, not {' or '.join(names)}")
    return results


def flows(several: Iterable[ResultSet]) -> list[dict[str, Row]]:
    """Each run's rows of the summary, by flow; the runs that there are, in the order of their plans."""
    runs: list[dict[str, Row]] = []
    for results in several:
        found: dict[str, dict[str, Row]] = {}
        for row in results.summary.iter_rows(named=True):
            found.setdefault(row["run_id"], {})[row["flow"]] = row
        runs += [run for run in found.values() if all(row["status"] != MISSING for row in run.values())]
    return runs


def runs_of(several: Iterable[ResultSet], name: str) -> list[dict[str, Row]]:
    """The runs of several results of a suite, as `flows` gives them."""
    return flows(of_suite(results, name) for results in several)


def published_of(name: str, *keys: str) -> dict[tuple[str, ...], float]:
    """The published goodputs of a suite in Mbit/s, by these keys of their cells."""
    return {
        tuple(metric.cell[key] for key in keys): metric.value
        for metric in suite(name).published()
        if metric.column == "goodput_mbps" and metric.value is not None
    }


def grouped(runs: Iterable[dict[str, Row]], *keys: str) -> dict[tuple[str, ...], list[dict[str, Row]]]:
    """Runs by the values of these columns of their first flow, in the order they come in."""
    groups: dict[tuple[str, ...], list[dict[str, Row]]] = {}
    for run in runs:
        first = next(iter(run.values()))
        groups.setdefault(tuple(str(first[key]) for key in keys), []).append(run)
    return groups


def column(
    runs: Iterable[dict[str, Row]], name: str, of: Callable[[Sequence[float]], float] = sum
) -> list[float]:
    """A metric of each run: `of` the values of all its flows; a flow without the metric counts as none."""
    return [of([row[name] or 0.0 for row in run.values()]) for run in runs]


def interval(values: Sequence[float]) -> str:
    """The mean with its 95 % interval by Student's t, as `mean ± half`; of a single value without."""
    if len(values) < 2:
        return f"{mean(values):.0f}"
    half = student.ppf(0.975, len(values) - 1) * stdev(values) / len(values) ** 0.5
    return f"{mean(values):.0f} ± {half:.0f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int) -> list[str]:
    """A Markdown table whose first `words` columns are text and the others numbers."""
    rule = ["---"] * words + ["---:"] * (len(head) - words)
    return ["| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)]
