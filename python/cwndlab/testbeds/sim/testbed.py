"""The simulator as a testbed: drives the native engine a few thousand events at a time."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from cwndlab import _native, foreign
from cwndlab.contract.scenario import Scenario
from cwndlab.errors import CwndlabError, RunError
from cwndlab.foreign import Module
from cwndlab.testbeds.base import CancelledError, Control, Outcome, RunWriter
from cwndlab.testbeds.sim import NAME

EVENTS_PER_STEP = 1 << 18
"""Events between two looks at the cancel flag: some tens of milliseconds, and at most about 20 MB of rows."""


class Sim:
    """Models of TCP stacks over a modelled path, packet by packet, in virtual time."""

    name = NAME

    def __init__(self, lab: Path | None = None, modules: Sequence[Module] = ()) -> None:
        """`modules`: congestion controls from outside; a lab file says nothing to models."""
        self._modules = modules

    def ready(self) -> None:
        """Needs nothing of the machine."""

    def remarks(self) -> list[str]:
        """Return no remarks."""
        return []

    def clean(self) -> list[str]:
        """Leaves nothing."""
        return []

    def versions(self) -> dict[str, str]:
        """Version and build profile of the engine, and of what is from outside."""
        return {"engine": _native.version()} | {m.option.removeprefix("--"): m.version for m in self._modules}

    def preflight(self, scenario: Scenario, cell: Mapping[str, str]) -> list[str]:
        """Return why the engine would refuse the Scenario."""
        try:
            _native.check(json.dumps(scenario), foreign.as_json(self._modules))
        except ValueError as error:
            return [str(error)]
        return []

    def run(self, run_id: int, scenario: Scenario, writer: RunWriter, control: Control) -> Outcome:
        """Carry out one run to its end in virtual time."""
        try:
            modules = foreign.as_json(self._modules)
            simulation = _native.Simulation(json.dumps(scenario), run_id, modules)
            return _run(simulation, writer, control)
        except ValueError as error:  # a module that refuses its host
            raise RunError(str(error)) from None
        except BaseException as error:
            # A panic of the engine arrives as an exception that no `except Exception` sees.
            if type(error).__name__ == "PanicException":
                raise RunError(f"the engine failed: {error}") from None
            raise


def _run(simulation: _native.Simulation, writer: RunWriter, control: Control) -> Outcome:
    over = False
    while not over:
        if control.cancelled():
            raise CancelledError
        over = _advance(simulation)
        for table, batch in simulation.take():
            writer.rows(table, pa.record_batch(batch))
        for point, data in simulation.captures():
            writer.capture(point, data)
        control.progress(simulation.now_ns)
    return Outcome(summary=json.loads(simulation.summary()))


def _advance(simulation: _native.Simulation) -> bool:
    try:
        return simulation.advance(EVENTS_PER_STEP)
    except RuntimeError as error:  # a congestion control from outside
        raise CwndlabError(str(error)) from None
