"""The machines that carry an experiment's packets, behind one protocol."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cwndlab.errors import InputError, nearest, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

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

VIRTUAL = (MODEL, GUEST)
"""Those whose time is virtual: nothing but the Scenario, and what carries it out, decides a run."""

NAMES = (MODEL, KERNEL, DISTANT, GUEST)
"""The testbeds there are."""


def is_here(name: str) -> bool:
    """Whether a testbed can be found on this system, ready or not."""
    return name not in (KERNEL, GUEST) or sys.platform == "linux"


def find(name: str, lab: Path | None = None, modules: "Sequence[Module]" = ()) -> "Testbed":
    """The testbed of that name, with the machines of a lab file (of `kernel`: a kernel, by its folder) and
    congestion controls from outside; raises InputError when there is none, or it takes no such."""
    if modules and name != MODEL:
        raise InputError(
            f"--cc: testbed {name} runs no congestion control from outside; testbed {MODEL} does"
        )
    if name == MODEL:
        from cwndlab.testbeds.sim.testbed import (
            Sim,  # the native engine, which `cwndlab --help` need not load
        )

        return Sim(modules)
    if not is_here(name):
        raise InputError(f"testbed {name} needs Linux; this is {sys.platform}")
    if name == KERNEL:
        from cwndlab.testbeds.netns.testbed import Netns

        return Netns(lab)
    if name == DISTANT:
        from cwndlab.testbeds.ssh.testbed import Ssh

        return Ssh(lab)
    if name == GUEST:
        from cwndlab.testbeds.kernel.testbed import KernelGuest

        return KernelGuest(lab)
    hint = nearest(name, NAMES) or f"there is {', '.join(NAMES)}"
    raise InputError(f"testbed: {shown(name)} does not exist; {hint}")
