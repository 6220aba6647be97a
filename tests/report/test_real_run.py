"""Plots and report of runs that the engine carried out, from file to picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cwndlab
from cwndlab.errors import InputError
from cwndlab.report import html_report, plots
from cwndlab.results.resultset import ResultSet
from pages import rendered

EXPERIMENT = """
experiment: two-flows
description: Do two flows share a link, whatever its buffer?
duration: 12s
hosts:
  a: {stack: freebsd-9.2, cc: newreno}
  b: {stack: freebsd-9.2}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {rate: 1gbit}
    bottleneck: {rate: 10mbit, delay: 20ms, queue: {kind: pfifo, limit: 90p}}
flows:
  - {name: f1, from: a, to: b, app: bulk}
  - {name: f2, from: a, to: b, app: bulk, start: 3s}
sweep:
  - hosts.a.cc: [newreno, cubic]
  - network.dumbbell.bottleneck.queue.limit: [20p, 90p]
repeat: 2
seed: 1
record: {tcp: per-ack, queue: per-change}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    folder = tmp_path_factory.mktemp("real")
    file = folder / "two-flows.yaml"
    file.write_text(EXPERIMENT)
    return cwndlab.load(file).run(testbed="sim", out=folder / "results")


OPTIONS: dict[str, dict[str, Any]] = {"phase": {"runs": [0]}, "sequence": {"runs": [0]}}


# Answers and sizes have runs of their own, in test_exchanges.py.
@pytest.mark.parametrize("kind", [kind for kind in plots.KINDS if kind not in ("bursts", "slowdown")])
@pytest.mark.slow
def test_every_kind_draws_a_real_run(results: ResultSet, kind: str, tmp_path: Path):
    plots.plot(results, kind, tmp_path / "figure.png", **OPTIONS.get(kind, {}))
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("kind", "column"), [("throughput", "arrived_bytes"), ("goodput", "delivered_bytes")]
)
def test_drawn_rates_add_up_to_the_bytes_counted(results: ResultSet, kind: str, column: str):
    figure = results.plot(kind, run=[0], flow=["f1"], window=(0, 12), average=0.5)
    rates = figure.axes[0].get_lines()[0].get_ydata()
    # Windows run to the last sample at most, so the last of them may be missing.
    # What arrives counts from its first bit on, what is delivered at once.
    series = results.series(0, "f1")
    end = 0.5 * len(rates)
    read = series[column].to_numpy()[series["t_s"].search_sorted(end, side="right") - 1]
    counted = np.interp(end, series["t_s"], series[column]) if kind == "throughput" else read
    assert len(rates) >= 23
    assert np.sum(rates) * 0.5 * 1e6 / 8 == pytest.approx(counted)


@pytest.mark.slow
def test_drawn_throughput_never_exceeds_the_link(results: ResultSet):
    for run in range(results.runs.height):
        lines = results.plot("throughput", run=[run], average=0.5).axes[0].get_lines()
        rates = [np.asarray(line.get_ydata()) for line in lines]
        # A window may begin and end in the middle of a packet.
        assert max(np.max(rate) for rate in rates) <= 10 + 2 * 1514 * 8e-6 / 0.5
        # Rows of two flows are not written at the same times: up to 35 ms apart.
        assert 9.9 < np.max(sum(rates)) <= 10 * (1 + 0.035 / 0.5)


def test_the_drawn_queue_never_exceeds_its_limit_and_reaches_it(results: ResultSet):
    for limit in (20, 90):
        where = {"network.dumbbell.bottleneck.queue.limit": f"{limit}p", "repeat": 0}
        figure = results.plot("queue", where=where, hop="bottleneck")
        assert {max(line.get_ydata()) for line in figure.axes[0].get_lines()} == {limit}


def test_a_drawn_envelope_keeps_the_extremes_of_a_real_run(results: ResultSet):
    frame = results.series(0, "f1")
    line = results.plot("cwnd", run=[0], flow=["f1"]).axes[0].get_lines()[0]
    assert min(line.get_ydata()) == pytest.approx(frame["cwnd_bytes"].min() / 1e3)
    assert max(line.get_ydata()) == pytest.approx(frame["cwnd_bytes"].max() / 1e3)


def test_a_run_is_known_by_its_number_and_by_its_whole_id(results: ResultSet):
    whole = results.runs["run_id"][3]
    one, other = (
        results.plot("cwnd", run=[name]).axes[0].get_lines()[0].get_ydata().tolist() for name in (3, whole)
    )
    assert one == other


def test_a_run_that_does_not_exist_is_refused(results: ResultSet):
    with pytest.raises(InputError, match=r"^run: '99' does not exist"):
        results.plot("rtt", run=[99])


@pytest.mark.slow
def test_the_report_holds_every_run_and_its_question(results: ResultSet, tmp_path: Path):
    html = html_report.write(results, tmp_path / "report.html").read_text(encoding="utf-8")
    assert html.count('class="series"') == 8
    assert "Do two flows share a link, whatever its buffer?" in html
    assert "8 complete" in html
    assert f"cwndlab report {results.path}" in html


MIXED = """\
experiment: mixed
duration: 2s
hosts: {a: {stack: linux-6.18}, b: {stack: linux-6.18}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit, delay: 5ms}}}
flows:
  - {name: pages, from: a, to: b, app: {kind: request-response, response: 20KB}}
  - {name: long, from: a, to: b}
  - {name: call, from: a, to: b, app: voip}
"""


def test_plots_of_unlike_flows_name_what_they_show(tmp_path: Path) -> None:
    found = cwndlab.load(MIXED, ["repeat=1"]).run(out=tmp_path / "r")
    (legend,) = found.plot("slowdown").legends
    assert [text.get_text() for text in legend.get_texts()] == ["request-response"], (
        "no line is there of the others"
    )
    calm = cwndlab.load(MIXED.replace("kind: request-response, response: 20KB", "kind: ping"), ["repeat=1"])
    figure = calm.run(out=tmp_path / "calm").plot("rtt")
    assert figure.axes[0].get_title(loc="right") == "only flow long has this"


def test_windows_of_a_short_run_are_those_of_its_report(tmp_path: Path) -> None:
    found = cwndlab.load(MIXED, ["repeat=1"]).run(out=tmp_path / "r")
    figure = found.plot("throughput", flow="long")
    assert figure.get_suptitle() == "throughput, 0.05 s windows"
    assert len(figure.axes[0].get_lines()[0].get_xdata()) >= 38
    assert "windows of 0.05 s" in rendered(found)
