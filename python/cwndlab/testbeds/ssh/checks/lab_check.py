"""The checks of `cwndlab lab check`: rights, tools, kernels, disks, clocks, and the test network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from cwndlab.errors import CwndlabError
from cwndlab.testbeds.live.addresses import family_of
from cwndlab.testbeds.ssh.machines import scripts, site
from cwndlab.testbeds.ssh.machines.connection import ANSWER_ERRORS, LostError, one_line_of
from cwndlab.testbeds.ssh.machines.machine import Machine
from cwndlab.testbeds.ssh.machines.site import Site
from cwndlab.testbeds.ssh.traffic.tools import PING

Found = tuple[str, str, bool | None, str]
"""Machine, what was looked at, whether it is good, and a detail."""

NEEDED = {
    "Linux": ("timeout", "awk", "tee", "ping", "iperf3", "ss", "tc", "ethtool"),
    "FreeBSD": ("timeout", "awk", "tee", "ping", "iperf3", "sysctl", "kldload", "ifconfig", "netstat"),
}
"""Programs that runs need."""
HELPFUL = {"Linux": ("iperf", "tcpdump", "nft"), "FreeBSD": ("iperf", "tcpdump", "ipfw", "ntpq", "sockstat")}
"""Programs that some runs need."""
FREE_KB = 200_000
"""Free space that long runs with captures want."""

OFFLOADS = (
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "large-receive-offload",
)
"""Offloads of an interface that are shown."""

LOOK = (
    scripts.COMMON
    + r"""
say() { printf '%s\t%s\n' "$1" "$2"; }
say system "$(uname -srm)"
say user "$(id -u)"
say disk "$(df -Pk "${base%/*}" | awk 'NR == 2 { print $4 }')"
clock=$(mktemp); say now "$(now)"; rm -f "$clock"
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
    case $version in *option* | *usage*) version= ;; esac
    say "tool $tool" "${at:+$at${version:+ ($version)}}"
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
        yield from _answered(machine.name, _machine(machine))
        yield from _answered(machine.name, _system(there, machine))
    for machine in reached:
        yield from _answered(machine.name, _network(there, machine.name, [each.name for each in reached]))


def _answered(name: str, looked: Iterator[Found]) -> Iterator[Found]:
    """Let whatever goes wrong with one machine be a line of that machine: it may say anything, or nothing."""
    try:
        yield from looked
    except (CwndlabError, OSError) as error:
        yield name, "answers", False, str(error).removeprefix(f"{name}: ")
    except ANSWER_ERRORS as error:
        yield name, "answers", False, one_line_of(error)


def _machine(machine: Machine) -> Iterator[Found]:
    name = machine.name
    yield name, "ssh", True, machine.described.ssh
    family = machine.run(["uname", "-s"]).strip()
    needed, helpful = NEEDED.get(family, ()), HELPFUL.get(family, ())
    told = machine.shell(LOOK, scripts.BASE, *needed, *helpful)
    facts = dict(line.split("\t", 1) for line in told.splitlines() if "\t" in line)
    yield name, "system", None, facts["system"]
    root = facts["user"] == "0"
    yield name, "rights", root, "root" if root else "not root: become: sudo or doas gives the rights"
    free = int(facts["disk"] or 0)
    yield name, "free disk", free > FREE_KB, f"{free / 1e6:.1f} GB for {scripts.BASE}"
    for tool in (*needed, *helpful):
        found = facts.get(f"tool {tool}", "")
        good = bool(found) or (None if tool in helpful else False)
        yield name, tool, good, found or "not there"
    if "holder" in facts:
        yield name, "in use", False, facts["holder"]
    if re.fullmatch(r"[0-9]{19}", facts["now"]):
        clock = machine.clock()
        yield name, "clock", True, f"known to {clock.error_ns / 1e6:.3f} ms by the kept connection"
    else:
        yield name, "clock", False, f"its clock says {facts['now']!r}, no time in nanoseconds"


def _system(there: Site, machine: Machine) -> Iterator[Found]:
    name = machine.name
    try:
        own = there.look(machine)
    except (ValueError, OSError) as error:
        yield name, "system", False, str(error)
        return
    yield name, "congestion control", True, ", ".join(own.kernel.congestion_controls)
    agent = there.agent(name)
    looks = "ss" if own.asks_sockets else own.siftr or "nothing (no module siftr)"
    yield name, "our agent", None, str(agent) if agent else f"not there: iperf3 and {looks} serve instead"
    if len(own.kernel.stacks) > 1:
        yield name, "stack", None, ", ".join(own.kernel.stacks)
    shown = own.reach.interfaces()
    wanted = list(machine.described.links.values())
    if name in there.file.hosts:
        try:
            wanted.append(machine.interface())
        except OSError as error:
            yield name, "interface", False, str(error)
    for interface in wanted:
        if interface in shown:
            mtu, on = shown[interface]["mtu"], shown[interface]["offloads"] or []
            offloads = ", ".join(each for each in on if each in OFFLOADS)
            yield name, interface, True, f"MTU {mtu}; {offloads or 'no offloads'}"
        else:
            yield name, interface, False, f"not there; there is {', '.join(shown)}"


def _network(there: Site, name: str, reached: list[str]) -> Iterator[Found]:
    """Route and round trip from a host to each other host that was reached."""
    hosts = {each: host for each, host in there.file.hosts.items() if each in reached}
    if name not in hosts:
        return  # a router
    machine = there.machines[name]
    try:
        interface = machine.interface()
    except OSError:
        return  # which was said
    if machine.connection.remote_address in hosts[name].addresses.values():
        yield name, "control", False, "its ssh address is that of the test network"
    own = hosts[name].addresses
    others = {
        f"{other}{'' if address == each.address else ' by IPv6'}": address
        for other, each in hosts.items()
        for family, address in each.addresses.items()
        if other != name and family in own
    }
    for other, address in others.items():
        try:
            inet6 = "-inet6 " if family_of(address) == "ipv6" else ""
            route = machine.shell(f"ip -o route get {address} 2>/dev/null || route -n get {inet6}{address}\n")
            pings = machine.shell(PING, "3", "0.2", address)
        except OSError as error:
            yield name, f"to {other}", False, str(error)
            continue
        trips = [float(found) for found in re.findall(r"time[=<]([0-9.]+) ms", pings)]
        over = interface in route
        words = " ".join(route.split())
        way = f"over {interface}" if over else f"not over {interface}: {words}"
        detail = f"{min(trips):.3f} ms, {way}" if trips else f"no answer, {way}"
        yield name, f"to {other}", bool(trips) and over, detail
