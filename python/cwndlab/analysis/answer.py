"""The answer to an experiment's question, from its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cwndlab.analysis import contrasts, effects
from cwndlab.analysis.comparison import Options
from cwndlab.analysis.contrasts import Comparisons, NothingLeftError, Selection
from cwndlab.analysis.effects import Answer
from cwndlab.analysis.runs import Chosen
from cwndlab.results import columns, loadlatency, metrics, questions, union
from cwndlab.results.keys import distinguishing, whole_key
from cwndlab.results.questions import Aim

if TYPE_CHECKING:
    import polars as pl

    from cwndlab.results.resultset import ResultSet

USUAL = ("response_p95_ms", "one_way_p95_ms", "rtt_p95_ms", "retransmit_rate")
"""Metrics a reader cares for beside the first one there is, where nobody says what answers the question."""


def answers(results: ResultSet, among: Chosen | None = None) -> list[Answer]:
    """The answer for each pair of values that the experiment's question is about.

    Where the file does not say what answers it, that is the first swept key that is no quantity, and of
    goodput, RTT and losses what differs most. None of results without a sweep.
    """
    rows = results.summary
    asked = _asked(results)
    swept = columns.swept_keys(rows)
    keys = [key for key in distinguishing(rows, swept) if not loadlatency.is_scenario(key)]
    if not keys:
        return []
    groups: dict[str, list[Aim]] = {}
    for aim in asked or _usual(rows):
        # Of results side by side, these are what is compared.
        own = aim.by is None or union.KEY in keys
        key = _key(results, keys) if own else whole_key("answers: the swept key", str(aim.by), swept, rows)
        groups.setdefault(key, []).append(aim)
    return [
        answer
        for key, of_key in groups.items()
        for answer in _of_key(results, key, of_key, _side_name(results, key, keys), among, asked=bool(asked))
    ]


def aims(results: ResultSet, key: str) -> list[Aim]:
    """The metrics that answer the experiment's question, as they are meant of this swept key if they are."""
    asked = _asked(results)
    own = [aim for aim in asked if aim.by is None or key == aim.by or key.endswith(f".{aim.by}")]
    return list({aim.metric: aim for aim in [*asked, *own]}.values())


def _of_key(
    results: ResultSet, key: str, aims: Sequence[Aim], name: str, among: Chosen | None, *, asked: bool
) -> Iterator[Answer]:
    values = columns.ordered(results.summary[key].drop_nulls().to_list())
    quantities = all(columns.natural_key(value)[0][0] == 0 for value in values)
    baseline = str(values[0]) if quantities else None
    for answer in by_key(results, key, aims, name=name, asked=asked, baseline=baseline, among=among)[1]:
        # Of quantities the ends are compared; what is between them lies between.
        if not quantities or answer.effects[0].b == str(values[-1]):
            yield answer


def by_key(
    results: ResultSet,
    key: str,
    aims: Sequence[Aim],
    *,
    name: str = "",
    asked: bool = True,
    baseline: str | None = None,
    among: Chosen | None = None,
) -> tuple[list[Comparisons], list[Answer]]:
    """Compare the values of a key in some metrics: the comparisons, and an answer for each pair.

    A metric whose mean over a run's flows would mix applications is compared within each of them. Without
    aims the metric is the one that `compare` takes. Nothing where nothing is left to compare.
    """
    order = {aim.metric: place for place, aim in enumerate(aims)}
    groups: dict[str | None, list[Aim]] = {}
    for aim in aims:
        for app in _apps(results.summary, aim.metric):
            groups.setdefault(app, []).append(aim)
    comparisons: list[Comparisons] = []
    pairs: dict[tuple[str, str], Answer] = {}
    for app, of_app in (groups or {None: []}).items():
        where = None if app is None else {"app": [app]}
        chosen = Selection([aim.metric for aim in of_app], where=where)
        try:
            found = contrasts.by_key(
                results, key, chosen, Options(within=False), baseline=baseline, among=among
            )
        except NothingLeftError:
            continue
        comparisons.append(found)
        for answer in effects.of_comparisons(
            found.each,
            found.overall,
            {aim.metric: aim.better for aim in of_app},
            alone=found.alone,
            key=name,
            asked=asked,
            called={aim.metric: called for aim in of_app if (called := _called(results, aim.metric, app))},
        ):
            pair = answer.effects[0].a, answer.effects[0].b
            before = pairs[pair].effects if pair in pairs else []
            told = sorted([*before, *answer.effects], key=lambda effect: order.get(effect.metric, 0))
            pairs[pair] = replace(answer, by=key, effects=told)
    return comparisons, list(pairs.values())


def _apps(rows: pl.DataFrame, metric: str) -> list[str] | list[None]:
    """The applications that a metric is compared within; None: all flows of a run together."""
    known = metrics.BY_NAME.get(metric)
    having = rows.drop_nulls(metric)
    if (known is not None and not known.averages) or having["run_id"].n_unique() == having.height:
        return [None]
    if having.select("run_id", "app").unique()["run_id"].is_unique().all():
        return [None]
    return having["app"].unique(maintain_order=True).to_list()


def _called(results: ResultSet, metric: str, app: str | None) -> str:
    """Name a metric where its words do not say all: the rate asked for, the application."""
    rate = _rate(results) if metric == "time_to_rate_s" else ""
    words = f"time to reach {rate}" if rate else ""
    if app is None:
        return words
    return f"{words or effects.words(metric)} of {app}"


def _rate(results: ResultSet) -> str:
    """The rate that `time_to_rate_s` waits for, in words; empty where it is not one."""
    first = next(iter(results.briefs), None)
    if first is None or any(key.endswith("time_to") for key in results.keys):
        return ""
    rate = results.record(first.run_id).scenario["measure"].get("time_to_bps")
    return f"{rate / 1e6:g} Mbit/s" if rate else ""


def _key(results: ResultSet, keys: Sequence[str]) -> str:
    """The swept key that is asked about first."""
    for key in keys:
        if key == union.KEY or any(
            columns.natural_key(value)[0][0] for value in results.summary[key].unique().to_list()
        ):
            return key
    return keys[0]


def _usual(rows: pl.DataFrame) -> list[Aim]:
    """Return the metrics a reader cares for that were measured."""
    first = [name for name in metrics.FIRST_CHOICE if _measured(rows, name)][:1]
    chosen = dict.fromkeys([*first, *(name for name in USUAL if _measured(rows, name))])
    return [Aim(name, metrics.BY_NAME[name].better) for name in chosen]


def _asked(results: ResultSet) -> list[Aim]:
    """Return the metrics that the experiment says answer its question, where they were measured."""
    return [aim for aim in questions.of(results).aims if _measured(results.summary, aim.metric)]


def _measured(rows: pl.DataFrame, metric: str) -> bool:
    return metric in rows.columns and rows[metric].count() > 0


def _side_name(results: ResultSet, key: str, among: Sequence[str]) -> str:
    """The name of a key before its values, where they do not say what they are."""
    value = results.summary[key].drop_nulls()[0]
    label = str(results.labels.value(key, value))
    shown = results.labels.words({key: value}, [key], among=among)
    return shown.removesuffix(label).strip() if shown.endswith(f" {label}") else ""
