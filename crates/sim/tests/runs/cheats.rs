//! Receivers that cheat, and what senders of each stack make of it: the attacks of Savage et al. (CCR 29(5), 1999).

use contract::scenario::{App, Cheat, Scenario};
use path::LossConfig;

use crate::support::{MS, carry_out, dumbbell, link_mut};

const RTT: u64 = 100 * MS;
const DIVIDES: Cheat = Cheat::AckDivision { parts: 10 };
const DUPLICATES: Cheat = Cheat::DuplicateAcks { copies: 50 };

/// A path that loses nothing, for so many round trips.
fn scenario(stack: &str, cc: &str, round_trips: u64) -> Scenario {
    let mut scenario = dumbbell(stack, cc, 1_000_000_000, RTT, 20_000, 1);
    scenario.hosts[1].stack = "linux-6.18".into();
    scenario.duration_ns = round_trips * RTT;
    (scenario.measure.from_ns, scenario.measure.to_ns) = (0, scenario.duration_ns);
    scenario.flows[0].sndbuf = Some(64 << 20);
    scenario.flows[0].rcvbuf = Some(64 << 20);
    scenario
}

/// The flow's summary beside a receiver that cheats, or does not.
fn flow(scenario: &Scenario, cheats: Option<Cheat>) -> serde_json::Value {
    let mut scenario = scenario.clone();
    scenario.hosts[1].cheats = cheats;
    carry_out(&scenario, false).summary["flows"][0].clone()
}

fn number(flow: &serde_json::Value, key: &str) -> f64 {
    flow[key].as_f64().expect("a number")
}

/// Largest window in segments, honest and cheated.
fn windows(scenario: &Scenario, cheat: Cheat) -> [f64; 2] {
    [None, Some(cheat)].map(|cheats| number(&flow(scenario, cheats), "cwnd_max_bytes") / 1448.0)
}

/// Linux counts packets that are acknowledged as a whole, FreeBSD bytes (RFC 3465): the parts of an acknowledgement come to no more.
#[test]
fn who_counts_what_is_acknowledged_gives_nothing_for_divided_acknowledgements() {
    for (stack, cc) in [
        ("linux-3.9", "reno"),
        ("linux-6.18", "cubic"),
        ("linux-6.18", "reno"),
        ("freebsd-9.2", "newreno"),
        ("freebsd-15-current", "newreno"),
        ("freebsd-15-current", "cubic"),
        ("windows-7", "newreno"),
    ] {
        let [honest, cheated] = windows(&scenario(stack, cc, 6), DIVIDES);
        println!("{stack} {cc}: {honest:.0} and {cheated:.0}");
        assert!(
            honest > 20.0 && (cheated / honest - 1.0).abs() < 0.05,
            "{stack} {cc}: {honest} and {cheated}"
        );
    }
}

/// By hand: without byte counting each acknowledgement is worth a segment (newreno_ack_received). Ten parts of each make eleven windows of
/// one in a round trip, where an honest receiver makes two; the path carries a few more such rounds.
#[test]
fn who_counts_acknowledgements_gives_a_segment_for_each_part() {
    let mut scenario = scenario("freebsd-15-current", "newreno", 4);
    scenario.hosts[0].sysctl.insert("net.inet.tcp.rfc3465".into(), 0);
    let [honest, cheated] = windows(&scenario, DIVIDES);
    println!("{honest:.0} and {cheated:.0}");
    assert!((38.0..42.0).contains(&honest), "two rounds from ten: {honest}");
    let expected = 10.0 * 11.0 * 11.0;
    assert!((cheated / expected - 1.0).abs() < 0.1, "{cheated} where {expected} were expected");
}

/// FreeBSD inflates its window by a segment for each duplicate (RFC 5681 section 3.2), however few are out. Linux takes no more
/// duplicates than there are packets out (tcp_limit_reno_sacked).
#[test]
fn duplicates_inflate_a_window_without_end_where_nobody_counts_what_is_out() {
    let [honest, cheated] = windows(&scenario("freebsd-15-current", "newreno", 6), DUPLICATES);
    println!("FreeBSD: {honest:.0} and {cheated:.0}");
    assert!(cheated > 50.0 * honest, "{honest} and {cheated}");
    let [honest, cheated] = windows(&scenario("linux-6.18", "reno", 6), DUPLICATES);
    println!("Linux: {honest:.0} and {cheated:.0}");
    assert!(cheated <= honest, "{honest} and {cheated}");
}

/// A receiver that acknowledges at a rate gets it, whatever is lost: no sender hears of losses. What is lost never comes: its
/// application waits for the first of it for ever.
#[test]
fn optimistic_acknowledgements_hide_losses_from_every_sender() {
    let cheat = Cheat::OptimisticAcks { rate_bps: 20_000_000 };
    for (stack, cc, payload) in [
        ("linux-6.18", "cubic", 1448.0),
        ("freebsd-15-current", "newreno", 1448.0),
        // It sends no timestamps.
        ("windows-7", "newreno", 1460.0),
    ] {
        let mut scenario = scenario(stack, cc, 50);
        link_mut(&mut scenario, "r1-r2").loss =
            Some(LossConfig::Nth { every: 100, packet: 50, min_payload: 1, dport: None, sport: None });
        let [honest, cheated] = [None, Some(cheat)].map(|cheats| flow(&scenario, cheats));
        let rates = [&honest, &cheated].map(|flow| number(flow, "wire_bytes") * 8.0 / 5e6);
        println!("{stack}: {rates:.1?} Mbit/s");
        assert!(number(&honest, "fast_recoveries") > 0.0 && rates[0] < 10.0, "{stack}: {rates:?}");
        assert_eq!(number(&cheated, "fast_recoveries") + number(&cheated, "rtos"), 0.0, "{stack}");
        assert!(rates[1] > 18.0, "{stack}: {rates:?}");
        assert_eq!(
            number(&cheated, "goodput_bytes"),
            50.0 * payload,
            "{stack}: up to the first that was lost"
        );
    }
}

/// RFC 9293 section 3.10.7.4: what was never sent cannot be acknowledged. The sender drops such ACKs and has to time out, as it gets no others.
#[test]
fn acknowledgements_of_what_was_not_sent_are_dropped() {
    for (stack, cc) in [("linux-6.18", "cubic"), ("freebsd-15-current", "newreno")] {
        let mut scenario = scenario(stack, cc, 50);
        scenario.flows[0].app = App::RateLimited { rate_bps: 1_000_000, write_bytes: 10_000 };
        let early = Some(Cheat::OptimisticAcks { rate_bps: 50_000_000 });
        let [honest, cheated] = [None, early].map(|cheats| flow(&scenario, cheats));
        println!("{stack}: {} and {} timeouts", honest["rtos"], cheated["rtos"]);
        assert_eq!(number(&honest, "rtos"), 0.0, "{stack}");
        assert!(number(&cheated, "rtos") > 3.0, "{stack}");
        assert!(number(&cheated, "goodput_bytes") < number(&honest, "goodput_bytes"), "{stack}");
    }
}
