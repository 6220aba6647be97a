"""The simulator as a testbed: drives the native engine a few thousand events at a time."""

import json

import pyarrow as pa

from cwndlab import _native
from cwndlab.contract.scenario import Scenario
from cwndlab.testbeds.base import CancelledError, Control, Outcome, RunWriter
from cwndlab.testbeds.sim.support import SUPPORT

EVENTS_PER_STEP = 1 << 18
"""Events between two looks at the cancel flag: some tens of milliseconds, and at most about 20 MB of rows."""


class Sim:
    """Models of TCP stacks over a modelled path, packet by packet, in virtual time."""

    name = "sim"
    live = False
    support = SUPPORT

    def ready(self) -> None:
        """Needs nothing of the machine."""

    def remarks(self) -> list[str]:
        """Nothing."""
        return []

    def clean(self) -> list[str]:
        """Leaves nothing."""
        return []

    def versions(self) -> dict[str, str]:
        """Version and build profile of the engine."""
        return {"engine": _native.version()}

    def preflight(self, scenario: Scenario) -> None:
        """Raises ValueError, with one line, if the engine would refuse the Scenario."""
        _native.check(json.dumps(scenario))

    def run(self, run_id: int, scenario: Scenario, writer: RunWriter, control: Control) -> Outcome:
        """Carry out one run to its end in virtual time."""
        try:
            return _run(run_id, scenario, writer, control)
        except BaseException as error:
            # A panic of the engine arrives as an exception that no `except Exception` sees.
            if type(error).__name__ == "PanicException":
                raise RuntimeError(f"the engine failed: {error}") from None
            raise


def _run(run_id: int, scenario: Scenario, writer: RunWriter, control: Control) -> Outcome:
    simulation = _native.Simulation(json.dumps(scenario), run_id)
    over = False
    while not over:
        if control.cancelled():
            raise CancelledError
        over = simulation.advance(EVENTS_PER_STEP)
        for table, batch in simulation.take():
            writer.rows(table, pa.record_batch(batch))
        for point, data in simulation.captures():
            writer.capture(point, data)
        control.progress(simulation.now_ns)
    return Outcome(summary=json.loads(simulation.summary()))
