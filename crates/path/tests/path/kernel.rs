//! The token bucket and the FIFOs against recordings of Linux's tbf, pfifo and bfifo (`reference/kernel.py`).

use crate::common::{Feed, Pkt, run_stepped};
use path::LinkConfig;

#[test]
fn tbf_with_pfifo() {
    check(include_str!("vectors/kernel-tbf-pfifo.txt"));
}

#[test]
fn tbf_with_bfifo() {
    check(include_str!("vectors/kernel-tbf-bfifo.txt"));
}

/// Lateness that a busy machine may have: half the time that 1000 bytes take at the recordings' 200 kbit/s.
const LATE: u64 = 20_000_000;
/// Time by which a packet may be early: `tc` rounds a packet's time to ticks of 64 ns, and a time is noted before
/// the packet is handed over.
const EARLY: u64 = 100_000;

/// Checks that the same packets pass and are dropped, and that those that pass do so at the recorded times.
#[track_caller]
fn check(text: &str) {
    // tc counts the Ethernet header of a veth device.
    let mut config = LinkConfig { overhead: 14, ..LinkConfig::default() };
    let (mut arrivals, mut received) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap();
        let numbers = || rest.split(' ').map(|number| number.parse::<u64>().unwrap()).collect::<Vec<_>>();
        match word {
            "shaper" => config.shaper = serde_json::from_str(rest).unwrap(),
            "queue" => config.queue = serde_json::from_str(rest).unwrap(),
            "sent" => arrivals.push((numbers()[0], Pkt::new(arrivals.len() as u32, numbers()[1] as u32))),
            "received" => received.push((numbers()[0], numbers()[1] as u32)),
            _ => assert_eq!(word, "kernel"),
        }
    }
    let log = run_stepped(&config, &Feed { arrivals, questions: Vec::new() });
    let passed: Vec<u32> = log.forwarded.iter().map(|(_, packet)| packet.id).collect();
    assert_eq!(passed, received.iter().map(|&(_, id)| id).collect::<Vec<_>>(), "which packets pass");
    assert!(!log.dropped.is_empty());
    for ((model, packet), (kernel, _)) in log.forwarded.iter().zip(received) {
        let on_time = kernel + EARLY > *model && kernel < model + LATE;
        assert!(on_time, "packet {}: {model} ns, kernel {kernel} ns", packet.id);
    }
}
