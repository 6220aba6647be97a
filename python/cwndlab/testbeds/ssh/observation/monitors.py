"""The monitors at the machines beside the traffic: captures by tcpdump, and the kernels' counters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from cwndlab.contract.scenario import Scenario
from cwndlab.testbeds.live.observation import counters
from cwndlab.testbeds.ssh import lab_file
from cwndlab.testbeds.ssh.machines.machine import Machine
from cwndlab.testbeds.ssh.machines.platforms import Driven

FLUSH_S = 5.0
"""Seconds that tcpdump has to write what it holds."""
LINK_HEADER = 14
"""Bytes of a packet before its IP header on Ethernet."""

_DROPPED = re.compile(r"(\d+) packets? dropped by kernel")


class Captures:
    """tcpdump at hosts, and at the interfaces by which links leave that machines make."""

    def __init__(
        self,
        scenario: Scenario,
        hosts: Mapping[str, Driven],
        made: Mapping[str, tuple[Machine, str]],
        limit_s: float,
    ) -> None:
        """Run nothing yet."""
        self._limit_s = limit_s
        self._wanted = {
            point: (*place(point, hosts, made), snaplen) for point, snaplen in points(scenario).items()
        }
        self._jobs: dict[str, tuple[Machine, str]] = {}
        self._directory: TemporaryDirectory[str] | None = None
        self.warnings: list[str] = []

    def start(self) -> None:
        """Start all of them, and wait until they listen."""
        for point, (machine, interface, leaving, snaplen) in self._wanted.items():
            words = command(interface, snaplen, lab_file.parts(machine.described.ssh)[2], leaving=leaving)
            self._jobs[point] = machine, machine.start(words, self._limit_s)
        for point, (machine, job) in self._jobs.items():
            machine.shell(LISTENS, machine.path(f"{job}.err"))
            if "listening on" not in (said := machine.complained(job)):
                raise OSError(f"{machine.name}: tcpdump for {point}: {' '.join(said.split())}")

    def stop(self) -> dict[str, Path]:
        """End them, and fetch what they wrote."""
        for machine, job in self._jobs.values():
            machine.signal([job], "INT")
        if self._jobs:
            self._directory = TemporaryDirectory(prefix="cwndlab-")
        files = {}
        for number, (point, (machine, job)) in enumerate(self._jobs.items()):
            assert self._directory is not None  # there are some
            if not machine.wait([job], FLUSH_S):
                self.warnings.append(f"{machine.name}: tcpdump for {point} did not end")
            files[point] = Path(self._directory.name, f"{number}.pcap")
            machine.save(f"{job}.out", files[point])
            dropped = _DROPPED.search(machine.complained(job))
            if dropped and int(dropped[1]):
                self.warnings.append(f"{machine.name}: tcpdump for {point} lost {dropped[1]} packets")
        self._jobs.clear()
        return files


LISTENS = r"""
left=5000
while [ "$left" -gt 0 ] && ! grep -qE 'listening on|:.*(rror|denied|No such)' "$1"; do
    sleep 0.05; left=$((left - 50))
done
"""
"""Wait until tcpdump says that it listens, or why not; argument: file of what it says."""

DISCOVERY = "dst net ff00::/8 or (icmp6 and ip6[40] >= 133 and ip6[40] <= 137)"
"""Packets that keep an IPv6 network together, as ARP's do of IPv4: multicast listener and neighbour discovery
(RFC 2710, RFC 4861).
"""


def points(scenario: Scenario) -> dict[str, int]:
    """Number of bytes kept of each packet, from the IP header on, by the place of the capture."""
    return {capture["at"]: capture["snaplen"] for capture in scenario["record"]["pcap"]}


def place(
    point: str, hosts: Mapping[str, Driven], made: Mapping[str, tuple[Machine, str]]
) -> tuple[Machine, str, bool]:
    """Machine, interface, and whether only packets that leave by it count."""
    if point in made:
        return *made[point], True
    machine = hosts[point].machine
    return machine, machine.interface(), False


def command(interface: str, snaplen: int, control: int, *, leaving: bool) -> list[str]:
    """tcpdump's, whose packets go to its standard output; not those of the port by which we are there."""
    way = ["-Q", "out"] if leaving else []
    words = ["tcpdump", "-i", interface, "-n", "-p", "-B", "8192", "-s", str(LINK_HEADER + snaplen)]
    return [*words, *way, "-w", "-", f"(ip or ip6) and not tcp port {control} and not ({DISCOVERY})"]


READ = r"""
if [ -r /proc/net/snmp ]; then cat /proc/net/snmp /proc/net/netstat; cat /proc/net/snmp6 2>/dev/null || :
else netstat -sp tcp; fi
"""


class Counters:
    """The kernels' own counters of TCP and IP, before and after."""

    def __init__(self, hosts: Mapping[str, Driven]) -> None:
        """Read nothing yet."""
        self._hosts = hosts
        self._before: dict[str, str] = {}

    def start(self) -> None:
        """Read them."""
        self._before = self._read()

    def stop(self) -> bytes:
        """Read them again; returns the JSON text of those that changed: before and after, by host."""
        after = self._read()
        return counters.changed({host: (self._before[host], text) for host, text in after.items()})

    def _read(self) -> dict[str, str]:
        return {name: host.machine.shell(READ) for name, host in self._hosts.items()}
