"""The answer to an experiment's question, from its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cwndlab.analysis import contrasts, effects
from cwndlab.analysis.comparison import Options
from cwndlab.analysis.contrasts import Selection
from cwndlab.analysis.effects import Answer
from cwndlab.errors import InputError
from cwndlab.results import columns, loadlatency, metrics, questions, together
from cwndlab.results.keys import distinguishing, whole_key
from cwndlab.results.questions import Aim

if TYPE_CHECKING:
    import polars as pl

    from cwndlab.results.resultset import ResultSet

USUAL = ("rtt_p95_ms", "retransmit_rate")
"""What a reader cares for beside the first metric there is, where nobody says what answers the question."""


def answers(results: ResultSet) -> list[Answer]:
    """The answer for each pair of values that the experiment's question is about.

    Where the file does not say what answers it, that is the first swept key that is no quantity, and of
    goodput, RTT and losses what differs most. None of results without a sweep.
    """
    rows = results.summary
    aims = [aim for aim in questions.of(results).aims if _measured(rows, aim.metric)]
    swept = columns.swept_keys(rows)
    keys = [key for key in distinguishing(rows, swept) if not loadlatency.is_scenario(key)]
    if not keys:
        return []
    groups: dict[str, list[Aim]] = {}
    for aim in aims or _usual(rows):
        # Of results side by side, these are what is compared.
        own = aim.by is None or together.KEY in keys
        key = _key(results, keys) if own else whole_key("answers: the swept key", str(aim.by), swept, rows)
        groups.setdefault(key, []).append(aim)
    return [
        answer
        for key, of_key in groups.items()
        for answer in _of_key(results, key, of_key, _side_name(results, key, keys), asked=bool(aims))
    ]


def _of_key(results: ResultSet, key: str, aims: Sequence[Aim], name: str, *, asked: bool) -> Iterator[Answer]:
    values = columns.ordered(results.summary[key].drop_nulls().to_list())
    quantities = all(columns.natural_key(value)[0][0] == 0 for value in values)
    baseline = str(values[0]) if quantities else None
    try:
        found = contrasts.by_key(
            results, key, Selection([aim.metric for aim in aims]), Options(within=False), baseline=baseline
        )
    except InputError:
        # Nothing is left to compare: all runs of its values but one failed, or no flow has the metric.
        return
    better = {aim.metric: aim.better for aim in aims}
    for answer in effects.of_comparisons(found.each, found.overall, better, key=name, asked=asked):
        # Of quantities the ends are compared; what is between them lies between.
        if not quantities or answer.effects[0].each[0].b.label == str(values[-1]):
            yield replace(answer, by=key)


def _key(results: ResultSet, keys: Sequence[str]) -> str:
    """The swept key that is asked about first."""
    for key in keys:
        if key == together.KEY or any(
            columns.natural_key(value)[0][0] for value in results.summary[key].unique().to_list()
        ):
            return key
    return keys[0]


def _usual(rows: pl.DataFrame) -> list[Aim]:
    """Of the metrics that were measured, and are no means over unlike flows, those a reader cares for."""
    alike = rows["app"].n_unique() == 1
    first = [name for name in metrics.FIRST_CHOICE if _measured(rows, name)][:1]
    chosen = dict.fromkeys([*first, *(name for name in USUAL if alike and _measured(rows, name))])
    return [Aim(name, metrics.BY_NAME[name].better) for name in chosen]


def _measured(rows: pl.DataFrame, metric: str) -> bool:
    return metric in rows.columns and rows[metric].count() > 0


def _side_name(results: ResultSet, key: str, among: Sequence[str]) -> str:
    """The name of a key before its values, where they do not say what they are."""
    value = results.summary[key].drop_nulls()[0]
    label = str(results.labels.value(key, value))
    shown = results.labels.words({key: value}, [key], among=among)
    return shown.removesuffix(label).strip() if shown.endswith(f" {label}") else ""
