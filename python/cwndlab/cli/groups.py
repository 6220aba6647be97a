"""The commands as a reader meets them: a few, groups of the rest, and the names that some had before."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
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

SIDES = ("--cc", "--build", "--testbed")
"""Options of `compare` that say what its sides are. Each has a command of its own, `compare --cc`."""


class Later(Mapping[str, Any]):
    """Commands by name, functions or Typers of modules (`plan:check`) or groups, each made when asked for."""

    def __init__(
        self,
        shown: Mapping[str, "str | Later"],
        about: str = "",
        hidden: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Take the commands that the help shows, what it says about them as a group, and those it hides."""
        self._places = {**shown, **hidden}
        self._hidden = frozenset(hidden)
        self._made: dict[str, Any] = {}
        self.about = about

    def __getitem__(self, name: str) -> Any:
        """The command of a name."""
        if name not in self._made:
            self._made[name] = self._make(name, self._places[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        """Names, those of hidden commands last."""
        return iter(self._places)

    def __len__(self) -> int:
        """Number of commands."""
        return len(self._places)

    def _make(self, name: str, place: "str | Later") -> Any:
        if isinstance(place, Later):
            commands: Any = place
            return typer.core.TyperGroup(
                name=name, commands=commands, help=place.about, rich_markup_mode=None
            )
        module, _, what = place.partition(":")
        found = getattr(import_module(f"cwndlab.cli.{module}"), what)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command(name, hidden=name in self._hidden)(found)
            found = alone
        command = typer.main.get_command(found)
        command.name = name
        return command


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
        """The command of the first word, of a name of before, or of `compare` with what its sides are."""
        name, words = args[0], args[1:]
        if name in MOVED:
            if not ctx.resilient_parsing:
                say(f"note: cwndlab {name} is now cwndlab {MOVED[name]}")
            name = MOVED[name]
            group = name.split()
            if group[0] in self.commands and name not in self.commands:
                name, words = group[0], [*group[1:], *words]
        elif name == "compare":
            name, words = _side(words)
        return super().resolve_command(ctx, [name, *words])

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


def _side(words: list[str]) -> tuple[str, list[str]]:
    """The command that `compare` with these words is, and its own words."""
    for place, word in enumerate(words):
        option, value, _ = word.partition("=")
        if option not in SIDES:
            continue
        asked = words[place + 1 : place + 2] in ([], ["--help"], ["-h"])
        # A testbed's name is an option of that command, too.
        kept = option == "--testbed" and (value or not asked)
        return f"compare {option}", words if kept else [*words[:place], *words[place + 1 :]]
    return "compare", words


def find(context: Any, words: Sequence[str]) -> tuple[Any, Any]:
    """The command of the first of some words below a context, old names too, with its own context. None where
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
