"""Options that several commands have, and what is made of their text."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab.errors import InputError

if TYPE_CHECKING:
    pass

LATEST = Path("results/latest")

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of results.")]

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the file; may be given again."),
]

Lab = Annotated[
    Path | None,
    typer.Option("--lab", metavar="FILE", help="Lab file: which machines hosts are (implies --testbed ssh)."),
]

Resume = Annotated[bool, typer.Option("--resume", help="Complete results that are there.")]

NoProgress = Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress.")]

Json = Annotated[bool, typer.Option("--json", help="Print JSON lines instead of a table.")]


def parse_pairs(texts: list[str] | None) -> dict[str, list[str]]:
    """`KEY=VALUE` options by key; a key given again allows several values."""
    pairs: dict[str, list[str]] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise InputError(f"--where: found {text!r}; expected KEY=VALUE")
        pairs.setdefault(key, []).append(value)
    return pairs


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
    """The same of an option that may be missing."""
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
