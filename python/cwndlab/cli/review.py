"""`cwndlab compare --cc`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab.cli import evaluation, kernel_patch
from cwndlab.cli.options import Guests, NoProgress, own_command
from cwndlab.cli.output import progress, remarks, say
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
        Path | None,
        typer.Option(metavar="FILE", help="Make NEW from OLD, or from a tree, by this patch (diff -u)."),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            metavar="TREE",
            help="Review Linux without and with --patch, in virtual time, or by --suite builtin:NAME of it.",
        ),
    ] = None,
    guest: Guests = None,
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
    """Say whether two congestion controls, kernels or guests differ, where, and how sure that is.

    Both run on the same paths: the one of FreeBSD's CUBIC patch test, a DSL line, a LAN with loss, a long fat
    one, and in competition. With --kernel TREE or --guest NAME=TREE they are a system without and with
    --patch, whose flows run OLD, a builtin:NAME of it [builtin:cubic]. DIR/review.html has everything; the
    same as text is printed. The exit code is 0 only if every run completed. With --suite rfc9743 there is no
    NEW: OLD is judged beside CUBIC and Reno by what RFC 9743 asks of a new congestion control; with --suite
    bbr-cases by the cases of BBR's draft. With --suite rfc8867 OLD is one of media, with --suite rfc7928 a
    queue discipline: both builtin:NAME.
    """
    from cwndlab.experiment.suites import evaluations

    given = Given(old, new, patch, kernel, guest or (), suite, stack, private, quiet)
    if suite in evaluations.SUITES:
        side = _single(given, suite)
        evaluation.evaluate(suite, side, _place(out), text=text, repeats=repeats, jobs=jobs, quiet=quiet)
        return
    _compare(given, _place(out), text=text, repeats=repeats, jobs=jobs)


@dataclass(frozen=True)
class Given:
    """Subject of a review, as the command line names it."""

    old: str | None
    new: str | None
    patch: Path | None
    kernel: str | None
    guest: Sequence[str]
    suite: str | None
    stack: str | None
    private: bool
    quiet: bool

    @property
    def is_whole(self) -> bool:
        """Whether it is a kernel or a guest; raises InputError beside what those do not go with."""
        if self.kernel is None and not self.guest:
            return False
        alone = self.new is None and self.stack is None and not self.private
        if not alone or (self.kernel is not None and self.guest):
            raise InputError("review: --kernel TREE, or --guest NAME=TREE, goes without NEW and --stack")
        return True


def _compare(given: Given, place: Path, *, text: Path | None, repeats: int | None, jobs: int | None) -> None:
    """Run both sides, and write the page and the text."""
    from cwndlab.analysis import review as judge
    from cwndlab.execution.executors import processors
    from cwndlab.report import review_page
    from cwndlab.results import files

    both, jobs = _sides(given), jobs or processors()
    with progress(given.quiet) as observer:
        found = judge.carry_out(both, place, suite=given.suite, repeats=repeats, jobs=jobs, observer=observer)
    file = place / "review.html"
    files.save(file, review_page.html(found, own_command()).encode())
    if text is None:
        print(judge.text(found), end="")
    else:
        files.save(text, judge.text(found).encode())
    if both.are_whole:
        remarks(next(iter(found.results.values())))
    say(f"review: {file}")
    if found.failures:
        raise CwndlabError(f"{len(found.failures)} of {found.runs} runs failed; {place} holds the others")


def _single(given: Given, suite: str) -> "tuple[Side, Stack]":
    """Return the side judged alone: a congestion control of a model, a guest or kernel, media, a queue."""
    from cwndlab.analysis import review as judge
    from cwndlab.experiment.suites import evaluations

    if given.is_whole:
        if evaluations.SUITES[suite].subject is not evaluations.Subject.CC:
            raise InputError(f"review: --suite {suite} judges no congestion control of a kernel or guest")
        if given.kernel is None:
            return judge.of_guest(given.old, given.guest, given.patch)
        before, after = kernel_patch.folders(given.kernel, given.patch, quiet=given.quiet)
        return judge.of_kernel(given.old, after, before, given.patch)
    if given.old is None or given.new is not None or given.patch is not None:
        raise InputError(
            f"review: --suite {suite} judges OLD alone, without NEW; --patch goes with --kernel or --guest"
        )
    return evaluation.subject(suite, given.old, stack=given.stack, private=given.private)


def _sides(given: Given) -> "Sides":
    """The congestion controls, kernels or guests that are compared."""
    from cwndlab.analysis import review as judge

    old, patch = given.old, given.patch
    if not given.is_whole:
        if old is None:
            raise InputError(
                "review: give OLD and NEW, or --patch FILE with OLD, --kernel TREE or --guest NAME=TREE"
            )
        return judge.sides(old, given.new, stack=given.stack, patch=patch, private=given.private)
    if patch is None:
        raise InputError("review: --kernel TREE, or --guest NAME=TREE, goes with --patch FILE")
    if given.suite is not None and old is not None:
        raise InputError(f"review: --suite {given.suite} runs as it is on both sides, without OLD")
    if given.kernel is None:
        return judge.guests(given.guest, patch, old)
    return judge.kernels(*kernel_patch.folders(given.kernel, patch, quiet=given.quiet), patch, old)


def _place(out: Path | None) -> Path:
    """The directory for page and results, which has to be empty."""
    from cwndlab.results import directories

    place = directories.dated(Path("results"), "review", latest=False) if out is None else out
    if place.exists() and any(place.iterdir()):
        raise InputError(f"{place}: is not empty; give another directory")
    return place
