"""The look of every plot, and its saving: type, grid of panels, legend, limits, and files with
equal bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import polars as pl
from matplotlib import font_manager
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from cwndlab.errors import InputError, unknown
from cwndlab.report.plots import sizes
from cwndlab.report.plots.selection import Options
from cwndlab.results import files

FORMATS = (".png", ".svg", ".pdf")

_NOT_LOOKS = ("backend", "backend_fallback", "interactive", "toolbar", "figure.max_open_warning")
"""Settings of matplotlib that are of the session, not of a plot."""


class Layout(ConstrainedLayoutEngine):
    """Matplotlib's layout of panels, to a thousandth of a pixel.

    The last digits that its solver finds depend on where things lie in memory; names of an SVG's parts are
    made of them.
    """

    def execute(self, fig: Figure) -> Any:
        """Lay out the panels, and round where they are."""
        found = super().execute(fig)
        for axes in fig.axes:
            in_layout = axes.get_in_layout()
            left, bottom, width, height = axes.get_position(original=True).bounds
            axes.set_position((round(left, 6), round(bottom, 6), round(width, 6), round(height, 6)))
            axes.set_in_layout(in_layout)
        return found


class Plot(Figure):
    """A matplotlib figure that knows what it shows, and is shown by notebooks."""

    data: pl.DataFrame
    """Data that are drawn, a row per point, bar or field."""

    def __init__(self, options: Options, width: float, height: float) -> None:
        """Begin an empty figure."""
        super().__init__(figsize=(width, height), layout=Layout())
        FigureCanvasAgg(self)
        self.options = options
        self.data = pl.DataFrame()

    def savefig(self, *args: Any, **options: Any) -> None:
        """Save as matplotlib does, in the look in which it was drawn."""
        with style(self.options):
            super().savefig(*args, **options)

    def _repr_png_(self) -> bytes:
        """The picture for a notebook."""
        image = io.BytesIO()
        self.savefig(image, format="png", dpi=sizes.parse(self.options.size).dpi * 0.6)
        return image.getvalue()


@contextmanager
def style(options: Options) -> Iterator[None]:
    """Apply cwndlab's look inside the block, below what the user set in matplotlib and in a file of
    settings.
    """
    size = sizes.parse(options.size)
    points = options.font_size or size.points
    ours: dict[Any, Any] = {
        "font.family": "DejaVu Sans",
        "font.size": points,
        "axes.titlesize": points * 1.1,
        "axes.titleweight": "bold",
        "figure.titlesize": points * 1.15,
        "figure.titleweight": "bold",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#d9d9d9",
        "grid.linewidth": 0.6,
        "axes.edgecolor": "#404040",
        "lines.linewidth": size.line,
        "lines.solid_joinstyle": "miter",
        "legend.frameon": False,
        "legend.fontsize": points * 0.92,
        "legend.handlelength": 2.6,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "pdf.fonttype": 42,
        "ps.fonttype": 42,
        "svg.hashsalt": "cwndlab",
        "svg.fonttype": "path",
        "path.simplify": False,
        "axes.formatter.useoffset": False,
        # Dollar signs in names from experiment files are text, not formulas.
        "text.parse_math": False,
    }
    with mpl.rc_context({**mpl.rcParamsDefault, **ours, **_users(), **_of_file(options)}):
        yield


def _users() -> dict[Any, Any]:
    """The settings that the user made, in a matplotlibrc or a program."""
    return {
        name: value
        for name, value in mpl.rcParams.items()
        if name not in _NOT_LOOKS and value != mpl.rcParamsDefault[name]
    }


def _of_file(options: Options) -> dict[Any, Any]:
    """The settings of `--style` and `--font`."""
    found: dict[Any, Any] = {}
    if options.style is not None:
        path = Path(options.style)
        try:
            found = dict(mpl.rc_params_from_file(path, fail_on_error=True, use_default_template=False))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        except (ValueError, KeyError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: is no file of matplotlib's settings: {error}") from None
    if options.font is not None:
        known = sorted({font.name for font in font_manager.fontManager.ttflist})
        if options.font not in known:
            raise unknown("font", options.font, known)
        found["font.family"] = [options.font]
    return {name: value for name, value in found.items() if name not in _NOT_LOOKS}


def type_size() -> float:
    """Return the size of type in points, inside `style`."""
    return float(mpl.rcParams["font.size"])


def scale() -> float:
    """Return how much larger marks are than on paper, inside `style`: as lines are."""
    return float(mpl.rcParams["lines.linewidth"]) / sizes.SIZES["paper"].line


def canvas(options: Options, panels: int = 1, *, shared: bool | str = True) -> tuple[Plot, list[Axes]]:
    """Return a plot of `panels` panels in a grid with common axes; `shared="x"` leaves each its y axis."""
    size = sizes.parse(options.size)
    rows, cols = grid(options, panels)
    height = size.height
    if rows > 1 or cols > 1:
        narrow = 0.75 if cols > 1 else 1.0
        height = min(size.highest, max(height, (0.4 + 0.55 * rows * narrow) * size.height))
    figure = Plot(options, size.width, height)
    lattice = figure.subplots(rows, cols, sharex=True, sharey=shared is True, squeeze=False)
    axes = [lattice[place // cols][place % cols] for place in range(panels)]
    for place in range(panels, rows * cols):
        lattice[place // cols][place % cols].remove()
    for place, axis in enumerate(axes):
        if place + cols >= panels:
            axis.tick_params(labelbottom=True)
    return figure, axes


def grid(options: Options, panels: int) -> tuple[int, int]:
    """Return rows and columns of so many panels."""
    if options.cols is not None:
        cols = min(options.cols, panels)
    elif options.rows is not None:
        cols = -(-panels // options.rows)
    else:
        wide = not sizes.parse(options.size).grows
        cols = 1 if panels <= (1 if wide else 3) else 2 if panels <= (4 if wide else 8) else 3
        if panels == 3 and wide:
            cols = 3
    rows = -(-panels // cols)
    if options.rows is not None and options.cols is not None:
        if rows > options.rows:
            raise InputError(f"rows: {options.rows} by {options.cols} panels are too few for {panels}")
        rows = options.rows
    return rows, cols


SMALLEST = 0.75
"""Headings that are too wide become smaller, by this at most; then they take several lines."""


def heading(axis: Axes, text: str) -> None:
    """Write the heading of a panel; `title` makes it fit."""
    axis.set_title(text, loc="left")


def _fit_headings(figure: Figure, axes: Sequence[Axes], options: Options) -> None:
    """Give the headings of panels one size in which each is whole, in several lines if it must be."""
    room = 0.86 * figure.get_figwidth() / grid(options, len(axes))[1] * figure.dpi
    written = [axis.set_title(axis.get_title("left"), loc="left", fontsize="medium") for axis in axes]
    share = {text: room / text.get_window_extent().width for text in written if text.get_text()}
    size = max(SMALLEST, min([1.0, *share.values()]))
    for text, own in share.items():
        text.set_fontsize(size * float(text.get_fontsize()))
        if own < size:
            whole = text.get_text()
            text.set_text(in_lines(whole, int(0.95 * len(whole) * own / size)))


def _fit_labels(figure: Figure, axes: Sequence[Axes], options: Options) -> None:
    """Make the names of the axes at the left no longer than their panels are high."""
    room = 0.8 * figure.get_figheight() / grid(options, len(axes))[0] * figure.dpi
    written = [axis.yaxis.label for axis in axes if axis.get_ylabel()]
    share = min([1.0, *(room / text.get_window_extent().height for text in written)])
    for text in written if share < 1 else ():
        text.set_fontsize(max(SMALLEST, share) * float(text.get_fontsize()))
        if share < SMALLEST:
            whole = text.get_text()
            text.set_text(in_lines(whole, int(0.95 * len(whole) * share / SMALLEST)))


def in_lines(name: str, most: int) -> str:
    """Return a name in lines of at most `most` letters, broken behind spaces and marks in words."""
    lines: list[str] = []
    for line in name.splitlines():
        lines.append("")
        for part in re.split(r"(?<=[/_ ])|(?<=[-.])(?=[A-Za-z])", line):
            if lines[-1] and len(lines[-1]) + len(part.rstrip()) > most:
                lines.append("")
            lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def outer(options: Options, axes: Sequence[Axes], *, x: str, y: str) -> None:
    """Name the axes at the left and at the bottom of the grid."""
    _, cols = grid(options, len(axes))
    for place, axis in enumerate(axes):
        if place + cols >= len(axes):
            axis.set_xlabel(x)
        if place % cols == 0:
            axis.set_ylabel(y)


def finish(figure: Figure, axes: Sequence[Axes], options: Options, heading: str, note: str = "") -> None:
    """Set title, limits, scales and the optional footnote."""
    for axis in axes:
        for name, scaled in (("x", axis.xaxis), ("y", axis.yaxis)):
            if name in options.log:
                axis.set(**{f"{name}scale": "log"})
                scaled.set_major_locator(LogLocator(subs=(1, 2, 5)))
                scaled.set_major_formatter(plain_numbers())
                scaled.set_minor_formatter(NullFormatter())
        if options.xlim is not None:
            axis.set_xlim(*options.xlim)
        if options.ylim is not None:
            axis.set_ylim(*options.ylim)
        for text, named in ((options.xlabel, axis.xaxis), (options.ylabel, axis.yaxis)):
            if text is not None and named.get_label_text():
                named.set_label_text(text)
    figure.align_ylabels(axes)
    title(figure, axes, options, heading, note)


def title(figure: Figure, axes: Sequence[Axes], options: Options, heading: str, note: str = "") -> None:
    """Set the title, a note on what is shown, the caveat and the optional footnote; make room for what is
    below."""
    if options.title is not None:
        heading = options.title
    if heading:
        figure.suptitle(heading, wrap=True)
    _fit_headings(figure, axes, options)
    _fit_labels(figure, axes, options)
    # An em is about 1.8 characters wide.
    short = len(note) < 1.8 * 72 * figure.get_figwidth() / float(mpl.rcParams["font.size"])
    if note and short and len(axes) == 1:
        axes[0].set_title(note, loc="right", fontsize="small", fontweight="normal", color="#595959")
        note = ""
    below: list[Artist] = list(figure.legends)
    command = options.command if options.footnote else None
    for text, family in ((note, None), (options.caveat, None), (command, "DejaVu Sans Mono")):
        if text:
            words = figure.text(0.5, 0.0, text, ha="center", va="bottom", wrap=True)
            words.set(fontsize="x-small", color="#595959", family=family)
            below.append(words)
    _reserve(figure, below, grow=sizes.parse(options.size).grows)


def _reserve(figure: Figure, below: Sequence[Artist], *, grow: bool) -> None:
    """Stack artists below the panels. A plot that may grow does, by their height: panels keep theirs.

    One that may not, a slide, grows only where the panels would get less than half of it.
    """
    gap = 0.05  # inches
    heights = [artist.get_window_extent().height / figure.dpi + gap for artist in below]
    if not heights:
        return
    room = figure.get_figheight()
    height = room + sum(heights) if grow else max(room, 2 * sum(heights))
    figure.set_figheight(height)
    bottom = gap
    for artist, own in zip(reversed(below), reversed(heights), strict=True):
        if isinstance(artist, Text):
            artist.set_y(bottom / height)
        if isinstance(artist, Legend):
            artist.set_bbox_to_anchor((0.5, bottom / height))
        artist.set_in_layout(False)
        bottom += own
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0, bottom / height, 1, 1 - bottom / height))


def legend(figure: Figure, entries: Mapping[str, Artist], options: Options) -> None:
    """Put the legend, names with what they stand for, below the panels, in as many columns as have room.

    It must be called before `finish` or `title`, which make room for it.
    """
    if not entries:
        return
    width, points = figure.get_figwidth(), float(mpl.rcParams["font.size"])
    size = points * (0.8 if len(entries) > 12 else 0.92)
    # An em is about 1.6 characters wide in this face; the handle and its gaps take 5 em.
    widest = max(map(len, entries)) / 1.6 + 5.0
    count = max(1, min(len(entries), int(width * 72 / (widest * size))))
    # Fill columns as evenly as the number of rows allows.
    rows = -(-len(entries) // count)
    count = -(-len(entries) // rows)
    most = max(12, int(1.6 * (width * 72 / size - 5.0)))
    figure.legend(
        list(entries.values()),
        [name if len(name) <= most else in_lines(name, most) for name in entries],
        loc="lower center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=count,
        fontsize=size,
    )


@dataclass(frozen=True)
class End:
    """A line's name, its pen, and the height at which it ends."""

    name: str
    pen: Mapping[str, Any]
    y: float


