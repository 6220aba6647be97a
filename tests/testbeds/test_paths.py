"""Switches, topologies and schedules do what they say, end to end."""

import statistics
from pathlib import Path

import pytest
import short_runs

from experiments import dumbbell

STAR = """\
experiment: switch
duration: 2s
hosts:
  a: {stack: freebsd-13, cc: newreno, sndbuf: 500KB, count: 3}
  b: {stack: freebsd-13, rcvbuf: 1MB}
  c: {stack: freebsd-13, rcvbuf: 1MB}
  d: {stack: freebsd-13, cc: newreno, sndbuf: 500KB}
network:
  star: {switch: {buffer: 100KB}, link: {rate: 100mbit, delay: 1ms}}
flows:
  - {name: f, from: a, to: b}
  - {name: g, from: d, to: c}
start_jitter: 0s
record: {queue: 1ms}
"""


def highest(run: short_runs.Short, hop: str) -> int:
    return max(row["backlog_bytes"] for row in run.rows["queue"] if row["hop"] == hop)


@pytest.mark.slow
def test_ports_share_one_memory():
    shared = short_runs.run(STAR)
    own = short_runs.run(STAR, network__star__switch__shared="false")
    assert shared.scenario["nodes"][0]["switch"] == {"buffer_bytes": 100_000, "pause": None}
    assert own.scenario["nodes"][0]["switch"] is None
    ports = ("link.b.reverse", "link.c.reverse")
    waiting = {
        t: sum(
            row["backlog_bytes"] for row in shared.rows["queue"] if row["t_ns"] == t and row["hop"] in ports
        )
        for t in {row["t_ns"] for row in shared.rows["queue"]}
    }
    # What is being sent is in the memory too, and not in the backlog.
    assert 90_000 < max(waiting.values()) <= 100_000
    assert highest(own, ports[0]) > 98_000
    assert shared.link(ports[0])["drops"] > 0


def test_pause_frames_move_the_loss_out_of_the_switch():
    near = {"network__star__link__delay": "100us"}
    dropping = short_runs.run(STAR, **near)
    pausing = short_runs.run(STAR, network__star__switch__pause="true", **near)
    lost = [sum(flow["drops"] for flow in run.summary["flows"]) for run in (dropping, pausing)]
    # Without pause frames the switch drops; with them the queues stand in the hosts, and nothing is lost.
    assert lost[0] > 20
    assert lost[1] == 0
    # 75 KB stop the neighbours; until they do, 200 us later, four of them send 2.5 KB more each and a frame.
    assert highest(pausing, "link.b.reverse") > 60_000
    # The price: a flow to an idle port waits for those to the busy one.
    goodput = [run.metrics["g"]["goodput_mbps"] for run in (dropping, pausing)]
    assert goodput[1] < 0.75 * goodput[0]


TRACE = """\
experiment: trace
duration: 2s
hosts:
  a: {stack: linux}
  b: {stack: linux}
network:
  dumbbell:
    left: [a]
    right: [b]
    bottleneck: {delay: 10ms, shaper: {kind: trace, file: slow.up}}
    reverse: {delay: 10ms, rate: 1gbit}
flows:
  - {name: f, from: a, to: b, app: {kind: udp-cbr, rate: 60kbit, payload: 1472}}
start_jitter: 0s
"""


def test_an_opportunity_of_a_trace_carries_a_full_packet(tmp_path):
    (tmp_path / "slow.up").write_text("100\n")
    (tmp_path / "trace.yaml").write_text(TRACE)
    delays = short_runs.run(str(tmp_path / "trace.yaml")).samples("f", "one-way-delay")
    # A packet every 196 ms, an opportunity every 100 ms: none waits for a second one.
    assert len(delays) == 10
    assert 10_000_000 <= min(delays) <= max(delays) <= 110_000_000


MATCHED = dumbbell(
    "matched",
    duration="3s",
    a="stack: linux-6.8",
    bottleneck=(
        "rate: 10mbit, delay: 5ms, "
        "loss: {nth: {every: 20, packet: 3, match: {sport: 10001, min_payload: 1B}}}"
    ),
    flow="name: f, from: a, to: b, app: {kind: rate-limited, rate: 1mbit}",
    more="  - {name: g, from: a, to: b, app: {kind: rate-limited, rate: 1mbit}}\nstart_jitter: 0s\n",
)


