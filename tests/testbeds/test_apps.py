"""Every application does what it says, end to end, and its metrics reach samples and summary."""

import pytest
import short_runs

from cwndlab.testbeds.live.traffic.clock import start_times

PATH = """\
experiment: apps
duration: 5s
hosts:
  a: {stack: linux-6.8, count: 8}
  b: {stack: linux-6.8}
network:
  star: {link: {rate: 100mbit, delay: 5ms, queue: {kind: pfifo, limit: 200p}}}
flows:
  - APP
start_jitter: 0s
"""


def run(flow: str, *others: str, **overrides: str) -> short_runs.Short:
    text = PATH.replace("APP", f"{{name: f, {flow}}}")
    for other in others:
        text = text.replace("start_jitter", f"  - {{{other}}}\nstart_jitter")
    return short_runs.run(text, **overrides)


def test_a_fixed_size_completes():
    result = run("from: a.1, to: b, app: {kind: fixed, size: 1MB}")
    flow = result.flow("f")
    assert (flow["goodput_bytes"], flow["status"]) == (1_000_000, "complete")
    assert result.samples("f", "completion") == [flow["completion_ns"]]
    assert result.metrics["f"]["completion_s"] == pytest.approx(flow["completion_ns"] / 1e9, rel=1e-5)
    # Handshake, slow start and 80 ms at 100 Mbit/s.
    assert 0.1 < result.metrics["f"]["completion_s"] < 0.3


def test_a_rate_limited_flow_keeps_its_rate():
    result = run("from: a.1, to: b, app: {kind: rate-limited, rate: 8mbit, write: 10KB}")
    assert result.flow("f")["goodput_bytes"] == pytest.approx(5_000_000, rel=0.02)
    assert result.metrics["f"]["limited_app_pct"] > 90


@pytest.mark.parametrize("distribution", ["fixed", "exponential"])
def test_on_and_off(distribution):
    app = f"{{kind: on-off, on: 100ms, off: 300ms, rate: 8mbit, write: 1KB, distribution: {distribution}}}"
    result = run(f"from: a.1, to: b, app: {app}", duration="20s")
    share = result.flow("f")["goodput_bytes"] / (8e6 / 8 * 20)
    # 50 periods; exponential ones vary by 1/7 in each length.
    assert share == pytest.approx(0.25, rel=0.03 if distribution == "fixed" else 0.5)


@pytest.mark.parametrize("app", ["rate-limited", "on-off"])
@pytest.mark.parametrize("rate", [8_000, 100_000, 3_000_000])
@pytest.mark.parametrize("write", [None, "1B", "700B", "1KB"])
@pytest.mark.slow
def test_a_rate_is_kept_whatever_the_size_of_a_write(app, rate, write):
    keys = f"kind: {app}, rate: {rate}bit" + (f", write: {write}" if write else "")
    if app == "on-off":
        keys += ", on: 1s, off: 1s"
    result = run(f"from: a.1, to: b, app: {{{keys}}}", duration="10.9s", measure="{from: 0s, to: 10.5s}")
    # Turns begin when the connection is open; of six, the last has sent a part when the window ends.
    seconds = 10.48 if app == "rate-limited" else 5.48
    # A block is written when its first byte is due.
    block = result.scenario["flows"][0]["app"]["write_bytes"]
    assert rate / 8 * (seconds - 0.6) <= result.flow("f")["goodput_bytes"] <= rate / 8 * seconds + block


def test_requests_and_responses():
    result = run("from: a.1, to: b, app: {kind: request-response, requests: 10, response: 10KB, think: 50ms}")
    flow = result.flow("f")
    times = result.samples("f", "response")
    assert len(times) == flow["response"]["count"] == 10
    # A round trip of 20 ms, and 10 KB at 100 Mbit/s on both links.
    assert all(20_000_000 < time < 22_500_000 for time in times)
    assert (flow["goodput_bytes"], flow["status"]) == (100_000, "complete")
    assert result.metrics["f"]["response_p50_ms"] == pytest.approx(sorted(times)[4] / 1e6, rel=0.01)


