"""Plots of many runs, flows and groups: what is cut, what gets panels, and that pictures show what can be."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from matplotlib.text import Text
from memory_results import MemoryResults, sawtooth, summary_row, sweep

from cwndlab.report import plots


@pytest.fixture(scope="module")
def results() -> MemoryResults:
    return sweep()


@pytest.mark.slow
def test_panels_of_a_cut_sweep_hold_the_same_values():
    """Whole rounds of a sweep are shown: 24 combinations of eight delays, 18 of nine."""
    for delays, shown in ((8, 24), (9, 18), (13, 13), (30, 24)):
        many = sweep(ccs=list("abcd"), delays=[f"{ms}ms" for ms in range(delays)], repeats=1)
        figure = plots.plot(many, "rtt")
        assert f"first {shown} of {4 * delays} combinations" in " ".join(
            text.get_text() for text in figure.findobj(Text)
        )
        assert figure.data["run"].n_unique() == shown
        assert len({len(axis.get_lines()) for axis in figure.axes}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("combinations", [1, 19])
def test_many_flows_are_cut_to_what_panels_can_hold_and_it_says_so(combinations: int):
    names = [f"f{number}" for number in range(30)]
    rows = [
        summary_row(run, flow, keys={"app.scenario": str(run)})
        for run in range(combinations)
        for flow in names[: 30 - run]
    ]
    tcp = pl.concat([sawtooth(row["run_id"], row["flow"], seconds=0.1) for row in rows])
    figure = plots.plot(MemoryResults(pl.DataFrame(rows), {"tcp": tcp}), "rtt")
    shown = {1: "first 24 of 30 flows", 19: "first 6 of up to 30 flows"}[combinations]
    assert any(text.get_text().endswith(shown) for text in figure.texts)
    assert len(figure.axes) == (24 if combinations == 1 else 19)
    assert all(len(axis.get_lines()) == (1 if combinations == 1 else 6) for axis in figure.axes)
    figure.draw_without_rendering()
    assert min(axis.get_window_extent().height for axis in figure.axes) > 0.3 * figure.dpi
    named = plots.plot(MemoryResults(pl.DataFrame(rows), {"tcp": tcp}), "rtt", runs=[0], flows=names[:26])
    assert named.data["line"].n_unique() == 26


def test_an_interval_ends_at_what_the_link_or_the_metric_allows(results: MemoryResults):
    """Two runs of 8 and 9 Mbit/s at a link of 10 prove no 15."""
    cell = (pl.col("network.dumbbell.bottleneck.delay") == "20ms") & (pl.col("repeat") < 2)
    rate = pl.when(pl.col("repeat") == 0).then(8.0).otherwise(9.0)
    rows = results.summary.filter(cell).with_columns(goodput_mbps=rate, utilisation=rate / 10)
    for column, most in (("goodput_mbps", 10), ("utilisation", 100)):
        figure = plots.plot(MemoryResults(rows), "bar", value=column, by=["hosts.a.cc"])
        brackets = [bracket for lines in figure.axes[0].collections for bracket in lines.get_segments()]
        assert len(brackets) == 2 and all(high == pytest.approx(most) for (_, _), (_, high) in brackets)
        assert all(half > most / 10 for half in figure.data["half_interval"])


def test_intervals_are_over_runs_not_over_the_flows_of_one():
    """Flows that share a link differ much, their mean from run to run little."""
    rows = [
        summary_row(run, flow, repeat=run, goodput_mbps=mean + 0.1 * run)
        for run in range(3)
        for flow, mean in (("f1", 1.0), ("f2", 8.0))
    ]
    figure = plots.plot(MemoryResults(pl.DataFrame(rows)), "bar", by=["cc"])
    assert figure.data["mean"].item() == pytest.approx(4.6)
    assert figure.data["half_interval"].item() == pytest.approx(4.303 * 0.1 / 3**0.5, rel=1e-3)


@pytest.mark.slow
def test_names_below_a_heat_map_are_apart_whatever_stands_beside_it():
    names = [f"freebsd-15-of/{count}-changes" for count in range(5)]
    labels = {f"{ms}ms": f"a delay with a name of its own: {ms} ms" for ms in (0, 9)}
    figure = plots.plot(
        sweep(ccs=names, delays=["0ms", "9ms"], repeats=1), "heat", by=["hosts.a.cc", "delay"], labels=labels
    )
    figure.canvas.draw()
    shown = figure.axes[0].get_xticklabels()
    boxes = [text.get_window_extent() for text in shown]
    assert shown[0].get_rotation() or not any(
        one.overlaps(two) for one, two in itertools.combinations(boxes, 2)
    )


@pytest.mark.slow
def test_a_legend_of_many_groups_becomes_panels_and_names_its_keys():
    delays = [f"{ms}ms" for ms in range(13)]
    many = sweep(ccs=["2bit", "4bit", "4096bit"], delays=delays[:5], repeats=1)
    assert len(plots.plot(many, "delay", by=["delay"]).legends[0].get_texts()) == 5
    figure = plots.plot(many, "delay")
    assert [axis.get_title("left") for axis in figure.axes] == ["2bit", "4bit", "4096bit"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [f"delay {ms}" for ms in delays[:5]]
    # Of more combinations than panels can hold, fewer keys make the groups.
    figure = plots.plot(sweep(ccs=list("abc"), delays=delays, repeats=1), "delay")
    assert len(figure.legends[0].get_texts()) <= 12


def test_a_density_is_not_mostly_empty():
    """RTTs of 41 to 43 ms are not drawn on an axis from 0; those of 4 to 43 are."""
    for low, begins in ((41.0, 41.0), (4.0, 0.0)):
        frame = sawtooth(0).with_columns(rtt_ms=pl.Series(np.linspace(low, 43, 2000)))
        figure = plots.plot(MemoryResults(pl.DataFrame([summary_row(0)]), {"tcp": frame}), "density")
        assert figure.axes[0].get_xlim()[0] == begins
        assert figure.data["share"].sum() == pytest.approx(1)


def test_a_model_without_a_recording_is_marked_in_differences_too():
    rows = [
        summary_row(run, keys={"hosts.a.stack": stack}, repeat=run % 3, stack=stack, goodput_mbps=9.0 + run)
        for run, stack in enumerate(["freebsd-15-current"] * 3 + ["freebsd-15-d49540"] * 3)
    ]
    figure = plots.plot(MemoryResults(pl.DataFrame(rows)), "difference", by=["hosts.a.stack"])
    assert figure.get_suptitle().endswith("freebsd-15-d49540 (inferred) against freebsd-15-current")


def test_a_heading_says_whose_stack_it_is_where_hosts_have_others():
    stacks = ["freebsd-15-current", "linux-6.8"]
    rows = [
        summary_row(run, flow, keys={"hosts.a.stack": a, "hosts.b.stack": b}, stack=stack)
        for run, (a, b) in enumerate(itertools.product(stacks, stacks))
        for flow, stack in (("f1", a), ("f2", b))
    ]
    figure = plots.plot(MemoryResults(pl.DataFrame(rows)), "delay", facet=["hosts.a.stack"], by=["stack"])
    assert [axis.get_title("left") for axis in figure.axes] == [f"a.stack {stack}" for stack in stacks]
    alone = MemoryResults(pl.DataFrame(rows[:2] + rows[6:]).drop("hosts.b.stack"))
    figure = plots.plot(alone, "delay", facet=["hosts.a.stack"], by=["flow"])
    assert [axis.get_title("left") for axis in figure.axes] == stacks


def test_delays_that_hardly_differ_lie_together():
    rows = [
        summary_row(run, keys={"hosts.a.cc": cc}, rtt_mean_ms=0.4445 + 1e-6 * run, goodput_mbps=9.0 + run)
        for run, cc in enumerate(("cubic", "bbr", "newreno"))
    ]
    figure = plots.plot(MemoryResults(pl.DataFrame(rows)), "delay")
    left, right = figure.axes[0].get_xlim()
    assert left - right == pytest.approx(0.004445, rel=0.02)
    low, high = figure.axes[0].get_ylim()
    assert high - low < 3
    # Single points have no ellipse, and nothing is said of one.
    assert not [text for text in figure.findobj(Text) if "ellipse" in text.get_text()]
