"""The agents of a run, one at each host: starts them, talks with them, ends them."""

import json
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from cwndlab.errors import RunError
from cwndlab.testbeds.live import guests, user_programs
from cwndlab.testbeds.live.addresses import Ends
from cwndlab.testbeds.live.lab import Lab, Process
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.live.shell import parsed
from cwndlab.testbeds.live.traffic import fast_open, load, tools

PROGRAM = "cwndlab.testbeds.live.traffic.agent"
"""The module that is the agent on this machine; its argument tells it from others in a list of processes."""

ANSWER_S = 20.0
"""Seconds that an agent has to answer, beyond what its order takes."""
MOST_OF_AN_ANSWER = 256 << 20
"""Size in bytes of an agent's answer."""
LOOK_S = 0.05
"""Seconds between two looks at whether the run is cancelled."""


def tasks(
    scenario: LiveScenario,
    ends: Mapping[str, Ends],
    starts: Mapping[str, int],
    base_rtt: Mapping[str, int],
) -> list[dict[str, Any]]:
    """List the tasks of both ends of each flow.

    `ends` are the flows' sockets, `starts` when they open in ns of the run, `base_rtt` their round trips on
    an idle path in ns.
    """
    live, given = scenario["live"], []
    hosts = {host["name"]: host for host in scenario["hosts"]}
    for flow in scenario["flows"]:
        own, sockets = live["flows"][flow["name"]], ends[flow["name"]]
        stop = scenario["duration_ns"] if flow["stop_ns"] is None else flow["stop_ns"]
        tool, rtt = own["tool"], base_rtt[flow["name"]]
        told: dict[str, Any] = {
            "flow": flow["name"],
            "app": flow["app"],
            "cc": flow["cc"],
            "sndbuf": flow["sndbuf"],
            "rcvbuf": flow["rcvbuf"],
            "start_ns": starts[flow["name"]],
            "stop_ns": stop,
            "source": sockets.source,
            "target": sockets.target,
            "source_port": sockets.source_port or 0,
            "target_port": sockets.target_port,
            "seed": scenario["seed"],
            "repeat": scenario["repeat"],
            "fast_open": fast_open.asked(hosts[flow["from"]], hosts[flow["to"]]),
        }
        given.append(told)
        if guests.carries(scenario, flow):
            told["guest"] = guests.orders(scenario, flow)
        if "program" in own:
            told["tool"] = user_programs.orders(own["program"], told, tools.lead_ns(tool, rtt))
        elif tool in tools.PROGRAMS:
            told["tool"] = tools.orders(tool, told, own["report_ns"], rtt)
        elif tool == tools.LOAD_TOOL and flow["app"].get("part") == "pinger":
            told["load"] = load.orders(scenario, flow, sockets, starts, rtt)
    return given


class Agents:
    """Agents of all hosts, one for each; used as a context, which ends them all."""

    def __init__(
        self,
        lab: Lab,
        limit_s: float,
        cancelled: Callable[[], None],
        program: Callable[[str], Sequence[str]],
        hosts: Iterable[str],
    ) -> None:
        """Start an agent at each host, for so long at most; `program` are the words that are its command.

        `cancelled` is called while answers are awaited, and raises where the run is to be given up.
        """
        self._cancelled = cancelled
        self._processes: dict[str, Process] = {}
        self._held: dict[str, bytes] = {}
        try:
            for host in hosts:
                command = [*program(host), "--limit", str(limit_s), f"{lab.name}-{host}"]
                self._processes[host] = lab.start(host, command, limit_s)
                self._held[host] = b""
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """The agents."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End them."""
        self.close()

    def ask(self, orders: Mapping[str, Mapping[str, Any]], takes_s: float = 0.0) -> dict[str, dict[str, Any]]:
        """Give hosts their orders at the same time and wait for all answers.

        Raises RunError, one line, when an agent reports an error, ends, or does not answer in time.
        """
        for host, order in orders.items():
            pipe = self._processes[host].stdin
            assert pipe is not None  # it was asked for
            try:
                pipe.write(json.dumps(order).encode() + b"\n")
                pipe.flush()
            except BrokenPipeError:
                raise RunError(f"the agent of host {host} ended") from None
        lines = self._lines(orders, time.monotonic() + ANSWER_S + takes_s)
        answers = {host: parsed(line, f"the agent of host {host}") for host, line in lines.items()}
        for host, answer in answers.items():
            if "error" in answer:
                raise RunError(f"host {host}: {answer['error']}")
        return answers

    def close(self) -> None:
        """End all agents and what they started."""
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
        deadline = time.monotonic() + 2.0
        for process in self._processes.values():
            try:
                process.wait(max(deadline - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _lines(self, hosts: Iterable[str], deadline: float) -> dict[str, bytes]:
        """Read one line from each host."""
        lines: dict[str, bytes] = {}
        with selectors.DefaultSelector() as selector:
            for host in hosts:
                selector.register(self._out(host), selectors.EVENT_READ, host)
            while selector.get_map() and time.monotonic() < deadline:
                self._cancelled()
                for key, _ in selector.select(LOOK_S):
                    host = str(key.data)
                    data = os.read(key.fd, 1 << 20)
                    if not data:
                        raise RunError(f"the agent of host {host} ended")
                    self._held[host] += data
                    if len(self._held[host]) > MOST_OF_AN_ANSWER:
                        raise RunError(
                            f"the agent of host {host} says more than {MOST_OF_AN_ANSWER >> 20} MiB at once"
                        )
                    line, newline, rest = self._held[host].partition(b"\n")
                    if newline:
                        lines[host], self._held[host] = line, rest
                        selector.unregister(key.fileobj)
            silent = [str(key.data) for key in selector.get_map().values()]
        if silent:
            raise RunError(f"the agent of host {silent[0]} does not answer")
        return lines

    def _out(self, host: str) -> int:
        pipe = self._processes[host].stdout
        assert pipe is not None  # it was asked for
        return pipe.fileno()
