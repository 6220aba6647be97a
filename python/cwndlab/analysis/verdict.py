"""Comparisons in words: a plain sentence for each, a block of metrics, a table of many, JSON."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from cwndlab.analysis import comparison, effects, ministat
from cwndlab.analysis.amounts import digits, unit_of
from cwndlab.analysis.comparison import Comparison, Design, Kind
from cwndlab.analysis.contrasts import Comparisons
from cwndlab.analysis.statistics import POWER, Interval
from cwndlab.results import columns, texttable

MAX_BLOCKS = 6
"""Comparisons that get a block of metrics each; more become a table."""


def text(found: Comparisons) -> str:
    """Format all that a terminal should show: verdicts first, then what they rest on."""
    every = effects.of_comparisons(found.each, found.overall, alone=found.alone)
    answers = [each for each in every if each.combinations > 1 or any(one.alone for one in each.effects)]
    parts = ["\n  ".join([answer.lead(), *answer.details()]) for answer in answers]
    parts += [block(each) for each in found.overall]
    single = len(found.each) > 1 and all(each.kind is Kind.SINGLE for each in found.each)
    if len(found.each) <= MAX_BLOCKS and not single:
        parts += [block(each) for each in found.each]
    else:
        parts += [] if single and answers else ["\n".join(tally(found.each))]
        parts += [table(found.each), "\n".join(legend(found.each))]
    parts += ["\n".join(f"note: {note}" for note in _notes(found))]
    return "\n\n".join(part for part in parts if part)


def sentence(found: Comparison) -> str:
    """The verdict on one comparison, which always says what was held against what."""
    sides = f", {found.b.label} against {found.a.label}" if found.kind in (Kind.NONE, Kind.TOO_SMALL) else ""
    return f"{_subject(found, sides)}: {_verdict(found)}."


def block(found: Comparison) -> str:
    """The verdict, and below it every metric it rests on."""
    rows = [("runs", _runs(found))]
    if not found.contrast.combinations:
        for side in (found.a, found.b):
            sd = "" if math.isnan(side.sd) or side.sd == 0 else f" ± {_amount(side.sd, found)} (sd)"
            unit = f" {columns.describe(found.metric).unit}" if columns.describe(found.metric).unit else ""
            rows.append((side.label, f"{_amount(side.mean, found)}{sd}{unit}"))
    if found.kind is not Kind.IDENTICAL:
        rows.append(("difference", _signed(found.difference, found)))
    if found.interval is not None:
        rows.append((_level(found), f"{_span(found.interval, found)}   {found.method}"))
    if found.welch is not None and not found.method.startswith("Welch"):
        as_if = ", as if not paired" if found.design is Design.PAIRED else ""
        rows.append(("", f"{_span(found.welch, found)}   Welch{as_if} (p = {found.welch_p:.2g})"))
    if found.test is not None:
        rows.append(("permutation", _test(found)))
    if found.detectable is not None:
        shown = (
            f"{_size(found.detectable, found)} ({POWER:.0%} power)"
            if math.isfinite(found.detectable)
            else "none that can be"
        )
        rows.append(("could show", shown))
    if found.kind in (Kind.NONE, Kind.TOO_SMALL):
        rows.append(("would need", _needed(found)))
    if found.equivalent_p is not None:
        rows.append(("equivalence", f"p = {found.equivalent_p:.2g} (two one-sided tests)"))
    if found.within is not None and found.effective is not None:
        worth = " and ".join(f"{size:.0f}" for size in found.effective)
        only = f"within these two runs only; their samples count as {worth} independent ones"
        rows.append(("within", f"{_span(found.within, found)}   {only}"))
    width = max(len(name) for name, _ in rows)
    return "\n".join([sentence(found), *(f"  {name:<{width}}  {value}".rstrip() for name, value in rows)])


def table(found: Sequence[Comparison]) -> str:
    """Many comparisons, a row each."""
    keys = list(dict.fromkeys(key for comparison in found for key in comparison.contrast.where))
    pairs = {(comparison.a.label, comparison.b.label) for comparison in found}
    metrics = {comparison.metric for comparison in found}
    heads: list[tuple[str, list[str], bool]] = []
    if len(metrics) > 1:
        heads.append(("metric", [comparison.metric for comparison in found], False))
    for key in keys:
        heads.append((key, [comparison.contrast.where.get(key, "") for comparison in found], False))
    if len(pairs) > 1:
        heads.append(("a", [comparison.a.label for comparison in found], False))
        heads.append(("b", [comparison.b.label for comparison in found], False))
    names = ("a", "b") if len(pairs) > 1 else next(iter(pairs))
    for name, side in zip(names, ("a", "b"), strict=True):
        means = [_amount(getattr(comparison, side).mean, comparison) for comparison in found]
        heads.append((name if len(pairs) == 1 else f"mean {name}", means, True))
    heads.append(("difference", [difference(comparison) for comparison in found], True))
    heads.append(("interval", [interval(each) for each in found], False))
    ps = ["" if each.corrected_p is None else f"{each.corrected_p:.2g}" for each in found]
    heads.append(("p", ps, True))
    heads.append(("verdict", [_word(comparison) for comparison in found], False))
    unit = columns.describe(found[0].metric).unit if len(metrics) == 1 else ""
    measured = [name for name, _, right in heads if right and name not in ("difference", "p")]
    units = {name: unit if name in measured else "" for name, _, _ in heads}
    grid = [texttable.Column([name, units[name], *cells], right=right) for name, cells, right in heads]
    return "\n".join(texttable.lines(grid))


def difference(found: Comparison) -> str:
    """The difference in words."""
    return _told(found.difference, found, _plus)


def interval(found: Comparison) -> str:
    """The interval of the difference in words; empty where there is none."""
    return "" if found.interval is None else _span(found.interval, found)


def tally(found: Sequence[Comparison]) -> list[str]:
    """A sentence for each metric and pair: how many combinations went which way."""
    groups: dict[tuple[str, str, str], list[Comparison]] = {}
    for each in found:
        groups.setdefault((each.metric, each.a.label, each.b.label), []).append(each)
    return [_tally(group) for group in groups.values()]


def json_lines(found: Comparisons) -> str:
    """A line of JSON per comparison, those over all combinations first; what does not exist is null.

    Then one per metric of a combination that one side has none of, and one per note.
    """
    lines = [json.dumps(as_dict(each)) for each in (*found.overall, *found.each)]
    lines += [
        json.dumps({"metric": each.metric, "where": dict(each.contrast.where), "lacking": each.lacking.label})
        for each in found.alone
    ]
    lines += [json.dumps({"note": note}, ensure_ascii=False) for note in found.notes]
    return "".join(f"{line}\n" for line in lines)


def as_dict(found: Comparison) -> dict[str, Any]:
    """Convert a comparison to plain values; differences in the unit of the metric's column."""
    return {
        "metric": found.metric,
        "where": dict(found.contrast.where),
        "combinations": found.contrast.combinations or None,
        "a": _side(found, "a"),
        "b": _side(found, "b"),
        "verdict": found.kind.value,
        "sentence": sentence(found),
        "design": found.design.value,
        "difference": _finite(found.difference),
        "difference_pct": _finite(_percent_of(found, found.difference)),
        "confidence": found.confidence,
        "interval": _pair(found.interval),
        "interval_method": found.method or None,
        "welch_interval": _pair(found.welch),
        "welch_p": _finite(found.welch_p),
        "permutation_p": None if found.test is None else found.test.p,
        "permutation_exact": None if found.test is None else found.test.exact,
        "permutation_arrangements": None if found.test is None else found.test.arrangements,
        "smallest_p": None if found.test is None else found.test.smallest,
        "corrected_p": _finite(found.corrected_p),
        "comparisons": found.family,
        "detectable": _finite(found.detectable),
        "detectable_pct": _finite(_percent_of(found, found.detectable)),
        "runs_needed": found.needed,
        "runs_to_reach": found.reach,
        "margin_pct": None if found.margin is None else 100 * found.margin,
        "equivalent_p": _finite(found.equivalent_p),
        "equivalent": found.equivalent,
        "within_runs_interval": _pair(found.within),
        "effective_samples": None if found.effective is None else list(found.effective),
        "notes": list(found.notes),
    }


