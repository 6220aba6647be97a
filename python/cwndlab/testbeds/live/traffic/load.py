"""The loadlatency tool as what carries out a scenario on live hosts: its engine, each end in its agent."""

from collections.abc import Mapping
from typing import Any

from cwndlab.contract.scenario import Flow, Scenario
from cwndlab.experiment.scenario.queries import app_of
from cwndlab.testbeds.live.addresses import Ends

INTERVAL_NS = 20_000_000
"""Interval between two pings of the tool, in ns (crates/loadlatency/src/client/pinger.rs)."""
PING_BYTES, WRITE_BYTES = 16, 131_072
"""Sizes of the tool's messages and writes in the model, in bytes."""
IDLE_PINGS = 35
"""Number of pings of the tool before a scenario alone (crates/loadlatency/src/client.rs)."""
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


def orders(
    scenario: Scenario, pinger: Flow, ends: Ends, starts: Mapping[str, int], base_rtt_ns: int
) -> dict[str, Any]:
    """Make the orders of both ends, `server` and `client`; `starts` are those of all flows, in ns of the run.

    `start_ns` is when the client is started, so that the flows of data begin about when the Scenario says.
    """
    data = parts(scenario, pinger)
    begins = min(starts[part["name"]] for part in data)
    stop = scenario["duration_ns"] if pinger["stop_ns"] is None else pinger["stop_ns"]
    ahead = IDLE_PINGS * max(INTERVAL_NS, base_rtt_ns) + ROUND_TRIPS * base_rtt_ns
    senders = {app_of(part)["part"]: part["cc"] for part in data}
    both = {"port": ends.target_port, "idle_timeout_s": IDLE_TIMEOUT_S}
    return {
        "start_ns": max(starts[pinger["name"]], begins - ahead),
        "after_ns": round(AFTER_S * 1e9),
        "server": {**both, "bind": [ends.target], "cc": senders.get("download"), "once": True},
        "client": {
            **both,
            "host": ends.target,
            "scenarios": [app_of(pinger)["scenario"]],
            "duration_s": (stop - begins) / 1e9,
            "cc": senders.get("upload"),
            "local_port": ends.source_port,
        },
    }


def refusal(app: Mapping[str, Any], sndbuf: int | None, rcvbuf: int | None, load_ns: int) -> str | None:
    """Reason why the tool cannot carry a scenario out as described. None where it can."""
    if sndbuf is not None or rcvbuf is not None:
        return "the tool leaves the buffers to the system: no sndbuf or rcvbuf"
    own = {"interval_ns": INTERVAL_NS, "ping_bytes": PING_BYTES, "write_bytes": WRITE_BYTES}
    other = [key for key, value in own.items() if app[key] != value]
    if other:
        return f"{other[0]}: the tool has {own[other[0]]}, not {app[other[0]]}"
    if load_ns < MIN_NS:
        return f"a load of {load_ns / 1e9:g} s; the tool takes at least {MIN_NS / 1e9:g} s"
    return None
