"""The change from one value of a key to another, over all combinations of the rest, in words.

The typical change, the smallest and the largest with where they are, and in how many combinations which side
is ahead.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cwndlab.analysis import amounts, comparison
from cwndlab.analysis.comparison import Comparison, Kind, OneSided
from cwndlab.analysis.distributions import t_quantile
from cwndlab.analysis.runs import GOODPUT, Run
from cwndlab.results import columns, metrics

PRACTICAL = 0.01
"""Share by which a metric has to change to be told where nobody asked for it; of per cents, a tenth of a
point."""

MANY_TIMES = 10
"""Ratio from which on a change, and what else stands in its sentence, is told as such and not in per cent."""

MAX_PLACES = 3
"""Combinations that are named in which a side has none of a metric."""

SINGLE = "one run each"

SHIFT = 0.05
"""Share by which a flow's goodput has to change to be told beside that of all flows together."""

MAX_FLOWS = 4
"""Flows that are each told; of more, those that change least and most."""

_EXACT = {Kind.IDENTICAL, Kind.DETERMINISTIC}
"""Kinds of comparisons in which no draw moves a run."""


@dataclass(frozen=True)
class Effect:
    """The change of one metric from a to b."""

    metric: str
    a: str
    """Label of that side."""
    b: str
    each: Sequence[Comparison]
    """Comparisons in every combination in which both sides have the metric; empty if there is no such."""
    overall: Comparison | None
    """Over all of them, where repeats allow that."""
    better: str | None
    """`higher` or `lower`, if one is."""
    alone: Sequence[OneSided] = ()
    """The combinations in which only one side has it."""
    called: str = ""
    """Name of the metric instead of its own words."""

    @property
    def words(self) -> str:
        """The metric as a sentence names it."""
        over = comparison.mean_over(self.each[0].contrast, self.metric) if self.each else ""
        return (self.called or words(self.metric)) + (f" ({over})" if over else "")

    @property
    def ratios(self) -> bool:
        """Whether changes are told as shares; else as differences in the metric's unit."""
        values = [side.values for found in self.each for side in (found.a, found.b)]
        return bool(values) and comparison.has_ratios(self.metric, np.concatenate(values))

    @property
    def changes(self) -> list[float]:
        """The change in each combination: b over a less 1, or b less a."""
        if self.ratios:
            return [found.b.mean / found.a.mean - 1 for found in self.each]
        return [found.difference for found in self.each]

    @property
    def typical(self) -> float:
        """Geometric mean of the paired ratios, less 1; or mean of the differences; NaN of none."""
        if not self.each:
            return math.nan
        if self.ratios:
            return math.expm1(sum(map(math.log1p, self.changes)) / len(self.each))
        return sum(self.changes) / len(self.each)

    @property
    def weight(self) -> float:
        """Size of the change in practice, whichever way: as a share, of per cents a tenth of a point as 1 %.

        Infinite where only one side has it in some combination, and where `shifts` has something to tell.
        """
        if self.alone or self.shifts:
            return math.inf
        if self.ratios:
            return sum(abs(math.log1p(change)) for change in self.changes) / len(self.each)
        mean = sum(map(abs, self.changes)) / len(self.each)
        if columns.describe(self.metric).unit == "%":
            return mean * columns.describe(self.metric).factor / 10
        level = max(found.a.mean + found.b.mean for found in self.each) / 2
        return mean / level if level > 0 else 0.0

    @property
    def shifts(self) -> dict[str, float]:
        """Change of each flow's goodput as a share, of those that chance does not explain.

        Empty where the sum of the flows shows as much.
        """
        if self.metric != GOODPUT or not self.each:
            return {}
        pairs = [(found.contrast.a.runs, found.contrast.b.runs) for found in self.each]
        names = list(pairs[0][0][0].flows)
        if any(list(run.flows) != names for pair in pairs for side in pair for run in side):
            return {}
        level = (1 - self.each[0].confidence) / 2 / max(1, len(names))
        logs = {name: _typical_log(pairs, name, level) for name in names}
        shares = {name: math.expm1(log) for name, log in logs.items() if log is not None}
        hidden = any(abs(change) > max(SHIFT, 2 * abs(self.typical)) for change in shares.values())
        return shares if hidden else {}

    @property
    def good(self) -> bool | None:
        """Whether b is typically better. None where neither way is, nothing changes, or one side has none."""
        if self.better is None or not self.typical or math.isnan(self.typical):
            return None
        return (self.typical > 0) == (self.better == "higher")

    @property
    def status(self) -> str:
        """Certainty of the typical change, in a few words; empty where there is none."""
        if not self.each:
            return ""
        kinds = {found.kind for found in self.each}
        if kinds <= _EXACT:
            return "exact"
        found = self.each[0] if len(self.each) == 1 else self.overall
        if found is not None and found.kind is not Kind.SINGLE:
            return _sureness(found)
        if Kind.SINGLE in kinds:
            return SINGLE
        proven = sum(each.kind is Kind.DIFFERENCE for each in self.each)
        return f"proven in {proven} of {len(self.each)}"

    def is_manifold(self, change: float) -> bool:
        """Whether a change is told as a ratio."""
        return self.ratios and change >= MANY_TIMES - 1

    def told(self, change: float, *, times: bool = False) -> str:
        """A change in words; `times`: shares as ratios, as others of the sentence are."""
        if not change:
            return "the same"
        if self.ratios and (times or self.is_manifold(change)):
            return f"{amounts.ratio(change)} times as high"
        shown = columns.describe(self.metric)
        size = amounts.digits(abs(change) * (100 if self.ratios else shown.factor))
        unit = " %" if self.ratios else amounts.unit_of(self.each[0])
        return f"{size}{unit} {'higher' if change > 0 else 'lower'}"

    def clause(self, *, counted: bool = False, times: bool = False) -> str:
        """The typical change in words, with who has none of the metric where; `counted`: over how many."""
        missing = self._missing()
        if not self.each:
            return f"{self.words}: {missing}"
        missing = ", ".join(text for text in (self._shifted(), missing) if text)
        over = f" over {_combinations(len(self.each))}" if counted else ""
        return f"{self.words} {self.told(self.typical, times=times)}{over}" + (
            f" ({missing})" if missing else ""
        )

    @property
    def _lacking(self) -> str:
        known = metrics.BY_NAME.get(self.metric)
        return metrics.LACKING if known is None else known.lacking

    def _shifted(self) -> str:
        """Return the change of each flow in words, of many that of the two at the ends."""
        shifts = sorted(self.shifts.items(), key=lambda each: each[1])
        if len(shifts) > MAX_FLOWS:
            shifts = [shifts[0], shifts[-1]]
        return ", ".join(f"{name} {self.told(change)}" for name, change in sorted(shifts))

    def _missing(self) -> str:
        """Return in words how many combinations lack the metric on which side."""
        total = len(self.each) + len(self.alone)
        said = []
        for label in (self.a, self.b):
            count = sum(found.lacking.label == label for found in self.alone)
            where = f" in {count}{' more' if self.each else f' of {total}'}" if total > 1 else ""
            said += [f"{label} {self._lacking}{where}"] if count else []
        return ", ".join(said)

    def spread(self) -> list[str]:
        """The smallest and the largest change with where they are, who is ahead how often; who has none.

        Nothing where `clause` says it all.
        """
        said = [self._ends()] if len(self.each) > 1 else []
        for label in (self.a, self.b):
            where = [found.contrast.name for found in self.alone if found.lacking.label == label]
            if any(where):
                more = f"; and {len(where) - MAX_PLACES} more" if len(where) > MAX_PLACES else ""
                places = f"{'; '.join(where[:MAX_PLACES])}{more}"
                said.append(f"{label} {self._lacking} in {len(where)} ({places})")
        return [_capital(f"{self.words}: {'; '.join(said)}.")] if said else []

    def _ends(self) -> str:
        changes = self.changes
        low, high = (changes.index(pick(changes)) for pick in (min, max))
        times = self.is_manifold(changes[high])
        ends = [self.told(changes[at], times=times) for at in (low, high)]
        places = [self.each[at].contrast.name for at in (low, high)]
        said = f"from {ends[0]} ({places[0]}) to {ends[1]} ({places[1]})"
        if ends[0] == ends[1]:
            said = f"{ends[0]} in every combination"
        return f"{said}; {self._ahead()}"

    def _ahead(self) -> str:
        higher = sum(change > 0 for change in self.changes)
        lower = sum(change < 0 for change in self.changes)
        same = len(self.each) - higher - lower
        a, b = self.a, self.b
        counts = {f"higher with {b}": higher, f"lower with {b}": lower}
        if self.better is not None:
            counts = {f"{b} ahead": higher, f"{a} ahead": lower}
            if self.better == "lower":
                counts = {f"{b} ahead": lower, f"{a} ahead": higher}
        counts["equal"] = same
        told = [f"{words} in {count}" for words, count in counts.items() if count]
        return ", ".join([f"{told[0]} of {len(self.each)}", *told[1:]])