def as_ministat(found: Comparisons) -> list[str]:
    """Format each comparison of three runs a side or more as FreeBSD's ministat prints it, in the
    unit shown.
    """
    texts = []
    for each in found.each:
        if min(len(each.a.values), len(each.b.values)) >= 3:
            shown = columns.describe(each.metric)
            a, b = each.a.values * shown.factor, each.b.values * shown.factor
            body = ministat.text(a, b, (each.a.label, each.b.label), each.confidence)
            texts.append(f"# {_subject(each)}{f' [{shown.unit}]' if shown.unit else ''}\n{body}")
    return texts


def _subject(found: Comparison, sides: str = "") -> str:
    where = found.contrast.name
    if found.contrast.combinations:
        where = f"over {found.contrast.combinations} combinations"
    said = "; ".join(filter(None, (comparison.mean_over(found.contrast, found.metric), where)))
    what = columns.describe(found.metric).words + sides
    return f"{what} ({said})" if said else what


def _verdict(found: Comparison) -> str:
    sure = f"{100 * found.confidence:g} %"
    match found.kind:
        case Kind.IDENTICAL:
            return f"identical: the runs of {found.a.label} and {found.b.label} are the same in every metric"
        case Kind.DETERMINISTIC:
            return f"exact, as runs of this path do not vary by chance: {_how(found)}"
        case Kind.SINGLE:
            return _single(found, sure)
        case Kind.TOO_SMALL:
            return _too_small(found, sure)
        case _:
            return _tested(found, sure)


