"""What the engine knows (stacks, congestion controls, sysctls, queues, losses, apps), as typed data."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass

from cwndlab.contract import catalogue as contract

PARTS = ("min", "default", "max")
"""Parts of a sysctl of three values, in the order of its text."""

DATAGRAMS = frozenset({"udp-cbr", "voip", "ping"})
"""Apps without a connection: their flows have no congestion control, and share nothing by it."""


@dataclass(frozen=True, slots=True)
class Sysctl:
    """A sysctl of a stack: its default and bounds, in the unit that ``about`` names."""

    name: str
    default: int
    min: int
    max: int
    about: str


@dataclass(frozen=True, slots=True)
class Machine:
    """What a real machine has otherwise than the model that the simulator takes for the same file.

    ``model`` is that model's name, ``cc`` the machine's own default congestion control, which no experiment
    means, and ``sysctls`` the model's defaults of those that differ.
    """

    model: str
    cc: str
    sysctls: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Stack:
    """A system and its TCP: ``inferred`` if no recording stands behind it."""

    name: str
    family: str
    inferred: bool
    default_cc: str
    cc: tuple[str, ...]
    cc_alias: Mapping[str, str]
    hz: int
    ecn: str
    sysctls: Mapping[str, Sysctl]
    machine: Machine | None = None
    """Of a real one; None of a model."""

    def real_name(self, name: str) -> str:
        """Return the real name of a sysctl: that of three values without ``.min``, ``.default``, ``.max``."""
        base, _, part = name.rpartition(".")
        return base if part in PARTS and f"{base}.{PARTS[0]}" in self.sysctls else name

    def settable(self) -> list[str]:
        """Return every name a file may set: real names, and the parts of those of three values."""
        return list(dict.fromkeys([*map(self.real_name, self.sysctls), *self.sysctls]))


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a queue discipline or an app: name as in the experiment file, unit of its value.

    ``default`` is in that unit, for a ``choice`` a place in ``choices``; None where there is none: the
    parameter may be absent, follows from others, or must be given.
    """

    name: str
    unit: str
    default: int | bool | None
    choices: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        """Name of the parameter in a Scenario: the unit is added where the name does not say it."""
        plain = self.unit in {"bool", "count", "choice"} or self.name.endswith(self.unit)
        return self.name if plain else f"{self.name}_{self.unit}"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything the engine knows, by name."""

    stacks: Mapping[str, Stack]
    newest: Mapping[str, str]
    queues: Mapping[str, tuple[Param, ...]]
    losses: tuple[str, ...]
    apps: Mapping[str, tuple[Param, ...]]
    load_scenarios: tuple[tuple[int, int], ...]
    """Uploads and downloads of each scenario of the loadlatency tool, in its order, which counts from 1."""

    def stack_names(self) -> list[str]:
        """Return every name that ``stack`` accepts: systems by version, families for their newest."""
        return [*self.stacks, *self.newest]

    def stack(self, name: str) -> Stack | None:
        """Return the stack of that name, the newest of a family, or None."""
        return self.stacks.get(self.newest.get(name, name))


@functools.cache
def catalogue() -> Catalogue:
    """Return the engine's catalogue, asked for once."""
    from cwndlab import _native

    return parse(_native.catalogue())


def parse(text: str) -> Catalogue:
    """Return the catalogue of the JSON text that docs/architecture.md defines."""
    data: contract.Catalogue = json.loads(text)
    return Catalogue(
        stacks={entry["name"]: _stack(entry) for entry in data["stacks"]},
        newest=data["newest"],
        queues={entry["kind"]: _params(entry) for entry in data["queues"]},
        losses=tuple(data["losses"]),
        apps={entry["kind"]: _params(entry) for entry in data["apps"]},
        load_scenarios=tuple((uploads, downloads) for uploads, downloads in data["load_scenarios"]),
    )


def _stack(entry: contract.Stack) -> Stack:
    return Stack(
        name=entry["name"],
        family=entry["family"],
        inferred=entry["inferred"],
        default_cc=entry["default_cc"],
        cc=tuple(entry["cc"]),
        cc_alias=entry["cc_alias"],
        hz=entry["hz"],
        ecn=entry["ecn"],
        sysctls={sysctl["name"]: Sysctl(**sysctl) for sysctl in entry["sysctls"]},
    )


def _params(entry: contract.Kind) -> tuple[Param, ...]:
    return tuple(
        Param(param["name"], param["unit"], param.get("default"), tuple(param.get("choices", ())))
        for param in entry["params"]
    )
