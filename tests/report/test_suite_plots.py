"""The plots of publications that suites draw again: what they show, and the files they become."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D

from cwndlab import load
from cwndlab.errors import InputError
from cwndlab.experiment import suites
from cwndlab.report import plots
from cwndlab.report.plots import KINDS, paint, publications
from cwndlab.report.plots.selection import Options, bind
from cwndlab.results.inferred_models import MARK
from cwndlab.results.resultset import ResultSet

pytestmark = pytest.mark.slow

RATE, DELAY, LIMIT = (
    f"network.dumbbell.bottleneck.{name}" for name in ("shaper.rate", "delay", "queue.limit")
)
STACK, CC = "hosts.a.stack", "hosts.a.cc"

MEANT = {
    "CDG": {STACK: "freebsd-9.2", CC: "cdg"},
    "NewReno": {STACK: "freebsd-9.2", CC: "newreno"},
    "FreeBSD NewReno": {STACK: "freebsd-9.2", CC: "newreno"},
    "FreeBSD CUBIC": {STACK: "freebsd-9.2", CC: "cubic"},
    "FreeBSD CDG": {STACK: "freebsd-9.2", CC: "cdg"},
    "Linux NewReno": {STACK: "linux-3.9", CC: "newreno"},
    "Linux CUBIC": {STACK: "linux-3.9", CC: "cubic"},
    "Windows 7 default TCP": {STACK: "windows-7", CC: "newreno"},
}
"""What the names in TEACUP's figures and captions mean."""

PATCH = {"before": "freebsd-15-current", "after": "freebsd-15-d49540"}
"""What the names in the figures of the patch mean."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    """The report's runs, ten seconds of each."""
    out = tmp_path_factory.mktemp("teacup") / "results"
    return load(suites.suite("teacup-140502A").path, ["duration=10s", "record.tcp=20ms"]).run(out=out)


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ResultSet]:
    """The suites of the patch: two seconds of one, and of the other what its figures show."""
    out = tmp_path_factory.mktemp("patch")
    return {
        name: load(suites.suite(name).path, [*short, "repeat=2", "record.tcp=20ms"]).run(out=out / name)
        for name, short in (
            ("cubic-patch", ["duration=2s"]),
            ("cubic-patch-bursts", ["duration=51s", "network.dumbbell.bottleneck.rate=100mbit"]),
        )
    }


def test_all_figures_of_the_report_but_the_testbeds_are_there(results: ResultSet) -> None:
    plots = suites.plots_of("teacup-140502A", ["all"])
    assert sorted({plot.number for plot in plots}) == list(range(2, 28))
    for plot in plots:
        assert plot.kind in KINDS
        rows = bind(results, Options(**plot.options)).rows
        what = plot.caption.lower()
        if plot.kind == "box":
            assert rows.height == (3 * 4 * 3 if plot.number < 26 else 2 * 2 * 3 * 2)
            rates = {f"{rate}mbit" for rate in (2, 6, 10) if plot.number > 25 or f"@ {rate}mbps" in what}
            assert set(rows[RATE]) == rates
            assert ("rtt" in plot.options["value"]) == what.startswith("rtt")
        else:
            (row,) = rows.rows(named=True)
            assert what.startswith(row["hosts.a.stack"].partition("-")[0])
            assert row["hosts.a.cc"] in what.replace("windows 7 default tcp", "newreno")
            assert f"{row[RATE].removesuffix('bit')}bps" in what and row[DELAY] == "20ms"
            assert f"{row[LIMIT].removesuffix('p')} packet" in what


def test_figures_are_drawn_under_their_numbers(results: ResultSet, tmp_path: Path) -> None:
    files = list(publications.draw(results, ["2", "27", "19b", "2a"], tmp_path / "out", {}, "cwndlab plot x"))
    names = ["figure-02a.png", "figure-02b.png", "figure-27.png", "figure-19b.png"]
    assert [file.name for file in files] == names
    assert all(b"cwndlab plot x" in file.read_bytes() for file in files)