@dataclass(frozen=True)
class Answer:
    """Answer of one value of a key against another, in every metric that answers the question."""

    effects: Sequence[Effect]
    key: str = ""
    """Key whose values the sides are, where the sides do not make it clear."""
    asked: bool = True
    """Whether these metrics are asked for; else only those that change in practice are told."""
    by: str = ""
    """The swept key whose values are compared."""

    @property
    def combinations(self) -> int:
        """Number of combinations of the other swept keys."""
        return max(len(each.each) + len(each.alone) for each in self.effects)

    @property
    def told(self) -> list[Effect]:
        """Effects that are told of each metric by itself."""
        if self._identical:
            return []
        return [each for each in self.effects if self.asked or each.weight >= PRACTICAL]

    @property
    def _identical(self) -> bool:
        """Whether the runs of both sides are the same, everywhere."""
        kinds = {found.kind for each in self.effects for found in each.each}
        return kinds == {Kind.IDENTICAL} and not any(each.alone for each in self.effects)

    def lead(self) -> str:
        """The answer in one sentence, with the trade-off where there is one."""
        told, first = self.told, self.effects[0]
        one, other = (f"{self.key} {label}".strip() for label in (first.b, first.a))
        several = self.combinations > 1
        if self._identical:
            everywhere = f" in all {self.combinations} combinations" if several else ""
            return f"{one} and {other} gave the same in every metric{everywhere}."
        left = _listed([each.words for each in self.effects if each not in told])
        small = f"hardly any change of {left}"
        counts = {len(each.each) for each in self.effects if each.each}
        counted = len(counts) > 1
        said = "; ".join([*([_weighed(told, counted=counted)] if told else []), *([small] if left else [])])
        over = ", typically" if several and counts else ""
        over += f" over {_combinations(*counts)}" if over and not counted else ""
        basis = _basis(told or self.effects)
        if basis:
            said = f"{said}; {basis}" if said.endswith(")") else f"{said} ({basis})"
        return f"{one} against {other}{over}: {said}."

    def details(self) -> list[str]:
        """Details behind the answer: where the change is least and most, and what would make it surer."""
        said = [text for each in self.told for text in each.spread()]
        if any(each.status == SINGLE for each in self.told):
            said.append("Each was run once: repeats would tell how far chance moves it.")
        return said


