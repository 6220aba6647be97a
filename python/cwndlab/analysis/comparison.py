"""Is there a difference between two sets of runs, and how sure are we: what the tests may conclude."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cwndlab.analysis import statistics
from cwndlab.analysis.runs import Run
from cwndlab.analysis.statistics import Interval, Test
from cwndlab.results import columns

Floats = NDArray[np.float64]


class Kind(StrEnum):
    """Conclusions that a comparison can come to."""

    DIFFERENCE = "difference"
    NONE = "none proven"
    """The test could have shown a difference and did not."""
    TOO_SMALL = "too few runs"
    """No outcome of this design would be significant after correction."""
    SINGLE = "single runs"
    """One run on both sides: nothing is known of how runs vary."""
    DETERMINISTIC = "deterministic"
    """Repeats of the same gave the same: exact, not a sample."""
    IDENTICAL = "identical"
    """The runs of both sides counted the same in every metric."""


class Design(StrEnum):
    """Design of a comparison: how the runs of the sides belong together."""

    PAIRED = "paired"
    """Runs with the same random draws (seed and repeat) are compared pair by pair."""
    UNPAIRED = "unpaired"
    EXACT = "against an exact value"
    """One side cannot vary: the runs of the other are compared with its one value."""


@dataclass(frozen=True)
class Options:
    """Options of a comparison: confidence, equivalence, seed, and whether to read samples."""

    confidence: float = 0.95
    equivalent: float | None = None
    """Share of a's mean (0.03: 3 %) that a difference must stay below to count as none."""
    seed: int = 1
    """Seed of the resamples and of the random arrangements."""

    within: bool = True
    """Whether to read the samples of single runs, which takes long for many."""

    @property
    def alpha(self) -> float:
        """The chance of a false alarm allowed, over all comparisons together."""
        return 1 - self.confidence


@dataclass(frozen=True)
class RunSet:
    """One side of a contrast."""

    label: str
    runs: Sequence[Run] = field(repr=False)


@dataclass(frozen=True)
class Contrast:
    """Two sets of runs that differ in one thing."""

    a: RunSet
    b: RunSet
    where: Mapping[str, str] = field(default_factory=dict)
    """Swept keys, with their values, that both sides share and other contrasts do not."""
    name: str = ""
    """ in words, for sentences."""
    combinations: int = 0
    """Number of combinations that a contrast averages (`average`); 0 for any other."""
    ratios: bool = False
    """Whether its values are those of `average`, relative to a's means."""


@dataclass(frozen=True)
class OneSided:
    """A metric of a contrast that only the runs of one side have, so that nothing can be compared."""

    metric: str
    contrast: Contrast
    there: RunSet
    """The side that has it."""
    lacking: RunSet
    """The side none of whose runs has it."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    label: str
    given: int
    """Runs that have the metric."""
    values: Floats
    """One value for each run that counts: identical runs count once, unpaired leftovers not at all."""

    @property
    def mean(self) -> float:
        """Mean over the runs that count."""
        return float(self.values.mean())

    @property
    def sd(self) -> float:
        """Standard deviation between runs; NaN of a single one."""
        return float(self.values.std(ddof=1)) if len(self.values) > 1 else math.nan


@dataclass(frozen=True, repr=False)
class Comparison:
    """Comparison of two sets of runs in one metric. Differences are b - a in the unit of the metric."""

    metric: str
    contrast: Contrast
    a: Side
    b: Side
    kind: Kind
    design: Design
    confidence: float
    family: int
    """Comparisons that share the chance of a false alarm."""
    interval: Interval | None = None
    method: str = ""
    """Method by which `interval` was made."""
    welch: Interval | None = None
    """Welch's interval of the same difference; for paired runs, as if they were not."""
    welch_p: float | None = None
    test: Test | None = None
    signs: bool = False
    """Whether `test` changed the signs of differences, rather than which runs are a's."""
    corrected_p: float | None = None
    """p of the permutation test after Holm's correction: what the verdict rests on."""
    detectable: float | None = None
    """The smallest true difference that shows in 80 % of such comparisons; infinite if none can."""
    needed: int | None = None
    """Runs a side (pairs) of which a difference as seen shows in 80 %. None if more than make sense."""
    reach: int | None = None
    """Runs a side of which a difference could show at all, where these are too few."""
    margin: float | None = None
    """Share of a's mean for equivalence."""
    equivalent_p: float | None = None
    """Corrected p of the equivalence test."""
    within: Interval | None = None
    """Interval of the difference of single runs, from their own samples. None where there is none."""
    effective: tuple[float, float] | None = None
    """Independent samples that those of the two runs are worth."""
    notes: tuple[str, ...] = ()
    """Notes to read before the comparison is trusted, a sentence each."""

    def __repr__(self) -> str:
        """Format the sides and the conclusion in one line."""
        share = self.share(self.difference)
        differs = f"{self.difference:+.4g}" if share is None else f"{100 * share:+.3g} %"
        sides = f"{self.b.label} against {self.a.label}"
        return f"<{self.metric}, {sides}: {self.kind.value}, {differs}>"

    @property
    def difference(self) -> float:
        """Mean of b minus mean of a."""
        return self.b.mean - self.a.mean

    @property
    def equivalent(self) -> bool | None:
        """Whether they are shown to differ by less than the margin. None where that was not asked."""
        return None if self.equivalent_p is None else self.equivalent_p <= 1 - self.confidence

    def share(self, difference: float) -> float | None:
        """A difference as a share of a's mean. None where that is 0."""
        return None if self.a.mean == 0 else difference / abs(self.a.mean)


