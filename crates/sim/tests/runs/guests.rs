//! Guests in whole runs: quinn alone, beside kernels' TCP, and what it is refused.

use contract::scenario::{App, Capture, Change, Ecn, Sampling, Scenario};
use contract::table::ColumnData;
use path::{CodelConfig, JitterConfig, JitterKind, LossConfig, PfifoConfig, QueueConfig};
use proptest::prelude::*;
use sim::Simulation;

use crate::support::{
    MS, Outcome, attach, bulk, carry_out, column, difference, dumbbell, host, link_mut, random_loss,
};

const QUINN: &str = "quinn-0.11.19";

/// One flow of quinn over 10 Mbit/s and 40 ms; a transfer of so many bytes, or for the whole run.
fn alone(bytes: Option<u64>, seconds: u64) -> Scenario {
    let mut scenario = dumbbell(QUINN, "cubic", 10_000_000, 40 * MS, 50, seconds);
    for host in &mut scenario.hosts {
        host.ecn = Ecn::On;
    }
    let flow = &mut scenario.flows[0];
    (flow.sndbuf, flow.rcvbuf) = (None, None);
    flow.app = App::Bulk { bytes, write_bytes: 131_072 };
    scenario
}

/// A flow of quinn without end, and one of a kernel's TCP between two other hosts at the same bottleneck.
fn beside(stack: &str, seconds: u64) -> Scenario {
    let mut scenario = alone(None, seconds);
    attach(&mut scenario, host("c", stack), "r1", 10_000_000_000);
    attach(&mut scenario, host("d", stack), "r2", 10_000_000_000);
    scenario.flows.push(bulk("tcp", "c", "d", "cubic"));
    scenario
}

/// Numbers of events of each kind of a flow.
fn events(outcome: &Outcome, flow: i64, kind: &str) -> usize {
    let Some(batches) = outcome.tables.get("events") else { return 0 };
    let kinds = batches[0].columns.iter().find(|c| c.name == "kind").expect("a kind");
    let ColumnData::Dict { values, .. } = &kinds.data else { panic!("kinds are words") };
    let wanted = values.iter().position(|value| value == kind).map(|index| index as i64);
    let flows = column(batches, "flow");
    let rows = column(batches, "kind").into_iter().zip(flows);
    rows.filter(|row| *row == (wanted, Some(flow))).count()
}

#[test]
fn a_transfer_is_complete_and_all_of_it_was_read() {
    let outcome = carry_out(&alone(Some(5_000_000), 10), false);
    let flow = &outcome.summary["flows"][0];
    assert_eq!(flow["status"], "complete");
    assert_eq!(flow["goodput_bytes"], 5_000_000);
    // 5 MB take 4 s at 10 Mbit/s without headers.
    let took = flow["completion_ns"].as_u64().expect("complete");
    assert!((4_000 * MS..5_500 * MS).contains(&took), "{took}");
    assert_eq!(flow["drops"].as_u64(), Some(events(&outcome, 0, "drop") as u64));
    assert!(flow["srtt_mean_ns"].as_u64() >= Some(40 * MS));
    assert!(flow["rtt"]["min_ns"].as_u64() >= Some(40 * MS));
}

#[test]
fn what_quinn_does_not_tell_is_null() {
    let outcome = carry_out(&alone(None, 5), false);
    let tcp = &outcome.tables["tcp"];
    for name in ["rto_ns", "send_window_bytes", "send_buffer_bytes", "receive_window_bytes", "pacing_bps"] {
        assert!(column(tcp, name).iter().all(Option::is_none), "{name}");
    }
    for name in ["cwnd_bytes", "inflight_bytes", "delivered_bytes", "srtt_ns"] {
        assert!(
            column(tcp, name).iter().skip(20).all(|value| value.is_some_and(|value| value > 0)),
            "{name}"
        );
    }
    let flow = &outcome.summary["flows"][0];
    assert!(flow["limited_ns"]["cwnd"].is_null() && flow["send_buffer"].is_null() && flow["rtos"].is_null());
    assert!(flow["cwnd_mean_bytes"].as_u64() > Some(12_000));
}

#[test]
fn the_sender_keeps_within_its_window() {
    let outcome = carry_out(&alone(None, 10), false);
    let tcp = &outcome.tables["tcp"];
    let rows = column(tcp, "cwnd_bytes").into_iter().zip(column(tcp, "inflight_bytes"));
    // Right after a reduction more is in flight than the new window.
    let above = rows.clone().filter(|(cwnd, inflight)| *inflight > cwnd.map(|cwnd| cwnd + 1500)).count();
    assert!(above * 10 < rows.count(), "{above}");
    assert!(events(&outcome, 0, "recovery-in") > 0 && events(&outcome, 0, "drop") > 0);
}

