"""Measures how much the loadlatency tool carries over a veth pair, beside iperf3, in Markdown.

One flow in each direction in turn, then four, between two network namespaces of this machine; of each tool
the best of some rounds, which take turns. Wanted: 5 Gbit/s with one flow. Needs root, ip (iproute2), iperf3,
the program itself (cargo build --release -p cwndlab-loadlatency) and a machine with nothing else to do; the
load is printed.
"""

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from baseline import Baseline

from cwndlab.testbeds.netns.namespaces import remove

PREFIX = f"cwndlabbench-{os.getpid()}"
A, B = "10.97.1.1", "10.97.1.2"
PORT = "5301"
PROGRAM = Path(__file__).parent.parent / "target" / "release" / "loadlatency"

SCENARIOS = {"down": (1, "-R", 1), "up": (2, "", 1), "4 down": (10, "-R", 4), "4 up": (14, "", 4)}
"""Traffic: the tool's scenario, iperf3's option for the direction, iperf3's number of streams."""


def main() -> None:
    """Parse the command line, measure, print."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not without removing the namespaces
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts (%(default)s)")
    parser.add_argument("--cc", default="cubic", help="congestion control of both tools (%(default)s)")
    parser.add_argument("--program", type=Path, default=PROGRAM, help="loadlatency (%(default)s)")
    options = parser.parse_args()
    if not options.program.exists():
        parser.error(f"{options.program} is not built: cargo build --release -p cwndlab-loadlatency")
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{platform.machine()}, {os.cpu_count()} processors, Linux {platform.release()}; load {load}\n")
    print("| traffic | loadlatency | iperf3 | ratio | change |")
    print("| --- | ---: | ---: | ---: | ---: |")
    baseline = Baseline("loadlatency")
    with namespaces():
        for traffic, (scenario, direction, streams) in SCENARIOS.items():
            ours, theirs = 0.0, 0.0
            for _ in range(options.rounds):
                ours = max(ours, loadlatency(options.program, scenario, options.seconds, options.cc))
                theirs = max(theirs, iperf3(direction, streams, options.seconds, options.cc))
            ratio = ours / theirs
            cells = (
                f"{ours:.2f} Gbit/s | {theirs:.2f} Gbit/s | {ratio:.2f} | {baseline.change(traffic, ratio)}"
            )
            print(f"| {traffic} | {cells} |", flush=True)
    baseline.write()


def loadlatency(program: Path, scenario: int, seconds: int, cc: str) -> float:
    """Gbit/s of payload that all flows of a scenario read."""
    command = inside("b", str(program), "serve", "--bind", B, "--port", "0", "--once", "--cc", cc)
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    found = re.search(r"port (\d+)", server.stdout.readline())
    assert found is not None
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = ["--scenario", str(scenario), "--duration", str(seconds), "--json", file.name, "--cc", cc]
        run = inside("a", str(program), "run", B, "--port", found[1], *words)
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
        document = json.load(file)
    server.communicate()
    return sum(flow["kib_s"] for flow in document["figures"][0]["goodput"]) * 1024 * 8 / 1e9


def iperf3(direction: str, streams: int, seconds: int, cc: str) -> float:
    """Gbit/s of payload that its receiver read."""
    server = subprocess.Popen(inside("b", "iperf3", "-s", "-1", "-p", PORT), stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    words = [
        "-p",
        PORT,
        "-t",
        str(seconds),
        "-P",
        str(streams),
        "-C",
        cc,
        *([direction] if direction else []),
    ]
    out = subprocess.run(inside("a", "iperf3", "-J", "-c", B, *words), check=True, capture_output=True).stdout
    server.wait()
    return float(json.loads(out)["end"]["sum_received"]["bits_per_second"]) / 1e9


def inside(which: str, *command: str) -> list[str]:
    """A command in a namespace."""
    return ["ip", "netns", "exec", f"{PREFIX}-{which}", *command]


@contextmanager
def namespaces() -> Iterator[None]:
    """Two hosts joined by a veth pair, offloads as the kernel sets them."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    try:
        for which in "ab":
            ip("netns", "add", f"{PREFIX}-{which}")
        peer = ("peer", "name", "eth0", "netns", f"{PREFIX}-b")
        ip("-n", f"{PREFIX}-a", "link", "add", "eth0", "type", "veth", *peer)
        for which, address in (("a", A), ("b", B)):
            ip("-n", f"{PREFIX}-{which}", "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", f"{PREFIX}-{which}", "link", "set", "eth0", "up")
        yield
    finally:
        remove([f"{PREFIX}-{which}" for which in "ab"])


if __name__ == "__main__":
    main()
