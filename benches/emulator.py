"""Measures the real-time path emulator between network namespaces of this machine, in Markdown.

Delay: UDP through a link that is 95 % full, and how late each packet left by the emulator's own account;
before that, ping through the idle link. Rate: bytes that TCP brings to the other host's interface in a fixed
time, with the link's overhead. Capacity: 1500-byte packets at 1 Gbit/s with 40 ms of delay each way. Needs
root, ip (iproute2) and iperf3, and a machine with nothing else to do; the load is printed.
"""

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from baseline import Baseline

from cwndlab import _native
from cwndlab.testbeds.netns.namespaces import remove

PREFIX = f"cwndlabbench-{os.getpid()}"
A, B = "10.97.0.1", "10.97.0.2"
ETHERNET_BYTES = 14


def main() -> None:
    """Parse the command line, measure, print."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not without removing the namespaces
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10, help="of each measurement (%(default)s)")
    parser.add_argument("--only", choices=["delay", "rate", "capacity"], help="one of them")
    options = parser.parse_args()
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"{platform.machine()}, {os.cpu_count()} processors, Linux {platform.release()}; load {load}; ",
        end="",
    )
    print(f"engine {_native.version()}\n")
    with namespaces():
        if options.only in (None, "delay"):
            delay(options.seconds)
        if options.only in (None, "rate"):
            rate(options.seconds)
        if options.only in (None, "capacity"):
            capacity(options.seconds)


def delay(seconds: int) -> None:
    """Time added to a delay of 4 ms each way, by rate."""
    print("| rate | packets | late p50 | p99 | p99.9 | max | ping beyond 8 ms, p50 | p99 |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for mbps in (2, 10, 50, 100):
        emulator = Emulator(rate_bps=mbps * 1_000_000, delay_ns=4_000_000)
        # Before anything else is on the way: two passes through the emulator, and two kernels.
        beyond = [round_trip - 8_000_000 for round_trip in ping(200)]
        emulator.native.mark_start(time.monotonic_ns())
        udp(seconds, f"{0.95 * mbps * 1472 / 1514:.3f}M")
        health = emulator.stop()["health"]
        late = [us(health["late"][name]) for name in ("p50_ns", "p99_ns", "p999_ns", "max_ns")]
        probed = [us(beyond[len(beyond) // 2]), us(beyond[len(beyond) * 99 // 100])]
        print(f"| {mbps} Mbit/s | {health['packets']} | {' | '.join(late + probed)} |")
    print()


def rate(seconds: int) -> None:
    """The rate at which bytes reach the far host's interface, with the link's overhead."""
    print("| rate | measured | error | change | late max | reliable |")
    print("| ---: | ---: | ---: | ---: | ---: | --- |")
    baseline = Baseline("emulator")
    for mbps in (2, 10, 50, 100, 500):
        emulator = Emulator(rate_bps=mbps * 1_000_000, delay_ns=10_000_000, packets=max(50, mbps * 2))
        client, server = tcp(seconds + 4)
        time.sleep(3)
        before = received()
        time.sleep(seconds)
        after = received()
        client.wait()
        server.wait()
        health = emulator.stop()["health"]
        measured = (after[1] - before[1]) * 8e9 / (after[0] - before[0])
        error = measured / (mbps * 1e6) - 1
        reliable = "no" if health["unreliable"] else "yes"
        late = us(health["late"]["max_ns"])
        cells = f"{measured / 1e6:.3f} Mbit/s | {error:+.3%} | {baseline.change(str(mbps), 1 + error)}"
        print(f"| {mbps} Mbit/s | {cells} | {late} | {reliable} |")
    baseline.write()
    print()


def capacity(seconds: int) -> None:
    """1500-byte packets over 1 Gbit/s with 40 ms of delay each way, once they flow."""
    print("| traffic | on the wire | late p50 | p99 | max | lost to the emulator | its processor |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in ("bbr", "cubic"):
        emulator = Emulator(rate_bps=1_000_000_000, delay_ns=40_000_000, packets=20_000)
        client, server = tcp(seconds + 7, "-C", name)
        time.sleep(6)
        emulator.native.mark_start(time.monotonic_ns())
        busy, before = time.process_time(), received()
        time.sleep(seconds)
        busy, after = time.process_time() - busy, received()
        client.communicate()
        server.wait()
        health = emulator.stop()["health"]
        measured = (after[1] - before[1]) * 8e9 / (after[0] - before[0])
        late = [us(health["late"][metric]) for metric in ("p50_ns", "p99_ns", "max_ns")]
        lost = health["socket_drops"] + health["unintended_drops"] + health["backlog_drops"]
        cells = [name, f"{measured / 1e6:.0f} Mbit/s", *late, str(lost), f"{busy / seconds:.0%}"]
        print(f"| {' | '.join(cells)} |")
    print()


def us(ns: int | None) -> str:
    """A time in a table."""
    return "" if ns is None else f"{ns / 1000:.0f} us"


class Emulator:
    """Two links between the hosts, running."""

    def __init__(self, rate_bps: int, delay_ns: int, packets: int = 1000) -> None:
        """Set up, and resolve addresses before t = 0."""
        config = {
            "run_id": 0,
            "netns": place("e"),
            "scenario": scenario(rate_bps, delay_ns, packets),
            "cables": [{"a": "a0", "b": "b0", "forward": "there", "reverse": "back"}],
            "flows": [],
            "captures": [],
            "threads": 1,
            "real_time": True,
        }
        self.native = _native.Emulator(json.dumps(config))
        self.native.start()
        subprocess.run(inside("a", "ping", "-c", "3", "-i", "0.2", "-q", B), check=True, capture_output=True)
        self.native.mark_start(time.monotonic_ns())

    def stop(self) -> dict[str, Any]:
        """Report of the emulator."""
        _, report = self.native.stop()
        result: dict[str, Any] = json.loads(report)
        return result


def scenario(rate_bps: int, delay_ns: int, packets: int) -> dict[str, Any]:
    """A cable between two hosts, of which one direction has a rate."""

    def link(name: str, start: str, end: str, rate: int | None) -> dict[str, Any]:
        return {
            "name": name,
            "from": start,
            "to": end,
            "rate_bps": rate,
            "delay_ns": delay_ns,
            "queue": {"kind": "pfifo", "limit_packets": packets},
            "loss": None,
            "duplicate_ppb": 0,
            "corrupt_ppb": 0,
            "jitter": None,
            "shaper": None,
            "mtu": 1500,
            "overhead": ETHERNET_BYTES,
            "observe": True,
            "bottleneck": rate is not None,
        }

    hour = 3_600_000_000_000
    return {
        "version": 1,
        "experiment": "bench",
        "seed": 1,
        "repeat": 0,
        "duration_ns": hour,
        "start_jitter_ns": 0,
        "measure": {"from_ns": 0, "to_ns": hour},
        "record": {
            "tcp": {"kind": "off"},
            "queue": {"kind": "interval", "interval_ns": 10_000_000},
            "pcap": [],
        },
        "hosts": [],
        "nodes": [],
        "links": [link("there", "a", "b", rate_bps), link("back", "b", "a", None)],
        "flows": [],
        "schedule": [],
    }


def ping(count: int) -> list[int]:
    """Round trips, ns, of so many probes 10 ms apart."""
    command = ["ping", "-i", "0.01", "-c", str(count), B]
    out = subprocess.run(inside("a", *command), check=True, capture_output=True, text=True).stdout
    return sorted(round(float(found) * 1e6) for found in re.findall(r"time=([0-9.]+) ms", out))


def udp(seconds: int, bits: str) -> None:
    """Datagrams of full size at a steady rate."""
    server = subprocess.Popen(inside("b", "iperf3", "-s", "-1"), stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    command = ["iperf3", "-c", B, "-u", "-b", bits, "-l", "1472", "-t", str(seconds)]
    subprocess.run(inside("a", *command), check=True, capture_output=True)
    server.wait()


def tcp(seconds: int, *options: str) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
    """A bulk transfer, running: client and server."""
    server = subprocess.Popen(inside("b", "iperf3", "-s", "-1"), stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    command = ["iperf3", "-J", "-c", B, "-t", str(seconds), *(options or ("-C", "cubic"))]
    return subprocess.Popen(inside("a", *command), stdout=subprocess.PIPE), server


def received() -> tuple[int, int]:
    """The time, ns, and bytes so far at the far host's interface, with Ethernet's header."""
    command = ["cat", "/proc/net/dev"]
    text = subprocess.run(inside("b", *command), check=True, capture_output=True, text=True).stdout
    now = time.monotonic_ns()
    line = next(line for line in text.splitlines() if line.strip().startswith("eth0:"))
    return now, int(line.split(":")[1].split()[0])


def place(which: str) -> str:
    """A namespace's name."""
    return f"{PREFIX}-{which}"


