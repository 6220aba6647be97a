"""Machines reached over SSH as a lab: taken for a run, set up, watched, and given back as they were."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from cwndlab.contract.scenario import Scenario
from cwndlab.errors import RunError
from cwndlab.experiment.scenario.queries import base_rtt_ns
from cwndlab.testbeds.live import addresses
from cwndlab.testbeds.live.addresses import Addresses
from cwndlab.testbeds.live.lab import Process, Sampler
from cwndlab.testbeds.live.linux import tc
from cwndlab.testbeds.live.path.backend import PathBackend
from cwndlab.testbeds.live.program import NAME as PROGRAM
from cwndlab.testbeds.live.run_values import RunValues
from cwndlab.testbeds.live.scenario import LiveScenario, interface_queues
from cwndlab.testbeds.live.user_programs import LOG_END_S
from cwndlab.testbeds.ssh.checks import preflight
from cwndlab.testbeds.ssh.machines.machine import Clock, Machine
from cwndlab.testbeds.ssh.machines.site import Site
from cwndlab.testbeds.ssh.observation.sampler import BUSY, Samplers, SsSampler
from cwndlab.testbeds.ssh.observation.siftr import SiftrSampler
from cwndlab.testbeds.ssh.path.backend import MadeLink, MadeLinks
from cwndlab.testbeds.ssh.path.emulator import EmulatedLinks
from cwndlab.testbeds.ssh.traffic.agents import AgentSampler, AgentTraffic
from cwndlab.testbeds.ssh.traffic.tools import ToolTraffic

LEAD_NS, LEAD_PER_FLOW_NS = 1_000_000_000, 50_000_000
"""Time to tell all machines when the run begins: they start programs by their own clocks."""
SET_UP_S = 120.0
"""Seconds besides the run's own, after which whatever was started is ended."""


