"""`cwndlab data suites` and `cwndlab show`."""

from typing import Annotated

import typer

from cwndlab.cli.options import LATEST, Directory, Json
from cwndlab.cli.output import print_summary, warnings, width
from cwndlab.results.texttable import wrapped


def suites() -> None:
    """List the built-in experiments, and the suites that judge a congestion control."""
    from cwndlab.experiment import suites as built_in
    from cwndlab.experiment.suites import evaluations

    titles = {suite.name: suite.title for suite in built_in.suites()}
    titles |= {
        name: f"{about.title} ({evaluations.command(name)})" for name, about in evaluations.SUITES.items()
    }
    beside = max(map(len, titles)) + 2
    for name in sorted(titles):
        print(wrapped(name.ljust(beside) + titles[name], width(), others=" " * beside))


def show(
    directory: Directory = LATEST,
    *,
    every: Annotated[bool, typer.Option("--all", help="Show every row, however many.")] = False,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Columns of summary.csv to show, a row per flow and run."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="First check every recorded row by its hash.")
    ] = False,
    hashes: Annotated[
        bool,
        typer.Option(
            "--hashes", help="Print, instead, what the rows of each run hash to, all tables together."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Print the summary of results again."""
    from cwndlab.report import interface
    from cwndlab.testbeds import tables

    results = interface.ResultSet(directory)
    if verify:
        results.verify()
    if hashes:
        for record in results.records():
            rows = {name: table.sha256 for name, table in record.tables.items()}
            print(f"{record.run_id}-{record.scenario_hash[:8]}", tables.result_hash(rows))
        return
    print_summary(results, every=every, columns=columns, json=json)
    warnings(results)
