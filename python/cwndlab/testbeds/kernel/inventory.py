"""The features of a kernel, asked of a guest that is switched on for that, once, and kept beside the
kernel.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cwndlab.errors import InputError
from cwndlab.experiment.catalogue import Catalogue, catalogue
from cwndlab.testbeds.kernel import guest, store
from cwndlab.testbeds.live.linux import kernel as linux

FILE = "inventory.json"
MEMORY_MB = 8192
"""Memory of the guest that is asked: of a machine whose memory does not limit TCP's buffers. The kernel sets
their maxima by it when it starts."""
BY_MEMORY = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
"""Sysctls of a namespace that follow from the memory."""
GLOBAL_BY_MEMORY = ("net.ipv4.tcp_mem", "net.ipv4.udp_mem")


@dataclass(frozen=True)
class Inventory:
    """Features of a kernel."""

    kernel: linux.Kernel
    """Kernel as seen from one of its hosts; its sysctls include those that all hosts share."""
    shared: Mapping[str, str]
    """Sysctls that all hosts share, with their values."""
    config: frozenset[str]
    """Lines of its configuration."""

    def has_queue(self, kind: str) -> bool:
        """Whether it has a queue discipline; FIFOs every kernel has."""
        return kind in ("pfifo", "bfifo") or f"CONFIG_NET_SCH_{kind.upper()}=y" in self.config


@functools.cache
def of(kernel: store.Kernel) -> Inventory:
    """Return a kernel's features. Raises InputError where its guest does not answer."""
    store.check(kernel)
    kept = kernel.folder / FILE
    try:
        found = json.loads(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = _asked(kernel)
        kept.write_text(json.dumps(found), encoding="utf-8")
    shared = {name: value for name, value in found["global"].items() if name not in found["sysctls"]}
    here = linux.Kernel(
        release=kernel.release,
        congestion_controls=tuple(found["congestion_controls"].split()),
        # Every one may be chosen: the agent writes as root of the whole machine.
        allowed_congestion_controls=tuple(found["congestion_controls"].split()),
        sysctls=dict(sorted({**shared, **found["sysctls"]}.items())),
    )
    config = (kernel.folder / "config").read_text(encoding="utf-8").splitlines()
    return Inventory(here, shared, frozenset(config))


def known(kernel: store.Kernel) -> Catalogue:
    """The catalogue of an experiment on a kernel; every name of a Linux stands for it."""
    found = linux.known(of(kernel).kernel, kernel.hz)
    (name,) = found.stacks
    models = [stack.name for stack in catalogue().stacks.values() if stack.family == linux.FAMILY]
    stack = found.stacks[name]
    if stack.machine is not None:
        stack = replace(stack, machine=replace(stack.machine, called="this kernel"))
    return replace(found, stacks={name: stack}, newest={**found.newest, **dict.fromkeys(models, name)})


def _asked(kernel: store.Kernel) -> Mapping[str, object]:
    try:
        left = guest.boot(kernel, {"inventory": True}, seed=0, memory_mb=MEMORY_MB)
        found: Mapping[str, object] = json.loads(left[FILE])
    except (ValueError, KeyError):
        raise InputError(f"--kernel {kernel.name}: its guest does not say what it has") from None
    return found
