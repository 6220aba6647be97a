"""Congestion controls from outside on their way to another machine: all that the compiler read, as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.foreign import Module, sources
from cwndlab.foreign.dependencies import Inputs


@dataclass(frozen=True, slots=True)
class Parcel:
    """Modules of one option `--cc`."""

    name: str
    inputs: Inputs
    sha256: str
    """Hash that the modules must have at the other machine: their own, which knows the compiler."""
    made_of: str
    """Hashes of a guest's tree and patch, which stay here."""


def pack(modules: Sequence[Module]) -> tuple[Parcel, ...]:
    """The parcels of modules, one for each `--cc`: of what they were made of, whatever has changed since."""
    distinct = {module.name: module for module in modules}
    return tuple(
        Parcel(module.name, module.inputs, module.sha256, module.made_of) for module in distinct.values()
    )


def open_in(parcels: Sequence[Parcel], folder: Path) -> tuple[Module, ...]:
    """The modules made anew in a folder; raises InputError where one is not what was sent."""
    made: list[Module] = []
    for number, parcel in enumerate(parcels):
        place = folder / str(number)
        own = sources.build(f"{parcel.name}={parcel.inputs.written(place)}")
        for module in own:
            if module.sha256 != parcel.sha256:
                raise InputError(f"{module.option}: {module.compiler} makes something else of it here")
        made += [replace(module, made_of=parcel.made_of) for module in own]
    return tuple(made)
