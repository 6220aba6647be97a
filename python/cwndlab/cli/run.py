"""`cwndlab init` and `cwndlab run`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab import testbeds
from cwndlab.errors import InputError

if TYPE_CHECKING:
    pass
from cwndlab.cli.options import Json, Overrides, Resume
from cwndlab.cli.output import failures, print_summary, progress, remarks, say, write_report


def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Say which version this is, or how to use it, where no command is given."""
    if version:
        from importlib.metadata import version as version_of

        print(f"cwndlab {version_of('cwndlab')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def init(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File to write; one that exists is kept.")
    ] = Path("experiment.yaml"),
) -> None:
    """Write a commented experiment file to start from."""
    from cwndlab.experiment.template import TEMPLATE

    try:
        with file.open("x", encoding="utf-8") as example:
            example.write(TEMPLATE)
    except FileExistsError:
        raise InputError(f"{file}: is there already; give another name") from None
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    say(f"wrote {file}; run it with: cwndlab run {file}")


def run(
    experiment: Annotated[
        str, typer.Argument(metavar="FILE|SUITE", help="Experiment file or built-in suite.")
    ],
    *,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Where results go [results/NAME-DATE].")
    ] = None,
    testbed: Annotated[
        str, typer.Option(metavar="|".join(testbeds.NAMES), help="What carries the packets.")
    ] = testbeds.MODEL,
    overrides: Overrides = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "-j", "--jobs", metavar="N", help="Worker processes [one per processor; on live hosts one]."
        ),
    ] = None,
    resume: Resume = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and run nothing.")] = False,
    report: Annotated[
        bool | None, typer.Option(help="Write DIR/report.html [unless it takes much memory].")
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
    json: Json = False,
) -> None:
    """Run an experiment and print its summary.

    The exit code is 0 only if every run completed.
    """
    from cwndlab import interface, runner
    from cwndlab.parts.executors import processors

    bed = testbeds.find(testbed)
    bed.ready()
    loaded = interface.load(experiment, overrides or (), testbed)
    workers = jobs if jobs is not None else 1 if bed.live else processors()
    if dry_run:
        from cwndlab import estimate
        from cwndlab.parts import order

        pause = order.pause_ns(loaded.spec) if bed.live else None
        with progress(quiet) as observer:
            plan = runner.check(loaded, testbed, observer)
        print(estimate.as_json(plan) if json else estimate.as_text(plan, workers, pause))
        return
    with progress(quiet) as observer:
        results = runner.run(loaded, testbed=testbed, out=out, jobs=workers, resume=resume, observer=observer)
    if not quiet:
        print_summary(results, json=json)
    page = write_report(results, report)
    if not quiet:
        remarks(results)
        say(f"results: {results.path}")
        if page is not None:
            say(f"report:  {page}")
    failures(results)
