"""The machines of a lab file as this process knows them: connections that stay open, kernels, systems."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from cwndlab.contract.scenario import Scenario
from cwndlab.errors import CwndlabError, InputError
from cwndlab.experiment.scenario.queries import ip_of
from cwndlab.testbeds.live import program
from cwndlab.testbeds.live.linux.trial import Tried
from cwndlab.testbeds.ssh import lab_file
from cwndlab.testbeds.ssh.lab_file import LabFile
from cwndlab.testbeds.ssh.machines import scripts
from cwndlab.testbeds.ssh.machines.connection import ANSWER_ERRORS, LostError, one_line_of
from cwndlab.testbeds.ssh.machines.machine import Machine
from cwndlab.testbeds.ssh.machines.platforms import Driven, driven
from cwndlab.testbeds.ssh.traffic import tools

_T = TypeVar("_T")

LATE_S = 1.0
"""Seconds after which it is said which machine is waited for."""
PINGS, PING_S = 10, 0.02
"""Echoes before the first run, and the time between two."""


class Site:
    """A lab's machines."""

    def __init__(self, path: Path) -> None:
        """Read the file; nothing is connected yet."""
        self.path = path
        self.file: LabFile = lab_file.read(path)
        described = self.file.machines
        self.machines = {name: Machine(name, each, self.file.known_hosts) for name, each in described.items()}
        self._driven: dict[str, Driven] = {}
        self._set_up: list[str] = []
        self._programs: dict[tuple[str, str], str] = {}
        self.tried = {name: Tried(machine.run) for name, machine in self.machines.items()}
        """Queue disciplines and rules that were tried, by machine."""
        self._agents: dict[str, Path | None] = {}
        self._states: dict[str, tuple[str, int | None]] = {}
        self.told: Callable[[str], None] = lambda machines: None
        """Is told which machines are waited for."""
        self._trips: dict[tuple[str, str, str], int | None] = {}
        self._beating: threading.Thread | None = None
        self._over = threading.Event()

    def connect(self) -> None:
        """Open all connections; raises InputError with every machine that lets us in not at all, or not as
        root."""

        def enter(machine: Machine) -> None:
            machine.connection.open()
            if machine.run(["id", "-u"]).strip() != "0":
                way = f"{machine.name}: {machine.described.ssh} (become: {machine.described.become})"
                raise InputError(f"{way} has not root's rights; become: sudo or doas gives them")

        self.each(self.machines, enter)

    def each(self, names: Iterable[str], work: Callable[[Machine], _T]) -> dict[str, _T]:
        """Do something at machines at the same time; raises InputError, one line with all that failed."""
        wanted = list(names)
        troubles: list[str] = []
        found: dict[str, _T] = {}
        with ThreadPoolExecutor(max(1, len(wanted))) as pool:
            asked = {name: pool.submit(work, self.machines[name]) for name in wanted}
            self._tell(asked)
        for name, answer in asked.items():
            error = answer.exception()
            if error is None:
                found[name] = answer.result()
            elif isinstance(error, CwndlabError | OSError):
                troubles.append(str(error))
            elif isinstance(error, ANSWER_ERRORS):
                troubles.append(f"{name}: {one_line_of(error)}")
            else:
                raise error
        if troubles:
            raise InputError("; ".join(troubles))
        return found

    def _tell(self, asked: Mapping[str, Future[_T]]) -> None:
        """Say which machines are waited for, as long as that takes."""
        said = False
        while late := [name for name, answer in asked.items() if not answer.done()]:
            wait([asked[name] for name in late], LATE_S)
            if left := [name for name in late if not asked[name].done()]:
                said = True
                self.told(" and ".join(left))
        if said:
            self.told("")

    def driven(self) -> dict[str, Driven]:
        """Find the driver of each machine. Raises InputError."""
        if len(self._driven) < len(self.machines):
            self.connect()
            self.each(self.machines, self.look)
        return {name: self._driven[name] for name in self.machines}

    def look(self, machine: Machine) -> Driven:
        """Find the driver of a machine, asked for once. Raises ValueError for a system that is not driven."""
        if machine.name not in self._driven:
            self._driven[machine.name] = driven(machine)
        return self._driven[machine.name]

    def program(self, machine: str, name: str, purpose: str) -> str:
        """Path of a program at a machine. Raises ValueError, one line, where it is missing."""
        if (machine, name) not in self._programs:
            self._programs[machine, name] = self._driven[machine].reach.program(name, purpose)
        return self._programs[machine, name]

    def agent(self, machine: str) -> Path | None:
        """Find the program of cwndlab's agent for a machine. None where there is none."""
        if machine not in self._agents:
            system, processor = self.machines[machine].run(["uname", "-sm"]).split()
            self._agents[machine] = program.find(f"{system.lower()}-{processor}", self.file.agent)
        return self._agents[machine]

    def round_trip_ns(self, from_: str, to: str, family: str) -> int | None:
        """The quickest echo between two hosts, asked for once. None where there is no answer."""
        if (from_, to, family) not in self._trips:
            target = self.file.hosts[to].addresses[family]
            found = tools.ping(self.machines[from_], [target], PINGS, PING_S)[0]
            self._trips[from_, to, family] = min(found, default=None)
        return self._trips[from_, to, family]

    def addresses(self, scenario: Scenario) -> dict[str, str]:
        """The address of each host of a Scenario, of those that have one of its IP version."""
        known = ((host, self.file.hosts.get(host["name"])) for host in scenario["hosts"])
        told = ((host, described.addresses) for host, described in known if described is not None)
        return {host["name"]: own[ip_of(host)] for host, own in told if ip_of(host) in own}

    def have_agents(self, machines: Iterable[str]) -> bool:
        """Whether there is a program of cwndlab's agent for all of these."""
        return all(self.agent(machine) is not None for machine in machines)

    def beat(self) -> None:
        """Say to all machines that we are there, from now on and for as long as this process lives."""
        if self._beating is None:
            self._beating = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
            self._beating.start()

    def states(self) -> dict[str, tuple[str, int | None]]:
        """Return the identity of each machine, and the number of bytes that are free there for runs.

        The latter is None where the machine does not say. Asked for once; raises InputError.
        """
        if not self._states:
            told = self.each(self.machines, lambda machine: machine.shell(scripts.STATE, scripts.BASE))
            for name, text in told.items():
                identity, _, free = text.strip().rpartition("\n")
                self._states[name] = identity, int(free) * 1024 if free.isdigit() else None
        return self._states

    def set_up(self, machine: Machine) -> None:
        """Carry out the lab file's commands before a machine's first run; raises OSError."""
        if machine.name not in self._set_up:
            self._set_up.append(machine.name)
            for command in machine.described.setup:
                machine.hook("setup", command)

    def close(self) -> None:
        """Carry out the commands after the last run, give the machines back, and close all connections."""
        self._over.set()
        for machine in self.machines.values():
            with suppress(OSError, LostError):
                machine.release()
            if machine.name in self._set_up and machine.connection.is_open:
                with suppress(OSError, LostError):
                    for command in machine.described.teardown:
                        machine.hook("teardown", command)
            machine.connection.close()
        self._set_up.clear()

    def _beat(self) -> None:
        while not self._over.wait(scripts.BEAT_S):
            for machine in self.machines.values():
                machine.beat()


_known: dict[tuple[Path, int], Site] = {}
"""Sites by file and process."""


def of(path: Path) -> Site:
    """The site of a lab file, the same for as long as this process lives; raises ExperimentError."""
    key = path.resolve(), os.getpid()
    if key not in _known:
        _known[key] = site = Site(path)
        atexit.register(site.close)
    return _known[key]


def leave(path: Path) -> None:
    """Close the site of a lab file; whoever asks again gets a new one, which asks its machines anew."""
    site = _known.pop((path.resolve(), os.getpid()), None)
    if site is not None:
        site.close()
        atexit.unregister(site.close)
