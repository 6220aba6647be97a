"""The programs that a lab file has run at hosts: around runs, to carry flows out, and as loggers.

Commands stand in lab files alone: an experiment file executes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator

from cwndlab.contract.scenario import Flow
from cwndlab.errors import shown
from cwndlab.experiment.schema.leaves import Name, leaf
from cwndlab.experiment.schema.section import Section, about, required
from cwndlab.experiment.units import BadValue
from cwndlab.testbeds.live.run_values import RunValues
from cwndlab.testbeds.live.scenario import LiveScenario

TOOL = "command"
"""The word for what carries out a flow that a lab file has a program for."""
LOG_END_S = 3.0
"""Seconds that a logger has to end."""

PLACES = ("source", "target", "source_port", "port", "seconds", "bytes", "cc")
"""Names that may stand in braces in the words of a program, and are known when it is started."""


def _line(text: str) -> str:
    if not text.strip() or "\n" in text or "\0" in text:
        raise BadValue(shown(text) if text else "nothing", "a command in one line, as a shell reads it")
    return text


def _word(text: str) -> str:
    if not text or "\0" in text:
        raise BadValue(shown(text) if text else "nothing", "a word of a command")
    return text


def _words(words: list[str]) -> list[str]:
    if not words:
        raise BadValue("nothing", "the words of a command")
    return words


def _leaf(parse: Any, what: str) -> Any:
    return leaf(parse, str, {"type": "string", "description": what})


Command = Annotated[str, *_leaf(_line, "a command in one line, as a shell reads it")]
Argument = Annotated[str, *_leaf(_word, "a word of a command")]
Words = Annotated[list[Argument], AfterValidator(_words)]


class Around(Section):
    """Commands around runs."""

    section = "around"
    setup: list[Command] = about("commands before the first run", [])
    teardown: list[Command] = about("commands after the last run", [])
    before_run: list[Command] = about("commands before each run", [])
    after_run: list[Command] = about("commands after each run", [])


WHEN = ("setup", "before_run", "after_run", "teardown")


class Program(Section):
    """Program that carries a flow out instead of iperf3: the words of a command at either end."""

    section = "program"
    server: Words = required("at the host that the flow goes to; has to listen at {port}")
    client: Words = required("at the host that it comes from, started when the flow is")


class Logger(Section):
    """A program that writes down what happens at hosts, from before a run to its end."""

    section = "logger"
    hosts: list[Name] | None = about("where it runs [all hosts of the experiment]")
    command: Words = required("its words; what it prints is kept")


def lines(name: str, around: Around) -> Iterator[str]:
    """Yield the commands that run around runs, for a plan."""
    for when in WHEN:
        yield from (f"{name} {when}: {command}" for command in getattr(around, when))


def described(programs: Mapping[str, Program], loggers: Mapping[str, Logger]) -> Iterator[str]:
    """Yield the programs that run during runs, for a plan."""
    for flow, program in programs.items():
        yield f"flow {flow} by: {' '.join(program.server)} | {' '.join(program.client)}"
    for name, logger in loggers.items():
        where = ", ".join(logger.hosts) if logger.hosts is not None else "all hosts"
        yield f"logger {name} at {where}: {' '.join(logger.command)}"


def untold(scenario: LiveScenario, around: Mapping[str, Around], values: RunValues) -> Iterator[str]:
    """Yield the values that commands of a lab file ask for and a run does not have, a line each."""
    for name, own in around.items():
        for when, commands in (("before_run", own.before_run), ("after_run", own.after_run)):
            for command in commands:
                try:
                    values.in_shell(command)
                except ValueError as error:
                    yield f"{name}: {when}: `{command}`: {error}"
    for flow, tool in scenario["live"]["flows"].items():
        for end, words in tool.get("program", {}).items():
            try:
                values.in_words(words)
            except ValueError as error:
                yield f"flow {flow}: {end}: {error}"
    for name, log in scenario["live"].get("programs", {}).items():
        try:
            values.in_words(log["command"])
        except ValueError as error:
            yield f"logger {name}: {error}"


def refusal(program: Mapping[str, Sequence[str]], flow: Flow, flows: Iterable[Flow]) -> str | None:
    """Reason why a program cannot carry out a flow of the Scenario. None where it can."""
    if flow["app"]["kind"] != "bulk":
        return f"a program of the lab file stands for app bulk, not for {flow['app']['kind']}"
    if flow["sndbuf"] is not None or flow["rcvbuf"] is not None:
        return "a program of the lab file sets its own buffers; leave sndbuf and rcvbuf out"
    ccs = sorted({str(each["cc"]) for each in flows if each["from"] == flow["from"]})
    if len(ccs) > 1 and not any("{cc}" in word for word in program["client"]):
        return f"host {flow['from']} sends with {' and '.join(ccs)}, and its program is not told {{cc}}"
    app = flow["app"]
    if app["bytes"] is not None and not any("{bytes}" in word for word in program["client"]):
        return f"its program is not told to send {app['bytes']} bytes: {{bytes}}"
    return None


def orders(program: Mapping[str, Sequence[str]], task: Mapping[str, Any], lead_ns: int) -> dict[str, Any]:
    """Make the orders of both ends, in the form that other tools have."""
    seconds = -(-(task["stop_ns"] - task["start_ns"]) // 10**9)
    values = {
        **{name: task[name] for name in ("source", "target", "source_port", "cc")},
        "port": task["target_port"],
        "seconds": seconds,
        "bytes": task["app"]["bytes"],
    }
    client, server = ([_filled(word, values) for word in program[end]] for end in ("client", "server"))
    return {"name": TOOL, "lead_ns": lead_ns, "client": client, "server": server}


def binds_source(client: Sequence[str]) -> bool:
    """Whether a program is told from which port to send."""
    return any("{source_port}" in word for word in client)


def _filled(word: str, values: Mapping[str, Any]) -> str:
    for name in PLACES:
        word = word.replace(f"{{{name}}}", str(values[name]))
    return word
