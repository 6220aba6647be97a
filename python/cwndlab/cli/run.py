"""`cwndlab init` and `cwndlab run`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cwndlab import testbeds
from cwndlab.cli import kernel as kernels
from cwndlab.cli.options import (
    Experiment,
    Guests,
    Jobs,
    Junit,
    Lab,
    Modules,
    Open,
    Overrides,
    Resume,
    Testbed,
)
from cwndlab.cli.output import (
    judge,
    open_page,
    print_answers,
    print_summary,
    progress,
    remarks,
    say,
    width,
    write_report,
)
from cwndlab.errors import InputError

if TYPE_CHECKING:
    from cwndlab.execution.executor import Observer
    from cwndlab.report.interface import Experiment as Loaded
    from cwndlab.results.resultset import ResultSet


def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Say which version this is, or how to use it, where no command is given."""
    if version:
        from cwndlab.results import software

        print(f"cwndlab {software.release()}")
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
    experiment: Experiment,
    *,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Where results go [results/NAME-DATE].")
    ] = None,
    testbed: Testbed = None,
    lab: Lab = None,
    kernel: kernels.Chosen = None,
    patch: kernels.PatchOfAny = None,
    overrides: Overrides = None,
    jobs: Jobs = None,
    resume: Resume = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the results in DIR, once the new ones stand.")
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Carry out one of N shares; see cwndlab data merge."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS|FILE", help="Dask scheduler whose workers carry the runs out."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and run nothing.")] = False,
    report: Annotated[
        bool | None, typer.Option(help="Write DIR/report.html [unless it takes much memory].")
    ] = None,
    show: Open = False,
    junit: Junit = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines: the progress to stderr, the results to stdout.")
    ] = False,
    cc: Modules = None,
    guest: Guests = None,
    cc_private: Annotated[
        bool, typer.Option("--cc-private", help="Keep the text of --cc out of the results.")
    ] = False,
) -> None:
    """Run an experiment and print its summary.

    The exit code is 0 only if every run completed, and everything is as the file expects.
    """
    from cwndlab.execution.shards import Shard
    from cwndlab.report import interface

    share = None if shard is None else Shard.parse(shard)
    if force and (out is None or resume or share is not None):
        raise InputError("--force goes with -o DIR, and not with --resume or --shard")
    if show and report is False:
        raise InputError("--open needs the report, which --no-report leaves out")
    testbed, lab = kernels.place(kernel, patch if kernel else None, testbed, lab, quiet=quiet)
    where = place(testbed, lab)
    loaded = interface.load(
        experiment,
        overrides or (),
        where.testbed,
        lab=lab,
        cc=cc or (),
        cc_private=cc_private,
        guest=guest or (),
        patch=None if kernel else patch,
    )
    if dry_run:
        _print_plan(loaded, where, jobs, quiet=quiet, json=json)
        return
    ways: dict[str, Any] = {"resume": resume, "shard": share, "cluster": cluster}
    with progress(quiet, json=json) as observer:
        results = carry_out(loaded, where, out, jobs, observer, force=force, **ways)
    # A share of a sweep is not reported on unless asked for.
    wanted = True if show else bool(report) if share is not None else report
    conclude(results, wanted, junit, quiet=quiet, json=json, show=show)


@dataclass(frozen=True)
class Where:
    """Testbed that carries the packets, and the default number of workers."""

    testbed: str
    lab: Path | None
    workers: int
    facts: testbeds.Facts


def place(testbed: str | None, lab: Path | None) -> Where:
    """The testbed that is asked for, which must be ready."""
    from cwndlab.execution.executors import processors

    name = testbed or (testbeds.MODEL if lab is None else testbeds.DISTANT)
    testbeds.find(name, lab).ready()
    facts = testbeds.facts(name)
    return Where(name, lab, 1 if facts.shares_machine else processors(), facts)


def carry_out(
    loaded: "Loaded",
    where: Where,
    out: Path | None,
    jobs: int | None,
    observer: "Observer | None",
    *,
    force: bool = False,
    **ways: Any,
) -> "ResultSet":
    """Carry an experiment out; `force` replaces the results in `out`, `ways` are those of `runner.run`."""
    from cwndlab.execution import runner

    workers = where.workers if jobs is None else jobs
    ways |= {"testbed": where.testbed, "lab": where.lab, "jobs": workers, "observer": observer}
    if force and out is not None:
        return runner.replace(loaded, out, **ways)
    return runner.run(loaded, out=out, **ways)


def conclude(
    results: "ResultSet",
    report: bool | None,
    junit: Path | None,
    *,
    quiet: bool,
    json: bool = False,
    show: bool = False,
) -> None:
    """Print what came of the runs, and where it is."""
    if not quiet:
        print_summary(results, json=json)
    page = write_report(results, report)
    if page is not None and not quiet and not json:
        # With --no-report nothing is loaded that compares runs: it would take longer than many a run.
        print_answers(results)
    if not quiet:
        remarks(results)
        say(f"results: {results.path}")
        if page is not None:
            say(f"report:  {page}")
    if show and page is not None:
        open_page(page)
    judge(results, junit, quiet=quiet)


def _print_plan(loaded: "Loaded", where: Where, jobs: int | None, *, quiet: bool, json: bool) -> None:
    from cwndlab.execution import estimate, run_order, runner

    pause = run_order.pause_ns(loaded.spec) if where.facts.takes_real_time else None
    with progress(quiet, json=json) as observer:
        plan = runner.check(loaded, where.testbed, observer, where.lab)
    workers = where.workers if jobs is None else jobs
    print(estimate.as_json(plan) if json else estimate.as_text(plan, workers, pause, width()))
    if where.lab is not None and not json:
        print("\n".join(testbeds.commands(where.testbed, where.lab)))


def merge(
    shards: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Directories of all shards.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Where results go [results/NAME-DATE].")
    ] = None,
    junit: Junit = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Put the shards of a sweep together, and print its summary.

    The exit code is 0 only if every run completed, and everything is as the experiment expects.
    """
    from cwndlab.execution import merge

    results = merge.merge(shards, out)
    if not quiet:
        print_summary(results)
        say(f"results: {results.path}")
    judge(results, junit, quiet=quiet)
