"""Every key of a host does what it says, end to end."""

import pytest
import short_runs

PATH = """\
experiment: hosts
duration: 3s
hosts:
  a: {stack: linux-6.8, cc: reno, sndbuf: 4MB}
  b: {stack: linux-6.8, rcvbuf: 8MB}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {rate: 1gbit}
    bottleneck: {rate: 100mbit, delay: 5ms, queue: {kind: pfifo, limit: 500p}}
flows: [{name: f, from: a, to: b}]
start_jitter: 0s
"""


def acks(run: short_runs.Short) -> int:
    """Packets that are no data segments: acknowledgements, and a handshake."""
    return run.summary["packets"] - run.flow("f")["segments_sent"]


def stretch(run: short_runs.Short) -> float:
    """Segments delivered per acknowledgement."""
    return run.flow("f")["goodput_bytes"] / 1448 / acks(run)


@pytest.mark.parametrize(("time", "per_ack"), [("400us", (3.0, 4.5)), ("1ms", (7.5, 9.5))])
def test_gro_merges_what_comes_within_an_interrupt(time, per_ack):
    # A full frame takes 121 us at 100 Mbit/s; the timestamps of a millisecond differ from those of the next,
    # which ends an aggregate (linux-tcp.md A17).
    run = short_runs.run(PATH, hosts__b__nic=f"{{gro: true, coalesce: {{time: {time}, frames: 64}}}}")
    low, high = per_ack
    assert low * 0.5 < stretch(run) < high
    assert run.metrics["f"]["goodput_mbps"] > 90


def test_frames_end_the_wait_for_an_interrupt():
    run = short_runs.run(PATH, hosts__b__nic="{gro: true, coalesce: {time: 1s, frames: 2}}")
    assert 1.7 < stretch(run) < 2.1


def test_without_moderation_every_frame_is_alone_and_waits_for_nothing():
    plain = short_runs.run(PATH)
    moderated = short_runs.run(PATH, hosts__b__nic="{coalesce: {time: 2ms, frames: 1000}}")
    # The sender's RTT sees the wait; the packet-pair RTT only sees the queue behind ten segments at once.
    srtt = [
        min(row["srtt_ns"] for row in run.rows["tcp"] if row["srtt_ns"] is not None)
        for run in (plain, moderated)
    ]
    assert srtt[1] - srtt[0] > 1_000_000
    assert moderated.flow("f")["rtt"]["min_ns"] < plain.flow("f")["rtt"]["min_ns"] + 10 * 122_000


def test_freebsd_lro_thins_out_acknowledgements():
    # freebsd-tcp.md A.16 and D.1: 13 acknowledges each aggregate at once.
    run = short_runs.run(
        PATH, hosts__b="{stack: freebsd-13, rcvbuf: 4MB, nic: {lro: true, coalesce: {time: 1ms, frames: 64}}}"
    )
    assert 7 < stretch(run) < 10


def test_a_sender_whose_lro_merges_acks_is_slower_in_slow_start_unless_it_counts():
    # freebsd-tcp.md A.4: 9.x grows by 2 MSS for a merge of any number of ACKs, 13 by 2 MSS for each of them.
    grown = {}
    for stack in ("freebsd-9.2", "freebsd-13"):
        for lro in ("false", "true"):
            run = short_runs.run(
                PATH,
                duration="300ms",
                hosts__a=f"{{stack: {stack}, cc: newreno, sndbuf: 2MB, "
                f"nic: {{lro: {lro}, coalesce: {{time: 1ms, frames: 64}}}}}}",
                hosts__b="{stack: freebsd-13, rcvbuf: 2MB}",
            )
            rows = [row for row in run.rows["tcp"] if row["t_ns"] == 70_000_000]
            grown[stack, lro] = rows[0]["cwnd_bytes"]
    assert grown["freebsd-9.2", "true"] < 0.6 * grown["freebsd-9.2", "false"]
    assert grown["freebsd-13", "true"] > 0.8 * grown["freebsd-13", "false"]


@pytest.mark.parametrize("segments", [4, 16])
def test_ack_every_so_many_segments(segments):
    run = short_runs.run(
        PATH, hosts__b__ack_every=f"{{segments: {segments}}}", hosts__b__nic="{coalesce: {time: 5ms}}"
    )
    assert 0.8 * segments < stretch(run) < 1.05 * segments


def test_a_rule_before_gro_sees_frames_and_one_behind_it_aggregates():
    rule = "{loss: {nth: {every: 100, packet: 50}}, match: {dport: 5201}}"
    nic = "{gro: true, coalesce: {time: 1ms, frames: 64}}"
    before = short_runs.run(PATH, hosts__b__nic=nic, hosts__b__ingress=f"{{before_gro: {rule}}}")
    after = short_runs.run(PATH, hosts__b__nic=nic, hosts__b__ingress=f"{{after_gro: {rule}}}")
    sent = [run.flow("f")["segments_sent"] for run in (before, after)]
    assert before.dropped_at("b.ingress.before_gro") == pytest.approx(sent[0] / 100, rel=0.02)
    assert 0 < after.dropped_at("b.ingress.after_gro") < sent[1] / 200
    assert before.flow("f")["retransmits"] >= before.flow("f")["drops"] > 0


