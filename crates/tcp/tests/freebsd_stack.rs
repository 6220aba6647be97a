//! FreeBSD's whole stack against recordings of FreeBSD's own, over the same path.

mod support;

use std::fmt::Write as _;

use support::lab::{self, Outcome, Setup};
use support::summary::{Row, rows};
use tcp::event::EventKind;
use tcp::profile::freebsd::{FreeBsd, release};
use tcp::profile::{EcnMode, Profile};

/// Time before which nothing is counted for periods, peaks and troughs.
const WARM_UP: u64 = 20_000_000_000;

/// The recording's sender sends its SYN late in a tick.
fn phase() -> u64 { std::env::var("PHASE").ok().and_then(|v| v.parse().ok()).unwrap_or(999_900) }

#[derive(Debug, Default)]
struct Figures {
    goodput_mbps: f64,
    drops: f64,
    retransmits: f64,
    timeouts: f64,
    recoveries: f64,
    period_s: f64,
    peak: f64,
    trough: f64,
}

fn stack(row: &Row) -> FreeBsd {
    let mut profile = release(if row.text("freebsd") == "13" { "freebsd-13" } else { "freebsd-11" }).expect("a release");
    for word in row.text("extra").split_whitespace() {
        if let Some((name, value)) = word.trim_start_matches("ssysctl.").trim_start_matches("sysctl.").split_once('=')
            && name.starts_with("net.")
        {
            profile.set(name, value.parse().expect("a number"));
        }
    }
    profile
}

fn play(row: &Row) -> Figures {
    let profile = stack(row);
    let marks = row.text("extra").contains("ecnthr=30");
    let setup = Setup {
        sender: &profile,
        receiver: &profile,
        cc: row.text("cc"),
        rate: row.number("rate_mbps") as u64 * 1_000_000,
        rtt: row.number("rtt_ms") as u64 * 1_000_000,
        buffer: row.number("buf") as usize,
        mark_at: marks.then_some(30),
        drop_every: None,
        buffers: 4 << 20,
        duration: row.number("dur") as u64 * 1_000_000_000,
        ecn: if marks { EcnMode::On } else { EcnMode::Off },
        phase: phase(),
        lag: 370_000,
    };
    let out = lab::run(&setup);
    dump(&out);
    figures(&out, row.number("dur"))
}

/// Writes the sender's course to the file named by DUMP, for looking into a difference.
fn dump(out: &Outcome) {
    let Ok(path) = std::env::var("DUMP") else { return };
    let mut text = String::new();
    for moment in &out.moments {
        let s = moment.info.sender;
        let _ = writeln!(
            text,
            "{:.6},{},{},{},{},{},0,0,{}",
            moment.t as f64 / 1e9,
            s.cwnd,
            s.ssthresh.unwrap_or(1_073_725_440),
            s.srtt.unwrap_or(0) / 1000,
            s.inflight,
            s.phase.as_str(),
            moment.info.bytes_acked + 1
        );
    }
    let until: f64 = std::env::var("SENT").ok().and_then(|v| v.parse().ok()).unwrap_or(0.0);
    for (t, segment) in &out.sent {
        if (*t as f64) < until * 1e9 {
            eprintln!("{:.6} > seq {} len {}", *t as f64 / 1e9, segment.offset + 1, segment.len);
        }
    }
    for (t, offset) in &out.drops {
        eprintln!("{:.6} drop {offset}", *t as f64 / 1e9);
    }
    for (t, kind, seq, value) in &out.events {
        eprintln!("{:.6} {} {seq} {value}", *t as f64 / 1e9, kind.as_str());
    }
    std::fs::write(path, text).expect("writable");
}

fn figures(out: &Outcome, duration: f64) -> Figures {
    let end = out.end.expect("a run").sender;
    let mut entries = Vec::new();
    let mut peaks = Vec::new();
    let mut troughs = Vec::new();
    for event in &out.events {
        match event.1 {
            EventKind::RecoveryIn | EventKind::Reduction if event.0 >= WARM_UP => {
                entries.push(event.0);
                if event.1 == EventKind::RecoveryIn {
                    peaks.push(event.3 as f64);
                }
            }
            EventKind::RecoveryOut if event.0 >= WARM_UP => troughs.push(event.3 as f64),
            _ => {}
        }
    }
    let periods: Vec<f64> = entries.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect();
    Figures {
        goodput_mbps: out.delivered as f64 * 8.0 / duration / 1e6,
        drops: out.drops.len() as f64,
        retransmits: out.end.expect("a run").retransmits as f64,
        timeouts: end.timeouts as f64,
        recoveries: end.recoveries as f64,
        period_s: if periods.is_empty() { 0.0 } else { periods.iter().sum::<f64>() / periods.len() as f64 },
        peak: median(peaks),
        trough: median(troughs),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

#[test]
fn runs_agree_with_the_recorded_ones() {
    let only = std::env::var("RUN").ok();
    let mut table = String::from("run                                       goodput         drops      rexmit       rto   recoveries      period          peak         trough\n");
    for row in rows() {
        let name = row.text("name").to_owned();
        if only.as_ref().is_some_and(|only| *only != name) || name.contains("mf_") || name.contains("loss") || name.contains("rack") || name.contains("cubic15") {
            continue;
        }
        let ours = play(&row);
        let n = |key: &str| row.number(key);
        let _ = writeln!(
            table,
            "{name:38} {:7.4} {:7.4} {:4}/{:4} {:4}/{:4} {:3}/{:3} {:3}/{:3} {:6.3} {:6.3} {:8} {:8} {:8} {:8}",
            ours.goodput_mbps,
            n("goodput_mbps"),
            ours.drops,
            n("drops"),
            ours.retransmits,
            n("rexmitpack"),
            ours.timeouts,
            n("rto"),
            ours.recoveries,
            n("recovery_entries"),
            ours.period_s,
            n("period_mean_s"),
            ours.peak,
            n("peak_cwnd_median"),
            ours.trough,
            n("trough_cwnd_median"),
        );
    }
    println!("{table}");
}
