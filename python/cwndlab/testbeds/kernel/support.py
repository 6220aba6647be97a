"""All that testbed kernel carries out of an experiment file."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cwndlab.errors import InputError
from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.locate import Misplaced
from cwndlab.experiment.schema import Spec
from cwndlab.experiment.support import LiveFlow, Support
from cwndlab.experiment.units import BadValue
from cwndlab.testbeds.kernel import linux_cells
from cwndlab.testbeds.keys import EXPERIMENT, PATH, keys
from cwndlab.testbeds.live.linux.kernel import FAMILY
from cwndlab.testbeds.live.traffic import tools
from cwndlab.testbeds.netns.section import NetnsKeys

NAME = "kernel"
"""The word for `--testbed`."""
NO_KERNEL = "testbed kernel needs --kernel TREE|PROGRAM|NAME (cwndlab kernel list; cwndlab help kernel)"
LOGGERS = ["tcp_info", "queue"]
"""Loggers that this testbed has."""
APPS = ("loadlatency",)
"""Applications that are not carried out."""


def support(kernel: Path | None) -> Support:
    """Support of testbed kernel, with the kernel of a folder."""
    return Support(
        NAME,
        {
            "experiment": EXPERIMENT.union(NetnsKeys.known_keys(), ["loggers"]),
            "host": keys("stack cc sndbuf rcvbuf mss family ecn hz sysctl nic count"),
            "nic": keys("tx_queue qdisc tso gro veth"),
            **PATH,
            **{section: PATH[section].union(["delay_first"]) for section in ("link", "cable")},
        },
        only_off={"nic": keys("lro")},
        catalogue=partial(_catalogue, kernel),
        missing_cc="this kernel was built without tcp_{}, and loads no modules (cwndlab kernel config)",
        live=_live,
        subset=linux_cells.take,
        fits_path=True,
    )


def _catalogue(kernel: Path | None) -> Catalogue:
    if kernel is None:
        raise InputError(NO_KERNEL)
    from cwndlab.testbeds.kernel import inventory, store  # asks a guest

    return inventory.known(store.read(kernel))


def _live(spec: Spec, flows: Sequence[LiveFlow]) -> dict[str, Any]:
    """Have cwndlab's own applications carry out every flow: others would have to be in the guest. Raises
    `Misplaced` where hosts are to have different kernels.
    """
    named = {name: host.stack for name, host in spec.hosts.items() if host.stack != FAMILY}
    first = next(iter(named.values()), None)
    for name, stack in named.items():
        if stack != first:
            found = f"{stack!r} beside {first!r}"
            raise Misplaced(
                ("hosts", name, "stack"), BadValue(found, "one kernel for all hosts: a guest has one")
            )
    told = {str(flow["name"]): {"tool": "own", "report_ns": tools.REPORT_NS} for _, flow in flows}
    return {"emulator": NAME, "loggers": LOGGERS, "flows": told}
