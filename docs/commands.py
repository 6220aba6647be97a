"""Prints the page of all commands and options, or the manual page, from the program's own parser.

`python docs/commands.py` prints Markdown, `python docs/commands.py --man` what man(1) reads.
"""

import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import typer

from cwndlab.cli.application import app


def main() -> None:
    """Print what is asked for."""
    commands = list(walk())
    print(manual(commands) if "--man" in sys.argv[1:] else page(commands), end="")


def walk() -> Iterator[tuple[str, Any, Any]]:
    """Every command by its whole name, with its context, in the order of `--help`."""
    program: Any = typer.main.get_command(app)
    yield from _below(program, "cwndlab", None)


def _below(command: Any, name: str, parent: Any) -> Iterator[tuple[str, Any, Any]]:
    own = {"help_option_names": ["-h", "--help"]}
    context = command.make_context(name, [], parent, resilient_parsing=True, **({} if parent else own))
    yield context.command_path, command, context
    for below in getattr(command, "commands", {}).values():
        yield from _below(below, below.name, context)


def page(commands: list[tuple[str, Any, Any]]) -> str:
    """The page: a heading for each command, what it does, and its arguments and options in a table."""
    text = (
        "# Commands\n\nEvery command with its arguments and options, as `--help` says them. Values in"
        " brackets are defaults.\nExit codes: 0 done, 1 failed, 2 bad input, 130 interrupted.\n"
    )
    for name, command, context in commands:
        text += f"\n## {name}\n\n`{_usage(command, context)}`\n\n{_paragraphs(command)}\n"
        rows = _rows(command, context)
        if rows:
            text += "\n| | |\n| --- | --- |\n"
            text += "".join(f"| `{names}` | {_cell(said)} |\n" for names, said in rows)
    return text


def manual(commands: list[tuple[str, Any, Any]]) -> str:
    """The manual page cwndlab(1)."""
    text = f'.TH CWNDLAB 1 "" "cwndlab {version("cwndlab")}" "User Commands"\n'
    text += ".SH NAME\ncwndlab \\- the congestion-window laboratory\n"
    text += ".SH SYNOPSIS\n.B cwndlab\nCOMMAND [OPTIONS]\n"
    text += ".SH DESCRIPTION\nDescribe a TCP experiment once, run it, compare and report.\n"
    text += ".B cwndlab help\nlists the pages of the documentation and prints them.\n.SH COMMANDS\n"
    for _, command, context in commands[1:]:
        text += f".SS {_roff(_usage(command, context))}\n{_roff(_paragraphs(command))}\n"
        for names, said in _rows(command, context):
            text += f".TP\n.B {_roff(names)}\n{_roff(_words(said))}\n"
    return text + ".SH EXIT STATUS\n0 done, 1 failed, 2 bad input, 130 interrupted.\n"


def _usage(command: Any, context: Any) -> str:
    return " ".join([context.command_path, *command.collect_usage_pieces(context)])


def _paragraphs(command: Any) -> str:
    return (command.help or "").strip()


def _rows(command: Any, context: Any) -> list[tuple[str, str]]:
    """Each argument and option but --help, which all have: its names and value, and what it does."""
    records = [
        parameter.get_help_record(context)
        for parameter in command.get_params(context)
        if "--help" not in parameter.opts
    ]
    return [(str(record[0]), str(record[1])) for record in records if record is not None]


def _words(said: str) -> str:
    return " ".join(said.split())


def _cell(said: str) -> str:
    return _words(said).replace("|", "\\|").replace("<", "&lt;")


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in escaped.splitlines())


if __name__ == "__main__":
    main()