class SshLab:
    """The machines of a run."""

    def __init__(self, run_id: int, scenario: LiveScenario, values: RunValues, site: Site) -> None:
        """Take nothing yet; commands around the run are told `values`."""
        self._run_id, self._scenario, self._site = run_id, scenario, site
        self._values, self.name = values, f"run {run_id}"
        hosts = [host["name"] for host in scenario["hosts"]]
        links = {link["name"] for link in scenario["links"]}
        driven = site.driven()
        self.hosts = {host: driven[host] for host in hosts}
        self._made: dict[str, MadeLink] = {
            link: MadeLink(driven[name], interface, number, emulated=name == site.file.emulating)
            for name, described in site.file.machines.items()
            for number, (link, interface) in enumerate(described.links.items(), 1)
            if link in links
        }
        makers = [made.at.machine.name for made in self._made.values()]
        self.places = {name: driven[name] for name in (*hosts, *makers, *site.file.routers)}
        self.machines = self.places
        self._taken: list[Machine] = []
        self._clocks: dict[str, Clock] = {}
        self._later: dict[str, Clock] = {}
        self._sampler: Samplers | None = None
        self._agents: AgentTraffic | None = None
        self._made_by: dict[str, str] = {}
        self._path: MadeLinks | None = None
        self._limit_s = scenario["duration_ns"] / 1e9 + SET_UP_S
        own = site.addresses(scenario)
        self.addresses = Addresses(own, addresses.sockets(scenario, own))

    @property
    def lead_ns(self) -> int:
        """A second, and more for many flows."""
        return LEAD_NS + LEAD_PER_FLOW_NS * len(self._scenario["flows"])

    def lock(self) -> None:
        """Take all machines that this process does not have yet."""

        def take(machine: Machine) -> None:
            machine.take(self.name)
            self._taken.append(machine)

        try:
            self._site.each(self.places, take)
        except BaseException:
            # Whoever has the others needs these as well.
            for machine in self._taken:
                machine.release()
            self._taken.clear()
            raise
        self._site.beat()

    def make(self) -> None:
        """Carry out the lab file's commands before the first run, and before each."""
        for machine in self._taken:
            self._site.set_up(machine)
            for command in machine.described.before_run:
                machine.hook("before_run", command, self._values)

    def connect(self) -> None:
        """Put netem at egress of hosts, and disciplines at their interfaces; the machines are connected."""
        for host in self._scenario["hosts"]:
            name, told = host["name"], host["egress"]
            if told is not None:
                tc.make_egress(self.places[name].reach, name, told, self.hosts[name].machine.interface())
        for name, queue in interface_queues(self._scenario).items():
            tc.make_queue(self.places[name].reach, queue, self.hosts[name].machine.interface())

    def interfaces(self, host: str) -> list[str]:
        """A host's interface of the test network."""
        return [self.hosts[host].machine.interface()]

    def facts(self) -> dict[str, Any]:
        """The lab, its path, and the clocks of its machines."""
        now = self._clocks_now()
        drift = {name: later.offset_ns - self._clocks[name].offset_ns for name, later in now.items()}
        return {
            "lab": self._site.file.lab,
            "real_path": self._site.file.path,
            "agents": self._made_by,
            "links_made_by": {link: made.at.machine.name for link, made in self._made.items()},
            "links_emulated": [link for link, made in self._made.items() if made.emulated],
            "clock_error_ns": {name: clock.error_ns for name, clock in self._clocks.items()},
            "clock_drift_ns": drift,
            "busiest_processor": dict(self._sampler.busiest) if self._sampler else {},
        }

    def path(self, scenario: Scenario) -> PathBackend:
        """The real path, with the links that machines make."""
        own = {name: made for name, made in self._made.items() if made.emulated}
        router = self._site.file.emulating
        emulated = None
        if own and router is not None:
            emulated = EmulatedLinks(
                self._run_id,
                scenario,
                router=router,
                made=own,
                ends=self.addresses.flows,
                clocks=self._clocks,
                agent=partial(self._agent_at, router),
            )
        made = MadeLinks(
            self._run_id,
            scenario,
            hosts=self.hosts,
            made=self._made,
            emulated=emulated,
            clocks=self._clocks,
            limit_s=self._limit_s,
        )
        self._path = made
        return made

    def watch(self) -> None:
        """Raises RunError where a connection is lost."""
        for machine in self._taken:
            if not machine.connection.is_open:
                raise RunError(f"{machine.name}: the connection was lost during the run")

    def warnings(self, idle: Mapping[str, Sequence[int]]) -> list[str]:
        """Hosts that had too much to do, a path that is another than described, clocks that were set."""
        captures = self._path.warnings if self._path else []
        return [*captures, *self._of_load(), *self._of_path(idle), *self._of_clocks(), *self._of_control()]

    def traffic(self, limit_s: float, look: Callable[[], None]) -> ToolTraffic | AgentTraffic:
        """Choose cwndlab's agents where every host can have one, and the common tools otherwise."""

        def watched() -> None:
            look()
            self.watch()

        limit_s = min(limit_s, self._limit_s)
        if not self._site.have_agents(self.hosts):
            return ToolTraffic(self.hosts, limit_s, watched)
        self._made_by.update(self._site.each(self.hosts, self._copy_agent))
        self._agents = AgentTraffic(self, limit_s, watched, self.hosts)
        return self._agents

    def _agent_at(self, router: str) -> AgentTraffic:
        """Start cwndlab's agent at a router."""
        self._made_by[router] = self._copy_agent(self._site.machines[router])
        return AgentTraffic(self, self._limit_s, self.watch, [router])

    def _copy_agent(self, machine: Machine) -> str:
        """Put cwndlab's agent on a machine, and return the hash of the agent's program."""
        program = self._site.agent(machine.name)
        assert program is not None  # `have_agents` has said so
        data = program.read_bytes()
        machine.put(PROGRAM, data)
        machine.run(["chmod", "700", machine.path(PROGRAM)])
        return hashlib.sha256(data).hexdigest()

    def sampler(self) -> Samplers:
        """The agents, `ss` or SIFTR, by what each host has."""
        run = (self._run_id, self._scenario, self.addresses.flows)
        asked = {name: own for name, own in self.hosts.items() if own.asks_sockets}
        logged = {name: own for name, own in self.hosts.items() if not own.asks_sockets}
        each: list[Sampler] = []
        if self._agents is not None:
            each.append(AgentSampler(*run, hosts=asked, traffic=self._agents))
        elif asked:
            each.append(SsSampler(*run, hosts=asked, clocks=self._clocks, limit_s=self._limit_s))
        if logged:
            each.append(SiftrSampler(*run, hosts=logged, clocks=self._clocks))
        self._sampler = Samplers(each, self.hosts, self._limit_s)
        return self._sampler

    def start(self, host: str, argv: Sequence[str], limit_s: float) -> Process:
        """Start a program at a host, whose input and output cross the connection."""
        return self._site.machines[host].converse(argv, min(limit_s, self._limit_s))

    def log(self, host: str, argv: Sequence[str], limit_s: float) -> Callable[[], bytes]:
        """Start a program of the lab file at a host; what is returned ends it, and says what it printed."""
        machine = self.hosts[host].machine
        job = machine.start(argv, min(limit_s, self._limit_s))

        def end() -> bytes:
            machine.signal([job], "INT")
            if not machine.wait([job], LOG_END_S):
                machine.signal([job], "KILL")
            return machine.get(f"{job}.out") or machine.get(f"{job}.err")

        return end

    def put(self, host: str, name: str, data: bytes) -> None:
        """Put a file into the run's directory at a host."""
        self.hosts[host].machine.put(name, data)

    def get(self, host: str, name: str) -> bytes:
        """A file of the run's directory at a host."""
        return self.hosts[host].machine.get(name)

    def clock_offset(self, host: str) -> int:
        """Time by which a host's clock is ahead of this process's CLOCK_MONOTONIC, in ns; all machines are
        asked at once.
        """
        if host not in self._clocks:
            self._clocks.update(self._site.each(self.places, lambda machine: machine.clock()))
        return self._clocks[host].offset_ns

    def clock_errors(self) -> dict[str, int]:
        """Uncertainty of each host's clock, in ns: that of the exchanges before and after the run, and the
        drift between them.
        """
        now = self._clocks_now()
        return {host: self._clocks[host].may_be_off(now[host]) for host in self.hosts}

    def close(self) -> None:
        """Carry out the lab file's commands after a run, and take everything back; the site has the machines
        until it is closed, so that nobody comes between two runs."""
        names = [machine.name for machine in self._taken]
        self._taken.clear()
        found = self._site.each(names, self._give_back)
        troubles = [trouble for own in found.values() for trouble in own]
        if troubles:
            raise RunError("; ".join(troubles))

    def _give_back(self, machine: Machine) -> list[str]:
        """Take back what a run changed, after the lab file's commands; returns what went wrong."""
        troubles = []
        for command in machine.described.after_run if machine.connection.is_open else ():
            try:
                machine.hook("after_run", command, self._values)
            except (OSError, RunError) as error:
                troubles.append(str(error))
        return [*troubles, *machine.restore()]

    def _clocks_now(self) -> dict[str, Clock]:
        """The clocks once more, when the run is over."""
        if not self._later:
            self._later = self._site.each(self.places, lambda machine: machine.clock())
        return self._later

    def _of_load(self) -> Iterator[str]:
        for host, share in (self._sampler.busiest if self._sampler else {}).items():
            if share > BUSY:
                yield f"host {host}: a processor was {share:.0%} busy for a second; the run measures the host"

    def _of_path(self, idle: Mapping[str, Sequence[int]]) -> Iterator[str]:
        for pair, trips in idle.items():
            from_, _, to = pair.partition(">")
            told = base_rtt_ns(self._scenario, from_, to)
            if trips and preflight.differs(min(trips), told):
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
