"""The section of an experiment file for testbed `netns` alone."""

from __future__ import annotations

from typing import Annotated, ClassVar

from cwndlab.experiment.schema.leaves import Word, word
from cwndlab.experiment.schema.section import Section, about

SECTION = "netns"
"""The key of the section, which is the testbed's name."""


class KernelSubset(Section):
    """Part of testbed netns in an experiment whose hosts are not all Linux."""

    section: ClassVar[str] = SECTION
    stacks: dict[str, Word] = about(
        "stacks that this machine's kernel stands for, with its name (linux); rows with others are left out",
        {},
    )
    analogues: dict[str, list[Word]] = about(
        "sysctls that Linux does not have, with those of Linux that get their values instead", {}
    )
    without: list[Word] = about("keys that only a model has, left out", [])


class NetnsKeys(Section):
    """The testbed's keys beside those that every testbed is told."""

    section: ClassVar[str] = "experiment"
    emulator: Annotated[str, *word("own", "kernel")] | None = about("what emulates the path on testbed netns")
    netns: KernelSubset | None = about("how testbed netns takes part; nothing to other testbeds")
