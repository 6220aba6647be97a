"""`cwndlab kernel build`, `list` and `config`: kernels for testbed kernel, and the option that names one."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab import testbeds
from cwndlab.cli.output import say
from cwndlab.errors import InputError

if TYPE_CHECKING:
    from cwndlab.testbeds.kernels import Progress

kernel = typer.Typer(
    name="kernel",
    help="Kernels of your own: what testbed kernel runs.",
    add_completion=False,
    rich_markup_mode=None,
)

Tree = Annotated[
    Path, typer.Argument(metavar="TREE", help="Folder of Linux's sources; nothing is written there.")
]

Patch = Annotated[
    Path | None, typer.Option("--patch", metavar="FILE", help="Patch on top of the tree (as for patch -p1).")
]

PatchOfAny = Annotated[
    Path | None,
    typer.Option("--patch", metavar="FILE", help="Patch on top of the tree that --kernel or --guest names."),
]

Compared = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        metavar="TREE",
        help="Run experiments on this source tree of Linux, without and with a patch, and compare.",
    ),
]

Hz = Annotated[int | None, typer.Option("--hz", metavar="N", help="Clock ticks per second [1000].")]

Chosen = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        metavar="TREE|PROGRAM|NAME",
        help="Kernel that runs everything, in virtual time (implies --testbed kernel).",
    ),
]


@kernel.command("build")
def build(
    tree: Tree,
    patch: Patch = None,
    hz: Hz = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", metavar="N", help="Compilers at a time [one per processor].")
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress.")] = False,
) -> None:
    """Build a kernel from a source tree, with a patch on top, unless that was done before.

    It is built in a copy, with cwndlab's own configuration (cwndlab kernel config), and kept under its name.
    """
    from cwndlab.testbeds import kernels

    _check_hz(hz)
    with _progress(quiet) as told:
        made, before = kernels.build(tree, hz or kernels.HZ, patch, told, jobs=jobs or _processors())
    say(f"{'had been built' if before else 'built'}: {made.name} ({made.made_of})")
    say(f"use it: cwndlab run FILE --kernel {made.name}")


@kernel.command("list")
def list_() -> None:
    """List the kernels that were built."""
    from cwndlab.testbeds import kernels

    built = kernels.kernels()
    for each in built:
        patch = f", patch {each.patch_sha256[:8]}" if each.patch_sha256 else ""
        print(f"{each.name:<24} HZ {each.hz:<5} {each.release}{patch}")
    if not built:
        say("none was built yet: cwndlab kernel build TREE")


@kernel.command("config")
def config(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Of a kernel that was built, all of it.")
    ] = None,
) -> None:
    """Print what kernels are configured with."""
    from cwndlab.testbeds import kernels

    text = kernels.CONFIG if name is None else kernels.find(name).folder / "config"
    print(text.read_text(encoding="utf-8"), end="")


def place(
    chosen: str | None, patch: Path | None, testbed: str | None, lab: Path | None, *, quiet: bool = False
) -> tuple[str | None, Path | None]:
    """The testbed and what stands for its machines, where `--kernel` may name a kernel: its folder.

    A source tree is built. Raises InputError.
    """
    if chosen is None:
        if patch is not None:
            raise InputError("--patch goes with --kernel TREE")
        return testbed, lab
    if testbed not in (None, testbeds.GUEST) or lab is not None:
        raise InputError(f"--kernel goes with --testbed {testbeds.GUEST} alone")
    from cwndlab.testbeds import kernels

    with _progress(quiet) as told:
        found = kernels.choose(chosen, patch, None, told, jobs=_processors())
    return testbeds.GUEST, found.folder


def _check_hz(hz: int | None) -> None:
    from cwndlab.testbeds.kernels import HZ_CHOICES

    if hz is not None and hz not in HZ_CHOICES:
        raise InputError(f"--hz: found {hz}; expected one of {', '.join(map(str, HZ_CHOICES))}")


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _progress(quiet: bool) -> "Iterator[Progress]":
    """Shows how far a build is and how long it will take, on a line that is written over, or now and then."""
    began, told, terminal = time.monotonic(), 0.0, sys.stderr.isatty()

    def show(done: int, of: int) -> None:
        nonlocal told
        now = time.monotonic()
        if quiet or not done or now - told < (0.5 if terminal else 20.0):
            return
        told = now
        line = f"building the kernel: {done} steps done"
        if of and done > of // 20:
            share = min(done / of, 0.99)
            left = (now - began) * (1 - share) / share
            line = f"building the kernel: {100 * share:2.0f} %, about {_minutes(left)} left"
        sys.stderr.write(f"\r{line:<60}" if terminal else f"{line}\n")
        sys.stderr.flush()

    yield show
    if told and terminal:
        sys.stderr.write(f"\r{'':<60}\r")


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
