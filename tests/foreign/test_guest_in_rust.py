"""A guest in Rust by the adapter in examples/guests/rust: what comes built in, as a library."""

from pathlib import Path

import pytest

import cwndlab as api
from experiments import dumbbell

LIBRARY = (
    Path(__file__).parents[2] / "examples" / "guests" / "rust" / "target" / "release" / "libguest_in_rust.so"
)

EXPERIMENT = dumbbell(
    "rust",
    duration="8s",
    a="stack: quinn, cc: cubic",
    b="stack: quinn",
    bottleneck="rate: 10mbit, delay: 20ms, queue: {kind: pfifo, limit: 50p}, loss: {random: 1%}",
    flow="name: f, from: a, to: b, app: {kind: fixed, size: 2MB}",
)


@pytest.mark.slow
def test_what_comes_built_in_does_the_same_as_a_library(tmp_path: Path) -> None:
    if not LIBRARY.exists():
        pytest.skip("not built: cargo build --release in examples/guests/rust")
    built_in = api.load(EXPERIMENT, ["repeat=1"]).run(out=tmp_path / "built-in")
    text = EXPERIMENT.replace("stack: quinn", "stack: guest:mine")
    library = api.load(text, ["repeat=1"], guest=[f"mine={LIBRARY}"]).run(out=tmp_path / "library")
    (one,), (two,) = (results.summary.to_dicts() for results in (built_in, library))
    assert one["status"] == "complete"
    assert one["retransmit_rate"] > 0
    # What a packet carries beside an acknowledgement hangs on when it is asked for: bytes in ten thousand.
    for key in ("completion_s", "cwnd_mean_bytes", "srtt_mean_ms"):
        assert two[key] == pytest.approx(one[key], rel=0.01), key
    assert two["status"] == one["status"]
    assert two["retransmit_rate"] == pytest.approx(one["retransmit_rate"], rel=0.1)
