"""`cwndlab compare --cc`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab.cli import evaluation, kernel_patch
from cwndlab.cli.options import NoProgress, own_command
from cwndlab.cli.output import progress, say
from cwndlab.errors import CwndlabError, InputError

if TYPE_CHECKING:
    from cwndlab.analysis.review import Sides
    from cwndlab.analysis.review.sides import Side
    from cwndlab.experiment.catalogue import Stack


def review(
    old: Annotated[
        str | None,
        typer.Argument(
            metavar="[OLD]",
            help="builtin:NAME[@STACK], or what --cc NAME= takes: FILE[,include=DIR][,abi=ABI].",
        ),
    ] = None,
    new: Annotated[
        str | None, typer.Argument(metavar="[NEW]", help="The same; left out with --patch.")
    ] = None,
    *,
    patch: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Make NEW from OLD, or TREE, by this patch (diff -u).")
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            metavar="TREE",
            help="Review Linux without and with --patch, in virtual time, or by --suite builtin:NAME of it.",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(metavar="SUITE|FILE", help="Run this experiment with either side [five paths]."),
    ] = None,
    stack: Annotated[
        str | None, typer.Option(metavar="STACK", help="System that runs both [that of the files].")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs of each side and path [10].")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="Where page and results go [results/review-DATE]."),
    ] = None,
    text: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the text there instead of printing it.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", metavar="N", help="Worker processes [one per processor].")
    ] = None,
    quiet: NoProgress = False,
    private: Annotated[
        bool, typer.Option("--cc-private", help="Keep the sources out of page and results.")
    ] = False,
) -> None:
    """Say whether two congestion controls, or two kernels, differ, where, and how sure that is.

    Both run on the same paths: the one of FreeBSD's CUBIC patch test, a DSL line, a LAN with loss, a long fat
    one, and in competition. DIR/review.html has everything; the same as text is printed. The exit code is 0
    only if every run completed. With --suite rfc9743 there is no NEW: OLD is judged beside CUBIC and Reno by
    what RFC 9743 asks of a new congestion control; with --suite bbr-cases by the cases of BBR's draft. With
    --suite rfc8867 OLD is one of media, with --suite rfc7928 a queue discipline: both builtin:NAME.
    """
    from cwndlab.analysis import review as judge
    from cwndlab.execution.executors import processors
    from cwndlab.experiment.suites import evaluations
    from cwndlab.report import review_page
    from cwndlab.results import files

    if suite in evaluations.SUITES:
        side = _single(suite, old, new, patch, kernel=kernel, stack=stack, private=private, quiet=quiet)
        evaluation.evaluate(suite, side, _place(out), text=text, repeats=repeats, jobs=jobs, quiet=quiet)
        return
    both = _sides(old, new, patch, kernel=kernel, stack=stack, private=private, quiet=quiet)
    place = _place(out)
    with progress(quiet) as observer:
        jobs = jobs or processors()
        found = judge.carry_out(both, place, suite=suite, repeats=repeats, jobs=jobs, observer=observer)
    file = place / "review.html"
    files.save(file, review_page.html(found, own_command()).encode())
    if text is None:
        print(judge.text(found), end="")
    else:
        files.save(text, judge.text(found).encode())
    say(f"review: {file}")
    if found.failures:
        raise CwndlabError(f"{len(found.failures)} of {found.runs} runs failed; {place} holds the others")


def _single(
    suite: str,
    old: str | None,
    new: str | None,
    patch: Path | None,
    *,
    kernel: str | None,
    stack: str | None,
    private: bool,
    quiet: bool,
) -> "tuple[Side, Stack]":
    """Return the side judged alone: a congestion control of a model, a guest or kernel, media, a queue."""
    from cwndlab.analysis import review as judge
    from cwndlab.experiment.suites import evaluations

    if kernel is not None:
        if evaluations.SUITES[suite].subject is not evaluations.Subject.CC:
            raise InputError(f"review: --suite {suite} judges no congestion control, and takes no --kernel")
        if new is not None or stack is not None or private:
            raise InputError("review: --kernel TREE judges what that kernel has, without NEW and --stack")
        before, after = kernel_patch.folders(kernel, patch, quiet=quiet)
        return judge.of_kernel(old, after, before, patch)
    if old is None or new is not None or patch is not None:
        raise InputError(
            f"review: --suite {suite} judges OLD alone, without NEW; --patch goes with --kernel TREE"
        )
    return evaluation.subject(suite, old, stack=stack, private=private)


def _sides(
    old: str | None,
    new: str | None,
    patch: Path | None,
    *,
    kernel: str | None,
    stack: str | None,
    private: bool,
    quiet: bool,
) -> "Sides":
    """The congestion controls, or kernels, that are compared."""
    from cwndlab.analysis import review as judge

    if kernel is not None:
        if old is not None or patch is None or stack is not None or private:
            raise InputError("review: --kernel TREE goes with --patch FILE, and without OLD, NEW and --stack")
        return judge.kernels(*kernel_patch.folders(kernel, patch, quiet=quiet), patch)
    if old is None:
        raise InputError("review: give OLD and NEW, OLD and --patch FILE, or --kernel TREE and --patch FILE")
    return judge.sides(old, new, stack=stack, patch=patch, private=private)


def _place(out: Path | None) -> Path:
    """The directory for page and results, which has to be empty."""
    from cwndlab.results import directories

    place = directories.dated(Path("results"), "review", latest=False) if out is None else out
    if place.exists() and any(place.iterdir()):
        raise InputError(f"{place}: is not empty; give another directory")
    return place