def of_comparisons(
    each: Sequence[Comparison],
    overall: Sequence[Comparison],
    better: Mapping[str, str | None] | None = None,
    *,
    alone: Sequence[OneSided] = (),
    key: str = "",
    asked: bool = True,
    called: Mapping[str, str] | None = None,
) -> list[Answer]:
    """The answers that comparisons give, one for each pair of values.

    `alone` are the metrics of combinations that only one side has; `better` says of metrics which way is, and
    `called` what to call them instead of their own words.
    """
    ways = {name: metric.better for name, metric in metrics.BY_NAME.items()} | dict(better or {})
    names = called or {}
    over = {(found.a.label, found.b.label, found.metric): found for found in overall}
    by_pair: dict[tuple[str, str], dict[str, tuple[list[Comparison], list[OneSided]]]] = {}
    every: list[Comparison | OneSided] = [*each, *alone]
    for found in every:
        pair = found.contrast.a.label, found.contrast.b.label
        own, lacking = by_pair.setdefault(pair, {}).setdefault(found.metric, ([], []))
        if isinstance(found, Comparison):
            own.append(found)
        else:
            lacking.append(found)
    return [
        Answer(
            [
                Effect(
                    name, *pair, own, over.get((*pair, name)), ways.get(name), lacking, names.get(name, "")
                )
                for name, (own, lacking) in of_pair.items()
            ],
            key,
            asked,
        )
        for pair, of_pair in by_pair.items()
    ]


