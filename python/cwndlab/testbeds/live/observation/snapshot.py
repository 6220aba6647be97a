"""The settings of the machines and hosts of a run, before and after it."""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cwndlab.testbeds.live.lab import LiveHost
from cwndlab.testbeds.live.observation import host_state
from cwndlab.testbeds.live.observation.host_state import Change

FILE = "hosts.json.gz"
"""File of a run with the settings before it, and what changed; some 8 KB."""
ALONE = "machine"
"""The name of a machine that is around all hosts."""
FACTS = ("uname", "kernel", "cpu", "clock", "modules")
"""Keys of a machine that are kept with the run's facts."""


class Snapshot:
    """Settings of machines and the places on them now, to be compared with later ones."""

    def __init__(
        self, places: Mapping[str, LiveHost], machines: Mapping[str, LiveHost], *, own_changes: bool
    ) -> None:
        """Read everything. `own_changes`: the run itself changes queue disciplines as it goes."""
        self._places, self._around, self._own_changes = places, machines, own_changes
        self._settings, self._machines = self._read()

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of each machine in short: system, processors, clock and parameters of TCP's modules.

        Of the one that is `machine`, these by themselves.
        """
        facts = {
            name: {key: machine[key] for key in FACTS if key in machine}
            for name, machine in self._machines.items()
        }
        return facts.get(ALONE, facts)

    def changes(self) -> list[Change]:
        """List the settings that are different now."""
        settings, machines = self._read()
        found: list[Change] = []
        for name, machine in self._machines.items():
            settable = _settable(self._around[name])
            found += host_state.changes(name, machine, machines[name], settable)
        for place, before in self._settings.items():
            settable = _settable(self._places[place])
            found += host_state.changes(place, before, settings[place], settable)
        return [change for change in found if not (self._own_changes and change.what.endswith(" qdiscs"))]

    def document(self, changed: Sequence[Change]) -> bytes:
        """The file of everything that is kept: JSON, compressed."""
        differences = [
            {"where": each.where, "what": each.what, "before": each.before, "after": each.after}
            for each in changed
        ]
        machines: dict[str, Any] = (
            {ALONE: self._machines[ALONE]} if ALONE in self._machines else {"machines": self._machines}
        )
        kept = {**machines, **host_state.compact(self._settings), "changed": differences}
        return gzip.compress(json.dumps(kept, separators=(",", ":")).encode(), mtime=0)

    def _read(self) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        settings = {place: each.system.settings(each.reach) for place, each in self._places.items()}
        some: Mapping[str, str] = next(iter(settings.values()))["sysctls"]
        machines = {
            name: each.system.machine(each.reach, settings[name]["sysctls"] if name in settings else some)
            for name, each in self._around.items()
        }
        return settings, machines


def _settable(place: LiveHost) -> Callable[[str], bool]:
    return partial(place.system.is_setting, place.reach)
