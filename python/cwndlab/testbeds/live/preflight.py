"""The refusals of live testbeds before anything starts: what neither a kernel nor a tool can do."""

import json

from cwndlab import _native
from cwndlab.contract.scenario import Flow
from cwndlab.experiment.scenario.queries import sender_ip
from cwndlab.testbeds import programs
from cwndlab.testbeds.live import user_programs
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.live.traffic import load, tools


def check_flows(scenario: LiveScenario) -> None:
    """Raises ValueError, with one line, for a flow that the tool that is to carry it out cannot."""
    for name, log in scenario["live"].get("programs", {}).items():
        programs.need(log["command"][0], f"logger {name}")
    for flow in scenario["flows"]:
        own = scenario["live"]["flows"][flow["name"]]
        tool = own["tool"]
        if "program" in own:
            reason = user_programs.refusal(own["program"], flow, scenario["flows"])
            if reason is not None:
                raise ValueError(f"flow {flow['name']}: {reason}")
            for words in own["program"].values():
                programs.need(words[0], f"flow {flow['name']}")
        if tool in tools.PROGRAMS:
            programs.need(tools.PROGRAMS[tool], f"flow {flow['name']}")
            reason = tools.refusal(tool, flow, sender_ip(scenario, flow))
            if reason is not None:
                raise ValueError(f"flow {flow['name']}: {reason}")
        check_own(scenario, flow)


def check_own(scenario: LiveScenario, flow: Flow) -> None:
    """Raises ValueError, with one line, for a flow that cwndlab's agent cannot carry out."""
    if scenario["live"]["flows"][flow["name"]]["tool"] == tools.LOAD_TOOL:
        _load(scenario, flow)
        return
    try:
        _native.check_live_app(json.dumps(flow["app"]))
    except ValueError as error:
        raise ValueError(f"flow {flow['name']}: {error}") from None


def _load(scenario: LiveScenario, flow: Flow) -> None:
    stop = scenario["duration_ns"] if flow["stop_ns"] is None else flow["stop_ns"]
    begins = min((part["start_ns"] for part in load.parts(scenario, flow)), default=0)
    reason = load.refusal(flow["app"], flow["sndbuf"], flow["rcvbuf"], stop - begins)
    if reason is not None:
        raise ValueError(f"flow {flow['name']}: {reason}")
