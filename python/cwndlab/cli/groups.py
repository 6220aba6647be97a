"""The commands as a reader meets them: a few, groups of the rest, and the names that some had before."""

from collections.abc import Sequence
from typing import Any

import typer

from cwndlab.cli.output import say
from cwndlab.errors import StoppedError

MOVED = {
    **{
        name: f"data {name}"
        for name in ("suites", "import", "export", "trace", "merge", "bundle", "reproduce", "cite")
    },
    **{name: f"dev {name}" for name in ("watch", "script", "schema", "completion")},
    "review": "compare --cc",
    "ab": "compare --build",
    "validate": "compare --testbed",
}
"""The command that each name of before stands for; docs/install.md says until when."""


class Commands(typer.core.TyperGroup):
    """Commands whose interruption is told as any error; typer itself would end without a word."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, typer.Abort) as error:
            # A further Ctrl-C may come while the first is on its way, which says what is left.
            first = error.__context__
            raise first if isinstance(first, StoppedError) else StoppedError("interrupted") from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of the first words, also of two (`compare --cc`) or of a name of before."""
        if args[0] in MOVED:
            if not ctx.resilient_parsing:
                say(f"note: cwndlab {args[0]} is now cwndlab {MOVED[args[0]]}")
            args = [*MOVED[args[0]].split(), *args[1:]]
        elif args[:2] == ["compare", "--testbed"] and args[2:3] != ["--help"]:
            args = [*args[:2], *args[1:]]  # an option of that command, too
        if " ".join(args[:2]) in self.commands:
            args = [" ".join(args[:2]), *args[2:]]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, and below them the groups."""
        shown = {name: each for name, each in self.commands.items() if not each.hidden}
        room = formatter.width - 6 - max(map(len, shown))
        for title, of_groups in (("Commands", False), ("Groups of further commands", True)):
            rows = [
                (name, each.get_short_help_str(room))
                for name, each in shown.items()
                if hasattr(each, "commands") is of_groups
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


def find(context: Any, words: Sequence[str]) -> tuple[Any, Any]:
    """The command of the first of some words below a context, old names too, with its own context; None where
    there is none.
    """
    words = [*MOVED.get(words[0], words[0]).split(), *words[1:]]
    command = context.command
    while words and hasattr(command, "commands"):
        two = " ".join(words[:2])
        name = two if two in command.commands else words[0]
        if name not in command.commands:
            return None, context
        command, words = command.commands[name], words[len(name.split()) :]
        context = command.make_context(name, [], context, resilient_parsing=True)
    return command, context


def flat(program: Any) -> dict[str, Any]:
    """The commands by their last word, those of groups too."""
    found: dict[str, Any] = {}
    for name, each in program.commands.items():
        found |= flat(each) if hasattr(each, "commands") else {name: each}
    return found
