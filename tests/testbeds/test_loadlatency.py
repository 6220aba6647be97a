"""A loadlatency scenario on the simulator: its connections, its metrics, and what a run of several prints."""

import copy
import json
from pathlib import Path

import pytest
import short_runs

from cwndlab import load
from cwndlab.errors import ExperimentError
from cwndlab.execution.runner import run
from cwndlab.results import loadlatency
from cwndlab.results.summary import flow_metrics
from experiments import dumbbell

LAB = dumbbell(
    "load",
    duration="5s",
    a="stack: linux-6.18, cc: cubic",
    b="stack: freebsd-13, cc: newreno",
    bottleneck="rate: 10mbit, delay: 5ms, queue: {kind: pfifo, limit: 60p}",
    flow="name: ll, from: a, to: b, app: {kind: loadlatency, scenario: 4, idle: 1s}",
    more="start_jitter: 0s\nrepeat: 1\n",
)


def test_a_scenario_is_a_pinger_and_its_flows() -> None:
    (planned,) = load(LAB.replace("scenario: 4", "scenario: 7")).plan().runs
    flows = {
        flow["name"]: (flow["from"], flow["to"], flow["cc"], flow["app"]["part"], flow["start_ns"])
        for flow in planned.scenario["flows"]
    }
    assert flows == {
        "ll": ("a", "b", "cubic", "pinger", 0),
        "ll.up1": ("a", "b", "cubic", "upload", 10**9),
        "ll.down1": ("b", "a", "newreno", "download", 10**9),
        "ll.down2": ("b", "a", "newreno", "download", 10**9),
    }
    mixes = [
        sorted(flow["app"]["part"] for flow in run.scenario["flows"])
        for run in load(LAB + "sweep:\n  - flows.ll.app.scenario: [1, 2, 15, 17]\n").plan().runs
    ]
    assert [(mix.count("upload"), mix.count("download")) for mix in mixes] == [
        (0, 1), (1, 0), (0, 32), (16, 16)
    ]  # fmt: skip


def test_metrics_are_those_of_both_ends() -> None:
    result = short_runs.run(LAB)
    pinger, up, down = (result.flow(name) for name in ("ll", "ll.up1", "ll.down1"))
    before = copy.deepcopy(result.summary)
    load = next(flow["load"] for flow in before["flows"] if flow["flow"] == "ll")
    load["figures"] = load.pop("metrics")
    assert flow_metrics(result.scenario, before) == result.metrics, "results of 0.2 are read"
    observed, metrics = pinger["load"]["observed"], pinger["load"]["metrics"]
    assert (observed["number"], observed["duration_ns"]) == (4, 4 * 10**9)
    # 52 + 16 + 14 bytes at 10 Mbit/s and twice at 1 Gbit/s, 5 ms, and back.
    trip = 2 * (5_000_000 + 65_600 + 2 * 656)
    assert {ping[1] for ping in observed["idle_pings"][1:]} == {trip}
    assert all(ping[2] + ping[3] == ping[1] for ping in observed["idle_pings"])
    # Every 20 ms from when the connection is open, at 10 ms; one is under way when the load begins.
    assert len(observed["idle_pings"]) == 49
    assert max(result.samples("ll", "response")) == max(ping[1] for ping in observed["pings"])
    for flow, key in ((up, "up_kib_s"), (down, "down_kib_s")):
        assert metrics[key] == pytest.approx(flow["goodput_bytes"] / 1024 / 4)
        assert flow["load"]["killed"] is None
    gaps = [flow["load"]["longest_gap_ns"] for flow in (up, down)]
    assert metrics["smoothness_hz"] == pytest.approx(1e9 / max(gaps))
    sent = {one["name"]: one for one in observed["transfers"]}
    assert sum(sent["up1"]["bins"]) == sent["up1"]["bytes"] == up["goodput_bytes"]
    assert sent["down1"]["sender"] == {"cc": "newreno", "ecn": False}
    row = result.metrics["ll"]
    assert row["load_scenario"] == 4 and row["jain"] is None
    assert row["responsiveness_hz"] == pytest.approx(
        1e9 / max(ping[1] for ping in observed["pings"]), rel=1e-5
    )
    # One queue of 61 packets of 1514 bytes, 74 ms, in either direction.
    assert 1 / 0.5 < row["responsiveness_hz"] < 1 / 0.074
    assert result.metrics["ll.up1"]["jain"] == pytest.approx(1, abs=0.1)


