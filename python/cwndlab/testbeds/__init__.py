"""The machines that carry an experiment's packets, behind one protocol."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from cwndlab.errors import InputError, nearest, shown

if TYPE_CHECKING:
    from cwndlab.experiment.support import Support
    from cwndlab.foreign import Module
    from cwndlab.testbeds.base import Testbed

MODEL = "sim"
"""The testbed of the models, which carries out what names none."""

KERNEL = "netns"
"""The testbed of this machine's own kernel."""

DISTANT = "ssh"
"""The testbed of machines that a lab file names."""

GUEST = "kernel"
"""The testbed of a kernel of the user's own in virtual time."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Properties of a testbed's runs, whatever carries the packets."""

    takes_real_time: bool
    """Whether a run lasts as long as it is about: runs then have an order and a pause between them."""
    shares_machine: bool
    """Whether runs at the same time disturb each other: one after the other, unless asked otherwise."""
    draws_by_chance: bool
    """Whether something besides the Scenario, and what carries it out, decides what a run records."""
    runs_kernel: bool
    """Whether the TCP is that of a kernel, whose constants no experiment changes."""


VIRTUAL = Facts(takes_real_time=False, shares_machine=False, draws_by_chance=False, runs_kernel=False)
REAL = Facts(takes_real_time=True, shares_machine=True, draws_by_chance=True, runs_kernel=True)


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the table of testbeds; the code that it names (`module:name`) is loaded when it is called.

    Another package adds one by an entry point of the group `cwndlab.testbeds`, under the testbed's name.
    """

    facts: Facts
    make: str
    """Called with a lab file (or `None`) and congestion controls from outside, returns a `base.Testbed`."""
    support: str
    """Called with a lab file (or `None`), returns a `cwndlab.experiment.support.Support`."""
    commands: str | None = None
    """Called with a lab file, returns a line for each command that it has run on machines."""
    systems: tuple[str, ...] = ()
    """The `sys.platform` of systems that have it; empty: all."""
    takes_modules: bool = False
    """Whether it runs congestion controls from outside."""

    @property
    def is_here(self) -> bool:
        """Whether it can be found on this system, ready or not."""
        return not self.systems or sys.platform in self.systems


TABLE: Mapping[str, Kind] = {
    MODEL: Kind(
        VIRTUAL,
        "cwndlab.testbeds.sim.testbed:Sim",
        "cwndlab.testbeds.sim.support:support",
        takes_modules=True,
    ),
    KERNEL: Kind(
        REAL,
        "cwndlab.testbeds.netns.testbed:Netns",
        "cwndlab.testbeds.netns.support:support",
        commands="cwndlab.testbeds.netns.lab_file:commands",
        systems=("linux",),
    ),
    DISTANT: Kind(
        REAL,
        "cwndlab.testbeds.ssh.testbed:Ssh",
        "cwndlab.testbeds.ssh.support:support",
        commands="cwndlab.testbeds.ssh.lab_file:commands",
    ),
    GUEST: Kind(
        Facts(takes_real_time=False, shares_machine=False, draws_by_chance=False, runs_kernel=True),
        "cwndlab.testbeds.kernel.testbed:KernelGuest",
        "cwndlab.testbeds.kernel.support:support",
        systems=("linux",),
    ),
}
"""The testbeds of this package."""


def table() -> dict[str, Kind]:
    """The testbeds there are, with those of other packages."""
    from cwndlab.experiment import extensions

    return {**extensions.load("cwndlab.testbeds"), **TABLE}


def names() -> list[str]:
    """The names of all testbeds, cwndlab's own first."""
    return [*TABLE, *(name for name in table() if name not in TABLE)]


def kind(name: str) -> Kind:
    """A testbed's row of the table; raises InputError where there is none."""
    if not isinstance(name, str) or "/" in name:
        # In Python the testbed is the first argument of `run`.
        there = ", ".join(names())
        raise InputError(
            f"testbed: found {shown(str(name))}; expected one of {there} (where results go is called out)"
        )
    known = TABLE if name in TABLE else table()
    if name not in known:
        hint = nearest(name, names()) or f"there is {', '.join(names())}"
        raise InputError(f"testbed: {shown(name)} does not exist; {hint}")
    return known[name]


def facts(name: str) -> Facts:
    """Return the properties of a testbed's runs; for a name that is not known, as of other tools' results,
    those of real runs.
    """
    known = TABLE if name in TABLE else table()
    return known[name].facts if name in known else REAL


def find(name: str, lab: Path | None = None, modules: Sequence[Module] = ()) -> Testbed:
    """The testbed of that name, with the machines of a lab file (of `kernel`: a kernel, by its folder) and
    congestion controls from outside; raises InputError when there is none, or it takes no such."""
    found = kind(name)
    if modules and not found.takes_modules:
        raise InputError(
            f"{modules[0].option}: testbed {name} runs no code from outside; testbed {MODEL} does"
        )
    if not found.is_here:
        raise InputError(f"testbed {name} needs {_systems(found)}; this is {sys.platform}")
    bed: Testbed = resolve_name(found.make)(lab, modules)
    return bed


def support(name: str, lab: Path | None = None) -> Support:
    """Support of a testbed for experiment files, on the machines of a lab file. Raises InputError for a
    testbed that does not exist.
    """
    found = kind(name)
    plain: Support = resolve_name(found.support)(lab)
    return replace(plain, runs_kernel=found.facts.runs_kernel, draws_by_chance=found.facts.draws_by_chance)


def commands(name: str, lab: Path) -> Iterable[str]:
    """Yield the commands that a lab file has run on its machines, and the links that these make, a
    line each.
    """
    called = kind(name).commands
    lines: Iterable[str] = () if called is None else resolve_name(called)(lab)
    return lines


def _systems(kind: Kind) -> str:
    return " or ".join(system.capitalize() for system in kind.systems)
