"""The engine's module: runs advance in steps, rows cross as Arrow data, refusals are one line."""

import gc
import json
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from cwndlab import _native, load
from experiments import dumbbell

EXPERIMENT = dumbbell(
    "native",
    duration="3s",
    a="stack: freebsd-9.2",
    bottleneck="rate: 10mbit, delay: 10ms, queue: {kind: pfifo, limit: 30p}",
    more="record: {tcp: per-ack, queue: 10ms}\n",
)


@pytest.fixture(name="scenario")
def _scenario(tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "native.yaml"
    file.write_text(EXPERIMENT)
    return dict(load(file).plan().runs[0].scenario)


def run(scenario: dict[str, Any], events: int) -> tuple[dict[str, list[_native.RecordBatch]], str]:
    """Every batch of every table, and the summary, when at most `events` are run at a time."""
    simulation = _native.Simulation(json.dumps(scenario), 7)
    batches: dict[str, list[_native.RecordBatch]] = {}
    over = False
    while not over:
        over = simulation.advance(events)
        for table, batch in simulation.take():
            batches.setdefault(table, []).append(batch)
    assert simulation.now_ns == scenario["duration_ns"]
    return batches, simulation.summary()


def test_the_same_rows_reach_pyarrow_and_polars(scenario: dict[str, Any]) -> None:
    batches, _ = run(scenario, 1 << 20)
    tcp = pa.Table.from_batches([pa.record_batch(batch) for batch in batches["tcp"]])
    frame = pl.concat([pl.from_arrow(batch).struct.unnest() for batch in batches["tcp"]])
    assert tcp.num_rows > 1000
    assert frame.rows() == [tuple(row.values()) for row in tcp.to_pylist()]
    assert set(tcp["run_id"].to_pylist()) == {7}
    assert set(tcp["flow"].to_pylist()) == {"f1"}
    times = tcp["t_ns"].to_pylist()
    assert times == sorted(times)
    assert tcp["ssthresh_bytes"].null_count > 0, "infinite until the first loss"
    tcp.validate(full=True)


def test_how_far_a_step_goes_changes_nothing(scenario: dict[str, Any]) -> None:
    def tables(events: int) -> tuple[dict[str, list[dict[str, Any]]], str]:
        batches, summary = run(scenario, events)
        rows = {
            name: [row for part in parts for row in pa.record_batch(part).to_pylist()]
            for name, parts in batches.items()
        }
        return rows, summary

    assert tables(1 << 20) == tables(997)


@pytest.mark.slow
def test_a_batch_outlives_the_run_and_can_be_read_twice(scenario: dict[str, Any]) -> None:
    batches, _ = run(scenario, 1 << 20)
    gc.collect()
    first = batches["tcp"][0]
    del batches
    once, twice = pa.record_batch(first), pa.record_batch(first)
    assert len(first) == once.num_rows
    del first
    gc.collect()
    assert once.equals(twice)
    column = once.column("t_ns")
    del once, twice
    gc.collect()
    assert column.to_pylist() == sorted(column.to_pylist())


def test_capsules_nobody_takes_are_freed(scenario: dict[str, Any]) -> None:
    batches, _ = run(scenario, 1 << 20)
    batch = batches["tcp"][0]
    for _ in range(1000):
        schema, array = batch.__arrow_c_array__(None)
        del schema, array
    assert pa.record_batch(batch).num_rows == len(batch)


def test_other_threads_run_while_the_engine_does(scenario: dict[str, Any]) -> None:
    """The GIL is free during advance(): a second thread counts on during one step of more than a second."""
    simulation = _native.Simulation(json.dumps(scenario | {"duration_ns": 500 * 10**9}), 0)
    counted = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    over = simulation.advance(1 << 40)
    after = counted
    stop.set()
    thread.join()
    assert over
    assert after > before + 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": "many"}, "many"),
        ({"colour": 1}, "colour"),
        ({"version": 99}, "version"),
    ],
)
def test_a_refusal_is_one_line(scenario: dict[str, Any], change: dict[str, Any], said: str) -> None:
    text = json.dumps(scenario | change)
    with pytest.raises(ValueError, match=said) as checked:
        _native.check(text)
    with pytest.raises(ValueError, match=said) as made:
        _native.Simulation(text, 0)
    assert str(checked.value) == str(made.value)
    assert "\n" not in str(checked.value)


def test_the_catalogue_and_the_version_can_be_read() -> None:
    catalogue = json.loads(_native.catalogue())
    assert {"freebsd-9.2", "linux-6.8"} <= {stack["name"] for stack in catalogue["stacks"]}
    assert _native.version().split()[0].count(".") == 2
