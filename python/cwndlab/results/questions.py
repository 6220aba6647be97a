"""The question of an experiment, the metrics that answer it, and which way each is better."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from cwndlab.errors import nearest, one_of, shown, together
from cwndlab.experiment import locate
from cwndlab.experiment.units import BadValue
from cwndlab.results import metrics

if TYPE_CHECKING:
    from cwndlab.experiment.experiment import Experiment
    from cwndlab.results.resultset import ResultSet


@dataclass(frozen=True)
class Aim:
    """A metric that answers the question."""

    metric: str
    better: str | None = None
    """`higher` or `lower`. None where neither is."""
    by: str | None = None
    """The swept key whose values are compared; None: the one that is asked about first."""


@dataclass(frozen=True)
class Question:
    """Question of an experiment."""

    text: str
    """Question in words; empty where the file says nothing."""
    aims: tuple[Aim, ...] = ()
    """Metrics that answer the question. Empty where the file does not say."""


def check(experiment: Experiment) -> None:
    """Raise `ExperimentError` for metrics and swept keys that do not exist, and where no way is better."""
    keys = [key for axis in experiment.axes for key in axis.columns]
    found = []
    for number, answer in enumerate(experiment.spec.answers or ()):
        for key, bad in _faults(answer.metric, answer.better, answer.by, keys, experiment.spec.metrics):
            found.append(locate.fault(experiment.tree, ("answers", number, key), bad))
    if found:
        raise together(found)


def of(results: ResultSet) -> Question:
    """The question that results were run to answer; without one, their description."""
    try:
        content = next(yaml.safe_load_all(results.experiment), None)
    except yaml.YAMLError:
        content = None  # of an import it may be anything
    if not isinstance(content, dict):
        return Question("")
    answers = content.get("answers")
    aims = [_aim(each) for each in answers if isinstance(each, dict)] if isinstance(answers, list) else []
    text = str(content.get("question") or content.get("description") or "")
    return Question(text, tuple(aims))


def _aim(answer: dict[str, Any]) -> Aim:
    name, by = str(answer.get("metric")), answer.get("by")
    known = metrics.BY_NAME[name].better if name in metrics.BY_NAME else None
    better = answer.get("better") or known
    return Aim(name, None if better is None else str(better), None if by is None else str(by))


def _faults(
    metric: str, better: str | None, by: str | None, keys: Sequence[str], own: Collection[str]
) -> Iterator[tuple[str, BadValue]]:
    names = [*metrics.NUMBERS, *own]
    known = metrics.BY_NAME.get(metric)
    if metric not in names:
        hint = nearest(metric, names)
        yield "metric", BadValue(shown(metric), "a metric of the summary, such as goodput_mbps", hint)
    elif better is None and (known is None or known.better is None):
        wanted = "better: higher or better: lower beside it, as neither is better by itself"
        yield "metric", BadValue(f"{metric} alone", wanted)
    if by is not None and not any(key == by or key.endswith(f".{by}") for key in keys):
        wanted = one_of(keys) if keys else "a swept key, of which there is none"
        yield "by", BadValue(shown(by), wanted, nearest(by, keys))
