"""What an engine knows. Made from crates/contract by `make contract`; not edited by hand."""

from __future__ import annotations

from typing import NotRequired, TypedDict

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
    load_scenarios: list[list[int]]
    """Uploads and downloads of each scenario of the loadlatency tool."""


class Kind(TypedDict):
    """A queue discipline or an application."""

    kind: str
    """Its name."""
    params: list[Param]
    """Its parameters."""


class Param(TypedDict):
    """A parameter of a queue discipline or an application."""

    name: str
    """Its name."""
    unit: str
    """Such as `packets`, `bytes`, `ns`, `bps`, `ppb`, `milli`, `count`, `bool` (0 or 1), or `choice` (a
    place in `choices`).
    """
    default: int | None
    """Its default in that unit; null: it must be given, or may be absent, or follows from others."""
    choices: NotRequired[list[str]]
    """The words of a `choice`."""


class Stack(TypedDict):
    """The TCP of an operating system."""

    name: str
    """Its name, such as `freebsd-9.2`."""
    family: str
    """`freebsd`, `linux` or `windows`."""
    inferred: bool
    """No recording of the real system stands behind it."""
    default_cc: str
    """The congestion control of flows that name none."""
    cc: list[str]
    """Congestion controls by the system's own names."""
    cc_alias: dict[str, str]
    """Other names accepted for them, with those meant."""
    hz: int
    """Clock ticks per second unless the experiment sets them."""
    ecn: Ecn
    """ECN unless the experiment sets it."""
    sysctls: list[Sysctl]
    """The sysctls it knows."""


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
    """What it does and its unit, in a few words."""
