"""`cwndlab dev watch`: an experiment that runs again whenever its file is saved."""

import time
from pathlib import Path
from typing import Annotated

import typer

from cwndlab.cli import run
from cwndlab.cli.options import Jobs, Lab, Open, Overrides, Testbed
from cwndlab.cli.output import complain, progress, say, tell
from cwndlab.errors import CwndlabError, StoppedError

LOOK_S = 0.3
"""Time between two looks at the file."""


def watch(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Experiment file.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            help="Where results go, over those before [results/FILE-watch].",
        ),
    ] = None,
    testbed: Testbed = None,
    lab: Lab = None,
    overrides: Overrides = None,
    jobs: Jobs = None,
    show: Open = False,
) -> None:
    """Run an experiment, and again whenever its file is saved.

    Results and their report take the place of those before. What is wrong with the file is said, and the next
    save tried. Ctrl-C ends it.
    """
    place = out or Path("results") / f"{file.stem}-watch"
    while True:
        before = _state(file)
        try:
            _once(file, place, testbed, lab, overrides=overrides or [], jobs=jobs, show=show)
            show = False  # the page that is open can be loaded again
        except StoppedError:
            raise
        except CwndlabError as error:
            tell(error)
        except OSError as error:
            complain(f"{error.filename}: {error.strerror}")
        try:
            say(f"waiting until {file} is saved again; Ctrl-C ends this")
            while _state(file) in (before, None):
                time.sleep(LOOK_S)
        except KeyboardInterrupt:
            return


def _once(
    file: Path,
    out: Path,
    testbed: str | None,
    lab: Path | None,
    *,
    overrides: list[str],
    jobs: int | None,
    show: bool,
) -> None:
    """Run the experiment as its file is now."""
    from cwndlab.report import interface

    where = run.place(testbed, lab)
    loaded = interface.load(file, overrides, where.testbed, lab=lab)
    with progress(False) as observer:
        results = run.carry_out(loaded, where, out, jobs, observer, force=True)
    run.conclude(results, True if show else None, None, quiet=False, show=show)


def _state(file: Path) -> tuple[int, int, int] | None:
    """State of a file that changes when it is saved. None while an editor puts another in its place."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
