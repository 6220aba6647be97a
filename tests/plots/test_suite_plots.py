"""The plots of publications that suites draw again: what they show, and the files they become."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from cwndlab import load, suites
from cwndlab.errors import InputError
from cwndlab.plots import KINDS, published
from cwndlab.plots.selection import Options, bind
from cwndlab.results.resultset import ResultSet

pytestmark = pytest.mark.slow

RATE, DELAY, LIMIT = (f"network.dumbbell.bottleneck.{name}" for name in ("rate", "delay", "queue.limit"))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    """The report's runs, two seconds of each."""
    out = tmp_path_factory.mktemp("teacup") / "results"
    return load(suites.suite("teacup-140502A").path, ["duration=2s", "record.tcp=20ms"]).run(out=out)


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
    files = list(published.draw(results, ["2", "27", "19b", "2a"], tmp_path / "out", {}, "cwndlab plot x"))
    names = ["figure-02a.png", "figure-02b.png", "figure-27.png", "figure-19b.png"]
    assert [file.name for file in files] == names
    assert all(b"cwndlab plot x" in file.read_bytes() for file in files)


def test_before_and_after_the_patch_lie_over_each_other(tmp_path: Path) -> None:
    short = ["duration=2s", "repeat=2", "record.tcp=20ms"]
    patch = load(suites.suite("cubic-patch").path, short).run(out=tmp_path / "results")
    stacks = []
    for plot in suites.plots_of("cubic-patch", ["1a", "1b", "2a", "2b", "3", "4"]):
        rows = bind(patch, Options(**plot.options)).rows
        assert set(rows["repeat"]) == {0}
        stacks.append(rows["hosts.a.stack"].to_list())
    default, rack = (["freebsd-15-current" + end, "freebsd-15-d49540" + end] for end in ("", "/rack"))
    assert stacks[:4] == [default, default, rack, rack]
    assert stacks[4:6] == [["linux-6.8"]] * 2 and all(len(five) == 5 for five in stacks[6:])
    (file,) = published.draw(patch, ["1a"], tmp_path / "out", {}, None)
    assert file.stat().st_size > 0


def test_the_boxes_of_throughput_are_single_seconds(results: ResultSet) -> None:
    (plot,) = suites.plots_of("teacup-140502A", ["21"])
    selection = bind(results, Options(**plot.options))
    run, flow = selection.rows.row(0, named=True)["run_id"], "f1"
    shown = selection.values(plot.options["value"], selection.rows.head(1))
    samples = results.series(run, flow=flow, table="samples")
    carried = samples.filter(pl.col("kind").cast(pl.String) == "wire")["value"]
    assert shown.tolist() == pytest.approx((carried * 8 / 1e6).to_list()) and len(shown) == 2


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