def inside(which: str, *command: str) -> list[str]:
    """A command in a namespace."""
    return ["ip", "netns", "exec", place(which), *command]


@contextmanager
def namespaces() -> Iterator[None]:
    """Two hosts and the emulator's place between them."""

    def run(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    try:
        for which in ("a", "b", "e"):
            run("netns", "add", place(which))
            switch = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6"
            subprocess.run(inside(which, "sh", "-c", switch), check=True)
        for which, address in (("a", A), ("b", B)):
            own, between = place(which), place("e")
            run(
                "-n",
                own,
                "link",
                "add",
                "eth0",
                "type",
                "veth",
                "peer",
                "name",
                f"{which}0",
                "netns",
                between,
            )
            run("-n", own, "addr", "add", f"{address}/24", "dev", "eth0")
            run("-n", own, "link", "set", "eth0", "up")
            run("-n", own, "link", "set", "lo", "up")
            run("-n", between, "link", "set", f"{which}0", "up")
            _native.set_offloads(own, "eth0", tso=False, gro=False)
            _native.set_offloads(between, f"{which}0", tso=False, gro=False)
            # Windows for 1 Gbit/s and 40 ms, several times over.
            for name, most in (("rmem", 33_554_432), ("wmem", 33_554_432)):
                setting = f"echo '4096 131072 {most}' > /proc/sys/net/ipv4/tcp_{name}"
                subprocess.run(inside(which, "sh", "-c", setting), check=True)
        yield
    finally:
        remove([place(which) for which in "abe"])


if __name__ == "__main__":
    main()
