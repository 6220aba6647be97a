"""`cwndlab lab init` and `cwndlab lab check`."""

from pathlib import Path
from typing import Annotated

import typer

from cwndlab.cli.output import say
from cwndlab.errors import CwndlabError, InputError, printable

lab = typer.Typer(
    name="lab",
    help="Machines of your own: the lab file of testbed ssh.",
    add_completion=False,
    rich_markup_mode=None,
)


@lab.command("init")
def init(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File to write; one that exists is kept.")
    ] = Path("testbed.yaml"),
) -> None:
    """Write a commented lab file to start from."""
    from cwndlab.testbeds import labs

    try:
        with file.open("x", encoding="utf-8") as example:
            example.write(labs.template())
    except FileExistsError:
        raise InputError(f"{file}: is there already; give another name") from None
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    say(f"wrote {file}; check it with: cwndlab lab check {file}")


@lab.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Lab file.")] = Path("testbed.yaml"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look at all machines of a lab file, and change nothing; the exit code is 0 if nothing is amiss."""
    import json as notation
    from dataclasses import asdict

    from cwndlab.testbeds import labs

    bad, before, all_found = 0, "", []
    for found in labs.examine(file):
        bad += found.there is False
        if json:
            all_found.append(asdict(found))
            continue
        if found.machine != before:
            print(("\n" if before else "") + printable(found.machine))
            before = found.machine
        mark = {True: "+", False: "-", None: " "}[found.there]
        # Whatever a machine says is shown, and never carried out by the terminal.
        print(printable(f"  {mark} {found.what:<20} {found.detail}".rstrip()))
    if json:
        print(notation.dumps(all_found, indent=2))
    if bad:
        raise CwndlabError(f"{bad} things are amiss")
