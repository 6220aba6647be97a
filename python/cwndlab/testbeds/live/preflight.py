"""What live testbeds refuse before anything starts: what neither a kernel nor a tool can do."""

from cwndlab.contract.scenario import Flow
from cwndlab.testbeds import programs
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.live.traffic import load, tools
from cwndlab.testbeds.live.traffic.apps import STAMP


def check_record(scenario: LiveScenario) -> None:
    """Raises ValueError, with one line, for what cannot be recorded."""
    if scenario["record"]["tcp"]["kind"] == "per-ack":
        raise ValueError(
            "record.tcp: a live kernel tells no more than samples; give an interval such as 10ms"
        )


def check_flows(scenario: LiveScenario) -> None:
    """Raises ValueError, with one line, for a flow that the tool that is to carry it out cannot."""
    for flow in scenario["flows"]:
        tool = scenario["live"]["flows"][flow["name"]]["tool"]
        if tool == tools.LOAD_TOOL:
            _load(scenario, flow)
        else:
            _flow(flow, tool)


def _load(scenario: LiveScenario, flow: Flow) -> None:
    stop = scenario["duration_ns"] if flow["stop_ns"] is None else flow["stop_ns"]
    begins = min((part["start_ns"] for part in load.parts(scenario, flow)), default=0)
    reason = load.refusal(flow["app"], flow["sndbuf"], flow["rcvbuf"], stop - begins)
    if reason is not None:
        raise ValueError(f"flow {flow['name']}: {reason}")


def _flow(flow: Flow, tool: str) -> None:
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