def compare(contrasts: Sequence[Contrast], metrics: Sequence[str], options: Options) -> list[Comparison]:
    """Every metric of every contrast that has runs with it on both sides, corrected as one family.

    How a contrast is tested depends on its design alone, never on what it would find. Runs that share draws
    are compared pair by pair; where the pairs are too few for a test of their signs to reach the level, the
    test takes the runs as if they shared nothing, which is the more cautious.
    """
    samples = [
        _sample(contrast, metric)
        for metric in metrics
        for contrast in contrasts
        if _has(contrast.a, metric) and _has(contrast.b, metric)
    ]
    family = sum(sample.testable for sample in samples)
    random = statistics.Draws(options.seed)
    found = [_examined(sample, max(1, family), options, random) for sample in samples]
    return _corrected(found, options)


def one_sided(contrasts: Sequence[Contrast], metrics: Sequence[str]) -> list[OneSided]:
    """Every metric of every contrast that only one side has."""
    return [
        OneSided(metric, contrast, there, lacking)
        for metric in metrics
        for contrast in contrasts
        for there, lacking in ((contrast.a, contrast.b), (contrast.b, contrast.a))
        if _has(there, metric) and not _has(lacking, metric)
    ]


def average(contrasts: Sequence[Contrast], metric: str) -> Contrast | None:
    """One contrast over several combinations: for each repeat a value of a's and one of b's runs.

    A repeat stays one unit, as its runs may share draws or a morning in the lab. Where a metric `has_ratios`
    its values are geometric means relative to a's mean of each combination, so that b's mean is that of the
    paired ratios; else arithmetic means. Only combinations whose repeats are there on both sides count. None
    where fewer than two are left, or one repeat.
    """
    whole = [
        contrast
        for contrast in contrasts
        if all(_repeats(side) and _has_all(side, metric) for side in (contrast.a, contrast.b))
    ]
    if len(whole) < 2:
        return None
    repeats = set.intersection(*(_repeats(side) for contrast in whole for side in (contrast.a, contrast.b)))
    if len(repeats) < 2:
        return None
    sides = [[_by_repeat(getattr(contrast, name), repeats) for contrast in whole] for name in ("a", "b")]
    every = [[[run.metrics[metric] for run in runs] for runs in cells] for cells in sides]
    values = np.array(every, dtype=np.float64)  # by side, combination and repeat
    ratios = has_ratios(metric, values)
    if ratios:
        means = values.mean(axis=2)
        of_repeats = np.exp(np.log(values / means[0][None, :, None]).mean(axis=1))
        wanted = np.exp(np.log(means / means[0]).mean(axis=1))
        of_repeats *= (wanted / of_repeats.mean(axis=1))[:, None]
    else:
        of_repeats = values.mean(axis=1)
    a, b = (
        RunSet(label, [_averaged([runs[at] for runs in cells], metric, own[at]) for at in range(len(own))])
        for label, cells, own in zip((whole[0].a.label, whole[0].b.label), sides, of_repeats, strict=True)
    )
    return Contrast(a, b, combinations=len(whole), ratios=ratios)