@pytest.mark.parametrize("senders", [2, 8])
def test_an_incast_waits_for_all(senders):
    text = PATH.replace("count: 8", f"count: {senders}")
    flows = "{name: f, from: a, to: b, app: {kind: incast, size: 50KB, rounds: 4, think: 20ms}}"
    result = short_runs.run(text.replace("APP", flows))
    names = [f"f.{number}" for number in range(1, senders + 1)]
    rounds = [time for name in names for time in result.samples(name, "round")]
    assert len(rounds) == 4
    for name in names:
        assert len(result.samples(name, "response")) == 4
        assert result.flow(name)["goodput_bytes"] == 4 * 50_000
    # What all send takes 4 ms each on the receiver's link.
    assert min(rounds) > senders * 4_000_000 + 20_000_000
    assert max(rounds) == max(time for name in names for time in result.samples(name, "response"))


def test_incast_degrees_can_be_swept():
    from cwndlab import load

    text = PATH.replace("APP", "{name: f, from: a, to: b, app: {kind: incast, size: 50KB}}")
    plan = load(text + "sweep:\n  - hosts.a.count: [2, 4, 8]\n").plan()
    assert [len(planned.scenario["flows"]) for planned in plan.runs] == [2, 4, 8]


def test_udp_at_a_constant_rate_loses_what_does_not_fit():
    result = run("from: a.1, to: b, app: {kind: udp-cbr, rate: 120mbit, payload: 1472}", duration="2s")
    flow = result.flow("f")
    # 1472 B of payload in 1514: 97.2 Mbit/s get through.
    assert result.metrics["f"]["goodput_mbps"] == pytest.approx(100 * 1472 / 1514, rel=0.03)
    assert result.metrics["f"]["drop_rate"] == pytest.approx(1 - 97.2 / 120, abs=0.02)
    assert flow["segments_sent"] == pytest.approx(120e6 / 8 / 1472 * 2, abs=1)
    # The transmit queue of the host is full before any other.
    assert result.dropped_at("link.a.1") == flow["drops"] > 0
    assert max(result.samples("f", "one-way-delay")) > 10_000_000 + 1000 * 121_000 * 0.15


@pytest.mark.parametrize(("ecn", "marked"), [("off", False), ("ect0", False), ("ect1", True)])
def test_only_datagrams_with_ect1_are_in_the_queue_for_l4s(ecn, marked):
    # Linux's defaults: above 1 ms everything in the L queue is marked, while the classic queue has 15 ms.
    result = run(
        f"from: a.1, to: b, app: {{kind: udp-cbr, rate: 100mbit, ecn: {ecn}}}",
        duration="200ms",
        network__star__link__queue="dualpi2",
        network__star__link_of="{a: {rate: 1gbit}}",
    )
    assert result.scenario["flows"][0]["app"]["ecn"] == ecn
    assert (result.flow("f")["ce_marks"] > 100) == marked
    assert result.flow("f")["goodput_bytes"] > 2_000_000


def test_a_voice_call():
    result = run("from: a.1, to: b, app: voip, stop: 2s")
    delays = result.samples("f", "one-way-delay")
    assert len(delays) == 100
    # 10 ms of delay and 214 bytes with overhead on two links of 100 Mbit/s.
    assert set(delays) == {10_000_000 + 2 * 17_120}
    assert result.metrics["f"]["one_way_p50_ms"] == pytest.approx(10.034, rel=0.001)


def test_a_ping_beside_load_sees_the_queue():
    alone = run("from: a.1, to: b, app: {kind: ping, interval: 50ms}")
    loaded = run(
        "from: a.1, to: b, app: {kind: ping, interval: 50ms}",
        "name: g, from: a.2, to: b",
        "name: h, from: a.3, to: b",
    )
    # 98 bytes with overhead on four links.
    assert set(alone.samples("f", "probe-rtt")) == {20_000_000 + 4 * 7_840}
    assert len(alone.samples("f", "probe-rtt")) == 100
    # The way there.
    assert set(alone.samples("f", "one-way-delay")) == {10_000_000 + 2 * 7_840}
    assert alone.metrics["f"]["one_way_p50_ms"] == pytest.approx(10.016, rel=0.001)
    assert max(loaded.samples("f", "probe-rtt")) > 20_000_000 + 100 * 121_000
    assert loaded.metrics["f"]["rtt_p95_ms"] > alone.metrics["f"]["rtt_p95_ms"]


