"""`python -m tools.truth` in a clone of the repository: `claims`, `fidelity`, `record`, `replay`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab.cli import main
from cwndlab.cli.options import NoProgress
from cwndlab.cli.output import failures, progress, say
from cwndlab.errors import CwndlabError, InputError

if TYPE_CHECKING:
    from cwndlab.results.resultset import ResultSet

app = typer.Typer(
    name="truth",
    help="The models beside what is known of real systems.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Against = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Recordings to compare with [groundtruth/ of the clone].")
]


@app.command()
def fidelity(
    against: Against = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Document to rewrite [docs/evidence/fidelity.md]."),
    ] = None,
    quiet: NoProgress = False,
) -> None:
    """Compare the models with recordings of the systems they model.

    Rows outside their bounds are marked and stay; the exit code says whether every row could be compared.
    """
    from tools.truth import fidelity as models
    from tools.truth.fidelity import page

    directory = against or models.GROUNDTRUTH
    document = out or models.REPOSITORY / "docs/evidence/fidelity.md"
    if not document.parent.is_dir():
        raise InputError(f"{document.parent}: no such directory; say with -o which file to write")
    with progress(quiet) as observer:
        rows = models.run(directory, observer)
    print(page.text(rows), end="")
    page.write(rows, document, str(against) if against else "groundtruth/")
    say(f"written: {document}")
    failed = [row for row in rows if row.error not in (None, models.ABSENT)]
    if failed:
        raise CwndlabError(f"{len(failed)} of {len(rows)} rows could not be compared: {failed[0].error}")


@app.command()
def claims(
    suites: Annotated[
        list[str] | None, typer.Argument(metavar="SUITE", help="Only the claims of these suites.")
    ] = None,
    *,
    results: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the suites' results are or go, a directory each.")
    ] = Path("results/claims"),
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help="Document to write [docs/evidence/claims.md, for all suites]."
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", metavar="N", help="Worker processes [one per processor].")
    ] = None,
    quiet: NoProgress = False,
) -> None:
    """Check what the suites' publications claim.

    Runs the suites and says of each claim whether our metric agrees; then, of those that differ, what an
    experiment with another assumption shows. Runs that are there already are kept, as by `run --resume`. A
    claim that differs is no error.
    """
    from cwndlab.analysis import claims as published
    from cwndlab.analysis.claims.causes import save
    from cwndlab.execution import runner
    from cwndlab.execution.executors import processors
    from cwndlab.experiment import suites as built_in
    from cwndlab.testbeds import loader
    from tools.truth import claims_page as report
    from tools.truth import fidelity as models

    stated = published.claims()
    known = list(dict.fromkeys(claim.suite for claim in stated if claim.suite is not None))
    for name in suites or ():
        if name not in known:
            raise InputError(f"no claim is about {name!r}; suites with claims are {', '.join(known)}")
    wanted = suites or known
    document = out or (None if suites else models.REPOSITORY / "docs/evidence/claims.md")
    if document is not None and not document.parent.is_dir():
        raise InputError(f"{document.parent}: no such directory; say with -o which file to write")
    workers = jobs if jobs is not None else processors()

    def carry_out(text: Path | str, overrides: Sequence[str], directory: Path) -> "ResultSet":
        say(f"{directory}")
        with progress(quiet) as observer:
            made = runner.run(
                loader.load(text, overrides),
                out=directory,
                jobs=workers,
                resume=directory.is_dir(),
                observer=observer,
            )
        failures(made)
        return made

    at_hand = {name: carry_out(built_in.suite(name).path, (), results / name) for name in wanted}
    chosen = [claim for claim in stated if not suites or claim.suite in suites]
    judgements = published.judge(chosen, at_hand)
    print(report.text(judgements), end="")
    causes = published.causes(
        judgements,
        at_hand,
        lambda name, changed: carry_out(changed.text(), changed.overrides, results / f"otherwise-{name}"),
    )
    print(report.count_causes(causes))
    if document is not None:
        report.write(judgements, causes, document)
        say(f"written: {document}")
    if not suites and out is None:
        save(causes)


@app.command()
def record(
    experiments: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Experiments [all of groundtruth/linux-kernel/]."),
    ] = None,
    *,
    kernel: Annotated[
        str, typer.Option(metavar="NAME", help="The kernel, as `cwndlab run --kernel` takes it.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="Where tables and series go [beside each FILE]."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", metavar="N", help="Worker processes [one per processor].")
    ] = None,
) -> None:
    """Record experiments with a Linux kernel in virtual time, for the models to be compared with.

    Writes of each FILE a table of metrics and a series of each cell, in place of those that are there.
    """
    from cwndlab.execution.executors import processors
    from tools.truth import fidelity as models
    from tools.truth.fidelity import kernel as recorder

    files = experiments or sorted((models.GROUNDTRUTH / recorder.FOLDER).glob("*.yaml"))
    if not files:
        raise InputError(f"{models.GROUNDTRUTH / recorder.FOLDER}: no experiments")
    for file in files:
        written = recorder.record(file, kernel, out or file.parent, jobs or processors())
        say(f"{file}: {len(written)} files written to {out or file.parent}")


@app.command()
def replay(against: Against = None) -> None:
    """Play recorded events of FreeBSD's congestion controls to ours.

    A line of JSON for each file: events, those after which cwnd and ssthresh are equal to the byte, largest
    differences in bytes, first differences in words. Built with cargo.
    """
    from tools.truth import fidelity as models
    from tools.truth.fidelity import vectors

    print(vectors.played(against or models.GROUNDTRUTH), end="")


if __name__ == "__main__":
    main(commands=app, name="python -m tools.truth")
