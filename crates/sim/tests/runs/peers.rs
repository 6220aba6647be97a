//! Knowledge of a host from earlier connections to another: thresholds and the first timeout of a second connection.

use contract::ids::FlowId;
use contract::scenario::{App, Scenario};
use sim::{SenderState, Simulation};

use crate::support::{MS, SECOND, dumbbell};

/// A transfer of 600 kB that fills the buffer and loses packets, and one that begins long after; both by Reno, over 2 Mbit/s with
/// 50 ms and 20 packets. `sysctls` are the sender's.
fn two_transfers(stack: &str, cc: &str, second_at: u64, sysctls: &[(&str, i64)]) -> Scenario {
    let mut scenario = dumbbell(stack, cc, 2_000_000, 50 * MS, 20, second_at / SECOND + 5);
    scenario.hosts[0].sysctl = sysctls.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    scenario.flows[0].app = App::Bulk { bytes: Some(600_000), write_bytes: 131_072 };
    let mut second = scenario.flows[0].clone();
    second.name = "f2".into();
    second.start_ns = second_at;
    scenario.flows.push(second);
    scenario
}

/// State of the first sender when it is done, and of the second when its handshake is over and no data is acknowledged yet.
fn both(scenario: &Scenario) -> [SenderState; 2] {
    let mut run = Simulation::from_scenario(scenario.clone(), 7, false).expect("the engine takes it");
    let start = scenario.flows[1].start_ns;
    run.run_until(start);
    let first = run.observe(FlowId(0)).expect("a connection");
    assert_eq!(
        (first.acknowledged, first.retransmits > 0),
        (Some(600_000), true),
        "it is done, and lost packets"
    );
    run.run_until(start + 75 * MS);
    let second = run.observe(FlowId(1)).expect("a connection");
    assert!(second.inflight > 0 && second.acknowledged == Some(0), "{second:?}");
    [first, second]
}

const LINUX_ON: (&str, i64) = ("net.ipv4.tcp_no_metrics_save", 0);

/// The second timeout is made of the first connection's round trip, in whole milliseconds: that and twice as much, or 200 ms
/// more. Without, it is made of the handshake's: 50 ms, and less than a millisecond for its two packets.
#[test]
fn linux_begins_with_the_round_trip_that_it_knows() {
    let [_, without] = both(&two_transfers("linux-6.18", "reno", 20 * SECOND, &[]));
    assert_eq!((without.rto, without.ssthresh), (Some(251 * MS), None));
    let [first, second] = both(&two_transfers("linux-6.18", "reno", 20 * SECOND, &[LINUX_ON]));
    let rtt = first.srtt.expect("a round trip") / MS;
    assert!(rtt > 100, "{rtt} ms, with a queue");
    assert_eq!(second.rto, Some((rtt + 2 * rtt) * MS));
    // The round trip itself is measured anew, and no threshold is kept since 5.6.
    assert_eq!((second.srtt.expect("one") / MS, second.ssthresh), (50, None));
}

#[test]
fn linux_keeps_the_threshold_if_it_is_told_to() {
    let sysctls = [LINUX_ON, ("net.ipv4.tcp_no_ssthresh_metrics_save", 0)];
    let [first, second] = both(&two_transfers("linux-6.18", "reno", 20 * SECOND, &sysctls));
    // In avoidance: half the window, or the threshold if that is more.
    let half = first.cwnd.expect("a window") / 1448 / 2 * 1448;
    assert_eq!(second.ssthresh, first.ssthresh.map(|ssthresh| ssthresh.max(half)));
    assert!(second.ssthresh.is_some());
}