def _typical_log(
    pairs: Sequence[tuple[Sequence[Run], Sequence[Run]]], flow: str, level: float
) -> float | None:
    """Mean logarithm of the ratio of a flow's mean goodput over pairs of sides, b over a.

    None where a flow of a had nothing, or where Welch's t of the logarithms, by their first derivatives,
    leaves more than `level` to chance on that side. Of single runs nothing says what chance does.
    """
    total = variance = of_freedom = 0.0
    for pair in pairs:
        a, b = (np.array([run.flows[flow] for run in side]) for side in pair)
        if a.mean() <= 0:
            return None
        total += math.log(b.mean() / a.mean()) if b.mean() > 0 else -math.inf
        for side in (a, b):
            if len(side) > 1 and side.mean() > 0:
                part = float(side.var(ddof=1)) / len(side) / float(side.mean()) ** 2
                variance += part
                of_freedom += part**2 / (len(side) - 1)
    if variance > 0 and abs(total) <= -t_quantile(level, variance**2 / of_freedom) * math.sqrt(variance):
        return None
    return total / len(pairs)


def words(metric: str) -> str:
    """A metric as a sentence names it: `95th percentile RTT`."""
    head, _, tail = columns.describe(metric).words.partition(", ")
    return f"{tail} {head}" if tail else head


def _combinations(count: int) -> str:
    return f"{count} combinations" if count > 1 else "one combination"


def _weighed(effects: Sequence[Effect], *, counted: bool) -> str:
    """The changes in one sentence, what speaks for b before what speaks against it."""
    times = any(each.each and each.is_manifold(each.typical) for each in effects)
    good, open_, bad = (
        [each.clause(counted=counted, times=times) for each in effects if each.good is way]
        for way in (True, None, False)
    )
    if good and bad:
        return f"{_listed([*good, *open_])}, but {_listed(bad)}"
    return _listed([*good, *open_, *bad])


def _listed(texts: Sequence[str]) -> str:
    return " and ".join([*([", ".join(texts[:-1])] if texts[:-1] else []), *texts[-1:]])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _basis(effects: Sequence[Effect]) -> str:
    """Say what the typical changes are, and how sure."""
    ratios = {each.ratios for each in effects if len(each.each) > 1}
    ways = {True: "geometric mean of ratios", False: "mean of differences"}
    typical = [way for ratio, way in ways.items() if ratio in ratios]
    effects = [each for each in effects if each.each]
    statuses = list(dict.fromkeys(each.status for each in effects))
    if len(statuses) > 1:
        held = Counter(each.status for each in effects)
        # Of two metrics each is named; of more those that differ from most.
        most = max(statuses, key=held.__getitem__)
        others = most if held[most] > 1 and len(effects) > 2 else None
        statuses = [f"{each.words} {each.status}" for each in effects if each.status != others]
        statuses += [f"the others {others}"] if others else []
    return "; ".join(text for text in (", ".join(typical), ", ".join(statuses)) if text)


def _sureness(found: Comparison) -> str:
    if found.kind in _EXACT:
        return "exact"
    if found.kind is Kind.DIFFERENCE:
        return f"{100 * found.confidence:g} % sure"
    runs = f"{min(len(found.a.values), len(found.b.values))} runs each"
    if found.kind is Kind.TOO_SMALL:
        return f"{runs} are too few to rule out chance"
    return f"with {runs} that may be chance"
