"""Lab files, for those that do not know which testbed drives the machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at on a machine."""

    machine: str
    what: str
    there: bool | None
    """Whether the thing is there. None where it is neither good nor bad."""
    detail: str


def template() -> str:
    """A commented lab file to start from."""
    from cwndlab.testbeds.ssh.lab_file import TEMPLATE

    return TEMPLATE


def of_build(lab: Path, build: str) -> Path:
    """Return the path that stands for a lab file with one of its builds. Raises InputError for a build it
    does not name.
    """
    from cwndlab.testbeds.ssh import lab_file

    named = lab.with_name(f"{lab.name}@{build}")
    lab_file.read(named)
    return named


def switch(lab: Path, told: Callable[[str], None]) -> None:
    """Switch the machines of `FILE@BUILD` to that build; `told` what is waited for.

    Raises CwndlabError, one line, where a machine is in use or a command fails.
    """
    from cwndlab.testbeds.ssh.machines import builds

    builds.switch(lab, told)


def has_switch(lab: Path) -> bool:
    """Whether a build has commands that switch to it."""
    from cwndlab.testbeds.ssh.machines import builds

    return bool(builds.commands(lab))


def leave(lab: Path) -> None:
    """Close the connections to the machines of a lab file; they are asked anew when they are needed."""
    from cwndlab.testbeds.ssh.machines import site

    site.leave(lab)


def examine(lab: Path) -> Iterator[Finding]:
    """Look at all machines of a lab file, and change nothing; raises ExperimentError for a bad file."""
    from cwndlab.testbeds.ssh.checks import lab_check

    yield from (Finding(*found) for found in lab_check.of(lab))
