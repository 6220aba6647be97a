"""All commands for a FreeBSD machine in one place; their output is read where it is used.

The forms are those of the manual pages: sysctl(8), kldload(8), kldstat(8), kenv(1), ifconfig(8), ipfw(8),
siftr(4), bectl(8), ntpq(8). No FreeBSD machine was at hand when this was written.
"""

from __future__ import annotations

from dataclasses import dataclass

from cwndlab.testbeds.live.shell import NOW


@dataclass(frozen=True)
class Change:
    """A command that changes something, and the one that takes it back."""

    argv: list[str]
    undo: list[str]


KERNEL = r"""
for name in net.inet.tcp.cc.available net.inet.tcp.functions_available kern.hz kern.osreldate; do
    echo "= $name"; sysctl -in "$name"
done
echo "= modules"
for directory in $(sysctl -in kern.module_path | tr ';' ' '); do ls "$directory" 2>/dev/null; done
echo "= settings"
sysctl -eW net kern.ipc 2>/dev/null
exit 0
"""
"""Script that asks for the kernel's features: `-i` says nothing of a sysctl that is not there, `-W` lists
those that can be set and are no counters.
"""

SETTINGS = ["sysctl", "-eW", "net", "kern.ipc"]
"""All settings, as `name=value`."""

MACHINE = r"""
for name in hw.model hw.ncpu dev.cpu.0.freq kern.timecounter.hardware kern.hz kern.bootfile; do
    echo "= $name"; sysctl -in "$name"
done
echo "= boot environment"; bectl list -H 2>/dev/null
echo "= modules"; kldstat
exit 0
"""
"""The machine: processors, clock, boot environment (where it boots from ZFS), loaded modules."""

CLOCK = "ntpq -c rv 2>/dev/null || chronyc -c tracking 2>/dev/null; exit 0"
"""Script that asks how well the clock is set."""

INTERFACES = ["ifconfig", "-a", "-m"]
"""All interfaces, with what they are able to (`-m`)."""

BUSY_LOOP = r"""while :; do
    sysctl -n kern.cp_times |
        awk '{ for (i = 1; i + 4 <= NF; i += 5) printf "cpu%d %d %d %d %d 0 0 0 0\n",
            (i - 1) / 5, $i, $(i + 1), $(i + 2) + $(i + 3), $(i + 4) }' >&2
    sleep 1
done"""
"""Print the processors' times once a second, as /proc/stat of Linux has them: of each kern.cp_times has the
ticks of user, nice, system, interrupt and idle."""

PIPE_LOOP = (
    f"PATH=$PATH:/usr/sbin:/sbin; {NOW}"
    'clock=clock.$$; while :; do now; ipfw -a list "$1"; ipfw "$2" "$3" show; echo; sleep "$4"; done'
)
"""Print the time, a rule's counters and a pipe's or scheduler's queues again and again; arguments: rule,
`pipe` or `sched`, number, seconds between two looks."""


def read(sysctl: str) -> list[str]:
    """A sysctl's value."""
    return ["sysctl", "-n", sysctl]


def known(sysctl: str) -> list[str]:
    """A sysctl's value, or nothing where it is not there."""
    return ["sysctl", "-in", sysctl]


def setting(sysctl: str, value: str) -> list[str]:
    """Set a sysctl."""
    return ["sysctl", f"{sysctl}={value}"]


def load(module: str) -> list[str]:
    """Load a module, unless it is loaded."""
    return ["kldload", "-n", module]


def unload(module: str) -> list[str]:
    """Unload a module."""
    return ["kldunload", module]


LOADED = 'kldstat -q -m "$1" && echo yes; exit 0'
"""Whether a module is loaded, or a part of the kernel; argument: its name."""


def offloads(interface: str, words: list[str]) -> list[str]:
    """Switch features of an interface: `tso`, `-tso`, `lro`, `-lro`, `txcsum`."""
    return ["ifconfig", interface, *words]


ACCEPT = "net.inet.ip.fw.default_to_accept"
"""A kernel variable that ipfw looks at when it is loaded: without it, ipfw drops everything from then on, our
own connection first (ipfw(8))."""

RULES = ["ipfw", "list"]
"""All rules; the last, 65535, is always there."""
PIPES = ["ipfw", "pipe", "list"]
"""All pipes."""


def default_to_accept() -> Change:
    """Have ipfw accept by default."""
    return Change(["kenv", f"{ACCEPT}=1"], ["kenv", "-u", ACCEPT])


def pipe(kind: str, number: int, words: list[str]) -> Change:
    """Configure a pipe, a scheduler (`sched`) or a queue of dummynet."""
    return Change(["ipfw", kind, str(number), "config", *words], ["ipfw", kind, str(number), "delete"])


def dropping(number: int, ppb: int, words: list[str]) -> Change:
    """Drop so many of a billion packets."""
    chosen = ["prob", f"{ppb / 1e9:.9f}", "deny", *words]
    return Change(["ipfw", "add", str(number), *chosen], ["ipfw", "delete", str(number)])


def rule(number: int, kind: str, pipe_number: int, interface: str) -> Change:
    """Send what leaves by an interface through a pipe or queue."""
    words = [kind, str(pipe_number), "ip", "from", "any", "to", "any", "out", "xmit", interface]
    return Change(["ipfw", "add", str(number), *words], ["ipfw", "delete", str(number)])
