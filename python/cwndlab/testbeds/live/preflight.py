"""What live testbeds refuse before anything starts: what neither a kernel nor a tool can do."""

import json

from cwndlab import _native
from cwndlab.contract.scenario import Flow
from cwndlab.testbeds import programs
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.live.traffic import load, tools


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
    try:
        _native.check_live_app(json.dumps(app))
    except ValueError as error:
        raise ValueError(f"flow {name}: {error}") from None
