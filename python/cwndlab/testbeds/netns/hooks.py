"""A lab file's commands around runs: before the first and after the last on this machine, before and after
each in the namespace of a host."""

from __future__ import annotations

import atexit
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cwndlab.testbeds.live.run_values import RunValues
from cwndlab.testbeds.live.user_programs import Around
from cwndlab.testbeds.netns import lab_file

COMMAND_S = 60.0
"""Seconds that a command may take."""


class Hooks:
    """The commands of a lab file, for as long as this process lives."""

    def __init__(self, path: Path) -> None:
        """Read the file."""
        self.lab = lab_file.read(path)
        self._set_up = False

    def before_run(self, namespaces: Mapping[str, str], values: RunValues) -> None:
        """Carry out what comes before a run, and first of all what comes before the first; raises OSError."""
        if not self._set_up:
            self._set_up = True
            atexit.register(self._tear_down)
            for name, host in self.lab.hosts.items():
                _carry_out(f"{name}: setup", host.setup, ())
        for name, host in self._here(namespaces).items():
            _carry_out(f"{name}: before_run", host.before_run, _enter(namespaces[name]), values)

    def after_run(self, namespaces: Mapping[str, str], values: RunValues) -> None:
        """Carry out what comes after a run; raises OSError."""
        for name, host in self._here(namespaces).items():
            _carry_out(f"{name}: after_run", host.after_run, _enter(namespaces[name]), values)

    def _tear_down(self) -> None:
        for name, host in self.lab.hosts.items():
            _carry_out(f"{name}: teardown", host.teardown, ())

    def _here(self, namespaces: Mapping[str, str]) -> dict[str, Around]:
        return {name: host for name, host in self.lab.hosts.items() if name in namespaces}


def _enter(namespace: str) -> Sequence[str]:
    return ("nsenter", f"--net={namespace}")


def _carry_out(
    what: str, commands: Sequence[str], before: Sequence[str], values: RunValues | None = None
) -> None:
    given = {} if values is None else values.environment
    for command in commands:
        script = command if values is None else values.in_shell(command)
        try:
            done = subprocess.run(
                [*before, "sh", "-c", script],
                env={**os.environ, **given},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise OSError(f"{what}: `{command}` takes more than {COMMAND_S:g} s") from None
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split()) or f"exit status {done.returncode}"
            raise OSError(f"{what}: `{command}`: {said}")
