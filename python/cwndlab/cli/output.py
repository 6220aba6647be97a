"""The output of commands: data to stdout, everything else to stderr."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cwndlab.errors import CwndlabError, ExperimentError, printable
from cwndlab.results.texttable import wrapped

if TYPE_CHECKING:
    from cwndlab.results.expectations import Outcome
    from cwndlab.results.resultset import ResultSet

REPORT_ROWS = 4 << 20
"""Rows of a table of one run above which `run` leaves the report to be asked for.

It holds a run in memory, some 250 bytes a row, while recording stays below 500 MB however long a run is."""


def print_summary(
    results: "ResultSet", *, every: bool = False, columns: str | None = None, json: bool = False
) -> None:
    """Print the table of results, or its rows as JSON."""
    from cwndlab.results import display

    names = [name.strip() for name in columns.split(",")] if columns is not None else ()
    if json:
        print(display.json_lines(results, names), end="")
    else:
        print(display.table(results, width=width(), every=every, columns=names))
        _print_classic(results)


def _print_classic(results: "ResultSet") -> None:
    """The lines of the loadlatency tool, where there are scenarios of it."""
    from cwndlab.results import loadlatency

    lines = loadlatency.classic(results)
    if lines:
        print(f"\n{lines}", end="")


MAX_ANSWERS = 3
"""Sentences of the answer that are printed; the report has all."""


def print_answers(results: "ResultSet") -> None:
    """Print the answer to the experiment's question: a sentence for each pair, of one its details."""
    from cwndlab.analysis import answer

    found = answer.answers(results)
    said = [each.lead() for each in found]
    if len(found) == 1:
        said += found[0].details()
    for number, text in enumerate(said[:MAX_ANSWERS]):
        indent = "  " * (number >= len(found))
        print("\n" * (number == 0) + wrapped(text, width(), first=indent))


def write_report(results: "ResultSet", wanted: bool | None) -> str | None:
    """Write the report of a finished run if wanted, or unless it is too large; returns what to say of it."""
    if wanted is False:
        return None
    most = max((brief.rows for brief in results.briefs), default=0)
    if wanted is None and most > REPORT_ROWS:
        command = f"cwndlab report {shlex.quote(str(results.path))}"
        return f"not written, as a run has {most} rows; {command} writes it anyway"
    from cwndlab.report.html_report import write

    return str(write(results, results.path / "report.html"))


def open_page(page: str | Path) -> None:
    """Open a page in the reader's browser, or say that there is none."""
    import os
    import webbrowser

    there = sys.platform == "darwin" or {"BROWSER", "DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    if not there or not webbrowser.open(Path(page).resolve().as_uri()):
        say(f"no browser was found here; open {page} in one yourself")


MAX_REMARKS = 5
"""Warnings, and notes, that `run` prints; the report has all."""


def remarks(results: "ResultSet") -> None:
    """Print what to check before trusting the runs, and what was decided for them, each once."""
    from cwndlab.results import briefs, epochs

    of_all = [found.text for found in (epochs.few(results), briefs.never_settled(results.briefs)) if found]
    warnings(results)
    _remarks("note", briefs.said([of_all, *(brief.notes for brief in results.briefs)]))


def warnings(results: "ResultSet") -> None:
    """Print what to check before trusting the runs, each once."""
    from cwndlab.results import briefs

    _remarks("warning", briefs.said(brief.warnings for brief in results.briefs))


def _remarks(word: str, said: Sequence[str]) -> None:
    for text in said[:MAX_REMARKS]:
        say(f"{word}: {text}")
    if len(said) > MAX_REMARKS:
        say(f"{word}: {len(said) - MAX_REMARKS} more {word}s, which the report has")


def failures(results: "ResultSet") -> None:
    """Say which runs failed and why, and raise if any did."""
    if results.complete:
        return
    failed = [brief for brief in results.briefs if not brief.complete]
    for brief in failed[:5]:
        cell = results.labels.words(brief.cell, list(brief.cell))
        say(f"run {brief.run_id}{cell and f', {cell}'} failed: {brief.error}")
    if failed:
        raise CwndlabError(
            f"{len(failed)} of {results.runs.height} runs failed; {results.path} holds the others"
        )


def judge(results: "ResultSet", junit: Path | None, *, quiet: bool) -> None:
    """Say which runs failed, and whether the others are as their experiment expects; raise if not.

    `junit` is the file that has it, too.
    """
    from cwndlab.results import expectations

    judge_outcomes([results], expectations.outcomes(results), junit, results.path, quiet=quiet)


def judge_outcomes(
    sides: "Sequence[ResultSet]",
    found: "Sequence[Outcome]",
    junit: Path | None,
    place: Path,
    *,
    quiet: bool,
) -> None:
    """Judge the outcomes of expectations of some results, which are in `place`."""
    from cwndlab.results import expectations

    if junit is not None:
        from cwndlab.results import junit as form

        form.write(sides, found, junit)
    for results in sides:
        failures(results)
    if found and not quiet:
        say(expectations.text(found))
    failed = sum(not outcome.holds for outcome in found)
    if failed:
        raise CwndlabError(f"{failed} of {len(found)} expectations do not hold; {place} holds the runs")


@contextmanager
def progress(quiet: bool, *, json: bool = False) -> Iterator[Any]:
    """Show how far a sweep is, to people or to programs, unless nobody wants to see it."""
    if quiet:
        yield None
        return
    from cwndlab.execution.progress import ProgressDisplay, ProgressLines

    if json:
        yield ProgressLines()
        return

    with ProgressDisplay() as display:
        yield display


def width() -> int:
    """Width that a table may have: what COLUMNS says, as wide as the terminal, or 80 characters."""
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def say(text: str) -> None:
    """Print a line to stderr."""
    with suppress(OSError):  # whoever closed stderr wants to hear nothing
        print("\n".join(map(printable, text.split("\n"))), file=sys.stderr, flush=True)


def tell(error: CwndlabError) -> None:
    """Print an error to stderr, in one line; of a file every one, each with its place below it."""
    for each in error.all if isinstance(error, ExperimentError) else (error,):
        complain(str(each))
        for line in each.excerpt() if isinstance(each, ExperimentError) else ():
            say(line)


def complain(text: str) -> None:
    """Print an error to stderr, in one line."""
    say(f"error: {printable(' '.join(text.split()))}")
