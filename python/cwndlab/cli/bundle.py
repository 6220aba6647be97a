"""`cwndlab data bundle` and `cwndlab data reproduce`."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from cwndlab.cli import kernel as kernels
from cwndlab.cli.options import Guests
from cwndlab.cli.output import progress, say
from cwndlab.errors import CwndlabError, InputError


def bundle(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Directories of results.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The archive to write.")] = Path(
        "bundle.tar.gz"
    ),
    beside: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="FILE", help="A file the experiment names; may be given again."),
    ] = None,
    author: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An author, 'A. Bee <ADDRESS>' with one; may be given again."),
    ] = None,
    license: Annotated[
        str | None, typer.Option(metavar="NAME", help="The licence, such as CC-BY-4.0, or its address.")
    ] = None,
) -> None:
    """Pack results with all it takes to run them again, as the artifact of a paper."""
    from cwndlab.formats.bundle import archive
    from cwndlab.formats.bundle.crate import Claims

    written = archive.make(directories, out, beside or (), Claims.of(author or (), license))
    say(f"{len(written)} files; another machine compares with: cwndlab data reproduce {out.name}")
    print(out)


def reproduce(
    archive: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What cwndlab data bundle wrote.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="Where its files and our runs go [reproduced/NAME]."),
    ] = None,
    *,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", metavar="N", help="Worker processes [one per processor].")
    ] = None,
    cc: Annotated[
        list[str] | None,
        typer.Option("--cc", metavar="NAME=FILE[,...]", help="Code that the runs need, as for cwndlab run."),
    ] = None,
    guest: Guests = None,
    kernel: kernels.Chosen = None,
    patch: kernels.PatchOfAny = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress.")] = False,
) -> None:
    """Run a bundle's experiments again, and say whether the same came out.

    Nothing in the bundle is executed. The exit code is 0 only if every run came out the same.
    """
    from cwndlab.execution.executors import processors
    from cwndlab.foreign import GUEST
    from cwndlab.formats.bundle import reader, reproduction

    _, built = kernels.place(kernel, patch if kernel else None, None, None, quiet=quiet)
    named = [*(cc or ()), *(f"{GUEST}{text}" for text in guest or ())]
    code = reproduction.Trusted(named, None if kernel else patch, built)
    place = out or Path("reproduced") / archive.name.partition(".")[0]
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(f"{place}: is there already; give another directory with -o")
    with _removed_unless_whole(place):
        with progress(quiet) as observer:
            (place / "bundle").mkdir(parents=True)
            entries = reader.unpack(archive, place / "bundle", None if quiet else observer.reading)
        outcomes = []
        for entry in entries:
            with progress(quiet) as observer:
                outcome = reproduction.reproduce(
                    entry, place / "ours" / entry.name, jobs or processors(), code, observer
                )
            print(outcome)
            outcomes.append(outcome)
    if not all(outcome.same for outcome in outcomes):
        raise CwndlabError(f"{archive}: not reproduced; {place} has both sides")


@contextmanager
def _removed_unless_whole(place: Path) -> Iterator[None]:
    """Remove what was written below `place` when something fails, so that the next try finds it as it was."""
    made = [path for path in (place, *place.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        for part in ("bundle", "ours"):
            shutil.rmtree(place / part, ignore_errors=True)
        for path in made:
            with suppress(OSError):
                path.rmdir()
        raise
