"""`cwndlab plot` and `cwndlab report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cwndlab.errors import InputError
from cwndlab.report.plots import KINDS

if TYPE_CHECKING:
    from cwndlab.report.interface import ResultSet
from cwndlab.cli.options import (
    Directories,
    opened,
    own_command,
    parse_labels,
    parse_optional_share,
    parse_pairs,
    parse_span,
)

_Kind = Annotated[
    str, typer.Option(metavar="KIND", help="; ".join(f"{name}: {about}" for name, about in KINDS.items()))
]
_Out = Annotated[
    Path | None, typer.Option("-o", "--out", metavar="FILE", help=".png, .svg or .pdf [DIR/KIND.png].")
]
_Numbers = Annotated[
    list[str] | None,
    typer.Option(
        "--figure",
        metavar="NUMBER|all",
        help="A figure of the suite's publication, by its number there; may be given again. "
        "Files go to the directory FILE [DIR/figures]; of one plot FILE may be a .png, .svg or .pdf.",
    ),
]
_Runs = Annotated[
    list[str] | None, typer.Option("--run", metavar="ID", help="A run to show; may be given again.")
]
_Flows = Annotated[
    list[str] | None, typer.Option("--flow", metavar="NAME", help="A flow to show; may be given again.")
]
_Where = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Only runs with this value of a swept key; may be given again."),
]
_Window = Annotated[str | None, typer.Option(metavar="FROM:TO", help="Seconds of each run to show.")]
_Value = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of the summary or of a series (as TABLE.COLUMN)."),
]
_Against = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Second column, of the kind delay [rtt_mean_ms].")
]
_By = Annotated[
    list[str] | None, typer.Option(metavar="KEY", help="Swept key to group by; may be given again.")
]
_Average = Annotated[float | None, typer.Option(metavar="SECONDS", help="Length of a throughput window.")]
_Overlap = Annotated[
    str | None,
    typer.Option(metavar="SHARE", help="Share of a throughput window that the next repeats, such as 75%."),
]
_Hop = Annotated[str | None, typer.Option(metavar="NAME", help="The hop whose queue is shown.")]
_Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="VALUE=TEXT",
        help="What a value is called, such as cubic=CUBIC; KEY=VALUE=TEXT where two keys have it. "
        "May be given again.",
    ),
]
_Title = Annotated[str | None, typer.Option(metavar="TEXT", help="Title of the plot.")]
_Xlim = Annotated[str | None, typer.Option(metavar="FROM:TO", help="Range of the x axis.")]
_Ylim = Annotated[str | None, typer.Option(metavar="FROM:TO", help="Range of the y axis.")]
_Log = Annotated[str | None, typer.Option(metavar="x|y|xy", help="Logarithmic axes.")]
_Zero = Annotated[str | None, typer.Option(metavar="run|flow", help="Where time 0 is.")]
_Points = Annotated[bool, typer.Option(help="Show single values in box plots.")]
_Confidence = Annotated[str | None, typer.Option(metavar="SHARE", help="Of the intervals of bars [95%].")]
_Facet = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY",
        help="A panel for each value; again: rows and columns. Also flow, run, none [by itself].",
    ),
]
_Rows = Annotated[int | None, typer.Option(metavar="N", help="Rows of panels.")]
_Cols = Annotated[int | None, typer.Option(metavar="N", help="Columns of panels.")]
_Size = Annotated[
    str | None,
    typer.Option(
        metavar="paper|slide|1col|2col|WxHmm", help="What it is for, or millimetres: 88x60mm, 88mm."
    ),
]
_Style = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="matplotlib's settings (matplotlibrc, .mplstyle), before ours."),
]
_Font = Annotated[str | None, typer.Option(metavar="NAME", help="Family of type.")]
_FontSize = Annotated[float | None, typer.Option(metavar="POINTS", help="Size of type.")]
_Xlabel = Annotated[str | None, typer.Option(metavar="TEXT", help="Name of the x axis.")]
_Ylabel = Annotated[str | None, typer.Option(metavar="TEXT", help="Name of the y axis.")]
_Footnote = Annotated[bool, typer.Option("--footnote", help="Print the command below the plot.")]


def plot(
    directories: Directories = None,
    *,
    kind: _Kind = "cwnd",
    out: _Out = None,
    published: _Numbers = None,
    runs: _Runs = None,
    flows: _Flows = None,
    where: _Where = None,
    window: _Window = None,
    value: _Value = None,
    against: _Against = None,
    by: _By = None,
    average: _Average = None,
    overlap: _Overlap = None,
    hop: _Hop = None,
    labels: _Labels = None,
    title: _Title = None,
    xlim: _Xlim = None,
    ylim: _Ylim = None,
    log: _Log = None,
    zero: _Zero = None,
    facet: _Facet = None,
    rows: _Rows = None,
    cols: _Cols = None,
    points: _Points = True,
    confidence: _Confidence = None,
    size: _Size = None,
    style: _Style = None,
    font: _Font = None,
    font_size: _FontSize = None,
    xlabel: _Xlabel = None,
    ylabel: _Ylabel = None,
    footnote: _Footnote = False,
) -> None:
    """Draw a plot of results, and write its data beside it (FILE.data.csv)."""
    results = opened(directories)
    several = len(directories or ()) > 1
    target = out if out is not None else (Path() if several else results.path) / f"{kind}.png"
    chosen = {
        "run": runs,
        "flow": flows,
        "where": parse_pairs(where),
        "window": parse_span("--window", window),
        "value": value,
        "against": against,
        "by": by,
        "average": average,
        "overlap": parse_optional_share("--overlap", overlap, least=0),
        "hop": hop,
        "label": parse_labels(labels),
        "title": title,
        "xlim": parse_span("--xlim", xlim),
        "ylim": parse_span("--ylim", ylim),
        "log": log,
        "zero": zero,
        "facet": facet,
        "rows": rows,
        "cols": cols,
        "confidence": parse_optional_share("--confidence", confidence),
        "size": size,
        "style": style,
        "font": font,
        "font_size": font_size,
        "xlabel": xlabel,
        "ylabel": ylabel,
        "footnote": footnote,
    }
    # An option that was not given stays with the plot's own default; a 0 was given.
    options: dict[str, Any] = {
        name: option for name, option in chosen.items() if option not in (None, {}, [])
    }
    if published is None:
        results.plot(kind, target, command=own_command(), points=points, **options)
        print(target)
        return
    _published(results, published, out or results.path / "figures", options)


_LOOKS = ("size", "style", "font", "font_size", "footnote")
"""Options that go with a figure of a publication."""


def _published(results: "ResultSet", numbers: list[str], out: Path, options: dict[str, Any]) -> None:
    """Draw figures of the suite's publication, and print their files."""
    if not options.keys() <= set(_LOOKS):
        looks = ", ".join(f"--{name.replace('_', '-')}" for name in _LOOKS)
        raise InputError(f"--figure: the publication says what is shown; only {looks} go with it")
    from cwndlab.report.plots import publications

    for file in publications.draw(results, numbers, out, options, own_command()):
        print(file)


def report(
    directories: Directories = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="The file [DIR/report.html].")
    ] = None,
) -> None:
    """Write the report of results, one HTML file."""
    from cwndlab.report.html_report import write

    results = opened(directories)
    place = Path() if len(directories or ()) > 1 else results.path
    print(write(results, out if out is not None else place / "report.html"))