#[test]
fn both_share_a_bottleneck_with_the_tcp_of_kernels() {
    for stack in ["linux-6.18", "freebsd-15-current"] {
        let outcome = carry_out(&beside(stack, 20), false);
        let wire = |flow: usize| outcome.summary["flows"][flow]["wire_bytes"].as_u64().expect("a number");
        let (quinn, tcp) = (wire(0), wire(1));
        assert!(quinn > 1_000_000 && tcp > 1_000_000, "{stack}: {quinn} and {tcp}");
        let (all, capacity) = (quinn + tcp, 25_000_000);
        assert!(all > capacity * 9 / 10 && all <= capacity, "{stack}: {all} of {capacity}");
        assert!(events(&outcome, 0, "drop") > 0 && events(&outcome, 1, "drop") > 0, "{stack}");
    }
}

#[test]
fn a_run_is_the_same_bytes_again_and_however_hops_are_carried_out() {
    let mut scenario = beside("linux-6.18", 5);
    link_mut(&mut scenario, "r1-r2").loss = random_loss(5_000_000);
    link_mut(&mut scenario, "r1-r2").corrupt_ppb = 5_000_000;
    let first = carry_out(&scenario, false);
    assert_eq!(difference(&first, &carry_out(&scenario, false)), None);
    assert_eq!(difference(&first, &carry_out(&scenario, true)), None);
    scenario.seed += 1;
    assert!(difference(&first, &carry_out(&scenario, false)).is_some());
}

#[test]
fn a_run_of_bbr_is_the_same_bytes_again() {
    let mut scenario = alone(None, 20);
    scenario.flows[0].cc = "bbr".into();
    let first = carry_out(&scenario, false);
    assert!(first.summary["flows"][0]["wire_bytes"].as_u64() > Some(20_000_000), "{}", first.summary);
    for _ in 0..3 {
        assert_eq!(difference(&first, &carry_out(&scenario, false)), None);
    }
}

#[test]
fn marks_reduce_the_window_where_the_host_sets_ecn_fields() {
    let marks = |ecn: Ecn| {
        let mut scenario = alone(None, 10);
        let codel = CodelConfig {
            limit_packets: 1000,
            target_ns: 5 * MS,
            interval_ns: 100 * MS,
            ecn: true,
            ce_threshold_ns: None,
        };
        link_mut(&mut scenario, "r1-r2").queue = QueueConfig::Codel(codel);
        for host in &mut scenario.hosts {
            host.ecn = ecn;
        }
        let outcome = carry_out(&scenario, false);
        ["mark", "reduction", "drop"].map(|kind| events(&outcome, 0, kind))
    };
    let [marked, reductions, drops] = marks(Ecn::On);
    assert!(
        marked > 0 && reductions > 0 && reductions <= marked && drops == 0,
        "{marked} {reductions} {drops}"
    );
    let [marked, reductions, drops] = marks(Ecn::Off);
    assert!(marked == 0 && reductions == 0 && drops > 0, "{marked} {reductions} {drops}");
}

#[test]
fn requests_are_answered_over_it() {
    let mut scenario = alone(None, 10);
    scenario.flows[0].app = App::RequestResponse {
        requests: Some(5),
        request_bytes: 100,
        response_bytes: 10_000,
        think_ns: 10 * MS,
    };
    let outcome = carry_out(&scenario, false);
    let flow = &outcome.summary["flows"][0];
    assert_eq!(flow["response"]["count"], 5);
    assert!(flow["response"]["min_ns"].as_u64() >= Some(40 * MS));
    assert_eq!(flow["status"], "complete");
    assert_eq!(flow["goodput_bytes"], 50_000);
}

#[test]
fn a_flow_that_is_told_to_stop_ends() {
    let mut scenario = alone(None, 10);
    scenario.flows[0].stop_ns = Some(3_000 * MS);
    let outcome = carry_out(&scenario, false);
    let flow = &outcome.summary["flows"][0];
    assert_eq!(flow["status"], "complete");
    let ended = flow["completion_ns"].as_u64().expect("ended");
    // quinn has taken up to 10 MB from its application by then (TransportConfig::send_window).
    assert!(ended > 3_000 * MS, "{ended}");
}

