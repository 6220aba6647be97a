"""Code from outside: congestion controls (kernel modules in C, classes of Python, libraries) and guests.

They are named on the command line or by the API, never in an experiment file: a file executes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cwndlab.errors import InputError
from cwndlab.experiment.catalogue import Catalogue, Stack, Sysctl
from cwndlab.foreign.dependencies import Inputs

GUEST = "guest:"
"""Beginning of the names of guests from outside, as hosts have them for their stack."""


@dataclass(frozen=True, slots=True)
class Module:
    """A compiled module, under the name that flows call it by, or hosts."""

    name: str
    family: str
    """Family whose hooks the module has: `linux`."""
    abi: str
    """The interface it was compiled against, such as `linux-6.12`."""
    file: Path
    file_sha256: str
    """SHA-256 of the compiled file: nothing else is loaded."""
    knobs: tuple[Sysctl, ...]
    inputs: Inputs = field(repr=False)
    """Sources that the module was made of."""
    private: bool
    """Whether results keep none of that."""
    compiler: str
    flags: str
    sha256: str
    """SHA-256 of all that the compiler read, of the compiler and of its flags."""
    kind: str = "kernel"
    """Kind of the module: a `kernel`'s module, a `library`, a class of `python`, or a `guest`."""
    source: str = ""
    """Text of the file of a class of Python. Empty for other kinds."""
    class_name: str = ""
    guest: Mapping[str, Any] | None = field(default=None, hash=False)
    """Description of a guest by itself. None for other kinds."""
    made_of: str = ""
    """Hashes of a guest's tree and of the patch on it. Empty where there is no tree."""
    change: str = field(default="", repr=False)
    """Patch on a guest's tree, for results to keep. Empty where there is none, or it is private."""

    @property
    def option(self) -> str:
        """The option that names the module, as messages have it."""
        return option(self.name)

    @property
    def sources(self) -> Mapping[str, str]:
        """Text of each file that was read, by its path; empty where it is to be kept private."""
        if self.change:
            return {"patch.diff": self.change}
        if self.private or self.kind == "library":
            return {}
        return {name: data.decode("utf-8", "surrogateescape") for name, data in self.inputs.files}

    @property
    def version(self) -> str:
        """Version of the module in results: results of different versions are never mixed."""
        return f"{self.abi} sha256 {self.sha256}" + (f" ({self.made_of})" if self.made_of else "")


def option(name: str) -> str:
    """The option that names what is called so, as messages have it."""
    return f"--guest {name.removeprefix(GUEST)}" if name.startswith(GUEST) else f"--cc {name}"


def as_json(modules: Sequence[Module]) -> str:
    """The modules as the engine is told of them."""
    return json.dumps(
        [
            {
                "name": module.name,
                "family": module.family,
                "file": str(module.file),
                "sha256": module.file_sha256,
                "kind": module.kind,
                "source": module.source,
                "class": module.class_name,
                "guest": module.guest,
                "knobs": [
                    {"name": knob.name, "default": knob.default, "min": knob.min, "max": knob.max}
                    for knob in module.knobs
                ],
            }
            for module in modules
        ]
    )


def extended(catalogue: Catalogue, modules: Sequence[Module]) -> Catalogue:
    """The catalogue with modules as congestion controls of all stacks of their family, guests as stacks."""
    stacks = {name: _with(stack, modules) for name, stack in catalogue.stacks.items()}
    guests = {module.name: _guest(module) for module in modules if module.kind == "guest"}
    return replace(catalogue, stacks=stacks | guests)


def _guest(module: Module) -> Stack:
    """A guest as a stack of the catalogue."""
    told = module.guest or {}
    packets, cc = told["packets"], tuple(told["cc"])
    return Stack(
        name=module.name,
        family=module.name,
        inferred=False,
        default_cc=cc[0],
        cc=cc,
        cc_alias={},
        hz=1000,
        # Most systems only answer; datagrams agree on nothing.
        ecn="accept" if packets else "off",
        sysctls={},
        guest=True,
        packets=packets,
        any_sysctl=True,
    )


def _with(stack: Stack, modules: Sequence[Module]) -> Stack:
    for module in modules:
        if module.family != stack.family:
            continue
        if module.name in stack.cc or module.name in stack.cc_alias:
            problem = f"{stack.name} has a congestion control of that name; give it another"
            raise InputError(f"{module.option}: {problem}")
        sysctls = {knob.name: knob for knob in module.knobs if knob.name not in stack.sysctls}
        stack = replace(stack, cc=(*stack.cc, module.name), sysctls={**stack.sysctls, **sysctls})
    return stack


def keep(directory: Path, modules: Sequence[Module]) -> None:
    """Put what is known of each module beside the results, with its sources unless private."""
    for module in modules:
        place = directory / "modules" / module.name.replace(":", "-")
        place.mkdir(parents=True, exist_ok=True)
        for name, text in module.sources.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        told = {
            "name": module.name,
            "abi": module.abi,
            "compiler": module.compiler,
            "flags": module.flags,
            "sha256": module.sha256,
            "sources": sorted(module.sources),
            **({"made_of": module.made_of} if module.made_of else {}),
        }
        (place / "module.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
