"""Intervals that can be: what is said of random samples, however odd, stays in the range of the metric."""

import math
import re

import numpy as np
import pytest

from cwndlab.analysis import comparison, statistics, verdict
from cwndlab.analysis.comparison import Comparison, Contrast, Options, RunSet
from cwndlab.analysis.runs import Run
from cwndlab.analysis.statistics import Floats

pytestmark = pytest.mark.slow

SAMPLES = 10_000
MOST = {"goodput_mbps": math.inf, "rtos": math.inf, "utilisation": 1.0, "retransmit_rate": 1.0, "jain": 1.0}
"""The largest value that a metric can have."""

WIDEST = 15
"""Standard errors from the difference to an end: with two runs a side Student's quantile is 12.7."""


def drawn(random: np.random.Generator, most: float, runs: int) -> Floats:
    """Values of one side: normal ones, then outliers, equal values, two values or zeros in their place."""
    centre = random.choice([0.001, 0.5, 0.99] if most < math.inf else [0.01, 10.0, 1e6])
    found = np.abs(random.normal(centre, centre * 10 ** random.uniform(-6, 0), runs))
    match random.integers(6):
        case 0:
            found[random.integers(runs)] *= 10 ** random.uniform(-3, 4)
        case 1:
            found[:] = found[0]
        case 2:
            found[1:] = found[0] * (1 + 1e-9 * random.random(runs - 1))
        case 3:
            found = random.choice(found[:2], runs)
        case 4:
            found[random.random(runs) < 0.8] = 0.0
        case _:
            pass
    return np.minimum(found, most)


def side(name: str, values: Floats, metric: str, *, shared: bool) -> RunSet:
    return RunSet(
        name,
        [
            Run(
                f"{repeat}",
                {metric: float(value)},
                draws=(1, repeat) if shared else None,
                by_chance=not shared,
            )
            for repeat, value in enumerate(values)
        ],
    )


def sample(random: np.random.Generator) -> Comparison:
    metric = str(random.choice(list(MOST)))
    shared = bool(random.integers(2))
    runs = random.integers(2, 13) if shared else random.integers(2, 7)
    sides = [
        side(name, drawn(random, MOST[metric], int(runs)), metric, shared=shared) for name in ("old", "new")
    ]
    (found,) = comparison.compare([Contrast(*sides)], [metric], Options())
    return found


def holds(found: Comparison) -> None:
    """Whether an interval can be, as it is known and as it is told."""
    said = f"{verdict.sentence(found)}\n{verdict.block(found)}"
    assert not re.search("inf|nan|∞", said.replace("infer", "")), said
    if found.detectable is not None and math.isfinite(found.detectable):
        assert found.detectable <= max(found.a.mean, MOST[found.metric] - found.a.mean), said
    if found.interval is None:
        return
    low, high = found.interval.low, found.interval.high
    assert low <= found.difference <= high, said
    rounding = 1e-9 * max(1.0, found.a.mean, found.b.mean)
    assert -rounding <= found.a.mean + low, said
    assert found.a.mean + high <= MOST[found.metric] + rounding, said
    error = sum(each.values.std(ddof=1) / math.sqrt(len(each.values)) for each in (found.a, found.b))
    assert max(found.difference - low, high - found.difference) <= WIDEST * error + rounding, said
    for text in re.findall(r"between (\S+) and (\S+) (%|points)", said):
        ends = [float(end.replace("−", "-")) for end in text[:2]]
        assert ends[0] <= ends[1], said
        assert ends[0] >= -100, said
        if text[2] == "points":
            assert ends[1] <= 100, said


def test_what_is_said_of_any_sample_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    # How many runs are needed takes longest, and is no interval.
    monkeypatch.setattr(statistics, "runs_needed", lambda *_, **__: None)
    monkeypatch.setattr(statistics, "RESAMPLES", 399)
    random = np.random.default_rng(34)
    methods: dict[str, int] = {}
    for _ in range(SAMPLES):
        found = sample(random)
        holds(found)
        methods[found.method.partition(",")[0]] = methods.get(found.method.partition(",")[0], 0) + 1
    assert all(methods.get(name, 0) > SAMPLES / 50 for name in ("bootstrap-t over pairs", "Student", "Welch"))
