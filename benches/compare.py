"""Runs the same bulk transfers on ns-3 and on cwndlab in turn; prints packets per CPU second and the ratio.

A packet is 1448 bytes of payload that reached the receiving application, counted at the end on both sides;
CPU time is that of the simulation alone, without setting up. `make bench` calls this; `--help` lists the
options.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from baseline import Baseline
from scenarios import SCENARIOS, Scenario, resolve

from cwndlab import _native

HERE = Path(__file__).resolve().parent
PAYLOAD_BYTES = 1448
NS3_LIBRARIES = ("applications", "internet", "point-to-point", "traffic-control", "network", "stats", "core")


@dataclass(frozen=True)
class Measured:
    """Cost of a scenario on one simulator."""

    simulated_s: float
    cpu_s: float
    goodput_bytes: int

    @property
    def packets(self) -> int:
        """Data packets that were delivered."""
        return self.goodput_bytes // PAYLOAD_BYTES

    @property
    def packets_per_s(self) -> float:
        """Data packets per second of CPU time."""
        return self.packets / self.cpu_s


def main() -> int:
    """Parse the command line, run, print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="scenarios whose name contains this")
    parser.add_argument("--stacks", nargs="+", default=["freebsd-13", "linux-6.8"], help="%(default)s")
    parser.add_argument(
        "--repeat", type=int, default=3, help="runs of cwndlab, the fastest counts (%(default)s)"
    )
    parser.add_argument("--no-ns3", action="store_true", help="only cwndlab")
    options = parser.parse_args()

    ns3 = None if options.no_ns3 else build_ns3()
    peer = ns3_version() if ns3 else "without ns-3"
    print(f"{cpu_name()}; engine {_native.version()}; {peer}\n")
    print("| scenario | simulator | simulated | packets | CPU s | packets per CPU s | times ns-3 | change |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    baseline = Baseline("compare")
    for scenario in SCENARIOS:
        if options.only not in scenario.name:
            continue
        theirs = run_ns3(ns3, scenario) if ns3 else None
        if theirs:
            print(row(scenario.name, "ns-3", theirs), flush=True)
        for stack in options.stacks:
            runs = [run_cwndlab(scenario, stack) for _ in range(options.repeat)]
            ours = min(runs, key=lambda run: run.cpu_s)
            if theirs:
                ratio = ours.packets_per_s / theirs.packets_per_s
                change = baseline.change(f"{scenario.file} {stack}", ratio)
                print(row("", stack, ours, f"{ratio:,.0f}", change), flush=True)
            else:
                print(row(scenario.name, stack, ours), flush=True)
    baseline.write()
    return 0


def row(scenario: str, simulator: str, run: Measured, ratio: str = "", change: str = "") -> str:
    """One line of the table."""
    numbers = f"{run.simulated_s:g} s | {run.packets:,} | {run.cpu_s:.2f} | {run.packets_per_s:,.0f}"
    return f"| {scenario} | {simulator} | {numbers} | {ratio} | {change} |"


def run_cwndlab(scenario: Scenario, stack: str) -> Measured:
    """The scenario in this process, recorded like any experiment; rows are taken and dropped."""
    resolved = resolve(scenario, stack)
    simulation = _native.Simulation(json.dumps(resolved), 0)
    before = time.process_time()
    over = False
    while not over:
        over = simulation.advance(1 << 18)
        simulation.take()
    cpu_s = time.process_time() - before
    summary = json.loads(simulation.summary())
    return Measured(scenario.seconds, cpu_s, sum(flow["goodput_bytes"] for flow in summary["flows"]))


def run_ns3(program: Path, scenario: Scenario) -> Measured:
    """The scenario in ns-3."""
    seconds = scenario.ns3_seconds or scenario.seconds
    arguments = {
        "rate": f"{scenario.rate_mbit}Mbps",
        "access": f"{scenario.access_mbit}Mbps",
        "delay": f"{scenario.delay_ms}ms",
        "queue": scenario.queue_packets,
        "flows": scenario.flows,
        "buffer": scenario.buffer_bytes,
        "seconds": seconds,
        "start-spread": scenario.start_spread_s,
    }
    command = [str(program), *(f"--{name}={value}" for name, value in arguments.items())]
    output = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return Measured(seconds, output["cpu_s"], output["goodput_bytes"])


def build_ns3() -> Path:
    """Compile bulk.cc, optimised, against the system's ns-3."""
    source = HERE / "ns3" / "bulk.cc"
    program = HERE.parent / "target" / "ns3-bulk"
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return program
    libraries = [f"-lns3-{name}" for name in NS3_LIBRARIES]
    program.parent.mkdir(exist_ok=True)
    # Debian's package is a release build (no logging, no assertions); so is the program.
    command = ["c++", "-std=c++17", "-O3", "-DNDEBUG", str(source), "-o", str(program), *libraries]
    print(shlex.join(command), file=sys.stderr)
    subprocess.run(command, check=True)
    return program


def ns3_version() -> str:
    """Such as `ns-3 3.37`."""
    version = subprocess.run(
        ["pkg-config", "--modversion", "ns3-core"], check=True, capture_output=True, text=True
    ).stdout
    return f"ns-3 {version.strip()}"


def cpu_name() -> str:
    """The machine's processor and how many it has."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = (line for line in info.read_text().splitlines() if line.startswith("model name"))
        name = next(models, f": {name}").split(":", 1)[1].strip()
    return f"{os.cpu_count()} x {name}"


if __name__ == "__main__":
    sys.exit(main())