MAX_DIRECT = 8
"""Number of lines that have their names beside their ends."""


def labelled(axis: Axes, ends: Sequence[End], options: Options) -> bool:
    """Write the names of lines beside their ends, apart from each other; False where that has no room."""
    points = float(mpl.rcParams["font.size"]) * 0.92
    size = sizes.parse(options.size)
    widest = max(len(end.name) for end in ends) * points * 0.55 / 72
    if len(ends) > MAX_DIRECT or widest > 0.3 * size.width:
        return False
    if options.ylim is not None:
        axis.set_ylim(*options.ylim)
    if "y" in options.log:
        axis.set_yscale("log")
    to_share = axis.transData + axis.transAxes.inverted()
    # What a name takes of the height of a panel, of which titles and labels leave about 0.78.
    step = min(1.25 * points / 72 / (0.78 * size.height), 1 / max(1, len(ends) - 1))
    natural = [
        min(max(float(to_share.transform((0, end.y))[1]), 0.0), 1.0) if end.y > 0 else 0.0 for end in ends
    ]
    for end, at, place in zip(ends, natural, _spread(natural, step), strict=True):
        axis.annotate(
            end.name,
            xy=(1.0, at),
            xytext=(1.05, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize=points,
            color=end.pen["color"],
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "shrinkA": 1,
                "shrinkB": 0,
                "linewidth": mpl.rcParams["lines.linewidth"],
                "color": end.pen["color"],
                "linestyle": end.pen["linestyle"],
            },
        )
    return True


