"""Metrics of one's own: computed from the summary and from series, the same however the runs were made."""

import json

import numpy as np
import polars as pl
import pytest

import cwndlab
from cwndlab.errors import ExperimentError, InputError
from cwndlab.execution import merge
from cwndlab.execution.runner import run
from cwndlab.execution.shards import Shard
from cwndlab.results import catalogue, checksums, display, expectations
from experiments import dumbbell

METRICS = {
    "queue_mean_ms": "mean(queue.backlog_bytes) * 8 / 10000",
    "part_pct": "100 * goodput_mbps / total_goodput_mbps",
    "twice_pct": "2 * part_pct",
    "grown_bytes": "last(tcp.cwnd_bytes) - first(tcp.cwnd_bytes)",
    "none_ms": "rtt_p50_ms / 0",
    "smooth_ms": "p95(tcp.srtt_ms)",
}


def experiment(metrics=METRICS, expect="{}"):
    more = "\n".join(
        [
            "sweep: [{hosts.a.cc: [cubic, newreno, bbr]}]",
            "measure: {from: 1s, time_to: 9mbit}",
            f"metrics: {json.dumps(metrics)}",
            f"expect: {expect}",
        ]
    )
    bottleneck = "rate: 10mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p}"
    return dumbbell("own", duration="4s", a="stack: linux-6.18", bottleneck=bottleneck, more=more)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run(cwndlab.load(experiment()), out=tmp_path_factory.mktemp("own") / "r")


def test_each_by_hand(results):
    for row in results.summary.iter_rows(named=True):
        flow = results.series(row["run_id"], flow=row["flow"]).filter(pl_window())
        queue = results.series(row["run_id"], table="queue").filter(pl_window())
        queue = queue.filter(queue["hop"] == "bottleneck")
        lasts = np.diff(queue["t_s"].to_numpy(), append=4.0)
        backlog = (queue["backlog_bytes"].to_numpy() * lasts).sum() / lasts.sum()
        assert row["queue_mean_ms"] == pytest.approx(backlog * 8 / 10000, rel=1e-5)
        assert row["part_pct"] == pytest.approx(
            100 * row["goodput_mbps"] / row["total_goodput_mbps"], rel=1e-5
        )
        assert row["twice_pct"] == pytest.approx(2 * row["part_pct"], rel=1e-5)
        cwnd = flow["cwnd_bytes"]
        assert row["grown_bytes"] == pytest.approx(cwnd[-1] - cwnd[0], rel=1e-5)
        assert row["none_ms"] is None
        assert flow["srtt_ms"].min() < row["smooth_ms"] <= flow["srtt_ms"].max()


def pl_window():
    return (pl.col("t_s") >= 1.0) & (pl.col("t_s") < 4.0)


def test_the_time_to_the_rate_that_a_file_asks_for(results):
    for row in results.summary.iter_rows(named=True):
        read = results.record(row["run_id"]).summary["flows"][0]["goodput_seconds"]["bytes"]
        second = next(place for place, amount in enumerate(read) if place and amount * 8 >= 9_000_000)
        # The first second counts only for a flow that begins with it.
        assert row["time_to_rate_s"] == pytest.approx(second + 1, abs=0.1)


def test_they_are_metrics_as_any_other(results, tmp_path):
    table = display.table(results)
    assert "queue mean" in table and "part" in table
    assert results.summary.columns[-1] == "status"
    opened = cwndlab.open(results.path)
    (found,) = opened.compare(by="cc", metric="queue_mean_ms", where={"cc": ["cubic", "bbr"]}).each
    assert found.metric == "queue_mean_ms"
    assert opened.plot("bar", value="part_pct").axes[0].get_ylabel() == "part [%]"
    expected = run(cwndlab.load(experiment(expect='{part_pct: ">= 95, <= 105"}')), out=tmp_path / "e")
    assert [outcome.holds for outcome in expectations.outcomes(expected)] == [True] * 3