def test_nth_on_a_link_counts_and_loses_what_it_matches():
    run = short_runs.run(MATCHED)
    lost = [row["flow"] for row in run.rows["events"] if row["kind"] == "drop"]
    assert set(lost) == {"g"}
    assert len(lost) > 5
    assert len(lost) == pytest.approx(run.flow("g")["segments_sent"] / 20, abs=1)


GENERAL = """\
experiment: general
duration: 3s
hosts:
  a: {stack: freebsd-13, count: 2}
  b: {stack: freebsd-13}
network:
  nodes: [r, s]
  switch_of:
    s: {buffer: 60KB}
  links:
    - {from: a.1, to: r, rate: 1gbit, delay: 1ms}
    - {from: a.2, to: r, rate: 1gbit, delay: 20ms}
    - {name: out, from: r, to: s, rate: 1gbit, reverse: {rate: 10mbit}}
    - {name: last, from: s, to: b, rate: 20mbit, delay: 5ms, reverse: {delay: 2ms}}
flows:
  - {from: a, to: b}
start_jitter: 0s
"""


@pytest.mark.slow
def test_a_paused_switch_pauses_those_behind_it():
    text = (Path(__file__).parents[2] / "examples" / "pause-frames.yaml").read_text()
    text = text[: text.index("sweep:")]
    dropping, pausing = (
        [
            short_runs.run(
                text,
                duration="3s",
                measure__from="200ms",
                seed=str(seed),
                network__switch_of__s1__pause=value,
                network__switch_of__s2__pause=value,
            )
            for seed in range(1, 6)
        ]
        for value in ("false", "true")
    )
    assert all(sum(flow["drops"] for flow in run.summary["flows"]) > 10 for run in dropping)
    # What the second switch cannot take stays in the first, which passes it on to the hosts: nothing is lost.
    assert all(sum(flow["drops"] for flow in run.summary["flows"]) == 0 for run in pausing)
    # The price: the trunk stands still for the victim, too, whose own way is free.
    free, slowed = ([run.metrics["victim"]["goodput_mbps"] for run in runs] for runs in (dropping, pausing))
    assert all(0.45 * 950 < each < 0.55 * 950 for each in slowed)
    # Without pauses one of the others may keep the shared buffer full, and nothing is left of the victim.
    assert statistics.median(free) > 1.1 * max(slowed)


def test_a_general_network_with_a_switch_and_delays_of_its_own_for_each_flow():
    run = short_runs.run(GENERAL)
    rtts = [run.metrics[f"f1.{number}"]["rtt_min_ms"] for number in (1, 2)]
    # 1 + 5 ms there, 2 + 1 back; 20 + 5 there, 2 + 20 back; and the transmissions.
    assert 9 < rtts[0] < 11
    assert 47 < rtts[1] < 49
    assert highest(run, "last") <= 60_000
    total = sum(run.metrics[f"f1.{number}"]["goodput_mbps"] for number in (1, 2))
    assert total > 17


def test_asymmetric_rates_starve_acknowledgements():
    fast = short_runs.run(GENERAL)
    slow = short_runs.run(GENERAL.replace("reverse: {rate: 10mbit}", "reverse: {rate: 100kbit}"))
    totals = [sum(run.metrics[f"f1.{n}"]["goodput_mbps"] for n in (1, 2)) for run in (fast, slow)]
    assert totals[1] < 0.8 * totals[0]


def test_a_chain_of_bottlenecks():
    run = short_runs.run("""\
experiment: chain
duration: 5s
hosts: {a: {stack: linux-6.8}, m: {stack: linux-6.8}, n: {stack: linux-6.8}, b: {stack: linux-6.8}}
network:
  chain:
    bottlenecks:
      - {rate: 10mbit, delay: 5ms, queue: {kind: pfifo, limit: 50p}}
      - {rate: 8mbit, delay: 5ms, queue: codel}
    hosts: [[a], [m, n], [b]]
    access: {rate: 1gbit}
flows:
  - {name: long, from: a, to: b}
  - {name: first, from: a, to: n}
  - {name: second, from: m, to: b}
""")
    goodput = {name: metrics["goodput_mbps"] for name, metrics in run.metrics.items()}
    assert goodput["long"] < min(goodput["first"], goodput["second"])
    assert 8.5 < goodput["long"] + goodput["first"] < 10
    assert 6.5 < goodput["long"] + goodput["second"] < 8


