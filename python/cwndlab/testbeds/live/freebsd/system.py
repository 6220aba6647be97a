"""Hosts that run FreeBSD: sysctls, modules, congestion controls, function blocks, offloads and settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from cwndlab.contract.scenario import Flow, Host
from cwndlab.experiment.scenario.queries import is_datagrams
from cwndlab.testbeds.live.addresses import Addresses
from cwndlab.testbeds.live.freebsd import commands, kernel, rules
from cwndlab.testbeds.live.freebsd.kernel import Kernel
from cwndlab.testbeds.live.freebsd.shell import ByShell
from cwndlab.testbeds.live.lab import Reach

BUFFERS = "kern.ipc.maxsockbuf"
"""The largest socket buffer, of which FreeBSD gives 8/9 to data (sb_max_adj, kern/uipc_sockbuf.c): a larger
one is refused."""

_ECN = {"off": "0", "on": "1", "accept": "2"}
"""net.inet.tcp.ecn.enable (tcp(4))."""


class FreeBSD:
    """Hosts of one kernel."""

    def __init__(self, here: Kernel) -> None:
        """Hosts of this kernel."""
        self._kernel = here

    def sysctls(self, host: Host, flows: Iterable[Flow]) -> dict[str, str]:
        """A host's sysctls as text, in the order they are set."""
        own = list(flows)
        values = {**kernel.host(self._kernel.sysctls), kernel.ECN: _ECN[host["ecn"]]}
        first = _first_cc(host, own)
        if first is not None:
            values[kernel.CHOSEN] = first
        if kernel.FUNCTIONS in self._kernel.sysctls:
            values[kernel.FUNCTIONS] = kernel.block(host["stack"])
        values |= self._buffers(host, own)
        return values | {name: str(value) for name, value in host["sysctl"].items()}

    def load(self, reach: Reach, host: Host, flows: Iterable[Flow]) -> None:
        """Load the modules of the host's congestion controls and of its function block.

        They stay: a module that is loaded does nothing by itself, and one that connections still use cannot
        go.
        """
        own = list(flows)
        used = _used(host, own) | {cc for cc in (_first_cc(host, own),) if cc is not None}
        block = kernel.block(host["stack"])
        modules = [f"cc_{cc}" for cc in sorted(used) if cc not in self._kernel.loaded]
        modules += [f"tcp_{block}"] if block not in self._kernel.loaded_functions else []
        for module in modules:
            reach.run(commands.load(module))

    def configure(self, reach: Reach, sysctls: Mapping[str, str]) -> None:
        """Set sysctls of a host, in order; raises ValueError, one line, where one is refused."""
        assert isinstance(reach, ByShell)  # of a FreeBSD machine
        for name, value in sysctls.items():
            try:
                reach.set(name, value)
            except OSError as error:
                raise ValueError(f"this kernel refuses {name} = {value} ({error})") from None

    def set_interface(self, reach: Reach, interface: str, nic: Mapping[str, Any]) -> None:
        """Set which packets an interface cuts and merges; raises OSError."""
        reach.set_offloads(interface, tso=nic["tso"], gro=nic["lro"])

    def set_rules(self, reach: Reach, host: Host, addresses: Addresses) -> None:
        """Put the rules of a host's `ingress.after_gro` into place; raises OSError with ipfw's words."""
        assert isinstance(reach, ByShell)  # of a FreeBSD machine
        for change in rules.changes(reach, host, addresses):
            reach.run(change.argv, undo=change.undo)

    def settings(self, reach: Reach) -> dict[str, Any]:
        """Settings of a host: `sysctls` by name, and `interfaces`."""
        return {
            "sysctls": kernel.settings(reach.run(commands.SETTINGS)),
            "interfaces": reach.interfaces(),
        }

    def machine(self, reach: Reach, namespaced: Mapping[str, str]) -> dict[str, Any]:
        """Facts of a machine: kernel, boot environment, processors, clock, modules."""
        told = kernel.parts(reach.run(["sh", "-c", commands.MACHINE]))
        return {
            "uname": reach.uname(),
            "cpu": {
                "model": told["hw.model"],
                "online": told["hw.ncpu"],
                "frequency_mhz": float(told["dev.cpu.0.freq"]) if told["dev.cpu.0.freq"] else None,
            },
            "clock": {**reach.clock(), "source": told["kern.timecounter.hardware"]},
            "kernel": {
                "hz": told["kern.hz"],
                "file": told["kern.bootfile"],
                "boot_environment": boot_environment(told["boot environment"]),
            },
            "modules": dict.fromkeys(modules(told["modules"]), "loaded"),
            "sysctls": {},
        }

    def is_setting(self, reach: Reach, sysctl: str) -> bool:
        """All that are read can be set."""
        return True

    def _buffers(self, host: Host, flows: Iterable[Flow]) -> dict[str, str]:
        """The largest buffer, raised so that what flows ask for fits."""
        asked = [
            size
            for flow in flows
            for end, size in ((flow["from"], flow["sndbuf"]), (flow["to"], flow["rcvbuf"]))
            if end == host["name"] and size is not None
        ]
        needed = -(-max(asked, default=0) * 9 // 8)
        return {BUFFERS: str(needed)} if needed > int(self._kernel.sysctls.get(BUFFERS, "0")) else {}


def _used(host: Host, flows: Iterable[Flow]) -> set[str]:
    return {flow["cc"] for flow in flows if flow["from"] == host["name"] and not is_datagrams(flow)}


def _first_cc(host: Host, flows: Iterable[Flow]) -> str | None:
    """The congestion control with which connections of a host open: that of all flows it sends; NewReno where
    they differ, which every FreeBSD has, if only as a module; the machine's own where it sends none."""
    used = _used(host, flows)
    return used.pop() if len(used) == 1 else "newreno" if used else None


def modules(text: str) -> list[str]:
    """The files that `kldstat` lists."""
    return re.findall(r"^\s*\d+\s+\d+\s+0x[0-9a-f]+\s+\w+\s+(\S+)$", text, re.MULTILINE)


def boot_environment(text: str) -> str | None:
    """The one that runs now (`N`), of `bectl list -H`. None where there are none."""
    for line in text.splitlines():
        name, active, *_ = [*line.split("\t"), ""]
        if "N" in active:
            return name
    return None
