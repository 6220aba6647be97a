"""The command line: parses, calls, prints. Data goes to stdout, everything else to stderr."""

import errno
import io
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from cwndlab import testbeds
from cwndlab.errors import CwndlabError, InputError, StoppedError
from cwndlab.plots import KINDS
from cwndlab.text import printable

if TYPE_CHECKING:
    from cwndlab.results.resultset import ResultSet

# What a command needs is imported inside it: `cwndlab --help` has to answer at once.


class _Commands(typer.core.TyperGroup):
    """Commands whose interruption is told as any error; typer itself would end without a word."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, typer.Abort) as error:
            # A further Ctrl-C may come while the first is on its way, which says what is left.
            first = error.__context__
            raise first if isinstance(first, StoppedError) else StoppedError("interrupted") from None


app = typer.Typer(
    name="cwndlab",
    cls=_Commands,
    help="The congestion-window laboratory: describe a TCP experiment once, run it, compare and report.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

loadlatency = typer.Typer(
    name="loadlatency",
    short_help="Measure a link under load, between two machines.",
    help="Measure capacity, responsiveness and smoothness of a link under load, between two machines.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(loadlatency)

LATEST = Path("results/latest")

REPORT_ROWS = 4 << 20
"""Rows of a table of one run above which `run` leaves the report to be asked for.

It holds a run in memory, some 250 bytes a row, while recording stays below 500 MB however long a run is."""

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of results.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the file; may be given again."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Complete results that are there.")]
NoProgress = Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines instead of a table.")]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command of `sys.argv` or `arguments` and exit: 0 done, 1 failed, 2 bad input, 130 stopped."""
    _open_streams()
    for name in ENDING:
        if signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(getattr(signal, name), _as_interrupt)
    try:
        code = app(args=arguments, prog_name="cwndlab", standalone_mode=False)
        if code == StoppedError.exit_code:
            raise KeyboardInterrupt  # before a command began, of which typer makes an exit without a word
    except SystemExit:
        raise
    except BaseException as error:
        # What is left to do is to say why we end, and nobody gains by interrupting that.
        for name in (*ENDING, "SIGINT"):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        code = _told(error)
    _exit(code if isinstance(code, int) else 0)


def _told(error: BaseException) -> int:
    """Say in one line what ended a command, and return its exit code."""
    match error:
        case CwndlabError():
            _complain(str(error))
            return error.exit_code
        case typer.TyperException():
            _complain(f"{error.format_message().rstrip('.')}{_see(error)}")
            return int(error.exit_code)
        case KeyboardInterrupt():
            _complain("interrupted")
            return StoppedError.exit_code
        case OSError():
            # One that is about no file is of stdout, and a reader that has seen enough is no error.
            if error.errno != errno.EPIPE:
                _complain(f"{error.filename or 'stdout'}: {error.strerror or error}")
            return 1
    if TRACEBACK in os.environ:
        raise error
    _complain(  # a panic of the engine is no Exception
        f"{type(error).__name__}: {error}; this is a fault of cwndlab, or of results that were altered with"
        f" their SHA256SUMS ({TRACEBACK}=1 shows where)"
    )
    return 1