def test_shards_that_are_merged_and_a_sweep_that_goes_on_have_the_same(results, tmp_path):
    made = cwndlab.load(experiment())
    shards = [run(made, out=tmp_path / str(n), shard=Shard(n, 2)).path for n in (1, 2)]
    merged = merge.merge(shards, tmp_path / "merged")
    for name in ("summary.csv", catalogue.FILE):
        assert merged.load(name) == results.load(name)
    again = run(made, out=tmp_path / "merged", resume=True)
    assert again.load("summary.csv") == results.load("summary.csv")


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"rtt": "1 +"}, "metrics.rtt: found the end at character 4 of '1 +'"),
        ({"rtt": "goodput_mpbs"}, "did you mean goodput_mbps?"),
        ({"rtt": "mean(tcp.cwnd)"}, "metrics.rtt: found the column 'cwnd' of tcp"),
        (
            {"rtt": "mean(samples.goodput)"},
            "found the table 'samples'; expected one of tcp, queue, tcp_info, events",
        ),
        ({"rtt": "count(events.rtos)"}, "found the kind of events 'rtos'"),
        ({"rtt": "until(events.rto, events.undone)"}, "did you mean undo?"),
        ({"goodput_mbps": "1"}, "the name 'goodput_mbps'"),
        ({"Own": "1"}, "the name 'Own'"),
        ({"one": "two", "two": "1"}, "the metric 'two'"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(metrics, message):
    with pytest.raises(ExperimentError) as caught:
        run(cwndlab.load(experiment(metrics)))
    assert message in str(caught.value)


def test_a_header_that_no_experiment_could_have_is_damage(results, tmp_path):
    header, table = catalogue.stored(results.path)
    header.metrics["queue_mean_ms"] = "mean(nothing.there)"
    assert catalogue.with_header(header, table).schema.metadata != table.schema.metadata
    out = tmp_path / "damaged"
    out.mkdir()
    checksums.replace(out, {catalogue.FILE: catalogue.to_parquet(catalogue.with_header(header, table))})
    with pytest.raises(InputError, match=r"header\.metrics: found the table 'nothing'"):
        cwndlab.open(out)


def test_of_events_by_hand(tmp_path):
    metrics = {
        "probes": "count(events.bbr_up)",
        "probe_ms": "until(events.bbr_up, events.bbr_down)",
        "drain_ms": "until(events.bbr_drain, events.bbr_probe_bw)",
        "bandwidth_bps": "last(events.bbr_bw_hi)",
        "changes": "count(events.change)",
        "timeouts": "count(events.rto)",
        "never_ms": "until(events.rto, events.undo)",
    }
    text = dumbbell(
        "phases",
        duration="6s",
        a="stack: linux-6.18, cc: bbr",
        bottleneck="rate: 10mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p},"
        " schedule: [{at: 3s, set: {loss: {random: 0%}}}]",
        more=f"repeat: 1\nmetrics: {json.dumps(metrics)}",
    )
    results = run(cwndlab.load(text), out=tmp_path / "r")
    [row] = results.summary.iter_rows(named=True)
    told = results.series(row["run_id"], table="events").with_columns(pl.col("kind").cast(pl.String))
    of = {kind: told.filter(pl.col("kind") == kind) for kind in told["kind"].unique()}
    assert row["probes"] == of["bbr-up"].height > 5
    ends = of["bbr-down"]["t_s"]
    longest = max(ends.filter(ends > begin)[0] - begin for begin in of["bbr-up"]["t_s"] if begin < ends[-1])
    assert row["probe_ms"] == pytest.approx(longest * 1000, rel=1e-5)
    drained = of["bbr-probe-bw"]["t_s"][0] - of["bbr-drain"]["t_s"][0]
    assert row["drain_ms"] == pytest.approx(drained * 1000, rel=1e-5)
    # Payload of 1448 bytes in packets of 1514.
    assert row["bandwidth_bps"] == pytest.approx(10e6 * 1448 / 1514, rel=0.01)
    assert (row["changes"], row["timeouts"], row["never_ms"]) == (1, 0, None)
    assert of["change"]["hop"].to_list() == ["bottleneck"]
