"""Lab files, for those that do not know which testbed drives the machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at on a machine."""

    machine: str
    what: str
    there: bool | None
    """None: neither good nor bad."""
    detail: str


def template() -> str:
    """A commented lab file to start from."""
    from cwndlab.testbeds.ssh.lab_file import TEMPLATE

    return TEMPLATE


def commands(lab: Path) -> list[str]:
    """What a lab file has run on its machines, and which links they make, a line each."""
    from cwndlab.testbeds.ssh import lab_file

    found = []
    for name, machine in lab_file.read(lab).machines.items():
        found += [f"{name} makes link {link} at {interface}" for link, interface in machine.links.items()]
        for when in ("setup", "before_run", "after_run", "teardown"):
            found += [f"{name} {when}: {command}" for command in getattr(machine, when)]
    return found


def examine(lab: Path) -> Iterator[Finding]:
    """Look at all machines of a lab file, and change nothing; raises ExperimentError for a bad file."""
    from cwndlab.testbeds.ssh import examination

    yield from (Finding(*found) for found in examination.of(lab))