ENDING = tuple(name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a command as Ctrl-C does: another program asks for it, or the terminal is gone."""

TRACEBACK = "CWNDLAB_TRACEBACK"
"""With this in the environment, an error that nobody thought of prints where it was."""


def _open_streams() -> None:
    """See that stdout and stderr are there, so that no file we open takes their place.

    What is printed to a stdout that was closed is an error, as it is of every program; what could be said on
    stderr is lost.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest that is free, so this very one. Nothing can be written to stdout then.
            os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
    # Closed above us, or given away by whoever started Python.
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files may hold what the terminal's encoding does not have.
        sys.stdout.reconfigure(errors="backslashreplace")


def _exit(code: int) -> NoReturn:
    """Exit, with an error if what was printed did not arrive."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # A reader that has seen enough, as `head`, is no error.
        if error.errno != errno.EPIPE and not code:
            _complain(f"stdout: {error.strerror}")
        code = code or 1
        # What is left in the buffer has nowhere to go, and Python must not try again.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        print(f"cwndlab {version_of('cwndlab')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
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
    _say(f"wrote {file}; run it with: cwndlab run {file}")


@app.command()
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
            "-j", "--jobs", metavar="N", help="Worker processes [one per processor; on real hosts one]."
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
    from cwndlab.parts.workers import processors

    bed = testbeds.find(testbed)
    bed.ready()
    loaded = interface.load(experiment, overrides or (), testbed)
    workers = jobs if jobs is not None else 1 if bed.real_time else processors()
    if dry_run:
        from cwndlab import estimate
        from cwndlab.parts import order

        pause = order.pause_ns(loaded.spec) if bed.real_time else None
        with _progress(quiet) as observer:
            plan = runner.check(loaded, testbed, observer)
        print(estimate.as_json(plan) if json else estimate.as_text(plan, workers, pause))
        return
    with _progress(quiet) as observer:
        results = runner.run(loaded, testbed=testbed, out=out, jobs=workers, resume=resume, observer=observer)
    if not quiet:
        _print_summary(results, json=json)
    page = _report(results, report)
    if not quiet:
        _remarks(results)
        _say(f"results: {results.path}")
        if page is not None:
            _say(f"report:  {page}")
    _failures(results)


@app.command()
def fidelity(
    against: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Recordings to compare with [groundtruth/ of the checkout]."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Document to rewrite [docs/fidelity.md]."),
    ] = None,
    quiet: NoProgress = False,
) -> None:
    """Compare the models with recordings of the systems they model.

    Rows outside their bounds are marked and stay; the exit code says whether every row could be compared.
    """
    from cwndlab import fidelity as models
    from cwndlab.fidelity import report

    directory = against or models.GROUNDTRUTH
    if against is None and not directory.is_dir():
        raise InputError(
            "the recordings are part of the source repository, not of the installed package: clone the"
            " repository and run `make fidelity` there, or name a copy of its groundtruth/ with --against"
        )
    document = out or models.REPOSITORY / "docs" / "fidelity.md"
    if not document.parent.is_dir():
        raise InputError(f"{document.parent}: no such directory; say with -o which file to write")
    with _progress(quiet) as observer:
        rows = models.run(directory, observer)
    print(report.text(rows), end="")
    report.write(rows, document, str(against) if against else "groundtruth/")
    _say(f"written: {document}")
    failed = [row for row in rows if row.error is not None]
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
            "-o", "--out", metavar="FILE", help="Document to write [docs/claims.md, for all suites]."
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", metavar="N", help="Worker processes [one per processor].")
    ] = None,
    quiet: NoProgress = False,
) -> None:
    """Check what the suites' publications claim.

    Runs the suites and says of each claim whether our figure agrees. Runs that are there already are kept, as
    by `run --resume`. A claim that differs is no error.
    """
    from cwndlab import claims as published
    from cwndlab import fidelity as models
    from cwndlab import runner
    from cwndlab import suites as built_in
    from cwndlab.claims import report
    from cwndlab.parts.workers import processors
    from cwndlab.testbeds import loading

    stated = published.claims()
    known = list(dict.fromkeys(claim.suite for claim in stated if claim.suite is not None))
    for name in suites or ():
        if name not in known:
            raise InputError(f"no claim is about {name!r}; suites with claims are {', '.join(known)}")
    wanted = suites or known
    document = out or (None if suites else models.REPOSITORY / "docs" / "claims.md")
    if document is not None and not document.parent.is_dir():
        raise InputError(f"{document.parent}: no such directory; say with -o which file to write")
    workers = jobs if jobs is not None else processors()
    at_hand = {}
    for name in wanted:
        directory = results / name
        _say(f"suite {name}: {directory}")
        with _progress(quiet) as observer:
            at_hand[name] = runner.run(
                loading.load(built_in.suite(name).path),
                out=directory,
                jobs=workers,
                resume=directory.is_dir(),
                observer=observer,
            )
        _failures(at_hand[name])
    chosen = [claim for claim in stated if not suites or claim.suite in suites]
    judgements = published.judge(chosen, at_hand)
    print(report.text(judgements), end="")
    if document is not None:
        report.write(judgements, document)
        _say(f"written: {document}")


@app.command()
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
        typer.Option(metavar="FILE", help="Also put the table into this document, such as docs/fidelity.md."),
    ] = None,
    resume: Resume = False,
    quiet: NoProgress = False,
) -> None:
    """Compare the model with this machine's kernel.

    Runs an experiment on both, and prints their figures side by side. Differences are shown, not judged: the
    exit code is 0 if every run completed.
    """
    from cwndlab import validation
    from cwndlab.parts.workers import processors
    from cwndlab.validation import report

    with _progress(quiet) as observer:
        directory, model, kernel = validation.run(
            experiment, overrides or (), out, jobs=processors(), resume=resume, observer=observer
        )
    rows = validation.compare(model, kernel)
    report.write(directory, rows, model, kernel)
    if document is not None:
        report.write_section(document, report.markdown(rows, kernel))
    print(report.text(rows), end="")
    if not quiet:
        _say(f"results: {directory}")
        _say(f"report:  {directory / 'validate.html'}")
    _failures(model)
    _failures(kernel)


@app.command()
def script(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="packetdrill scripts.")],
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
) -> None:
    """Run packetdrill scripts against a stack.

    Silent where all is as the scripts say; the exit code is 1 if a script failed, 2 if one cannot be read.
    """
    from cwndlab import scripts

    symbols = scripts.symbols(define or ())
    worst = 0
    for file in files:
        outcome = scripts.run(file, stack, symbols, tolerance_usecs)
        for line in outcome.output:
            print(printable(line))
        if outcome.message is not None:
            _say(outcome.message)
        worst = max(worst, outcome.exit_code)
    if worst:
        raise typer.Exit(worst)


@app.command()
def suites() -> None:
    """List the built-in experiments."""
    import textwrap

    from cwndlab import suites as built_in

    there = built_in.suites()
    beside = max(len(suite.name) for suite in there) + 2
    for suite in there:
        head = suite.name.ljust(beside)
        print(textwrap.fill(head + suite.title, _width(), subsequent_indent=" " * beside))


@app.command()
def show(
    directory: Directory = LATEST,
    every: Annotated[bool, typer.Option("--all", help="Show every row, however many.")] = False,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Columns of summary.csv to show, a row per flow and run."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="First check every recorded row by its hash.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the summary of results again."""
    from cwndlab import interface

    results = interface.ResultSet(directory)
    if verify:
        results.verify()
    _print_summary(results, every=every, columns=columns, json=json)


@app.command()
def plot(
    directory: Directory = LATEST,
    *,
    kind: Annotated[
        str, typer.Option(metavar="KIND", help="; ".join(f"{name}: {about}" for name, about in KINDS.items()))
    ] = "cwnd",
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help=".png, .svg or .pdf [DIR/KIND.png].")
    ] = None,
    published: Annotated[
        list[str] | None,
        typer.Option(
            "--figure",
            metavar="NUMBER|all",
            help="A figure of the suite's publication, by its number there; may be given again. "
            "Files go to the directory FILE [DIR/figures].",
        ),
    ] = None,
    runs: Annotated[
        list[str] | None, typer.Option("--run", metavar="ID", help="A run to show; may be given again.")
    ] = None,
    flows: Annotated[
        list[str] | None, typer.Option("--flow", metavar="NAME", help="A flow to show; may be given again.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Only runs with this value of a swept key; may be given again."
        ),
    ] = None,
    window: Annotated[
        str | None, typer.Option(metavar="FROM:TO", help="Seconds of each run to show.")
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of the summary or of a series (as TABLE.COLUMN)."),
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Second column, of the kind delay [rtt_mean_ms].")
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Swept key to group by; may be given again.")
    ] = None,
    average: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Length of a throughput window.")
    ] = None,
    overlap: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="Share of a throughput window that the next repeats, such as 75%."
        ),
    ] = None,
    hop: Annotated[str | None, typer.Option(metavar="NAME", help="The hop whose queue is shown.")] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--label", metavar="TEXT", help="A legend name, in the order drawn; may be given again."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Title of the figure.")] = None,
    xlim: Annotated[str | None, typer.Option(metavar="FROM:TO", help="Range of the x axis.")] = None,
    ylim: Annotated[str | None, typer.Option(metavar="FROM:TO", help="Range of the y axis.")] = None,
    log: Annotated[str | None, typer.Option(metavar="x|y|xy", help="Logarithmic axes.")] = None,
    zero: Annotated[str | None, typer.Option(metavar="run|flow", help="Where time 0 is.")] = None,
    panels: Annotated[str | None, typer.Option(metavar="run|flow", help="One panel for each.")] = None,
    points: Annotated[bool, typer.Option(help="Show single values in box plots.")] = True,
    confidence: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Of the intervals of bars [95%].")
    ] = None,
    size: Annotated[str | None, typer.Option(metavar="paper|slide", help="What the figure is for.")] = None,
    footnote: Annotated[bool, typer.Option("--footnote", help="Print the command below the figure.")] = False,
) -> None:
    """Draw a figure of results."""
    from cwndlab import interface

    results = interface.ResultSet(directory)
    target = out if out is not None else directory / f"{kind}.png"
    chosen = {
        "runs": runs,
        "flows": flows,
        "where": _pairs(where),
        "window": _span("--window", window),
        "value": value,
        "against": against,
        "by": by,
        "average": average,
        "overlap": _optional_share("--overlap", overlap, least=0),
        "hop": hop,
        "labels": labels,
        "title": title,
        "xlim": _span("--xlim", xlim),
        "ylim": _span("--ylim", ylim),
        "log": log,
        "zero": zero,
        "panels": panels,
        "confidence": _optional_share("--confidence", confidence),
        "size": size,
        "footnote": footnote,
    }
    # An option that was not given stays with the figure's own default; a 0 was given.
    options: dict[str, Any] = {
        name: option for name, option in chosen.items() if option not in (None, {}, [])
    }
    if published is None:
        results.plot(kind, target, command=_command(), points=points, **options)
        print(target)
        return
    if options.keys() - {"size", "footnote"}:
        raise InputError(
            "--figure: the publication says what is shown; only --size and --footnote go with it"
        )
    from cwndlab.plots import published as plots

    for file in plots.draw(results, published, out or directory / "figures", options, _command()):
        print(file)


