"""The systems that testbed ssh drives, and what each has of its own: settings, links, programs, looks."""

from __future__ import annotations

from dataclasses import dataclass

from cwndlab.experiment.catalogue import Catalogue
from cwndlab.testbeds.live.freebsd import commands, dummynet
from cwndlab.testbeds.live.freebsd import kernel as freebsd_kernel
from cwndlab.testbeds.live.freebsd import shell as freebsd_shell
from cwndlab.testbeds.live.freebsd.system import FreeBSD
from cwndlab.testbeds.live.lab import LiveHost
from cwndlab.testbeds.live.linux import kernel as linux_kernel
from cwndlab.testbeds.live.linux import shell as linux_shell
from cwndlab.testbeds.live.linux import tc
from cwndlab.testbeds.live.linux.system import Linux
from cwndlab.testbeds.live.path.links import LinkMaker
from cwndlab.testbeds.ssh.machines.machine import Machine

HZ = 250
"""Ticks per second of Debian's kernels; how many a Linux machine has nobody asks, as it is not set."""

SIFTR = ("siftr2", "siftr")
"""Modules that log the state of FreeBSD's connections, the better one first."""


@dataclass(frozen=True)
class Driven(LiveHost):
    """A machine, and what its system has."""

    machine: Machine
    kernel: linux_kernel.Kernel | freebsd_kernel.Kernel
    catalogue: Catalogue
    links: LinkMaker
    link_program: str
    """Program that makes links."""
    programs: tuple[str, ...]
    """Programs that runs need at a host."""
    busy: str
    """A script that prints the processors' times once a second, as /proc/stat has them."""
    siftr: str | None = None
    """The module that logs connections, where sockets cannot be asked."""
    asks_sockets: bool = True
    """Whether `ss`, or cwndlab's agent, tells of sockets that others have opened."""


def driven(machine: Machine) -> Driven:
    """Find the driver for a machine's system. Raises ValueError, one line, for a system that is not
    driven.
    """
    told = machine.run(["uname", "-sr"]).split()
    match told[0]:
        case "Linux":
            return _linux(machine)
        case "FreeBSD":
            return _freebsd(machine, told[1])
    raise ValueError(f"{machine.name}: runs {told[0]}; testbed ssh drives Linux and FreeBSD")


def _linux(machine: Machine) -> Driven:
    reach = linux_shell.ByShell(machine)
    own = linux_kernel.read(reach, load=False)
    return Driven(
        machine=machine,
        reach=reach,
        kernel=own,
        system=Linux(own),
        catalogue=linux_kernel.known(own, HZ),
        links=tc,
        link_program="tc",
        programs=("timeout", "awk", "tee", "ethtool"),
        busy=linux_shell.BUSY_LOOP,
    )


def _freebsd(machine: Machine, release: str) -> Driven:
    own = freebsd_kernel.read(machine, release)
    return Driven(
        machine=machine,
        reach=freebsd_shell.ByShell(machine),
        kernel=own,
        system=FreeBSD(own),
        catalogue=freebsd_kernel.known(own),
        links=dummynet,
        link_program="ipfw",
        programs=("timeout", "awk", "tee", "sysctl", "kldload", "ifconfig"),
        busy=commands.BUSY_LOOP,
        siftr=next((module for module in SIFTR if module in own.modules), None),
        asks_sockets=False,
    )