def has_ratios(metric: str, values: Floats) -> bool:
    """Whether the values of several combinations are compared by their ratios.

    Not those of metrics in per cent, as a per cent of per cents misleads, nor where any is not above 0.
    """
    return columns.describe(metric).in_shares and bool(np.all(values > 0))


def mean_over(contrast: Contrast, metric: str) -> str:
    """Say over how many flows of a run a metric is the mean; empty where it is none."""
    counts = _over([*contrast.a.runs, *contrast.b.runs], metric)
    if not counts:
        return ""
    low, high = counts[metric]
    return f"mean over {low} flows" if low == high else f"mean over {low} to {high} flows"


def _over(runs: Sequence[Run], metric: str) -> dict[str, tuple[int, int]]:
    counts = [run.over[metric] for run in runs if metric in run.over]
    return {metric: (min(low for low, _ in counts), max(high for _, high in counts))} if counts else {}


def transients(contrast: Contrast, metric: str) -> list[str]:
    """A warning for each side whose goodput had not settled in more than half of its runs."""
    if metric != "goodput_mbps":
        return []
    found = []
    for side in (contrast.a, contrast.b):
        off = [run.unsettled for run in side.runs if run.unsettled is not None]
        if 2 * len(off) > len(side.runs):
            found.append(
                f"goodput never settled in {len(off)} of {len(side.runs)} runs of {side.label} (MSER-5): it"
                f" is up to {100 * max(off):.0f} % off that of the second half; measure longer, or later"
            )
    return found


def drift(contrast: Contrast) -> str | None:
    """A warning where the order of the runs could make a difference. None where it cannot, or does not."""
    runs = [*contrast.a.runs, *contrast.b.runs]
    if not any(run.by_chance for run in runs) or len(runs) < 3:
        return None
    a = [run.started for run in contrast.a.runs if run.started is not None]
    b = [run.started for run in contrast.b.runs if run.started is not None]
    if len(a) + len(b) < len(runs):
        return (
            "when each run began is not recorded: if one side ran after the other, "
            "a drift of the lab would look like this difference"
        )
    first, second = (contrast.a, contrast.b) if max(a) < min(b) else (contrast.b, contrast.a)
    if max(a) < min(b) or max(b) < min(a):
        return (
            f"all runs of {first.label} came before all of {second.label}: a drift of the lab (load, "
            "temperature, other traffic) would look like this difference; take turns (order: randomised)"
        )
    order = [side for _, side in sorted([(time, 0) for time in a] + [(time, 1) for time in b])]
    turns = 1 + sum(left != right for left, right in pairwise(order))
    expected = 1 + 2 * len(a) * len(b) / len(order)
    spread = (expected - 1) * (expected - 2) / (len(order) - 1)
    # Wald and Wolfowitz 1940: the number of stretches of one side, one-sided at 5 %.
    if spread > 0 and (turns - expected) / math.sqrt(spread) < -1.645:
        return (
            f"the runs took turns only {turns - 1} times: "
            "a drift of the lab would partly look like this difference"
        )
    return None


@dataclass(frozen=True)
class _Sample:
    """The values of a contrast that count, and what is known of them before any test."""

    metric: str
    contrast: Contrast
    a: Side
    b: Side
    shared: bool
    """Whether a's and b's values pair up by their draws."""
    exact: str
    """Sides that cannot vary: "", "a", "b" or "ab"."""
    identical: bool
    notes: tuple[str, ...]

    @property
    def testable(self) -> bool:
        """Whether a test says anything: runs vary, and there are several on a side."""
        if self.identical or self.constant:
            return False
        return max(len(self.a.values), len(self.b.values)) > 1

    @property
    def constant(self) -> bool:
        """Whether neither side varies, though both have several runs."""
        flat = all(len(np.unique(side.values)) == 1 for side in (self.a, self.b))
        several = min(self.a.given, self.b.given) > 1 and max(len(self.a.values), len(self.b.values)) > 1
        return self.exact == "ab" or (flat and several)


