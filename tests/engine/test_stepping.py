"""A run stepped from outside, and its flows observed."""

import json
from pathlib import Path

import pytest

from cwndlab import _native, load
from experiments import dumbbell

STEP_NS = 100_000_000


@pytest.fixture
def run(tmp_path: Path) -> _native.Simulation:
    text = dumbbell(
        "stepped",
        duration="2s",
        a="stack: freebsd-13",
        bottleneck="rate: 10mbit, delay: 10ms, queue: {kind: pfifo, limit: 30p}",
    )
    file = tmp_path / "stepped.yaml"
    file.write_text(text)
    return _native.Simulation(json.dumps(load(file).plan().runs[0].scenario), 0)


def test_a_run_is_stepped_and_observed(run: _native.Simulation) -> None:
    assert run.observe("f1") is None
    delivered = []
    for step in range(1, 20):
        assert not run.run_until(step * STEP_NS)
        assert run.now_ns == step * STEP_NS
        seen = run.observe("f1")
        assert seen is not None
        delivered.append(seen["acknowledged_bytes"])
    assert delivered == sorted(delivered)
    assert delivered[0] < delivered[-1]
    assert run.run_until(10**12)


def test_an_unknown_flow_is_refused(run: _native.Simulation) -> None:
    with pytest.raises(ValueError, match="no flow is called f2"):
        run.observe("f2")
