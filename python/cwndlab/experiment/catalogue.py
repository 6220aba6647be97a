"""The engine's stacks, congestion controls, sysctls, queues, losses and apps, as typed data."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from cwndlab.contract import catalogue as contract

PARTS = ("min", "default", "max")
"""Parts of a sysctl of three values, in the order of its text."""

DATAGRAMS = frozenset({"udp-cbr", "udp-vbr", "voip", "media", "ping"})
"""Apps without a connection: their flows have no congestion control of a stack, and share nothing by it."""

MODELLED = frozenset({"media"})
"""Apps that only the simulator carries out."""


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
    """Differences of a real machine from the model that the simulator takes for the same file.

    ``model`` is that model's name where the file names none, ``cc`` the machine's own default congestion
    control, which no experiment means.
    """

    model: str
    cc: str
    called: str = "this machine"
    """Name of the machine in a sentence."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A system and its TCP, or a guest: ``inferred`` if no recording stands behind a model."""

    name: str
    family: str
    inferred: bool
    default_cc: str
    cc: tuple[str, ...]
    cc_alias: Mapping[str, str]
    hz: int
    ecn: str
    sysctls: Mapping[str, Sysctl]
    accurate_ecn: bool = False
    """Whether it has Accurate ECN (RFC 9768)."""
    guest: bool = False
    """Whether it is somebody else's transport protocol, carried out in virtual time by the engine alone."""
    packets: bool = False
    """Whether it is a guest that exchanges packets of TCP with any other stack."""
    any_sysctl: bool = False
    """Whether the stack alone knows its sysctls, which are whole numbers."""
    machine: Machine | None = None
    """Machine of a real catalogue. None for that of a model."""

    def real_name(self, name: str) -> str:
        """Return the real name of a sysctl: that of three values without ``.min``, ``.default``, ``.max``."""
        base, _, part = name.rpartition(".")
        return base if part in PARTS and f"{base}.{PARTS[0]}" in self.sysctls else name

    def settable(self) -> list[str]:
        """Return every name a file may set: real names, and the parts of those of three values."""
        return list(dict.fromkeys([*map(self.real_name, self.sysctls), *self.sysctls]))


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a queue discipline or an app, as `cwndlab.contract.catalogue.Param` describes it."""

    name: str
    field: str
    unit: contract.Unit
    min: int
    max: int
    default: int | None
    otherwise: str
    required: bool
    choices: Sequence[str]
    bdp: bool
    bare: bool
    carried: contract.Carried
    because: str
    about: str

    @property
    def scale(self) -> int:
        """Number of the parameter's units that make 1, for a number without a unit in the experiment file."""
        return {"milli": 10**3, "nano": 10**9}.get(self.unit, 1)

    @property
    def reason(self) -> str:
        """Reason for the parameter's range, as the end of a message. Empty where none is known."""
        return f" ({self.because})" if self.because else ""

    def resolved(self, given: object) -> Any:
        """Return what a file says, or the default, as the Scenario holds it."""
        if isinstance(given, Fraction):
            return int(given * self.scale)
        if given is not None or self.default is None:
            return given
        if self.unit == "bool":
            return bool(self.default)
        return self.choices[self.default] if self.unit == "choice" else self.default


@dataclass(frozen=True, slots=True)
class Kind:
    """A queue discipline or an app: its name, a sentence, and its parameters."""

    kind: str
    about: str
    params: tuple[Param, ...]

    def known(self) -> tuple[Param, ...]:
        """Return the parameters that somebody carries out: the engine, or live testbeds."""
        return tuple(param for param in self.params if param.carried != "nobody")

    def param(self, name: str) -> Param:
        """Return the parameter of that name."""
        return next(param for param in self.params if param.name == name)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Stacks, congestion controls and all else that the engine knows, by name."""

    stacks: Mapping[str, Stack]
    newest: Mapping[str, str]
    queues: Mapping[str, Kind]
    losses: tuple[str, ...]
    apps: Mapping[str, Kind]
    cc_params: Mapping[str, Kind]
    """Congestion controls of which an experiment may change constants."""
    load_scenarios: tuple[tuple[int, int], ...]
    """Uploads and downloads of each scenario of the loadlatency tool, in its order, which counts from 1."""
    events: tuple[str, ...]
    """Kinds of events that endpoints tell."""

    def stack_names(self) -> list[str]:
        """Return every name that ``stack`` accepts: systems by version, families for their newest."""
        return list(dict.fromkeys([*self.stacks, *self.newest]))

    def stack(self, name: str) -> Stack | None:
        """Return the stack of that name, the newest of a family, or None."""
        return self.stacks.get(self.newest.get(name, name))


@functools.cache
def catalogue() -> Catalogue:
    """Return the engine's catalogue, asked for once."""
    from cwndlab import _native

    return parse(_native.catalogue())


def of_machines() -> Catalogue:
    """Return the engine's catalogue without what only the simulator carries out."""
    engine = catalogue()
    return replace(engine, apps={name: app for name, app in engine.apps.items() if name not in MODELLED})


def parse(text: str) -> Catalogue:
    """Return the catalogue of the JSON text that docs/architecture.md defines."""
    data: contract.Catalogue = json.loads(text)
    return Catalogue(
        stacks={entry["name"]: _stack(entry) for entry in data["stacks"]},
        newest=data["newest"],
        queues={entry["kind"]: _kind(entry) for entry in data["queues"]},
        losses=tuple(data["losses"]),
        apps={entry["kind"]: _kind(entry) for entry in data["apps"]},
        cc_params={entry["kind"]: _kind(entry) for entry in data["cc_params"]},
        load_scenarios=tuple((uploads, downloads) for uploads, downloads in data["load_scenarios"]),
        events=tuple(data["events"]),
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
        accurate_ecn=entry["accurate_ecn"],
        guest=entry["guest"],
        packets=entry["packets"],
    )


def _kind(entry: contract.Kind) -> Kind:
    return Kind(entry["kind"], entry["about"], tuple(Param(**param) for param in entry["params"]))