def _has(side: RunSet, metric: str) -> bool:
    return any(metric in run.metrics for run in side.runs)


def _sample(contrast: Contrast, metric: str) -> _Sample:
    a = [run for run in contrast.a.runs if metric in run.metrics]
    b = [run for run in contrast.b.runs if metric in run.metrics]
    given = len(a), len(b)
    notes = []
    for side, runs in ((contrast.a, a), (contrast.b, b)):
        if len(runs) < len(side.runs):
            notes.append(
                f"{len(side.runs) - len(runs)} of {len(side.runs)} runs of {side.label} have no value of it"
            )
    pairs = _pairs(a, b)
    identical = bool(pairs) and all(
        one.identity is not None and one.identity == other.identity for one, other in pairs
    )
    exact = "".join(name for name, runs in (("a", a), ("b", b)) if _cannot_vary(runs))
    if pairs and not exact:
        for side, runs in ((contrast.a, a), (contrast.b, b)):
            if len(runs) > len(pairs):
                alone = f"{len(runs) - len(pairs)} runs of {side.label}"
                notes.append(f"{alone} have no run of the other side with the same seed and repeat")
        paired = len(pairs)
        pairs = list(
            {
                (one.identity or id(one), other.identity or id(other)): (one, other) for one, other in pairs
            }.values()
        )
        a, b = [one for one, _ in pairs], [other for _, other in pairs]
        before_of = paired, paired
    else:
        a, b = _distinct(a), _distinct(b)
        before_of = given
    for side, runs, before in ((contrast.a, a, before_of[0]), (contrast.b, b, before_of[1])):
        if len(runs) < before and not identical:
            notes.append(
                f"{before - len(runs)} of {before} runs of {side.label} repeat another exactly: "
                "they count once"
            )
    values = [np.array([run.metrics[metric] for run in runs], dtype=np.float64) for runs in (a, b)]
    return _Sample(
        metric,
        contrast,
        Side(contrast.a.label, given[0], values[0]),
        Side(contrast.b.label, given[1], values[1]),
        bool(pairs) and not exact,
        exact,
        identical,
        tuple(notes),
    )


def _pairs(a: Sequence[Run], b: Sequence[Run]) -> list[tuple[Run, Run]]:
    """The runs in pairs with equal draws; none unless all of one side have a partner."""
    sides = {run.draws: run for run in a}, {run.draws: run for run in b}
    if None in sides[0] or None in sides[1] or len(sides[0]) != len(a) or len(sides[1]) != len(b):
        return []
    common = [draws for draws in sides[0] if draws in sides[1]]
    if len(common) < min(len(a), len(b)):
        return []
    return [(sides[0][draws], sides[1][draws]) for draws in common]


def _distinct(runs: Sequence[Run]) -> list[Run]:
    return list({run.identity or id(run): run for run in runs}.values())


def _cannot_vary(runs: Sequence[Run]) -> bool:
    """Whether several simulated runs recorded the same though their draws differ."""
    return (
        len(runs) > 1
        and not any(run.by_chance for run in runs)
        and runs[0].identity is not None
        and len({run.identity for run in runs}) == 1
        and len({run.draws for run in runs}) > 1
    )


def _examined(sample: _Sample, family: int, options: Options, random: statistics.Draws) -> Comparison:
    """The comparison of a sample, its p not yet corrected."""
    notes = list(sample.notes)
    if (warning := drift(sample.contrast)) is not None:
        notes.append(warning)
    notes += transients(sample.contrast, sample.metric)
    known = Comparison(
        sample.metric,
        sample.contrast,
        sample.a,
        sample.b,
        Kind.NONE,
        Design.PAIRED if sample.shared else Design.UNPAIRED,
        options.confidence,
        family,
        notes=tuple(notes),
    )
    if sample.identical:
        return replace(known, kind=Kind.IDENTICAL)
    if sample.constant:
        simulated = not any(
            run.by_chance for side in (sample.contrast.a, sample.contrast.b) for run in side.runs
        )
        kept = (
            notes if simulated else [*notes, "all runs of a side show the same value, to the digits recorded"]
        )
        return replace(known, kind=Kind.DETERMINISTIC, notes=tuple(kept))
    if not sample.testable:
        return _single(known, options)
    return _tested(known, sample, family, options, random.again())