/// Linux 3.9 keeps the threshold, and begins with round trip and deviation. That deviation, of what was unknown, is the round
/// trip: the timeout is five of them.
#[test]
fn linux_3_9_begins_with_threshold_and_round_trip() {
    let [first, second] = both(&two_transfers("linux-3.9", "reno", 20 * SECOND, &[LINUX_ON]));
    let half = first.cwnd.expect("a window") / 1448 / 2 * 1448;
    assert_eq!(second.ssthresh, first.ssthresh.map(|ssthresh| ssthresh.max(half)));
    assert!(second.ssthresh.is_some());
    let rtt = first.srtt.expect("a round trip");
    assert_eq!(second.srtt, Some(rtt));
    let five = 5 * rtt;
    assert!(
        second.rto.expect("a timeout").abs_diff(five) <= MS,
        "{:?}, five round trips: {five}",
        second.rto
    );
}

const FREEBSD_ON: (&str, i64) = ("net.inet.tcp.hostcache.enable", 1);

/// By hand: seven eighths of the known round trip and one of the handshake's; three quarters of the known variation and one of
/// how far they are apart; four variations more, and 200 ms. The threshold in whole packets of 1500 bytes.
fn check_freebsd([first, second]: &[SenderState; 2]) {
    let ms = |time: Option<u64>| time.expect("a time") as f64 / MS as f64;
    let (known, timeout) = (ms(first.srtt), ms(first.rto));
    let variation = (timeout - 200.0 - known) / 4.0;
    let handshake = 50.0;
    let srtt = known * 7.0 / 8.0 + handshake / 8.0;
    let rto = srtt + 4.0 * (variation * 0.75 + (known - handshake) / 4.0) + 200.0;
    assert!(known > 100.0 && (ms(second.srtt) - srtt).abs() < 0.5, "{srtt}: {second:?}");
    assert!((ms(second.rto) - rto).abs() < 3.0, "{rto}: {second:?}");
    let packets = (first.ssthresh.expect("a threshold") + 730) / 1460;
    assert_eq!(second.ssthresh, Some(packets * 1500));
}

/// The handshake's round trip alone, which counts whole ticks from one.
fn check_ignorant(second: &SenderState) {
    assert_eq!((second.srtt, second.ssthresh), (Some(52 * MS), None));
}

#[test]
fn freebsd_13_begins_with_threshold_and_round_trip() {
    check_freebsd(&both(&two_transfers("freebsd-13", "newreno", 20 * SECOND, &[FREEBSD_ON])));
    let [_, without] = both(&two_transfers("freebsd-13", "newreno", 20 * SECOND, &[]));
    check_ignorant(&without);
}

/// FreeBSD 15's connection that closed first learns after 60 s in TIME-WAIT.
#[test]
fn freebsd_15_does_so_once_time_wait_is_over() {
    check_freebsd(&both(&two_transfers("freebsd-15-current", "newreno", 80 * SECOND, &[FREEBSD_ON])));
    let [_, early] = both(&two_transfers("freebsd-15-current", "newreno", 20 * SECOND, &[FREEBSD_ON]));
    check_ignorant(&early);
}

/// RACK goes on in slow start up to the peer's window whatever is known.
#[test]
fn rack_takes_the_round_trip_and_no_threshold_below_the_peers_window() {
    for stack in ["freebsd-13/rack", "freebsd-15-current/rack"] {
        let [first, second] = both(&two_transfers(stack, "newreno", 80 * SECOND, &[FREEBSD_ON]));
        let rtt = first.srtt.expect("a round trip") * 7 / 8 + 50 * MS / 8;
        assert!(second.srtt.expect("a round trip").abs_diff(rtt) < MS, "{stack}: {rtt}: {second:?}");
        assert!(first.ssthresh.expect("a threshold") < 65_535, "{stack}");
        assert_eq!(second.ssthresh, Some(65_535), "{stack}");
    }
}

/// FreeBSD 11 has no switch, but a limit of entries.
#[test]
fn freebsd_11_is_switched_by_the_number_of_entries() {
    let sysctl = ("net.inet.tcp.hostcache.cachelimit", 15_360);
    check_freebsd(&both(&two_transfers("freebsd-11", "newreno", 20 * SECOND, &[sysctl])));
}
