"""Cost of each queue discipline for the whole simulation, beside pfifo: instructions and time a packet.

.venv/bin/python benches/disciplines.py          (Debian: valgrind)

Bulk transfers as those of `scenarios.py` at 1 Gbps x 41 ms, 1 and 100 flows, under every discipline of
the catalogue with its defaults. Instructions are callgrind's, setting up subtracted, and do not depend on
what else the machine does. Time is that of the processor in user mode; the disciplines take turns, round
after round, so that what else the machine does meets them all alike, and the least of each counts. Packets
are those that hosts send, data and acknowledgements. Exits 1 if one costs more than twice what pfifo does,
in instructions or in time.
"""

import json
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import replay
from baseline import Baseline
from scenarios import SCENARIOS, resolve

from cwndlab import _native

ROUNDS = 7
"""In which every discipline is timed once."""
COUNTED_SECONDS = 4
"""Simulated with callgrind."""
STACK = "linux-6.8"
QUEUES = {"red": "{kind: red, limit: 3MB, min: 250KB, max: 750KB, burst: 300p, avpkt: 1000B}"}
"""Parameters beside the defaults: RED has none for these."""
MAX_RATIO = 2.0
"""Times pfifo that a discipline may cost."""


@dataclass(frozen=True)
class Cost:
    """Cost of a packet."""

    instructions: float
    ns: float


@dataclass(frozen=True)
class Bench:
    """A discipline under a number of flows, its Scenario for the whole time, and what was found."""

    kind: str
    flows: int
    seconds: float
    resolved: dict[str, Any]
    times: list[float]


def main() -> int:
    """Measure every discipline and print a Markdown table."""
    replay.build()
    kinds = [queue["kind"] for queue in json.loads(_native.catalogue())["queues"]]
    scenarios = [next(s for s in SCENARIOS if s.file == file) for file in ("1g-41ms", "100-flows")]
    benches = [
        Bench(kind, s.flows, s.seconds, resolve(replace(s, queue=QUEUES.get(kind, kind)), STACK), [])
        for s in scenarios
        for kind in kinds
    ]
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            for bench in benches:
                path = replay.write(bench.resolved, bench.seconds, Path(folder, "timed.json"))
                packets, seconds = replay.run(path)
                bench.times.append(seconds / packets * 1e9)
        costs = {
            (bench.kind, bench.flows): Cost(
                replay.instructions_per_packet(bench.resolved, COUNTED_SECONDS, Path(folder)),
                min(bench.times),
            )
            for bench in benches
        }
    print("| discipline | flows | instructions | times pfifo | change | ns | times pfifo | change |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    baseline = Baseline("disciplines")
    for (kind, flows), found in costs.items():
        instructions, ns = beside_pfifo(costs, kind, flows)
        more = baseline.change(f"{kind} {flows} instructions", found.instructions)
        slower = baseline.change(f"{kind} {flows} time", ns)
        counts = f"{found.instructions:,.0f} | {instructions:.2f} | {more}"
        print(f"| {kind} | {flows} | {counts} | {found.ns:.0f} | {ns:.2f} | {slower} |")
    baseline.write()
    dear = too_dear(costs)
    for line in dear:
        print(line, file=sys.stderr)
    return int(bool(dear))


def beside_pfifo(costs: dict[tuple[str, int], Cost], kind: str, flows: int) -> tuple[float, float]:
    """Cost of a discipline with so many flows, in instructions and in time, in times pfifo."""
    found, plain = costs[kind, flows], costs["pfifo", flows]
    return found.instructions / plain.instructions, found.ns / plain.ns


def too_dear(costs: dict[tuple[str, int], Cost]) -> list[str]:
    """A line for each discipline and number of flows that costs too much, in one or in the other."""
    lines = []
    for kind, flows in costs:
        for times, what in zip(beside_pfifo(costs, kind, flows), ("instructions", "time"), strict=True):
            if times > MAX_RATIO:
                lines.append(f"{kind} with {flows} flows: {times:.2f} times the {what} of pfifo")
    return lines


if __name__ == "__main__":
    sys.exit(main())
