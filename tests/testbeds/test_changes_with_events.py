"""A change of a link that waits for an event of a flow is made with it, once, and is recorded."""

import polars as pl
import pytest

import cwndlab
from cwndlab.errors import ExperimentError
from experiments import dumbbell


def experiment(at: str, event: str) -> str:
    schedule = f"schedule: [{{at: {at}, on: {{flow: f1, event: {event}}}, set: {{rate: 5mbit}}}}]"
    return dumbbell(
        "with-events",
        duration="8s",
        a="stack: linux-6.18, cc: bbr",
        bottleneck=f"rate: 10mbit, delay: 10ms, queue: {{kind: pfifo, limit: 50p}}, {schedule}",
        more="repeat: 1\nrecord: {tcp: 100ms}\n",
    )


def events(results: cwndlab.ResultSet) -> pl.DataFrame:
    return results.series(results.runs["run_id"][0], table="events").cast(
        {"kind": pl.String, "hop": pl.String}
    )


@pytest.mark.parametrize(("at", "event"), [("0s", "bbr-drain"), ("4s", "bbr-up")])
def test_it_is_made_with_the_first_event_from_then_on(tmp_path, at, event):
    results = cwndlab.load(experiment(at, event)).run(out=tmp_path / "r")
    found = events(results)
    changes = found.filter(pl.col("kind") == "change")
    begun = found.filter((pl.col("kind") == event) & (pl.col("t_s") >= float(at[:-1])))
    assert changes["t_s"].to_list() == [begun["t_s"][0]]
    assert changes["hop"].to_list() == ["bottleneck"]
    assert changes["value"].to_list() == [5_000_000]
    # What the flow fills of a rate that changes at a time that nobody has said is not known.
    assert results.summary["utilisation"].to_list() == [None]
    assert 4.5 < results.summary["goodput_mbps"][0] < 9.5


def test_it_is_not_made_without_the_event(tmp_path):
    results = cwndlab.load(experiment("0s", "rto")).run(out=tmp_path / "r")
    assert not events(results).filter(pl.col("kind") == "change").height
    assert results.summary["goodput_mbps"][0] > 9


def test_real_links_do_not_wait_for_events(tmp_path):
    with pytest.raises(ExperimentError, match=r"schedule\.1\.on: not supported by testbed netns"):
        cwndlab.load(experiment("0s", "rto"), testbed="netns")
