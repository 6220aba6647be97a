"""The real path between the machines, with the links that machines make of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cwndlab.contract.scenario import Link, Scenario
from cwndlab.contract.summary import LinkSummary
from cwndlab.errors import RunError
from cwndlab.testbeds.live.observation.counters import FILE
from cwndlab.testbeds.live.path import links
from cwndlab.testbeds.live.path.backend import PathBackend, PathReport
from cwndlab.testbeds.ssh.machines.machine import Clock
from cwndlab.testbeds.ssh.machines.platforms import Driven
from cwndlab.testbeds.ssh.observation.monitors import Captures, Counters

INTERVAL_S = 0.05
"""Between two looks at a queue."""


@dataclass(frozen=True)
class MadeLink:
    """A link that a machine makes."""

    at: Driven
    interface: str
    """Interface by which the link's packets leave."""
    number: int
    """Number of the link among the machine's, from 1."""
    emulated: bool
    """Whether cwndlab's emulator makes the link, not the system of the machine."""


class MadeLinks:
    """The links that machines of the lab make, and their counters over time, those of cwndlab's emulator
    included."""

    def __init__(
        self,
        run_id: int,
        scenario: Scenario,
        *,
        hosts: Mapping[str, Driven],
        made: Mapping[str, MadeLink],
        emulated: PathBackend | None,
        clocks: Mapping[str, Clock],
        limit_s: float,
    ) -> None:
        """Put nothing in place; `made` are by link, `clocks` are known when the path stops."""
        self._captures = Captures(
            scenario, hosts, {name: (each.at.machine, each.interface) for name, each in made.items()}, limit_s
        )
        self._counters = Counters(hosts)
        self._hosts = hosts
        self._emulated = emulated
        by_kernel = {name: each for name, each in made.items() if not each.emulated}
        self._run_id, self._made, self._clocks, self._limit_s = run_id, by_kernel, clocks, limit_s
        self._links: dict[str, Link] = {link["name"]: link for link in scenario["links"]}
        self._jobs: dict[str, str] = {}
        self._zero: int | None = None

    def start(self) -> None:
        """Put the queue disciplines in place, and look at them from then on."""
        for name, made in self._made.items():
            link = self._links[name]
            made.at.links.make(made.at.reach, link, made.interface, made.number)
            words = made.at.links.watch(link, made.interface, made.number, INTERVAL_S)
            self._jobs[name] = made.at.machine.start(words, self._limit_s)
        if self._emulated is not None:
            self._emulated.start()
        self._captures.start()
        self._counters.start()

    def mark_start(self, zero_ns: int) -> None:
        """The run begins: what was counted before is not of it."""
        self._zero = zero_ns
        if self._emulated is not None:
            self._emulated.mark_start(zero_ns)

    def stop(self) -> PathReport:
        """Take the counters and captures; the queue disciplines go with the run."""
        if not all(host.machine.connection.is_open for host in self._hosts.values()):
            return PathReport([], [])  # the run has failed, and what is left goes with it
        files, counters = self._captures.stop(), self._counters.stop()
        own = self._emulated.stop() if self._emulated is not None else PathReport([], [])
        counted: list[LinkSummary] = []
        rows: list[links.Row] = []
        for name, job in self._jobs.items():
            machine = self._made[name].at.machine
            machine.signal([job], "TERM")
            if self._zero is None or machine.name not in self._clocks:
                continue
            zero = self._zero + self._clocks[machine.name].offset_ns
            looks = self._made[name].at.links.looks(machine.said(job))
            if not looks or looks[-1][0] < zero:
                raise RunError(f"{machine.name}: shows no counters of link {name} since the run began")
            first = next((leaf for at, leaf in reversed(looks) if at < zero), looks[0][1])
            counted.append(links.grown(name, first, looks[-1][1]))
            if self._links[name]["observe"]:
                rows += [links.row(at - zero, name, leaf, first) for at, leaf in looks if at >= zero]
        self._jobs.clear()
        seen = [("queue", links.queue_rows(self._run_id, rows))] if rows else []
        return PathReport(
            [*seen, *own.batches],
            [*counted, *own.links],
            flows=own.flows,
            health={**own.health, "zero_by_clock_ns": self._zeros()},
            captures=files,
            attachments={FILE: counters},
        )

    @property
    def warnings(self) -> list[str]:
        """Warnings about packets that captures missed, complete after the end."""
        return self._captures.warnings

    def _zeros(self) -> dict[str, int]:
        """t = 0 by each machine's clock, by which its captures are, ns since 1970."""
        zero = self._zero
        return {} if zero is None else {name: zero + clock.offset_ns for name, clock in self._clocks.items()}
