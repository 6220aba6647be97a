"""The part of a live testbed's Scenario that the engine does not read: loggers, and what carries each flow
out.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from cwndlab.contract.scenario import Flow
from cwndlab.errors import shown
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.locate import Misplaced
from cwndlab.experiment.scenario.topology import origin
from cwndlab.experiment.schema import AnyApp, Spec
from cwndlab.experiment.support import LiveFlow
from cwndlab.experiment.units import BadValue
from cwndlab.testbeds.live.scenario import Live, Tool
from cwndlab.testbeds.live.traffic import tools
from cwndlab.testbeds.live.user_programs import TOOL, Logger, Program

LOGGERS = ("tcp_info", "queue", "pcap", "iperf3", "ping")
"""Loggers that may run beside the traffic, by their names in the experiment file."""


def live(
    spec: Spec,
    flows: Sequence[LiveFlow],
    testbed: str,
    programs: Mapping[str, Program] = MappingProxyType({}),
    loggers: Mapping[str, Logger] = MappingProxyType({}),
) -> Live:
    """Make the part that only live hosts read, by key of the Scenario's `live`; the engine never sees it.

    `programs` carry flows of these names out, `loggers` write down what happens: a lab file has them. Raises
    `Misplaced` for a logger that `testbed` does not have.
    """
    told: Live = {
        "loggers": _loggers(spec, testbed),
        "flows": {str(flow["name"]): _tool(spec, app, flow) for app, flow in flows},
    }
    if queued := [str(name) for name, host in spec.hosts.items() if host.nic.qdisc is not None]:
        told["qdiscs"] = queued
    for name, program in programs.items():
        if name in told["flows"]:
            words = {"server": program.server, "client": program.client}
            told["flows"][name].update({"tool": TOOL, "program": words})
    if loggers:
        hosts = [str(name) for name in spec.hosts]
        told["programs"] = {
            name: {"hosts": logger.hosts if logger.hosts is not None else hosts, "command": logger.command}
            for name, logger in loggers.items()
        }
    return told


def _loggers(spec: Spec, testbed: str) -> list[str]:
    for place, logger in enumerate(spec.loggers or ()):
        if logger not in LOGGERS:
            expected = f"one that testbed {testbed} has: {', '.join(LOGGERS)}"
            raise Misplaced(("loggers", place), BadValue(shown(logger), expected))
    return spec.loggers if spec.loggers is not None else list(LOGGERS)


def _tool(spec: Spec, app: AnyApp, flow: Flow) -> Tool:
    """Choose the program that carries out a flow: a common tool where one can, unless the file names one."""
    if app.kind == "loadlatency":
        return {"tool": tools.LOAD_TOOL, "report_ns": tools.REPORT_NS}
    if app.kind != "bulk":
        return {"tool": "own", "report_ns": tools.REPORT_NS}
    stack = catalogue().stack(spec.hosts[origin(flow["from"], spec.hosts)].stack)
    own = (stack is not None and stack.guest) or tools.refusal("iperf3", flow)
    tool = app.given("tool") or ("own" if own else "iperf3")
    return {"tool": tool, "report_ns": app.table.param("report").resolved(app.given("report"))}
