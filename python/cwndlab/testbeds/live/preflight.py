"""The refusals of live testbeds before anything starts: what neither a kernel nor a tool can do."""

import json

from cwndlab import _native
from cwndlab.contract.scenario import Flow
from cwndlab.experiment.scenario.queries import sender_ip
from cwndlab.testbeds import programs
from cwndlab.testbeds.live import guests, user_programs
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.live.traffic import load, tools


def check_flows(scenario: LiveScenario) -> None:
    """Raises ValueError, with one line, for a flow that the tool that is to carry it out cannot."""
    for name, log in scenario["live"].get("programs", {}).items():
        programs.need(log["command"][0], f"logger {name}")
    for flow in scenario["flows"]:
        own = scenario["live"]["flows"][flow["name"]]
        tool = own["tool"]
        if guests.carries(scenario, flow):
            _guest(scenario, flow, tool)
            continue
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


def _guest(scenario: LiveScenario, flow: Flow, tool: str) -> None:
    """Raises ValueError, with one line, for a flow that the agent cannot carry out over a guest."""
    name, stack = flow["name"], guests.orders(scenario, flow)["stack"]
    if tool != "own":
        raise ValueError(f"flow {name}: tool: found {tool}; expected own, which carries {stack} out")
    if scenario["record"]["tcp"]["kind"] == "per-ack":
        expected = f"an interval such as 10ms, as flow {name} is of {stack}"
        raise ValueError(f"record.tcp: found per-ack; expected {expected}")
    try:
        _native.check_live_app(json.dumps(flow["app"]), over_guest=True)
    except ValueError as error:
        raise ValueError(f"flow {name}: {error}") from None


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