@app.command()
def report(
    directory: Directory = LATEST,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="The file [DIR/report.html].")
    ] = None,
) -> None:
    """Write the report of results, one HTML file."""
    from cwndlab import interface
    from cwndlab.plots.report import write

    print(write(interface.ResultSet(directory), out if out is not None else directory / "report.html"))


class _ManyFiles(typer.core.TyperCommand):
    """A command whose `--a` and `--b` take all that follows, as a shell spells out `before/*.json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give each file an option of its own."""
        spelt: list[str] = []
        taking = ""
        for word in args:
            if word in ("--a", "--b"):
                taking = word
            elif word.startswith("-") or not taking:
                taking = ""
                spelt.append(word)
            else:
                spelt += [taking, word]
        return super().parse_args(ctx, spelt)


@app.command(cls=_ManyFiles)
def compare(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR", help="Directories of results: two, or one with --by."),
    ] = None,
    *,
    by: Annotated[
        str | None, typer.Option(metavar="KEY", help="Compare the values of a swept key in one directory.")
    ] = None,
    a: Annotated[
        list[Path] | None,
        typer.Option(
            "--a", metavar="FILE...", help="Other tools' files: iperf3 JSON, iperf text, SIFTR, ..."
        ),
    ] = None,
    b: Annotated[
        list[Path] | None, typer.Option("--b", metavar="FILE...", help="Those to compare them with.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option("--metric", metavar="A,B,...", help="Columns of the summary [goodput_mbps].")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="VALUE", help="Value of the key to compare with [the first].")
    ] = None,
    all_pairs: Annotated[bool, typer.Option("--all-pairs", help="Compare every pair of values.")] = False,
    flow: Annotated[
        str | None, typer.Option(metavar="NAME", help="One flow [all of each run together].")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only runs with this value of a key; may be given again."),
    ] = None,
    confidence: Annotated[str, typer.Option(metavar="SHARE", help="How sure to be.")] = "95%",
    equivalent: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Test also whether they differ by less, such as 3%.")
    ] = None,
    ministat: Annotated[
        bool, typer.Option("--ministat", help="Print each comparison as FreeBSD's ministat does, too.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Of the random resamples and arrangements.")
    ] = 1,
    json: Json = False,
) -> None:
    """Say whether there is a difference, and how sure that is.

    Runs are the unit. Verdicts come first, then what they rest on: intervals, permutation tests corrected for
    the number of comparisons, the smallest difference that would have shown, and the runs needed.
    """
    from cwndlab import interface
    from cwndlab.analysis import contrasts, verdict
    from cwndlab.analysis.comparison import Options

    options = Options(_share("--confidence", confidence), _optional_share("--equivalent", equivalent), seed)
    names = [name.strip() for name in metrics.split(",")] if metrics is not None else []
    selection = contrasts.Selection(names, flow, _pairs(where))
    places = directories or []
    if a or b:
        if places or by is not None or flow is not None or where:
            raise InputError("--a and --b compare files: no directory, --by, --flow or --where beside them")
        if not (a and b):
            raise InputError("--a and --b: give files to both")
        found = contrasts.of_files(_globbed(a), _globbed(b), names, options)
    elif by is not None and len(places) < 2:
        results = interface.ResultSet(places[0] if places else LATEST)
        found = contrasts.by_key(results, by, selection, options, baseline=baseline, every_pair=all_pairs)
    elif len(places) == 2 and by is None:
        found = contrasts.of_two(
            interface.ResultSet(places[0]), interface.ResultSet(places[1]), selection, options
        )
    else:
        raise InputError("compare: give two directories, one with --by KEY, or --a FILES --b FILES")
    if json:
        print(verdict.json_lines(found), end="")
    else:
        print(verdict.text(found))
        if ministat:
            print("".join(f"\n{text}\n" for text in verdict.as_ministat(found)), end="")


