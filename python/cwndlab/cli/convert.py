"""`cwndlab data import` and `cwndlab data export`: other tools' files."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from cwndlab.cli.options import LATEST, Directory, Json
from cwndlab.cli.output import print_summary, say


def import_(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Files or directories of other tools, or one configuration."),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="PATH",
            help="Where results go [results/NAME-DATE]; NAME.yaml of a configuration.",
        ),
    ] = None,
    window: Annotated[
        float, typer.Option(metavar="SECONDS", help="Captures: length of a sliding window.")
    ] = 1.0,
    step: Annotated[
        float, typer.Option(metavar="SECONDS", help="Captures: time from one window to the next.")
    ] = 0.1,
    count: Annotated[
        str, typer.Option(metavar="ip|frame|payload", help="Captures: bytes of a packet that count.")
    ] = "ip",
    same_clock: Annotated[
        bool, typer.Option("--same-clock", help="Captures: all were taken with one clock; correct nothing.")
    ] = False,
    stack: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Configuration: the stack of hosts whose system it does not say."),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option("--test-id", metavar="PREFIX", help="Configuration: what test IDs begin with."),
    ] = None,
    test_ids: Annotated[
        bool, typer.Option("--test-ids", help="Configuration: print the test ID of every run.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
    json: Json = False,
) -> None:
    """Turn other tools' files into results.

    A TEACUP configuration becomes an experiment file, and a lab file of its machines (with the package
    cwndlab-teacup, which also reads TEACUP's results and logs of old kernels).
    """
    from cwndlab.formats import importers
    from cwndlab.formats.capture import Options

    if len(paths) == 1 and importers.configurations(paths[0]) is not None:
        written, converted = importers.configuration(paths[0], out, stack=stack, prefix=prefix)
        if not quiet:
            print("\n".join(converted.test_ids if test_ids else converted.told(as_json=json)))
            command = f"cwndlab run {shlex.quote(str(written))}"
            say(f"{len(converted.test_ids)} runs: {written}; run them with: {command}")
            if converted.lab is not None:
                machines = importers.lab_of(written)
                say(f"its machines: {machines}; look at its commands, and put the router's interfaces in")
        return
    skipped: list[str] = []
    results = importers.results(paths, Options(window, step, count, same_clock), out, skipped)
    if not quiet:
        for line in skipped:
            say(f"skipped: {line}")
        for line in importers.warnings(results):
            say(line)
        print_summary(results, json=json)
        say(f"results: {results.path}")


def export(
    directory: Directory = LATEST,
    *,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="csv|parquet|flent|siftr|qlog|qlog-0.3|pcapng",
            help="What to write; xplot with cwndlab-teacup.",
        ),
    ] = "csv",
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="Where the files go [DIR/export-FORMAT]."),
    ] = None,
    runs: Annotated[
        list[str] | None, typer.Option("--run", metavar="ID", help="A run to export; may be given again.")
    ] = None,
) -> None:
    """Write results in the formats of other tools."""
    from cwndlab.formats import exporters
    from cwndlab.report import interface

    results = interface.ResultSet(directory)
    target = out if out is not None else directory / f"export-{form}"
    for file in exporters.export(results, form, target, runs or ()):
        print(file)
