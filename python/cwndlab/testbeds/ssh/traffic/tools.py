"""Flows carried out by the common tools alone: iperf3 or iperf at hosts on which nothing of cwndlab is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Self

from cwndlab.errors import RunError
from cwndlab.testbeds.ssh.machines.connection import COMMAND_S
from cwndlab.testbeds.ssh.machines.machine import Machine
from cwndlab.testbeds.ssh.machines.platforms import Driven
from cwndlab.testbeds.ssh.traffic import tool_reports

LISTEN_S = 10
"""Seconds within which a tool's server has to listen."""
FREE_S = 75
"""Seconds within which a client's port has to be free. A client that was killed may leave its port in
TIME-WAIT: 60 s on Linux, as on FreeBSD (net.inet.tcp.msl twice). iperf3 does not bind such a port."""
END_S = 3.0
"""Seconds that a tool has to write its report when it is told to end."""

LISTENS = r"""
PATH=$PATH:/usr/sbin:/sbin
left=$1; shift
while [ "$left" -gt 0 ]; do
    missing=
    there=$(ss -ltunH 2>/dev/null || sockstat -46l 2>/dev/null || netstat -an 2>/dev/null)
    for port; do
        printf '%s\n' "$there" | grep -qE "[.:]$port[[:space:]]" || missing=$port
    done
    [ -n "$missing" ] || exit 0
    sleep 0.05; left=$((left - 50))
done
echo "$missing"
exit 1
"""
"""Wait until somebody listens; arguments: milliseconds, ports. Prints one where nobody does."""

FREE = r"""
PATH=$PATH:/usr/sbin:/sbin
left=$1; shift
while :; do
    taken=
    there=$(ss -tanH 2>/dev/null || netstat -an -p tcp)
    for socket; do
        printf '%s\n' "$there" | awk -v address="${socket%:*}" -v port="${socket##*:}" '
            { own = $4; gsub(/[][]/, "", own) }
            own ~ "[.:]" port "$" {
                at = substr(own, 1, length(own) - length(port) - 1)
                if (at == address || at == "*" || at == "0.0.0.0" || at == "::") found = 1
            }
            END { exit !found }' && taken=$socket
    done
    [ -n "$taken" ] || exit 0
    [ "$left" -gt 0 ] || break
    sleep 0.25; left=$((left - 250))
done
echo "$taken"
exit 1
"""
"""Wait until nobody has sockets; arguments: milliseconds, ADDRESS:PORT. Prints one that somebody has."""

PING = r"""
PATH=$PATH:/usr/sbin:/sbin
count=$1; interval=$2; shift 2
for to; do
    echo "= $to"
    ping -n -c "$count" -i "$interval" "$to" 2>/dev/null || ping -n -c "$count" -i 1 "$to"
done
exit 0
"""
"""Round trips; arguments: count, seconds between two, addresses."""


def ping(machine: Machine, to: Sequence[str], count: int, interval_s: float) -> list[list[int]]:
    """Round trips from a machine to each of some addresses, ns."""
    told = re.split(r"^= .*$", machine.shell(PING, str(count), f"{interval_s:g}", *to), flags=re.MULTILINE)[
        1:
    ]
    return [
        [round(float(found) * 1e6) for found in re.findall(r"time[=<]([0-9.]+) ms", text)] for text in told
    ]