#[test]
fn a_run_can_be_looked_at_from_outside() {
    let mut run = Simulation::from_scenario(alone(None, 5), 0, false).expect("the engine takes it");
    assert!(run.observe(contract::ids::FlowId(0)).is_none(), "not open");
    run.run_until(2_000 * MS);
    let seen = run.observe(contract::ids::FlowId(0)).expect("a sender");
    assert!(seen.cwnd > Some(12_000) && seen.inflight > 0 && seen.sent > 500 && seen.rto.is_none());
}

/// The line that refuses a run so changed.
fn refusal(change: impl FnOnce(&mut Scenario)) -> String {
    let mut scenario = beside("linux-6.18", 1);
    change(&mut scenario);
    Simulation::from_scenario(scenario, 0, false).map(|_| ()).expect_err("refused").to_string()
}

#[test]
fn what_a_guest_does_not_have_is_refused_in_a_line() {
    let sysctl = |s: &mut Scenario| {
        s.hosts[0].sysctl.insert("net.ipv4.tcp_sack".into(), 0);
    };
    assert_eq!(
        refusal(sysctl),
        "host a: sysctl of quinn-0.11.19: found net.ipv4.tcp_sack; expected none, as it has none"
    );
    assert_eq!(
        refusal(|s| s.hosts[0].ecn = Ecn::Accept),
        "host a: ecn of quinn-0.11.19: found accept; expected on or off, as nothing is agreed on"
    );
    assert_eq!(
        refusal(|s| s.hosts[0].ecn = Ecn::Accurate),
        "host a: ecn of quinn-0.11.19: found accurate; expected on or off, as nothing is agreed on"
    );
    assert_eq!(
        refusal(|s| s.hosts[0].mss = 1187),
        "host a: mss of quinn-0.11.19: found 1187; expected at least 1188"
    );
    assert_eq!(
        refusal(|s| s.hosts[0].nic.tso = true),
        "host a: nic.tso of quinn-0.11.19: found true; expected false, as it sends datagrams one by one"
    );
    assert_eq!(
        refusal(|s| s.flows[0].cc = "vegas".into()),
        "flow f1: quinn-0.11.19 has no congestion control vegas; it has cubic, newreno, bbr"
    );
    assert_eq!(
        refusal(|s| s.flows[0].sndbuf = Some(1 << 20)),
        "flow f1: sndbuf: quinn-0.11.19 does not have it; expected none"
    );
    assert_eq!(
        refusal(|s| s.flows[0].to = "d".into()),
        "flow f1: quinn-0.11.19 and linux-6.18 do not speak the same protocol; a flow of a guest needs the same stack \
         at both ends"
    );
    assert_eq!(
        refusal(|s| link_mut(s, "r1-r2").duplicate_ppb = 1),
        "r1-r2: duplicates packets, which is not carried out in a run with a guest (a)"
    );
    let background = App::Background {
        load_bps: 1_000_000,
        size_bytes: 10_000,
        shape_milli: 1500,
        sizes: None,
        connections: 2,
    };
    assert_eq!(
        refusal(|s| s.flows[0].app = background),
        "flow f1: app: is not carried out over quinn-0.11.19; there are bulk, fixed, rate-limited, on-off, \
         request-response, video, and those of datagrams"
    );
}

#[test]
fn datagrams_go_between_any_hosts() {
    let mut scenario = beside("linux-6.18", 2);
    scenario.flows[1].to = "b".into();
    scenario.flows[1].app = App::Ping { interval_ns: 100 * MS, payload_bytes: 56 };
    link_mut(&mut scenario, "r1-r2").loss = Some(LossConfig::Random { probability_ppb: 0 });
    let outcome = carry_out(&scenario, false);
    // One is under way at the end.
    assert_eq!(outcome.summary["flows"][1]["one_way"]["count"], 19);
}

