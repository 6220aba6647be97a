"""Whether model and kernel are as close as is asked for: for each metric and flow of a cell, yes or no."""

from collections.abc import Mapping, Sequence

from cwndlab.analysis.validation.compare import ALL, METRICS, Metric, Row
from cwndlab.errors import InputError, nearest, one_of, shown
from cwndlab.experiment.condition import Condition
from cwndlab.results.expectations import Expectation, Outcome, outcomes
from cwndlab.results.labels import Labels
from cwndlab.results.resultset import ResultSet


def check(allowed: Mapping[str, float]) -> None:
    """Raise InputError for a metric that is not compared."""
    for name in allowed:
        if name not in METRICS:
            hint = nearest(name, METRICS)
            more = f" (hint: {hint})" if hint else ""
            raise InputError(f"--within: found the metric {shown(name)}; expected {one_of(METRICS)}{more}")


def within(metric: Metric, share: float) -> bool:
    """Whether the model differs from the kernel by at most that share of the kernel's metric."""
    return metric.error is not None and abs(metric.error) <= share


def judged(rows: Sequence[Row], allowed: Mapping[str, float]) -> list[Outcome]:
    """Judge each metric that may differ by a share at most, for each flow of each cell.

    As of `expect:`, a metric without a value is not as it should be.
    """
    found = []
    labels = Labels({key: [row.cell[key] for row in rows] for key in (rows[0].cell if rows else ())})
    for name, share in allowed.items():
        text = f"within {100 * share:g} % of the kernel's"
        wanted = Expectation(None, name, Condition(text, ((">=", -share), ("<=", share))))
        for row in rows:
            if row.flow != ALL:
                metric = row.metrics[name]
                against = () if within(metric, share) else (_apart(metric),)
                cell = {**row.cell, "flow": row.flow}
                found.append(Outcome(wanted, cell, labels.words(cell, list(cell)), against))
    return found


def expected(results: ResultSet, side: str) -> list[Outcome]:
    """Judge the expectations of the experiment itself on one side."""
    return [
        Outcome(
            each.expectation,
            {"side": side, **each.cell},
            f"side {side}{each.where and f', {each.where}'}",
            each.against,
        )
        for each in outcomes(results)
    ]


def _apart(metric: Metric) -> str:
    sides = [("model", metric.model), ("kernel", metric.kernel)]
    missing = [f"no {metric.name} of the {side}" for side, value in sides if value is None]
    if missing:
        return ", ".join(missing)
    values = ", ".join(f"{side} {value:.4g}" for side, value in sides)
    return values if metric.error is None else f"{values}, {metric.error:+.1%}"
