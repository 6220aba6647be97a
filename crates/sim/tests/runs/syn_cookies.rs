//! SYN cookies: what a listener that keeps nothing of a SYN costs an experiment.

use crate::support::{MS, carry_out, dumbbell};

const RTT: u64 = 100 * MS;

/// Bytes that a sender without timestamps delivers in five seconds.
fn delivered(accepter: &str, sysctl: Option<(&str, i64)>) -> u64 {
    let mut scenario = dumbbell("windows-7", "newreno", 100_000_000, RTT, 1000, 5);
    scenario.hosts[1].stack = accepter.into();
    scenario.flows[0].sndbuf = Some(4 << 20);
    scenario.flows[0].rcvbuf = Some(4 << 20);
    scenario.hosts[1].sysctl.extend(sysctl.map(|(name, value)| (name.into(), value)));
    let flow = &carry_out(&scenario, false).summary["flows"][0];
    flow["goodput_bytes"].as_u64().expect("a number")
}

/// By hand: without window scaling at most 65,535 bytes are under way, which in 5 s of 100 ms are 3.3 MB. Linux forgets scaling where
/// there are no timestamps; FreeBSD keeps it in the cookie.
#[test]
fn a_cookie_without_timestamps_costs_the_scaled_window_on_linux_alone() {
    let linux = [None, Some(("net.ipv4.tcp_syncookies", 2))].map(|sysctl| delivered("linux-6.18", sysctl));
    let freebsd = [None, Some(("net.inet.tcp.syncookies_only", 1))]
        .map(|sysctl| delivered("freebsd-15-current", sysctl));
    println!("{linux:?} and {freebsd:?} bytes");
    assert!(linux[0] > 6_000_000 && linux[1] < 50 * 65_535 && linux[1] > 2_500_000, "{linux:?}");
    assert_eq!(freebsd[0], freebsd[1]);
    assert!(freebsd[0] > 6_000_000, "{freebsd:?}");
}
