"""`cwndlab compare --build`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab.cli import kernel as kernels
from cwndlab.cli import kernel_patch
from cwndlab.cli.options import Guests, Json, Metrics, Overrides, Resume, parse_optional_share
from cwndlab.cli.output import failures, progress, remarks, say, width
from cwndlab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cwndlab.execution.ab import Bench
    from cwndlab.report.interface import Experiment
    from cwndlab.results.resultset import ResultSet


def ab(
    experiment: Annotated[str, typer.Argument(metavar="FILE|SUITE", help="Experiment.")],
    *,
    lab: Annotated[
        Path | None,
        typer.Option("--lab", metavar="FILE", help="Lab file, with the builds that are compared."),
    ] = None,
    base: Annotated[str | None, typer.Option(metavar="BUILD", help="Without the change.")] = None,
    new: Annotated[str | None, typer.Option(metavar="BUILD", help="With it.")] = None,
    kernel: kernels.Compared = None,
    guest: Guests = None,
    patch: kernels.PatchOfAny = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Where results go [results/FILE-ab].")
    ] = None,
    overrides: Overrides = None,
    resume: Resume = False,
    metrics: Metrics = None,
    equivalent: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Test also whether they differ by less, such as 3%.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and run nothing.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but the verdict.")] = False,
    json: Json = False,
) -> None:
    """Run an experiment with two builds of a stack on machines of your own, and compare them.

    The builds take turns, A B B A, so that what drifts with time meets both alike; `builds` in the lab file
    says which machines have them, or which commands switch to them. A patch outside the congestion controls
    (SACK, output, RACK) is judged here, or without machines by compare --patch of a source tree.
    """
    from cwndlab.analysis import contrasts, verdict
    from cwndlab.analysis.comparison import Options

    options = Options(equivalent=parse_optional_share("--equivalent", equivalent))
    names = [name.strip() for name in metrics.split(",")] if metrics is not None else []
    if kernel is not None or guest or patch is not None:
        if lab or base or new or out or resume or dry_run:
            others = "--lab, --base, --new, -o, --resume and --dry-run"
            raise InputError(f"compare --build: --patch and its tree go without {others}")
        files, changes = [Path(experiment)], overrides or ()
        ((of_base, of_new),) = kernel_patch.before_and_after(
            kernel, patch, files, guest or (), changes, quiet=quiet
        )
    elif lab is None or base is None or new is None:
        raise InputError(
            "compare --build: give --lab FILE, --base BUILD and --new BUILD, or --patch FILE with its tree"
        )
    else:
        from cwndlab.execution.ab import Bench

        bench = Bench(lab, base, new, (lambda text: None) if quiet else say)
        found = _on_machines(
            bench, experiment, overrides or (), out, resume=resume, quiet=quiet, plan=dry_run
        )
        if found is None:
            return
        of_base, of_new = found
    compared = contrasts.of_two(of_base, of_new, contrasts.Selection(names), options)
    print(verdict.json_lines(compared) if json else verdict.text(compared), end="" if json else "\n")
    for results in (of_base, of_new):
        if not quiet and patch is None:
            remarks(results)
            say(f"results: {results.path}")
    for results in (of_base, of_new):
        failures(results)


def _on_machines(
    bench: "Bench",
    experiment: str,
    overrides: "Sequence[str]",
    out: Path | None,
    *,
    resume: bool,
    quiet: bool,
    plan: bool,
) -> "tuple[ResultSet, ResultSet] | None":
    """The results of both builds; None where only the plan was wanted, and printed."""
    from cwndlab import testbeds
    from cwndlab.execution import ab as builds
    from cwndlab.report import interface

    bench.ready()

    def read(of_build: Path) -> "Experiment":
        return interface.load(experiment, overrides, testbeds.DISTANT, lab=of_build)

    if plan:
        _print_plan(bench, read(bench.labs[bench.base]))
        return None
    directory = builds.directory_of(Path(experiment).stem, out, resume=resume)
    with progress(quiet) as observer:
        return builds.run(bench, read, directory, observer)


def _print_plan(bench: "Bench", loaded: "Experiment") -> None:
    from cwndlab import testbeds
    from cwndlab.execution import ab as builds
    from cwndlab.execution import estimate, run_order, runner

    plan = runner.check(loaded, testbeds.DISTANT, None, bench.labs[bench.base])
    print(estimate.as_text(plan, 1, run_order.pause_ns(loaded.spec), width()))
    print("all of it with each build:")
    for turn in builds.turns(bench.base, bench.new, plan.repeat):
        print(f"  {turn.build}: repeats {', '.join(map(str, turn.repeats))}")
    print("\n".join(testbeds.commands(testbeds.DISTANT, bench.lab)))
