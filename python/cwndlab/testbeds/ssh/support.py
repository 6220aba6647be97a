"""All that testbed ssh carries out of an experiment file."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cwndlab.errors import InputError
from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.schema import Spec
from cwndlab.experiment.support import LiveFlow, Support
from cwndlab.testbeds.keys import EXPERIMENT, PATH, keys
from cwndlab.testbeds.live import section
from cwndlab.testbeds.ssh import lab_file

NAME = "ssh"
"""The word for `--testbed`."""

NO_LAB = "testbed ssh needs --lab FILE (cwndlab lab init writes one)"


def support(lab: Path | None) -> Support:
    """Support of testbed ssh on the machines of a lab file."""
    return Support(
        NAME,
        {
            "experiment": EXPERIMENT.union(["loggers"]),
            "host": keys("stack cc sndbuf rcvbuf family ecn sysctl nic egress ingress"),
            "nic": keys("qdisc tso gro lro"),
            **PATH,
        },
        only_off={},
        catalogue=partial(_catalogue, lab),
        live=partial(_live, lab),
    )


def _catalogue(lab: Path | None) -> Catalogue:
    if lab is None:
        raise InputError(NO_LAB)
    from cwndlab.testbeds.ssh import stacks  # asks the machines
    from cwndlab.testbeds.ssh.machines import site

    return stacks.known(own.catalogue for own in site.of(lab).driven().values())


def _live(lab: Path | None, spec: Spec, flows: Sequence[LiveFlow]) -> dict[str, Any]:
    own = None if lab is None else lab_file.read(lab)
    programs, loggers = ({}, {}) if own is None else (own.programs, own.loggers)
    return {"emulator": "machines", **section.live(spec, flows, NAME, programs, loggers)}
