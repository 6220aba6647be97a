"""How every plot looks and is saved: type, colours, dashes, legend, limits, and files with equal bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from cwndlab import files
from cwndlab.errors import InputError, unknown
from cwndlab.plots.selection import Options

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours that people with colour-vision deficiency can tell apart (Okabe and Ito 2008, without the yellow,
which white paper swallows)."""

DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.3)), (0, (6, 2, 1, 2)))
"""Dash patterns. After every colour was used solid, all come again with the next: 28 distinct lines."""

HATCHES = ("", "////", "....", "xxxx")

MARKERS = "osD^vPX*<>hp"

FORMATS = (".png", ".svg", ".pdf")

_SIZES = {
    # width and height of one panel in inches, point size of type, line width in points, dots per inch of PNG
    "paper": (6.5, 3.4, 9.0, 1.0, 200),
    "slide": (12.8, 7.2, 18.0, 2.0, 100),
}
_MAX_HEIGHT = {"paper": 9.0, "slide": 7.2}


@contextmanager
def style(options: Options) -> Iterator[None]:
    """Apply the look of all plots inside the block, whatever the user's own matplotlib settings are."""
    _, _, points, line, _ = _SIZES[options.size]
    settings = {
        **mpl.rcParamsDefault,
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
        "lines.linewidth": line,
        "lines.solid_joinstyle": "miter",
        "legend.frameon": False,
        "legend.fontsize": points * 0.92,
        "legend.handlelength": 2.6,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "pdf.fonttype": 42,
        "svg.hashsalt": "cwndlab",
        "svg.fonttype": "path",
        "path.simplify": False,
        "axes.formatter.useoffset": False,
        # Dollar signs in names from experiment files are text, not formulas.
        "text.parse_math": False,
    }
    with mpl.rc_context(settings):
        yield


def scale() -> float:
    """Return how much larger marks are than on paper, inside `style`: as lines are."""
    return float(mpl.rcParams["lines.linewidth"]) / _SIZES["paper"][3]


def canvas(options: Options, panels: int = 1, *, shared: bool = True) -> tuple[Figure, list[Axes]]:
    """Return a plot of `panels` stacked panels; `shared` gives them one x axis."""
    width, height, *_ = _SIZES[options.size]
    if panels > 1:
        height = min(_MAX_HEIGHT[options.size], max(height, 0.4 * height + 0.55 * height * panels))
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(panels, 1, sharex=shared, squeeze=False)
    return figure, [axes[row][0] for row in range(panels)]


def pen(place: int) -> dict[str, Any]:
    """Return colour and dash of the line number `place` (see `DASHES`)."""
    return {"color": PALETTE[place % len(PALETTE)], "linestyle": DASHES[place // len(PALETTE) % len(DASHES)]}


def fill(place: int) -> dict[str, Any]:
    """Return colour and hatching of the area number `place`: colours first, then all again hatched."""
    return {
        "facecolor": PALETTE[place % len(PALETTE)],
        "hatch": HATCHES[place // len(PALETTE) % len(HATCHES)],
    }


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
    figure.align_ylabels(axes)
    title(figure, axes, options, heading, note)


def title(figure: Figure, axes: Sequence[Axes], options: Options, heading: str, note: str = "") -> None:
    """Set the title, a note on what is shown, the caveat and the optional footnote; make room for what is
    below."""
    if options.title is not None:
        heading = options.title
    if heading:
        figure.suptitle(heading, wrap=True)
    if note:
        axes[0].set_title(note, loc="right", fontsize="small", fontweight="normal", color="#595959")
    below: list[Artist] = list(figure.legends)
    command = options.command if options.footnote else None
    for text, family in ((options.caveat, None), (command, "DejaVu Sans Mono")):
        if text:
            words = figure.text(0.5, 0.0, text, ha="center", va="bottom", wrap=True)
            words.set(fontsize="x-small", color="#595959", family=family)
            below.append(words)
    _reserve(figure, below, grow=options.size == "paper")


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


def legend(figure: Figure, handles: Sequence[Artist], names: Sequence[str], options: Options) -> None:
    """Put the legend outside, below the panels, in as many columns as the names leave room for.

    It must be called before `finish` or `title`, which make room for it.
    """
    if not handles or (len(handles) == 1 and not names[0]):
        return
    width, _, points, _, _ = _SIZES[options.size]
    size = points * (0.8 if len(handles) > 12 else 0.92)
    # An em is about 1.6 characters wide in this face; the handle and its gaps take 5 em.
    widest = max(len(name) for name in names) / 1.6 + 5.0
    count = max(1, min(len(handles), int(width * 72 / (widest * size))))
    # Fill columns as evenly as the number of rows allows.
    rows = -(-len(handles) // count)
    count = -(-len(handles) // rows)
    figure.legend(handles, names, loc="lower center", bbox_to_anchor=(0.5, 0.0), ncols=count, fontsize=size)


def plain_numbers() -> FuncFormatter:
    """Return labels of a logarithmic scale as plain numbers: powers of ten need formulas (see `style`)."""
    return FuncFormatter(lambda value, _: f"{value:g}")


def save(figure: Figure, out: Path, options: Options) -> None:
    """Write the plot as PNG, SVG or PDF, by the file's ending; equal plots give equal bytes.

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
    resolution = _SIZES[options.size][4]
    image = io.BytesIO()
    figure.savefig(image, format=ending[1:], dpi=resolution, metadata=metadata[ending])
    try:
        files.save(out, image.getvalue())
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}") from None