def test_rules_at_the_ingress_match_ports_and_payload():
    rule = "{{loss: {{random: 100%}}, match: {}}}"
    elsewhere = short_runs.run(PATH, hosts__b__ingress=f"{{before_gro: {rule.format('{dport: 80}')}}}")
    assert elsewhere.dropped_at("b.ingress.before_gro") == 0
    payload = short_runs.run(
        PATH,
        duration="1s",
        hosts__b__ingress=f"{{before_gro: {rule.format('{sport: 10000, min_payload: 1}')}}}",
    )
    # The handshake gets through, the data does not.
    assert payload.flow("f")["goodput_bytes"] == 0
    assert payload.dropped_at("b.ingress.before_gro") == payload.flow("f")["segments_sent"] > 0


def test_corrupt_and_duplicate_at_the_ingress():
    run = short_runs.run(PATH, hosts__b__ingress="{before_gro: {corrupt: 1%}, after_gro: {duplicate: 1%}}")
    sent = run.flow("f")["segments_sent"]
    assert run.dropped_at("b.ingress.before_gro") == pytest.approx(sent / 100, rel=0.5)
    assert run.dropped_at("b.ingress.after_gro") == 0


def test_netem_at_the_egress_delays_and_its_limit_counts_the_delay_line():
    delayed = short_runs.run(PATH, hosts__b__egress="{delay: 30ms}")
    plain = short_runs.run(PATH)
    assert delayed.flow("f")["rtt"]["min_ns"] - plain.flow("f")["rtt"]["min_ns"] == 30_000_000
    # 50 segments within 30 ms each way at most: 50 x 1448 B / 40 ms.
    limited = short_runs.run(PATH, hosts__a__egress="{delay: 30ms, limit: 50p}")
    assert limited.dropped_at("a.egress") > 0
    assert limited.metrics["f"]["goodput_mbps"] < 50 * 1448 * 8 / 30e3


def test_netem_sees_segments_before_segmentation():
    egress = "{loss: {nth: {every: 20, packet: 10}}}"
    split = short_runs.run(PATH, hosts__a__egress=egress)
    whole = short_runs.run(PATH, hosts__a__egress=egress, hosts__a__nic="{tso: true}")
    lost = {
        run is whole: [row["value"] for row in run.rows["events"] if row["hop"] == "a.egress"]
        for run in (split, whole)
    }
    assert set(lost[False]) == {1448}
    assert max(lost[True]) >= 2 * 1448


@pytest.mark.parametrize("sender", ["a", "b"], ids=["who opened the connection", "who accepted it"])
def test_tso_leaves_in_bursts_of_at_most_tso_max(sender):
    largest = {}
    for limit in ("", ", tso_max: 2896B"):
        app = "bulk" if sender == "a" else "request-response, request: 1MB, response: 100B"
        run = short_runs.run(
            PATH.replace("to: b}", f"to: b, app: {{kind: {app}}}}}"),
            **{
                f"hosts__{sender}__stack": "freebsd-13",
                "hosts__a__cc": "newreno" if sender == "a" else "reno",
                f"hosts__{sender}__nic": f"{{tso: true{limit}}}",
                f"hosts__{sender}__egress": "{loss: {nth: {every: 20, packet: 10}}}",
            },
        )
        lost = [row["value"] for row in run.rows["events"] if row["hop"] == f"{sender}.egress"]
        largest[limit] = max(lost)
    assert largest[""] > 2896 == largest[", tso_max: 2896B"]


def test_a_full_transmit_queue_tells_the_stack_or_does_not():
    nic = "{{rate: 100mbit, tx_queue: 20p, full: {}}}"
    told = short_runs.run(
        PATH, hosts__a__nic=nic.format("enobufs"), hosts__a__stack="freebsd-13", hosts__a__cc="newreno"
    )
    silent = short_runs.run(
        PATH, hosts__a__nic=nic.format("drop"), hosts__a__stack="freebsd-13", hosts__a__cc="newreno"
    )
    # freebsd-tcp.md A.15: at ENOBUFS cwnd becomes one segment, which is sent again without a recovery.
    assert told.dropped_at("access.a") > 0 < silent.dropped_at("access.a")
    assert silent.flow("f")["fast_recoveries"] > told.flow("f")["fast_recoveries"]


def test_processing_takes_time_and_stalls_delay():
    plain = short_runs.run(PATH)
    slow = short_runs.run(PATH, hosts__b__noise="{processing: {mean: 200us}}")
    # One packet in 200 us: 1448 B / 200 us.
    assert slow.metrics["f"]["goodput_mbps"] == pytest.approx(1448 * 8 / 200, rel=0.05)
    assert plain.metrics["f"]["goodput_mbps"] > 80
    stalled = short_runs.run(PATH, hosts__b__noise="{stall: {every: 50ms, length: 20ms}}")
    highest = [max(row["srtt_ns"] or 0 for row in run.rows["tcp"]) for run in (plain, stalled)]
    assert highest[1] > highest[0]
    again = short_runs.run(PATH, hosts__b__noise="{stall: {every: 50ms, length: 20ms}}")
    assert again.rows == stalled.rows