def _tested(found: Comparison, sure: str) -> str:
    """The verdict of a test that could have gone either way."""
    same = "" if found.equivalent is None else _equivalent(found, sure)
    if found.kind is Kind.DIFFERENCE:
        interval = found.interval
        if interval is None:
            return f"{_how(found)}, {sure} sure{same}"
        if found.corrected_p is not None and interval.low <= 0 <= interval.high:
            return (
                f"{_how(found)} in the mean, and the test is {sure} sure that they differ"
                f" (p = {found.corrected_p:.2g}), but the mean difference may be {_between(interval, found)}:"
                f" more runs would tell{same}"
            )
        return f"{_how(found)}, {sure} sure ({_between(interval, found)}){same}"
    if found.equivalent:
        return f"{same.removeprefix('; ')}; no difference proven"
    shows = "no difference that can be"
    if found.detectable is not None and math.isfinite(found.detectable):
        shows = f"only differences above {_size(found.detectable, found)}"
    return f"no difference proven at {sure}; with {_number_of(found)} {shows} would show{_seen(found)}{same}"


def _single(found: Comparison, sure: str) -> str:
    said = f"in one run of each, {_how(found)}"
    if found.within is None:
        return f"{said}; one run cannot tell how much of that is chance, repeats can"
    return (
        f"{said} ({_between(found.within, found)} judging by the samples within each run, {sure}); "
        "how much runs differ from each other is not known, repeats would tell"
    )


def _too_small(found: Comparison, sure: str) -> str:
    if found.test is None:
        raise ValueError("only a test can be too small")
    among = f" and {found.family} comparisons" if found.family > 1 else ""
    runs = "runs" if found.design is Design.EXACT else "runs a side"
    welch = (
        ""
        if found.welch_p is None
        else f"; Welch's test, if values are normal, gives p = {found.welch_p:.2g}"
    )
    least = f"p cannot be below {found.test.smallest:.2g}{_times(found)}"
    return (
        f"too few runs: with {_number_of(found)}{among} not even the largest difference could be {sure} sure "
        f"({least}); {found.reach} {runs} could tell{welch}"
    )


def _times(found: Comparison) -> str:
    return f" before the correction for {found.family}" if found.family > 1 else ""


def _seen(found: Comparison) -> str:
    """Say what became of the difference that was seen."""
    seen = _size(abs(found.difference), found)
    said = ""
    if found.test is not None and found.test.p <= 1 - found.confidence:
        said = (
            f"; the {seen} measured would be proven if it were the only comparison (p = {found.test.p:.2g}), "
            f"but not as one of {found.family}"
        )
    elif found.interval is not None and not found.interval.low <= 0 <= found.interval.high:
        said = (
            f"; pair by pair it is {_between(found.interval, found)}, but these are too few pairs for a test"
        )
    if found.needed is None:
        return said
    runs = _runs_of(found)
    number = f"about {found.needed}" if found.needed <= 1000 else "more than 1000"
    return f"{said}; the {seen} measured here would need {number} {runs}"


def _equivalent(found: Comparison, sure: str) -> str:
    # Beside differences in points, a share has to say of what.
    of = "" if is_relative(found) else f" of {found.a.label}'s mean"
    margin = f"{100 * (found.margin or 0):g} %{of}"
    if found.equivalent:
        return f"; differs by less than {margin}, {sure} sure"
    return f"; not shown to differ by less than {margin}"


