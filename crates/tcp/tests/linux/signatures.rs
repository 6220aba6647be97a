//! Signatures of Linux over a drop-tail queue: cycle lengths, epochs and exits of each era.

use crate::path::{Path, Run, SECOND, bulk, cuts, mean_period, run};
use tcp::cc::Phase;
use tcp::event::EventKind;

fn windows(run: &Run) -> Vec<(f64, u32)> {
    run.moments.iter().map(|m| (m.t as f64 / 1e9, m.cwnd)).collect()
}

/// 3.9 counts ACKs, one per two packets: half as many cycles as since (seconds, 40 ms of propagation).
#[test]
fn reno_cycles_at_half_the_rate_in_3_9() {
    println!("                3.9   expected    6.8   expected");
    for (mbps, queue, old, new) in [
        (2, 50, 16.4, 8.5),
        (2, 90, 45.3, 23.2),
        (6, 50, 8.15, 4.2),
        (6, 90, 19.4, 9.9),
        (10, 50, 6.8, 3.5),
        (10, 90, 14.5, 7.4),
    ] {
        let period = |stack| mean_period(&cuts(&windows(&bulk(stack, "reno", mbps, queue, 240))), 40.0);
        let (ours_old, ours_new) = (period("linux-3.9"), period("linux-6.8"));
        println!("{mbps:2} Mb/s, {queue:3} {ours_old:8.2} {old:8.2} {ours_new:8.2} {new:8.2}");
        assert!((ours_old / old - 1.0).abs() < 0.05, "3.9, {mbps} Mb/s, {queue}: {ours_old}, expected {old}");
        assert!((ours_new / new - 1.0).abs() < 0.05, "6.8, {mbps} Mb/s, {queue}: {ours_new}, expected {new}");
    }
}

/// Fast convergence makes CUBIC's epochs short and long by turns; at 10 Mb/s with 50 packets they are all alike.
#[test]
fn cubic_epochs_alternate() {
    println!("                      short  expected   long  expected");
    for (stack, mbps, queue, short, long) in [
        ("linux-3.9", 2, 50, 2.7, 6.6),
        ("linux-6.8", 2, 50, 2.7, 6.6),
        ("linux-6.8", 2, 90, 3.8, 8.4),
        ("linux-3.9", 2, 90, 3.8, 8.4),
        ("linux-6.8", 2, 180, 5.8, 11.7),
        // Measured with 6.18 in network namespaces, 150 s.
        ("linux-6.8", 6, 90, 3.06, 7.63),
        ("linux-3.9", 6, 90, 3.0, 7.5),
        ("linux-6.8", 10, 50, 2.85, 2.85),
        ("linux-3.9", 10, 50, 2.85, 2.85),
        ("linux-6.8", 10, 90, 3.1, 7.6),
        ("linux-3.9", 10, 90, 3.1, 7.6),
        ("linux-6.8", 10, 180, 3.9, 9.4),
    ] {
        let cuts = cuts(&windows(&bulk(stack, "cubic", mbps, queue, 150)));
        let late: Vec<f64> = cuts.iter().copied().filter(|&t| t > 40.0).collect();
        let mut intervals: Vec<f64> = late.windows(2).map(|w| w[1] - w[0]).collect();
        intervals.truncate(intervals.len() / 2 * 2);
        intervals.sort_by(f64::total_cmp);
        let half = intervals.len() / 2;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let (ours_short, ours_long) = (mean(&intervals[..half]), mean(&intervals[half..]));
        println!("{stack} {mbps:2} Mb/s, {queue:3} {ours_short:6.2} {short:8.2} {ours_long:6.2} {long:8.2}");
        assert!(
            (ours_short / short - 1.0).abs() < 0.08,
            "{stack} {mbps} {queue}: {ours_short}, expected {short}"
        );
        assert!(
            (ours_long / long - 1.0).abs() < 0.08,
            "{stack} {mbps} {queue}: {ours_long}, expected {long}"
        );
    }
}

/// PRR ends exactly at ssthresh, coming down without ever dipping below it.
#[test]
fn recovery_ends_exactly_at_ssthresh() {
    for stack in ["linux-3.9", "linux-6.8", "linux-6.18"] {
        for cc in ["reno", "cubic"] {
            let run = bulk(stack, cc, 10, 90, 60);
            let mut exits = 0;
            for pair in run.moments.windows(2) {
                let (before, after) = (pair[0], pair[1]);
                if before.phase == Phase::Recovery && before.t > 20 * SECOND {
                    assert!(
                        before.cwnd >= before.ssthresh,
                        "{stack} {cc}: a dip to {} under {}",
                        before.cwnd,
                        before.ssthresh
                    );
                    if after.phase != Phase::Recovery {
                        exits += 1;
                        // The ACK that ends recovery may already grow the window by one.
                        assert!(
                            after.cwnd - after.ssthresh <= 1,
                            "{stack} {cc}: left at {} of {}",
                            after.cwnd,
                            after.ssthresh
                        );
                    }
                }
            }
            assert!(exits >= 2, "{stack} {cc}: {exits} recoveries");
        }
    }
}

/// No timeout where SACK repairs everything, and the retransmissions are those of what was dropped.
#[test]
fn every_drop_is_repaired_once_and_without_timeout() {
    for stack in ["linux-3.9", "linux-6.8", "linux-6.18"] {
        for cc in ["reno", "cubic"] {
            let run = bulk(stack, cc, 10, 50, 60);
            let retransmits = run.moments.last().expect("moments").retransmits;
            assert!(run.drops > 0);
            assert_eq!(retransmits, run.drops, "{stack} {cc}");
            assert!(!run.events.iter().any(|e| e.1 == EventKind::Rto), "{stack} {cc}: timeout");
        }
    }
}

/// HyStart ends slow start where the real one does. At 2 Mb/s only the delay test can: cwnd 28. At 10 Mb/s single ACKs
/// 1.2 ms apart make a train; unbroken, it ends slow start at 59, and where a gap of 2 ms breaks it, which depends on the
/// receiver's ACKs and so on fractions of a millisecond, the delay test does some packets later (a real 6.18 did both, at 88
/// or 89).
#[test]
fn hystart_leaves_slow_start_where_the_real_one_does() {
    let exit = |mbps: u64, step: u64| {
        let profile = tcp::profile::find("linux-6.18").expect("a stack");
        let path = Path {
            rate: Some(mbps * 1_000_000),
            queue: 90,
            delay: 19_600_000 + step * 130_000,
            lag: step * 100_000,
            duration: 2 * SECOND,
            ..Path::new(profile.as_ref())
        };
        let run = run(&path);
        run.moments.iter().find(|m| m.ssthresh != u32::MAX).expect("a threshold").ssthresh
    };
    assert!((0..8).all(|step| exit(2, step) == 28));
    let exits: Vec<u32> = (0..8).map(|step| exit(10, step)).collect();
    println!("exits at 10 Mb/s: {exits:?}");
    assert!(exits.iter().all(|exit| (57..=60).contains(exit) || (87..=91).contains(exit)), "{exits:?}");
    assert!(exits.iter().any(|exit| (57..=60).contains(exit)), "{exits:?}");
    assert!(exits.iter().any(|exit| (87..=91).contains(exit)), "{exits:?}");
}
