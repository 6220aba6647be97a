//! Guests that exchange packets in whole runs: smoltcp with the models of kernels' TCP at its other end, and with itself.

use contract::scenario::{App, Capture, Ecn, Flow, Sampling, Scenario};
use path::{JitterConfig, JitterKind, PfifoConfig, QueueConfig};
use proptest::prelude::*;
use sim::Simulation;

use crate::support::{
    MS, Outcome, attach, bulk, carry_out, column, difference, dumbbell, host, link_mut, random_loss,
};

const SMOLTCP: &str = "smoltcp-0.12.0";

/// A flow from one stack to another over 10 Mbit/s and 40 ms.
fn between(from: &str, to: &str, app: App, seconds: u64) -> Scenario {
    let mut scenario = dumbbell(from, "cubic", 10_000_000, 40 * MS, 50, seconds);
    scenario.hosts[1] = host("b", to);
    let flow = &mut scenario.flows[0];
    (flow.app, flow.sndbuf, flow.rcvbuf) = (app, None, None);
    scenario
}

fn transfer(bytes: u64) -> App {
    App::Bulk { bytes: Some(bytes), write_bytes: 131_072 }
}

fn flow(outcome: &Outcome) -> &serde_json::Value {
    &outcome.summary["flows"][0]
}

#[test]
fn a_transfer_is_complete_with_any_stack_at_the_other_end() {
    for other in [SMOLTCP, "linux-6.18", "freebsd-15-current", "freebsd-13", "windows-7"] {
        for [from, to] in [[SMOLTCP, other], [other, SMOLTCP]] {
            let mut scenario = between(from, to, transfer(5_000_000), 20);
            if from == "windows-7" {
                scenario.flows[0].cc = "newreno".into();
            }
            let outcome = carry_out(&scenario, false);
            let flow = flow(&outcome);
            assert_eq!(
                (flow["status"].as_str(), flow["goodput_bytes"].as_u64()),
                (Some("complete"), Some(5_000_000)),
                "{from} to {to}"
            );
            // 5 MB take 4 s at 10 Mbit/s without headers.
            let took = flow["completion_ns"].as_u64().expect("complete");
            assert!((4_000 * MS..8_000 * MS).contains(&took), "{from} to {to}: {took}");
            let sent = flow["segments_sent"].as_u64().expect("a number");
            let resent = flow["retransmits"].as_u64().expect("a number");
            assert!(
                sent > 5_000_000 / 1460 && sent < 5_000_000 / 1400 + resent + 200,
                "{from} to {to}: {sent} {resent}"
            );
            assert!(
                resent >= flow["drops"].as_u64().expect("a number"),
                "{from} to {to}: what is lost is sent again"
            );
        }
    }
}

#[test]
fn what_smoltcp_does_not_tell_is_null_and_its_packets_show_the_rest() {
    let outcome =
        carry_out(&between(SMOLTCP, "linux-6.18", App::Bulk { bytes: None, write_bytes: 131_072 }, 5), false);
    let tcp = &outcome.tables["tcp"];
    for name in
        ["cwnd_bytes", "ssthresh_bytes", "srtt_ns", "rto_ns", "pacing_bps", "send_window_bytes", "state"]
    {
        assert!(column(tcp, name).iter().all(Option::is_none), "{name}");
    }
    for (name, most) in [
        ("inflight_bytes", 200_000),
        ("delivered_bytes", 7_000_000),
        ("send_buffer_bytes", 4 << 20),
        ("receive_window_bytes", 8 << 20),
    ] {
        let values: Vec<i64> = column(tcp, name).into_iter().skip(20).flatten().collect();
        assert!(
            values.len() > 400 && values.iter().all(|value| (1..=most).contains(value)),
            "{name}: {values:?}"
        );
    }
    let flow = flow(&outcome);
    for name in ["cwnd_mean_bytes", "cwnd_max_bytes", "srtt_mean_ns", "rtos", "send_buffer"] {
        assert!(flow[name].is_null(), "{name}");
    }
    assert!(flow["active_ns"].as_u64() > Some(4_900 * MS) && flow["rtt"]["min_ns"].as_u64() >= Some(40 * MS));
}

