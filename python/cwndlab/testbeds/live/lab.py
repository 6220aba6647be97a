"""The source of machines (`Lab`), the way into each (`Reach`), and what differs by system (`HostSystem`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Protocol, Self

import pyarrow as pa

from cwndlab.contract.scenario import Flow, Host, Scenario
from cwndlab.testbeds.live.addresses import Addresses
from cwndlab.testbeds.live.path.backend import PathBackend


class Process(Protocol):
    """A process at a host, with pipes."""

    @property
    def stdin(self) -> IO[bytes] | None:
        """Standard input of the process."""

    @property
    def stdout(self) -> IO[bytes] | None:
        """Standard output of the process; has a file descriptor."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises subprocess.TimeoutExpired."""

    def kill(self) -> None:
        """End it at once."""


class Lab(Protocol):
    """The machines of one run, and what lies between them.

    `lock`, `make` and `connect` come first, in this order; `close` undoes whatever was done.
    """

    @property
    def name(self) -> str:
        """The run's, which is among the arguments of all that is started for it."""

    @property
    def addresses(self) -> Addresses:
        """Addresses of hosts and flows on the test network."""

    @property
    def machines(self) -> Mapping[str, LiveHost]:
        """The machines around all of them by name: `machine`, where there is one."""

    @property
    def places(self) -> Mapping[str, LiveHost]:
        """Whatever has settings of its own, hosts among it, by the name in the Scenario; after `make`."""

    @property
    def hosts(self) -> Mapping[str, LiveHost]:
        """The hosts of the Scenario."""

    def lock(self) -> None:
        """Take the machines for this run alone, and have them freed if this process is killed."""

    def make(self) -> None:
        """Make the machines ready, with nothing between them yet."""

    def connect(self) -> None:
        """Connect them: interfaces, addresses, routes; hosts keep what is set of them already."""

    def interfaces(self, host: str) -> list[str]:
        """A host's interfaces of the test network."""

    def facts(self) -> dict[str, Any]:
        """Facts of the machines that are kept with the run."""

    def path(self, scenario: Scenario) -> PathBackend:
        """Make the path that carries packets between the hosts; nothing passes before it is started."""

    @property
    def lead_ns(self) -> int:
        """Time that it takes to tell everybody when the run begins."""

    def warnings(self, idle: Mapping[str, Sequence[int]]) -> list[str]:
        """Warnings about the machines, to be read before the run is trusted, a line each.

        `idle` are round trips on the idle path, ns, by `FROM>TO`.
        """

    def watch(self) -> None:
        """Raises RunError, one line, where a machine is lost; asked while a run goes on."""

    def traffic(self, limit_s: float, look: Callable[[], None]) -> Traffic:
        """Begin what carries the ends of flows out at each host, for so long at most.

        `look` is called while answers are awaited, and raises where the run is to be given up.
        """

    def sampler(self) -> Sampler:
        """A sampler of all connections between the hosts; after `traffic` has begun."""

    def start(self, host: str, argv: Sequence[str], limit_s: float) -> Process:
        """Start a program at a host, in a session of its own.

        It is killed when this process ends, and after `limit_s` at the latest.
        """

    def log(self, host: str, argv: Sequence[str], limit_s: float) -> Callable[[], bytes]:
        """Start a program at a host that writes down what happens; what is returned ends it, and returns what
        it printed."""

    def put(self, host: str, name: str, data: bytes) -> None:
        """Give a host a file of this run."""

    def get(self, host: str, name: str) -> bytes:
        """A file of this run from a host; raises OSError."""

    def clock_offset(self, host: str) -> int:
        """Time by which CLOCK_MONOTONIC of a host is ahead of that of this process, in ns."""

    def clock_errors(self) -> dict[str, int]:
        """Uncertainty of each host's clock during the run, in ns, by host; empty where one clock is
        everybody's.
        """

    def close(self) -> None:
        """End all that was started, undo all that was done, and let others have the machines."""


