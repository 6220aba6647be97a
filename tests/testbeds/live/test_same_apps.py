"""The same machines, driven by the simulator and by the agent over this kernel's sockets, do the same."""

import polars as pl
import pytest
from lateness import late_s

import cwndlab as api
from cwndlab.results.resultset import ResultSet

pytestmark = pytest.mark.live

EXPERIMENT = """
experiment: same-apps
duration: 3s
seed: 7
repeat: 1
hosts: {a: {stack: linux, cc: cubic}, b: {stack: linux}, c: {stack: linux}}
network:
  dumbbell:
    left: [a, c]
    right: [b]
    access: {rate: 1gbit}
    bottleneck: {rate: 100mbit, delay: 5ms, queue: {kind: pfifo, limit: 1000p}}
flows:
  - {name: fixed, from: a, to: b, app: {kind: fixed, size: 50KB}}
  - name: asked
    from: a
    to: b
    app: {kind: request-response, requests: 12, request: 8B, response: 5KB, think: 20ms}
  - {name: large, from: a, to: b, app: {kind: request-response, requests: 2, request: 40KB, response: 200KB}}
  - {name: stopped, from: a, to: b, stop: 1500ms, app: {kind: request-response, response: 1KB, think: 100ms}}
  - {name: many, from: c, to: b, count: 2, app: {kind: incast, size: 10KB, rounds: 3, think: 30ms}}
  - {name: film, from: a, to: b, app: {kind: video, rate: 800kbit, chunk: 200ms, buffer: 600ms}}
  - {name: paced, from: a, to: b, app: {kind: rate-limited, rate: 1mbit, write: 5KB}}
  - name: turns
    from: c
    to: b
    app: {kind: on-off, on: 200ms, off: 100ms, rate: 1mbit, write: 2KB, distribution: exponential}
  - {name: cross, from: a, to: b, app: {kind: background, load: 2mbit, size: 20KB}}
  - {name: call, from: a, to: b, app: voip}
  - {name: game, from: a, to: b, app: {kind: udp-vbr, size: extreme(120B 36B), interval: exp(20ms)}}
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[ResultSet, ResultSet]:
    """On the model, on this kernel."""
    place = tmp_path_factory.mktemp("same")
    modelled = api.load(EXPERIMENT, (), "sim").run("sim", place / "sim")
    return modelled, api.load(EXPERIMENT, (), "netns").run("netns", place / "netns")


def samples(results: ResultSet, flow: str, kind: str) -> pl.DataFrame:
    return results.series(0, flow=flow, table="samples").filter(pl.col("kind") == kind)


def goodput(results: ResultSet, flow: str) -> int:
    (found,) = (one for one in results.record(0).summary["flows"] if one["flow"] == flow)
    return int(found["goodput_bytes"])


def test_as_many_requests_are_made_and_answered_in_the_same_order(both: tuple[ResultSet, ResultSet]) -> None:
    for flow, count in {"asked": 12, "large": 2, "many.1": 3, "many.2": 3}.items():
        # What each response is, by the bytes that were read up to its end.
        finished = [
            results.series(0, flow=flow, table="events").filter(pl.col("kind") == "app")["seq"].to_list()
            for results in both
        ]
        assert finished[0] == finished[1], flow
        # And the end of the flow.
        assert len(finished[0]) == count + 1
    rounds = [samples(results, flow, "round").height for results in both for flow in ("many.1", "many.2")]
    assert (rounds[0] + rounds[1], rounds[2] + rounds[3]) == (3, 3)


def test_who_is_stopped_closes_on_both(both: tuple[ResultSet, ResultSet]) -> None:
    counts = []
    for results in both:
        (row,) = (row for row in results.summary.to_dicts() if row["flow"] == "stopped")
        assert row["status"] in ("complete", "unreliable")
        assert samples(results, "stopped", "completion").height == 1
        counts.append(samples(results, "stopped", "response").height)
        assert goodput(results, "stopped") == 1000 * counts[-1]
    assert counts[0] == pytest.approx(counts[1], abs=1 + late_s(both[1]) / 0.1)


def test_as_many_bytes_are_read(both: tuple[ResultSet, ResultSet]) -> None:
    for flow in ("fixed", "asked", "large", "many.1", "many.2"):
        assert goodput(both[0], flow) == goodput(both[1], flow), flow
    # Something may be under way at the end, and what was to be sent while the machine was late.
    rates = {"paced": 125_000, "turns": 125_000, "film": 100_000, "call": 10_000, "game": 6_000}
    for flow, least in {"paced": 6_000, "turns": 6_000, "film": 40_000, "call": 400, "game": 800}.items():
        margin = least + late_s(both[1]) * rates[flow]
        assert goodput(both[0], flow) == pytest.approx(goodput(both[1], flow), abs=margin), flow


def test_a_player_fetches_as_many_chunks(both: tuple[ResultSet, ResultSet]) -> None:
    chunks = [samples(results, "film", "response").height for results in both]
    late = late_s(both[1])
    assert chunks[0] == pytest.approx(chunks[1], abs=1 + late / 0.2)
    stalls = [samples(results, "film", "stall").height for results in both]
    # A buffer of 600 ms bridges what is less than a third of that.
    assert stalls[0] == 0 and (stalls[1] == 0 or late > 0.2)


def test_transfers_arrive_at_the_same_times(both: tuple[ResultSet, ResultSet]) -> None:
    arrivals = [
        set(((rows["t_s"] * 1e9).round().cast(pl.Int64) - rows["value"]).to_list())
        for rows in (samples(results, "cross", "completion") for results in both)
    ]
    # One that came late may still be under way.
    assert len(arrivals[0] ^ arrivals[1]) <= 2 + 12.5 * late_s(both[1]), "12.5 a second"
    assert len(arrivals[0] & arrivals[1]) > 10
