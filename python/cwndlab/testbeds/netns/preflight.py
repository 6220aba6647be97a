"""What testbed netns refuses before anything starts, with what this machine has instead."""

from collections.abc import Mapping, Sequence
from typing import Any

from cwndlab.testbeds import programs
from cwndlab.testbeds.live.traffic import load, tools
from cwndlab.testbeds.live.traffic.apps import STAMP
from cwndlab.testbeds.netns import kernel_path, machine, namespaces, network, rules
from cwndlab.testbeds.netns.layout import lay_out


def check(scenario: Mapping[str, Any]) -> None:
    """Raises ValueError, with one line, for what cannot be carried out here."""
    layout = lay_out(scenario)
    _record(scenario)
    for host in scenario["hosts"]:
        rules.check(host, layout)
        _sysctls(host, scenario["flows"])
    for flow in scenario["flows"]:
        tool = scenario["live"]["flows"][flow["name"]]["tool"]
        if tool == tools.LOAD_TOOL:
            _load(scenario, flow)
        else:
            _flow(flow, tool)
    if scenario["live"]["emulator"] == "kernel":
        kernel_path.check(scenario)


def _record(scenario: Mapping[str, Any]) -> None:
    if scenario["record"]["tcp"]["kind"] == "per-ack":
        raise ValueError(
            "record.tcp: a live kernel tells no more than samples; give an interval such as 10ms"
        )


def _sysctls(host: Mapping[str, Any], flows: Sequence[Mapping[str, Any]]) -> None:
    """Set a host's sysctls in a namespace that is thrown away."""
    try:
        namespaces.in_scratch(lambda: machine.write_sysctls(network.sysctls_of(host, flows)))
    except ValueError as error:
        raise ValueError(f"host {host['name']}: {error}") from None


def _load(scenario: Mapping[str, Any], flow: Mapping[str, Any]) -> None:
    stop = scenario["duration_ns"] if flow["stop_ns"] is None else flow["stop_ns"]
    begins = min((part["start_ns"] for part in load.parts(scenario, flow)), default=0)
    reason = load.refusal(flow["app"], flow["sndbuf"], flow["rcvbuf"], stop - begins)
    if reason is not None:
        raise ValueError(f"flow {flow['name']}: {reason}")


def _flow(flow: Mapping[str, Any], tool: str) -> None:
    name, app = flow["name"], flow["app"]
    if tool != "own":
        programs.need(tools.PROGRAMS[tool], f"flow {name}")
        reason = tools.refusal(tool, flow)
        if reason is not None:
            raise ValueError(f"flow {name}: {reason}")
    if app["kind"] in ("udp-cbr", "voip") and app["payload_bytes"] < STAMP.size:
        short = f"a payload of {app['payload_bytes']} bytes"
        raise ValueError(f"flow {name}: {short}; its number and time take at least {STAMP.size}")
    if app["kind"] == "background":
        # The scale of a Pareto distribution of this mean and shape.
        least = app["size_bytes"] * (app["shape_milli"] - 1000) // app["shape_milli"]
        if least < STAMP.size:
            reason = f"transfers of {least} bytes and more; their size and time take {STAMP.size}"
            raise ValueError(f"flow {name}: {reason}")