@app.command("import")
def import_(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH", help="Files or directories of other tools, or one TEACUP configuration."
        ),
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

    A TEACUP configuration becomes an experiment file.
    """
    from cwndlab.formats import importing
    from cwndlab.formats.capture import Options

    if len(paths) == 1 and importing.is_configuration(paths[0]):
        written, converted = importing.configuration(paths[0], out, stack=stack, prefix=prefix)
        if not quiet:
            print("\n".join(converted.test_ids if test_ids else importing.findings(converted, json=json)))
            command = f"cwndlab run {shlex.quote(str(written))}"
            _say(f"{len(converted.test_ids)} runs: {written}; run them with: {command}")
        return
    skipped: list[str] = []
    results = importing.results(paths, Options(window, step, count, same_clock), out, skipped)
    if not quiet:
        for line in skipped:
            _say(f"skipped: {line}")
        _print_summary(results, json=json)
        _say(f"results: {results.path}")


@app.command()
def export(
    directory: Directory = LATEST,
    *,
    form: Annotated[
        str, typer.Option("--format", metavar="csv|parquet|flent|xplot|siftr", help="What to write.")
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
    from cwndlab import interface
    from cwndlab.formats import exporting

    results = interface.ResultSet(directory)
    target = out if out is not None else directory / f"export-{form}"
    for file in exporting.export(results, form, target, runs or ()):
        print(file)


LOADLATENCY_PORT = 55011
"""Port of loadlatency unless another is given (crates/loadlatency/src/wire.rs)."""

Port = Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="TCP port.")]
Secret = Annotated[
    str,
    typer.Option(
        envvar="LOADLATENCY_SECRET", show_envvar=True, metavar="TEXT", help="What both ends have to know."
    ),
]
IdleTimeout = Annotated[
    int, typer.Option(min=1, metavar="S", help="Give up an end that is silent for so long.")
]


@loadlatency.command("serve")
def loadlatency_serve(
    *,
    bind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Listen there [127.0.0.1 and ::1]; may be given again; 0.0.0.0 and :: are all addresses.",
        ),
    ] = None,
    port: Port = LOADLATENCY_PORT,
    secret: Secret = "",
    cc: Annotated[str | None, typer.Option(metavar="NAME", help="Congestion control of downloads.")] = None,
    once: Annotated[bool, typer.Option("--once", help="End after one client.")] = False,
    idle_timeout: IdleTimeout = 60,
    session_timeout: Annotated[
        int, typer.Option(min=1, metavar="S", help="Give up a client after so long.")
    ] = 4 * 3600,
) -> None:
    """Serve one client at a time, until interrupted."""
    from cwndlab import loadlatency as tool

    tool.serve(tool.Server(tuple(bind or ()), port, secret, cc, once, idle_timeout, session_timeout))


@loadlatency.command("run")
def loadlatency_run(
    host: Annotated[str, typer.Argument(metavar="HOST", help="Name or address of the server.")],
    *,
    port: Port = LOADLATENCY_PORT,
    secret: Secret = "",
    scenario: Annotated[
        str | None,
        typer.Option(
            metavar="N,N-M,...", help="Which of the nineteen scenarios [all; with --staircase none]."
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="Length of each scenario [until stable], or of a step of the staircase [5]."
        ),
    ] = None,
    at_most: Annotated[
        float, typer.Option(metavar="S", help="Force a scenario that does not become stable to end then.")
    ] = 600.0,
    staircase: Annotated[
        bool, typer.Option("--staircase", help="An upload and a download more at every step.")
    ] = False,
    cc: Annotated[str | None, typer.Option(metavar="NAME", help="Congestion control of uploads.")] = None,
    ipv4: Annotated[bool, typer.Option("-4", help="Only IPv4.")] = False,
    ipv6: Annotated[bool, typer.Option("-6", help="Only IPv6.")] = False,
    idle_timeout: IdleTimeout = 60,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the measurements as JSON; - for stdout."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            help="Where results go [results/loadlatency-DATE; with --json nowhere].",
        ),
    ] = None,
    classic: Annotated[bool, typer.Option("--classic", help="Print nothing but the classic output.")] = False,
) -> None:
    """Measure the link to a server.

    In the nineteen scenarios of 2011, and by today's figures.
    """
    from cwndlab import files
    from cwndlab import loadlatency as tool

    if ipv4 and ipv6:
        raise InputError("-4 and -6: found both; expected one of them")
    version = 4 if ipv4 else 6 if ipv6 else None
    chosen = tool.scenarios(scenario)
    tool.check_places(json_file, out)
    outcome = tool.measure(
        tool.Measurement(host, port, secret, chosen, duration, at_most, staircase, cc, version, idle_timeout)
    )
    if not classic:
        print(f"\n{outcome.text}", end="")
    if str(json_file) == "-":
        print(outcome.document)
    elif json_file is not None:
        files.save(json_file, (outcome.document + "\n").encode())
    if outcome.scenarios and (out is not None or json_file is None):
        _say(f"results: {tool.keep(outcome, out).path}")
    if outcome.interrupted:
        raise StoppedError("interrupted")
    if outcome.error is not None:
        raise CwndlabError(outcome.error)


@app.command()
def trace(
    capture: Annotated[Path, typer.Argument(metavar="CAPTURE", help="A pcap or pcapng file, gzip or not.")],
    *,
    text: Annotated[
        bool, typer.Option("--text", help="A line for each TCP packet, as `tcpdump -n -ttttt -r` prints it.")
    ] = False,
    flights: Annotated[
        bool,
        typer.Option(
            "--flights",
            help="With --text: data that follows in sequence on one line, until the other side sends.",
        ),
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="With --text: at most N lines.")
    ] = None,
) -> None:
    """Print the connections of a capture, or its packets.

    Connections are lines of JSON, packets with --text lines of text.
    """
    import json

    from cwndlab import _native

    if not text and (flights or limit is not None):
        raise InputError("--flights and --limit are of the lines that --text prints: give --text, too")
    if not capture.is_file():
        raise InputError(f"{capture}: {'not a file' if capture.exists() else 'no such file'}")
    try:
        if text:
            _native.packet_text(str(capture), flights, limit, sys.stdout.write)
            return
        connections = _native.Capture(str(capture), False).connections()
    except ValueError as error:
        raise InputError(f"{capture}: {error}") from None
    for connection in connections:
        print(json.dumps(connection))


@app.command()
def schema() -> None:
    """Print the experiment file's JSON Schema, for editors."""
    import json

    from cwndlab.testbeds.schema import for_editors

    print(json.dumps(for_editors(), indent=2, ensure_ascii=False))


