"""The refusals of testbed netns before anything starts, with what this machine has instead."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from cwndlab.contract.scenario import Flow, Host
from cwndlab.testbeds.live import preflight
from cwndlab.testbeds.live.lab import Reach
from cwndlab.testbeds.live.linux import rules, tcp_probe
from cwndlab.testbeds.live.linux.this_machine import ThisMachine
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.netns import ip, kernel_path, machine, namespaces
from cwndlab.testbeds.netns.layout import lay_out

LACKS = "this machine's kernel has no IPv6 (built without, or started with ipv6.disable=1)"


def troubles(scenario: LiveScenario) -> Iterator[str]:
    """Yield all that cannot be carried out here, a line each."""
    layout = lay_out(scenario)
    checks: list[Callable[[], None]] = [partial(tcp_probe.check, scenario, ThisMachine(), "this machine")]
    for host in scenario["hosts"]:
        checks.append(partial(rules.check, host, layout, try_out))
        checks.append(partial(_sysctls, host, scenario["flows"]))
    checks.append(partial(preflight.check_flows, scenario))
    yield from ip.troubles(scenario, LACKS, v6=machine.has_v6())
    for check in checks:
        try:
            check()
        except ValueError as error:
            yield str(error)
    if scenario["live"]["emulator"] == "kernel":
        yield from dict.fromkeys(kernel_path.troubles(scenario))


def _sysctls(host: Host, flows: Sequence[Flow]) -> None:
    system = machine.system()
    own = system.sysctls(host, flows)
    try:
        try_out(partial(system.configure, sysctls=own))
    except ValueError as error:
        raise ValueError(f"host {host['name']}: {error}") from None


def try_out(work: Callable[[Reach], None]) -> None:
    """Do work in a namespace that is thrown away."""
    namespaces.in_scratch(lambda: work(ThisMachine()))
