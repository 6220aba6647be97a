"""What testbed netns refuses before anything starts, with what this machine has instead."""

from collections.abc import Callable
from functools import partial

from cwndlab.testbeds.live import preflight
from cwndlab.testbeds.live.lab import Reach
from cwndlab.testbeds.live.linux import rules
from cwndlab.testbeds.live.linux.this_machine import ThisMachine
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.netns import kernel_path, machine, namespaces
from cwndlab.testbeds.netns.layout import lay_out


def check(scenario: LiveScenario) -> None:
    """Raises ValueError, with one line, for what cannot be carried out here."""
    layout = lay_out(scenario)
    preflight.check_record(scenario)
    system = machine.system()
    for host in scenario["hosts"]:
        rules.check(host, layout, try_out)
        own = system.sysctls(host, scenario["flows"])
        try:
            try_out(partial(system.configure, sysctls=own))
        except ValueError as error:
            raise ValueError(f"host {host['name']}: {error}") from None
    preflight.check_flows(scenario)
    if scenario["live"]["emulator"] == "kernel":
        kernel_path.check(scenario)


def try_out(work: Callable[[Reach], None]) -> None:
    """Do work in a namespace that is thrown away."""
    namespaces.in_scratch(lambda: work(ThisMachine()))
