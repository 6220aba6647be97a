"""`cwndlab compare --testbed`, `script`: models beside this kernel, and stacks beside scripts."""

from pathlib import Path
from typing import Annotated

import typer

from cwndlab import testbeds
from cwndlab.cli import kernel as kernels
from cwndlab.cli.options import Junit, NoProgress, Overrides, Resume, parse_pairs, parse_share
from cwndlab.cli.output import judge_outcomes, progress, remarks, say
from cwndlab.errors import InputError, printable


def validate(
    experiment: Annotated[
        str, typer.Argument(metavar="FILE|SUITE", help="Experiment whose hosts run Linux.")
    ],
    *,
    testbed: Annotated[
        str | None, typer.Option(metavar="NAME", help="What the kernel runs on: netns, or kernel [netns].")
    ] = None,
    kernel: kernels.Chosen = None,
    patch: kernels.Patch = None,
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
    """Compare the model with this machine's kernel, or with one in virtual time.

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
    name, lab = kernels.place(kernel, patch, testbed, None, quiet=quiet)
    if name not in (None, testbeds.KERNEL, testbeds.GUEST):
        raise InputError(f"--testbed {name}: has no kernel; {testbeds.KERNEL} and {testbeds.GUEST} have one")
    with progress(quiet) as observer:
        directory, model, real = validation.run(
            experiment,
            overrides or (),
            out,
            testbed=name or testbeds.KERNEL,
            lab=lab,
            jobs=processors(),
            resume=resume,
            observer=observer,
        )
    rows = validation.compare(model, real)
    validation_page.write(directory, rows, model, real, allowed)
    if document is not None:
        validation_page.write_section(document, validation_page.markdown(rows, real))
    print(validation_page.text(rows, allowed), end="")
    if not quiet:
        remarks(real)
        say(f"results: {directory}")
        say(f"report:  {directory / 'validate.html'}")
    found = [
        *judge.judged(rows, allowed),
        *judge.expected(model, validation.MODEL),
        *judge.expected(real, validation.KERNEL),
    ]
    judge_outcomes([model, real], found, junit, directory, quiet=quiet)


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


tools = typer.Typer(add_completion=False, rich_markup_mode=None)


@tools.command(hidden=True, context_settings={"ignore_unknown_options": True})
def truth(
    context: typer.Context, words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None
) -> None:
    """Say where the models are compared with recordings and publications: in a clone of the repository."""
    name = context.info_name
    raise InputError(f"{name} is run in a clone of the repository: .venv/bin/python -m tools.truth {name}")
