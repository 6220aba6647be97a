"""The settings of this machine and of a run's namespaces, before and after the run."""

import gzip
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cwndlab.testbeds.live import host_state
from cwndlab.testbeds.live.host_state import Change
from cwndlab.testbeds.live.this_machine import ThisMachine
from cwndlab.testbeds.netns.namespaces import inside
from cwndlab.testbeds.netns.network import Network

FILE = "hosts.json.gz"
"""What is kept of a run: the settings before it, and what changed; some 8 KB."""

EMULATOR = "(emulator)"
"""Stands for the namespace outside all hosts and nodes, whose names have no parentheses."""


class State:
    """What the machine and the namespaces of a run are set to now, to be held against what they are later."""

    def __init__(self, network: Network, *, own_changes: bool) -> None:
        """Read everything. `own_changes`: the run itself changes queue disciplines as it goes."""
        self._network, self._own_changes, self._reach = network, own_changes, ThisMachine()
        self._namespaces, self._machine = self._read()

    @property
    def facts(self) -> dict[str, Any]:
        """The machine in short: its system, processors, clock and the parameters of TCP's modules."""
        return {name: self._machine[name] for name in ("uname", "cpu", "clock", "modules")}

    def changes(self) -> list[Change]:
        """What is set otherwise now."""
        namespaces, machine = self._read()
        found = host_state.changes("machine", self._machine, machine, self._reach)
        for node, before in self._namespaces.items():
            changed = partial(host_state.changes, node, before, namespaces[node], self._reach)
            found += inside(self._names()[node], changed)
        return [change for change in found if not (self._own_changes and change.what.endswith(" qdiscs"))]

    def document(self, changed: Sequence[Change]) -> bytes:
        """The file of everything that is kept: JSON, compressed."""
        differences = [
            {"where": each.where, "what": each.what, "before": each.before, "after": each.after}
            for each in changed
        ]
        kept = {"machine": self._machine, **host_state.compact(self._namespaces), "changed": differences}
        return gzip.compress(json.dumps(kept, separators=(",", ":")).encode(), mtime=0)

    def _names(self) -> dict[str, str]:
        outside = {} if self._network.emulator is None else {EMULATOR: self._network.emulator}
        return {**self._network.namespaces, **outside}

    def _read(self) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        read = partial(host_state.namespace, self._reach)
        namespaces = {node: inside(name, read) for node, name in self._names().items()}
        known: Mapping[str, str] = next(iter(namespaces.values()))["sysctls"]
        return namespaces, host_state.machine(self._reach, known)
