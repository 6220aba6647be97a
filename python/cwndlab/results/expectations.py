"""Whether results are as their experiment expects them: for each expectation and each cell, yes or no.

An expectation holds in a cell if it holds in every run of the cell, for every flow that it is about. A run
that failed or is missing is not as expected, and neither is a metric without a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from cwndlab.errors import InputError, nearest, one_of, printable, shown, together
from cwndlab.experiment import condition, locate
from cwndlab.experiment.condition import Condition
from cwndlab.experiment.experiment import Experiment
from cwndlab.experiment.units import BadValue
from cwndlab.results import user_metrics
from cwndlab.results.resultset import ResultSet
from cwndlab.results.summary import CARRIED_OUT

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected value of a metric: for one flow (and its copies), or, where `flow` is None, for every flow
    that has it.
    """

    flow: str | None
    metric: str
    condition: Condition

    @property
    def text(self) -> str:
        """Text of the expectation in the experiment file."""
        return f"{'' if self.flow is None else f'flows.{self.flow}.'}{self.metric} {self.condition.text}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of an expectation in one cell."""

    expectation: Expectation
    cell: dict[str, str]
    where: str
    """The cell in words; empty for the only one there is."""
    against: tuple[str, ...]
    """Flows of each run that are not as expected, with what was found."""

    @property
    def holds(self) -> bool:
        """Whether it holds in every run."""
        return not self.against


def check(experiment: Experiment) -> None:
    """Raise `ExperimentError` for metrics or flows that do not exist."""
    flows = [flow.name or f"f{number}" for number, flow in enumerate(experiment.spec.flows, 1)]
    found = []
    for key in experiment.spec.expect:
        try:
            _named(key, flows, user_metrics.numbers(experiment.spec.metrics))
        except BadValue as bad:
            found.append(locate.fault(experiment.tree, ("expect", key), bad))
    if found:
        raise together(found)


def outcomes(results: ResultSet) -> list[Outcome]:
    """Judge every expectation in every cell, in the order of the plan; empty where nothing is expected.

    Raises InputError where experiment.yaml says what cannot be.
    """
    wanted, keys = _of(results), results.header.keys
    if not wanted:
        return []
    cells = results.summary.partition_by(keys, maintain_order=True) if keys else [results.summary]
    found = []
    for rows in cells:
        cell = {key: str(rows[key][0]) for key in keys}
        where = results.labels.words(cell, keys)
        found += [Outcome(each, cell, where, tuple(_against(each, rows))) for each in wanted]
    return found


def text(found: Sequence[Outcome]) -> str:
    """A line for each expectation, and one for each cell in which it does not hold; empty without any."""
    lines = []
    for expectation in dict.fromkeys(outcome.expectation for outcome in found):
        own = [outcome for outcome in found if outcome.expectation == expectation]
        held = sum(outcome.holds for outcome in own)
        where = f" in {held} of {len(own)} cells" if len(own) > 1 else ""
        lines.append(f"{'holds' if held == len(own) else 'FAILS'}{where}: {expectation.text}")
        lines += [f"  {failed(outcome)}" for outcome in own if not outcome.holds]
    return "\n".join(lines)


def failed(outcome: Outcome) -> str:
    """The cell in which an expectation does not hold, and what was found there."""
    more = len(outcome.against) - 1
    return f"{label(outcome)}{outcome.against[0]}{f' (and {more} more)' if more else ''}"


def label(outcome: Outcome) -> str:
    """The swept values of a cell, ready to stand before a sentence; empty for the only cell there is."""
    return outcome.where and f"{outcome.where}, "


def _of(results: ResultSet) -> list[Expectation]:
    """The expectations that results were run with."""
    try:
        content = yaml.safe_load(results.experiment)
    except yaml.YAMLError:
        return []  # of an import it may be anything
    expected = content.get("expect") if isinstance(content, dict) else None
    if not isinstance(expected, dict) or not expected:
        return []
    flows = list(dict.fromkeys(map(str, results.arrow["flow"].to_pylist())))
    known = user_metrics.numbers(results.header.metrics or ())
    found = []
    for key, wanted in expected.items():
        try:
            found.append(Expectation(*_named(str(key), flows, known), condition.parse(str(wanted))))
        except BadValue as bad:
            place = f"{results.path / 'experiment.yaml'}: expect.{printable(str(key))}"
            raise InputError(f"{place}: {bad}") from None
    return found


def _named(key: str, flows: Sequence[str], known: Sequence[str]) -> tuple[str | None, str]:
    """The flow and the metric of `flows.NAME.METRIC`; the flow is None in `METRIC`. Raises `BadValue`."""
    flow, metric = None, key
    if key.startswith("flows."):
        flow, _, metric = key.removeprefix("flows.").rpartition(".")
        if not any(name in (flow, f"{flow}.{name.rpartition('.')[2]}") for name in flows):
            raise BadValue(f"the flow {shown(flow)}", one_of(flows), nearest(flow, flows), of_key=True)
    if metric not in known:
        expected, hint = "a metric of the summary, such as goodput_mbps", nearest(metric, known)
        raise BadValue(f"the metric {shown(metric)}", expected, hint, of_key=True)
    return flow, metric


def _against(expectation: Expectation, rows: pl.DataFrame) -> list[str]:
    """List the values that are not as expected in a cell."""
    flow, metric = expectation.flow, expectation.metric
    if flow is not None:
        rows = rows.filter((rows["flow"] == flow) | rows["flow"].str.starts_with(f"{flow}."))
    found = []
    for run in rows.partition_by("run_id", maintain_order=True):
        name = f"run {str(run['run_id'][0]).partition('-')[0]}"
        if not run["status"].is_in(CARRIED_OUT).all():
            found.append(f"{name}: {run['status'][0]}")
            continue
        values = run.select("flow", metric).drop_nulls()
        if values.is_empty():
            found.append(f"{name}: no {metric}")
        found += [
            f"{name}, flow {own}: {value:g}"
            for own, value in values.iter_rows()
            if not expectation.condition.holds(value)
        ]
    return found
