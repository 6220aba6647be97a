"""The agents of cwndlab at the machines of a lab: where the program is, copying it, its clock, its
samples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from cwndlab.contract.scenario import Scenario
from cwndlab.errors import RunError
from cwndlab.experiment.scenario.queries import is_datagrams
from cwndlab.testbeds.live.addresses import Ends
from cwndlab.testbeds.live.lab import Lab
from cwndlab.testbeds.live.linux import tcp_info
from cwndlab.testbeds.live.traffic import agents
from cwndlab.testbeds.ssh.machines.connection import ANSWER_ERRORS
from cwndlab.testbeds.ssh.machines.platforms import Driven
from cwndlab.testbeds.ssh.machines.scripts import BASE

PROGRAM = "cwndlab-agent"
"""Name of the agent in the run's directory at a machine."""
BUILT = Path(__file__).parents[5] / "target"
"""Folder in which `make agent` puts the agent, in a checkout."""
TARGETS = {"linux-x86_64": "x86_64-unknown-linux-musl", "linux-aarch64": "aarch64-unknown-linux-musl"}
"""Rust's names of the systems and processors that `make agent` builds it for."""
ROLES = ("from", "to")

_KINDS: Mapping[str, tuple[Any, int]] = {
    "u32": (pa.uint32(), 4),
    "u64": (pa.uint64(), 8),
    "i64": (pa.int64(), 8),
    "dict": (pa.int32(), 4),
}


def program(kind: str, described: Mapping[str, str] | None) -> Path | None:
    """The agent's program for a kind of machine, such as `linux-x86_64`. None where there is none."""
    if described is not None:
        return Path(described[kind]).expanduser() if kind in described else None
    built = BUILT / TARGETS[kind] / "release" / PROGRAM if kind in TARGETS else None
    return built if built is not None and built.is_file() else None


class AgentTraffic(agents.Agents):
    """An agent at each host, which is told the run's beginning by its own monotonic clock."""

    def __init__(self, lab: Lab, limit_s: float, look: Callable[[], None], hosts: Iterable[str]) -> None:
        """Start the programs, which are there."""
        super().__init__(lab, limit_s, look, lambda host: [f"{BASE}/run/{PROGRAM}"], hosts)

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


def batches(data: bytes) -> list[tuple[str, pa.Table]]:
    """The batches of a file that an agent wrote, each with its table's name (crates/agent/src/samples.rs)."""
    try:
        return list(_batches(data))
    except ANSWER_ERRORS:
        raise RunError("what an agent recorded cannot be read") from None


def _batches(data: bytes) -> Iterator[tuple[str, pa.Table]]:
    place = 0
    while place < len(data):
        end = data.index(b"\n", place)
        head = json.loads(data[place:end])
        place, rows, columns = end + 1, head["rows"], {}
        for column in head["columns"]:
            kind, width = _KINDS[column["kind"]]
            if not 0 <= rows * width <= len(data) - place:
                raise ValueError(f"{rows} rows in {len(data) - place} bytes")
            values, place = pa.py_buffer(data[place : place + rows * width]), place + rows * width
            valid = None
            if column["nulls"]:
                size = -(-rows // 8)
                if size > len(data) - place:
                    raise ValueError(f"marks of {rows} rows in {len(data) - place} bytes")
                valid, place = pa.py_buffer(data[place : place + size]), place + size
            array = pa.Array.from_buffers(kind, rows, [valid, values])
            if column["kind"] == "dict":
                array = pa.DictionaryArray.from_arrays(array, pa.array(column["values"], pa.utf8()))
            columns[column["name"]] = array
        table = pa.table(columns)
        table.validate(full=True)
        yield head["table"], table


def _config(
    run_id: int, scenario: Scenario, ends: Mapping[str, Ends], host: str, role: str
) -> dict[str, Any]:
    flows = [flow for flow in scenario["flows"] if not is_datagrams(flow)]
    here = [flow for flow in flows if host == (flow["from"] if role == "from" else flow["to"])]
    return tcp_info.config(
        run_id, scenario, [tcp_info.socket(flow, ends[flow["name"]], None, role) for flow in here], role
    )
