"""`cwndlab compare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cwndlab.cli import kernel as kernels
from cwndlab.cli import kernel_patch
from cwndlab.cli.options import (
    LATEST,
    Guests,
    Json,
    Metrics,
    globbed,
    parse_optional_share,
    parse_pairs,
    parse_share,
)
from cwndlab.errors import InputError

if TYPE_CHECKING:
    from cwndlab.analysis.contrasts import Comparisons


class ManyFiles(typer.core.TyperCommand):
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


_FilesOfA = Annotated[
    list[Path] | None,
    typer.Option("--a", metavar="FILE...", help="Other tools' files: iperf3 JSON, iperf text, SIFTR, ..."),
]
_FilesOfB = Annotated[
    list[Path] | None, typer.Option("--b", metavar="FILE...", help="Those to compare them with.")
]

_Places = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="DIR|FILE", help="Directories of results: two, or one with --by; with --patch experiments."
    ),
]


def compare(
    directories: _Places = None,
    *,
    by: Annotated[
        str | None, typer.Option(metavar="KEY", help="Compare the values of a swept key in one directory.")
    ] = None,
    a: _FilesOfA = None,
    b: _FilesOfB = None,
    metrics: Metrics = None,
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
    kernel: kernels.Compared = None,
    guest: Guests = None,
    patch: kernels.PatchOfAny = None,
) -> None:
    """Say whether there is a difference, and how sure that is.

    Sides are results; of `compare --cc OLD NEW` congestion controls, of `compare --build FILE` builds of a
    kernel on machines, of `compare --testbed NAME FILE` the model and a testbed; each has its own --help.

    Runs are the unit. Verdicts come first, then what they rest on: intervals, permutation tests corrected for
    the number of comparisons, the smallest difference that would have shown, and the runs needed.
    """
    from cwndlab.analysis import contrasts
    from cwndlab.analysis.comparison import Options
    from cwndlab.report import interface

    options = Options(
        parse_share("--confidence", confidence), parse_optional_share("--equivalent", equivalent), seed
    )
    names = [name.strip() for name in metrics.split(",")] if metrics is not None else []
    selection = contrasts.Selection(names, flow, parse_pairs(where))
    places = directories or []
    if kernel is not None or patch is not None or guest:
        if a or b or by is not None:
            raise InputError("compare: --patch FILE and its tree go with experiment files alone")
        for two in kernel_patch.before_and_after(kernel, patch, places, guest or (), quiet=json):
            _print(contrasts.of_two(*two, selection, options), json=json, ministat=ministat)
        return
    if a or b:
        if places or by is not None or flow is not None or where:
            raise InputError("--a and --b compare files: no directory, --by, --flow or --where beside them")
        if not (a and b):
            raise InputError("--a and --b: give files to both")
        found = contrasts.of_files(globbed(a), globbed(b), names, options)
    elif found_file := next((place for place in places if place.is_file()), None):
        raise InputError(f"{found_file}: is a file; other tools' files are named by --a FILES --b FILES")
    elif by is not None and len(places) < 2:
        results = interface.ResultSet(places[0] if places else LATEST)
        found = contrasts.by_key(results, by, selection, options, baseline=baseline, every_pair=all_pairs)
    elif len(places) == 2 and by is None:
        found = contrasts.of_two(
            interface.ResultSet(places[0]), interface.ResultSet(places[1]), selection, options
        )
    else:
        raise InputError("compare: give two directories, one with --by KEY, or --a FILES --b FILES")
    _print(found, json=json, ministat=ministat)


def _print(found: "Comparisons", *, json: bool, ministat: bool) -> None:
    from cwndlab.analysis import verdict

    if json:
        print(verdict.json_lines(found), end="")
        return
    print(verdict.text(found))
    if ministat:
        print("".join(f"\n{text}\n" for text in verdict.as_ministat(found)), end="")


command = typer.Typer(add_completion=False, rich_markup_mode=None)
command.command(cls=ManyFiles)(compare)
