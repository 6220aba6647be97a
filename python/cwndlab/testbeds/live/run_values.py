"""The values of a run for commands of a lab file: variables, and names in braces."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import cast

from cwndlab.errors import shown
from cwndlab.testbeds.live.scenario import Live, LiveScenario

PREFIX = "CWNDLAB_"
"""Prefix of the names of the variables."""
PLAIN = re.compile(r"[A-Za-z0-9._:/,+@%][A-Za-z0-9._:/,+@%-]*", re.ASCII)
"""Values that mean the same wherever they stand in the words of a program, also in those of a shell."""

_BRACES = r"(?<!\$)\{(run|repeat|cell(?:\.[^{}]+)?)\}"
_IN_SHELL = re.compile(rf"'[^']*'|\"(?:[^\"\\]|\\.)*\"|{_BRACES}")
"""Quoted parts of a line of shell, and names in braces outside of those."""


class RunValues:
    """Run, repeat, cell and swept values of a run."""

    def __init__(self, run_id: int, repeat: int, cell: Mapping[str, str]) -> None:
        """`cell` has the value of each swept key as text."""
        whole = json.dumps(dict(cell), ensure_ascii=False)
        swept = {f"cell.{key}": value for key, value in cell.items()}
        self._keys = list(cell)
        self._values = {"run": str(run_id), "repeat": str(repeat), "cell": whole, **swept}

    @cached_property
    def _variables(self) -> dict[str, str]:
        """The variable of each value, by its name in braces."""
        found: dict[str, str] = {}
        for name in self._values:
            variable = PREFIX + re.sub(r"[^A-Z0-9]", "_", name.upper())
            while variable in found.values():
                variable += "_"
            found[name] = variable
        return found

    @property
    def environment(self) -> dict[str, str]:
        """The variables that commands find."""
        return {self._variables[name]: value for name, value in self._values.items()}

    def in_shell(self, command: str) -> str:
        """Return a line of shell where a variable stands for each name in braces, so that the shell never
        reads a value as anything else; raises ValueError for a key that is not swept."""

        def filled(found: re.Match[str]) -> str:
            if found[1] is not None:
                return f'"${{{self._variable(found[1])}}}"'
            return re.sub(_BRACES, lambda name: f"${{{self._variable(name[1])}}}", found[0])

        return _IN_SHELL.sub(filled, command)

    def in_words(self, words: Sequence[str]) -> list[str]:
        """Return the words of a program with values in place of names in braces, behind those of env(1) that
        set its variables.

        Raises ValueError for a key that is not swept, and for a value that a shell among the words could read
        as anything else.
        """

        def filled(found: re.Match[str]) -> str:
            variable, value = self._variable(found[1]), self._values[found[1]]
            if not PLAIN.fullmatch(value):
                problem = f"is {shown(value)}, which is put into no word; ${variable} has it"
                raise ValueError(f"{found[0]} {problem}")
            return value

        given = [f"{name}={value}" for name, value in self.environment.items()]
        return ["env", *given, *(re.sub(_BRACES, filled, word) for word in words)]

    def told(self, scenario: LiveScenario) -> LiveScenario:
        """Return the Scenario, whose programs and loggers of the lab file know the run; raises as
        `in_words`."""
        live = cast(Live, json.loads(json.dumps(scenario["live"])))
        for flow in live["flows"].values():
            if "program" in flow:
                flow["program"] = {end: self.in_words(words) for end, words in flow["program"].items()}
        for log in live.get("programs", {}).values():
            log["command"] = self.in_words(log["command"])
        return {**scenario, "live": live}

    def _variable(self, name: str) -> str:
        if name not in self._variables:
            there = f"{', '.join(self._keys)} is" if self._keys else "nothing is"
            raise ValueError(f"{{{name}}}: is not swept; {there}")
        return self._variables[name]