def _how(found: Comparison) -> str:
    """Say which side is higher, and by how much."""
    if found.difference == 0:
        return f"{found.b.label} equals {found.a.label}"
    way = "higher" if found.difference > 0 else "lower"
    return f"{found.b.label} is {_size(abs(found.difference), found)} {way} than {found.a.label}"


def _number_of(found: Comparison) -> str:
    n, m = len(found.a.values), len(found.b.values)
    if found.design is Design.PAIRED and found.signs:
        return f"{n} pairs of runs"
    if found.design is Design.EXACT:
        return f"{max(n, m)} runs against an exact value"
    return f"{n} runs a side" if n == m else f"{n} against {m} runs"


def _runs(found: Comparison) -> str:
    n, m = len(found.a.values), len(found.b.values)
    if found.kind is Kind.IDENTICAL:
        return f"{min(found.a.given, found.b.given)}, each equal to its partner"
    if found.design is Design.PAIRED and found.test is not None:
        return f"{n} pairs that share their random draws (seed and repeat)"
    if found.design is Design.EXACT:
        exact, other = (found.a, m) if n == 1 else (found.b, n)
        return f"{other} against the exact value of {exact.label}, whose {exact.given} runs were the same"
    return f"{n} and {m}, not paired"


def _test(found: Comparison) -> str:
    if found.test is None or found.corrected_p is None:
        raise ValueError("there was no test")
    of = "all" if found.test.exact else "random"
    what = "sign changes" if found.signs else "arrangements"
    if found.design is Design.PAIRED and not found.signs:
        what += ", as these are too few pairs for a test of their signs"
    corrected = (
        f", corrected for {found.family} comparisons (Holm) {found.corrected_p:.2g}"
        if found.family > 1
        else ""
    )
    return f"p = {found.test.p:.2g}{corrected} ({of} {found.test.arrangements} {what})"


def _needed(found: Comparison) -> str:
    runs = _runs_of(found)
    least = f"; at least {found.reach} {runs} to show any" if found.kind is Kind.TOO_SMALL else ""
    if found.needed is None:
        return f"more runs than make sense for a difference as measured{least}"
    sizes = len(found.a.values), len(found.b.values)
    have = max(sizes) if found.design is Design.EXACT else min(sizes)
    more = f", {found.needed - have} more" if found.needed > have else ""
    return f"{found.needed} {runs}{more}, to show a difference as large as measured{least}"


def _runs_of(found: Comparison) -> str:
    """Name the kind of runs of which more would help."""
    words = {Design.PAIRED: "pairs", Design.EXACT: "runs", Design.UNPAIRED: "runs a side"}
    return words[found.design]


def _word(found: Comparison) -> str:
    if found.equivalent:
        return f"within {100 * (found.margin or 0):g} %"
    if found.kind in (Kind.DIFFERENCE, Kind.DETERMINISTIC) and found.difference:
        way = "higher" if found.difference > 0 else "lower"
        return way if found.kind is Kind.DIFFERENCE else f"{way}, exactly"
    return found.kind.value


def _tally(group: Sequence[Comparison]) -> str:
    first = group[0]
    over = comparison.mean_over(first.contrast, first.metric)
    what = f"{columns.describe(first.metric).words}, {first.b.label} against {first.a.label}"
    what += f" ({over})" if over else ""
    if len(group) == 1:
        return f"{what}: {_alone(first)}."
    parts = []
    for sign, words in ((1, "higher"), (-1, "lower"), (0, "exactly equal")):
        kinds = (Kind.DIFFERENCE, Kind.DETERMINISTIC, Kind.IDENTICAL)
        count = sum(each.kind in kinds and _sign(each.difference) == sign for each in group)
        if count:
            parts.append(f"{words} in {count}")
    for kind, words in _UNPROVEN.items():
        of_kind = [each for each in group if each.kind is kind]
        if of_kind:
            up = sum(each.difference > 0 for each in of_kind)
            seen = (
                f"measured higher in {up} of them" if len(of_kind) > 1 else f"{_measured(of_kind[0])} there"
            )
            parts.append(f"{words} in {len(of_kind)}" + ("" if kind is Kind.NONE else f" ({seen})"))
    return f"{what} in {len(group)} combinations: {', '.join(parts)}."


