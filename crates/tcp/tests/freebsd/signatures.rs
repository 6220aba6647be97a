//! Signatures of FreeBSD's stacks: the dip and staircase of FreeBSD 9.2's recovery, timeouts on a LAN, slow start
//! under stretch ACKs, and how FreeBSD 13 and 15 leave a recovery (the reference sheet's section F).

use crate::hosts::{LAG, PHASE};
use crate::lab::{self, Loss, Outcome, Setup};
use tcp::cc::Phase;
use tcp::event::EventKind;
use tcp::profile;
use tcp::stack::{EcnMode, Profile};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Payload of a full segment with timestamps.
const SEGMENT: u64 = 1448;

/// Bulk flow of two hosts of a kind over 10 Mb/s, 40 ms and a queue of 90 packets.
fn bottleneck<'a>(stack: &'a dyn Profile, cc: &'a str) -> Setup<'a> {
    Setup {
        sender: stack,
        receiver: stack,
        cc,
        rate: 10_000_000,
        rtt: 40 * MS,
        buffer: 90,
        mark_at: None,
        loss: Loss::Never,
        bytes: None,
        buffers: Some(4 << 20),
        duration: 60 * SECOND,
        ecn: EcnMode::Off,
        random: 1,
        phase: PHASE,
        lag: LAG,
        aggregate: 1,
    }
}

/// The windows of each recovery that began after slow start's (from 5 s), with ssthresh of that time.
fn recoveries(out: &Outcome) -> Vec<(u64, Vec<u64>)> {
    let mut found: Vec<(u64, Vec<u64>)> = Vec::new();
    let mut before = Phase::SlowStart;
    for moment in out.moments.iter().filter(|moment| moment.t > 5 * SECOND) {
        let sender = &moment.info.sender;
        if sender.phase == Phase::Recovery {
            if before != Phase::Recovery {
                found.push((sender.ssthresh.expect("an ssthresh"), Vec::new()));
            }
            found.last_mut().expect("a recovery").1.push(sender.cwnd);
        }
        before = sender.phase;
    }
    found
}

/// FreeBSD 9.2 (and 9.0, 11): the third duplicate sets cwnd to one segment, where it stays for half a window of
/// duplicates; then it climbs by one segment per duplicate to ssthresh. F 1.
#[test]
fn recovery_of_9_and_11_dips_to_one_segment_and_climbs_a_staircase() {
    for name in ["freebsd-9.0", "freebsd-9.2", "freebsd-11"] {
        let stack = profile::find(name).expect("a stack");
        // CUBIC may lose more than one packet, and a partial ACK then changes the window by another amount.
        for cc in ["newreno", "cubic"] {
            let found = recoveries(&lab::run(&bottleneck(&*stack, cc)));
            assert!(found.len() >= 5, "{name} {cc}: {} recoveries", found.len());
            for (ssthresh, windows) in found {
                assert_eq!(windows[0], SEGMENT, "{name} {cc}: one segment");
                let rises = windows.windows(2).map(|pair| pair[1] as i64 - pair[0] as i64);
                let stairs: Vec<i64> = rises.take(windows.len() - 2).collect();
                assert!(
                    stairs
                        .iter()
                        .all(|&rise| rise == SEGMENT as i64 || (cc == "cubic" && rise < 2 * SEGMENT as i64)),
                    "{name} {cc}: {windows:?}"
                );
                assert!(windows.len() > 30, "{name} {cc}: {windows:?}");
                let top = *windows.iter().max().expect("windows");
                assert!(top <= ssthresh && top + 3 * SEGMENT > ssthresh, "{name} {cc}: {top} of {ssthresh}");
            }
        }
    }
}

/// No Linux shows the dip: over the same path cwnd comes down to ssthresh and never goes below.
#[test]
fn no_linux_dips() {
    for name in ["linux-3.9", "linux-6.8", "linux-6.18"] {
        let stack = profile::find(name).expect("a stack");
        for cc in ["reno", "cubic"] {
            let found = recoveries(&lab::run(&bottleneck(&*stack, cc)));
            assert!(found.len() >= 3, "{name} {cc}: {} recoveries", found.len());
            for (ssthresh, windows) in found {
                let least = *windows.iter().min().expect("windows");
                assert!(least >= ssthresh && least > 20 * SEGMENT, "{name} {cc}: {least} of {ssthresh}");
            }
        }
    }
}

