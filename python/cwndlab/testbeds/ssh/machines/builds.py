"""Switches the machines of a lab from one build of their stack to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cwndlab.errors import CwndlabError
from cwndlab.testbeds.ssh import lab_file
from cwndlab.testbeds.ssh.machines import site
from cwndlab.testbeds.ssh.machines.connection import LostError
from cwndlab.testbeds.ssh.machines.machine import Machine

SWITCH_S = 600.0
"""Seconds that a command may take, such as one that installs a kernel."""
RESTARTS = "reboot"
"""A command that begins with this word restarts the machine."""


def commands(path: Path) -> Mapping[str, Sequence[str]]:
    """Commands that switch to the build of `FILE@BUILD`, by machine."""
    _, build = lab_file.of_build(path)
    return {} if build is None else lab_file.read(path).builds[build].switch


def switch(path: Path, told: Callable[[str], None]) -> None:
    """Carry these out, one machine after the other."""
    for name, words in commands(path).items():
        machine = site.of(path).machines[name]
        try:
            # Takes back what a crashed run changed, and refuses a machine that is in use.
            machine.clean()
            for command in words:
                _carry_out(machine, command, told)
        except (LostError, OSError) as error:
            raise CwndlabError(f"switching {name}: {error}") from None


def _carry_out(machine: Machine, command: str, told: Callable[[str], None]) -> None:
    if command.split(maxsplit=1)[0] == RESTARTS:
        told(f"waiting for {machine.name}, which restarts")
        machine.restart(command)
    else:
        told(f"{machine.name}: {command}")
        machine.shell(f"{command}\n", limit_s=SWITCH_S)