def _single(known: Comparison, options: Options) -> Comparison:
    """Compare one run on each side by the runs' own samples."""
    if not options.within:
        return replace(known, kind=Kind.SINGLE)
    series = [
        next(run.series(known.metric) for run in side.runs if known.metric in run.metrics)
        for side in (known.contrast.a, known.contrast.b)
    ]
    try:
        within = statistics.within_runs(series[0], series[1], options.confidence)
    except ValueError:
        return replace(known, kind=Kind.SINGLE)
    sizes = statistics.effective_size(series[0]), statistics.effective_size(series[1])
    return replace(known, kind=Kind.SINGLE, within=within, effective=sizes)


def _tested(
    known: Comparison, sample: _Sample, family: int, options: Options, random: statistics.Draws
) -> Comparison:
    level = options.alpha / family
    draws = statistics.draws_for(family, options.alpha)
    a, b = sample.a.values, sample.b.values
    possible = _possible(sample)
    design = Design.EXACT if sample.exact else Design.PAIRED if sample.shared else Design.UNPAIRED
    if design is Design.EXACT:
        # The exact side stands beside each run of the other.
        a, b = np.broadcast_arrays(a, b)
    paired = design is not Design.UNPAIRED
    found = (
        _paired(b - a, design, options, random, draws) if paired else _unpaired(a, b, options, random, draws)
    )
    signs = not paired or statistics.smallest_p(len(a), len(a), paired=True, draws=draws) <= level
    sd, test = found.sd, found.test
    if design is Design.PAIRED and not signs and len(a) > 1:
        test = statistics.permutation_test(a, b, random, draws)
        sd = float(a.std(ddof=1)), float(b.std(ddof=1))
    welch = welch_p = None
    if min(len(sample.a.values), len(sample.b.values)) > 1:
        welch, welch_p = statistics.welch(sample.a.values, sample.b.values, options.confidence)
    detectable = needed = None
    difference = float(b.mean() - a.mean())
    if found.sd is not None and sd is not None:
        by_pairs = paired and signs
        detectable = statistics.detectable(sd, (len(a), len(b)), level, paired=by_pairs, draws=draws)
        if detectable > max(-possible.low, possible.high):
            detectable = math.inf
        if difference and max(found.sd) > 0:
            needed = statistics.runs_needed(difference, found.sd, level, paired=paired)
    return replace(
        known,
        design=design,
        interval=_cut(found.interval, possible),
        method=found.method,
        welch=_cut(welch, possible),
        welch_p=welch_p,
        test=test,
        signs=paired and (signs or design is Design.EXACT),
        detectable=detectable,
        needed=needed,
        # Pairs too few for a test of their signs may still be enough runs for the other.
        reach=statistics.runs_to_reach(level, paired=design is Design.EXACT),
        margin=options.equivalent,
        equivalent_p=_equivalence(a, b, options, paired=paired),
    )


_UNLIKE = "as resamples of nearly equal values and outliers say nothing"


def _possible(sample: _Sample) -> Interval:
    """The differences that leave b in the metric's range, seen from a's mean.

    A metric that is nowhere below 0 cannot be; nor can a share be above 1 if none was.
    """
    shown = columns.describe(sample.metric)
    most = 100 / shown.factor if shown.unit == "%" else 1.0 if sample.metric.startswith("jain") else math.inf
    if sample.contrast.ratios:
        most = math.inf
    every = np.concatenate((sample.a.values, sample.b.values))
    return Interval(
        -sample.a.mean if every.min() >= 0 and not shown.signed else -math.inf,
        most - sample.a.mean if every.max() <= most else math.inf,
    )


def _cut(interval: Interval | None, to: Interval) -> Interval | None:
    return None if interval is None else Interval(max(interval.low, to.low), min(interval.high, to.high))


@dataclass(frozen=True)
class _Found:
    test: Test
    interval: Interval | None
    method: str
    sd: tuple[float, float] | None


