"""What each queue discipline costs the whole simulation, beside pfifo: instructions and time for each packet.

.venv/bin/python benches/disciplines.py          (Debian: valgrind)

Bulk transfers as those of `scenarios.py` at 1 Gbps x 41 ms, 1 and 100 flows, under every discipline of
the catalogue with its defaults. Instructions are callgrind's, setting up subtracted, and do not depend on
what else the machine does. Time is that of the processor in user mode; the disciplines take turns, round
after round, so that what else the machine does meets them all alike, and the least of each counts. Packets
are those that hosts send, data and acknowledgements. Exits 1 if one costs more than twice what pfifo does,
in instructions or in time.
"""

import json
import re
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from baseline import Baseline
from scenarios import SCENARIOS, resolve

from cwndlab import _native

ROOT = Path(__file__).resolve().parent.parent
REPLAY = ROOT / "target/release/examples/replay"
ROUNDS = 7
"""In which every discipline is timed once."""
COUNTED_SECONDS = 4
"""Simulated with callgrind, which is some fifty times slower."""
STACK = "linux-6.8"
QUEUES = {"red": "{kind: red, limit: 3MB, min: 250KB, max: 750KB, burst: 300p, avpkt: 1000B}"}
"""What is not the discipline's defaults: RED has none for these."""
MAX_RATIO = 2.0
"""Times pfifo that a discipline may cost."""


@dataclass(frozen=True)
class Cost:
    """What a packet costs."""

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

    def write(self, seconds: float, folder: str) -> Path:
        """The Scenario over so many seconds, in a file."""
        ns = round(seconds * 1e9)
        window = {"from_ns": 0, "to_ns": ns}
        path = Path(folder, f"{self.kind}-{self.flows}-{ns}.json")
        path.write_text(json.dumps(self.resolved | {"duration_ns": ns, "measure": window}), encoding="utf-8")
        return path


def main() -> int:
    """Measure every discipline and print a Markdown table."""
    build = ["cargo", "build", "--locked", "--quiet", "--release", "-p", "cwndlab-sim", "--example", "replay"]
    subprocess.run(build, cwd=ROOT, check=True)
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
                packets, seconds = run([], bench.write(bench.seconds, folder))
                bench.times.append(seconds / packets * 1e9)
        costs = {
            (bench.kind, bench.flows): Cost(instructions_per_packet(bench, folder), min(bench.times))
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
    """What a discipline costs with so many flows, in instructions and in time, in times pfifo."""
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


def instructions_per_packet(bench: Bench, folder: str) -> float:
    """Of a shorter run, setting up subtracted."""
    nothing, _ = count(bench.write(1e-6, folder), folder)
    instructions, packets = count(bench.write(COUNTED_SECONDS, folder), folder)
    return (instructions - nothing) / packets


def count(path: Path, folder: str) -> tuple[int, int]:
    """Instructions of a run, and its packets."""
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind"]
    packets, _ = run(valgrind, path)
    summary = re.search(r"^(?:summary|totals): (\d+)", Path(folder, "callgrind").read_text(), re.MULTILINE)
    assert summary is not None, "callgrind counts instructions"
    return int(summary[1]), packets


def run(under: list[str], path: Path) -> tuple[int, float]:
    """Packets that hosts sent, and the seconds of processor time the run took in user mode."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([*under, REPLAY, path], capture_output=True, text=True, check=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    found = re.search(r"(\d+) packets, ", done.stderr)
    assert found is not None, done.stderr
    return int(found[1]), seconds


if __name__ == "__main__":
    sys.exit(main())
