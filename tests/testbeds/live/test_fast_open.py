"""TCP Fast Open on this kernel: a file that asks for it saves the round trip that it saves on the model."""

from pathlib import Path

import polars as pl
import pytest
from lateness import late_s

import cwndlab as api

pytestmark = pytest.mark.live

RTT_S = 0.1
EXPERIMENT = """
experiment: fast-open
duration: 5s
seed: 1
hosts: {a: {stack: linux, cc: cubic}, b: {stack: linux, sysctl: {net.ipv4.tcp_fastopen: %s}}}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {rate: 1gbit}
    bottleneck: {rate: 100mbit, delay: 50ms, queue: {kind: pfifo, limit: 1000p}}
flows:
  - {name: first, from: a, to: b, app: {kind: request-response, requests: 1, request: 200B, response: 1KB}}
  - name: second
    from: a
    to: b
    start: 1s
    app: {kind: request-response, requests: 1, request: 200B, response: 1KB}
  - {name: short, from: a, to: b, start: 2s, app: {kind: fixed, size: 500B}}
  - {name: longer, from: a, to: b, start: 3s, app: {kind: fixed, size: 20KB}}
"""


# By hand: the accepting side asks when it has the connection, after one and a half round trips, or half of
# one where the SYN has a cookie, which the first connection asked for.
@pytest.mark.parametrize("testbed", ["sim", "netns"])
def test_a_known_host_answers_one_round_trip_earlier(testbed: str, tmp_path: Path) -> None:
    answered, late = [], 0.0
    for bits in (1, 3):
        results = api.load(EXPERIMENT % bits, (), testbed).run(testbed, tmp_path / str(bits))
        samples = [results.series(0, flow=flow, table="samples") for flow in ("first", "second")]
        answered.append([rows.filter(pl.col("kind") == "response")["t_s"].item() for rows in samples])
        late += 0.0 if testbed == "sim" else late_s(results)
        # What left with a SYN, or behind it, came whole, though its sender closed early.
        rows = {row["flow"]: row["goodput_bytes"] for row in results.record(0).summary["flows"]}
        assert (rows["short"], rows["longer"]) == (500, 20_000)
    saved = [(without - with_it) / RTT_S for without, with_it in zip(*answered, strict=True)]
    assert saved == pytest.approx([0.0, 1.0], abs=0.1 + late / RTT_S)