_UNPROVEN = {
    Kind.NONE: "no difference proven",
    Kind.TOO_SMALL: "too few runs to tell",
    Kind.SINGLE: "one run each, so chance cannot be ruled out,",
}
"""Words for nothing proven, before the number of combinations."""


def _alone(found: Comparison) -> str:
    if found.kind not in _UNPROVEN:
        return _word(found)
    return _UNPROVEN[found.kind].strip(",") + ("" if found.kind is Kind.NONE else f" ({_measured(found)})")


def _measured(found: Comparison) -> str:
    return f"measured {({1: 'higher', 0: 'equal', -1: 'lower'})[_sign(found.difference)]}"


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def legend(found: Sequence[Comparison]) -> list[str]:
    """Lines that explain the intervals and p values of a table."""
    tested = [each for each in found if each.test is not None]
    if not tested:
        return []
    methods = "".join(f", {method}" for method in dict.fromkeys(each.method for each in tested) if method)
    exact = "exact" if all(each.test and each.test.exact for each in tested) else "sampled"
    designs = " or ".join(dict.fromkeys(each.design.value for each in tested))
    return [
        f"interval: {_level(tested[0])} of each difference by itself{methods}.",
        f"p: {exact} permutation test, runs {designs}, corrected for {tested[0].family} comparisons (Holm).",
    ]


def _notes(found: Comparisons) -> list[str]:
    """Notes of the runs, and of the comparisons; of many that say the same, once."""
    return list(
        dict.fromkeys(
            [*found.notes, *(note for each in (*found.each, *found.overall) for note in each.notes)]
        )
    )


def _level(found: Comparison) -> str:
    return f"{100 * found.confidence:g} % interval"


def is_relative(found: Comparison) -> bool:
    """Whether differences are said in per cent of a's mean; else in the unit of the metric.

    All differences of a comparison are said alike: metrics that are not `in_shares` in their unit (per cents
    in points), and so those of several combinations of which some have none.
    """
    if found.contrast.combinations:
        return found.contrast.ratios
    return found.a.mean != 0 and columns.describe(found.metric).in_shares


def _amount(value: float, found: Comparison) -> str:
    """A metric in the unit shown, without it."""
    return f"{value * columns.describe(found.metric).factor:.4g}"


def _size(difference: float, found: Comparison) -> str:
    """A difference without its sign."""
    return _told(abs(difference), found, digits)


def _signed(difference: float, found: Comparison) -> str:
    """A difference with its sign, and beside it the same the other way: in the unit, or as a share."""
    percent = _percent_of(found, difference)
    if percent is None or found.contrast.combinations or columns.describe(found.metric).signed:
        return _told(difference, found, _plus)
    in_units = f"{_plus(difference * columns.describe(found.metric).factor)}{unit_of(found)}"
    share = f"{_plus(percent)} %"
    return (
        f"{share} ({in_units})" if is_relative(found) else f"{in_units} ({share} of {found.a.label}'s mean)"
    )


def _span(interval: Interval, found: Comparison) -> str:
    low = _plus(_in_told(interval.low, found))
    return f"{low} to {_told(interval.high, found, _plus)}"


def _between(interval: Interval, found: Comparison) -> str:
    return f"between {_span(interval, found).replace(' to ', ' and ')}"


def _told(difference: float, found: Comparison, written: Callable[[float], str]) -> str:
    """A difference, written, with what `is_relative` says it is in."""
    return f"{written(_in_told(difference, found))}{' %' if is_relative(found) else unit_of(found)}"


def _in_told(difference: float, found: Comparison) -> float:
    percent = _percent_of(found, difference) if is_relative(found) else None
    return difference * columns.describe(found.metric).factor if percent is None else percent


def _plus(value: float) -> str:
    if math.isinf(value):
        return "−∞" if value < 0 else "+∞"
    return f"{'−' if value < 0 else '+' if value > 0 else ''}{digits(abs(value))}"


def _percent_of(found: Comparison, difference: float | None) -> float | None:
    if difference is None:
        return None
    share = found.share(difference)
    return None if share is None else 100 * share


def _side(found: Comparison, name: str) -> dict[str, Any]:
    side = getattr(found, name)
    return {
        "label": side.label,
        "runs": side.given,
        "counted": len(side.values),
        "mean": side.mean,
        "sd": _finite(side.sd),
        "values": side.values.tolist(),
    }


def _pair(interval: Interval | None) -> list[float | None] | None:
    return None if interval is None else [_finite(interval.low), _finite(interval.high)]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
