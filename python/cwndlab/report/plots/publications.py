"""The plots of a suite's publication, drawn again from results under their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg

from cwndlab.errors import InputError, unknown
from cwndlab.experiment import suites
from cwndlab.report import plots
from cwndlab.report.plots import paint

if TYPE_CHECKING:
    from cwndlab.results.resultset import ResultSet


def draw(
    results: ResultSet, wanted: Sequence[str], out: Path, options: Mapping[str, Any], command: str | None
) -> Iterator[Path]:
    """Draw the plots of the figures `wanted` (`2`, `2a`, `all`); yield each file.

    `out` is a directory of PNG files, or, with the ending of a format, the file of a single plot. `options`
    (such as `size`) go with every one of them. Raises InputError for results that are of no suite with
    published plots, a figure that does not exist, runs that are missing, and a file for several plots.
    """
    published = suites.plots_of(results.header.experiment, wanted)
    for each, file in zip(published, _files(published, out), strict=True):
        title = f"Figure {each.number}{f' ({each.part})' if each.part else ''}. {each.caption}"
        plots.plot(results, each.kind, file, command=command, title=title, **each.options, **options)
        yield file


def _files(published: Sequence[suites.Plot], out: Path) -> list[Path]:
    """Return the file of each plot; makes the directory."""
    ending = out.suffix.lower()
    if ending in paint.FORMATS:
        if len(published) > 1:
            names = ", ".join(f"{each.number}{each.part}" for each in published[:6])
            more = ", …" if len(published) > 6 else ""
            raise InputError(
                f"--figure: {out} is one file, and these are {len(published)} plots ({names}{more}); "
                "name one of them, or a directory"
            )
        return [out]
    if ending[1:] in FigureCanvasAgg.get_supported_filetypes():
        raise unknown("file format", ending, paint.FORMATS)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: cannot be made: {error.strerror}") from None
    return [out / f"{each.file}.png" for each in published]
