//! TCP Fast Open: a connection that opens anew is answered one round trip earlier.

use contract::scenario::{App, Scenario};

use crate::milestones::rows;
use crate::support::{MS, carry_out, dumbbell};

const RTT: u64 = 100 * MS;
/// Sysctl by which each receiving system takes Fast Open.
const SWITCHES: [(&str, &str, i64); 2] = [
    ("linux-6.18", "net.ipv4.tcp_fastopen", 3),
    ("freebsd-15-current", "net.inet.tcp.fastopen.server_enable", 1),
];

/// Three connections after each other, each with one request of 200 bytes that is answered by 1,000.
fn scenario(opener: &str, accepter: &str) -> Scenario {
    let mut scenario = dumbbell(opener, "cubic", 1_000_000_000, RTT, 1000, 12);
    scenario.hosts[1].stack = accepter.into();
    let first = scenario.flows[0].clone();
    scenario.flows = (0..3)
        .map(|number| {
            let mut flow = first.clone();
            flow.name = format!("f{number}");
            flow.start_ns = number * 3_000 * MS;
            flow.app = App::RequestResponse {
                request_bytes: 200,
                response_bytes: 1000,
                requests: Some(1),
                think_ns: 0,
            };
            flow
        })
        .collect();
    scenario
}

/// Time from the start of each connection to its answer, in round trips.
fn answered_after(scenario: &Scenario) -> Vec<f64> {
    let outcome = carry_out(scenario, true);
    let answers = rows(&outcome, "samples", "response", &["t_ns"]);
    let starts = scenario.flows.iter().map(|flow| flow.start_ns);
    answers.iter().zip(starts).map(|(row, start)| (row[0] as u64 - start) as f64 / RTT as f64).collect()
}

fn round(found: &[f64]) -> Vec<f64> {
    found.iter().map(|trips| (trips * 20.0).round() / 20.0).collect()
}

/// By hand: the receiver asks when the third packet of the handshake has come, after one and a half round trips, and has its
/// answer one later; with Fast Open it asks when the SYN has come, after half of one. The first connection asks for the cookie.
#[test]
fn a_short_connection_saves_one_round_trip() {
    for (opener, ..) in SWITCHES {
        for (accepter, name, value) in SWITCHES {
            let mut with = scenario(opener, accepter);
            assert_eq!(round(&answered_after(&with)), [2.5, 2.5, 2.5], "{opener} to {accepter} without");
            with.hosts[1].sysctl.insert(name.into(), value);
            // Linux gives a cookie only when asked, and FreeBSD takes that for the end of it: the bug that its own test suite
            // expects of client-server-not-updating-cookie.
            let third = if opener < accepter { 2.5 } else { 1.5 };
            assert_eq!(round(&answered_after(&with)), [2.5, 1.5, third], "{opener} to {accepter} with");
        }
    }
}

/// A system without Fast Open asks for none, and takes none.
#[test]
fn a_system_without_it_opens_as_before() {
    let mut from_windows = scenario("linux-6.18", "linux-6.18");
    from_windows.hosts[1].sysctl.insert("net.ipv4.tcp_fastopen".into(), 3);
    from_windows.hosts[0].stack = "windows-7".into();
    for flow in &mut from_windows.flows {
        flow.cc = "newreno".into();
    }
    assert_eq!(round(&answered_after(&from_windows)), [2.5, 2.5, 2.5]);
}
