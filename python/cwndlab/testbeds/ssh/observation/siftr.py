"""Samples of FreeBSD hosts by SIFTR: its module logs a connection's state as each of its packets passes.

siftr2 serves instead where it is installed. Neither tells what SIFTR does not know: bytes delivered, and
retransmissions; those are in iperf3's own report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cwndlab.contract.scenario import Scenario
from cwndlab.experiment.scenario.queries import is_datagrams
from cwndlab.testbeds.live.addresses import Ends
from cwndlab.testbeds.live.freebsd import commands
from cwndlab.testbeds.live.freebsd.shell import ByShell
from cwndlab.testbeds.live.observation import samples
from cwndlab.testbeds.logs import connections, siftr, siftr2
from cwndlab.testbeds.logs.connections import STATES, Flow
from cwndlab.testbeds.ssh.machines.machine import Clock
from cwndlab.testbeds.ssh.machines.platforms import Driven
from cwndlab.testbeds.ssh.observation import sampler

LOG = "siftr.log"
"""The log, in the run's directory at a machine."""
EVERY_PACKET = {"ppl": "1", "genhashes": "0"}
"""Flags: a record per packet, without hashes of packets (siftr(4))."""
INTERVAL_NS = 10_000_000
"""Between two rows, unless the experiment says."""

LOGGED = {
    "snd_wnd": "send_window_bytes",
    "rcv_wnd": "receive_window_bytes",
    "snd_hiwat": "send_buffer_bytes",
    "rcv_hiwat": "receive_buffer_bytes",
    "mss": "mss_bytes",
}
"""Columns of the tables by the log's names."""


class SiftrSampler:
    """Sampler of both ends of every connection at FreeBSD hosts, as SIFTR logs them."""

    def __init__(
        self,
        run_id: int,
        scenario: Scenario,
        ends: Mapping[str, Ends],
        *,
        hosts: Mapping[str, Driven],
        clocks: Mapping[str, Clock],
    ) -> None:
        """Load the module where a flow begins or ends, and tell it where to log; `clocks` are known when it
        stops."""
        self._run_id, self._hosts, self._clocks = run_id, hosts, clocks
        flows = [ends[flow["name"]] for flow in scenario["flows"] if not is_datagrams(flow)]
        self._flows = flows
        used = {end for flow in flows for end in (flow.from_, flow.to)}
        self._modules = {name: str(own.siftr) for name, own in hosts.items() if name in used and own.siftr}
        every = scenario["record"]["tcp"]
        self._interval_ns = every["interval_ns"] if every["kind"] == "interval" else INTERVAL_NS
        self._zero = 0
        self.troubles: list[str] = []
        self.at_acks: pa.Table | None = None
        for name in self._modules:
            self._prepare(name)

    def start(self) -> None:
        """Have them log."""
        for name, module in self._modules.items():
            _reach(self._hosts[name]).set(f"net.inet.{module}.enabled", "1")

    def mark_start(self, zero_ns: int) -> None:
        """The run begins at this CLOCK_MONOTONIC time of this process."""
        self._zero = zero_ns

    def stop(self) -> tuple[pa.Table, pa.Table]:
        """End it: rows of the senders, and of the receivers."""
        found: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
        for name, module in self._modules.items():
            self._hosts[name].reach.run(commands.setting(f"net.inet.{module}.enabled", "0"))
        for name, module in self._modules.items():
            data = self._hosts[name].machine.get(LOG)
            try:
                flows, warnings = parse(module, data)
            except ValueError as error:
                self.troubles.append(f"host {name}: {module}: not a log: {error}")
                continue
            self.troubles += [f"host {name}: {module}: {warning}" for warning in warnings]
            some = False
            for sends, row in self._rows(name, flows):
                found[0 if sends else 1].append(row)
                some = True
            if not some:
                self.troubles.append(f"host {name}: {module} logged no connection of the run")
        return samples.table(found[0]), samples.table(found[1])

    def _prepare(self, name: str) -> None:
        module, machine, reach = self._modules[name], self._hosts[name].machine, _reach(self._hosts[name])
        if not reach.loaded(module):
            reach.run(commands.load(module), undo=commands.unload(module))
        machine.put(LOG, b"")
        flags = {key: value for key, value in EVERY_PACKET.items() if reach.has(f"net.inet.{module}.{key}")}
        for key, value in {**flags, "logfile": machine.path(LOG)}.items():
            reach.set(f"net.inet.{module}.{key}", value)

    def _rows(self, host: str, flows: Sequence[Flow]) -> Iterator[tuple[bool, dict[str, Any]]]:
        owners = sampler.Owners(self._flows, host)
        zero = self._clocks[host].offset_ns + self._zero
        for flow in flows:
            ports = _ports(flow.name)
            owner = owners.of(*ports) if ports else None
            if owner is None or ports is None:
                continue
            own = {"run_id": self._run_id, "flow": owner[0], "local_port": ports[0], "remote_port": ports[1]}
            for row in rows(flow, zero, self._interval_ns):
                yield owner[1], {**own, **row}


def parse(module: str, data: bytes) -> tuple[list[Flow], list[str]]:
    """The flows of a module's log, and what it warns of; raises ValueError."""
    two = module == "siftr2" or siftr.module(data[:65536]) == "siftr2"
    sessions = (siftr2 if two else siftr).sessions(lambda: iter([data]))
    flows: list[Flow] = []
    warnings: list[str] = []
    for session in sessions:
        flows += connections.flows_of(session)
        warnings += session.warnings
    return flows, warnings


def rows(flow: Flow, zero_ns: int, interval_ns: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a connection's log from a time on: the last record of each interval."""
    columns = {**flow.columns, **{name: flow.more[key] for key, name in LOGGED.items() if key in flow.more}}
    t_ns = flow.t_ns - zero_ns
    kept = np.flatnonzero(t_ns >= 0)
    kept = kept[np.argsort(t_ns[kept], kind="stable")]
    slots = t_ns[kept] // interval_ns
    last = kept[np.append(slots[1:] != slots[:-1], True)] if len(kept) else kept
    for place in last:
        row: dict[str, Any] = {"t_ns": int(t_ns[place])}
        for name, column in columns.items():
            value = column[place]
            if name == "state":
                row[name] = STATES[value] if value >= 0 else None
            elif np.isfinite(value):
                row[name] = round(value)
        yield row


def _ports(name: str) -> tuple[int, int] | None:
    """The ports of a flow's name, such as `10.0.0.1:40000-10.0.1.1:5201`. None for a name without them."""
    ends = [end.rpartition(":")[2] for end in name.split("-")]
    return (int(ends[0]), int(ends[1])) if len(ends) == 2 and all(end.isdigit() for end in ends) else None


def _reach(host: Driven) -> ByShell:
    assert isinstance(host.reach, ByShell)  # a host with SIFTR runs FreeBSD
    return host.reach