def _unpaired(a: Floats, b: Floats, options: Options, random: statistics.Draws, draws: int) -> _Found:
    test = statistics.permutation_test(a, b, random, draws)
    if min(len(a), len(b)) < 2:
        return _Found(test, None, "", None)
    few = min(len(a), len(b)) < statistics.MIN_RUNS
    interval = None if few else statistics.bootstrap(a, b, options.confidence, random)
    method = "bootstrap-t over runs"
    if interval is None:
        interval = statistics.welch(a, b, options.confidence)[0]
        method = "Welch, too few runs to resample" if few else f"Welch, {_UNLIKE}"
    return _Found(test, interval, method, (float(a.std(ddof=1)), float(b.std(ddof=1))))


def _paired(d: Floats, design: Design, options: Options, random: statistics.Draws, draws: int) -> _Found:
    what = "pairs" if design is Design.PAIRED else "runs"
    test = statistics.sign_test(d, random, draws)
    if len(d) < 2:
        return _Found(test, None, "", None)
    sd = float(d.std(ddof=1))
    if sd == 0:
        return _Found(test, None, "", (0.0, 0.0))
    few = len(d) < statistics.MIN_PAIRS
    interval = None if few else statistics.bootstrap_paired(d, options.confidence, random)
    method = f"bootstrap-t over {what}"
    if interval is None:
        interval = statistics.student(d, options.confidence)[0]
        method = f"Student, too few {what} to resample" if few else f"Student, {_UNLIKE}"
    return _Found(test, interval, method, (sd, sd))


def _equivalence(a: Floats, b: Floats, options: Options, *, paired: bool) -> float | None:
    if options.equivalent is None:
        return None
    try:
        return statistics.equivalence(a, b, options.equivalent, paired=paired)
    except ValueError:
        return None


def _corrected(found: Sequence[Comparison], options: Options) -> list[Comparison]:
    """The comparisons with Holm's correction over those tested, and the kind that follows."""
    tested = [comparison for comparison in found if comparison.test is not None]
    ps = statistics.holm([comparison.test.p for comparison in tested if comparison.test])
    least = statistics.holm([comparison.test.smallest for comparison in tested if comparison.test])
    asked = [comparison for comparison in tested if comparison.equivalent_p is not None]
    same = iter(statistics.holm([comparison.equivalent_p or 0.0 for comparison in asked]))
    verdicts = iter(zip(ps, least, strict=True))
    done = []
    for comparison in found:
        if comparison.test is None:
            done.append(comparison)
            continue
        p, smallest = next(verdicts)
        if p <= options.alpha:
            kind = Kind.DIFFERENCE
        else:
            kind = Kind.TOO_SMALL if smallest > options.alpha else Kind.NONE
        equivalent_p = None if comparison.equivalent_p is None else next(same)
        done.append(replace(comparison, kind=kind, corrected_p=p, equivalent_p=equivalent_p))
    return done


def _repeats(side: RunSet) -> set[int]:
    """Repeats of a side, each carried out once; empty where they cannot be told."""
    repeats = [run.repeat for run in side.runs if run.repeat is not None]
    return set(repeats) if len(set(repeats)) == len(side.runs) else set()


def _has_all(side: RunSet, metric: str) -> bool:
    return all(metric in run.metrics for run in side.runs)


def _by_repeat(side: RunSet, repeats: set[int]) -> list[Run]:
    """The runs of these repeats, in their order."""
    known = {run.repeat: run for run in side.runs}
    return [known[repeat] for repeat in sorted(repeats)]


def _averaged(runs: Sequence[Run], metric: str, value: float) -> Run:
    """A repeat of all combinations as one run, with the value that stands for them."""
    identities = [run.identity for run in runs]
    return Run(
        label=f"repeat {runs[0].repeat}",
        metrics={metric: float(value)},
        over=_over(runs, metric),
        repeat=runs[0].repeat,
        draws=runs[0].draws if len({run.draws for run in runs}) == 1 else None,
        identity=None if None in identities else " ".join(str(identity) for identity in identities),
        started=min((run.started for run in runs if run.started is not None), default=None),
        by_chance=any(run.by_chance for run in runs),
    )
