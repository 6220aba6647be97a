"""Experiments on a source tree, Linux's or a guest's, without and with a patch: `cwndlab compare --patch`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cwndlab import testbeds
from cwndlab.cli import kernel, run
from cwndlab.cli.output import progress, remarks, say
from cwndlab.errors import InputError
from cwndlab.foreign import GUEST

if TYPE_CHECKING:
    from cwndlab.results.resultset import ResultSet


def folders(tree: str, patch: Path | None, *, quiet: bool = False) -> tuple[Path, Path]:
    """The folders of two kernels of a source tree: without a patch, and with it, if there is one.

    Raises InputError.
    """
    before, after = (kernel.place(tree, each, None, None, quiet=quiet)[1] for each in (None, patch))
    assert before is not None  # --kernel was given
    assert after is not None
    return before, after


def tell_left_out(named: Sequence[str], patch: Path) -> None:
    """Say which files of a patch no guest is made of. Raises InputError where none of these is a tree."""
    from cwndlab.foreign import f_stack, sources

    tree = Path(sources.tree([f"{GUEST}{text}" for text in named]).partition("=")[2])
    if others := f_stack.left_out(tree, patch):
        say(f"--patch {patch}: left out, as no guest is made of it: {', '.join(others)}")


def before_and_after(
    chosen: str | None,
    patch: Path | None,
    files: list[Path],
    named: Sequence[str] = (),
    overrides: Sequence[str] = (),
    *,
    quiet: bool = False,
) -> list[tuple[ResultSet, ResultSet]]:
    """The results of experiment files on a source tree, and on it with a patch on top, by the same seeds.

    The tree is that of a kernel, or of a guest by its name. They go where `cwndlab run` puts them. Raises
    InputError.
    """
    if (chosen is None) == (not named) or patch is None or not files:
        raise InputError(
            "compare: --kernel TREE, or --guest NAME=TREE, goes with --patch FILE, and with experiment files"
        )
    ways: Sequence[dict[str, Any]]
    if chosen is not None:
        ways = [{"lab": folder} for folder in folders(chosen, patch, quiet=quiet)]
    else:
        tell_left_out(named, patch)
        ways = [{"guest": named}, {"guest": named, "patch": patch}]
    return [_both(file, ways, overrides, quiet=quiet) for file in files]


def _both(
    file: Path, ways: Sequence[dict[str, Any]], overrides: Sequence[str], *, quiet: bool
) -> tuple[ResultSet, ResultSet]:
    """The results of an experiment file, loaded without and with a patch."""
    from cwndlab.report import interface

    results = []
    for way, side in zip(ways, ("before", "after"), strict=True):
        folder = way.get("lab")
        where = run.place(testbeds.MODEL if folder is None else testbeds.GUEST, folder)
        loaded = interface.load(str(file), overrides, where.testbed, **way)
        out = Path("results") / f"{loaded.name}-{side}"
        with progress(quiet) as observer:
            results.append(run.carry_out(loaded, where, out, None, observer, force=True))
        say(f"{side}: {out}")
    remarks(results[0])
    return results[0], results[1]
