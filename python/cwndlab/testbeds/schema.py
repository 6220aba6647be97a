"""The schema of experiment files with the sections that testbeds bring, and what each of them supports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from cwndlab.experiment import json_schema, schema
from cwndlab.experiment.schema import Section
from cwndlab.experiment.support import Support
from cwndlab.testbeds import DISTANT, GUEST, KERNEL
from cwndlab.testbeds.kernel.support import support as kernel
from cwndlab.testbeds.netns.section import SECTION, KernelSubset, NetnsKeys
from cwndlab.testbeds.netns.support import SUPPORT as NETNS
from cwndlab.testbeds.netns.support import support as netns
from cwndlab.testbeds.sim.support import SUPPORT as SIM
from cwndlab.testbeds.ssh.support import support as ssh

SUPPORTS: Mapping[str, Support] = {
    support.testbed: support for support in (SIM, NETNS, ssh(None), kernel(None))
}
"""What each testbed carries out, of no lab in particular."""


def of_lab(testbed: str, lab: Path | None) -> Support:
    """What a testbed carries out on the machines of a lab file, or on a kernel in its folder."""
    if testbed == KERNEL:
        return netns(lab)
    if testbed == GUEST:
        return kernel(lab)
    return ssh(lab) if testbed == DISTANT else SUPPORTS[testbed]


class Spec(NetnsKeys, schema.Spec):
    """An experiment file without its sweep."""

    section: ClassVar[str] = "experiment"
    of_testbeds: ClassVar[dict[str, type[Section]]] = {SECTION: KernelSubset}


def for_editors() -> dict[str, Any]:
    """The JSON Schema of experiment files."""
    return json_schema.json_schema(Spec, SUPPORTS.values())