@app.command()
def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove what crashed runs on this machine left, and nothing else.")
    ] = False,
) -> None:
    """Say what this machine can do."""
    from cwndlab import doctor as examination

    if clean:
        for name in examination.clean():
            print(name)
        return
    print(examination.as_json() if json else examination.as_text())


def _print_summary(
    results: "ResultSet", *, every: bool = False, columns: str | None = None, json: bool = False
) -> None:
    from cwndlab.results import display

    names = [name.strip() for name in columns.split(",")] if columns is not None else ()
    if json:
        print(display.json_lines(results, names), end="")
    else:
        print(display.table(results, width=_width(), every=every, columns=names))
        _print_classic(results)


def _print_classic(results: "ResultSet") -> None:
    """The lines of the loadlatency tool, where there are scenarios of it."""
    from cwndlab.results import loadlatency

    lines = loadlatency.classic(results)
    if lines:
        print(f"\n{lines}", end="")


def _report(results: "ResultSet", wanted: bool | None) -> str | None:
    """Write the report of a finished run if wanted, or unless it is too large; returns what to say of it."""
    if wanted is False:
        return None
    most = max((table.rows for record in results.records() for table in record.tables.values()), default=0)
    if wanted is None and most > REPORT_ROWS:
        command = f"cwndlab report {shlex.quote(str(results.path))}"
        return f"not written, as a run has {most} rows; {command} does it all the same"
    from cwndlab.plots.report import write

    return str(write(results, results.path / "report.html"))


