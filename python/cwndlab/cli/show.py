"""`cwndlab suites` and `cwndlab show`."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    pass
from cwndlab.cli.options import LATEST, Directory, Json
from cwndlab.cli.output import print_summary, width


def suites() -> None:
    """List the built-in experiments."""
    import textwrap

    from cwndlab import suites as built_in

    there = built_in.suites()
    beside = max(len(suite.name) for suite in there) + 2
    for suite in there:
        head = suite.name.ljust(beside)
        print(textwrap.fill(head + suite.title, width(), subsequent_indent=" " * beside))


def show(
    directory: Directory = LATEST,
    every: Annotated[bool, typer.Option("--all", help="Show every row, however many.")] = False,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Columns of summary.csv to show, a row per flow and run."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="First check every recorded row by its hash.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the summary of results again."""
    from cwndlab import interface

    results = interface.ResultSet(directory)
    if verify:
        results.verify()
    print_summary(results, every=every, columns=columns, json=json)