class ToolTraffic:
    """The tools of all flows, by jobs on the machines."""

    def __init__(
        self,
        hosts: Mapping[str, Driven],
        limit_s: float,
        look: Callable[[], None],
    ) -> None:
        """Start nothing yet; nothing will run longer than the limit. Where sockets cannot be asked, only the
        tool knows how much a flow carried.
        """
        self._limit_s, self._look = limit_s, look
        self._hosts = {
            name: _Host(own.machine, limit_s, counted=not own.asks_sockets) for name, own in hosts.items()
        }
        self._pool = ThreadPoolExecutor(max(1, len(hosts)))

    def __enter__(self) -> Self:
        """Start nothing: each tool begins when it is asked."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave programs that still run to the machines, which end them with the run."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ask(self, orders: Mapping[str, Mapping[str, Any]], takes_s: float = 0.0) -> dict[str, dict[str, Any]]:
        """Carry out the orders of all hosts at the same time; raises RunError, one line."""
        self._look()
        if any(order["do"] == "end" for order in orders.values()):
            # What sends is told to end everywhere before what receives is.
            self._each(orders, lambda host, order: host.stop("from"))
        return self._each(orders, _carry_out)

    def _each(
        self,
        orders: Mapping[str, Mapping[str, Any]],
        work: Callable[[_Host, Mapping[str, Any]], dict[str, Any]],
    ) -> dict[str, dict[str, Any]]:
        asked = {
            name: self._pool.submit(partial(work, self._hosts[name], order)) for name, order in orders.items()
        }
        try:
            return {name: answer.result() for name, answer in asked.items()}
        except OSError as error:
            raise RunError(str(error)) from None


class _Host:
    """The ends of flows at one host."""

    def __init__(self, machine: Machine, limit_s: float, *, counted: bool) -> None:
        self._machine, self._limit_s, self._counted = machine, limit_s, counted
        self._measure, self._end_ns = (0, 0), 0
        self._clients: list[Mapping[str, Any]] = []
        self._jobs: list[tuple[str, Mapping[str, Any], str]] = []

    def prepare(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Start the servers, and wait until they listen and the clients' ports are free."""
        self._clients = list(order["sends"])
        self._measure, self._end_ns = (order["measure"][0], order["measure"][1]), order["duration_ns"]
        for task in order["receives"]:
            job = self._machine.start(task["tool"]["server"], self._limit_s)
            self._jobs.append((job, task, "to"))
        ports = [str(task["target_port"]) for task in order["receives"]]
        if ports:
            try:
                self._machine.shell(LISTENS, str(LISTEN_S * 1000), *ports)
            except OSError as error:
                said = " ".join(self._machine.complained(job) for job, _, _ in self._jobs)
                raise OSError(f"{error} (nobody listens at that port) {said}".strip()) from None
        own = [f"{task['source']}:{task['source_port']}" for task in self._clients if task["source_port"]]
        if own:
            try:
                self._machine.shell(FREE, str(FREE_S * 1000), *own, limit_s=FREE_S + COMMAND_S)
            except OSError as error:
                raise OSError(f"{error} (something else there has that socket)") from None
        return {"ready": True}

    def start(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Have the clients start at their times."""
        for task in self._clients:
            at = order["zero_ns"] + task["start_ns"] - task["tool"]["lead_ns"]
            lasts = (task["stop_ns"] - task["start_ns"] + task["tool"]["lead_ns"]) / 1e9
            self._jobs.append((self._machine.start(task["tool"]["client"], lasts, at), task, "from"))
        return {"started": True}

    def ping(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Round trips to other hosts, ns."""
        found = ping(self._machine, order["to"], order["count"], order["interval_ns"] / 1e9)
        return {"ping": dict(zip(order["to"], found, strict=True))}

    def stop(self, role: str) -> dict[str, Any]:
        """Interrupt the tools of one end of flows, and wait for their reports."""
        jobs = [job for job, _, own in self._jobs if own == role]
        if jobs:
            self._machine.signal(jobs, "INT")
            if not self._machine.wait(jobs, END_S):
                self._machine.signal(jobs, "KILL")
        return {}

    def end(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Stop everything, and say what the tools reported."""
        self.stop("to")
        reports, flows = [], []
        for job, task, role in self._jobs:
            text = self._machine.said(job).strip() or self._machine.complained(job).strip()
            reports.append({"flow": task["flow"], "role": role, "tool": task["tool"]["name"], "text": text})
            if self._counted:
                found = tool_reports.of_iperf3(text, task, role, self._measure, self._end_ns)
                flows += [found] if found is not None else []
        return {"flows": flows, "reports": [report for report in reports if report["text"]]}


def _carry_out(host: _Host, order: Mapping[str, Any]) -> dict[str, Any]:
    match order["do"]:
        case "prepare":
            return host.prepare(order)
        case "start":
            return host.start(order)
        case "ping":
            return host.ping(order)
        case _:
            return host.end(order)