def _spread(natural: Sequence[float], step: float) -> list[float]:
    """Return heights in the same order, none nearer than `step` to the next, and none far from its own."""
    order = sorted(range(len(natural)), key=lambda place: (natural[place], -place))
    heights = [natural[place] for place in order]
    for _ in range(200):
        moved = False
        for below in range(len(heights) - 1):
            lack = step - (heights[below + 1] - heights[below])
            if lack > 1e-6:
                heights[below] -= lack / 2
                heights[below + 1] += lack / 2
                moved = True
        if not moved:
            break
    shift = max(0.0, -heights[0]) - max(0.0, heights[-1] - 1.0)
    found = [0.0] * len(natural)
    for place, height in zip(order, heights, strict=True):
        found[place] = height + shift
    return found


def plain_numbers() -> FuncFormatter:
    """Return labels of a logarithmic scale as plain numbers: powers of ten need formulas (see `style`)."""
    return FuncFormatter(lambda value, _: f"{value:g}")


def save(figure: Plot, out: Path, options: Options) -> None:
    """Write the plot as PNG, SVG or PDF, by the file's ending, and its data as CSV; equal plots, equal bytes.

    The command that makes the plot again goes into the file's metadata (PNG and PDF: Description and
    Subject; SVG: Dublin Core description). Raises InputError for any other ending or a path that cannot be
    written.
    """
    ending = out.suffix.lower()
    if ending not in FORMATS:
        raise unknown("file format", ending or out.name, FORMATS)
    command = options.command or ""
    metadata: dict[str, dict[str, str | None]] = {
        ".png": {"Software": "cwndlab", "Description": command},
        ".svg": {"Date": None, "Creator": "cwndlab", "Description": command},
        ".pdf": {"CreationDate": None, "Creator": "cwndlab", "Producer": "cwndlab", "Subject": command},
    }
    resolution = sizes.parse(options.size).dpi
    image = io.BytesIO()
    figure.savefig(image, format=ending[1:], dpi=resolution, metadata=metadata[ending])
    try:
        files.save(out, image.getvalue())
        # Not `.csv` alone, which may be the name of other data.
        files.save(out.with_suffix(".data.csv"), figure.data.write_csv().encode())
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}") from None
