"""The bulk transfers of iperf3 and iperf 2: their commands, and what these tools cannot do."""

from collections.abc import Mapping
from typing import Any

from cwndlab.contract.scenario import Flow
from cwndlab.testbeds.live.addresses import family_of

LOAD_TOOL = "loadlatency"
"""Name of the program that carries out loadlatency scenarios: the engine of cwndlab's own tool (`load`)."""
PROGRAMS = {"iperf3": "iperf3", "iperf2": "iperf"}
"""The program of each tool that is not part of this project."""

_VERSION = {"ipv4": "-4", "ipv6": "-6"}
"""iperf3's option for an IP version (iperf3(1))."""

SUFFIX = {"iperf3": "json", "iperf2": "txt", "command": "txt"}
"""Suffix of the file of a tool's reports."""

IPERF3_WRITE = 1 << 20
"""Largest `-l` of iperf3 (iperf3(1))."""
ROUND_TRIPS = {"iperf3": 3, "iperf2": 0}
"""Round trips between starting a tool and its first data connection.

iperf3 opens a control connection, sends a cookie, is asked for its parameters, sends these, and is told to
open its streams. It is started that much earlier, so that the data connection opens when the experiment
says."""
START_NS = 20_000_000
"""Time that starting a program takes on an idle machine, about, in ns."""
REPORT_NS = 1_000_000_000
"""Interval of a tool's own report unless the experiment sets it."""
AFTER_S = 5
"""Seconds that a tool is told to go on beyond the end, when it is interrupted."""


def refusal(tool: str, flow: Flow, family: str = "ipv4") -> str | None:
    """Reason why a tool cannot carry out a flow of the Scenario. None where it can."""
    app = flow["app"]
    if app["kind"] != "bulk":
        return f"{tool} carries out bulk transfers; app {app['kind']} needs our own sender"
    if tool == "iperf2" and family == "ipv6":
        return (
            "iperf 2 takes no port of its own with IPv6, by which its flow would be known; use iperf3 or own"
        )
    if tool == "iperf3" and flow["sndbuf"] != flow["rcvbuf"]:
        return "iperf3 sets the buffers of both ends alike (-w); give both the same size, or use tool: own"
    if _block(app) is None:
        return f"{tool} sends whole writes, of which {app['bytes']} bytes is no multiple; use tool: own"
    if tool == "iperf3" and app["write_bytes"] > IPERF3_WRITE:
        return f"iperf3 writes at most {IPERF3_WRITE} bytes at a time"
    return None


def lead_ns(tool: str, base_rtt_ns: int) -> int:
    """Time by which the tool's client has to be started before the connection is to open, in ns."""
    return START_NS + ROUND_TRIPS[tool] * base_rtt_ns if tool in PROGRAMS else 0


def _block(app: Mapping[str, Any]) -> int | None:
    """The size of one write: the app's, or smaller so that its bytes are whole writes. None if tiny."""
    write: int = app["write_bytes"]
    if app["bytes"] is None:
        return write
    fewest = -(-app["bytes"] // write)
    sizes = (app["bytes"] // count for count in range(fewest, 4 * fewest + 16) if app["bytes"] % count == 0)
    return next(sizes, None)


def orders(tool: str, task: Mapping[str, Any], report_ns: int, base_rtt_ns: int) -> dict[str, Any]:
    """Make the orders of both ends: the commands of the flow's sender and receiver, and when the former
    starts.
    """
    return {
        "name": tool,
        "lead_ns": lead_ns(tool, base_rtt_ns),
        "client": client(tool, task, report_ns),
        "server": server(tool, task, report_ns),
    }


def client(tool: str, task: Mapping[str, Any], report_ns: int) -> list[str]:
    """The command of a flow's sender."""
    app, seconds = task["app"], str(-(-(task["stop_ns"] - task["start_ns"]) // 10**9) + AFTER_S)
    amount = ["-t", seconds] if app["bytes"] is None else ["-n", str(app["bytes"])]
    port, write = str(task["target_port"]), str(_block(app))
    report = f"{report_ns / 1e9:.3f}"
    if tool == "iperf3":
        window = ["-w", str(task["sndbuf"])] if task["sndbuf"] is not None else []
        return [
            *(
                "iperf3",
                _VERSION[family_of(task["target"])],
                "-J",
                "-c",
                task["target"],
                "-p",
                port,
                "-B",
                task["source"],
            ),
            *(
                "--cport",
                str(task["source_port"]),
                "-C",
                task["cc"],
                "-l",
                write,
                "-i",
                report,
                *amount,
                *window,
            ),
        ]
    window = ["-w", str(task["sndbuf"])] if task["sndbuf"] is not None else []
    return [
        *("iperf", "-c", task["target"], "-p", port, "-B", f"{task['source']}:{task['source_port']}"),
        *("-Z", task["cc"], "-l", write, "-i", report, "-f", "k", *amount, *window),
    ]


def server(tool: str, task: Mapping[str, Any], report_ns: int) -> list[str]:
    """The command of a flow's receiver."""
    port, report = str(task["target_port"]), f"{report_ns / 1e9:.3f}"
    if tool == "iperf3":
        version = _VERSION[family_of(task["target"])]
        return ["iperf3", version, "-J", "-s", "-1", "-p", port, "-B", task["target"], "-i", report]
    window = ["-w", str(task["rcvbuf"])] if task["rcvbuf"] is not None else []
    return ["iperf", "-s", "-p", port, "-B", task["target"], "-i", report, "-f", "k", *window]
