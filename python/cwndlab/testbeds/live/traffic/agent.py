"""The process at a host that carries out the ends of flows there, all by one clock.

Started as `python -m cwndlab.testbeds.live.traffic.agent NAME`, it takes commands as lines of JSON from
standard input and answers each with one line. It ends, with all it started, when its input does. Whoever
lists processes sees by the name whose it is.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from cwndlab.testbeds.live.traffic import apps, load, tools
from cwndlab.testbeds.live.traffic.apps import Clock, Metrics

LISTEN_S = 10.0
"""Seconds within which a tool's server has to listen."""
END_S = 3.0
"""Seconds that a tool has to write its report when it is told to end."""
PRIORITY = 1
"""Among real-time processes (sched(7)): behind the emulator and the loggers."""
LISTENING = "0A"
"""State of a listening socket in /proc/net/tcp (proc(5), TCP_LISTEN)."""


class Agent:
    """Both kinds of ends at one host."""

    def __init__(self) -> None:
        """Nothing is going on."""
        self._clock = Clock((0, 0), 0)
        self._metrics: list[Metrics] = []
        self._tools: list[_Tool] = []
        self._sessions: list[load.Session] = []

    def prepare(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Get ready for the flows that this host sends and receives; receivers listen when this returns."""
        self._clock.measure = (order["measure"][0], order["measure"][1])
        self._clock.duration_ns = order["duration_ns"]
        self._begin_sessions(order)
        # The tool carries out all of a scenario's flows: their tasks are the pinger's.
        receives, sends = (
            [task for task in order[side] if task["tool"] != tools.LOAD_TOOL]
            for side in ("receives", "sends")
        )
        incasts: dict[str, list[Mapping[str, Any]]] = {}
        for task in receives:
            if task["tool"] != "own":
                self._tools.append(_Tool(task, "to", tools.server(task)))
            elif task["app"]["kind"] == "incast":
                incasts.setdefault(task["app"]["group"], []).append(task)
            else:
                metrics, work = apps.receive(task, self._clock)
                self._begin([metrics], work)
        for tasks in incasts.values():
            everyone, work = apps.gather(tasks, self._clock)
            self._begin(everyone, work)
        for server in self._tools:
            server.start()
        for server in self._tools:
            server.wait_until_it_listens()
        for task in sends:
            if task["tool"] == "own":
                metrics, work = apps.send(task, self._clock)
                self._begin([metrics], work)
            else:
                tool = _Tool(task, "from", tools.client(task))
                self._tools.append(tool)
                self._begin([], partial(tool.carry_out, self._clock))
        return {"ready": True}

    def ping(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Round trips to other hosts, one after the other."""
        return {"ping": {to: apps.ping(to, order["count"], order["interval_ns"]) for to in order["to"]}}

    def start(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """The run begins at this time."""
        self._clock.zero_ns = order["zero_ns"]
        self._clock.begun.set()
        return {"started": True}

    def end(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Stop everything, and say what was seen."""
        deadline = time.monotonic() + END_S
        for side in ("from", "to"):
            for tool in self._tools:
                if tool.role == side:
                    tool.interrupt()
            for tool in self._tools:
                if tool.role == side:
                    tool.wait(deadline)
        for session in self._sessions:
            if session.role == "from":
                session.wait(load.AFTER_S)
        reports = [report for tool in self._tools for report in tool.report()]
        reports += [session.report() for session in self._sessions]
        return {"flows": [metrics.as_json() for metrics in self._metrics], "reports": reports}

    def kill(self) -> None:
        """End all programs at once."""
        for tool in self._tools:
            tool.kill()

    def _begin_sessions(self, order: Mapping[str, Any]) -> None:
        """Both ends of loadlatency scenarios: servers listen when this returns, clients wait their time."""
        for role, side in (("to", "receives"), ("from", "sends")):
            for task in order[side]:
                if task["tool"] == tools.LOAD_TOOL and task["app"]["part"] == "pinger":
                    session = load.Session(task, role, self._clock)
                    self._sessions.append(session)
                    session.start()
                    if role == "to":
                        _wait_until_it_listens(tools.LOAD_TOOL, task["target_port"], session.failed)

    def _begin(self, metrics: list[Metrics], work: apps.End) -> None:
        self._metrics += metrics
        threading.Thread(target=work, daemon=True).start()


class _Tool:
    """One end of a flow that a program carries out."""

    def __init__(self, task: Mapping[str, Any], role: str, command: list[str]) -> None:
        self.task, self.role, self._command = task, role, command
        self._process: subprocess.Popen[bytes] | None = None
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._lock = threading.Lock()
        self._over = False

    def start(self) -> None:
        with self._lock:
            if not self._over:
                self._process = subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", *self._command],  # it ends when we do, however that is
                    stdin=subprocess.DEVNULL,
                    stdout=self._out,
                    stderr=subprocess.STDOUT,
                )

    def carry_out(self, clock: Clock) -> None:
        """Start it when its flow does, interrupt it when that stops."""
        clock.begun.wait()
        clock.sleep_until(self.task["start_ns"] - self.task["lead_ns"])
        self.start()
        clock.sleep_until(self.task["stop_ns"])
        self.interrupt()
        if self._process is not None:
            self._process.wait()  # the kernel takes the end of this thread for the end of its parent

    def wait_until_it_listens(self) -> None:
        _wait_until_it_listens(self._command[0], self.task["target_port"], self._ended)

    def _ended(self) -> str | None:
        over = self._process is not None and self._process.poll() is not None
        return self._text()[:300] if over else None

    def interrupt(self) -> None:
        """As a person who stops it from the terminal: it reports what it has."""
        with self._lock:
            self._over = True
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)

    def wait(self, deadline: float) -> None:
        if self._process is not None:
            try:
                self._process.wait(max(deadline - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        with self._lock:
            self._over = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
                self._process.wait()

    def report(self) -> list[dict[str, Any]]:
        if self._process is None:
            return []
        text = self._text()
        tool = self.task["tool"]
        return [{"flow": self.task["flow"], "role": self.role, "tool": tool, "text": text}] if text else []

    def _text(self) -> str:
        self._out.seek(0)
        return self._out.read().decode(errors="replace").strip()


def _wait_until_it_listens(name: str, port: int, ended: Callable[[], str | None]) -> None:
    """Wait for a server; `ended` says why it has ended, or None. Raises RuntimeError, one line."""
    deadline = time.monotonic() + LISTEN_S
    while not _is_listening(port):
        why = ended()
        if why is not None:
            raise RuntimeError(f"{name} ended: {why}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{name} does not listen on port {port}")
        time.sleep(0.005)


def _is_listening(port: int) -> bool:
    lines = Path("/proc/self/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    sockets = [line.split() for line in lines]
    return any(int(words[1].rpartition(":")[2], 16) == port and words[3] == LISTENING for words in sockets)


def _run_before_ordinary_ones() -> None:
    """Run, with all that is started from here, before ordinary processes, where that is allowed.

    A sender that something else interrupts in the middle of a system call keeps its socket locked. ACKs wait
    in the socket's backlog meanwhile, and are answered all at once, in a burst that overruns short queues.
    """
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))


def main() -> None:
    """Take commands until there are no more."""
    _run_before_ordinary_ones()
    agent = Agent()
    commands = {"prepare": agent.prepare, "ping": agent.ping, "start": agent.start, "end": agent.end}
    try:
        for line in sys.stdin:
            order = json.loads(line)
            try:
                answer = commands[order["do"]](order)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)
    finally:
        agent.kill()
        os._exit(0)  # threads may wait for a peer that is gone


if __name__ == "__main__":
    main()
