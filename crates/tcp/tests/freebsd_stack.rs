//! FreeBSD's whole stack against recordings of FreeBSD's own, over the same path.

mod support;

use support::lab::{self, Setup};
use tcp::event::EventKind;
use tcp::profile::freebsd::release;
use tcp::profile::{EcnMode, Profile};

#[test]
fn debug_one() {
    let name = std::env::var("RUN").unwrap_or("f11_newreno_10m_40ms_b90".into());
    let phase: u64 = std::env::var("PHASE").ok().and_then(|v| v.parse().ok()).unwrap_or(0);
    let parts: Vec<&str> = name.split('_').collect();
    let mut profile = release(if parts[0] == "f13" { "freebsd-13" } else { "freebsd-11" }).expect("a release");
    if name.contains("pipe6675") {
        profile.set("net.inet.tcp.rfc6675_pipe", 1);
    }
    if parts[0] == "f11iw3" {
        profile.set("net.inet.tcp.initcwnd_segments", 0);
    }
    let ecn = name.contains("ecn");
    let num = |s: &str| s.chars().filter(char::is_ascii_digit).collect::<String>().parse::<u64>().unwrap();
    let setup = Setup {
        sender: &profile,
        receiver: &profile,
        cc: parts[1],
        rate: num(parts[2]) * 1_000_000,
        rtt: num(parts[3]) * 1_000_000,
        buffer: if ecn { 200 } else { num(parts[4]) as usize },
        mark_at: ecn.then_some(30),
        drop_every: None,
        buffers: 4 << 20,
        duration: 90_000_000_000,
        ecn: if ecn { EcnMode::On } else { EcnMode::Off },
        phase,
        lag: 370_000,
    };
    let out = lab::run(&setup);
    let end = out.end.unwrap();
    println!(
        "{name} goodput {:.4} drops {} rexmit {} rto {} rec {}",
        out.delivered as f64 * 8.0 / 90e6,
        out.drops.len(),
        end.retransmits,
        end.sender.timeouts,
        end.sender.recoveries
    );
    if let Ok(path) = std::env::var("DUMP") {
        use std::io::Write;
        let mut f = std::fs::File::create(path).unwrap();
        for m in &out.moments {
            let s = m.info.sender;
            writeln!(
                f,
                "{:.6},{},{},{},{},{},{},{},{}",
                m.t as f64 / 1e9,
                s.cwnd,
                s.ssthresh.unwrap_or(1073725440),
                s.srtt.unwrap_or(0) / 1000,
                s.inflight,
                s.phase.as_str(),
                0,
                0,
                m.info.bytes_acked + 1
            )
            .unwrap();
        }
    }
    for (t, kind, seq, value) in &out.events {
        if *kind == EventKind::Rto {
            println!("RTO {} {seq} {value}", *t as f64 / 1e9);
        }
    }
}
