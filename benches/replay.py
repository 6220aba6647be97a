"""Cost of a simulated run: instructions by callgrind, and processor time."""

import json
import re
import resource
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REPLAY = ROOT / "target/release/examples/replay"


def build() -> None:
    """Build the program that carries out a Scenario."""
    words = ["cargo", "build", "--locked", "--quiet", "--release", "-p", "cwndlab-sim", "--example", "replay"]
    subprocess.run(words, cwd=ROOT, check=True)


def write(resolved: dict[str, Any], seconds: float, path: Path) -> Path:
    """Write a Scenario, cut to a number of seconds, into a file; returns the file."""
    ns = round(seconds * 1e9)
    window = {"from_ns": 0, "to_ns": ns}
    path.write_text(json.dumps(resolved | {"duration_ns": ns, "measure": window}), encoding="utf-8")
    return path


def instructions_per_packet(resolved: dict[str, Any], seconds: float, folder: Path) -> float:
    """Number of instructions that a packet of a Scenario costs, those of setting up subtracted.

    They do not depend on what else the machine does; counted, a run takes some fifty times as long.
    """
    nothing, _ = _count(write(resolved, 1e-6, folder / "nothing.json"), folder)
    instructions, packets = _count(write(resolved, seconds, folder / "counted.json"), folder)
    return (instructions - nothing) / packets


def _count(path: Path, folder: Path) -> tuple[int, int]:
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind"]
    packets, _ = run(path, valgrind)
    summary = re.search(r"^(?:summary|totals): (\d+)", (folder / "callgrind").read_text(), re.MULTILINE)
    assert summary is not None, "callgrind counts instructions"
    return int(summary[1]), packets


def run(path: Path, under: list[str] | None = None) -> tuple[int, float]:
    """Number of packets that hosts sent, and processor time of the run in user mode in s."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([*(under or ()), REPLAY, path], capture_output=True, text=True, check=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    found = re.search(r"(\d+) packets, ", done.stderr)
    assert found is not None, done.stderr
    return int(found[1]), seconds
