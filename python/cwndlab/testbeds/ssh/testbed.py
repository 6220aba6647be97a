"""Testbed ssh: machines of one's own, reached over SSH, in real time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from cwndlab import _native
from cwndlab.contract.scenario import Scenario
from cwndlab.errors import InputError
from cwndlab.foreign import Module
from cwndlab.testbeds.base import Control, Outcome, RunWriter
from cwndlab.testbeds.live import session
from cwndlab.testbeds.live.run_values import RunValues
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.ssh.checks import preflight
from cwndlab.testbeds.ssh.lab import SshLab
from cwndlab.testbeds.ssh.machines import site
from cwndlab.testbeds.ssh.machines.site import Site
from cwndlab.testbeds.ssh.support import NAME, NO_LAB


class Ssh:
    """The machines of a lab file."""

    name = NAME

    def __init__(self, lab: Path | None = None, modules: Sequence[Module] = ()) -> None:
        """The lab of a file, which is read when it is needed; `modules` is empty."""
        self._lab = lab

    def ready(self) -> None:
        """Raises InputError with every machine that cannot be reached, or that somebody else has."""
        self._site.connect()
        self._site.each(self._site.machines, lambda machine: machine.free())

    def remarks(self) -> list[str]:
        """The machines."""
        return [] if self._lab is None else [f"{name} answers" for name in self._site.machines]

    def clean(self) -> list[str]:
        """Take back what crashed runs left on the machines."""
        if self._lab is None:
            return []
        found = self._site.each(self._site.machines, lambda machine: machine.clean())
        return [line for line in found.values() if line is not None]

    def versions(self) -> dict[str, str]:
        """The kernels, and the engine that draws the times of flows."""
        kernels = {f"kernel of {name}": own.kernel.release for name, own in self._site.driven().items()}
        return {"engine": _native.version(), **kernels}

    def preflight(self, scenario: Scenario, cell: Mapping[str, str]) -> list[str]:
        """Return everything that the machines cannot do."""
        live = cast(LiveScenario, scenario)
        return list(preflight.troubles(live, self._site, RunValues(0, scenario["repeat"], cell)))

    def run(self, run_id: int, scenario: Scenario, writer: RunWriter, control: Control) -> Outcome:
        """Carry out one run in real time."""
        values = RunValues(run_id, scenario["repeat"], control.cell)
        live = values.told(cast(LiveScenario, scenario))
        self._site.told = control.waiting
        lab = SshLab(run_id, live, values, self._site)
        return session.carry_out(run_id, live, lab, writer=writer, control=control)

    @property
    def _site(self) -> Site:
        if self._lab is None:
            raise InputError(NO_LAB)
        return site.of(self._lab)
