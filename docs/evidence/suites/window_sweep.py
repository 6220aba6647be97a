"""What the published values of the window sweep can prove, from their ranges, for several correlations.

The article prints average, median, smallest and largest of 155 values a cell: 150 one-second values of five
runs, and the five runs' own averages, which are no samples of their own. How strongly the seconds of one run
resemble each other it does not say, so everything is computed for several correlations.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from scipy import integrate, stats

from cwndlab.experiment.suites import suite

RUNS, SECONDS = 5, 30
"""Runs of a cell, and one-second values of a run."""

CORRELATIONS = (0.0, 0.1, 0.3, 0.5, 1.0)
"""Correlations between the seconds of one run (intraclass): none, to all telling the same."""

CONFIDENCE, POWER = 0.95, 0.8
"""Of a test that is to settle a difference."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A published cell: test 1 to 3, iperf's window, and metrics in Mbit/s."""

    test: int
    window: str
    average: float
    low: float
    high: float

    @property
    def deviation(self) -> float:
        """Standard deviation of the one-second values, estimated from their range.

        Range over d2(n), the expected range of n standard normal values (L. H. C. Tippett, Biometrika 17,
        1925), for the n = 150 values that are samples. A normal distribution is assumed; heavier tails would
        make the estimate too large.
        """
        return (self.high - self.low) / expected_range(RUNS * SECONDS)


@dataclass(frozen=True, slots=True)
class Difference:
    """Two cells of one window: how far apart they are, and whether that could be noise."""

    window: str
    tests: tuple[int, int]
    change_pct: float
    p: tuple[float, ...]
    """Two-sided p of Welch's test at each of CORRELATIONS."""


def cells() -> list[Cell]:
    """Return the published cells."""
    path = suite("window-sweep").path.with_name("window-sweep-cells.csv")
    with path.open(newline="", encoding="utf-8") as stream:
        return [
            Cell(
                int(row["test"]),
                row["window"],
                float(row["average_mbps"]),
                float(row["min_mbps"]),
                float(row["max_mbps"]),
            )
            for row in csv.DictReader(stream)
        ]


@cache
def expected_range(n: int) -> float:
    """The expected range of n standard normal values, d2(n): the integral of 1 - F^n - (1 - F)^n."""
    whole = integrate.quad(
        lambda x: 1 - stats.norm.cdf(x) ** n - stats.norm.sf(x) ** n, -10, 10, epsabs=1e-10, limit=200
    )
    return float(whole[0])


def effective_samples(correlation: float) -> float:
    """How many independent values 150 correlated ones are worth.

    n / (1 + (m - 1) rho) with m values a run (the design effect of cluster samples, L. Kish, Survey Sampling,
    1965, section 5.4): 150 at no correlation, 5 at 1.
    """
    return RUNS * SECONDS / (1 + (SECONDS - 1) * correlation)


def run_spread(correlation: float) -> float:
    """Standard deviation between runs' averages as a share of the average, if seconds are so correlated.

    Of a cell, deviation x sqrt((1 + (m - 1) rho) / m) with m = 30 values a run (Kish, as above); the median
    of the published cells.
    """
    share = float(np.sqrt((1 + (SECONDS - 1) * correlation) / SECONDS))
    return float(np.median([cell.deviation / cell.average for cell in cells()])) * share


def runs_needed(difference: float, spread: float) -> int:
    """Fewest runs of each of two cells for a two-sided t test at 95 % to find a difference with power 80 %.

    Both are shares of the average: the difference, and the standard deviation between runs. The test's power
    is that of the noncentral t distribution (J. Cohen, Statistical Power Analysis, 1988, section 2.5).
    """
    low, high = 1, 2
    while _power(high, difference / spread) < POWER:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _power(middle, difference / spread) < POWER:
            low = middle
        else:
            high = middle
    return high


def _power(runs: int, effect: float) -> float:
    freedom, shift = 2 * runs - 2, effect * (runs / 2) ** 0.5
    limit = stats.t.isf((1 - CONFIDENCE) / 2, freedom)
    return float(stats.nct.sf(limit, freedom, shift) + stats.nct.cdf(-limit, freedom, shift))


def differences() -> Iterator[Difference]:
    """Every pair of tests at every window."""
    published = {(cell.test, cell.window): cell for cell in cells()}
    windows = dict.fromkeys(cell.window for cell in published.values())
    for first, second in combinations((1, 2, 3), 2):
        for window in windows:
            a, b = published[first, window], published[second, window]
            p = []
            for correlation in CORRELATIONS:
                n = effective_samples(correlation)
                p.append(
                    float(
                        stats.ttest_ind_from_stats(
                            a.average, a.deviation, n, b.average, b.deviation, n, equal_var=False
                        ).pvalue
                    )
                )
            yield Difference(window, (first, second), 100 * (b.average / a.average - 1), tuple(p))


def corrected(values: np.ndarray) -> np.ndarray:
    """P-values corrected for their number (Holm, Scandinavian Journal of Statistics 6, 1979)."""
    order = np.argsort(values)
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    out = np.empty_like(values)
    out[order] = np.minimum(steps, 1)
    return out


def markdown() -> str:
    """The sensitivity table: which of 15 differences exceed noise at 95 %, corrected, by correlation."""
    found = list(differences())
    p = np.array([one.p for one in found])
    holm = np.column_stack([corrected(p[:, column]) for column in range(p.shape[1])])
    head = "".join(f" rho {correlation:g} |" for correlation in CORRELATIONS)
    lines = [
        f"| window | tests | difference |{head}",
        "| --- | --- | ---: |" + " --- |" * len(CORRELATIONS),
        "| independent values a cell | | |"
        + "".join(f" {effective_samples(correlation):.0f} |" for correlation in CORRELATIONS),
    ]
    for one, row in zip(found, holm, strict=True):
        verdicts = "".join(f" {'**yes**' if value < 0.05 else 'noise'}, p = {value:.2g} |" for value in row)
        lines.append(
            f"| {one.window} | {one.tests[0]} and {one.tests[1]} | {one.change_pct:+.1f} % |{verdicts}"
        )
    return "\n".join(lines) + "\n"
