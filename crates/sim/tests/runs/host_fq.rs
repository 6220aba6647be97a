//! FQ at a host's interface: Linux leaves pacing to it, for every congestion control, and it marks what waits there.

use contract::scenario::{Capture, Ecn, Scenario};
use path::QueueConfig;
use path::queue::configs::FqConfig;
use wire::capture::Reader;

use crate::support::{MS, Outcome, SECOND, bulk, carry_out, dumbbell, link_mut};

const RATE: u64 = 50_000_000;

fn fq(ce_threshold_ns: Option<u64>) -> QueueConfig {
    QueueConfig::Fq(FqConfig {
        limit_packets: 10_000,
        flow_limit_packets: 100,
        quantum_bytes: 3028,
        initial_quantum_bytes: 15_140,
        maxrate_bps: None,
        low_rate_threshold_bps: 550_000,
        refill_delay_ns: 40 * MS,
        orphan_mask: 1023,
        ce_threshold_ns,
        horizon_ns: 10 * SECOND,
        horizon_drop: true,
    })
}

fn scenario(stack: &str, cc: &str, paced: bool) -> Scenario {
    let mut scenario = dumbbell(stack, cc, RATE, 40 * MS, 1000, 5);
    if paced {
        link_mut(&mut scenario, "a-r1").queue = fq(None);
    }
    scenario.record.pcap = vec![Capture { at: "r1-r2".into(), snaplen: 100 }];
    scenario
}

/// The most packets of data that came from the host within a millisecond, in the first rounds of slow start, before queues make the
/// round trip that a rate is computed from a late one.
fn burst(outcome: &Outcome) -> usize {
    let mut reader = Reader::new(&outcome.captures["r1-r2"][..]).expect("a pcap file");
    let mut times = Vec::new();
    while let Some(record) = reader.next_record().expect("a whole file") {
        if record.wire_length > 1000 && record.t_ns < 200 * MS {
            times.push(record.t_ns);
        }
    }
    assert!(times.len() > 100, "{}", times.len());
    let within = |&first: &u64| times.iter().filter(|&&t| (first..first + MS).contains(&t)).count();
    times.iter().map(within).max().unwrap_or(0)
}

fn goodput(outcome: &Outcome, flow: usize) -> f64 {
    outcome.summary["flows"][flow]["goodput_bytes"].as_f64().expect("a number") * 8.0 / 5.0
}

/// A window leaves at twice its rate in slow start, where it left as ACKs came: ten at once at first.
#[test]
fn cubic_is_paced_from_the_second_window_on() {
    let [plain, paced] = [false, true].map(|paced| carry_out(&scenario("linux-6.18", "cubic", paced), false));
    println!("{} and {} packets in a millisecond", burst(&plain), burst(&paced));
    assert!(burst(&paced) < burst(&plain), "{} and {}", burst(&paced), burst(&plain));
    assert!(goodput(&paced, 0) > 0.95 * goodput(&plain, 0), "{}", goodput(&paced, 0));
    let rate = |outcome: &Outcome| format!("{:?}", outcome.tables["tcp"][0].columns[11]);
    assert_ne!(rate(&plain), rate(&paced), "a rate is told");
}

/// A train of ACKs of paced packets says less of the path, so that slow start goes on for a longer one (hystart_update).
#[test]
fn slow_start_of_cubic_waits_for_a_longer_train_of_acks() {
    let most_sent = |paced| {
        let mut scenario = dumbbell("linux-6.12", "cubic", 100_000_000, 40 * MS, 300, 1);
        if paced {
            link_mut(&mut scenario, "a-r1").queue = fq(None);
        }
        carry_out(&scenario, false).summary["flows"][0]["cwnd_max_bytes"].as_u64().expect("a number")
    };
    let [plain, paced] = [false, true].map(most_sent);
    assert!(paced > plain * 9 / 10, "{paced} and {plain}");
}

/// FQ keeps packets for as long as a connection's own timer would.
#[test]
fn bbr_sends_as_with_a_timer_of_its_own() {
    let [timer, queue] = [false, true].map(|paced| carry_out(&scenario("linux-6.18", "bbr", paced), false));
    let ratio = goodput(&queue, 0) / goodput(&timer, 0);
    assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
    assert!(burst(&queue).abs_diff(burst(&timer)) <= 2, "{} and {}", burst(&queue), burst(&timer));
}

#[test]
fn freebsd_knows_nothing_of_it() {
    let [plain, queue] =
        [false, true].map(|paced| carry_out(&scenario("freebsd-15-current", "cubic", paced), false));
    assert_eq!(plain.summary["flows"], queue.summary["flows"]);
}

/// Two flows share a host's interface of 20 Mbit/s: what waits there over 5 ms beyond its time is marked there.
#[test]
fn the_hosts_queue_marks_what_waits_for_the_interface() {
    let run = |ce_threshold_ns| {
        let mut scenario = scenario("linux-6.18", "reno", true);
        scenario.flows.push(bulk("f2", "a", "b", "cubic"));
        for host in &mut scenario.hosts {
            host.ecn = Ecn::On;
        }
        let link = link_mut(&mut scenario, "a-r1");
        (link.rate_bps, link.queue, link.observe, link.bottleneck) =
            (Some(20_000_000), fq(ce_threshold_ns), true, true);
        carry_out(&scenario, false)
    };
    let [plain, marking] = [None, Some(5 * MS)].map(run);
    let marks = |outcome: &Outcome| outcome.summary["flows"][0]["ce_marks"].as_u64().expect("a number");
    assert_eq!(marks(&plain), 0);
    assert!(marks(&marking) > 0);
    let shares = [goodput(&marking, 0), goodput(&marking, 1)];
    assert!(shares.iter().sum::<f64>() > 14e6, "{shares:?}");
}

#[test]
fn hops_that_wait_for_events_give_the_same() {
    for cc in ["cubic", "bbr"] {
        let scenario = scenario("linux-6.18", cc, true);
        let [ahead, stepped] = [false, true].map(|forced| carry_out(&scenario, forced));
        assert_eq!(ahead.metrics(), stepped.metrics());
        assert_eq!(ahead.captures, stepped.captures);
    }
}

/// A veth holds no packets, but FQ on it does: TCP small queues count what waits there, and no flow comes to FQ's limit.
#[test]
fn what_waits_at_a_veth_is_counted() {
    for cc in ["bbr", "cubic"] {
        let mut scenario = dumbbell("linux-6.12", cc, RATE, 40 * MS, 1000, 5);
        link_mut(&mut scenario, "a-r1").queue = fq(None);
        for host in &mut scenario.hosts {
            host.nic.veth = true;
        }
        let outcome = carry_out(&scenario, false);
        assert_eq!(outcome.summary["flows"][0]["retransmits"], 0, "{cc}");
        assert!(goodput(&outcome, 0) > 40e6, "{cc}: {}", goodput(&outcome, 0));
    }
}