def test_a_file_takes_one_plot_in_its_format(results: ResultSet, tmp_path: Path) -> None:
    for name, begins in (("x.pdf", b"%PDF"), ("x.svg", b"<?xml"), ("x.PNG", b"\x89PNG")):
        (file,) = publications.draw(results, ["26"], tmp_path / name, {}, None)
        assert file == tmp_path / name and file.read_bytes().startswith(begins)
    for wanted, name, message in (
        (["2"], "y.pdf", f"--figure: {tmp_path}/y.pdf is one file, and these are 2 plots (2a, 2b); "),
        (["all"], "y.svg", f"--figure: {tmp_path}/y.svg is one file, and these are 44 plots (2a, 2b, 3a, "),
        (["26"], "y.jpg", "file format: '.jpg' does not exist; did you mean .png?"),
    ):
        with pytest.raises(InputError) as error:
            list(publications.draw(results, wanted, tmp_path / name, {}, None))
        assert str(error.value).startswith(message) and not (tmp_path / name).exists()


def test_before_and_after_the_patch_lie_over_each_other(
    patched: dict[str, ResultSet], tmp_path: Path
) -> None:
    patch = patched["cubic-patch"]
    stacks = []
    for plot in suites.plots_of("cubic-patch", ["1a", "1b", "2a", "2b", "3", "4"]):
        rows = bind(patch, Options(**plot.options)).rows
        assert set(rows["repeat"]) == {0}
        stacks.append(rows["hosts.a.stack"].to_list())
    default, rack = (["freebsd-15-current" + end, "freebsd-15-d49540" + end] for end in ("", "/rack"))
    assert stacks[:4] == [default, default, rack, rack]
    assert stacks[4:6] == [["linux-6.8"]] * 2 and all(len(five) == 5 for five in stacks[6:])
    (file,) = publications.draw(patch, ["1a"], tmp_path / "out", {}, None)
    assert file.stat().st_size > 0


@pytest.mark.parametrize("number", [*range(2, 28)])
def test_teacups_figures_draw_what_their_names_say(results: ResultSet, number: int, tmp_path: Path) -> None:
    for plot, figure, data in drawn("teacup-140502A", results, number, tmp_path):
        where = plot.options["where"]
        if plot.kind != "box":
            named = plot.caption.partition(":")[0]
            for _, line in lines(figure):
                assert_line(results, plot, line, data, {**where, **MEANT[named]})
            continue
        found = list(boxes(figure))
        assert len(found) == len(data)
        for along, name, box in found:
            cell = dict(zip(plot.options["by"][:-1], along, strict=True))
            assert_box(results, plot, box, data, {**where, **cell, **MEANT[name]})


@pytest.mark.parametrize(
    ("suite", "number"),
    [*(("cubic-patch", n) for n in range(1, 6)), *(("cubic-patch-bursts", n) for n in range(1, 5))],
)
def test_the_patchs_figures_draw_what_their_names_say(
    patched: dict[str, ResultSet], suite: str, number: int, tmp_path: Path
) -> None:
    results = patched[suite]
    for plot, figure, data in drawn(suite, results, number, tmp_path):
        if plot.kind == "box":
            for name, _, box in boxes(figure):  # a name in several lines
                stack = "".join(name).removesuffix(MARK.strip())
                assert_box(results, plot, box, data, {STACK: stack})
            continue
        end = "/rack" if "RACK" in plot.caption else ""
        found = list(lines(figure))
        assert len(found) == {3: 1, 4: 5}.get(number, 2) if suite == "cubic-patch" else 2
        for name, line in found:
            stack = "linux-6.8" if "Linux" in plot.caption else PATCH[name] + end if name in PATCH else name
            assert_line(results, plot, line, data, {STACK: stack, "repeat": 0})


Drawn = tuple[suites.Plot, paint.Plot, pl.DataFrame]


def drawn(suite: str, results: ResultSet, number: int, folder: Path) -> Iterator[Drawn]:
    """Draw the plots of a figure; yield each with the data that were written beside it."""
    for plot in suites.plots_of(suite, [str(number)]):
        file = folder / f"{plot.file}.png"
        figure = plots.plot(results, plot.kind, file, **plot.options)
        yield plot, figure, pl.read_csv(file.with_suffix(".data.csv"), infer_schema_length=None)


def boxes(figure: paint.Plot) -> Iterator[tuple[list[str], str, dict[str, float]]]:
    """Read each box of a picture: the values at its tick, the name of its colour, its numbers."""
    (axis,) = figure.axes
    ticks = [re.split(r"\n|, ", text.get_text()) for text in axis.get_xticklabels()]
    legend = figure.legends[0]
    pairs = zip(legend.get_patches(), legend.get_texts(), strict=False)
    names = {to_hex(patch.get_facecolor()): text.get_text() for patch, text in pairs}
    means = {line.get_xdata()[0]: line.get_ydata()[0] for line in axis.lines if line.get_marker() == "D"}
    for patch in axis.patches:
        (left, low), (right, high) = patch.get_path().get_extents().get_points()
        at = min(means, key=lambda x: abs(x - (left + right) / 2))
        numbers = {"q1": low, "q3": high, "mean": means[at]}
        yield ticks[round(at)], names.get(to_hex(patch.get_facecolor()), ""), numbers


