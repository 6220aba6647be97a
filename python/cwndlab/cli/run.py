"""`cwndlab init` and `cwndlab run`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab import testbeds
from cwndlab.cli.options import Json, Lab, Overrides, Resume
from cwndlab.cli.output import failures, print_summary, progress, remarks, say, write_report
from cwndlab.errors import InputError

if TYPE_CHECKING:
    from cwndlab.interface import Experiment
    from cwndlab.results.resultset import ResultSet


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
        str | None,
        typer.Option(metavar="|".join(testbeds.NAMES), help=f"What carries the packets [{testbeds.MODEL}]."),
    ] = None,
    lab: Lab = None,
    overrides: Overrides = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "-j", "--jobs", metavar="N", help="Worker processes [one per processor; on live hosts one]."
        ),
    ] = None,
    resume: Resume = False,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Carry out one of N shares only; see cwndlab merge.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS|FILE", help="Dask scheduler whose workers carry the runs out."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and run nothing.")] = False,
    report: Annotated[
        bool | None, typer.Option(help="Write DIR/report.html [unless it takes much memory].")
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
    json: Json = False,
    cc: Annotated[
        list[str] | None,
        typer.Option(
            "--cc",
            metavar="NAME=FILE[,FILE][,include=DIR][,abi=ABI]",
            help="Compile a kernel's congestion control and run it under that name; may be given again.",
        ),
    ] = None,
    cc_private: Annotated[
        bool, typer.Option("--cc-private", help="Keep the text of --cc out of the results.")
    ] = False,
) -> None:
    """Run an experiment and print its summary.

    The exit code is 0 only if every run completed.
    """
    from cwndlab import interface, runner
    from cwndlab.parts.executors import processors
    from cwndlab.parts.sharding import Shard

    share = None if shard is None else Shard.parse(shard)
    testbed = testbed or (testbeds.MODEL if lab is None else testbeds.DISTANT)
    bed = testbeds.find(testbed, lab)
    bed.ready()
    loaded = interface.load(experiment, overrides or (), testbed, lab, cc=cc or (), cc_private=cc_private)
    workers = jobs if jobs is not None else 1 if bed.live else processors()
    if dry_run:
        _print_plan(loaded, testbed, lab, workers, quiet=quiet, json=json)
        return
    with progress(quiet) as observer:
        results = runner.run(
            loaded,
            testbed=testbed,
            lab=lab,
            out=out,
            jobs=workers,
            resume=resume,
            shard=share,
            cluster=cluster,
            observer=observer,
        )
    # A share of a sweep is not reported on unless asked for.
    _conclude(results, False if share is not None and report is None else report, quiet=quiet, json=json)


def _conclude(results: "ResultSet", report: bool | None, *, quiet: bool, json: bool) -> None:
    """Print what came of the runs, and where it is."""
    if not quiet:
        print_summary(results, json=json)
    page = write_report(results, report)
    if not quiet:
        remarks(results)
        say(f"results: {results.path}")
        if page is not None:
            say(f"report:  {page}")
    failures(results)


def _print_plan(
    loaded: "Experiment", testbed: str, lab: Path | None, workers: int, *, quiet: bool, json: bool
) -> None:
    from cwndlab import estimate, runner
    from cwndlab.parts import order
    from cwndlab.testbeds import labs

    pause = order.pause_ns(loaded.spec) if testbeds.find(testbed, lab).live else None
    with progress(quiet) as observer:
        plan = runner.check(loaded, testbed, observer, lab)
    print(estimate.as_json(plan) if json else estimate.as_text(plan, workers, pause))
    if lab is not None and not json:
        print("\n".join(labs.commands(lab)))


def merge(
    shards: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Directories of all shards.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Where results go [results/NAME-DATE].")
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Put the shards of a sweep together, and print its summary.

    The exit code is 0 only if every run completed.
    """
    from cwndlab.results import merging

    results = merging.merge(shards, out)
    if not quiet:
        print_summary(results)
        say(f"results: {results.path}")
    failures(results)
