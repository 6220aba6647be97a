"""The metrics of the summary against numbers worked out by hand."""

import pytest

import stored_results
from cwndlab.experiment.scenario import capacity
from cwndlab.results import call, summary
from cwndlab.results.metrics import NAMES, TOTALS, names


def metrics(*flows, **changed):
    scenario = stored_results.scenario(**changed)
    scenario["flows"] = [
        {"name": flow["flow"], "from": "a", "to": "b", "cc": "newreno", "app": {"kind": "bulk"}}
        for flow in flows
    ]
    return summary.flow_metrics(scenario, {"flows": list(flows)})


def test_each_metric_by_hand():
    row = metrics(stored_results.flow_counters())["f1"]
    assert tuple(row) == NAMES
    # A bulk flow alone and without an end has no fairness, nothing of applications, nothing over seconds.
    assert {name: value for name, value in row.items() if value is not None} == {
        "stack": "freebsd-9.2",
        "cc": "newreno",
        "app": "bulk",
        "goodput_mbps": 8.0,  # 8 MB in 8 s
        "sender_mbps": 8.1,  # 0.1 MB more in the sender's socket
        "throughput_mbps": 9.0,
        "utilisation": 0.9,  # 72 Mbit of the 80 that 10 Mbit/s allow in 8 s
        "retransmit_rate": 0.01,
        "drop_rate": 0.00833333,  # six significant digits
        "ce_marks": 0,
        "rtos": 0,
        "fast_recoveries": 3,
        "cycle_s": 2.5,  # 3, 5, 8 s: five seconds, two gaps
        "rtt_min_ms": 40.0,
        "rtt_mean_ms": 60.1235,
        "rtt_p50_ms": 61.0,
        "rtt_p95_ms": 80.0,
        "rtt_max_ms": 90.0,
        "queue_delay_p95_ms": 39.0,
        "cwnd_mean_bytes": 80_000,
        "cwnd_max_bytes": 120_000,
        "limited_by": "path",
        "limited_cwnd_pct": 75.0,
        "limited_rwnd_pct": 0.0,
        "limited_sndbuf_pct": 12.5,
        "limited_app_pct": 0.0,
        "queue_delay_p50_ms": 20,
        "queue_delay_max_ms": 45,
        "power": 133.06,  # 8 Mbit/s over 60.123456 ms
        "total_goodput_mbps": 8.0,
        "total_rtt_mean_ms": 60.1235,
        "total_retransmit_rate": 0.01,
        "total_drop_rate": 0.00833333,
        "status": "complete",
    }


def test_what_was_not_counted_is_missing_not_zero():
    idle = stored_results.flow_counters(
        segments_sent=0,
        retransmits=0,
        active_ns=0,
        recovery_entries_ns=[4 * 10**9],
        rtt={"count": 0},
        queue_delay={"count": 0},
    )
    row = metrics(idle)["f1"]
    known = {name for name, value in row.items() if value is not None}
    counters = {"ce_marks", "rtos", "fast_recoveries", "cwnd_mean_bytes", "cwnd_max_bytes"}
    assert known == {"stack", "cc", "app", "utilisation", *counters, "total_goodput_mbps", "status"}


