"""The machines of a lab file as this process knows them: connections that stay open, kernels, systems."""

from __future__ import annotations

import atexit
import functools
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from cwndlab.errors import CwndlabError, InputError
from cwndlab.testbeds.live.linux import kernel as linux
from cwndlab.testbeds.live.linux.by_shell import ByShell
from cwndlab.testbeds.live.linux.kernel import Kernel
from cwndlab.testbeds.live.linux.system import Linux
from cwndlab.testbeds.ssh import lab_file, scripts
from cwndlab.testbeds.ssh.connection import LostError
from cwndlab.testbeds.ssh.lab_file import LabFile
from cwndlab.testbeds.ssh.machine import Machine
from cwndlab.testbeds.ssh.systems import Systems

_T = TypeVar("_T")


class Site:
    """A lab's machines."""

    def __init__(self, path: Path) -> None:
        """Read the file; nothing is connected yet."""
        self.path = path
        self.file: LabFile = lab_file.read(path)
        described = self.file.machines
        self.machines = {name: Machine(name, each, self.file.known_hosts) for name, each in described.items()}
        self.reaches = {name: ByShell(machine) for name, machine in self.machines.items()}
        self._kernels: dict[str, Kernel] | None = None
        self._set_up: list[str] = []
        self._programs: dict[tuple[str, str], str] = {}
        self._beating: threading.Thread | None = None
        self._over = threading.Event()

    def connect(self) -> None:
        """Open all connections; raises InputError with every machine that cannot be reached."""
        self.each(self.machines, lambda machine: machine.connection.open())

    def each(self, names: Iterable[str], work: Callable[[Machine], _T]) -> dict[str, _T]:
        """Do something at machines at the same time; raises InputError, one line with all that failed."""
        wanted = list(names)
        troubles: list[str] = []
        found: dict[str, _T] = {}
        with ThreadPoolExecutor(max(1, len(wanted))) as pool:
            asked = {name: pool.submit(work, self.machines[name]) for name in wanted}
        for name, answer in asked.items():
            error = answer.exception()
            if error is None:
                found[name] = answer.result()
            elif isinstance(error, CwndlabError | RuntimeError | OSError | ValueError):
                troubles.append(str(error))
            else:
                raise error
        if troubles:
            raise InputError("; ".join(troubles))
        return found

    def kernels(self) -> dict[str, Kernel]:
        """The kernel of each machine; raises InputError."""
        if self._kernels is None:
            self.connect()
            self._kernels = self.each(self.machines, self.kernel)
        return self._kernels

    def systems(self) -> Systems:
        """What the machines run."""
        return Systems({name: Linux(own) for name, own in self.kernels().items()}, self.reaches)

    def program(self, machine: str, name: str, purpose: str) -> str:
        """Where a program is at a machine; raises ValueError, one line, where it is not there."""
        if (machine, name) not in self._programs:
            self._programs[machine, name] = self.reaches[machine].program(name, purpose)
        return self._programs[machine, name]

    def beat(self) -> None:
        """Say to all machines that we are there, from now on and for as long as this process lives."""
        if self._beating is None:
            self._beating = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
            self._beating.start()

    def set_up(self, machine: Machine) -> None:
        """Carry out the lab file's commands before a machine's first run; raises OSError."""
        if machine.name not in self._set_up:
            self._set_up.append(machine.name)
            for command in machine.described.setup:
                machine.shell(f"{command}\n")

    def close(self) -> None:
        """Carry out the commands after the last run, and close all connections."""
        self._over.set()
        for machine in self.machines.values():
            if machine.name in self._set_up and machine.connection.is_open:
                with suppress(OSError, LostError):
                    for command in machine.described.teardown:
                        machine.shell(f"{command}\n")
            machine.connection.close()

    def _beat(self) -> None:
        while not self._over.wait(scripts.BEAT_S):
            for machine in self.machines.values():
                machine.beat()

    def kernel(self, machine: Machine) -> Kernel:
        """The kernel of a machine; raises ValueError for a system that is not driven."""
        reach = self.reaches[machine.name]
        system = reach.uname().split()[0]
        if system != "Linux":
            raise ValueError(f"{machine.name}: runs {system}; testbed ssh drives Linux yet")
        return linux.read(reach, load=False)


def of(path: Path) -> Site:
    """The site of a lab file, the same for as long as this process lives; raises ExperimentError."""
    return _of(path.resolve(), os.getpid(), path)


@functools.cache
def _of(resolved: Path, process: int, path: Path) -> Site:
    site = Site(path)
    atexit.register(site.close)
    return site
