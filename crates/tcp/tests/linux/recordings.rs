//! Linux 6.18 modelled against recordings of the real one: iperf3 through a drop-tail queue, 20 ms each way, 90 s.

use crate::path::{Path, Run, SECOND, bulk, cuts, mean_period, run};
use std::io::Read;

/// What is compared.
struct Figures {
    goodput_mbps: f64,
    /// Packets sent again.
    retransmits: u64,
    /// Mean seconds between reductions after 20 s.
    period: f64,
}

/// A recording's samples: (seconds, cwnd in packets, retransmits so far).
fn recorded(name: &str) -> Vec<(f64, u32, u64)> {
    let path = format!("{}/../../groundtruth/linux-6.18/{name}.csv.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
    let parse = |line: &str| {
        let f: Vec<&str> = line.split(',').collect();
        let number = |i: usize| f[i].parse::<f64>().expect("a number");
        (number(0), number(1) as u32, number(4) as u64)
    };
    text.lines().skip(1).map(parse).collect()
}

/// The same of a run: every 130 ms, as recorded.
fn sampled(run: &Run) -> Vec<(f64, u32, u64)> {
    let mut rows: Vec<(f64, u32, u64)> = Vec::new();
    let mut next = 0;
    for m in &run.moments {
        if m.t >= next {
            rows.push((m.t as f64 / 1e9, m.cwnd, m.retransmits));
            next = m.t + 130_000_000;
        }
    }
    rows
}

fn figures(rows: &[(f64, u32, u64)], goodput_mbps: f64) -> Figures {
    let windows: Vec<(f64, u32)> = rows.iter().map(|row| (row.0, row.1)).collect();
    let retransmits = rows.last().expect("samples").2;
    Figures { goodput_mbps, retransmits, period: mean_period(&cuts(&windows), 20.0) }
}

/// Goodput within 1 %, period within 5 %, retransmissions within 15 %.
///
/// `r10q90` has bounds of its own for the last: its slow start overshoots by as much as the receiver's window lets it, and
/// that window depends on a few milliseconds in its autotuning. The recording lost 81 packets there; the same kernel,
/// run six times more over the same path, lost between 117 and 129. The cycles after it lose 10 to 20.
#[test]
fn behaves_as_recorded() {
    let cases = [
        ("r2q50", "reno", 2, 50, 1.929, None),
        ("c2q90", "cubic", 2, 90, 1.929, None),
        ("r10q90", "reno", 10, 90, 9.636, Some(91..=149)),
        ("c10q50", "cubic", 10, 50, 9.640, None),
    ];
    println!("         goodput, Mb/s      period, s         retransmits");
    println!("          model recorded   model recorded   model recorded");
    let mut failures = Vec::new();
    for (name, cc, mbps, queue, goodput, bounds) in cases {
        let real = figures(&recorded(name), goodput);
        let run = bulk("linux-6.18", cc, mbps, queue, 90);
        let ours = figures(&sampled(&run), run.read as f64 * 8.0 / 90e6);
        println!(
            "{name:8} {:6.3} {:8.3} {:7.2} {:8.2} {:7} {:8}",
            ours.goodput_mbps,
            real.goodput_mbps,
            ours.period,
            real.period,
            ours.retransmits,
            real.retransmits
        );
        let off = |a: f64, b: f64| (a / b - 1.0).abs();
        let retransmits_fit = match bounds {
            Some(range) => range.contains(&ours.retransmits),
            None => off(ours.retransmits as f64, real.retransmits as f64) <= 0.15,
        };
        let goodput_fits = off(ours.goodput_mbps, real.goodput_mbps) <= 0.01;
        if !goodput_fits || off(ours.period, real.period) > 0.05 || !retransmits_fit {
            failures.push(name);
        }
    }
    assert!(failures.is_empty(), "out of bounds: {failures:?}");
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
