"""Testbed netns: this host's own TCP, between network namespaces."""

import functools
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from cwndlab import _native
from cwndlab.contract.scenario import Scenario
from cwndlab.errors import InputError
from cwndlab.foreign import Module
from cwndlab.testbeds.base import Control, Outcome, RunWriter
from cwndlab.testbeds.live import session, user_programs
from cwndlab.testbeds.live.run_values import RunValues
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.netns import machine, namespaces, preflight
from cwndlab.testbeds.netns.hooks import Hooks
from cwndlab.testbeds.netns.lab import NetnsLab


class Netns:
    """Testbed of this machine's real TCP over an emulated path, in real time."""

    name = "netns"

    def __init__(self, lab: Path | None = None, modules: Sequence[Module] = ()) -> None:
        """Namespaces of this machine; a lab file has commands, programs and loggers, `modules` is empty."""
        self._lab = lab

    def ready(self) -> None:
        """Raises InputError where namespaces cannot be made."""
        reason = machine.trouble()
        if reason is not None:
            raise InputError(reason)

    def remarks(self) -> list[str]:
        """Remarks about namespaces that a crash left."""
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

    def preflight(self, scenario: Scenario, cell: Mapping[str, str]) -> list[str]:
        """Return what this kernel or a tool cannot do."""
        live, values = cast(LiveScenario, scenario), RunValues(0, scenario["repeat"], cell)
        around = {} if self._lab is None else _hooks(self._lab.resolve()).lab.hosts
        return [*user_programs.untold(live, around, values), *preflight.troubles(live)]

    def run(self, run_id: int, scenario: Scenario, writer: RunWriter, control: Control) -> Outcome:
        """Carry out one run in real time."""
        values = RunValues(run_id, scenario["repeat"], control.cell)
        live = values.told(cast(LiveScenario, scenario))
        lab = NetnsLab(run_id, live, values, None if self._lab is None else _hooks(self._lab.resolve()))
        return session.carry_out(run_id, live, lab, writer=writer, control=control)


@functools.cache
def _hooks(lab: Path) -> Hooks:
    """The commands of a lab file, the first run of this process being before all others."""
    return Hooks(lab)
