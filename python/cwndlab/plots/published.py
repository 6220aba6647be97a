"""The plots of a suite's publication, drawn again from results under their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cwndlab import plots, suites
from cwndlab.errors import InputError

if TYPE_CHECKING:
    from cwndlab.results.resultset import ResultSet


def draw(
    results: ResultSet, wanted: Sequence[str], out: Path, options: Mapping[str, Any], command: str | None
) -> Iterator[Path]:
    """Draw the plots of the figures `wanted` (`2`, `2a`, `all`) into the directory `out`; yield each file.

    `options` (such as `size`) go with every one of them. Raises InputError for results that are of no suite
    with published plots, a figure that does not exist, and runs that are missing.
    """
    published = suites.plots_of(results.header.experiment, wanted)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: cannot be made: {error.strerror}") from None
    for each in published:
        file = out / f"{each.file}.png"
        title = f"Figure {each.number}{f' ({each.part})' if each.part else ''}. {each.caption}"
        plots.plot(results, each.kind, file, command=command, title=title, **each.options, **options)
        yield file