SCHEDULED = """\
experiment: schedule
duration: 8s
hosts: {a: {stack: linux-6.8}, b: {stack: linux-6.8}}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {rate: 1gbit}
    bottleneck:
      rate: 20mbit
      delay: 10ms
      queue: {kind: pfifo, limit: 40p}
      schedule: CHANGES
flows:
  - {name: f, from: a, to: b}
  - {name: p, from: a, to: b, app: {kind: ping, interval: 20ms}}
start_jitter: 0s
"""


def scheduled(changes: str) -> short_runs.Short:
    return short_runs.run(SCHEDULED.replace("CHANGES", changes))


def goodput(run: short_runs.Short, flow: str = "f") -> list[float]:
    """Mbit/s in each second."""
    return [value * 8 / 1e6 for value in run.samples(flow, "goodput")]


def test_a_scheduled_rate():
    rates = goodput(scheduled("[{at: 4s, set: {rate: 5mbit}}]"))
    assert rates[2] > 17
    assert 4 < rates[6] < 5.1


def test_a_scheduled_delay():
    run = scheduled("[{at: 4s, set: {delay: 60ms}}]")
    times = run.samples("p", "probe-rtt")
    assert min(times[250:]) - min(times[:190]) == pytest.approx(50_000_000, abs=6_000_000)


def test_scheduled_loss_and_its_end():
    run = scheduled("[{at: 2s, set: {loss: {random: 5%}}}, {at: 6s, set: {loss: {random: 0%}}}]")
    rates = goodput(run)
    assert max(rates[3:6]) < 10 < rates[1]


def test_a_scheduled_queue():
    run = scheduled("[{at: 4s, set: {queue: {kind: pfifo, limit: 5p}}}]")
    waiting = [
        (row["t_ns"], row["backlog_packets"]) for row in run.rows["queue"] if row["hop"] == "bottleneck"
    ]
    assert max(packets for t, packets in waiting if t < 4e9) > 30
    assert max(packets for t, packets in waiting if t > 4.1e9) <= 5


def test_an_outage():
    run = scheduled("[{at: 3s, set: {down: true}}, {at: 5s, set: {down: false}}]")
    rates = goodput(run)
    assert rates[4] == 0 < rates[7]
    lost = [row["t_ns"] for row in run.rows["events"] if row["kind"] == "drop" and row["flow"] == "p"]
    assert len([t for t in lost if 3e9 <= t < 5e9]) == pytest.approx(100, abs=2)


def test_files_beside_the_experiment(tmp_path: Path):
    # An opportunity every 2 ms: 6 Mbit/s of 1504 bytes.
    (tmp_path / "every-2ms.up").write_text("".join(f"{2 * i}\n" for i in range(1, 6)))
    (tmp_path / "two-sided.dist").write_text("# one deviation each way\n-8192 8192\n")
    text = SCHEDULED.replace("      schedule: CHANGES\n", "").replace(
        "      rate: 20mbit\n", "      shaper: {kind: trace, file: every-2ms.up}\n"
    )
    (tmp_path / "x.yaml").write_text(text)
    run = short_runs.run(str(tmp_path / "x.yaml"))
    assert 5 < run.metrics["f"]["goodput_mbps"] < 6.016
    text = SCHEDULED.replace(
        "schedule: CHANGES", "jitter: {kind: file, sd: 4ms, file: two-sided.dist, reorder: true}"
    )
    (tmp_path / "x.yaml").write_text(text.replace("  - {name: f, from: a, to: b}\n", ""))
    times = short_runs.run(str(tmp_path / "x.yaml")).samples("p", "probe-rtt")
    assert len(set(times)) == 2
    assert max(times) - min(times) == 8_000_000