def lines(figure: paint.Plot) -> Iterator[tuple[str, Line2D]]:
    """Read each strong line of a picture: its name by its colour, or its panel's heading, and the line."""
    names = {to_hex(text.get_color()): text.get_text() for axis in figure.axes for text in axis.texts}
    for legend in figure.legends:
        pairs = zip(legend.get_lines(), legend.get_texts(), strict=True)
        names |= {to_hex(line.get_color()): text.get_text() for line, text in pairs}
    for axis in figure.axes:
        for line in axis.lines:
            if line.get_zorder() == 2.5:  # thin companions lie below
                heading = axis.get_title(loc="left").removesuffix(MARK)
                yield heading or names.get(to_hex(line.get_color()), ""), line


def assert_box(
    results: ResultSet, plot: suites.Plot, box: dict[str, float], data: pl.DataFrame, cell: dict[str, str]
) -> None:
    """Assert that a box is the row of its cell in the data, and that of the values of its runs."""
    (row,) = _having(data, cell).rows(named=True)
    told = {name: row[name] for name in box}
    selection = bind(results, Options(**plot.options))
    value = plot.options.get("value", "goodput_mbps")
    values = selection.values(value, _having(results.summary, cell))
    values = values[~np.isnan(values)]
    low, high = np.percentile(values, (25, 75))
    assert box == pytest.approx(told)
    assert box == pytest.approx({"q1": low, "q3": high, "mean": values.mean()})


def assert_line(
    results: ResultSet, plot: suites.Plot, line: Line2D, data: pl.DataFrame, cell: dict[str, str]
) -> None:
    """Assert that a line is that of the run of its cell: as recorded, and in the data by its name."""
    (run,) = _having(results.summary, cell)["run_id"].unique()
    rows = data.filter(pl.col("run").cast(pl.String) == str(run))
    told = _having(rows, cell)
    assert told.height == rows.height > 1
    y = next(name for name in told.columns if "[" in name and name != "time [s]")
    at, drawn = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    beside = dict(zip(told["time [s]"], told[y], strict=True))
    assert [beside[t_s] for t_s in at] == pytest.approx(list(drawn), nan_ok=True)
    if plot.kind in ("cwnd", "rtt"):
        column, scale = {"cwnd": ("cwnd_bytes", 1e-3), "rtt": ("rtt_ms", 1.0)}[plot.kind]
        series = results.series(run, flow="f1")
        recorded = dict(zip(series["t_s"], series[column].cast(pl.Float64).to_numpy() * scale, strict=True))
        assert [recorded[t_s] for t_s in at] == pytest.approx(list(drawn), nan_ok=True)


def _having(rows: pl.DataFrame, cell: Mapping[str, object]) -> pl.DataFrame:
    """Return the rows that have the values of a cell, as far as they have its keys."""
    for key in [key for key in cell if key in rows.columns]:
        rows = rows.filter(pl.col(key).cast(pl.String).str.strip_suffix(MARK) == str(cell[key]))
    return rows


def test_the_boxes_of_throughput_are_single_seconds(results: ResultSet) -> None:
    (plot,) = suites.plots_of("teacup-140502A", ["21"])
    selection = bind(results, Options(**plot.options))
    run, flow = selection.rows.row(0, named=True)["run_id"], "f1"
    shown = selection.values(plot.options["value"], selection.rows.head(1))
    samples = results.series(run, flow=flow, table="samples")
    carried = samples.filter(pl.col("kind").cast(pl.String) == "wire")["value"]
    assert shown.tolist() == pytest.approx((carried * 8 / 1e6).to_list()) and len(shown) == 10


@pytest.mark.parametrize(
    ("experiment", "wanted", "message"),
    [
        ("teacup-140502A", "1", "figure: '1' does not exist; there are 2 to 27, or all"),
        (
            "tri-point",
            "2",
            "figure: 'tri-point' is no suite with published plots; there are cubic-patch, "
            "cubic-patch-bursts, teacup-140502A",
        ),
    ],
)
def test_what_there_is_not_is_one_line(experiment: str, wanted: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        suites.plots_of(experiment, [wanted])
    assert str(error.value) == message
