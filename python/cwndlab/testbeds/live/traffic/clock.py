"""The time of a live run: when it begins, told to everybody a little ahead, and waiting for its end."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from cwndlab import _native
from cwndlab.experiment.scenario.queries import base_rtt_ns, of_engine
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.live.traffic import tools

STEP_S = 0.03
"""Between two looks at whether the run is cancelled."""


def start_times(scenario: LiveScenario) -> dict[str, int]:
    """Time at which each flow opens, in ns of the run: the engine draws it, so that the model
    begins alike.
    """
    starts = _native.start_times(json.dumps(of_engine(scenario)))
    return {flow["name"]: start for flow, start in zip(scenario["flows"], starts, strict=True)}


def in_phase(scenario: LiveScenario) -> LiveScenario:
    """The Scenario with the phases of hosts, as the engine draws them, in the delays of links and changes."""
    drawn = _native.phases(json.dumps(of_engine(scenario)))

    def later(part: Mapping[str, Any], link: str) -> Mapping[str, Any]:
        delay, phase = part["delay_ns"], drawn.get(link, 0)
        return part if delay is None else {**part, "delay_ns": delay + phase}

    links = [later(link, link["name"]) for link in scenario["links"]]
    schedule = [later(change, change["link"]) for change in scenario["schedule"]]
    found: Any = {**scenario, "links": links, "schedule": schedule}
    return cast(LiveScenario, found)


def choose_zero(scenario: LiveScenario, starts: Mapping[str, int], lead_ns: int) -> int:
    """CLOCK_MONOTONIC at t = 0: everybody is told of it so much before, and tools are started before that."""
    tool_of = {name: flow["tool"] for name, flow in scenario["live"]["flows"].items()}
    early = max(
        tools.lead_ns(tool_of[flow["name"]], base_rtt_ns(scenario, flow["from"], flow["to"]))
        - starts[flow["name"]]
        for flow in scenario["flows"]
    )
    return time.monotonic_ns() + lead_ns + max(0, early)


def wait(zero: int, duration_ns: int, look: Callable[[], None], progress: Callable[[int], None]) -> None:
    """Wait for the end of a run that begins at `zero`; `look` raises where it is to be given up."""
    end = zero + duration_ns
    while (left := end - time.monotonic_ns()) > 0:
        look()
        progress(max(0, time.monotonic_ns() - zero))
        time.sleep(min(left / 1e9, STEP_S))
    progress(duration_ns)