#[test]
fn it_shares_a_bottleneck_with_the_tcp_of_kernels() {
    let mut scenario = between(SMOLTCP, SMOLTCP, App::Bulk { bytes: None, write_bytes: 131_072 }, 30);
    for name in ["c", "d"] {
        attach(
            &mut scenario,
            host(name, "linux-6.18"),
            if name == "c" { "r1" } else { "r2" },
            10_000_000_000,
        );
    }
    scenario.flows.push(bulk("tcp", "c", "d", "cubic"));
    let outcome = carry_out(&scenario, false);
    let wire = [0, 1].map(|flow| outcome.summary["flows"][flow]["wire_bytes"].as_u64().expect("a number"));
    assert!(wire.iter().all(|&bytes| bytes > 1_000_000), "{wire:?}");
    assert!((34_000_000..=37_500_000).contains(&wire.iter().sum::<u64>()), "{wire:?}");
    assert_eq!(difference(&outcome, &carry_out(&scenario, true)), None);
    scenario.seed += 1;
    assert!(difference(&outcome, &carry_out(&scenario, false)).is_some());
}

#[test]
fn its_buffer_limits_it_and_no_congestion_control_does() {
    // smoltcp 0.12 compares its congestion window with what the peer's window has left, and not with what is in flight.
    let runs = ["cubic", "reno", "none"].map(|cc| {
        let mut scenario =
            between(SMOLTCP, "linux-6.18", App::Bulk { bytes: None, write_bytes: 131_072 }, 10);
        (scenario.flows[0].cc, scenario.flows[0].sndbuf) = (cc.into(), Some(200_000));
        let outcome = carry_out(&scenario, false);
        let most = column(&outcome.tables["tcp"], "inflight_bytes").into_iter().flatten().max();
        (flow(&outcome)["drops"].as_u64(), flow(&outcome)["goodput_bytes"].as_u64(), most)
    });
    assert!(runs[0] == runs[1] && runs[1] == runs[2], "{runs:?}");
    assert!(runs[0].0 > Some(1000) && runs[0].2 > Some(190_000), "{runs:?}");
}

#[test]
fn captures_have_its_packets() {
    let mut scenario = between(SMOLTCP, "linux-6.18", transfer(100_000), 5);
    scenario.record.pcap = vec![Capture { at: "a".into(), snaplen: 64 }];
    scenario.record.tcp = Sampling::PerAck;
    let outcome = carry_out(&scenario, false);
    let bytes = &outcome.captures["a"];
    // The pcap header, then the SYN behind its own.
    let syn = &bytes[24 + 16..];
    assert_eq!((syn[0], syn[9], syn[33] & 0x3f), (0x45, 6, 0x02), "IPv4, TCP, SYN");
    assert_eq!(flow(&outcome)["status"], "complete");
}

#[test]
fn a_fin_that_came_before_data_is_sent_again_alone() {
    // smoltcp keeps the data of such a segment and forgets its FIN; a retransmission with that data is outside its window.
    let mut scenario = between("linux-6.18", SMOLTCP, transfer(134_537), 20);
    scenario.hosts.iter_mut().for_each(|host| host.mss = 1004);
    let link = link_mut(&mut scenario, "r1-r2");
    link.rate_bps = Some(40_000_000);
    link.jitter = Some(JitterConfig { kind: JitterKind::Uniform, sd_ns: MS, reorder: true, table: None });
    for seed in 0..20 {
        scenario.seed = seed;
        assert_eq!(flow(&carry_out(&scenario, false))["status"], "complete", "{seed}");
    }
}

#[test]
fn its_timeouts_become_longer_until_what_was_never_sent_is_acknowledged() {
    // All of a window of 65,535 bytes is sent again at each timeout, 7 segments of which the queue and its link take. smoltcp 0.12
    // measures round trips of bytes that it sends for the first time only, and doubles what it has measured at every third
    // retransmission in between, up to 10 s.
    let mut scenario = between(SMOLTCP, SMOLTCP, transfer(76_450), 300);
    scenario.hosts.iter_mut().for_each(|host| host.mss = 588);
    let link = link_mut(&mut scenario, "r1-r2");
    link.delay_ns = 3 * MS;
    link.queue = QueueConfig::Pfifo(PfifoConfig { limit_packets: 6 });
    scenario.record.tcp = Sampling::PerAck;
    let outcome = carry_out(&scenario, false);
    let tcp = &outcome.tables["tcp"];
    let (times, delivered) = (column(tcp, "t_ns"), column(tcp, "delivered_bytes"));
    let mut arrivals: Vec<i64> = (1..times.len())
        .filter(|&row| delivered[row] > delivered[row - 1])
        .filter_map(|row| times[row])
        .collect();
    arrivals.dedup();
    let pauses: Vec<i64> =
        arrivals.windows(2).map(|pair| pair[1] - pair[0]).filter(|&pause| pause > 50 * MS as i64).collect();
    let longest = pauses.iter().max().expect("pauses");
    assert!(pauses.len() > 8 && *longest > 8 * pauses[0], "{pauses:?}");
    assert_eq!(flow(&outcome)["status"], "complete");
}

