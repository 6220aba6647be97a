"""What one value of a key changes against another, over all combinations of the rest, in words.

The typical change, the smallest and the largest with where they are, and in how many combinations which side
is ahead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cwndlab.analysis import amounts, comparison
from cwndlab.analysis.comparison import Comparison, Kind
from cwndlab.results import columns, metrics

PRACTICAL = 0.01
"""Share by which a metric has to change to be told where nobody asked for it; of per cents, a tenth of a
point."""

SINGLE = "one run each"

_EXACT = {Kind.IDENTICAL, Kind.DETERMINISTIC}
"""Where no draw moves a run."""


@dataclass(frozen=True)
class Effect:
    """What b changes in one metric against a."""

    each: Sequence[Comparison]
    """In every combination."""
    overall: Comparison | None
    """Over all of them, where repeats allow that."""
    better: str | None
    """`higher` or `lower`, if one is."""

    @property
    def words(self) -> str:
        """The metric as a sentence names it: `95th percentile RTT`."""
        head, _, tail = columns.describe(self.each[0].metric).words.partition(", ")
        return f"{tail} {head}" if tail else head

    @property
    def ratios(self) -> bool:
        """Whether changes are told as shares; else as differences in the metric's unit."""
        values = [side.values for found in self.each for side in (found.a, found.b)]
        return comparison.has_ratios(self.each[0].metric, np.concatenate(values))

    @property
    def changes(self) -> list[float]:
        """Of each combination: b over a less 1, or b less a."""
        if self.ratios:
            return [found.b.mean / found.a.mean - 1 for found in self.each]
        return [found.difference for found in self.each]

    @property
    def typical(self) -> float:
        """Geometric mean of the paired ratios, less 1; or mean of the differences."""
        if self.ratios:
            return math.expm1(sum(map(math.log1p, self.changes)) / len(self.each))
        return sum(self.changes) / len(self.each)

    @property
    def weight(self) -> float:
        """How much changes in practice, whichever way: as a share, of per cents a tenth of a point as 1 %."""
        if self.ratios:
            return sum(abs(math.log1p(change)) for change in self.changes) / len(self.each)
        mean = sum(map(abs, self.changes)) / len(self.each)
        if columns.describe(self.each[0].metric).unit == "%":
            return mean * columns.describe(self.each[0].metric).factor / 10
        level = max(found.a.mean + found.b.mean for found in self.each) / 2
        return mean / level if level > 0 else 0.0

    @property
    def good(self) -> bool | None:
        """Whether b is typically better; None where neither way is, or nothing changes."""
        if self.better is None or not self.typical:
            return None
        return (self.typical > 0) == (self.better == "higher")

    @property
    def status(self) -> str:
        """How sure the typical change is, in a few words."""
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

    def told(self, change: float) -> str:
        """A change in words."""
        if not change:
            return "the same"
        shown = columns.describe(self.each[0].metric)
        size = amounts.digits(abs(change) * (100 if self.ratios else shown.factor))
        unit = " %" if self.ratios else amounts.unit_of(self.each[0])
        return f"{size}{unit} {'higher' if change > 0 else 'lower'}"

    def clause(self) -> str:
        """The typical change, in words."""
        return f"{self.words} {self.told(self.typical)}"

    def spread(self) -> str:
        """The smallest and the largest change with where they are, and who is ahead how often."""
        changes = self.changes
        low, high = (changes.index(pick(changes)) for pick in (min, max))
        ends = [f"{self.told(changes[at])} ({self.each[at].contrast.name})" for at in (low, high)]
        said = f"{self.words}: from {ends[0]} to {ends[1]}"
        if self.told(changes[low]) == self.told(changes[high]):
            said = f"{self.words}: {self.told(changes[low])} in every combination"
        return f"{said}; {self._ahead()}"

    def _ahead(self) -> str:
        higher = sum(change > 0 for change in self.changes)
        lower = sum(change < 0 for change in self.changes)
        same = len(self.each) - higher - lower
        a, b = self.each[0].a.label, self.each[0].b.label
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
    """What one value of a key changes against another, in every metric that answers the question."""

    effects: Sequence[Effect]
    key: str = ""
    """What the sides are values of, where that is not clear from them."""
    asked: bool = True
    """Whether these metrics are asked for; else only those that change in practice are told."""
    by: str = ""
    """The swept key whose values are compared."""

    @property
    def combinations(self) -> int:
        """Of the other swept keys."""
        return max(len(each.each) for each in self.effects)

    @property
    def told(self) -> list[Effect]:
        """What is told of each metric by itself."""
        if all(found.kind is Kind.IDENTICAL for each in self.effects for found in each.each):
            return []
        return [each for each in self.effects if self.asked or each.weight >= PRACTICAL]

    def lead(self) -> str:
        """The answer in one sentence, with the trade-off where there is one."""
        told, first = self.told, self.effects[0].each[0]
        one, other = (f"{self.key} {side.label}".strip() for side in (first.b, first.a))
        several = self.combinations > 1
        if not told and first.kind is Kind.IDENTICAL:
            everywhere = f" in all {self.combinations} combinations" if several else ""
            return f"{one} and {other} gave the same in every metric{everywhere}."
        left = _listed([each.words for each in self.effects if each not in told])
        small = f"hardly any change of {left}"
        said = "; ".join([*([_weighed(told)] if told else []), *([small] if left else [])])
        over = f", typically over {self.combinations} combinations" if several else ""
        return f"{one} against {other}{over}: {said} ({_basis(told or self.effects)})."

    def details(self) -> list[str]:
        """What stands behind it: where it is least and most, and what would make it surer."""
        said = [f"{_capital(each.spread())}." for each in self.told if len(each.each) > 1]
        if any(each.status == SINGLE for each in self.told):
            said.append("Each was run once: repeats would tell how far chance moves it.")
        return said


