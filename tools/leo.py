"""Makes the schedule of a link over low satellites: every 15 s a handover, another delay, another rate.

What is public of Starlink is taken: terminals are given their satellites anew at seconds 12, 27, 42 and 57
of every minute; at those moments the delay steps, the rate changes and packets are lost for some tens of ms
(Mohan et al., A Multifaceted Look at Starlink Performance, WWW 2024; Garcia et al., Multi-Timescale
Evaluation of Starlink Throughput, LEO-NET 2023). The ranges and the uniform draws within them are cwndlab's
own, and no recording stands behind them.

    python -m tools.leo --seconds 90 --seed 1
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from random import Random

HANDOVERS_S = (12, 27, 42, 57)
"""Seconds of a minute at which satellites change."""
DELAY_MS = (15, 35)
"""One-way delay by way of a satellite."""
RATE_MBIT = (20, 80)
"""Rate that a terminal has by way of a satellite."""
OUTAGE_MS = (20, 150)
"""Time for which packets are lost at a handover."""
SPREAD = 0.25
"""Share by which the rate is drawn anew within the time of a satellite, up or down."""
STEP_S = 5
"""Time between these changes."""


def states(seconds: int, seed: int) -> Iterator[tuple[float, str]]:
    """Yield times in s, and what is set there as an experiment file has it; the first is the beginning."""
    random = Random(seed)
    times = [minute + second for minute in range(0, seconds, 60) for second in HANDOVERS_S]
    starts = [0, *(time for time in times if time < seconds)]
    for start, end in zip(starts, [*starts[1:], seconds], strict=True):
        delay, rate, away = (random.randint(*bounds) for bounds in (DELAY_MS, RATE_MBIT, OUTAGE_MS))
        if start:
            yield start, "down: true"
        yield (
            start + (away / 1000 if start else 0),
            f"{'down: false, ' if start else ''}delay: {delay}ms, rate: {rate}mbit",
        )
        for step in range(start + STEP_S, end, STEP_S):
            yield step, f"rate: {max(1, round(rate * random.uniform(1 - SPREAD, 1 + SPREAD)))}mbit"


def schedule(seconds: int, seed: int) -> tuple[str, list[str]]:
    """Return what the link has at first, and the lines of its schedule."""
    (_, first), *later = states(seconds, seed)
    return first, [f"- {{at: {time:g}s, set: {{{what}}}}}" for time, what in later]


def main() -> None:
    """Print the link."""
    words = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tools.leo", description=words)
    parser.add_argument("--seconds", type=int, default=90, help="length of the run [90]")
    parser.add_argument("--seed", type=int, default=1, help="of the draws [1]")
    given = parser.parse_args()
    first, lines = schedule(given.seconds, given.seed)
    print(f"{{{first}}}", "schedule:", *("  " + line for line in lines), sep="\n")


if __name__ == "__main__":
    main()