/// The line that refuses a run so changed.
fn refusal(change: impl FnOnce(&mut Scenario)) -> String {
    let mut scenario = between(SMOLTCP, "linux-6.18", transfer(1), 1);
    change(&mut scenario);
    Simulation::from_scenario(scenario, 0, false).map(|_| ()).expect_err("refused").to_string()
}

#[test]
fn what_it_does_not_have_is_refused_in_a_line() {
    assert_eq!(
        refusal(|s| s.hosts[0].ecn = Ecn::On),
        "host a: ecn of smoltcp-0.12.0: found on; expected off, as it has none"
    );
    assert_eq!(
        refusal(|s| s.hosts[0].mss = 8960),
        "host a: mss of smoltcp-0.12.0: found 8960; expected at most 1460"
    );
    assert_eq!(
        refusal(|s| s.hosts[0].nic.tso = true),
        "host a: nic.tso of smoltcp-0.12.0: found true; expected false, as it sends packets one by one"
    );
    assert_eq!(
        refusal(|s| s.flows[0].cc = "bbr".into()),
        "flow f1: smoltcp-0.12.0 has no congestion control bbr; it has cubic, reno, none"
    );
    assert_eq!(
        refusal(|s| *s = Scenario {
            flows: vec![Flow { cc: "vegas2".into(), ..bulk("f1", "b", "a", "cubic") }],
            ..s.clone()
        })
        .split(';')
        .next(),
        Some("flow f1: linux-6.18 has no congestion control vegas2"),
        "of the sender, whatever receives"
    );
}

/// A path and what is asked on it.
#[derive(Clone, Debug)]
struct Shape {
    ends: [&'static str; 2],
    rate_bps: u64,
    delay_ns: u64,
    limit: u32,
    loss_ppb: u32,
    jitter_ns: u64,
    duplicate_ppb: u32,
    cc: &'static str,
    mss: u16,
    bytes: u64,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let path =
        (1_000_000u64..100_000_000, 0..50 * MS, 5u32..200, 0u32..20_000_000, 0..5 * MS, 0u32..20_000_000);
    let ends = prop::sample::select(vec![
        [SMOLTCP, SMOLTCP],
        [SMOLTCP, "linux-6.18"],
        [SMOLTCP, "freebsd-15-current"],
        ["linux-6.18", SMOLTCP],
        ["freebsd-15-current", SMOLTCP],
    ]);
    let flow = (ends, prop::sample::select(vec!["cubic", "reno"]), 536u16..1460, 1u64..300_000);
    (path, flow).prop_map(|(path, (ends, cc, mss, bytes))| {
        let (rate_bps, delay_ns, limit, loss_ppb, jitter_ns, duplicate_ppb) = path;
        let cc = if cc == "reno" && ends[0].starts_with("freebsd") { "newreno" } else { cc };
        Shape { ends, rate_bps, delay_ns, limit, loss_ppb, jitter_ns, duplicate_ppb, cc, mss, bytes }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_transfer_completes_whatever_is_lost_reordered_or_duplicated(shape in shapes()) {
        // A window of 65,535 bytes through a queue of 5 packets is some 24 timeouts of smoltcp, which become as long as 10 s each.
        let mut scenario = between(shape.ends[0], shape.ends[1], transfer(shape.bytes), 3_000);
        scenario.flows[0].cc = shape.cc.into();
        scenario.record.tcp = Sampling::Interval { interval_ns: 1_000 * MS };
        for host in &mut scenario.hosts {
            host.mss = shape.mss;
        }
        let link = link_mut(&mut scenario, "r1-r2");
        link.rate_bps = Some(shape.rate_bps);
        link.delay_ns = shape.delay_ns;
        link.queue = QueueConfig::Pfifo(PfifoConfig { limit_packets: shape.limit });
        link.loss = random_loss(shape.loss_ppb);
        link.duplicate_ppb = shape.duplicate_ppb;
        link.jitter =
            Some(JitterConfig { kind: JitterKind::Uniform, sd_ns: shape.jitter_ns, reorder: true, table: None });
        let outcome = carry_out(&scenario, false);
        let flow = flow(&outcome);
        prop_assert_eq!(flow["status"].as_str(), Some("complete"), "{}", flow);
        prop_assert_eq!(flow["goodput_bytes"].as_u64(), Some(shape.bytes));
        prop_assert_eq!(difference(&outcome, &carry_out(&scenario, true)), None);
    }
}
