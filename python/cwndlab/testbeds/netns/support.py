"""All that testbed netns carries out of an experiment file."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.schema import Spec
from cwndlab.experiment.support import LiveFlow, Support
from cwndlab.testbeds.keys import EXPERIMENT, PATH, keys
from cwndlab.testbeds.live import section
from cwndlab.testbeds.netns import kernel_subset, lab_file
from cwndlab.testbeds.netns.section import SECTION, NetnsKeys


def _catalogue() -> Catalogue:
    from cwndlab.testbeds.netns import machine  # asks the kernel, which has to be Linux

    return machine.known()


def _live(lab: Path | None, spec: Spec, flows: Sequence[LiveFlow]) -> dict[str, Any]:
    assert isinstance(spec, NetnsKeys)  # as the schema says
    own = None if lab is None else lab_file.read(lab)
    programs, loggers = ({}, {}) if own is None else (own.programs, own.loggers)
    return {"emulator": spec.emulator or "own", **section.live(spec, flows, SECTION, programs, loggers)}


SUPPORT = Support(
    SECTION,
    {
        "experiment": EXPERIMENT.union(NetnsKeys.known_keys(), ["loggers"]),
        "host": keys("stack cc sndbuf rcvbuf mss family ecn sysctl nic egress ingress count"),
        "nic": keys("rate tx_queue tso gro coalesce veth"),
        "coalesce": keys("gro_flush_timeout napi_defer_hard_irqs"),
        **PATH,
    },
    only_off={"nic": keys("lro")},
    catalogue=_catalogue,
    live=partial(_live, None),
    subset=kernel_subset.take,
)
"""Stacks, congestion controls and sysctls are those of this host's kernel; queue disciplines, losses and apps
those of the engine."""


def support(lab: Path | None) -> Support:
    """Support of testbed netns, with what a lab file adds."""
    return SUPPORT if lab is None else replace(SUPPORT, live=partial(_live, lab))
