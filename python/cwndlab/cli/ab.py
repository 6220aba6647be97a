"""`cwndlab compare --build`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab.cli.options import Json, Metrics, Overrides, Resume, parse_optional_share
from cwndlab.cli.output import failures, progress, remarks, say, width

if TYPE_CHECKING:
    from cwndlab.execution.ab import Bench
    from cwndlab.report.interface import Experiment


def ab(
    experiment: Annotated[str, typer.Argument(metavar="FILE|SUITE", help="Experiment.")],
    *,
    lab: Annotated[
        Path, typer.Option("--lab", metavar="FILE", help="Lab file, with the builds that are compared.")
    ],
    base: Annotated[str, typer.Option(metavar="BUILD", help="Without the change.")],
    new: Annotated[str, typer.Option(metavar="BUILD", help="With it.")],
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
    from cwndlab import testbeds
    from cwndlab.analysis import contrasts, verdict
    from cwndlab.analysis.comparison import Options
    from cwndlab.execution import ab as builds
    from cwndlab.report import interface

    options = Options(equivalent=parse_optional_share("--equivalent", equivalent))
    names = [name.strip() for name in metrics.split(",")] if metrics is not None else []
    bench = builds.Bench(lab, base, new, (lambda text: None) if quiet else say)
    bench.ready()

    def read(of_build: Path) -> "Experiment":
        return interface.load(experiment, overrides or (), testbeds.DISTANT, lab=of_build)

    if dry_run:
        _print_plan(bench, read(bench.labs[base]))
        return
    directory = builds.directory_of(Path(experiment).stem, out, resume=resume)
    with progress(quiet) as observer:
        of_base, of_new = builds.run(bench, read, directory, observer)
    found = contrasts.of_two(of_base, of_new, contrasts.Selection(names), options)
    print(verdict.json_lines(found) if json else verdict.text(found), end="" if json else "\n")
    for results in (of_base, of_new):
        if not quiet:
            remarks(results)
            say(f"results: {results.path}")
    for results in (of_base, of_new):
        failures(results)


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
