"""The machines that carry an experiment's packets, behind one protocol."""

import sys
from typing import TYPE_CHECKING

from cwndlab.errors import InputError, nearest, shown

if TYPE_CHECKING:
    from cwndlab.testbeds.base import Testbed

NAMES = ("sim", "netns")
"""The testbeds there are."""

LATER = ("ssh",)
"""Testbeds that the experiment file knows and this version does not have."""


def find(name: str) -> "Testbed":
    """The testbed of that name; raises InputError when there is none."""
    if name == "sim":
        from cwndlab.testbeds.sim import Sim  # the native engine, which `cwndlab --help` need not load

        return Sim()
    if name == "netns" and sys.platform != "linux":
        raise InputError(f"testbed netns needs Linux; this is {sys.platform}")
    if name == "netns":
        from cwndlab.testbeds.netns.testbed import Netns

        return Netns()
    if name in LATER:
        raise InputError(f"testbed {name} is not available yet; there is {', '.join(NAMES)}")
    hint = nearest(name, (*NAMES, *LATER)) or f"there is {', '.join(NAMES)}"
    raise InputError(f"testbed: {shown(name)} does not exist; {hint}")
