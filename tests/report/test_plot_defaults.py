"""What plots choose by themselves: panels, order, colours by meaning, data beside them, and their look."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from memory_results import MemoryResults, sawtooth, summary_row, sweep

from cwndlab.errors import InputError
from cwndlab.report import html_report, plots
from cwndlab.report.plots import colours, heat, sizes


@pytest.fixture(scope="module")
def results() -> MemoryResults:
    return sweep()


def strong(figure: Figure, axis: int = 0) -> list[Line2D]:
    """The lines of a panel that are not faint."""
    return [line for line in figure.axes[axis].get_lines() if line.get_alpha() is None]


@pytest.mark.slow
def test_a_sweep_over_two_keys_gets_a_panel_for_each_value_of_one(results: MemoryResults):
    figure = plots.plot(results, "cwnd")
    headings = [axis.get_title(loc="left") for axis in figure.axes]
    assert headings == ["delay 0ms", "delay 20ms", "delay 100ms"]
    limits = {axis.get_ylim() for axis in figure.axes}
    assert len(limits) == 1 and next(iter(limits))[0] == 0


def test_repeats_are_faint_and_their_median_is_strong(results: MemoryResults):
    figure = plots.plot(results, "goodput", where={"cc": "cubic", "delay": "20ms"})
    (axis,) = figure.axes
    lines = axis.get_lines()
    assert len(lines) == 4
    (median,) = strong(figure)
    repeats = np.stack([line.get_ydata() for line in lines if line is not median])
    assert median.get_ydata() == pytest.approx(np.median(repeats, axis=0))
    assert "median of 3 repeats" in axis.get_title(loc="right")


@pytest.mark.slow
def test_many_repeats_are_a_band():
    many = sweep(ccs=["cubic"], delays=["0ms"], repeats=12)
    (axis,) = plots.plot(many, "rtt").axes
    assert len(axis.collections) == 1 and len(axis.get_lines()) == 1


@pytest.mark.parametrize(
    ("options", "panels", "shape"),
    [
        ({"facet": ["cc"]}, 2, (2, 1)),
        ({"facet": ["cc"], "cols": 2}, 2, (1, 2)),
        ({"facet": ["cc", "delay"]}, 6, (3, 2)),
        ({"facet": ["cc", "delay"], "rows": 2}, 6, (2, 3)),
        ({"facet": ["none"]}, 1, (1, 1)),
        ({"facet": ["repeat"]}, 3, (3, 1)),
    ],
)
@pytest.mark.slow
def test_panels_are_as_asked(results: MemoryResults, options: dict, panels: int, shape: tuple[int, int]):
    figure = plots.plot(results, "rtt", **options)
    assert len(figure.axes) == panels
    grid = figure.axes[0].get_gridspec()
    assert (grid.nrows, grid.ncols) == shape


@pytest.mark.parametrize("kind", ["box", "bar", "cdf", "delay"])
def test_kinds_over_keys_have_panels_too(results: MemoryResults, kind: str):
    figure = plots.plot(results, kind, value="goodput_mbps", by=["cc"], facet=["delay"])
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["delay 0ms", "delay 20ms", "delay 100ms"]
    assert figure.data["panel"].n_unique() == 3


@pytest.mark.slow
def test_a_congestion_control_has_its_colour_whatever_is_shown(results: MemoryResults):
    blue = colours.PALETTE[0]
    both = plots.plot(results, "rtt", where={"delay": "0ms"})
    one = plots.plot(results, "rtt", where={"delay": "0ms", "cc": "cubic"}, runs=[9])
    assert [line.get_color() for line in strong(both)][1] == blue
    assert strong(one)[0].get_color() == blue
    assert colours.places("hosts.a.cc", ["newreno", "cubic"]) == {"newreno": 1, "cubic": 0}
    assert len(set(colours.places("stack", ["linux-6.8", "linux-5.15", "freebsd-13"]).values())) == 3


@pytest.mark.slow
def test_names_beside_lines_do_not_run_into_each_other(results: MemoryResults):
    figure = plots.plot(results, "rtt", facet=["none"])
    figure.canvas.draw()
    boxes = sorted((text.get_window_extent() for text in figure.axes[0].texts), key=lambda box: box.y0)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert len(texts) == 6 and not figure.legends
    edge = figure.get_window_extent()
    names = list(figure.axes[0].texts)
    heights = sorted(text.get_position()[1] for text in names)
    inches = figure.axes[0].get_window_extent().height
    type_px = names[0].get_fontsize() / 72 * figure.dpi
    assert all(b - a >= 0.95 * type_px / inches for a, b in pairwise(heights))
    assert all(box.x1 <= edge.x1 for box in boxes)


def test_colours_of_a_heat_map_do_not_exaggerate():
    assert heat.told_apart(99.97, 100.0) == pytest.approx((94.985, 104.985))
    assert heat.told_apart(1.0, 10.0) == (1.0, 10.0)
    assert heat.told_apart(0.0, 0.0) == (0.0, 0.0)


@pytest.mark.parametrize(
    "kind", [kind for kind in plots.KINDS if kind not in ("difference", "bursts", "slowdown", "steady")]
)
@pytest.mark.slow
def test_the_data_of_every_plot_stand_beside_it(results: MemoryResults, kind: str, tmp_path: Path):
    over_keys = kind in ("box", "bar", "heat", "cdf", "delay")
    shown = {} if over_keys else {"runs": [3] if kind == "phase" else [3, 9]}
    figure = plots.plot(results, kind, tmp_path / "x.png", **shown)
    with (tmp_path / "x.data.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == figure.data.height > 0


def test_sizes_are_millimetres_and_columns(results: MemoryResults):
    assert plots.plot(results, "cwnd", runs=[0], size="88x60mm").get_size_inches() * 25.4 == pytest.approx(
        [88, 60]
    )
    assert plots.plot(results, "cwnd", runs=[0], size="1col").get_size_inches()[0] * 25.4 == pytest.approx(88)
    for wrong in ("88", "5mm", "88x1mm", "3col"):
        with pytest.raises(InputError, match=r"^size: "):
            sizes.parse(wrong)


def test_settings_of_the_user_come_before_ours(results: MemoryResults, tmp_path: Path):
    style = tmp_path / "paper.mplstyle"
    style.write_text("axes.grid: False\nlines.linewidth: 3\n")
    figure = plots.plot(results, "cwnd", runs=[0], style=style, font="DejaVu Serif", font_size=7, xlabel="t")
    assert figure.axes[0].get_lines()[0].get_linewidth() == 3
    assert figure.axes[0].xaxis.label.get_fontname() == "DejaVu Serif"
    assert figure.axes[0].get_xlabel() == "t"
    with mpl.rc_context({"lines.linewidth": 4.0}):
        assert plots.plot(results, "cwnd", runs=[0]).axes[0].get_lines()[0].get_linewidth() == 4
    style.write_text("lines.linewidth: wide\n")
    with pytest.raises(InputError, match=r"paper\.mplstyle: is no file of matplotlib's settings"):
        plots.plot(results, "cwnd", runs=[0], style=style)
    with pytest.raises(InputError, match=r"^font: 'Comic' does not exist"):
        plots.plot(results, "cwnd", runs=[0], font="Comic")


@pytest.mark.slow
def test_type_in_a_pdf_is_truetype_also_when_saved_by_hand(results: MemoryResults, tmp_path: Path):
    figure = plots.plot(results, "cwnd", runs=[0])
    figure.savefig(tmp_path / "x.pdf")
    text = (tmp_path / "x.pdf").read_bytes()
    assert b"/Type3" not in text and b"/CIDFontType2" in text


@pytest.mark.parametrize("size", ["paper", "1col"])
@pytest.mark.parametrize("kind", ["cwnd", "box", "bar", "heat", "cdf"])
@pytest.mark.slow
def test_nothing_is_cut_off_at_the_edge(kind: str, size: str):
    long = MemoryResults(
        pl.DataFrame(
            [
                summary_row(
                    number, f"a-flow-of-a-long-name-{number}", goodput_mbps=float(number + 1), repeat=0
                )
                for number in range(9)
            ]
        ),
        {"tcp": pl.concat([sawtooth(number, f"a-flow-of-a-long-name-{number}") for number in range(9)])},
    )
    keys = {"box": ["flow"], "bar": ["flow"], "heat": ["flow", "cc"], "cdf": ["flow"]}
    figure = plots.plot(long, kind, size=size, by=keys.get(kind, ()))
    figure.canvas.draw()
    edge = figure.get_window_extent()
    for axis in figure.axes:
        box = axis.get_tightbbox()
        assert box is not None
        assert box.x0 >= edge.x0 - 2 and box.x1 <= edge.x1 + 2 and box.y0 >= edge.y0 - 2, (
            kind,
            size,
            box,
            edge,
        )


def test_a_figure_shows_itself_in_a_notebook(results: MemoryResults):
    assert plots.plot(results, "cwnd", runs=[0])._repr_png_().startswith(b"\x89PNG")


def test_drops_are_counted_as_they_happen(results: MemoryResults):
    (line,) = strong(plots.plot(results, "losses", runs=[3]))
    happened = results.tables["events"].filter((pl.col("run_id") == 3) & (pl.col("kind") == "drop"))
    assert line.get_ydata()[-1] == happened.height > 0
    again = plots.plot(results, "losses", runs=[3], value="retransmits")
    assert again.axes[0].get_ylabel() == "packets sent again [packets]"


def test_a_density_holds_every_sample(results: MemoryResults):
    data = plots.plot(results, "density", facet=["cc"]).data
    shares = data.group_by("panel").agg(pl.col("share").sum())
    assert shares["share"].to_list() == pytest.approx([1.0, 1.0])
    with pytest.raises(InputError, match="are not columns of one series"):
        plots.plot(results, "density", against="queue.backlog_bytes")


LOOK = Path(html_report.__file__).with_name("report.css").read_text()
PAGE = re.findall(r"(?<=--c[0-6]: )#\w{6}", LOOK)
"""The colours of lines on a page, first those on white paper, then those on dark."""


@pytest.mark.parametrize(("palette", "paper"), [(PAGE[:7], "#ffffff"), (PAGE[7:], "#14181d")])
def test_lines_of_a_page_stand_out_from_its_paper(palette: Sequence[str], paper: str):
    """A contrast of 3 to 1 (WCAG 2.1, 1.4.11)."""
    assert len(palette) == len(colours.PALETTE) and f"--paper: {paper}" in LOOK

    def luminance(colour: str) -> float:
        parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    for colour in palette:
        low, high = sorted((luminance(colour), luminance(paper)))
        assert (high + 0.05) / (low + 0.05) >= 3


@pytest.mark.parametrize("palette", [colours.PALETTE, PAGE[:7], PAGE[7:]])
def test_the_palette_keeps_its_distance_for_colour_blind_readers(palette: Sequence[str]):
    """Simulated deuteranopia (Machado, Oliveira and Fernandes 2009, severity 1): no two colours alike."""
    matrix = np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    )
    seen = [matrix @ np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]) for colour in palette]
    distances = [np.linalg.norm(a - b) for place, a in enumerate(seen) for b in seen[:place]]
    assert min(distances) > 0.2


@pytest.mark.slow
def test_a_flow_that_had_not_done_all_at_the_end_is_drawn():
    rows = [summary_row(run, repeat=run, status=("complete", "unfinished")[run]) for run in range(2)]
    data = plots.plot(
        MemoryResults(pl.DataFrame(rows), {"tcp": pl.concat(map(sawtooth, range(2)))}), "cwnd"
    ).data
    assert data["run"].n_unique() >= 2
