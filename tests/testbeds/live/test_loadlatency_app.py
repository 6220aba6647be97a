"""Scenarios of the loadlatency tool on this machine's kernel, beside the simulator's."""

import json
from typing import Any

import polars as pl
import pytest

from cwndlab import load
from cwndlab.execution.runner import run
from cwndlab.results import loadlatency
from cwndlab.results.resultset import ResultSet
from experiments import dumbbell

pytestmark = [pytest.mark.live, pytest.mark.slow]

# Reno's slow start fills a queue whatever its depth; CUBIC's HyStart leaves before. A second of 10 Mbit/s
# is 825 packets of 1514 bytes. Of those that are lost then, some are lost again: the load has to last until
# the receiver can read what came behind them, and so long that a second of that matters little.
LAB = dumbbell(
    "load",
    duration="7s",
    a="stack: linux-6.18, cc: reno",
    b="stack: linux-6.18, cc: cubic",
    access="100mbit",
    bottleneck="rate: 10mbit, delay: 5ms, queue: {kind: pfifo, limit: 825p}",
    flow="name: ll, from: a, to: b, app: {kind: loadlatency, scenario: 1, idle: 2s}",
    more="""\
sweep:
  - zip:
      network.dumbbell.bottleneck.queue:
        [{kind: pfifo, limit: 825p}, {kind: pfifo, limit: 60p}, {kind: fq_codel}]
      flows.ll.app.scenario: [2, 1, 4]
      duration: [27s, 27s, 7s]
pause: 0s
seed: 1
repeat: 1
""",
)
FULL_NS = {"2": 1_100_000_000, "1": 100_000_000, "4": 100_000_000}
"""By scenario, more than the full queue and the way take: a ping that took longer was sent again."""
RATE_KIB_S = 10e6 / 8 * 1448 / 1514 / 1024
"""What full segments of 1448 bytes in packets of 1514 make of 10 Mbit/s."""


@pytest.fixture(scope="module")
def on_kernel(tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    text = LAB.replace("linux-6.18", "linux")
    return run(load(text, testbed="netns"), testbed="netns", out=tmp_path_factory.mktemp("load") / "netns")


@pytest.fixture(scope="module")
def on_model(tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    return run(load(LAB), out=tmp_path_factory.mktemp("load") / "sim")


def rows(results: ResultSet) -> dict[str, dict[str, Any]]:
    """The rows of pingers by the scenario."""
    pingers = results.summary.filter(pl.col("flow") == "ll")
    return {row["flows.ll.app.scenario"]: row for row in pingers.iter_rows(named=True)}


def longest_trips(results: ResultSet, late: bool) -> dict[str, int]:
    """By scenario, the longest round trip of a ping that was not sent again.

    `late`: but for a tenth of them, as extremes are the machine's where the emulator fell behind.
    """
    found = {}
    for record in results.records():
        assert record.summary is not None
        (load,) = (flow["load"] for flow in record.summary["flows"] if flow["flow"] == "ll")
        number = record.cell["flows.ll.app.scenario"]
        trips = sorted(ping[1] for ping in load["observed"]["pings"] if ping[1] < FULL_NS[number])
        found[number] = trips[-1 - (len(trips) // 10 if late else 0)]
    return found


def fell_behind(results: ResultSet) -> bool:
    return any(row["status"] == "unreliable" for row in rows(results).values())


def test_a_deep_queue_shows_and_fq_codel_cures_it(on_kernel: ResultSet) -> None:
    found = rows(on_kernel)
    assert {row["status"] for row in found.values()} <= {"complete", "unreliable"}
    assert found["1"]["download_kib_s"] == pytest.approx(RATE_KIB_S, rel=0.05)
    assert found["2"]["upload_kib_s"] == pytest.approx(RATE_KIB_S, rel=0.05)
    assert found["2"]["responsiveness_hz"] < 1
    if not fell_behind(on_kernel):
        assert found["4"]["responsiveness_hz"] > 10
    assert found["4"]["responsiveness_hz"] > 5 * found["2"]["responsiveness_hz"]
    assert found["4"]["rpm"] > found["2"]["rpm"] > 0
    text = (on_kernel.path / loadlatency.CLASSIC).read_text()
    assert text.count("OVERALL:") == 3 and "Link Responsiveness: 0 Hz" in text


def test_model_and_kernel_agree(on_kernel: ResultSet, on_model: ResultSet) -> None:
    kernel, model = rows(on_kernel), rows(on_model)
    late = fell_behind(on_kernel)
    assert list(kernel) == list(model) == ["2", "1", "4"]
    for number, row in kernel.items():
        for name in ("upload_kib_s", "download_kib_s"):
            ours = model[number][name]
            assert row[name] == (ours if ours is None else pytest.approx(ours, rel=0.15)), (number, name)
        # The longest gap is of the machine where that was late.
        if not late:
            assert 0.5 < row["smoothness_hz"] / model[number]["smoothness_hz"] < 2, number
        # Both lose pings to the full queue. How often one is lost again, so how long it takes, is chance.
        bloated = number == "2"
        assert (row["responsiveness_hz"] < 1) == (model[number]["responsiveness_hz"] < 1) == bloated
    trips = [longest_trips(results, late) for results in (on_kernel, on_model)]
    for number in kernel:
        assert 0.5 < trips[0][number] / trips[1][number] < 2, number


def test_tables_know_every_connection(on_kernel: ResultSet) -> None:
    (index,) = (
        row["run_index"]
        for row in on_kernel.runs.iter_rows(named=True)
        if row["flows.ll.app.scenario"] == "4"
    )
    summary = on_kernel.summary.filter(pl.col("run_id").str.starts_with(f"{index}-"))
    assert summary["flow"].to_list() == ["ll", "ll.up1", "ll.down1"]
    pings = on_kernel.series(index, flow="ll", table="samples").filter(pl.col("kind") == "response")
    observed = json.loads((on_kernel.path / loadlatency.DOCUMENTS).read_text())[2]["observed"]
    trips = [ping[1] for ping in observed["scenarios"][-1]["pings"] if ping[4]]
    assert len(set(trips) - set(pings["value"].to_list())) <= 3  # the load may begin, and end, a little late
    # Idle for two seconds, then the load: the tool is started so that it begins about then.
    assert pings["t_s"][0] < 1.9 and 6.5 < pings["t_s"][-1] < 7
    for flow, cc, told in (("ll.up1", "reno", "upload_kib_s"), ("ll.down1", "cubic", "download_kib_s")):
        series = on_kernel.series(index, flow=flow)
        assert series.height > 100 and series["delivered_bytes"].max() > 4e6
        row = summary.row(by_predicate=pl.col("flow") == flow, named=True)
        assert row["queue_delay_p95_ms"] is not None and row["cc"] == cc
        # By the kernel's own count, and by the tool's.
        assert row["goodput_mbps"] == pytest.approx(rows(on_kernel)["4"][told] * 1024 * 8e-6, rel=0.1)
