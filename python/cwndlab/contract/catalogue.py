"""Catalogue of what an engine knows. Made from crates/contract by `make contract`; not edited by hand."""

from __future__ import annotations

from typing import Literal, TypeAlias

from typing_extensions import TypedDict

from cwndlab.contract.scenario import Ecn


class Catalogue(TypedDict):
    """Stacks with their congestion controls and sysctls, queue kinds with their parameters, losses and
    applications.
    """

    stacks: list[Stack]
    """Every stack."""
    newest: dict[str, str]
    """The newest stack of each family."""
    queues: list[Kind]
    """Queue disciplines."""
    losses: list[str]
    """Kinds of loss."""
    apps: list[Kind]
    """Applications."""
    cc_params: list[Kind]
    """Congestion controls of which an experiment may change constants."""
    load_scenarios: list[list[int]]
    """Uploads and downloads of each scenario of the loadlatency tool."""
    events: list[str]
    """Kinds of events that endpoints tell."""


class Kind(TypedDict):
    """A queue discipline or an application."""

    kind: str
    """Name of the kind."""
    about: str
    """Description of the kind, in one sentence."""
    params: list[Param]
    """Parameters of the kind."""


class Param(TypedDict):
    """A parameter of a queue discipline or an application."""

    name: str
    """Name in the experiment file; of a queue discipline, that of `tc`."""
    field: str
    """Key in a Scenario; empty if the parameter has none."""
    unit: Unit
    """Unit of the number."""
    min: int
    """Smallest value allowed."""
    max: int
    """Largest value allowed."""
    default: int | None
    """Default. Null: none, or it follows from others."""
    otherwise: str
    """Words for what holds where nothing is given and there is no default."""
    required: bool
    """Whether an experiment file has to give the parameter."""
    choices: list[str]
    """The words of a `choice`, in the order of their numbers."""
    bdp: bool
    """Whether an experiment file may give the parameter in packets, in bytes, and as a multiple of the
    path's BDP.
    """
    bare: bool
    """Whether an experiment file may give bytes without a unit, as other tools do for a packet."""
    carried: Carried
    """Who carries the parameter out."""
    because: str
    """Reason of the range, where it is not plain."""
    about: str
    """Description of the parameter, in one sentence."""


class Stack(TypedDict):
    """The TCP of an operating system, or a guest."""

    name: str
    """Name of the stack, such as `freebsd-9.2`."""
    family: str
    """`freebsd`, `linux` or `windows`; of a guest, its own name without the version."""
    inferred: bool
    """No recording of the real system stands behind it."""
    guest: bool
    """Transport protocol of somebody else in user space, carried out in virtual time by the engine alone."""
    packets: bool
    """Guest that exchanges packets of TCP with any other stack."""
    default_cc: str
    """The congestion control of flows that name none."""
    cc: list[str]
    """Congestion controls by the system's own names."""
    cc_alias: dict[str, str]
    """Names accepted for congestion controls besides the system's own, with those meant."""
    hz: int
    """Clock ticks per second unless the experiment sets them."""
    ecn: Ecn
    """ECN unless the experiment sets it."""
    accurate_ecn: bool
    """Whether it has Accurate ECN (RFC 9768)."""
    sysctls: list[Sysctl]
    """Sysctls that the stack knows."""


class Sysctl(TypedDict):
    """A sysctl that a stack knows."""

    name: str
    """The real name."""
    default: int
    """Value in this system."""
    min: int
    """Smallest value allowed."""
    max: int
    """Largest value allowed."""
    about: str
    """Purpose and unit of the sysctl, in a few words."""


Unit: TypeAlias = Literal[
    "packets",
    "bytes",
    "ns",
    "bps",
    "ppb",
    "nano",
    "milli",
    "count",
    "bool",
    "choice",
    "bytes-drawn",
    "ns-drawn",
]
"""Unit of a parameter's number, and how an experiment file writes it. `packets`: packets: `90p`. `bytes`:
bytes: `125KB`. `ns`: nanoseconds: `40ms`. `bps`: bits per second: `10mbit`. `ppb`: parts per billion:
`1%`. `nano`: billionths: `0.16`. `milli`: thousandths: `1.5`. `count`: a number of something. `bool`: 0 or
1: `true`. `choice`: a place in `choices`, from 0. `bytes-drawn`: bytes that are drawn: `exp(200B)`.
`ns-drawn`: nanoseconds that are drawn: `exp(20ms)`.
"""
Carried: TypeAlias = Literal["engine", "live", "plan", "nobody"]
"""Who carries a parameter out. `engine`: the engine; it is in a Scenario. `live`: live testbeds; to a
model it says nothing. `plan`: the plan: other parameters follow from it. `nobody`: nobody yet: it is
refused.
"""
