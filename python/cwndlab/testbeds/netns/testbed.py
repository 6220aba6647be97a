"""Testbed netns: this host's own TCP, between network namespaces."""

import os
import platform
from typing import cast

from cwndlab import _native
from cwndlab.contract.scenario import Scenario
from cwndlab.errors import InputError
from cwndlab.testbeds.base import Control, Outcome, RunWriter
from cwndlab.testbeds.live import session
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.netns import machine, namespaces, preflight
from cwndlab.testbeds.netns.lab import NetnsLab
from cwndlab.testbeds.netns.support import SUPPORT


class Netns:
    """This host's real TCP over an emulated path, in real time."""

    name = "netns"
    live = True
    support = SUPPORT

    def ready(self) -> None:
        """Raises InputError where namespaces cannot be made."""
        reason = machine.trouble()
        if reason is not None:
            raise InputError(reason)

    def remarks(self) -> list[str]:
        """What a crash left."""
        left = sum(len(names) for names in namespaces.left_behind().values())
        return [f"a crash left {left} namespaces: cwndlab doctor --clean removes them"] if left else []

    def clean(self) -> list[str]:
        """Remove the namespaces of runs whose process is gone."""
        left = namespaces.left_behind()
        if left and os.geteuid() != 0:
            raise InputError(f"{len(left)} crashed runs left something, which only root can remove; try sudo")
        return [name for run in left for name in namespaces.clean(run)]

    def versions(self) -> dict[str, str]:
        """The kernel, and the engine whose path carries the packets."""
        return {"engine": _native.version(), "kernel": platform.release()}

    def preflight(self, scenario: Scenario) -> None:
        """Raises ValueError, with one line, for what this kernel or a tool cannot do."""
        preflight.check(cast(LiveScenario, scenario))

    def run(self, run_id: int, scenario: Scenario, writer: RunWriter, control: Control) -> Outcome:
        """Carry out one run in real time."""
        live = cast(LiveScenario, scenario)
        lab = NetnsLab(run_id, live)
        return session.carry_out(run_id, live, lab, machine.system(), writer=writer, control=control)