def of_comparisons(
    each: Sequence[Comparison],
    overall: Sequence[Comparison],
    better: Mapping[str, str | None] | None = None,
    *,
    key: str = "",
    asked: bool = True,
) -> list[Answer]:
    """The answers that comparisons give, one for each pair; `better` says of metrics which way is."""
    ways = {name: metric.better for name, metric in metrics.BY_NAME.items()} | dict(better or {})
    pairs = dict.fromkeys((found.a.label, found.b.label) for found in each)
    return [Answer(list(_effects(each, overall, pair, ways)), key, asked) for pair in pairs]


def _effects(
    each: Sequence[Comparison],
    overall: Sequence[Comparison],
    pair: tuple[str, str],
    better: Mapping[str, str | None],
) -> Iterator[Effect]:
    for metric in dict.fromkeys(found.metric for found in each):
        own, over = (
            [found for found in of if found.metric == metric and (found.a.label, found.b.label) == pair]
            for of in (each, overall)
        )
        if own:
            yield Effect(own, over[0] if over else None, better.get(metric))


def _weighed(effects: Sequence[Effect]) -> str:
    """The changes in one sentence, what speaks for b before what speaks against it."""
    good = [each.clause() for each in effects if each.good]
    open_ = [each.clause() for each in effects if each.good is None]
    bad = [each.clause() for each in effects if each.good is False]
    if good and bad:
        return f"{_listed([*good, *open_])}, but {_listed(bad)}"
    return _listed([*good, *open_, *bad])


def _listed(texts: Sequence[str]) -> str:
    return " and ".join([*([", ".join(texts[:-1])] if texts[:-1] else []), *texts[-1:]])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _basis(effects: Sequence[Effect]) -> str:
    """What the typical changes are, and how sure."""
    ratios = {each.ratios for each in effects if len(each.each) > 1}
    ways = {True: "geometric mean of ratios", False: "mean of differences"}
    typical = [way for ratio, way in ways.items() if ratio in ratios]
    statuses = list(dict.fromkeys(each.status for each in effects))
    if len(statuses) > 1:
        statuses = [f"{each.words} {each.status}" for each in effects]
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