def test_one_upload_fills_the_link_as_a_bulk_transfer_does() -> None:
    upload = short_runs.run(LAB.replace("scenario: 4", "scenario: 2"))
    bulk = short_runs.run(
        LAB.replace("{kind: loadlatency, scenario: 4, idle: 1s}", "bulk, start: 1s").replace(
            "name: ll", "name: b"
        )
    )
    assert upload.flow("ll.up1")["goodput_bytes"] == pytest.approx(bulk.flow("b")["goodput_bytes"], rel=0.01)
    # All that 4 s of 10 Mbit/s carry, but for slow start.
    capacity = 10e6 / 8 * 1448 / 1514 / 1024
    assert upload.metrics["ll"]["upload_kib_s"] == pytest.approx(capacity, rel=0.02)
    assert upload.metrics["ll"]["download_kib_s"] is None


def test_a_queue_of_a_second_shows_and_fq_codel_cures_it() -> None:
    queue = "network__dumbbell__bottleneck__queue"
    text = LAB.replace("duration: 5s", "duration: 12s").replace("scenario: 4", "scenario: 1")
    bloated = short_runs.run(text, **{queue: "{kind: pfifo, limit: 825p}"}).metrics["ll"]
    cured = short_runs.run(text, **{queue: "{kind: fq_codel}"}).metrics["ll"]
    assert 0.5 < float(bloated["responsiveness_hz"]) < 1
    assert float(cured["responsiveness_hz"]) > 10


def test_a_connection_that_the_stack_gives_up_counts_as_nothing() -> None:
    """The way to the server is cut while four uploads are under way, for longer than two retransmissions."""
    result = short_runs.run(
        LAB.replace("scenario: 4", "scenario: 14"),
        hosts__a__sysctl="{net.ipv4.tcp_retries2: 2}",
        network__dumbbell__bottleneck__schedule="[{at: 2s, set: {down: true}}]",
    )
    observed = result.flow("ll")["load"]["observed"]
    assert {one["killed"] for one in observed["transfers"]} == {"no answer to retransmissions"}
    row = result.metrics["ll"]
    assert (row["upload_kib_s"], row["smoothness_hz"]) == (0, 0)
    # The ping that was under way waited to the end.
    assert observed["pings"][-1][4] is False
    assert result.flow("ll.up1")["goodput_bytes"] > 0


def test_a_sweep_over_scenarios_is_one_session(tmp_path: Path) -> None:
    text = LAB.replace("duration: 5s", "duration: 3s") + (
        "sweep:\n"
        "  - network.dumbbell.bottleneck.queue: [{kind: pfifo, limit: 60p}, {kind: fq_codel}]\n"
        "  - flows.ll.app.scenario: [1, 2, 4]\n"
    )
    results = run(load(text), out=tmp_path / "results")
    classic = (tmp_path / "results" / loadlatency.CLASSIC).read_text()
    assert classic == loadlatency.classic(results)
    blocks = classic.split("queue ")[1:]
    assert [block.partition("\n")[0] for block in blocks] == ["{kind: pfifo, limit: 60p}", "{kind: fq_codel}"]
    documents = json.loads((tmp_path / "results" / loadlatency.DOCUMENTS).read_text())
    for block, document in zip(blocks, documents, strict=True):
        lines = block.splitlines()[1:]
        assert "\n".join(lines).strip() == document["classic"].strip()
        assert [line.partition("...")[0] for line in lines[:4]] == [
            "MinRTT: 10.1ms",
            "Scenario 1: 0 uploads, 1 downloads",
            "Scenario 2: 1 uploads, 0 downloads",
            "Scenario 4: 1 uploads, 1 downloads",
        ]
        assert lines[5] == "OVERALL:"
        ups = [one["up_kib_s"] for one in document["metrics"] if one["up_kib_s"] is not None]
        assert document["overall"]["upload_capacity_kib_s"] == pytest.approx(2 / sum(1 / up for up in ups))
        assert document["conditions"]["status"] == "complete"


def test_an_idle_time_that_leaves_none_for_the_load_is_refused() -> None:
    with pytest.raises(ExperimentError) as refused:
        load(LAB.replace("idle: 1s", "idle: 5s"))
    text = str(refused.value)
    assert text.startswith("<text>:13: flows.ll.app.idle: found '5s'; expected a time that leaves some")