/// A path and what is asked of quinn on it.
#[derive(Clone, Debug)]
struct Shape {
    rate_bps: u64,
    delay_ns: u64,
    limit: u32,
    loss_ppb: u32,
    jitter_ns: u64,
    corrupt_ppb: u32,
    codel: bool,
    cc: &'static str,
    ecn: bool,
    mss: u16,
    app: App,
    /// Rows for every acknowledgement and captures, with which packets take another way through the engine.
    watched: bool,
    outage: Option<u64>,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let app = prop_oneof![
        Just(App::Bulk { bytes: None, write_bytes: 10_000 }),
        (1u64..2_000_000).prop_map(|size_bytes| App::Fixed { size_bytes, write_bytes: 65_536 }),
        (1u64..200_000, 0..200 * MS).prop_map(|(response_bytes, think_ns)| App::RequestResponse {
            requests: Some(4),
            request_bytes: 64,
            response_bytes,
            think_ns,
        }),
    ];
    let path =
        (200_000u64..100_000_000, 0..150 * MS, 1u32..200, 0u32..80_000_000, 0..10 * MS, 0u32..10_000_000);
    let cc = prop::sample::select(vec!["cubic", "newreno", "bbr"]);
    let host = (any::<[bool; 3]>(), cc, 1188u16..1460, prop::option::of(0u64..3_000 * MS));
    (path, host, app).prop_map(|(path, ([codel, ecn, watched], cc, mss, outage), app)| {
        let (rate_bps, delay_ns, limit, loss_ppb, jitter_ns, corrupt_ppb) = path;
        Shape {
            rate_bps,
            delay_ns,
            limit,
            loss_ppb,
            jitter_ns,
            corrupt_ppb,
            codel,
            cc,
            ecn,
            mss,
            app,
            watched,
            outage,
        }
    })
}

fn shaped(shape: &Shape) -> Scenario {
    let mut scenario = beside("freebsd-13", 4);
    let flow = &mut scenario.flows[0];
    flow.app = shape.app.clone();
    flow.cc = shape.cc.into();
    for host in &mut scenario.hosts[..2] {
        host.ecn = if shape.ecn { Ecn::On } else { Ecn::Off };
        host.mss = shape.mss;
    }
    let link = link_mut(&mut scenario, "r1-r2");
    link.rate_bps = Some(shape.rate_bps);
    link.delay_ns = shape.delay_ns;
    link.queue = QueueConfig::Pfifo(PfifoConfig { limit_packets: shape.limit });
    if shape.codel {
        link.queue = QueueConfig::Codel(CodelConfig {
            limit_packets: shape.limit,
            target_ns: 5 * MS,
            interval_ns: 100 * MS,
            ecn: true,
            ce_threshold_ns: None,
        });
    }
    link.loss = random_loss(shape.loss_ppb);
    link.corrupt_ppb = shape.corrupt_ppb;
    link.jitter =
        Some(JitterConfig { kind: JitterKind::Uniform, sd_ns: shape.jitter_ns, reorder: true, table: None });
    if let Some(at_ns) = shape.outage {
        let change = |at_ns, down| Change {
            at_ns,
            on: None,
            link: "r1-r2".into(),
            rate_bps: None,
            delay_ns: None,
            loss: None,
            queue: None,
            down: Some(down),
        };
        scenario.schedule = vec![change(at_ns, true), change(at_ns + 400 * MS, false)];
    }
    if shape.watched {
        scenario.record.tcp = Sampling::PerAck;
        scenario.record.pcap = ["a", "r1-r2"].map(|at| Capture { at: at.into(), snaplen: 64 }).to_vec();
    }
    scenario
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_path_carries_it_the_same_however_hops_are_carried_out(shape in shapes()) {
        let scenario = shaped(&shape);
        let outcome = carry_out(&scenario, false);
        prop_assert_eq!(difference(&outcome, &carry_out(&scenario, true)), None);
        let flow = &outcome.summary["flows"][0];
        prop_assert!(flow["status"] != "failed", "{}", flow);
        if let App::Fixed { size_bytes, .. } = shape.app {
            prop_assert!(flow["goodput_bytes"].as_u64() <= Some(size_bytes));
        }
    }
}

/// Truncated packet numbers that are decoded wrongly are refused by their tag; believed, they acknowledge what was never sent.
#[test]
fn an_outage_between_losses_breaks_no_connection() {
    let shape = Shape {
        rate_bps: 69_409_468,
        delay_ns: 33_893_387,
        limit: 25,
        loss_ppb: 62_922_116,
        jitter_ns: 4_087_421,
        corrupt_ppb: 1_718_477,
        codel: false,
        cc: "bbr",
        ecn: false,
        mss: 1323,
        app: App::Bulk { bytes: None, write_bytes: 10_000 },
        watched: false,
        outage: Some(1_586_869_001),
    };
    let flow = &carry_out(&shaped(&shape), false).summary["flows"][0];
    assert_ne!(flow["status"], "failed", "{flow}");
}
