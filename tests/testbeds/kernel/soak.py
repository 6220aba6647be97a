"""Runs of testbed kernel made twice, with one job and with two, whose bytes are compared; by hand, for long.

`python tests/testbeds/kernel/soak.py --kernel NAME --runs 200` says which runs were odd, and fails where any
was. A run has two flows, loss, jitter and reordering; half of the runs have a FIFO, the others fq_codel.
"""

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path

import cwndlab

TEXT = """\
experiment: soak
duration: 8s
hosts: {a: {stack: linux, cc: cubic}, b: {stack: linux, cc: bbr}, c: {stack: linux}}
network:
  dumbbell:
    left: [a, b]
    right: [c]
    bottleneck:
      rate: 20mbit
      delay: 10ms
      loss: {random: 0.2%}
      jitter: {sd: 1ms, kind: normal, reorder: true}
      queue: pfifo
flows: [{name: f, from: a, to: c}, {name: g, from: b, to: c}]
sweep: [network.dumbbell.bottleneck.queue: [{kind: pfifo, limit: 50p}, fq_codel]]
"""


def digests(out: Path) -> dict[str, str]:
    """Hashes of what each run recorded, by run and file."""
    files = sorted((out / "runs").rglob("*.parquet"))
    return {str(file.relative_to(out)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def main() -> int:
    """Make the runs, and compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", required=True, help="name of a kernel that was built")
    parser.add_argument("--runs", type=int, default=200, help="number of runs, both times together")
    told = parser.parse_args()
    changes = [f"repeat={max(1, told.runs // 4)}"]
    found = []
    with tempfile.TemporaryDirectory() as place:
        for jobs in (1, 2):
            out = Path(place) / str(jobs)
            results = cwndlab.load(TEXT, changes, kernel=told.kernel).run(
                kernel=told.kernel, out=out, jobs=jobs
            )
            if not results.complete:
                print(f"with {jobs} jobs not all runs completed")
                return 1
            found.append(digests(out))
    first, second = found
    differing = {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)}
    runs, odd = ({name.split("/")[1] for name in names} for names in (first, differing))
    listed = " ".join(sorted(odd)) or "-"
    print(f"{2 * len(runs)} runs on kernel {told.kernel}, {len(odd)} pairs differ: {listed}")
    return 1 if odd else 0


if __name__ == "__main__":
    sys.exit(main())