MAX_REMARKS = 5
"""Warnings, and notes, that `run` prints; the report has all."""


def _remarks(results: "ResultSet") -> None:
    """Print what to check before trusting the runs, and what was decided for them, each once."""
    records = list(results.records())
    for kind, word in (("warnings", "warning"), ("notes", "note")):
        said = list(dict.fromkeys(text for record in records for text in getattr(record, kind)))
        for text in said[:MAX_REMARKS]:
            _say(f"{word}: {text}")
        if len(said) > MAX_REMARKS:
            _say(f"{word}: {len(said) - MAX_REMARKS} more {kind}, which the report has")


def _failures(results: "ResultSet") -> None:
    """Say which runs failed and why, and raise if any did."""
    failed = [record for record in results.records() if record.status != "complete"]
    for record in failed[:5]:
        cell = "".join(f", {key} {value}" for key, value in record.cell.items())
        _say(f"run {record.run_id}{cell} failed: {record.error}")
    if failed:
        raise CwndlabError(
            f"{len(failed)} of {results.runs.height} runs failed; {results.path} holds the others"
        )


@contextmanager
def _progress(quiet: bool) -> Iterator[Any]:
    if quiet:
        yield None
        return
    from cwndlab.progress import ProgressDisplay

    with ProgressDisplay() as display:
        yield display


