//! Loss, duplication and corruption against their definitions.

use crate::common::{Feed, Log, Pkt, run_fused};
use path::{LinkConfig, LossConfig};

/// Sends `count` packets of 1000 bytes, a microsecond apart, through a link without limits.
fn send(config: &LinkConfig, count: u32) -> Log {
    let arrivals = (0..count).map(|id| (u64::from(id) * 1000, Pkt::new(id, 1000))).collect();
    run_fused(config, &Feed { arrivals, questions: Vec::new() }, 0, true)
}

fn lost(loss: LossConfig, count: u32) -> Vec<u32> {
    let config = LinkConfig { loss: Some(loss), ..LinkConfig::default() };
    send(&config, count).dropped.into_iter().map(|(_, id, _)| id).collect()
}

#[test]
fn nth_loses_one_of_each_period() {
    let nth = |every, packet| LossConfig::Nth { every, packet, min_payload: 0, dport: None, sport: None };
    assert_eq!(lost(nth(100, 0), 250), [0, 100, 200]);
    assert_eq!(lost(nth(3, 2), 10), [2, 5, 8]);
    assert_eq!(lost(nth(1, 0), 3), [0, 1, 2]);
}

#[test]
fn nth_counts_only_packets_with_enough_payload() {
    let loss = LossConfig::Nth { every: 2, packet: 1, min_payload: 100, dport: None, sport: None };
    let config = LinkConfig { loss: Some(loss), ..LinkConfig::default() };
    // Pure ACKs in between do not count.
    let arrivals = (0..9).map(|id| (0, Pkt::new(id, if id % 3 == 1 { 40 } else { 1000 }))).collect();
    let log = run_fused(&config, &Feed { arrivals, questions: Vec::new() }, 0, true);
    assert_eq!(log.dropped.iter().map(|drop| drop.1).collect::<Vec<_>>(), [2, 5, 8]);
}

#[test]
fn nth_counts_only_packets_with_its_ports() {
    // Nine packets from port 1000, 1001, 1002, 1000, … to ports 80, 80, 80, 81, 81, 81, 80, …
    let arrivals: Vec<_> = (0..9)
        .map(|id| (0, Pkt { flow: (80 + id / 3 % 2) << 16 | (1000 + id % 3), ..Pkt::new(id, 1000) }))
        .collect();
    let lost = |dport, sport| {
        let loss = LossConfig::Nth { every: 2, packet: 0, min_payload: 0, dport, sport };
        let config = LinkConfig { loss: Some(loss), ..LinkConfig::default() };
        let log = run_fused(&config, &Feed { arrivals: arrivals.clone(), questions: Vec::new() }, 0, true);
        log.dropped.into_iter().map(|(_, id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(lost(Some(80), None), [0, 2, 7]);
    assert_eq!(lost(Some(81), None), [3, 5]);
    assert_eq!(lost(None, Some(1001)), [1, 7]);
    assert_eq!(lost(Some(80), Some(1002)), [2]);
    assert_eq!(lost(Some(1002), None), [0_u32; 0]);
}

#[test]
fn a_list_loses_exactly_what_it_names() {
    assert_eq!(lost(LossConfig::List { packets: vec![0, 7, 8, 1_000_000] }, 1000), [0, 7, 8]);
}

#[test]
fn random_loss_meets_its_probability() {
    let n = lost(LossConfig::Random { probability_ppb: 10_000_000 }, 1_000_000).len();
    // 1 % of 10^6: standard deviation 99.
    assert!(n.abs_diff(10_000) < 400, "{n}");
    assert_eq!(lost(LossConfig::Random { probability_ppb: 1_000_000_000 }, 1000).len(), 1000);
    assert_eq!(lost(LossConfig::Random { probability_ppb: 0 }, 1000).len(), 0);
}

/// Loss p / (p + r) and bursts of 1 / r packets (Gilbert 1960, with certain loss in the bad state).
#[test]
fn gilbert_loss_has_its_rate_and_burst_length() {
    let loss = LossConfig::Gilbert {
        p_ppb: 10_000_000,
        r_ppb: 250_000_000,
        loss_bad_ppb: 1_000_000_000,
        loss_good_ppb: 0,
    };
    let lost = lost(loss, 1_000_000);
    let bursts = 1 + lost.windows(2).filter(|two| two[1] > two[0] + 1).count();
    let rate = lost.len() as f64 / 1e6;
    assert!((rate - 0.01 / 0.26).abs() < 0.002, "{rate}");
    let length = lost.len() as f64 / bursts as f64;
    assert!((length - 4.0).abs() < 0.1, "{length}");
}

#[test]
fn duplicates_follow_at_once_and_are_counted() {
    let log = send(&LinkConfig { duplicate_ppb: 100_000_000, ..LinkConfig::default() }, 100_000);
    let twice = log.forwarded.windows(2).filter(|two| two[0].1.id == two[1].1.id).count();
    assert_eq!(log.forwarded.len(), 100_000 + twice);
    // Standard deviation 95.
    assert!(twice.abs_diff(10_000) < 400, "{twice}");
}

#[test]
fn corruption_damages_and_forwards() {
    let log = send(&LinkConfig { corrupt_ppb: 100_000_000, ..LinkConfig::default() }, 100_000);
    assert_eq!(log.forwarded.len(), 100_000);
    let damaged = log.forwarded.iter().filter(|(_, packet)| packet.corrupt).count();
    assert!(damaged.abs_diff(10_000) < 400, "{damaged}");
}

/// Each impairment draws from its own stream.
#[test]
fn switching_on_one_impairment_does_not_shift_another() {
    let loss = Some(LossConfig::Random { probability_ppb: 50_000_000 });
    let alone = LinkConfig { loss, ..LinkConfig::default() };
    let both = LinkConfig { duplicate_ppb: 300_000_000, corrupt_ppb: 300_000_000, ..alone.clone() };
    assert_eq!(send(&alone, 10_000).dropped, send(&both, 10_000).dropped);
}
