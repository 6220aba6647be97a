"""The kinds for what applications exchange (rounds of an incast apart, slowdown), and duplicate ACKs."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from memory_results import MemoryResults, incast, record, scenario, summary_row

from cwndlab.errors import InputError
from cwndlab.report import plots
from cwndlab.results.ideal import IdlePath, exchange


def direct() -> tuple[Any, Any]:
    """A Scenario with a flow from the one end of its bottleneck to the other, and that flow."""
    asked: Any = scenario()
    asked["flows"] = [{**asked["flows"][0], "from": "left", "to": "right"}]
    return asked, asked["flows"][0]


def headings(figure: plots.Plot) -> list[str]:
    return [axis.get_title(loc="left") for axis in figure.axes]


@pytest.mark.slow
def test_each_round_of_an_incast_has_a_panel_and_each_flow_a_row():
    figure = plots.plot(incast(), "bursts")
    assert headings(figure)[:2] == ["round 1: 3 ms", "round 2: 204 ms"]
    assert len(figure.axes) == 6
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["f.1", "f.2", "f.3"]
    rows = figure.data.filter(pl.col("round") == 1, pl.col("flow") == "f.2")
    assert rows["time [ms]"].to_list() == pytest.approx([0, 1, 2])
    assert rows["delivered [B]"].to_list() == pytest.approx([0, 400, 1000])


def test_drops_and_timeouts_stand_in_the_rounds_they_happened_in():
    figure = plots.plot(incast(), "bursts")
    marks = [
        {line.get_marker(): line.get_xdata()[0] for line in axis.get_lines() if line.get_marker() in "xs"}
        for axis in figure.axes
    ]
    assert marks[0] == {}
    assert marks[1] == {"x": pytest.approx(1), "s": pytest.approx(200)}


@pytest.mark.slow
def test_the_rounds_are_the_first_or_the_slowest_of_the_time_window():
    assert headings(plots.plot(incast(), "bursts", value="slowest"))[0] == "round 2: 204 ms"
    assert headings(plots.plot(incast(), "bursts", value="slowest"))[1] == "round 4: 6 ms"
    assert headings(plots.plot(incast(), "bursts", window=(4.5, None)))[0] == "round 6: 8 ms"
    with pytest.raises(InputError, match="no round was completed by these flows in this time"):
        plots.plot(incast(), "bursts", window=(100.0, None))


def test_bursts_are_of_one_incast():
    other = MemoryResults(pl.DataFrame([summary_row(0)]))
    with pytest.raises(InputError, match="no flow of the application incast"):
        plots.plot(other, "bursts")
    with pytest.raises(InputError, match=r"value: 'last' does not exist; there is first, slowest"):
        plots.plot(incast(), "bursts", value="last")


def test_the_least_time_of_an_idle_path():
    asked, flow = direct()
    path = IdlePath(asked, flow)
    # 20 ms a way; a packet of 1460 bytes is 1514 on a link of 10 Mbit/s: 1.2112 ms.
    assert path.least_ns(1460, asked=100) == pytest.approx(40e6 + (100 + 54) * 800 + 1514 * 800)
    assert path.least_ns(14_600, asked=100) == pytest.approx(40e6 + (100 + 54) * 800 + 10 * 1514 * 800)
    # A new connection: a handshake first.
    assert path.least_ns(1460, asked=None) == pytest.approx(60e6 + 2 * 54 * 800 + 1514 * 800)
    assert exchange(flow) is None


def test_slowdown_of_one_size_is_a_distribution():
    figure = plots.plot(incast(), "slowdown")
    least = 40e6 + (100 + 54) * 800 + 1054 * 800
    answers = incast().tables["samples"].filter(pl.col("kind") == "response")["value"]
    assert figure.data["time over that of an idle path"].max() == pytest.approx(answers.max() / least)
    assert figure.data["share"].to_list()[-1] == 1


def test_slowdown_of_many_sizes_is_a_line_over_them():
    asked, flow = direct()
    app = {
        "kind": "background",
        "load_bps": 10**6,
        "size_bytes": 1000,
        "shape_milli": 1500,
        "connections": 64,
    }
    asked["flows"] = [{**flow, "app": app}]
    sizes = np.repeat([1000, 10_000, 100_000], 20)
    least = np.array([IdlePath(asked, flow).least_ns(int(size), None) for size in sizes])
    events = pl.DataFrame(
        {"run_id": 0, "t_s": np.arange(60.0), "flow": "f1", "kind": "app", "seq": sizes, "value": 3 * least}
    )
    rows = pl.DataFrame([summary_row(0, app="background")])
    results = MemoryResults(rows, {"events": events}, lines=[record(0, scenario=asked)])
    figure = plots.plot(results, "slowdown")
    assert figure.data["size [kB]"].to_list() == [1, 10, 100]
    assert figure.data["median"].to_list() == pytest.approx([3, 3, 3])
    assert figure.data["n"].to_list() == [20, 20, 20]
    assert figure.axes[0].get_xscale() == "log"


def test_slowdown_needs_flows_whose_exchanges_have_a_size():
    with pytest.raises(InputError, match="these runs have no flow of request-response"):
        plots.plot(MemoryResults(pl.DataFrame([summary_row(0, app="ping")])), "slowdown")


def test_duplicate_acks_are_counted_where_packets_tell():
    told = incast().tables
    events = pl.DataFrame(
        {
            "run_id": 0, "t_s": [1.0, 2.0, 2.5], "flow": ["f.1", "f.1", "f.2"], "kind": "duplicate-ack",
            "seq": [1, 1, 5], "value": [None] * 3,
        },
        schema_overrides={"value": pl.Int64},
    )  # fmt: skip
    results = MemoryResults(incast().summary, {**told, "events": events})
    figure = plots.plot(results, "losses", value="duplicate-acks")
    heights = [line.get_ydata().max() for line in figure.axes[0].get_lines() if len(line.get_xdata())]
    assert heights == [2, 1, 0]
    with pytest.raises(InputError, match=r"run it with record: \{pcap: true\}"):
        plots.plot(incast(), "losses", value="duplicate-acks")
