"""Options that several commands have, and what is made of their text."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab import testbeds
from cwndlab.errors import InputError

if TYPE_CHECKING:
    from cwndlab.report.interface import ResultSet

LATEST = Path("results/latest")

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of results.")]

Directories = Annotated[
    list[str] | None,
    typer.Argument(metavar="DIR[=LABEL]...", help="Directory of results; of several, side by side."),
]


def opened(texts: list[str] | None) -> "ResultSet":
    """The results of a directory, or of several under their labels."""
    from cwndlab.report import interface
    from cwndlab.results.union import labels_of

    named = [_labelled(text) for text in texts or [str(LATEST)]]
    if len(named) == 1:
        return interface.ResultSet(named[0][0])
    short = labels_of([path for path, _ in named])
    words = [label or own for (_, label), own in zip(named, short, strict=True)]
    if len(set(words)) < len(words):
        raise InputError(f"labels: {', '.join(words)}: give each results a label of its own, as DIR=LABEL")
    pairs = zip(words, (interface.ResultSet(path) for path, _ in named), strict=True)
    return interface.together(dict(pairs))


def _labelled(text: str) -> tuple[Path, str]:
    """A directory and its label, which may be missing."""
    if Path(text).exists() or "=" not in text:
        return Path(text), ""
    path, _, label = text.rpartition("=")
    return Path(path), label


Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the file; may be given again."),
]

Metrics = Annotated[
    str | None,
    typer.Option("--metric", metavar="A,B,...", help="Columns of the summary [goodput_mbps; marked: more]."),
]

Lab = Annotated[
    Path | None,
    typer.Option("--lab", metavar="FILE", help="Lab file: which machines hosts are (implies --testbed ssh)."),
]


def _suites(incomplete: str) -> list[str]:
    """Completions of a suite's name for a shell; none for an empty word, which may become a file."""
    from cwndlab.experiment import suites

    return [suite.name for suite in suites.suites() if incomplete and suite.name.startswith(incomplete)]


def _testbeds(incomplete: str) -> list[str]:
    """Completions of a testbed's name for a shell."""
    return [name for name in testbeds.names() if name.startswith(incomplete)]


Experiment = Annotated[
    str,
    typer.Argument(metavar="FILE|SUITE", help="Experiment file or built-in suite.", autocompletion=_suites),
]

Testbed = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(testbeds.TABLE),
        help=f"What carries the packets [{testbeds.MODEL}].",
        autocompletion=_testbeds,
    ),
]

Jobs = Annotated[
    int | None,
    typer.Option(
        "-j", "--jobs", metavar="N", help="Worker processes [one per processor; on live hosts one]."
    ),
]

Open = Annotated[bool, typer.Option("--open", help="Open the report in a browser.")]

Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--cc",
        metavar="NAME=FILE[,FILE][,include=DIR][,abi=ABI]",
        help="Compile a kernel's congestion control and run it under that name; may be given again.",
    ),
]

Guests = Annotated[
    list[str] | None,
    typer.Option(
        "--guest",
        metavar="NAME=FILE",
        help="Run a transport protocol in C as stack guest:NAME: a library, a source, or a tree of F-Stack "
        "(FreeBSD's own TCP); may be given again.",
    ),
]

Resume = Annotated[bool, typer.Option("--resume", help="Complete results that are there.")]

Junit = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write what the file expects, and whether it is so, as JUnit XML."),
]

NoProgress = Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress.")]

Json = Annotated[bool, typer.Option("--json", help="Print JSON lines instead of a table.")]


def parse_pairs(texts: list[str] | None, option: str = "--where") -> dict[str, list[str]]:
    """`KEY=VALUE` options by key; a key given again allows several values."""
    pairs: dict[str, list[str]] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise InputError(f"{option}: found {text!r}; expected KEY=VALUE")
        pairs.setdefault(key, []).append(value)
    return pairs


def parse_labels(texts: list[str] | None) -> dict[str, str]:
    """`VALUE=TEXT` options by value, up to the last `=`."""
    labels: dict[str, str] = {}
    for text in texts or ():
        value, _, label = text.rpartition("=")
        if not (value and label):
            raise InputError(f"--label: found {text!r}; expected VALUE=TEXT, such as cubic=CUBIC")
        labels[value] = label
    return labels


def parse_share(option: str, text: str, *, least: float | None = None) -> float:
    """A share below 1, written so or in per cent: above 0, or from `least`."""
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not (0 < number < 1 or number == least):
        bounds = "between 0 and 1" if least is None else f"from {least:g} to below 1"
        raise InputError(f"{option}: found {text!r}; expected a share {bounds}, such as 0.95 or 95%")
    return number


def parse_optional_share(option: str, text: str | None, *, least: float | None = None) -> float | None:
    """Parse a share given by an option. None where the option is missing."""
    return None if text is None else parse_share(option, text, least=least)


def globbed(paths: list[Path]) -> list[Path]:
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


def parse_span(option: str, text: str | None) -> tuple[float | None, float | None] | None:
    """`FROM:TO`, either of which may be missing."""
    if text is None:
        return None
    try:
        start, end = (float(number) if number.strip() else None for number in text.split(":"))
    except ValueError:
        raise InputError(f"{option}: found {text!r}; expected FROM:TO, such as 10:20 or 10:") from None
    return start, end


def own_command() -> str:
    """The command that was given, as a shell would read it."""
    return shlex.join(["cwndlab", *sys.argv[1:]])
