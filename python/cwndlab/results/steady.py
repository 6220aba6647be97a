"""Steady state of a run: whether its goodput had settled, by MSER-5 (White 1997; White and others 2000)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cwndlab.contract.scenario import Scenario
from cwndlab.contract.summary import Summary

BATCH = 5
"""Values that are averaged before the rule is applied, the 5 of MSER-5."""

LEAST_BATCHES = 10
"""Batches below which nothing is said: the rule needs some to choose among."""

TOLERANCE = 0.05
"""Share by which the mean of all may be off that of the settled part before it is worth a word."""

NS_PER_S = 10**9


def begins(values: Sequence[float] | np.ndarray) -> int | None:
    """Number of the value with which the steady state begins; None where that lies in the second half.

    MSER-5 leaves out as many batches from the beginning as make the standard error of the mean of the others
    least, as if they were independent.
    """
    count = len(values) // BATCH
    means = np.asarray(values[: count * BATCH], np.float64).reshape(count, BATCH).mean(axis=1)
    # So few batches that they are alike by chance are no candidates.
    errors = [float(np.var(means[start:])) / (count - start) for start in range(max(count - BATCH, 0) + 1)]
    start = int(np.argmin(errors))
    return None if 2 * start >= count else start * BATCH


def unsettled(scenario: Scenario, summary: Summary) -> float | None:
    """Share by which goodput in the measurement window is off that of its second half, if it never settled.

    None where it did, where the window has fewer than `LEAST_BATCHES` batches of seconds, and where the
    difference is within `TOLERANCE`.
    """
    seconds = goodput(scenario, summary)
    if len(seconds) < LEAST_BATCHES * BATCH or begins(seconds) is not None:
        return None
    whole, end = float(seconds.mean()), float(seconds[len(seconds) // 2 :].mean())
    off = abs(whole - end) / end if end else np.inf
    return float(off) if off > TOLERANCE else None


def goodput(scenario: Scenario, summary: Summary) -> np.ndarray:
    """Bytes that all flows together delivered in each whole second of the measurement window."""
    first, end = -(-scenario["measure"]["from_ns"] // NS_PER_S), scenario["measure"]["to_ns"] // NS_PER_S
    total = np.zeros(max(end - first, 0))
    for flow in summary["flows"]:
        told = flow.get("goodput_seconds")
        if not told:
            continue
        start = told["from_ns"] // NS_PER_S - first
        for place, amount in enumerate(told["bytes"], start):
            if 0 <= place < len(total):
                total[place] += amount
    return total
