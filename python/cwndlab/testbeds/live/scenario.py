"""A Scenario of a live testbed: the engine's, and what only live hosts are told."""

from typing import Any, NotRequired, TypedDict

from cwndlab.contract.scenario import Scenario


class Tool(TypedDict):
    """Program that carries out a flow."""

    tool: str
    """`own`, or a common tool."""
    report_ns: int
    """Interval between the tool's reports, in ns."""
    program: NotRequired[dict[str, list[str]]]
    """Words of `server` and `client`, for a program that the lab file names."""


class Log(TypedDict):
    """A logger of the lab file."""

    hosts: list[str]
    command: list[str]


class Live(TypedDict):
    """Part of the Scenario that only live hosts read."""

    loggers: list[str]
    """Loggers that run beside the traffic."""
    programs: NotRequired[dict[str, Log]]
    """Loggers of the lab file by name."""
    flows: dict[str, Tool]
    """Tools of the flows, by name."""
    qdiscs: NotRequired[list[str]]
    """Hosts at whose interface stands the queue of their own link: `nic.qdisc`."""
    emulator: NotRequired[str]
    """Carrier of the links of namespaces, `own` or `kernel`."""


class LiveScenario(Scenario):
    """A Scenario with a key that the engine never sees."""

    live: Live


def interface_queues(scenario: LiveScenario) -> dict[str, dict[str, Any]]:
    """Return the queue disciplines at hosts' interfaces (`nic.qdisc`), by host."""
    names = scenario["live"].get("qdiscs", ())
    return {link["from"]: dict(link["queue"]) for link in scenario["links"] if link["from"] in names}
