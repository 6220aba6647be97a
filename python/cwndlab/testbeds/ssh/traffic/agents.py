"""The agents of cwndlab at the machines of a lab: their clock, their samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from cwndlab.contract.scenario import Scenario
from cwndlab.experiment.scenario.queries import is_datagrams
from cwndlab.testbeds.live import program
from cwndlab.testbeds.live.addresses import Ends
from cwndlab.testbeds.live.lab import Lab
from cwndlab.testbeds.live.linux import tcp_info
from cwndlab.testbeds.live.observation.batches import batches
from cwndlab.testbeds.live.traffic import agents
from cwndlab.testbeds.ssh.machines.platforms import Driven
from cwndlab.testbeds.ssh.machines.scripts import BASE

ROLES = ("from", "to")


class AgentTraffic(agents.Agents):
    """An agent at each host, which is told the run's beginning by its own monotonic clock."""

    def __init__(self, lab: Lab, limit_s: float, look: Callable[[], None], hosts: Iterable[str]) -> None:
        """Start the programs, which are there."""
        super().__init__(lab, limit_s, look, lambda host: [f"{BASE}/run/{program.NAME}"], hosts)

    def ask(self, orders: Mapping[str, Mapping[str, Any]], takes_s: float = 0.0) -> dict[str, dict[str, Any]]:
        """Give hosts their orders; `start` comes with a time of the clock that counts since 1970."""
        if all(order["do"] == "start" for order in orders.values()):
            clocks = super().ask({host: {"do": "clock"} for host in orders})
            orders = {
                host: {
                    "do": "start",
                    "zero_ns": order["zero_ns"] - clocks[host]["realtime_ns"] + clocks[host]["monotonic_ns"],
                }
                for host, order in orders.items()
            }
        return super().ask(orders, takes_s)


class AgentSampler:
    """TCP_INFO of both ends of every connection, by the agents, at the interval of the experiment."""

    def __init__(
        self,
        run_id: int,
        scenario: Scenario,
        ends: Mapping[str, Ends],
        *,
        hosts: Mapping[str, Driven],
        traffic: AgentTraffic,
    ) -> None:
        """Look at nothing yet."""
        self._hosts, self._traffic = hosts, traffic
        self._configs = {
            host: {role: _config(run_id, scenario, ends, host, role) for role in ROLES} for host in hosts
        }
        self.troubles: list[str] = []
        self.at_acks: pa.Table | None = None

    def start(self) -> None:
        """Start sampling at all hosts."""
        for role in ROLES:
            orders = {host: {"do": "sample", "name": role, "config": c[role]} for host, c in self._with(role)}
            if orders:
                self._traffic.ask(orders)

    def mark_start(self, zero_ns: int) -> None:
        """Do nothing: the agents begin to count with the run."""

    def stop(self) -> tuple[pa.Table, pa.Table]:
        """End it: rows of the senders, and of the receivers."""
        return self._rows("from"), self._rows("to")

    def _rows(self, role: str) -> pa.Table:
        hosts = [host for host, _ in self._with(role)]
        file = f"samples-{role}"
        orders = {
            host: {"do": "samples", "name": role, "file": self._hosts[host].machine.path(file)}
            for host in hosts
        }
        answers = self._traffic.ask(orders) if orders else {}
        tables = []
        for host in hosts:
            self.troubles += [f"host {host}: {error}" for error in answers[host]["report"]["errors"]]
            tables += [table for _, table in batches(self._hosts[host].machine.get(file))]
        if not tables:
            return pa.table({})
        return pa.concat_tables(tables).sort_by("t_ns")

    def _with(self, role: str) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
        """The hosts that have sockets of a role."""
        return ((host, own) for host, own in self._configs.items() if own[role]["sockets"])


def _config(
    run_id: int, scenario: Scenario, ends: Mapping[str, Ends], host: str, role: str
) -> dict[str, Any]:
    flows = [flow for flow in scenario["flows"] if not is_datagrams(flow)]
    here = [flow for flow in flows if host == (flow["from"] if role == "from" else flow["to"])]
    return tcp_info.config(
        run_id, scenario, [tcp_info.socket(flow, ends[flow["name"]], None, role) for flow in here], role
    )
