"""Machines reached over SSH as a lab: taken for a run, set up, watched, and given back as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cwndlab.contract.scenario import Scenario
from cwndlab.scenario.queries import base_rtt_ns
from cwndlab.testbeds.live import addresses
from cwndlab.testbeds.live.addresses import Addresses, Ends
from cwndlab.testbeds.live.lab import Process
from cwndlab.testbeds.live.linux.by_shell import ByShell
from cwndlab.testbeds.live.path import PathBackend
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.ssh.machine import Clock, Machine
from cwndlab.testbeds.ssh.path import MadeLinks
from cwndlab.testbeds.ssh.sampler import BUSY, SsSampler
from cwndlab.testbeds.ssh.site import Site
from cwndlab.testbeds.ssh.systems import Systems
from cwndlab.testbeds.ssh.traffic import ToolTraffic

LEAD_NS, LEAD_PER_FLOW_NS = 1_000_000_000, 50_000_000
"""Time to tell all machines when the run begins: they start programs by their own clocks."""
SET_UP_S = 120.0
"""Seconds besides the run's own, after which whatever was started is ended."""
RTT_SHARE, RTT_SLACK_NS = 0.2, 2_000_000
"""How far the idle round trip may be from what the experiment says before that is a warning."""


class SshLab:
    """The machines of a run."""

    def __init__(self, run_id: int, scenario: LiveScenario, name: str, site: Site) -> None:
        """Nothing is taken yet."""
        self._run_id, self._scenario, self._site, self.name = run_id, scenario, site, name
        hosts = [host["name"] for host in scenario["hosts"]]
        links = {link["name"] for link in scenario["links"]}
        self._hosts = {host: site.machines[host] for host in hosts}
        self._made: dict[str, tuple[Machine, str]] = {
            link: (site.machines[machine], interface)
            for machine, described in site.file.machines.items()
            for link, interface in described.links.items()
            if link in links
        }
        self._machines = {
            **self._hosts,
            **{machine.name: machine for machine, _ in self._made.values()},
            **{router: site.machines[router] for router in site.file.routers},
        }
        self._taken: list[Machine] = []
        self._clocks: dict[str, Clock] = {}
        self._later: dict[str, Clock] = {}
        self._sampler: SsSampler | None = None
        self._limit_s = scenario["duration_ns"] / 1e9 + SET_UP_S
        own = {host: site.file.hosts[host].address for host in hosts}
        self.addresses = Addresses(own, addresses.sockets(scenario, own))
        self.places: Mapping[str, ByShell] = {name: site.reaches[name] for name in self._machines}
        self.machines = self.places

    @property
    def hosts(self) -> Mapping[str, ByShell]:
        """The hosts' machines."""
        return {host: self.places[host] for host in self._hosts}

    @property
    def lead_ns(self) -> int:
        """A second, and more for many flows."""
        return LEAD_NS + LEAD_PER_FLOW_NS * len(self._scenario["flows"])

    def lock(self) -> None:
        """Take all machines; where one is in use, those that were taken are given back by `close`."""
        for machine in self._machines.values():
            machine.take(self.name)
            self._taken.append(machine)
        self._site.beat()

    def make(self) -> None:
        """Carry out the lab file's commands before the first run, and before each."""
        for machine in self._taken:
            self._site.set_up(machine)
            for command in machine.described.before_run:
                machine.shell(f"{command}\n")

    def connect(self) -> None:
        """Nothing: the machines are connected."""

    def interfaces(self, host: str) -> list[str]:
        """A host's interface of the test network."""
        return [self._site.file.hosts[host].interface]

    def facts(self) -> dict[str, Any]:
        """The lab, its path, and the clocks of its machines."""
        now = self._clocks_now()
        drift = {name: later.offset_ns - self._clocks[name].offset_ns for name, later in now.items()}
        return {
            "lab": self._site.file.lab,
            "real_path": self._site.file.path,
            "links_made_by": {link: machine.name for link, (machine, _) in self._made.items()},
            "clock_error_ns": {name: clock.error_ns for name, clock in self._clocks.items()},
            "clock_drift_ns": drift,
            "busiest_processor": dict(self._sampler.busiest) if self._sampler else {},
        }

    def path(self, scenario: Scenario) -> PathBackend:
        """The real path, with the links that machines make."""
        return MadeLinks(self._run_id, scenario, self._made, self._clocks, self._limit_s)

    def watch(self) -> None:
        """Raises RuntimeError where a connection is lost."""
        for machine in self._taken:
            if not machine.connection.is_open:
                raise RuntimeError(f"{machine.name}: the connection was lost during the run")

    def warnings(self, idle: Mapping[str, Sequence[int]]) -> list[str]:
        """Hosts that had too much to do, a path that is another than described, clocks that were set."""
        return [*self._of_load(), *self._of_path(idle), *self._of_clocks(), *self._of_control()]

    def traffic(self, limit_s: float, look: Callable[[], None]) -> ToolTraffic:
        """The common tools, at hosts on which nothing of ours is."""

        def watched() -> None:
            look()
            self.watch()

        return ToolTraffic(self._hosts, min(limit_s, self._limit_s), watched)

    def sampler(self, systems: Systems) -> None:
        """Have the systems make this lab's sampler."""

        def make(run_id: int, scenario: Scenario, ends: Mapping[str, Ends]) -> SsSampler:
            sampler = SsSampler(
                run_id,
                scenario,
                ends,
                machines=self._hosts,
                clocks=self._clocks,
                limit_s=self._limit_s,
            )
            self._sampler = sampler
            return sampler

        systems.make_sampler = make

    def start(self, host: str, argv: Sequence[str], limit_s: float) -> Process:
        """Start a program at a host, whose input and output cross the connection."""
        return self._hosts[host].converse(argv, min(limit_s, self._limit_s))

    def put(self, host: str, name: str, data: bytes) -> None:
        """Put a file into the run's directory at a host."""
        self._hosts[host].put(name, data)

    def get(self, host: str, name: str) -> bytes:
        """A file of the run's directory at a host."""
        return self._hosts[host].get(name)

    def clock_offset(self, host: str) -> int:
        """What a host's clock is ahead of our CLOCK_MONOTONIC, ns; all machines are asked at once."""
        if host not in self._clocks:
            self._clocks.update(self._site.each(self._machines, lambda machine: machine.clock()))
        return self._clocks[host].offset_ns

    def close(self) -> None:
        """Carry out the lab file's commands after a run, take everything back, and free the machines."""
        troubles = []
        for machine in self._taken:
            if machine.connection.is_open:
                troubles += _after(machine)
            troubles += machine.release()
        self._taken.clear()
        if troubles:
            raise RuntimeError("; ".join(troubles))

    def _clocks_now(self) -> dict[str, Clock]:
        """The clocks once more, when the run is over."""
        if not self._later:
            self._later = self._site.each(self._machines, lambda machine: machine.clock())
        return self._later

    def _of_load(self) -> Iterator[str]:
        for host, share in (self._sampler.busiest if self._sampler else {}).items():
            if share > BUSY:
                yield f"host {host}: a processor was {share:.0%} busy for a second; the run measures the host"

    def _of_path(self, idle: Mapping[str, Sequence[int]]) -> Iterator[str]:
        for pair, trips in idle.items():
            from_, _, to = pair.partition(">")
            told = base_rtt_ns(self._scenario, from_, to)
            if trips and abs(min(trips) - told) > max(RTT_SLACK_NS, RTT_SHARE * told):
                found = f"{min(trips) / 1e6:.3f} ms, and the experiment says {told / 1e6:.3f} ms"
                yield f"idle ping {pair}: {found}"

    def _of_clocks(self) -> Iterator[str]:
        for name, later in self._clocks_now().items():
            before = self._clocks[name]
            moved = later.offset_ns - before.offset_ns
            if abs(moved) > later.error_ns + before.error_ns + 1_000_000:
                yield f"{name}: its clock moved by {moved / 1e6:.3f} ms during the run"

    def _of_control(self) -> Iterator[str]:
        test = set(self.addresses.hosts.values())
        for machine in self._taken:
            if machine.connection.remote_address in test:
                yield f"{machine.name}: it is controlled over the test network, which carries more for it"


def _after(machine: Machine) -> list[str]:
    troubles = []
    for command in machine.described.after_run:
        try:
            machine.shell(f"{command}\n")
        except (OSError, RuntimeError) as error:
            troubles.append(f"after_run: {error}")
    return troubles
