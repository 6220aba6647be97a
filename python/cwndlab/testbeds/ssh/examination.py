"""What `cwndlab lab check` looks at: rights, tools, kernels, disks, clocks, and the test network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.testbeds.ssh import scripts, site
from cwndlab.testbeds.ssh.connection import LostError
from cwndlab.testbeds.ssh.machine import Machine
from cwndlab.testbeds.ssh.site import Site
from cwndlab.testbeds.ssh.traffic import PING

Found = tuple[str, str, bool | None, str]
"""Machine, what was looked at, whether it is good, and a detail."""

NEEDED = ("timeout", "awk", "tee", "ping", "iperf3", "ss", "tc", "ethtool")
"""Programs that runs need."""
HELPFUL = ("iperf", "tcpdump", "nft")
"""Programs that some runs need."""
FREE_KB = 200_000
"""Free space that long runs with captures want."""

OFFLOADS = (
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "large-receive-offload",
)
"""What of an interface's offloads is shown."""

LOOK = (
    scripts.COMMON
    + r"""
say() { printf '%s\t%s\n' "$1" "$2"; }
say system "$(uname -srm)"
say user "$(id -u)"
say disk "$(df -Pk "${base%/*}" | awk 'NR == 2 { print $4 }')"
say nanoseconds "$(date +%N)"
if [ -f "$dir/holder" ]; then say holder "$(cat "$dir/holder")"; fi
shift
for tool; do
    at=$(command -v "$tool") || at=
    case $tool in
        iperf3 | iperf) version=$("$at" --version 2>&1 | head -n 1) ;;
        tc | ip | ss) version=$("$at" -V 2>&1 | head -n 1) ;;
        ping) version=$("$at" -V 2>&1 | head -n 1) ;;
        *) version=$("$at" --version 2>&1 | head -n 1) ;;
    esac
    say "tool $tool" "${at:+$at ($version)}"
done
"""
)
"""Arguments: the directory of everything, tools."""


def of(lab: Path) -> Iterator[Found]:
    """Look at all machines; raises ExperimentError for a bad file."""
    there = site.of(lab)
    reached = []
    for machine in there.machines.values():
        try:
            machine.connection.open()
        except LostError as error:
            yield machine.name, "ssh", False, str(error)
            continue
        reached.append(machine)
        yield from _machine(machine)
        yield from _system(there, machine)
    yield from _network(there, [machine.name for machine in reached])


def _machine(machine: Machine) -> Iterator[Found]:
    name = machine.name
    yield name, "ssh", True, machine.described.ssh
    told = machine.shell(LOOK, scripts.BASE, *NEEDED, *HELPFUL)
    facts = dict(line.split("\t", 1) for line in told.splitlines() if "\t" in line)
    yield name, "system", None, facts["system"]
    root = facts["user"] == "0"
    yield name, "rights", root, "root" if root else "not root: become: sudo or doas gives the rights"
    free = int(facts["disk"] or 0)
    yield name, "free disk", free > FREE_KB, f"{free / 1e6:.1f} GB for {scripts.BASE}"
    for tool in (*NEEDED, *HELPFUL):
        found = facts.get(f"tool {tool}", "")
        good = bool(found) or (None if tool in HELPFUL else False)
        yield name, tool, good, found or "not there"
    if "holder" in facts:
        yield name, "in use", False, facts["holder"]
    if facts["nanoseconds"].isdigit():
        clock = machine.clock()
        yield name, "clock", True, f"known to {clock.error_ns / 1e6:.3f} ms by the kept connection"
    else:
        yield name, "clock", False, "date +%N says nothing: programs start to the second only"


def _system(there: Site, machine: Machine) -> Iterator[Found]:
    name, reach = machine.name, there.reaches[machine.name]
    try:
        kernel = there.kernel(machine)
    except (ValueError, OSError) as error:
        yield name, "system", False, str(error)
        return
    yield name, "congestion control", True, ", ".join(kernel.congestion_controls)
    shown = reach.interfaces()
    wanted = list(machine.described.links.values())
    if name in there.file.hosts:
        wanted.append(there.file.hosts[name].interface)
    for interface in wanted:
        if interface in shown:
            mtu, on = shown[interface]["mtu"], shown[interface]["offloads"] or []
            offloads = ", ".join(each for each in on if each in OFFLOADS)
            yield name, interface, True, f"MTU {mtu}; {offloads or 'no offloads'}"
        else:
            yield name, interface, False, f"not there; there is {', '.join(shown)}"


def _network(there: Site, reached: list[str]) -> Iterator[Found]:
    """Route and round trip between all pairs of hosts."""
    hosts = {name: host for name, host in there.file.hosts.items() if name in reached}
    for name, host in hosts.items():
        others = {other: each.address for other, each in hosts.items() if other != name}
        machine = there.machines[name]
        if machine.connection.remote_address == host.address:
            yield name, "control", False, "its ssh address is that of the test network"
        for other, address in others.items():
            try:
                route = machine.shell(f"ip -o route get {address} 2>/dev/null || route -n get {address}\n")
                pings = machine.shell(PING, "3", "0.2", address)
            except (OSError, InputError) as error:
                yield name, f"to {other}", False, str(error)
                continue
            trips = [float(found) for found in re.findall(r"time[=<]([0-9.]+) ms", pings)]
            over = host.interface in route
            words = " ".join(route.split())
            way = f"over {host.interface}" if over else f"not over {host.interface}: {words}"
            detail = f"{min(trips):.3f} ms, {way}" if trips else f"no answer, {way}"
            yield name, f"to {other}", bool(trips) and over, detail