def test_a_probe_that_is_lost():
    result = run(
        "from: a.1, to: b, app: {kind: ping, interval: 10ms}",
        hosts__b__ingress="{before_gro: {loss: {nth: {every: 4, packet: 0}}}}",
    )
    assert result.metrics["f"]["drop_rate"] == pytest.approx(0.25, abs=0.01)


def test_a_video_player():
    app = "{kind: video, rate: 8mbit, chunk: 500ms, buffer: 1s}"
    smooth = run(f"from: a.1, to: b, app: {app}")
    # Two chunks at once, then one every 500 ms.
    assert len(smooth.samples("f", "response")) == pytest.approx(2 + 2 * 4, abs=1)
    assert smooth.samples("f", "stall") == []
    assert smooth.metrics["f"]["stalled_s"] == 0
    starved = run(f"from: a.1, to: b, app: {app}", network__star__link__rate="4mbit")
    assert sum(starved.samples("f", "stall")) > 1e9
    assert starved.metrics["f"]["stalled_s"] == pytest.approx(
        sum(starved.samples("f", "stall")) / 1e9, rel=1e-5
    )


@pytest.mark.slow
def test_background_traffic_has_its_load():
    app = "{kind: background, load: 20mbit, size: 50KB, shape: 3}"
    result = run(f"from: a.1, to: b, app: {app}", duration="20s")
    flow = result.flow("f")
    # 1000 transfers expected, with a standard deviation of 32 in number and of about 3 % in bytes.
    assert flow["completion"]["count"] == pytest.approx(1000, rel=0.13)
    assert result.metrics["f"]["goodput_mbps"] == pytest.approx(20, rel=0.16)
    assert len(result.samples("f", "completion")) == flow["completion"]["count"]
    other = run(f"from: a.1, to: b, app: {app}", duration="20s", seed="2")
    assert other.flow("f")["completion"]["count"] != flow["completion"]["count"]
    # A flow beside it changes nobody's draws.
    beside = run(f"from: a.1, to: b, app: {app}", "name: g, from: a.2, to: b, app: voip", duration="20s")
    assert beside.flow("f")["completion"]["count"] == pytest.approx(flow["completion"]["count"], abs=1)


def test_background_transfers_wait_for_a_connection():
    app = "{kind: background, load: 20mbit, size: 50KB, connections: 1}"
    result = run(f"from: a.1, to: b, app: {app}")
    several = run(f"from: a.1, to: b, app: {app.replace('connections: 1', 'connections: 50')}")
    assert result.metrics["f"]["completion_p95_ms"] > 2 * several.metrics["f"]["completion_p95_ms"]


def test_flows_start_one_after_the_other_and_end_by_themselves():
    result = run("from: a.1, to: b, count: 3, stagger: 1s, stop: 4s")
    starts = [result.flow(f"f.{number}")["start_ns"] for number in (1, 2, 3)]
    assert starts == [0, 1_000_000_000, 2_000_000_000]
    assert all(result.flow(f"f.{number}")["completion_ns"] is not None for number in (1, 2, 3))


@pytest.mark.parametrize(
    "app", ["{kind: request-response, response: 10KB, think: 30ms}", "{kind: video, rate: 1mbit}"]
)
def test_who_asks_is_stopped_and_the_other_end_closes_behind(app):
    result = run(f"from: a.1, to: b, app: {app}, stop: 3s")
    flow = result.flow("f")
    assert flow["status"] == "complete"
    # After the stop: an answer may be awaited, then a round trip of closing.
    assert 3_000_000_000 < flow["completion_ns"] < 4_000_000_000
    assert flow["response"]["count"] > 0


def test_real_hosts_start_flows_when_the_simulator_does():
    others = [
        f"name: g{number}, from: a.{number}, to: b, app: voip, start: {number}00ms" for number in (2, 3)
    ]
    result = run("from: a.1, to: b, app: voip", *others, start_jitter="70ms")
    starts = {
        name: min(
            row["t_ns"] - row["value"]
            for row in result.rows["samples"]
            if row["flow"] == name and row["kind"] == "one-way-delay"
        )
        for name in ("f", "g2", "g3")
    }
    assert all(0 < start % 100_000_000 < 70_000_000 for start in starts.values())
    assert start_times({**result.scenario, "live": {}}) == starts
