"""The settings of the machines and hosts of a run, before and after it."""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cwndlab.testbeds.live import host_state
from cwndlab.testbeds.live.host_state import Change
from cwndlab.testbeds.live.lab import HostSystem, Reach

FILE = "hosts.json.gz"
"""What is kept of a run: the settings before it, and what changed; some 8 KB."""


class Snapshot:
    """What a machine and the places on it are set to now, to be held against what they are later."""

    def __init__(
        self, system: HostSystem, places: Mapping[str, Reach], machine: Reach, *, own_changes: bool
    ) -> None:
        """Read everything. `own_changes`: the run itself changes queue disciplines as it goes."""
        self._system, self._places, self._reach, self._own_changes = system, places, machine, own_changes
        self._settings, self._machine = self._read()

    @property
    def facts(self) -> dict[str, Any]:
        """The machine in short: its system, processors, clock and the parameters of TCP's modules."""
        return {name: self._machine[name] for name in ("uname", "cpu", "clock", "modules")}

    def changes(self) -> list[Change]:
        """What is set otherwise now."""
        settings, machine = self._read()
        found = host_state.changes("machine", self._machine, machine, self._settable(self._reach))
        for place, before in self._settings.items():
            settable = self._settable(self._places[place])
            found += host_state.changes(place, before, settings[place], settable)
        return [change for change in found if not (self._own_changes and change.what.endswith(" qdiscs"))]

    def document(self, changed: Sequence[Change]) -> bytes:
        """The file of everything that is kept: JSON, compressed."""
        differences = [
            {"where": each.where, "what": each.what, "before": each.before, "after": each.after}
            for each in changed
        ]
        kept = {"machine": self._machine, **host_state.compact(self._settings), "changed": differences}
        return gzip.compress(json.dumps(kept, separators=(",", ":")).encode(), mtime=0)

    def _settable(self, reach: Reach) -> Callable[[str], bool]:
        return partial(self._system.is_setting, reach)

    def _read(self) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        settings = {place: self._system.settings(reach) for place, reach in self._places.items()}
        known: Mapping[str, str] = next(iter(settings.values()))["sysctls"]
        return settings, self._system.machine(self._reach, known)