class Traffic(Protocol):
    """Carries out the ends of flows at all hosts; used as a context, which ends them."""

    def __enter__(self) -> Self:
        """Begin the traffic."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, with all that it started."""

    def ask(self, orders: Mapping[str, Mapping[str, Any]], takes_s: float = 0.0) -> dict[str, dict[str, Any]]:
        """Give hosts their orders at the same time and wait for all answers; raises RunError."""


@dataclass(frozen=True)
class LiveHost:
    """A host, or whatever else of a lab has settings of its own: the way into it, and who sets it."""

    reach: Reach
    system: HostSystem


class Reach(Protocol):
    """A way into a host, or into one of its network namespaces."""

    def files(self, *patterns: str) -> dict[str, str]:
        """The text, by path, of each readable file that a shell's pattern stands for.

        A pattern that ends with a slash stands for everything below. Secrets are not read.
        """

    def writable(self, path: str) -> bool:
        """Whether anybody may write a file: a setting, not something that the kernel counts."""

    def uname(self) -> str:
        """Output of `uname -a`."""

    def clock(self) -> dict[str, Any]:
        """Readings of the clock by adjtimex(2): `synchronised`, and how well."""

    def interfaces(self) -> dict[str, dict[str, Any]]:
        """Facts of the interfaces by name: `mtu`, `tx_queue`, the `offloads` that are on, and the
        `qdiscs`.
        """

    def write(self, path: str, text: str) -> None:
        """Write a file that is there; raises OSError."""

    def program(self, name: str, purpose: str) -> str:
        """Path of a program. Raises ValueError, one line that says how to install it, where it is missing."""

    def run(self, command: Sequence[str], text: str = "", undo: Sequence[str] = ()) -> str:
        """Run a command that reads a text, and return its output. Raises OSError with its complaint, in one
        line.

        `undo` is the command that takes back what this one does, where the place outlives the run.
        """

    def set_offloads(self, interface: str, *, tso: bool, gro: bool) -> None:
        """Switch segmentation and aggregation of an interface, with what they need; raises OSError."""


class Sampler(Protocol):
    """Looks at both ends of every connection of a run at an interval."""

    troubles: list[str]
    """Failures of the sampling, complete after `stop`."""
    at_acks: pa.Table | None
    """After `stop` the senders' rows at each acknowledgement, with the columns of samples, where they are
    recorded.
    """

    def start(self) -> None:
        """Start sampling."""

    def mark_start(self, zero_ns: int) -> None:
        """The run begins at this CLOCK_MONOTONIC time."""

    def stop(self) -> tuple[pa.Table, pa.Table]:
        """End it: rows of the senders, and of the receivers."""


class HostSystem(Protocol):
    """Sets hosts, in the way of their system, written once for all labs."""

    def sysctls(self, host: Host, flows: Iterable[Flow]) -> dict[str, str]:
        """A host's sysctls as text, in the order they are set, its congestion control among them."""

    def load(self, reach: Reach, host: Host, flows: Iterable[Flow]) -> None:
        """Load what the host's settings and flows need and the kernel does not load by itself; raises
        OSError."""

    def configure(self, reach: Reach, sysctls: Mapping[str, str]) -> None:
        """Set sysctls of a host, in order; raises ValueError, one line, where one is refused."""

    def set_interface(self, reach: Reach, interface: str, nic: Mapping[str, Any]) -> None:
        """Set offloads and polling of a host's interface as its `nic` says; raises OSError."""

    def set_rules(self, reach: Reach, host: Host, addresses: Addresses) -> None:
        """Put the rules of a host's `ingress` into place; raises OSError."""

    def settings(self, reach: Reach) -> dict[str, Any]:
        """Settings of a host: `sysctls` by name, and `interfaces`."""

    def machine(self, reach: Reach, namespaced: Mapping[str, str]) -> dict[str, Any]:
        """Settings of a machine that its hosts share; `namespaced` are the sysctls that each host has of its
        own.
        """

    def is_setting(self, reach: Reach, sysctl: str) -> bool:
        """Whether anybody can set a sysctl; others are counters."""
