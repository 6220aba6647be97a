"""Whether a packet costs more than when it was recorded: instructions of the engine by callgrind.

.venv/bin/python benches/instructions.py         (Debian: valgrind)

Bulk transfers as those of `scenarios.py`, each with FreeBSD 13 and Linux 6.18. Numbers of instructions hang
on the compiler, which rust-toolchain.toml names, and hardly on the machine. Exits 1 if a packet costs over
3 % more than `baseline.json` says; CWNDLAB_BASELINE=write records today's numbers.
"""

import sys
import tempfile
from pathlib import Path

import replay
from baseline import Baseline
from scenarios import SCENARIOS, resolve

STACKS = ("freebsd-13", "linux-6.18")
COUNTED_SECONDS = {"1g-41ms": 3, "10m-40ms": 60, "100-flows": 2}
"""Simulated s of each Scenario: some 100,000 packets."""
MOST = 0.03
"""Growth above which the program fails."""


def main() -> int:
    """Count every Scenario and print a Markdown table."""
    replay.build()
    baseline, dearer = Baseline("instructions"), False
    print("| scenario | stack | instructions a packet | change |")
    print("| --- | --- | ---: | ---: |")
    for scenario in (scenario for scenario in SCENARIOS if scenario.file in COUNTED_SECONDS):
        for stack in STACKS:
            with tempfile.TemporaryDirectory() as folder:
                seconds = COUNTED_SECONDS[scenario.file]
                found = replay.instructions_per_packet(resolve(scenario, stack), seconds, Path(folder))
            row = f"{scenario.file} {stack}"
            dearer |= baseline.growth(row, found) > MOST
            print(f"| {scenario.name} | {stack} | {found:,.0f} | {baseline.change(row, found)} |", flush=True)
    baseline.write()
    if dearer:
        print(f"a packet costs over {MOST:.0%} more than recorded", file=sys.stderr)
    return int(dearer)


if __name__ == "__main__":
    sys.exit(main())
