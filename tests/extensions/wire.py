"""A testbed of somebody else: a wire whose flows all finish with ten megabytes; it records no rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cwndlab.contract.scenario import Scenario
from cwndlab.experiment.support import Support
from cwndlab.foreign import Module
from cwndlab.testbeds import Facts, Kind
from cwndlab.testbeds.base import Control, Outcome, RunWriter
from cwndlab.testbeds.sim import support as models

KIND = Kind(
    Facts(takes_real_time=False, shares_machine=True, draws_by_chance=False, runs_kernel=False),
    make="wire:Wire",
    support="wire:support",
)


def support(lab: Path | None) -> Support:
    keys = {**models.SUPPORT.keys, "host": frozenset({"stack", "cc"})}
    return Support("wire", keys, {}, models.SUPPORT.catalogue)


class Wire:
    name = "wire"

    def __init__(self, lab: Path | None, modules: Sequence[Module]) -> None:
        """Takes neither."""

    def ready(self) -> None:
        """Needs nothing."""

    def remarks(self) -> list[str]:
        return ["no plug is loose"]

    def clean(self) -> list[str]:
        return []

    def versions(self) -> dict[str, str]:
        return {"wire": "1.0"}

    def preflight(self, scenario: Scenario, cell: Mapping[str, str]) -> list[str]:
        return ["a wire carries two flows at most"] if len(scenario["flows"]) > 2 else []

    def run(self, run_id: int, scenario: Scenario, writer: RunWriter, control: Control) -> Outcome:
        flows = [_flow(flow["name"], scenario["duration_ns"]) for flow in scenario["flows"]]
        return Outcome(summary={"flows": flows, "links": [], "events": 0, "packets": 0})


def _flow(name: str, active_ns: int) -> Any:
    nothing = ("retransmits", "rtos", "fast_recoveries", "start_ns")
    unknown = ("unacknowledged_bytes", "wire_bytes", "segments_sent", "drops", "ce_marks", "completion_ns")
    return {
        "flow": name,
        "status": "complete",
        "goodput_bytes": 10_000_000,
        "active_ns": active_ns,
        "rtt": {"count": 0},
        "queue_delay": {"count": 0},
        "limited_ns": {},
        "recovery_entries_ns": [],
        **dict.fromkeys(nothing, 0),
        **dict.fromkeys(unknown),
    }
