"""`cwndlab help`, `cwndlab demo`, `cwndlab data cite` and `cwndlab dev completion`: the way in."""

import sys
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from cwndlab.cli import groups
from cwndlab.cli.output import print_answers, print_summary, progress, say, width, write_report
from cwndlab.errors import CwndlabError
from cwndlab.results.texttable import wrapped


def help_(
    context: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="A page or a command [the list of pages].")
    ] = None,
) -> None:
    """Print a page of the documentation; it needs no network."""
    from cwndlab.cli import pages

    if topic is None:
        _list_pages()
        return
    program = context.find_root()
    command, own = groups.find(program, topic.split())
    try:
        found = pages.page(topic)
    except CwndlabError:
        if command is None:
            raise
        print(own.get_help())
        return
    text = found.text()
    if "\n::: " in text:
        from cwndlab.cli import reference

        text = reference.expanded(text, groups.flat(program.command))
    _show(text)


def _list_pages() -> None:
    from cwndlab.cli import pages

    there = pages.topics()
    beside = max(len(page.name) for page in there) + 2
    for page in there:
        print(wrapped(page.name.ljust(beside) + page.reader, width(), others=" " * beside))


def _show(text: str) -> None:
    """Print Markdown: set for a terminal, as it stands for anything else."""
    if not sys.stdout.isatty():
        print(text, end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text, hyperlinks=False))


def demo(
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Where results go [results/demo-DATE].")
    ] = None,
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the report in a browser, where there is a screen.")
    ] = True,
) -> None:
    """Run a small experiment, and say what came of it: a first result in seconds."""
    from cwndlab.execution import runner
    from cwndlab.execution.executors import processors
    from cwndlab.report import interface

    text = files("cwndlab.experiment").joinpath("demo.yaml").read_text(encoding="utf-8")
    say("Two congestion controls of Linux, a small buffer and a large one, five runs of 20 s each.")
    with progress(False) as observer:
        results = runner.run(interface.load(text), out=out, jobs=processors(), observer=observer)
    print_summary(results)
    print_answers(results)
    page = write_report(results, True)
    say(f"results: {results.path}\nreport:  {page}")
    say(f"the experiment: {results.path / 'experiment.yaml'}; what to do next: cwndlab help start")
    if show and page is not None:
        _open(Path(page))


def _open(page: Path) -> None:
    """Open a page in the reader's browser, if there is a terminal and a screen to show it on."""
    import os
    import webbrowser

    if sys.stdout.isatty() and (
        sys.platform == "darwin" or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    ):
        webbrowser.open(page.resolve().as_uri())


def cite(
    suite: Annotated[
        str | None,
        typer.Argument(metavar="SUITE", help="Also the publication that a built-in suite is from."),
    ] = None,
) -> None:
    """Say how to cite cwndlab and its suites, with the version that is installed."""
    from cwndlab import _native
    from cwndlab.experiment import suites
    from cwndlab.results import software

    version = software.version()
    print(
        f"""@software{{cwndlab,
  title   = {{cwndlab: the congestion-window laboratory}},
  author  = {{{{The cwndlab authors}}}},
  version = {{{version.partition(" ")[0]}}},
  note    = {{{version}; engine {_native.version()}}},
  license = {{BSD-2-Clause}}
}}"""
    )
    for known in suites.suites() if suite is None else [suites.suite(suite)]:
        print(f"\n{known.name}: {known.source}")


class Shell(StrEnum):
    """Shells that can complete commands and options."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Which shell.")],
) -> None:
    """Print what makes a shell complete commands and options; see cwndlab help install."""
    from typer import completion as scripts

    script = getattr(scripts, "get_completion_script")  # noqa: B009 - public, and not in typer's __all__
    print(script(prog_name="cwndlab", complete_var="_CWNDLAB_COMPLETE", shell=shell.value))
