"""The changes of settings of hosts and machines during a run, apart from the kernel's counters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

READINGS = ("frequency_mhz", "offset_ns", "frequency_ppm", "max_error_us", "estimated_error_us")
"""Facts of a machine that move by themselves: their changes say nothing."""

MAX_WARNINGS = 5
"""Changes that get a warning each."""


@dataclass(frozen=True)
class Change:
    """A setting that was another after the run than before."""

    where: str
    """The namespace's node, or `machine`."""
    what: str
    before: Any
    after: Any

    def __str__(self) -> str:
        """A warning: what changed, from what to what."""
        whose = "this machine" if self.where == "machine" else self.where
        values = f"{_shown(self.before)} before, {_shown(self.after)} after"
        return f"{self.what} of {whose} changed during the run: {values}"


def compact(namespaces: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of namespaces with what is the same in all said once: `common` sysctls, and each one's."""
    every = [state["sysctls"] for state in namespaces.values()]
    common = {
        name: text
        for name, text in (every[0] if every else {}).items()
        if all(sysctls.get(name) == text for sysctls in every)
    }
    own = {
        node: {**state, "sysctls": {n: text for n, text in state["sysctls"].items() if n not in common}}
        for node, state in namespaces.items()
    }
    return {"common": common, "namespaces": own}


def changes(
    where: str, before: Mapping[str, Any], after: Mapping[str, Any], is_setting: Callable[[str], bool]
) -> list[Change]:
    """List the settings that differ from before, without sysctls of which `is_setting` says no: these are
    counters.
    """
    found = []
    for what, old, new in _differing("", before, after):
        name = what.removeprefix("sysctls ")
        if name == what or is_setting(name):
            found.append(Change(where, name, old, new))
    return found


def warnings(found: Sequence[Change], file: str) -> list[str]:
    """A sentence for each change; of many, the first ones and where the others are."""
    said = [str(change) for change in found[:MAX_WARNINGS]]
    if len(found) > MAX_WARNINGS:
        said.append(f"{len(found) - MAX_WARNINGS} more settings changed during the run: {file} has them")
    return said


def _differing(
    prefix: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old == new or name in READINGS:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differing(f"{prefix}{name} ", old, new)
        else:
            yield f"{prefix}{name}", old, new


def _shown(value: Any) -> str:
    return "not there" if value is None else repr(value)