/// A LAN whose path goes dead: 230, 260, 320, 440 ms between timeouts (the slop is added after doubling). F 9, A.12.
#[test]
fn timeouts_on_a_lan_are_30_ms_doubling_and_200_ms() {
    let names =
        ["freebsd-9.0", "freebsd-9.2", "freebsd-11", "freebsd-13", "freebsd-15-current", "freebsd-15-d49540"];
    for name in names {
        let mut stack = profile::find(name).expect("a stack");
        // Delayed ACKs of odd segments are round trips far above a LAN's.
        stack.set("net.inet.tcp.delayed_ack", 0);
        let out = lab::run(&Setup {
            rate: 1_000_000_000,
            rtt: MS / 2,
            buffer: 1000,
            buffers: Some(64 << 10),
            loss: Loss::From(500 * MS),
            duration: 5 * SECOND,
            ..bottleneck(&*stack, "newreno")
        });
        let last = out.sent.iter().rfind(|(t, _)| *t < 510 * MS).expect("data").0;
        let timeouts = out.events.iter().filter(|event| event.1 == EventKind::Rto).map(|event| event.0);
        let times: Vec<u64> = std::iter::once(last).chain(timeouts).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / MS as f64).collect();
        println!("{name}: {gaps:?}");
        for (gap, expected) in gaps.iter().zip([230.0, 260.0, 320.0, 440.0]) {
            // The clock ticks every millisecond, and a timer is never early.
            assert!((expected - 1.0..=expected + 3.0).contains(gap), "{name}: {gaps:?}");
        }
        assert!(gaps.len() >= 4, "{name}: {gaps:?}");
        let cwnd = out.moments.last().expect("moments").info.sender.cwnd;
        assert!(cwnd <= 1460, "{name}: {cwnd} after a timeout");
    }
}

/// FreeBSD 13 and 15 grow by two segments a round trip where the receiver merges each flight and acknowledges it at
/// once: flights of 10, 12, 14, 16. With `abc_l_var` 45 they double. F 10, G.4.
#[test]
fn stretch_acks_open_the_window_by_abc_l_var() {
    for name in ["freebsd-13", "freebsd-15-current", "freebsd-15-d49540"] {
        for (limit, expected) in [(2, [10, 12, 14, 16, 18, 20]), (45, [10, 20, 40, 80, 160, 320])] {
            let mut stack = profile::find(name).expect("a stack");
            stack.set("net.inet.tcp.abc_l_var", limit);
            let out = lab::run(&Setup {
                rate: 1_000_000_000,
                rtt: 100 * MS,
                buffer: 1000,
                duration: 590 * MS,
                aggregate: 45,
                ..bottleneck(&*stack, "newreno")
            });
            let mut flights = [0; 6];
            for (t, segment) in out.sent.iter().filter(|(_, segment)| segment.len > 0) {
                assert_eq!(u64::from(segment.len), SEGMENT);
                flights[(t / (98 * MS)) as usize] += 1;
            }
            println!("{name}, abc_l_var {limit}: {flights:?}");
            assert_eq!(flights, expected, "{name}, abc_l_var {limit}");
        }
    }
}

/// CUBIC of FreeBSD 13 cuts to 0.59 where the peak fell and to 0.7 otherwise, that of 9.2 to 0.72 and 0.8. F 3 and 5.
#[test]
fn cubic_cuts_deeper_where_the_peak_fell() {
    for (name, cuts) in [("freebsd-13", [0.593, 0.7]), ("freebsd-9.2", [0.8, 0.8])] {
        let stack = profile::find(name).expect("a stack");
        let out = lab::run(&bottleneck(&*stack, "cubic"));
        let mut before = 0;
        let mut seen = [0; 2];
        let mut phase = Phase::SlowStart;
        for moment in &out.moments {
            let sender = &moment.info.sender;
            if sender.phase == Phase::Recovery && phase != Phase::Recovery && moment.t > 10 * SECOND {
                let cut = sender.ssthresh.expect("an ssthresh") as f64 / before as f64;
                let index = cuts.iter().position(|&expected: &f64| (cut - expected).abs() < 0.01);
                seen[index.unwrap_or_else(|| panic!("{name}: a cut to {cut}"))] += 1;
            }
            (before, phase) = (sender.cwnd, sender.phase);
        }
        println!("{name}: cuts to {cuts:?}: {seen:?}");
        assert!(seen[0] > 0 && (seen[1] > 0 || cuts[0] == cuts[1]), "{name}: {seen:?}");
    }
}
