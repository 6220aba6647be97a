"""`cwndlab fidelity`, `claims`, `validate`, `script`: models beside recordings, publications, this kernel."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab.cli.options import Junit, NoProgress, Overrides, Resume, parse_pairs, parse_share
from cwndlab.cli.output import failures, judge_outcomes, progress, say
from cwndlab.errors import CwndlabError, InputError, printable

if TYPE_CHECKING:
    from cwndlab.results.resultset import ResultSet


def fidelity(
    against: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Recordings to compare with [groundtruth/ of the checkout]."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Document to rewrite [docs/evidence/fidelity.md]."),
    ] = None,
    quiet: NoProgress = False,
) -> None:
    """Compare the models with recordings of the systems they model.

    Rows outside their bounds are marked and stay; the exit code says whether every row could be compared.
    """
    from cwndlab.analysis import fidelity as models
    from cwndlab.report import fidelity_page

    directory = against or models.GROUNDTRUTH
    if against is None and not directory.is_dir():
        raise InputError(
            "the recordings are part of the source repository, not of the installed package: clone the"
            " repository and run `make fidelity` there, or name a copy of its groundtruth/ with --against"
        )
    document = out or models.REPOSITORY / "docs/evidence/fidelity.md"
    if not document.parent.is_dir():
        raise InputError(f"{document.parent}: no such directory; say with -o which file to write")
    with progress(quiet) as observer:
        rows = models.run(directory, observer)
    print(fidelity_page.text(rows), end="")
    fidelity_page.write(rows, document, str(against) if against else "groundtruth/")
    say(f"written: {document}")
    failed = [row for row in rows if row.error not in (None, models.ABSENT)]
    if failed:
        raise CwndlabError(f"{len(failed)} of {len(rows)} rows could not be compared: {failed[0].error}")


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
    from cwndlab.analysis import fidelity as models
    from cwndlab.analysis.claims import report
    from cwndlab.analysis.claims.causes import save
    from cwndlab.execution import runner
    from cwndlab.execution.executors import processors
    from cwndlab.experiment import suites as built_in
    from cwndlab.testbeds import loader

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


def validate(
    experiment: Annotated[
        str, typer.Argument(metavar="FILE|SUITE", help="Experiment whose hosts run Linux.")
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="Where results go [results/NAME-validate-DATE]."),
    ] = None,
    overrides: Overrides = None,
    document: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also put the table into this document, such as docs/evidence/fidelity.md."
        ),
    ] = None,
    within: Annotated[
        list[str] | None,
        typer.Option(
            "--within",
            metavar="METRIC=SHARE",
            help="How far the model may be from the kernel, such as goodput_mbps=3%; may be given again.",
        ),
    ] = None,
    junit: Junit = None,
    resume: Resume = False,
    quiet: NoProgress = False,
) -> None:
    """Compare the model with this machine's kernel.

    Runs an experiment on both, and prints their metrics side by side. The exit code is 0 only if every run
    completed, all is as --within says, and both are as the file expects.
    """
    from cwndlab.analysis import validation
    from cwndlab.analysis.validation import judge
    from cwndlab.execution.executors import processors
    from cwndlab.report import validation_page

    pairs = parse_pairs(within, "--within").items()
    allowed = {name: parse_share(f"--within {name}", shares[-1], least=0) for name, shares in pairs}
    judge.check(allowed)

    with progress(quiet) as observer:
        directory, model, kernel = validation.run(
            experiment, overrides or (), out, jobs=processors(), resume=resume, observer=observer
        )
    rows = validation.compare(model, kernel)
    validation_page.write(directory, rows, model, kernel, allowed)
    if document is not None:
        validation_page.write_section(document, validation_page.markdown(rows, kernel))
    print(validation_page.text(rows, allowed), end="")
    if not quiet:
        say(f"results: {directory}")
        say(f"report:  {directory / 'validate.html'}")
    found = [
        *judge.judged(rows, allowed),
        *judge.expected(model, validation.MODEL),
        *judge.expected(kernel, validation.KERNEL),
    ]
    judge_outcomes([model, kernel], found, junit, directory, quiet=quiet)


def script(
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="packetdrill scripts.")] = None,
    *,
    stack: Annotated[
        str, typer.Option(metavar="NAME", help="A modelled stack, or `live`: this host's kernel (as root).")
    ],
    define: Annotated[
        list[str] | None,
        typer.Option("--define", "-D", metavar="NAME=VALUE", help="A symbol; may be given again."),
    ] = None,
    tolerance_usecs: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="How far off its time an event may be, in place of the script's."
        ),
    ] = None,
    suite: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Run every script below DIR, and print a table instead."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="With --suite: a line of JSON for each script."),
    ] = None,
) -> None:
    """Run packetdrill scripts against a stack.

    Silent where all is as the scripts say; the exit code is 1 if a script failed, 2 if one cannot be read.
    Of a suite, scripts that need what is missing are left out and counted, and those that fail are no error.
    """
    from cwndlab.formats.scripts import collection, single

    choices = single.Choices(single.symbols(define or ()), tolerance_usecs)
    if suite is None:
        if not files:
            raise InputError("name scripts to run, or a directory of them with --suite")
        if out is not None:
            raise InputError("--out goes with --suite")
    else:
        if files:
            raise InputError(f"found {files[0]} besides --suite; it runs every script below its directory")
        results = collection.run_all(suite, stack, choices)
        if out is not None:
            collection.write(out, results)
        print(collection.table(results), end="")
        return
    worst = 0
    for file in files:
        outcome = single.run(file, stack, choices)
        for line in outcome.output:
            print(printable(line))
        if outcome.message is not None:
            say(outcome.message)
        worst = max(worst, outcome.exit_code)
    if worst:
        raise typer.Exit(worst)
