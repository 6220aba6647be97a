"""A Scenario of a live testbed: the engine's, and what only live hosts are told."""

from typing import NotRequired, TypedDict

from cwndlab.contract.scenario import Scenario


class Tool(TypedDict):
    """What carries a flow out."""

    tool: str
    """`own`, or a common tool."""
    report_ns: int
    """From one report of the tool to the next."""
    program: NotRequired[dict[str, list[str]]]
    """Of one that the lab file names: the words of `server` and `client`."""


class Log(TypedDict):
    """A logger of the lab file."""

    hosts: list[str]
    command: list[str]


class Live(TypedDict):
    """What only live hosts are told."""

    loggers: list[str]
    """What writes down what happens."""
    programs: NotRequired[dict[str, Log]]
    """Loggers of the lab file by name."""
    flows: dict[str, Tool]
    """By name."""
    emulator: NotRequired[str]
    """Of namespaces: what carries the links out, `own` or `kernel`."""


class LiveScenario(Scenario):
    """A Scenario with a key that the engine never sees."""

    live: Live