def _width() -> int:
    if not sys.stdout.isatty():
        return 80
    import shutil

    return max(80, shutil.get_terminal_size((80, 24)).columns)


def _pairs(texts: list[str] | None) -> dict[str, list[str]]:
    """`KEY=VALUE` options by key; a key given again allows several values."""
    pairs: dict[str, list[str]] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise InputError(f"--where: found {text!r}; expected KEY=VALUE")
        pairs.setdefault(key, []).append(value)
    return pairs


def _share(option: str, text: str, *, least: float | None = None) -> float:
    """A share below 1, written so or in per cent: above 0, or from `least`."""
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not (0 < number < 1 or number == least):
        bounds = "between 0 and 1" if least is None else f"from {least:g} to below 1"
        raise InputError(f"{option}: found {text!r}; expected a share {bounds}, such as 0.95 or 95%")
    return number


def _optional_share(option: str, text: str | None, *, least: float | None = None) -> float | None:
    return None if text is None else _share(option, text, least=least)


def _globbed(paths: list[Path]) -> list[Path]:
    """The files; a pattern that no shell spelt out is spelt out here."""
    found: list[Path] = []
    for path in paths:
        if path.exists() or not any(sign in path.name for sign in "*?["):
            found.append(path)
            continue
        matching = sorted(path.parent.glob(path.name))
        if not matching:
            raise InputError(f"{path}: no file matches")
        found += matching
    return found


def _span(option: str, text: str | None) -> tuple[float | None, float | None] | None:
    """`FROM:TO`, either of which may be missing."""
    if text is None:
        return None
    try:
        start, end = (float(number) if number.strip() else None for number in text.split(":"))
    except ValueError:
        raise InputError(f"{option}: found {text!r}; expected FROM:TO, such as 10:20 or 10:") from None
    return start, end


def _command() -> str:
    return shlex.join(["cwndlab", *sys.argv[1:]])


def _as_interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _see(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f" (see {context.command_path} --help)" if context is not None else ""


def _say(text: str) -> None:
    with suppress(OSError):  # whoever closed stderr wants to hear nothing
        print("\n".join(map(printable, text.split("\n"))), file=sys.stderr, flush=True)


def _complain(text: str) -> None:
    _say(f"error: {printable(' '.join(text.split()))}")
