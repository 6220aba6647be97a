"""Experiments on a source tree of Linux, without and with a patch: `cwndlab compare --kernel`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cwndlab import testbeds
from cwndlab.cli import kernel, run
from cwndlab.cli.output import progress, say
from cwndlab.errors import InputError

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


def before_and_after(
    chosen: str | None, patch: Path | None, files: list[Path], *, quiet: bool = False
) -> list[tuple[ResultSet, ResultSet]]:
    """The results of experiment files on a source tree, and on it with a patch on top, by the same seeds.

    They go where `cwndlab run` puts them. Raises InputError.
    """
    if chosen is None or patch is None or not files:
        raise InputError("compare: --kernel TREE goes with --patch FILE, and with experiment files")
    from cwndlab.report import interface

    sides = folders(chosen, patch, quiet=quiet)
    pairs = []
    for file in files:
        results = []
        for folder, side in zip(sides, ("before", "after"), strict=True):
            where = run.place(testbeds.GUEST, folder)
            loaded = interface.load(str(file), (), where.testbed, lab=folder)
            out = Path("results") / f"{loaded.name}-{side}"
            with progress(quiet) as observer:
                results.append(run.carry_out(loaded, where, out, None, observer, force=True))
            say(f"{side}: {out}")
        pairs.append((results[0], results[1]))
    return pairs
