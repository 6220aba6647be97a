"""Namespaces of this machine as a lab: one for each host and router, a veth pair for each cable."""

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from threading import Timer
from typing import Any

from cwndlab.contract.scenario import Scenario
from cwndlab.testbeds.live.lab import LiveHost, Process, Sampler
from cwndlab.testbeds.live.linux.tcp_info import TcpInfoSampler
from cwndlab.testbeds.live.linux.tcp_probe import Probed
from cwndlab.testbeds.live.linux.this_machine import ThisMachine
from cwndlab.testbeds.live.path.backend import PathBackend
from cwndlab.testbeds.live.run_values import RunValues
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.live.traffic.agents import PROGRAM, Agents
from cwndlab.testbeds.live.user_programs import LOG_END_S
from cwndlab.testbeds.netns import machine, network, reaper
from cwndlab.testbeds.netns.emulator import Emulator
from cwndlab.testbeds.netns.hooks import Hooks
from cwndlab.testbeds.netns.kernel_path import KernelPath
from cwndlab.testbeds.netns.layout import lay_out
from cwndlab.testbeds.netns.namespaces import NAMESPACES, PREFIX, Owner
from cwndlab.testbeds.netns.network import Network
from cwndlab.testbeds.netns.reach import Namespace

LEAD_NS = 100_000_000
"""Time between telling everybody when the run begins, and that time."""
EMULATOR = "(emulator)"
"""Stands for the namespace outside all hosts and nodes, whose names have no parentheses."""


class NetnsLab:
    """The namespaces of a run."""

    def __init__(
        self, run_id: int, scenario: LiveScenario, values: RunValues, hooks: Hooks | None = None
    ) -> None:
        """Make nothing yet; `hooks` are the commands of a lab file, which are told `values`."""
        self._hooks, self._values, self._logs, self._connected = hooks, values, 0, False
        self._run_id, self._scenario = run_id, scenario
        self._own_emulator = scenario["live"]["emulator"] == "own"
        self._owner: Owner | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._network = Network({}, None)
        self._limits: list[Timer] = []
        self.addresses = self._layout = lay_out(scenario)
        self.places: dict[str, LiveHost] = {}
        self.machines = {"machine": LiveHost(ThisMachine(), machine.system())}

    @property
    def name(self) -> str:
        """Prefix of the names of the run's namespaces."""
        return f"{PREFIX}{self._held.name}"

    @property
    def hosts(self) -> dict[str, LiveHost]:
        """The hosts' namespaces."""
        return {host: self.places[host] for host in self._layout.hosts}

    def lock(self) -> None:
        """Take a name that nobody has, and have a process wait for the end of this one."""
        self._owner = Owner()
        self._watcher = reaper.start(self._owner.name)

    def make(self) -> None:
        """Make the namespaces."""
        self._network = network.make(self._held, self._layout, own_emulator=self._own_emulator)
        names = dict(self._network.namespaces)
        if self._network.emulator is not None:
            names[EMULATOR] = self._network.emulator
        system = self.machines["machine"].system
        self.places = {node: LiveHost(Namespace(name), system) for node, name in names.items()}

    def connect(self) -> None:
        """Lay the cables."""
        network.connect(self._network, self._layout, self._scenario)
        if self._hooks is not None:
            self._hooks.before_run(self._spaces(), self._values)
        self._connected = True

    def interfaces(self, host: str) -> list[str]:
        """A host's ends of cables."""
        return [port.interface for port, _ in self._layout.interfaces(host)]

    def facts(self) -> dict[str, Any]:
        """The names of the namespaces of hosts and routers."""
        return {"namespaces": sorted(self._network.namespaces.values())}

    def path(self, scenario: Scenario) -> PathBackend:
        """Choose cwndlab's emulator, or the kernel's queue disciplines."""
        if self._own_emulator:
            return Emulator(self._run_id, scenario, self._layout, self._network, self._held.directory)
        return KernelPath(self._run_id, scenario, self._layout, self._network)

    @property
    def lead_ns(self) -> int:
        """Time that orders need over pipes to processes of this machine, in ns."""
        return LEAD_NS

    def warnings(self, idle: Mapping[str, Sequence[int]]) -> list[str]:
        """Return no warnings: the emulator gives them."""
        return []

    def watch(self) -> None:
        """Watch nothing: namespaces are not lost."""

    def traffic(self, limit_s: float, look: Callable[[], None]) -> Agents:
        """An agent in each host's namespace."""
        return Agents(self, limit_s, look, lambda host: [sys.executable, "-m", PROGRAM], self.hosts)

    def sampler(self) -> Sampler:
        """TCP_INFO of all connections between the namespaces."""
        flows = self.addresses.flows
        samples = TcpInfoSampler(self._run_id, self._scenario, flows, self._network.namespaces)
        if self._scenario["record"]["tcp"]["kind"] != "per-ack":
            return samples
        # The one kernel tells in any namespace of all connections.
        return Probed(samples, self, self._scenario, {next(iter(self.hosts)): list(flows.values())})

    def start(self, host: str, argv: Sequence[str], limit_s: float) -> Process:
        """Start a program in a host's namespace; the kernel kills it when the thread that starts it ends."""
        return self._popen(host, argv, limit_s, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _popen(self, host: str, argv: Sequence[str], limit_s: float, **pipes: Any) -> subprocess.Popen[bytes]:
        place = NAMESPACES / self._network.namespaces[host]
        enter = ["nsenter", f"--net={place}", "setpriv", "--pdeathsig", "KILL"]
        process = subprocess.Popen([*enter, *argv], start_new_session=True, **pipes)
        limit = Timer(limit_s, process.kill)
        limit.daemon = True
        limit.start()
        self._limits.append(limit)
        return process

    def log(self, host: str, argv: Sequence[str], limit_s: float) -> Callable[[], bytes]:
        """Start a program of the lab file in a host's namespace."""
        self._logs += 1
        file = self._held.directory / f"log{self._logs}"
        with file.open("wb") as out:
            process = self._popen(host, argv, limit_s, stdout=out, stderr=out, stdin=subprocess.DEVNULL)

        def end() -> bytes:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(LOG_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            return file.read_bytes()

        return end

    def put(self, host: str, name: str, data: bytes) -> None:
        """Put a file into the run's directory, where a host has one of its own."""
        place = self._held.directory / host
        place.mkdir(exist_ok=True)
        (place / name).write_bytes(data)

    def get(self, host: str, name: str) -> bytes:
        """A file from a host's directory."""
        return (self._held.directory / host / name).read_bytes()

    def clock_offset(self, host: str) -> int:
        """Return 0: all hosts have this machine's clock."""
        return 0

    def clock_errors(self) -> dict[str, int]:
        """Return no errors: all hosts have this machine's clock."""
        return {}

    def close(self) -> None:
        """Remove the namespaces with everything inside, while the reaper still watches."""
        for limit in self._limits:
            limit.cancel()
        try:
            if self._hooks is not None and self._connected:
                self._hooks.after_run(self._spaces(), self._values)
        finally:
            self._remove()

    def _spaces(self) -> dict[str, str]:
        """The namespaces of hosts."""
        return {host: str(NAMESPACES / self._network.namespaces[host]) for host in self._layout.hosts}

    def _remove(self) -> None:
        if self._owner is not None:
            self._owner.close()
        if self._watcher is not None:
            reaper.release(self._watcher)

    @property
    def _held(self) -> Owner:
        assert self._owner is not None  # `lock` comes first
        return self._owner
