"""What plots show and what they refuse, read back from the drawn lines, patches and files."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.text import Text
from memory_results import (
    MemoryResults,
    incast,
    queue,
    record,
    sawtooth,
    scenario,
    settling,
    summary_row,
    sweep,
)

from cwndlab.errors import InputError
from cwndlab.report import plots
from cwndlab.report.plots import box, groups, heat
from cwndlab.results import columns
from cwndlab.results.keys import distinguishing
from cwndlab.results.texttable import short_names
from cwndlab.testbeds.tables import SCHEMAS

OPTIONS: dict[str, dict[str, Any]] = {
    "difference": {"by": ["cc"]},
    "phase": {"runs": [3]},
    **{
        kind: {"runs": [3, 4]}
        for kind in ("cwnd", "rtt", "throughput", "goodput", "queue", "sojourn", "sequence", "series")
    },
}
"""Kinds over time are drawn for one or two runs; some cannot show more."""


@pytest.fixture(scope="module")
def results() -> MemoryResults:
    return sweep()


def data_lines(figure: Any, axis: int = 0) -> list[Any]:
    return [line for line in figure.axes[axis].get_lines() if len(line.get_xdata())]


def texts(figure: Any) -> list[str]:
    """The names of lines: of a legend, or beside their ends."""
    legend = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return [text.get_text() for text in figure.axes[0].texts] + legend


@pytest.mark.parametrize("kind", plots.KINDS)
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
@pytest.mark.slow
def test_every_kind_is_drawn_the_same_twice_and_carries_its_command(
    results: MemoryResults, kind: str, ending: str, tmp_path: Path
):
    command = f"cwndlab plot results/latest --kind {kind}"
    files = [tmp_path / f"{number}.{ending}" for number in range(2)]
    chosen = {"bursts": incast, "slowdown": incast, "steady": settling}.get(kind, lambda: results)()
    for file in files:
        plots.plot(chosen, kind, file, command=command, **OPTIONS.get(kind, {}))
    first, second = (file.read_bytes() for file in files)
    assert first == second
    assert command.encode() in first
    assert not re.search(rb"CreationDate|<dc:date>", first)


def test_panels_stand_where_the_solver_of_their_layout_cannot_move_them(results: MemoryResults):
    figure = plots.plot(results, "queue", runs=[3])
    figure.draw_without_rendering()
    places = [place for axes in figure.axes for place in axes.get_position().bounds]
    assert len(places) >= 4
    assert places == pytest.approx([round(place, 6) for place in places], abs=1e-12)


@pytest.mark.parametrize("size", ["paper", "slide"])
def test_sizes(results: MemoryResults, size: str):
    width, height = plots.plot(results, "cwnd", runs=[0], size=size).get_size_inches()
    assert (width, height) == pytest.approx((6.5, 3.4 + 0.2) if size == "paper" else (12.8, 7.2), abs=0.2)


def test_cwnd_shows_every_sample_in_kb_and_ssthresh_once_finite(results: MemoryResults):
    cwnd, ssthresh = data_lines(plots.plot(results, "cwnd", runs=[3]))
    frame = results.series(3)
    assert cwnd.get_xdata().tolist() == frame["t_s"].to_list()
    assert cwnd.get_ydata().tolist() == pytest.approx((frame["cwnd_bytes"] / 1e3).to_list())
    assert np.isnan(ssthresh.get_ydata()).sum() == 300
    assert set(ssthresh.get_ydata()[300:]) == {50.0}
    assert cwnd.get_drawstyle() == "steps-post"


def test_a_dip_of_one_mss_in_a_long_run_is_drawn():
    frame = sawtooth(0, seconds=3000.0).with_columns(pl.lit(100_000).alias("cwnd_bytes"))
    dip = frame["t_s"][123_457]
    frame = frame.with_columns(
        pl.when(pl.col("t_s") == dip).then(98_552).otherwise("cwnd_bytes").alias("cwnd_bytes")
    )
    results = MemoryResults(pl.DataFrame([summary_row(0)]), {"tcp": frame})
    line = data_lines(plots.plot(results, "cwnd"))[0]
    assert len(line.get_xdata()) < 10_000
    assert line.get_ydata().min() == 98.552
    assert line.get_xdata()[line.get_ydata().argmin()] == dip


def test_a_time_window_cuts_and_a_flows_own_zero_shifts(results: MemoryResults):
    late = MemoryResults(
        pl.DataFrame([summary_row(0)]), {"tcp": sawtooth(0).with_columns(pl.col("t_s") + 7.5)}
    )
    cut = data_lines(plots.plot(late, "rtt", window=(10.0, 12.0)))[0].get_xdata()
    assert (cut[0], cut[-1]) == (10.0, 12.0)
    assert data_lines(plots.plot(late, "rtt", zero="flow"))[0].get_xdata()[0] == 0.0


def test_goodput_counts_idle_windows_as_zero_and_ends_with_the_run():
    short, long = sawtooth(0, "early", seconds=2.005), sawtooth(0, "whole", seconds=5.005)
    rows = [summary_row(0, "early"), summary_row(0, "whole")]
    results = MemoryResults(pl.DataFrame(rows), {"tcp": pl.concat([short, long])})
    early, whole = data_lines(plots.plot(results, "goodput"))
    assert early.get_xdata().tolist() == whole.get_xdata().tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert early.get_ydata().tolist() == pytest.approx([9, 9, 0, 0, 0])
    assert whole.get_ydata().tolist() == pytest.approx([9] * 5)


def test_goodput_of_a_time_window_counts_only_what_was_delivered_in_it(results: MemoryResults):
    line = data_lines(
        plots.plot(results, "goodput", runs=[0], window=(10.0, 12.0), average=0.5, overlap=0.5)
    )[0]
    assert line.get_xdata().tolist() == [10.25, 10.5, 10.75, 11.0, 11.25, 11.5, 11.75]
    assert line.get_ydata() == pytest.approx(np.full(7, results.summary["goodput_mbps"][0]), rel=1e-4)


def test_throughput_is_of_what_arrives_and_goodput_of_what_is_delivered(results: MemoryResults):
    rates = {kind: data_lines(plots.plot(results, kind, runs=[0]))[0] for kind in ("throughput", "goodput")}
    ratio = rates["throughput"].get_ydata() / rates["goodput"].get_ydata()
    assert ratio == pytest.approx(np.full(len(ratio), 1514 / 1448), rel=1e-4)


def test_a_rate_that_was_not_recorded_names_the_one_that_was():
    frame = sawtooth(0).with_columns(arrived_bytes=pl.lit(None, pl.UInt64))
    imported = MemoryResults(pl.DataFrame([summary_row(0)]), {"tcp": frame})
    with pytest.raises(InputError, match="these runs do not have arrived_bytes; --kind goodput"):
        plots.plot(imported, "throughput")
    assert data_lines(plots.plot(imported, "goodput"))


def test_flows_are_filtered_ordered_and_named():
    flows = ["f1", "f2", "f3"]
    frame = pl.concat(
        [sawtooth(0, flow, peak=peak) for flow, peak in zip(flows, (1e5, 2e5, 3e5), strict=True)]
    )
    results = MemoryResults(pl.DataFrame([summary_row(0, flow) for flow in flows]), {"tcp": frame})
    figure = plots.plot(results, "rtt", flows=["f3", "f1"])
    assert texts(figure) == ["f3", "f1"]
    assert texts(plots.plot(results, "rtt", flows=["f3", "f1"], labels={"f1": "short", "f3": "long"})) == [
        "long",
        "short",
    ]
    panels = plots.plot(results, "cwnd", flows=["f3", "f1"], panels="flow")
    assert [axis.get_title(loc="left") for axis in panels.axes] == ["f3", "f1"]
    assert [data_lines(panels, axis)[0].get_ydata().max() for axis in range(2)] == pytest.approx(
        [299.6, 99.87], abs=0.1
    )


def test_runs_are_labelled_by_what_tells_them_apart(results: MemoryResults):
    assert texts(plots.plot(results, "rtt", runs=[0, 3, 9])) == [
        "newreno, delay 0ms",
        "newreno, delay 20ms",
        "cubic, delay 0ms",
    ]
    assert texts(plots.plot(results, "rtt", where={"hosts.a.cc": "cubic", "repeat": 0})) == [
        "delay 0ms",
        "delay 20ms",
        "delay 100ms",
    ]


@pytest.mark.slow
def test_more_runs_than_can_be_read_are_cut_and_it_says_so(results: MemoryResults):
    assert plots.plot(results, "rtt").data["run"].n_unique() == 18 + 1
    many = sweep(delays=[f"{ms}ms" for ms in range(20)], repeats=2)
    said = [text.get_text() for text in plots.plot(many, "rtt").texts]
    assert any(text.startswith("first 20 of 40 combinations, first 1 of 2 repeats") for text in said)
    assert plots.plot(many, "rtt").data["run"].n_unique() == 20


@pytest.mark.slow
def test_what_the_runs_shown_share_is_said(results: MemoryResults):
    figure = plots.plot(results, "rtt", where={"hosts.a.cc": "cubic", "repeat": 1})
    assert figure.axes[0].get_title(loc="right") == "cubic, repeat 1"
    figure = plots.plot(results, "rtt", runs=[5])
    assert figure.axes[0].get_title(loc="right") == "run 5: newreno, delay 20ms, repeat 2"


@pytest.mark.slow
def test_many_series_have_pens_of_their_own_and_a_legend_outside(results: MemoryResults):
    figure = plots.plot(results, "rtt", runs=list(range(18)), facet=["none"])
    lines = data_lines(figure)
    pens = {
        (line.get_color(), str(line.get_linestyle()), line._dash_pattern[1] and tuple(line._dash_pattern[1]))
        for line in lines
    }
    assert len(pens) == len(lines) == 18
    figure.canvas.draw()
    (legend,) = figure.legends
    assert not legend.get_window_extent().overlaps(figure.axes[0].get_tightbbox())


def test_only_complete_runs_are_drawn_unless_named():
    rows = [summary_row(0), summary_row(1, status="missing"), summary_row(2)]
    results = MemoryResults(pl.DataFrame(rows), {"tcp": pl.concat([sawtooth(0), sawtooth(2)])})
    assert len(data_lines(plots.plot(results, "rtt"))) == 2


def test_queue_and_its_delay():
    lines = [record(0, scenario=scenario(rate_bps=2_000_000))]
    results = MemoryResults(pl.DataFrame([summary_row(0)]), {"queue": queue(0)}, lines=lines)
    waiting = data_lines(plots.plot(results, "queue"))[0]
    delay = data_lines(plots.plot(results, "sojourn"))[0]
    assert waiting.get_ydata().max() == 49
    # 49 packets of 1514 bytes at 2 Mbit/s.
    assert delay.get_ydata().max() == pytest.approx(49 * 1514 * 8 / 2e6 * 1e3)


def test_sojourn_follows_a_rate_that_changes():
    changed = scenario(rate_bps=8_000_000) | {
        "schedule": [{"at_ns": 10 * 10**9, "link": "bottleneck", "rate_bps": 4_000_000, "delay_ns": None}]
    }
    results = MemoryResults(
        pl.DataFrame([summary_row(0)]), {"queue": queue(0)}, lines=[record(0, scenario=changed)]
    )
    line = data_lines(plots.plot(results, "sojourn"))[0]
    early, late = (line.get_ydata()[np.searchsorted(line.get_xdata(), at)] for at in (3.0, 11.0))
    assert (early, late) == pytest.approx((37 * 1514 / 1e3, 37 * 1514 * 2 / 1e3))


@pytest.mark.parametrize("rate_bps", [8_000_000, None])
@pytest.mark.parametrize(
    ("kind", "drains_bps"), [("token-bucket", 2_000_000), ("htb", 2_000_000), ("policer", None)]
)
def test_sojourn_waits_for_tokens(rate_bps: int | None, kind: str, drains_bps: int | None):
    shaped = scenario(rate_bps=rate_bps)
    shaped["links"][0]["shaper"] = {"kind": kind, "rate_bps": 2_000_000, "burst_bytes": 3000}
    results = MemoryResults(
        pl.DataFrame([summary_row(0)]), {"queue": queue(0)}, lines=[record(0, scenario=shaped)]
    )
    if rate_bps is drains_bps is None:
        with pytest.raises(InputError, match="no queue of a link with a rate"):
            plots.plot(results, "sojourn")
    else:
        line = data_lines(plots.plot(results, "sojourn"))[0]
        assert line.get_ydata().max() == pytest.approx(49 * 1514 * 8e3 / (drains_bps or rate_bps))


def test_boxes_stand_in_the_order_of_their_quantities(results: MemoryResults):
    figure = plots.plot(results, "box", by=["network.dumbbell.bottleneck.delay", "hosts.a.cc"])
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["0ms", "20ms", "100ms"]
    assert texts(figure) == ["newreno", "cubic", "mean"]
    means = [line.get_ydata()[0] for line in figure.axes[0].get_lines() if line.get_marker() == "D"]
    for group, mean in zip([("0ms", "newreno"), ("0ms", "cubic"), ("20ms", "newreno")], means, strict=False):
        rows = results.summary.filter(
            (pl.col("network.dumbbell.bottleneck.delay") == group[0]) & (pl.col("hosts.a.cc") == group[1])
        )
        assert mean == pytest.approx(rows["goodput_mbps"].mean())


def test_boxes_of_a_series_hold_all_its_samples(results: MemoryResults):
    figure = plots.plot(results, "box", value="queue.backlog_packets", by=["hosts.a.cc"], window=(0, 2))
    medians = [line.get_ydata() for line in figure.axes[0].get_lines() if line.get_linewidth() == 1.8]
    cubic = pl.concat([results.series(run, table="queue") for run in range(9, 18)]).filter(pl.col("t_s") <= 2)
    assert medians[0][0] == np.median(cubic["backlog_packets"])


def test_bars_have_students_interval(results: MemoryResults):
    figure = plots.plot(results, "bar", by=["hosts.a.cc"])
    heights = [patch.get_height() for patch in figure.axes[0].patches]
    means = results.summary.group_by("hosts.a.cc").agg(pl.col("goodput_mbps").mean())
    means = means.sort("hosts.a.cc", descending=True)
    assert heights == pytest.approx(means["goodput_mbps"].to_list())
    assert len(figure.axes[0].containers) == 4


def test_an_interval_of_what_is_never_negative_does_not_go_below_0(results: MemoryResults):
    rate = pl.when(pl.col("repeat") == 0).then(0.1).otherwise(9.0).alias("goodput_mbps")
    cell = (pl.col("network.dumbbell.bottleneck.delay") == "20ms") & (pl.col("repeat") < 2)
    figure = plots.plot(
        MemoryResults(results.summary.filter(cell).with_columns(rate)), "bar", by=["hosts.a.cc"]
    )
    brackets = [bracket for lines in figure.axes[0].collections for bracket in lines.get_segments()]
    assert len(brackets) == 2
    assert all(low >= 0 and high > 9 for (_, low), (_, high) in brackets)


def test_a_heat_map_has_the_mean_in_every_field_and_hatches_what_is_missing(results: MemoryResults):
    rows = results.summary.filter(
        ~((pl.col("hosts.a.cc") == "cubic") & (pl.col("network.dumbbell.bottleneck.delay") == "20ms"))
    )
    figure = plots.plot(MemoryResults(rows), "heat")
    values = figure.axes[0].images[0].get_array().filled(np.nan)
    assert values.shape == (3, 2)
    assert np.isnan(values[1, 1])
    expected = rows.filter(
        (pl.col("hosts.a.cc") == "newreno") & (pl.col("network.dumbbell.bottleneck.delay") == "100ms")
    )
    assert values[2, 0] == pytest.approx(expected["goodput_mbps"].mean())


@pytest.fixture(scope="module")
def unlike() -> MemoryResults:
    """A sweep with a transfer and a ping in each run."""
    rows = [
        summary_row(
            number, flow, {"queue": limit}, repeat=repeat, app=app, cc=cc, goodput_mbps=rate + 0.1 * number
        )
        for number, (limit, repeat) in enumerate((limit, r) for limit in ("10p", "90p") for r in range(3))
        for flow, app, cc, rate in (("f1", "bulk", "cubic", 9.0), ("f2", "ping", None, 0.004))
    ]
    return MemoryResults(pl.DataFrame(rows))


@pytest.mark.parametrize("kind", ["box", "bar", "cdf"])
def test_flows_of_different_applications_are_not_put_together(unlike: MemoryResults, kind: str):
    figure = plots.plot(unlike, kind, value="goodput_mbps")
    names = texts(figure)
    assert [name for name in names if "ping" in name]
    assert [name for name in names if "bulk" in name]
    asked = plots.plot(unlike, kind, value="goodput_mbps", by=["queue"], flows=["f1", "f2"])
    assert not [name for name in texts(asked) if "ping" in name]
    alike = plots.plot(unlike, kind, value="goodput_mbps", where={"app": "bulk"})
    assert not [name for name in texts(alike) if "bulk" in name]


@pytest.mark.parametrize("kind", ["box", "bar", "cdf"])
def test_flows_of_unlike_stacks_in_one_run_are_not_put_together(kind: str):
    def rows(stacks: tuple[str, str]) -> MemoryResults:
        return MemoryResults(
            pl.DataFrame(
                [
                    summary_row(run, flow, {"queue": limit}, stack=stack, goodput_mbps=rate + run)
                    for run, limit in enumerate(("10p", "90p"))
                    for flow, stack, rate in zip(("f1", "f2"), stacks, (15.0, 5.0), strict=True)
                ]
            )
        )

    apart = texts(plots.plot(rows(("linux-6.8", "freebsd-13")), kind, value="goodput_mbps"))
    assert [name for name in apart if "freebsd-13" in name]
    together = texts(plots.plot(rows(("linux-6.8", "linux-6.8")), kind, value="goodput_mbps"))
    assert not [name for name in together if "linux-6.8" in name]


def test_a_heat_map_shows_one_application_and_says_so(unlike: MemoryResults):
    figure = plots.plot(unlike, "heat", by=["queue", "repeat"])
    assert figure.axes[0].images[0].get_array().min() >= 9
    assert "app bulk" in " ".join(text.get_text() for text in figure.findobj(Text))


def test_throughput_against_delay_grows_leftwards(results: MemoryResults):
    figure = plots.plot(results, "delay", by=["hosts.a.cc"])
    assert figure.axes[0].xaxis_inverted()
    assert len(figure.axes[0].patches) == 2
    assert figure.axes[0].get_title(loc="right") == "ellipse: one standard deviation"
    assert texts(figure) == ["newreno", "cubic"]


@pytest.mark.parametrize(("kind", "log"), [("cwnd", "y"), ("cdf", "xy"), ("heat", "y"), ("delay", "xy")])
@pytest.mark.slow
def test_logarithmic_axes_have_plain_numbers(results: MemoryResults, kind: str, log: str):
    figure = plots.plot(results, kind, log=log)
    figure.canvas.draw()
    labels = [tick for axes in figure.axes for tick in [*axes.get_xticklabels(), *axes.get_yticklabels()]]
    assert [label.get_text() for label in labels if label.get_text()]
    assert not [label.get_text() for label in labels if "$" in label.get_text()]


def test_cdf_ends_at_one(results: MemoryResults):
    line = data_lines(plots.plot(results, "cdf", value="goodput_mbps", by=["hosts.a.cc"]))[1]
    cubic = results.summary.filter(pl.col("hosts.a.cc") == "cubic")["goodput_mbps"].sort()
    assert line.get_xdata()[1:].tolist() == cubic.to_list()
    assert line.get_ydata()[1:].tolist() == pytest.approx(np.arange(1, 10) / 9)


def test_phase_of_two_flows_holds_each_cwnd_until_its_next_sample():
    one = pl.DataFrame(
        {"run_id": 0, "flow": "f1", "t_s": [0.0, 2.0], "cwnd_bytes": [1000, 3000], "rtt_ms": [1.0, 1.0]}
    )
    two = pl.DataFrame(
        {"run_id": 0, "flow": "f2", "t_s": [1.0, 3.0], "cwnd_bytes": [5000, 7000], "rtt_ms": [1.0, 1.0]}
    )
    results = MemoryResults(
        pl.DataFrame([summary_row(0, "f1"), summary_row(0, "f2")]), {"tcp": pl.concat([one, two])}
    )
    figure = plots.plot(results, "phase")
    assert figure.axes[0].collections[0].get_offsets().tolist() == [[1, 5], [3, 5], [3, 7]]
    figure.canvas.draw()
    (equal,) = [text for text in figure.axes[0].texts if text.get_text() == "equal"]
    box = equal.get_window_extent()
    left, top = figure.axes[0].transData.inverted().transform((box.x0, box.y1))
    assert top < left  # beside the line of equal shares, not on it


def test_sequence_marks_drops_at_the_sequence_that_was_lost(results: MemoryResults):
    figure = plots.plot(results, "sequence", runs=[0])
    assert texts(figure) == [
        "sent",
        "delivered",
        "retransmitted",
        "dropped",
        "recovery begins",
        "recovery ends",
    ]
    drops = next(line for line in figure.axes[0].get_lines() if line.get_marker() == "x")
    assert drops.get_xdata().tolist() == drops.get_ydata().tolist() == list(range(2, 20, 2))


@pytest.mark.parametrize(("column", "factor"), [("inflight_bytes", 1e-3), ("delivered_bytes", 1e-6)])
def test_any_column_of_a_series_is_drawn_by_its_name(results: MemoryResults, column: str, factor: float):
    figure = plots.plot(results, "series", runs=[0], value=column)
    (line,) = data_lines(figure)
    frame = results.series(0)
    assert np.allclose(line.get_xdata(), frame["t_s"]) and len(frame) == len(line.get_xdata())
    assert np.allclose(line.get_ydata(), frame[column] * factor)
    assert line.get_drawstyle() == "steps-post"


def test_columns_of_queues_and_of_tcp_info_are_series_too(results: MemoryResults):
    figure = plots.plot(results, "series", runs=[0], value="queue.drops")
    assert figure.axes[0].get_ylabel() == "drops so far [packets]"
    info = pl.DataFrame({"run_id": 0, "t_s": [0.0, 1.0], "flow": "f1", "busy_ms": [200.0, 240.0]})
    kernel = MemoryResults(pl.DataFrame([summary_row(0)]), {**results.tables, "tcp_info": info})
    figure = plots.plot(kernel, "series", value="busy_ms")
    assert data_lines(figure)[0].get_ydata().tolist() == [200, 240]
    assert figure.axes[0].get_ylabel() == "busy [ms]"


def test_a_column_that_holds_nothing_is_not_an_empty_figure(results: MemoryResults):
    nothing = results.tables["tcp"].with_columns(pacing_bps=pl.lit(None, pl.UInt64))
    empty = MemoryResults(results.summary, {**results.tables, "tcp": nothing})
    with pytest.raises(InputError, match="pacing rate: nothing was recorded for these runs"):
        plots.plot(empty, "series", value="pacing_bps", runs=[0])


def test_the_columns_of_series_are_those_of_the_tables():
    for table, names in columns.SERIES.items():
        known = {re.sub(r"_ns$", "_ms", name) for name in SCHEMAS[table].names}
        assert set(names) <= known, table
    kernel = {re.sub(r"_ns$", "_ms", name) for name in SCHEMAS["tcp_info"].names}
    rest = {"run_id", "t_ms", "flow", "local_port", "remote_port"}
    assert kernel - rest == set(columns.SERIES["tcp_info"])


def test_the_last_of_several_keys_is_colours_and_the_others_stand_along_the_axis(results: MemoryResults):
    keys = ["network.dumbbell.bottleneck.delay", "repeat", "hosts.a.cc"]
    figure = plots.plot(results, "bar", by=keys, value="goodput_mbps")
    (axis,) = figure.axes
    places = [f"{delay}\n{repeat}" for delay in ("0ms", "20ms", "100ms") for repeat in range(3)]
    assert [text.get_text() for text in axis.get_xticklabels()] == places
    assert texts(figure) == ["newreno", "cubic"]
    assert axis.get_xlabel() == "delay and repeat"
    assert len(axis.patches) == 2 * len(places)


@pytest.mark.slow
def test_a_label_is_of_a_value_wherever_it_is_shown(results: MemoryResults):
    labels = {"delay=20ms": "short", "newreno": "New Reno"}
    figure = plots.plot(results, "box", by=["delay", "hosts.a.cc"], labels=labels)
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["0ms", "short", "100ms"]
    assert texts(figure) == ["New Reno", "cubic", "mean"]
    assert figure.data["hosts.a.cc"].unique(maintain_order=True).to_list() == ["newreno", "cubic"]
    figure = plots.plot(results, "rtt", facet=["delay"], labels=labels)
    assert [axis.get_title("left") for axis in figure.axes] == ["delay 0ms", "short", "delay 100ms"]
    assert texts(figure) == ["New Reno", "cubic"]
    figure = plots.plot(results, "heat", by=["delay", "hosts.a.cc"], labels=labels)
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["New Reno", "cubic"]


def test_a_label_of_a_value_of_two_keys_needs_the_key():
    keys = [{"a.size": size, "b.size": other} for size in ("1", "2") for other in ("1", "2")]
    rows = [summary_row(number, keys=cell, goodput_mbps=number) for number, cell in enumerate(keys)]
    both: dict[str, Any] = {"by": ["a.size", "b.size"]}
    with pytest.raises(InputError, match=r"label: 1 is a value of a.size and of b.size; write KEY=1"):
        plots.plot(MemoryResults(pl.DataFrame(rows)), "bar", labels={"1": "one"}, **both)
    figure = plots.plot(MemoryResults(pl.DataFrame(rows)), "bar", labels={"b.size=1": "one"}, **both)
    assert texts(figure) == ["one", "2"]
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["1", "2"]


@pytest.mark.slow
def test_headings_of_panels_are_whole_and_fit():
    names = [f"freebsd-15-of-somebody/rack-with-{count}-changes-and-a-long-name" for count in range(6)]
    figure = plots.plot(sweep(ccs=names, delays=["0ms"], repeats=1), "rtt", facet=["hosts.a.cc"])
    figure.draw_without_rendering()
    assert [axis.get_title("left").replace("\n", "") for axis in figure.axes] == names
    titles = [axis._left_title.get_window_extent() for axis in figure.axes]  # of which there is no other way
    assert all(title.width < 0.5 * figure.bbox.width for title in titles)
    assert not titles[0].overlaps(titles[1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bar", "box", "heat", "difference", "delay"])
def test_long_names_are_whole_and_apart(kind: str):
    names = [f"freebsd-15-of-somebody/rack-with-{count}-changes (inferred)" for count in range(6)]
    by = ["cc"] if kind == "difference" else ["hosts.a.cc", "delay"] if kind in ("heat", "delay") else ["cc"]
    figure = plots.plot(sweep(ccs=names, delays=["0ms", "9ms"], repeats=2), kind, by=by)
    figure.canvas.draw()
    (axis, *_) = figure.axes
    written = axis.get_yticklabels() if kind == "difference" else axis.get_xticklabels()
    if kind == "delay":
        written = figure.legends[0].get_texts()
    shown = [text for text in written if text.get_text()]
    whole = " ".join(text.get_text().replace("\n", "") for text in shown)
    assert all(name.replace(" ", "") in whole.replace(" ", "") for name in names[1:])
    boxes = [text.get_window_extent() for text in shown]
    if not shown[0].get_rotation():  # boxes of slanted names overlap where the names do not
        assert not [(one, two) for one, two in itertools.combinations(boxes, 2) if one.overlaps(two)]
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
    assert axis.get_window_extent().height > 0.9 * figure.dpi


def test_outliers_that_cannot_be_told_apart_are_drawn_once():
    values = np.concatenate([np.linspace(0, 1, 100_000), np.linspace(5, 6, 1000)])
    frame = pl.DataFrame({"run_id": 0, "t_s": np.arange(len(values)), "flow": "f1", "rtt_ms": values})
    results = MemoryResults(pl.DataFrame([summary_row(0)]), {"tcp": frame})
    figure = plots.plot(results, "box", value="tcp.rtt_ms")
    (dots,) = [line for line in figure.axes[0].get_lines() if line.get_marker() == "o"]
    drawn = dots.get_ydata()
    assert 290 < len(drawn) <= box.MAX_POINTS + 1
    assert drawn[0] == 5 and np.diff(drawn).max() < 2 / box.MAX_POINTS


def test_the_fields_of_a_heat_map_have_three_digits():
    assert [heat.written(value) for value in (9.4, 9.151, 120.4, 0.05, 12345.0)] == [
        "9.40", "9.15", "120", "0.0500", "1.23e+04",
    ]  # fmt: skip


@pytest.mark.slow
def test_names_with_dollars_and_markup_are_drawn_as_they_stand(tmp_path: Path):
    flows = ["$x^2$", "a & <b>", "\\frac{1}{2}$"]
    frame = pl.concat([sawtooth(0, flow) for flow in flows])
    results = MemoryResults(pl.DataFrame([summary_row(0, flow) for flow in flows]), {"tcp": frame})
    figure = plots.plot(results, "cwnd", tmp_path / "x.svg", title="$\\notatex")
    assert texts(figure)[:3] == flows


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("cwdn", {}, "kind: 'cwdn' does not exist; did you mean cwnd?"),
        ("zzz", {}, "kind: 'zzz' does not exist; there is cwnd, rtt, throughput"),
        ("series", {"value": "goodput_mbps"}, "value: goodput_mbps is one value per run; this kind shows"),
        ("box", {"value": "goodput"}, "column: 'goodput' does not exist; did you mean goodput_mbps?"),
        ("box", {"value": "queue.cwnd_bytes"}, "column: 'queue.cwnd_bytes' does not exist"),
        ("box", {"by": ["hosts.a.ccc"]}, "key: 'hosts.a.ccc' does not exist; did you mean hosts.a.cc?"),
        ("heat", {"by": ["flow", "cc", "repeat"]}, "by: this kind groups by 2 key(s) at most, not 3"),
        ("cwnd", {"runs": ["x"]}, "run: 'x' does not exist; there is 0, 1, 2"),
        ("cwnd", {"runs": []}, "runs: none named"),
        ("cwnd", {"flows": ["g1"]}, "flow: 'g1' does not exist; there is f1"),
        (
            "cwnd",
            {"where": {"hosts.a.cc": "bbr"}},
            "hosts.a.cc: 'bbr' does not exist; there is newreno, cubic",
        ),
        ("cwnd", {"where": {"goodput_mbps": "9"}}, "key: 'goodput_mbps' does not exist"),
        ("cwnd", {"size": "poster"}, "size: found 'poster'; expected paper, slide, 1col, 2col, 88mm or"),
        ("cwnd", {"log": "z"}, "log: 'z' does not exist; there is x, y, xy"),
        ("cwnd", {"panels": "hop"}, "panels: 'hop' does not exist; there is run, flow"),
        ("cwnd", {"window": (5, 5)}, "window: 5 to 5 is empty"),
        (
            "cwnd",
            {"window": (500, None)},
            "cwnd and ssthresh: nothing was recorded for these runs, flows and times",
        ),
        ("cwnd", {"colour": "red"}, "option: 'colour' does not exist"),
        ("rtt", {"value": "rtt"}, "value: 'rtt' does not exist; did you mean rtt_ms or srtt_ms?"),
        ("rtt", {"labels": ["one"]}, "label: found ['one']; expected names of values, such as cubic: CUBIC"),
        ("rtt", {"labels": {"cubik": "x"}}, "label: 'cubik' does not exist; did you mean cubic?"),
        ("rtt", {"labels": {"cubic": "newreno"}}, "label: newreno and cubic would both be called newreno"),
        (
            "rtt",
            {"runs": [3], "labels": {"cubic": "x"}},
            "label: 'cubic' names nothing; no value is named here",
        ),
        ("throughput", {"average": 0}, "average: 0 s is no length of a window"),
        ("throughput", {"average": 99}, "average: no whole window of 99 s fits into what is shown"),
        ("throughput", {"overlap": 1}, "overlap: 1 is not a share"),
        ("queue", {"hop": "botleneck"}, "hop: 'botleneck' does not exist; did you mean bottleneck?"),
        ("bar", {"value": "tcp.rtt_ms"}, "value: tcp.rtt_ms is a series; bars need a column of the summary"),
        ("bar", {"confidence": 95}, "confidence: 95 is not between 0 and 1"),
        ("heat", {"by": ["hosts.a.cc"]}, "by: a heat map needs two keys"),
        ("phase", {}, "runs: a phase plot shows one run, not 18"),
        ("sequence", {}, "runs: a sequence plot shows up to 6 flows, not 18"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(
    results: MemoryResults, kind: str, options: Any, message: str
):
    with pytest.raises(InputError) as refused:
        plots.plot(results, kind, **options)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_refused(results: MemoryResults, tmp_path: Path):
    with pytest.raises(InputError, match=r"file format: '.gif' does not exist; there is .png, .svg, .pdf"):
        plots.plot(results, "cwnd", tmp_path / "x.gif", runs=[0])
    with pytest.raises(InputError, match="No such file or directory"):
        plots.plot(results, "cwnd", tmp_path / "no" / "x.png", runs=[0])


def test_nothing_to_draw_is_said():
    empty = MemoryResults(pl.DataFrame([summary_row(0)]).clear())
    with pytest.raises(InputError, match="these results hold no run"):
        plots.plot(empty, "cwnd")
    missing = MemoryResults(pl.DataFrame([summary_row(0, status="missing", goodput_mbps=None)]))
    with pytest.raises(InputError, match="no run was carried out"):
        plots.plot(missing, "cwnd")
    with pytest.raises(InputError, match="goodput_mbps: no value was recorded"):
        plots.plot(
            MemoryResults(
                pl.DataFrame(
                    [summary_row(0, goodput_mbps=None)], schema_overrides={"goodput_mbps": pl.Float64}
                )
            ),
            "box",
        )


def test_the_end_of_a_swept_key_will_do(results: MemoryResults):
    assert texts(plots.plot(results, "rtt", where={"delay": "20ms", "repeat": 0})) == ["newreno", "cubic"]
    (axis,) = plots.plot(results, "box", by=["delay"]).axes
    assert axis.get_xlabel() == "delay"
    heat, _ = plots.plot(results, "heat", by=["hosts.a.cc", "delay"]).axes
    assert (heat.get_xlabel(), heat.get_ylabel()) == ("congestion control", "delay")
    keys = {"hosts.a.hz": "100", "hosts.b.hz": "1000"}
    two = MemoryResults(pl.DataFrame([summary_row(0, keys=keys)]))
    with pytest.raises(
        InputError, match=r"^key: hz may be hosts\.a\.hz or hosts\.b\.hz; give the whole key$"
    ):
        plots.plot(two, "box", by=["hz"])


def test_units_that_suffixes_do_not_tell_are_named():
    assert columns.describe("upload_kib_s").label == "upload capacity [KiB/s]"
    assert columns.describe("smoothness_hz").label == "smoothness [Hz]"


def test_keys_that_say_the_same_are_left_out():
    rows = pl.DataFrame(
        {
            "run_id": [0, 1, 2],
            "hosts.a.stack": ["x", "x", "y"],
            "hosts.b.stack": ["x", "x", "y"],
            "cc": ["n", "c", "c"],
        }
    )
    assert distinguishing(rows, ["hosts.a.stack", "hosts.b.stack", "cc"]) == ["hosts.a.stack", "cc"]


def test_short_names_stay_clear():
    assert short_names(["hosts.a.cc", "hosts.b.cc", "network.dumbbell.bottleneck.rate"]) == {
        "hosts.a.cc": "a.cc",
        "hosts.b.cc": "b.cc",
        "network.dumbbell.bottleneck.rate": "rate",
    }
    # The way back is told from the way there, also where that is not swept.
    back = "network.dumbbell.reverse.rate"
    assert short_names([back]) == {back: "reverse.rate"}
    deep = "network.chain.reverse.queue.limit"
    assert short_names([back, deep]) == {back: "reverse.rate", deep: "reverse.queue.limit"}
    assert short_names(["flows.reverse"]) == {"flows.reverse": "reverse"}


def test_keys_are_named_as_they_are_written():
    keys = ["hosts.a.sysctl.net.inet.tcp.abc_l_var", "hosts.a.cc"]
    assert groups.in_words(keys) == "abc_l_var and congestion control"


def test_values_are_ordered_as_quantities():
    assert columns.ordered(["1gbit", "100mbit", "2mbit", None, "auto"]) == [
        "2mbit",
        "100mbit",
        "1gbit",
        None,
        "auto",
    ]
    assert columns.ordered(["1s", "20ms", "500us", "9ms"]) == ["500us", "9ms", "20ms", "1s"]