def seconds(megabytes, *, start_s=0, name="f1", **changed):
    """Counters of a flow that read so many megabytes in each second from its start on."""
    begun = -(-int(start_s * 1e9) // 10**9) * 10**9
    return stored_results.flow_counters(
        name,
        start_ns=int(start_s * 1e9),
        goodput_seconds={"from_ns": begun, "bytes": [int(amount * 1e6) for amount in megabytes]},
        goodput_bytes=9_000_000,
        wire_bytes=10_000_000,
        **changed,
    )


def test_fairness_over_seconds_counts_those_with_two_flows_in_the_window():
    # The window is 2 to 10 s; the second flow begins in the fourth second.
    first = seconds([1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    second = seconds([0, 0.5, 1, 1, 1, 1], start_s=3.5, name="f2")
    row = metrics(first, second)["f1"]
    assert row["jain_1s_min"] == 0.5
    assert row["jain_1s_mean"] == pytest.approx((0.5 + 1.5**2 / (2 * 1.25) + 4) / 6, abs=1e-6)


def test_convergence_is_the_first_five_seconds_of_fair_shares():
    first = seconds([1] * 10)
    # Means over five seconds: 0.5 (index 0.9), then 0.7 (0.97).
    second = seconds([0, 0, 0.5, 1, 1, 1, 1], start_s=2.5, name="f2")
    assert metrics(first, second)["f2"]["convergence_s"] == 5.5 + 1
    assert metrics(first, seconds([0.1] * 7, start_s=3, name="f2"))["f2"]["convergence_s"] is None
    assert metrics(first)["f1"]["convergence_s"] is None


def test_the_bottleneck_is_filled_when_all_flows_together_fill_it():
    # 10 Mbit/s are 1.25 MB a second, of which 9/10 are payload: 90 % of that is 1.0125 MB.
    assert metrics(seconds([0.5, 1.0, 1.02, 1.1], start_s=0.25))["f1"]["time_to_90_s"] == 3.75
    assert metrics(seconds([0.5, 1.0, 1.0]))["f1"]["time_to_90_s"] is None
    both = metrics(seconds([0.5, 0.6, 0.6]), seconds([0.5], start_s=2, name="f2"))
    assert both["f1"]["time_to_90_s"] == both["f2"]["time_to_90_s"] == 3
    scheduled = summary.flow_metrics(
        stored_results.scenario(schedule=[change(4, rate_bps=1)]), {"flows": [seconds([2, 2])]}
    )
    assert scheduled["f1"]["time_to_90_s"] is None


def test_the_rate_asked_for_is_reached_at_the_end_of_a_second():
    def time_to(bps, *flows):
        measure = {"from_ns": 2 * 10**9, "to_ns": 10 * 10**9, "time_to_bps": bps}
        return [row["time_to_rate_s"] for row in metrics(*flows, measure=measure).values()]

    early, late = seconds([0.5, 1.0, 2.0]), seconds([0.5, 1.0], start_s=2.25, name="f2")
    assert time_to(8_000_000, early, late) == [2.0, 2.75]
    assert time_to(8_000_001, early, late) == [3.0, None]
    assert metrics(early)["f1"]["time_to_rate_s"] is None


def test_totals_are_of_all_flows_over_the_window():
    # 8 s: 3 MB and 1 MB; 1000 and 3000 segments; 10 round trips of 20 ms and 30 of 40 ms.
    one = stored_results.flow_counters(
        goodput_bytes=3_000_000, segments_sent=1000, retransmits=10, drops=20, active_ns=10**9,
        rtt={"count": 10, "mean_ns": 20_000_000},
    )  # fmt: skip
    other = stored_results.flow_counters(
        "f2", goodput_bytes=1_000_000, segments_sent=3000, retransmits=50, drops=0,
        rtt={"count": 30, "mean_ns": 40_000_000},
    )  # fmt: skip
    rows = metrics(one, other)
    totals = {"goodput_mbps": 4.0, "rtt_mean_ms": 35.0, "retransmit_rate": 0.015, "drop_rate": 0.005}
    for row in rows.values():
        assert {name.removeprefix("total_"): row[name] for name in TOTALS} == totals
    untold = metrics(one, {**other, "drops": None})["f1"]
    assert (untold["total_drop_rate"], untold["total_retransmit_rate"]) == (None, 0.015)


def test_a_second_that_is_not_whole_does_not_count():
    ended = seconds([1, 1, 1, 0, 0], completion_ns=int(2.5e9))
    other = seconds([1, 1, 1, 1, 1], name="f2")
    # Of the window from 2 s on, the third second of f1 is cut short.
    assert metrics(ended, other)["f1"]["jain_1s_mean"] is None


def test_power_delay_and_the_end_of_slow_start():
    row = metrics(stored_results.flow_counters(start_ns=10**9, slow_start_exit_ns=int(1.25e9)))["f1"]
    assert row["power"] == pytest.approx(8 / 0.060123456, rel=1e-5)
    assert row["slow_start_exit_s"] == 0.25
    assert (row["queue_delay_p50_ms"], row["queue_delay_max_ms"]) == (20, 45)


def test_a_late_flow_is_measured_over_its_own_time():
    late = stored_results.flow_counters(goodput_bytes=1_000_000, active_ns=2 * 10**9)
    assert metrics(late)["f1"]["goodput_mbps"] == 4.0


def test_fairness_of_two_flows():
    rows = metrics(
        stored_results.flow_counters("f1"), stored_results.flow_counters("f2", goodput_bytes=2_000_000)
    )
    assert rows["f1"]["jain"] == rows["f2"]["jain"] == 0.735294  # (8 + 2)^2 / (2 (64 + 4))
    assert summary.jain([5.0, 5.0, 5.0]) == pytest.approx(1)
    assert summary.jain([5.0, 0.0]) == pytest.approx(0.5)
    assert summary.jain([0.0, 0.0]) is None


def test_fairness_is_among_connections_of_the_same_application():
    apps = {"f1": "bulk", "f2": "bulk", "f3": "video", "f4": "ping", "f5": "voip", "f6": "udp-cbr"}
    goodput = {"f1": 8_000_000, "f2": 2_000_000}
    counted = [stored_results.flow_counters(name, goodput_bytes=goodput.get(name, 64_000)) for name in apps]
    flows = [
        {"name": name, "from": "a", "to": "b", "cc": "newreno", "app": {"kind": kind}}
        for name, kind in apps.items()
    ]
    rows = summary.flow_metrics(stored_results.scenario(flows=flows), {"flows": counted})
    assert {name: row["jain"] for name, row in rows.items()} == {
        "f1": 0.735294,  # (8 + 2)^2 / (2 (64 + 4)): nobody else counts
        "f2": 0.735294,
        **dict.fromkeys(("f3", "f4", "f5", "f6")),
    }
    assert [row["app"] for row in rows.values()] == list(apps.values())


@pytest.mark.parametrize("kind", ["ping", "voip", "udp-cbr"])
def test_datagrams_have_nothing_of_tcp(kind):
    flow = {"name": "f1", "from": "a", "to": "b", "cc": "newreno", "app": {"kind": kind}}
    scenario = stored_results.scenario(flows=[flow])
    row = summary.flow_metrics(scenario, {"flows": [stored_results.flow_counters()]})["f1"]
    assert [name for name in names(lambda metric: metric.of == "tcp") if row[name] is not None] == []
    assert (row["goodput_mbps"], row["drop_rate"]) == (8.0, pytest.approx(50 / 6000, rel=1e-5))
    assert summary.no_metrics(scenario, "missing")["f1"]["cc"] is None


def test_parts_of_the_bottleneck_add_up():
    rows = metrics(
        stored_results.flow_counters("f1", wire_bytes=6_000_000),
        stored_results.flow_counters("f2", wire_bytes=4_000_000),
    )
    assert rows["f1"]["utilisation"] == 0.6
    assert rows["f2"]["utilisation"] == 0.4


def change(at_s, rate_bps=None, down=None, queue=None):
    return {"at_ns": at_s * 10**9, "link": "there", "rate_bps": rate_bps, "down": down, "queue": queue}


@pytest.mark.parametrize(
    ("schedule", "bits"),
    [
        ([], 80e6),
        ([change(1, rate_bps=5_000_000)], 40e6),  # before the window began
        ([change(6, rate_bps=5_000_000)], 60e6),  # half of it
        ([change(4, down=True), change(6, down=False)], 60e6),  # two seconds of outage
        ([change(10, rate_bps=1)], 80e6),  # at its end
    ],
)
def test_capacity_follows_the_schedule(schedule, bits):
    scenario = stored_results.scenario(schedule=schedule)
    assert capacity.capacity_bits(scenario, scenario["links"][0]) == bits


def test_a_link_without_a_rate_has_no_utilisation():
    scenario = stored_results.scenario()
    scenario["links"][0]["rate_bps"] = None
    row = summary.flow_metrics(scenario, {"flows": [stored_results.flow_counters()]})["f1"]
    assert row["utilisation"] is None


def test_a_shaper_below_the_rate_is_what_the_link_can_carry():
    scenario = stored_results.scenario(schedule=[change(6, rate_bps=1_000_000)])
    link = scenario["links"][0]
    link["shaper"] = {"kind": "token-bucket", "rate_bps": 2_000_000, "burst_bytes": 15_000}
    assert capacity.capacity_bits(scenario, link) == 4 * 2e6 + 4 * 1e6
    link["rate_bps"] = None
    assert capacity.capacity_bits(scenario, link) == 4 * 2e6 + 4 * 1e6
    assert capacity.capacity_bits(stored_results.scenario(), link) == 16e6


def test_cake_shapes_until_it_is_replaced():
    scenario = stored_results.scenario(
        schedule=[change(4, queue={"kind": "cake", "bandwidth_bps": 3_000_000})]
    )
    link = scenario["links"][0]
    link["queue"] = {"kind": "cake", "bandwidth_bps": 8_000_000}
    assert capacity.capacity_bits(scenario, link) == 2 * 8e6 + 6 * 3e6
    link["queue"] = {"kind": "red", "bandwidth_bps": 8_000_000}  # which keeps to no rate
    assert capacity.capacity_bits(stored_results.scenario(), link) == 80e6


def test_a_trace_carries_its_opportunities():
    scenario = stored_results.scenario(schedule=[change(9, down=True)])
    link = scenario["links"][0]
    link["rate_bps"] = None
    half_seconds = [500_000_000, 700_000_000, 2_000_000_000]
    link["shaper"] = {
        "kind": "trace",
        "opportunities_ns": half_seconds,
        "period_ns": 2 * 10**9,
        "bytes": 1504,
    }
    # After 2 s, up to 9 s: 2.5, 2.7, 4, 4.5, 4.7, 6, 6.5, 6.7, 8, 8.5, 8.7.
    assert capacity.capacity_bits(scenario, link) == 11 * 1504 * 8


def test_the_narrowest_bottleneck_on_the_way_counts():
    scenario = stored_results.scenario()
    narrow = {"name": "narrow", "from": "r", "to": "b", "rate_bps": 9_000_000, "bottleneck": True}
    elsewhere = {"name": "elsewhere", "from": "r", "to": "c", "rate_bps": 1_000_000, "bottleneck": True}
    scenario["links"][0]["to"] = "r"
    scenario["links"] += [elsewhere, narrow]
    row = summary.flow_metrics(scenario, {"flows": [stored_results.flow_counters()]})["f1"]
    assert row["utilisation"] == 1.0


def test_the_opinion_score_of_a_call_is_that_of_the_e_model():
    # R = 93.2 alone is MOS 4.41; 150 ms cost 3.6; 1 % of loss costs 95 / 26.1.
    assert call.opinion_score(0, 0) == pytest.approx(4.41, abs=0.005)
    assert call.delay_impairment(150) == pytest.approx(3.6)
    assert call.delay_impairment(277.3) == pytest.approx(0.024 * 277.3 + 11)
    assert call.loss_impairment(0.01) == pytest.approx(3.640, abs=0.001)
    assert call.opinion_score(2000, 0.3) == 1
    assert call.opinion_score(400, 0.0) == pytest.approx(3.053, abs=0.001)


def test_a_call_has_an_opinion_score_and_other_datagrams_have_none():
    delays = {"count": 9, "min_ns": 1, "mean_ns": 2, "p50_ns": 1, "p95_ns": 130_000_000, "max_ns": 1}
    scenario = stored_results.scenario()
    flow = {"name": "f1", "from": "a", "to": "b", "cc": "newreno"}
    for app, score in (({"kind": "voip", "frame_ns": 20_000_000}, 4.32), ({"kind": "udp-cbr"}, None)):
        scenario["flows"] = [{**flow, "app": app}]
        counters = stored_results.flow_counters(one_way=delays, drops=0)
        row = summary.flow_metrics(scenario, {"flows": [counters]})["f1"]
        assert row["mos"] == (None if score is None else pytest.approx(score, abs=0.01))


def test_what_an_application_saw():
    shares = {
        "count": 9,
        "min_ns": 1,
        "mean_ns": 2,
        "p50_ns": 3_000_000,
        "p95_ns": 7_500_000,
        "max_ns": 8_000_000,
    }
    row = metrics(
        stored_results.flow_counters(
            completion_ns=2_500_000_000, response=shares, one_way={"count": 0}, stalled_ns=0
        )
    )["f1"]
    assert (row["completion_s"], row["response_p50_ms"], row["response_p95_ms"]) == (2.5, 3.0, 7.5)
    assert row["one_way_p50_ms"] is None
    assert row["stalled_s"] is None  # only a player stalls
