"""The loadlatency tool as what carries out a scenario on live hosts: its engine, each end in its agent."""

import json
import threading
from collections.abc import Mapping
from typing import Any

from cwndlab import _native
from cwndlab.contract.scenario import Flow, Scenario
from cwndlab.scenario.queries import app_of
from cwndlab.testbeds.live.traffic.apps import Clock
from cwndlab.testbeds.live.traffic.tools import LOAD_TOOL

INTERVAL_NS = 20_000_000
"""From one ping of the tool to the next (crates/loadlatency/src/client/pinger.rs)."""
PING_BYTES, WRITE_BYTES = 16, 131_072
"""What stands for the tool's own messages and writes in the model."""
IDLE_PINGS = 35
"""How often the tool pings before a scenario alone (crates/loadlatency/src/client.rs)."""
ROUND_TRIPS = 5
"""Further round trips from when it is started until its flows begin: connections and greetings."""
MIN_NS = 500_000_000
"""The shortest load that the tool carries out."""
AFTER_S = 75.0
"""Seconds that the tool may take beyond the end: its commands wait in the queues that the load has filled."""
IDLE_TIMEOUT_S = 60
"""Seconds without an answer after which an end gives the other up."""


def parts(scenario: Scenario, pinger: Flow) -> list[Flow]:
    """The flows of data of the Scenario that a pinger belongs to, in the tool's order."""
    return [
        flow
        for flow in scenario["flows"]
        if flow["app"].get("group") == app_of(pinger)["group"]
        and flow["app"].get("part") in ("upload", "download")
    ]


def orders(scenario: Scenario, pinger: Flow, starts: Mapping[str, int], base_rtt_ns: int) -> dict[str, Any]:
    """What the two ends have to know of the flows of data; `starts` are those of all flows, ns of the run.

    `start_ns`: when the tool is started, so that they begin about when the Scenario says; `load_ns`: how long
    they last; `cc` and `cc_back`: the congestion control of uploads and of downloads, None without any.
    """
    data = parts(scenario, pinger)
    begins = min(starts[part["name"]] for part in data)
    stop = scenario["duration_ns"] if pinger["stop_ns"] is None else pinger["stop_ns"]
    ahead = IDLE_PINGS * max(INTERVAL_NS, base_rtt_ns) + ROUND_TRIPS * base_rtt_ns
    senders = {app_of(part)["part"]: part["cc"] for part in data}
    return {
        "start_ns": max(starts[pinger["name"]], begins - ahead),
        "load_ns": stop - begins,
        "cc": senders.get("upload"),
        "cc_back": senders.get("download"),
    }


def refusal(app: Mapping[str, Any], sndbuf: int | None, rcvbuf: int | None, load_ns: int) -> str | None:
    """Why the tool cannot carry a scenario out as described, or None."""
    if sndbuf is not None or rcvbuf is not None:
        return "the tool leaves the buffers to the system: no sndbuf or rcvbuf"
    own = {"interval_ns": INTERVAL_NS, "ping_bytes": PING_BYTES, "write_bytes": WRITE_BYTES}
    other = [key for key, value in own.items() if app[key] != value]
    if other:
        return f"{other[0]}: the tool has {own[other[0]]}, not {app[other[0]]}"
    if load_ns < MIN_NS:
        return f"a load of {load_ns / 1e9:g} s; the tool takes at least {MIN_NS / 1e9:g} s"
    return None


class Session:
    """One end of a scenario, in a thread of its own; what it came to is known after `wait`."""

    def __init__(self, task: Mapping[str, Any], role: str, clock: Clock) -> None:
        """An end that is not begun; `role` is `from`, the client, or `to`, the server."""
        self.task, self.role = task, role
        self._clock = clock
        self._document = ""
        self._error: str | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        """Begin: a server listens soon, a client waits for its time."""
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until it is over, at most so long; a server that no client came to never is."""
        self._thread.join(seconds)

    def failed(self) -> str | None:
        """Why it is over before its time; None while it is not."""
        return self._error

    def report(self) -> dict[str, Any]:
        """The tool's JSON document (docs/loadlatency.md), and what went wrong."""
        error = self._error
        if self.role == "from" and self._thread.is_alive():
            error = "the tool did not end"
        return {
            "flow": self.task["flow"],
            "role": self.role,
            "tool": LOAD_TOOL,
            "text": self._document,
            "error": error,
        }

    def _work(self) -> None:
        try:
            if self.role == "to":
                _native.loadlatency_serve(json.dumps(self._serving()), lambda _: None)
                return
            self._clock.sleep_until(self.task["load"]["start_ns"])
            self._document, _, self._error = _native.loadlatency_run(
                json.dumps(self._measuring()), lambda _: None
            )
        except Exception as error:
            self._error = f"{type(error).__name__}: {error}"

    def _serving(self) -> dict[str, Any]:
        task = self.task
        return {
            "bind": [task["target"]],
            "port": task["target_port"],
            "cc": task["load"]["cc_back"],
            "once": True,
            "idle_timeout_s": IDLE_TIMEOUT_S,
        }

    def _measuring(self) -> dict[str, Any]:
        task = self.task
        return {
            "host": task["target"],
            "port": task["target_port"],
            "scenarios": [task["app"]["scenario"]],
            "duration_s": task["load"]["load_ns"] / 1e9,
            "cc": task["load"]["cc"],
            "local_port": task["source_port"],
            "idle_timeout_s": IDLE_TIMEOUT_S,
        }
