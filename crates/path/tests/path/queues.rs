//! What holds for every queue discipline; each property is shown to catch a planted bug.

use std::collections::HashMap;

use crate::common::{self, Bug, Feed, Log, Pkt, equal, run_early, run_stepped};
use crate::defaults;
use path::{
    CakeConfig, Dualpi2Config, Ecn, FlowMode, FqCodelConfig, FqPieConfig, LinkConfig, PieConfig, QueueConfig,
    RedConfig, catalogue,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
/// 1500 bytes take 1 ms.
const RATE: u64 = 12_000_000;

#[derive(Clone, Debug)]
struct Case {
    queue: QueueConfig,
    feed: Feed,
}

fn check(name: &str, property: impl Fn(&Case, Bug) -> Result<(), String>, catches: &[Bug]) {
    common::check(name, case, property, catches);
}

#[test]
fn packets_are_conserved() {
    let property = |case: &Case, bug| {
        let log = run(case, bug);
        let mut fates: Vec<u32> = log.forwarded.iter().map(|(_, packet)| packet.id).collect();
        fates.extend(log.dropped.iter().map(|drop| drop.1));
        fates.sort_unstable();
        equal("fates", &fates, &(0..case.feed.arrivals.len() as u32).collect::<Vec<_>>())?;
        for &(t, counters) in &log.samples {
            let entered = case.feed.arrivals.iter().filter(|&&(at, _)| at <= t).count() as u64;
            let known = counters.packets + counters.drops + u64::from(counters.backlog_packets);
            if known != entered {
                return Err(format!("at {t}, {entered} packets entered and {known} are known"));
            }
            let marks = log.marked.iter().filter(|&&(at, _)| at <= t).count() as u64;
            if counters.ce_marks != marks {
                return Err(format!("at {t}, {marks} marks and {} counted", counters.ce_marks));
            }
        }
        Ok(())
    };
    check("conservation", property, &[Bug::Swallow, Bug::Stale]);
}

#[test]
fn order_is_kept_within_a_flow() {
    let property = |case: &Case, bug| {
        let mut last = HashMap::new();
        for (_, packet) in &run(case, bug).forwarded {
            if let Some(before) = last.insert(packet.flow, packet.id)
                && before > packet.id
            {
                return Err(format!("packet {} after {before}", packet.id));
            }
        }
        Ok(())
    };
    check("order", property, &[Bug::Overtake]);
}

#[test]
fn no_limit_is_exceeded() {
    let property = |case: &Case, bug| {
        let log = run(case, bug);
        let (mut bytes, mut packets) = (u64::MAX, u32::MAX);
        match &case.queue {
            QueueConfig::Pfifo { limit_packets } => packets = *limit_packets,
            QueueConfig::Bfifo { limit_bytes } => bytes = *limit_bytes,
            QueueConfig::Codel { limit_packets, .. } => packets = *limit_packets,
            QueueConfig::Netem { limit_packets } => packets = *limit_packets,
            QueueConfig::Red(config) => bytes = config.limit_bytes,
            QueueConfig::FqCodel(config) => packets = config.limit_packets,
            QueueConfig::Pie(config) => packets = config.limit_packets,
            QueueConfig::FqPie(config) => packets = config.limit_packets,
            QueueConfig::Cake(config) => bytes = config.memlimit_bytes.unwrap(),
            QueueConfig::Dualpi2(config) => packets = config.limit_packets,
        }
        match log.changes.iter().find(|change| change.1 > bytes || change.2 > packets) {
            Some(change) => Err(format!("{change:?}")),
            None => Ok(()),
        }
    };
    check("limit", property, &[Bug::Roomy]);
}

/// One packet after the other, and no pause while any waits.
#[test]
fn the_link_is_neither_overbooked_nor_idle() {
    let property = |case: &Case, bug| {
        let log = run(case, bug);
        let mut free = 0;
        for (depart, packet) in &log.forwarded {
            let arrived = case.feed.arrivals[packet.id as usize].0;
            let start = arrived + packet.waited;
            let shaped = matches!(&case.queue, QueueConfig::Cake(config) if config.bandwidth_bps.is_some());
            if start < free || (packet.waited > 0 && start > free && !shaped) {
                return Err(format!("packet {} starts at {start}, the link is free at {free}", packet.id));
            }
            free = start + u64::from(packet.bytes) * 8 * 1_000_000_000 / RATE;
            if *depart < free {
                return Err(format!("packet {} departs at {depart}, not {free}", packet.id));
            }
        }
        Ok(())
    };
    check("work", property, &[Bug::Swallow, Bug::Overtake, Bug::Hasty]);
}

#[test]
fn only_ecn_capable_packets_are_marked() {
    let property = |case: &Case, bug| {
        let log = run(case, bug);
        let sent = |id: u32| case.feed.arrivals[id as usize].1.ecn;
        let mut marks: Vec<u32> = log.marked.iter().map(|mark| mark.1).collect();
        if let Some(id) = marks.iter().find(|&&id| sent(id) == Ecn::NotEct) {
            return Err(format!("packet {id} is not ECN-capable"));
        }
        let arrived_marked = |packet: &&(u64, Pkt)| packet.1.ecn == Ecn::Ce && sent(packet.1.id) != Ecn::Ce;
        let mut found: Vec<u32> = log.forwarded.iter().filter(arrived_marked).map(|(_, p)| p.id).collect();
        // A marked packet may be dropped later, or marked twice.
        let dropped = |id: &u32| log.dropped.iter().any(|drop| drop.1 == *id);
        marks.retain(|id| !dropped(id) && sent(*id) != Ecn::Ce);
        marks.sort_unstable();
        marks.dedup();
        found.sort_unstable();
        equal("marks", &found, &marks)
    };
    check("marks", property, &[Bug::Forget]);
}

/// The bug is in the stepped link.
#[test]
fn early_and_stepped_links_agree() {
    for ahead in [0, MS / 3, 7 * MS, 1 << 40] {
        let property = |case: &Case, bug| {
            if matches!(case.queue, QueueConfig::Netem { .. }) {
                return Ok(());
            }
            let early = run_early(&config(&case.queue), &case.feed, ahead, ahead % 2 == 0);
            let stepped = run(case, bug);
            equal("forwarded", &early.forwarded, &stepped.forwarded)?;
            equal("dropped", &early.dropped, &stepped.dropped)?;
            equal("marked", &early.marked, &stepped.marked)?;
            equal("samples", &early.samples, &stepped.samples)
        };
        check("agreement", property, &[Bug::Swallow, Bug::Overtake, Bug::Hasty, Bug::Stale, Bug::Forget]);
    }
}

/// The bug is in the copy.
#[test]
fn the_same_draws_give_the_same_run() {
    let property = |case: &Case, bug| {
        let (a, b) = (run(case, Bug::None), run(case, bug));
        equal("forwarded", &a.forwarded, &b.forwarded)?;
        equal("dropped", &a.dropped, &b.dropped)?;
        equal("changes", &a.changes, &b.changes)
    };
    check("repetition", property, &[Bug::Swallow, Bug::Roomy]);
}

/// Flow queueing protects a sparse flow: it never waits longer than a round of the others' quanta (RFC 8290 section
/// 4.2). The planted bug is to have one queue for all.
#[test]
fn flow_queueing_isolates_a_sparse_flow() {
    for kind in ["fq_codel", "fq_pie", "cake"] {
        assert_eq!(isolates(default_of(kind)), Ok(()), "{kind}");
    }
    for kind in ["codel", "pie"] {
        assert!(isolates(default_of(kind)).is_err(), "{kind} has one queue");
    }
    let QueueConfig::Cake(config) = default_of("cake") else { panic!("cake is cake") };
    let blind = QueueConfig::Cake(CakeConfig { flow_mode: FlowMode::Flowblind, ..config });
    assert!(isolates(blind).is_err(), "CAKE told to be blind");
}

/// Whether the packets of a sparse flow beside three greedy ones all arrive, and hardly wait.
fn isolates(queue: QueueConfig) -> Result<(), String> {
    let mut arrivals: Vec<_> = (0..2000)
        .map(|i| (i * MS / 3, Pkt { flow: 1 + (i % 3) as u32 * 77, ..Pkt::new(0, 1500) }))
        .chain((0..20).map(|i| (i * 30 * MS + 11, Pkt { flow: 1_234_567, ..Pkt::new(0, 100) })))
        .collect();
    arrivals.sort_by_key(|&(at, _)| at);
    for (id, (_, packet)) in arrivals.iter_mut().enumerate() {
        packet.id = id as u32;
    }
    let case = Case { queue, feed: Feed { arrivals, questions: Vec::new() } };
    let log = run(&case, Bug::None);
    let sparse: Vec<u64> =
        log.forwarded.iter().filter(|(_, p)| p.flow == 1_234_567).map(|(_, p)| p.waited).collect();
    // The one in service, and one packet of each of three flows.
    if sparse.len() == 20 && sparse.iter().all(|&waited| waited <= 4 * MS) {
        return Ok(());
    }
    Err(format!("{} of 20 arrive, after {sparse:?}", sparse.len()))
}

/// Every discipline of the catalogue, made from nothing but the catalogue's defaults, as the experiment file does it.
#[test]
fn the_catalogue_makes_every_discipline() {
    for kind in catalogue() {
        let queue = defaults::queue(&kind);
        let arrivals = (0..50).map(|id| (0, Pkt::new(id, 1500))).collect();
        let log = run(&Case { queue, feed: Feed { arrivals, questions: Vec::new() } }, Bug::None);
        // None of them minds a burst of 50 ms much; CAKE, whose COBALT starts early, loses one packet.
        assert!(log.forwarded.len() >= 49, "{} forwards {} of 50", kind.kind, log.forwarded.len());
    }
}

fn default_of(kind: &str) -> QueueConfig {
    defaults::queue(&catalogue().into_iter().find(|known| known.kind == kind).unwrap())
}

fn config(queue: &QueueConfig) -> LinkConfig {
    LinkConfig {
        rate_bps: Some(RATE),
        queue: queue.clone(),
        overhead: 0,
        report_changes: true,
        ..LinkConfig::default()
    }
}

/// A run of a case, with something wrong.
fn run(case: &Case, bug: Bug) -> Log {
    let mut queue = case.queue.clone();
    if bug == Bug::Roomy {
        match &mut queue {
            QueueConfig::Netem { limit_packets } => *limit_packets += 1,
            QueueConfig::Pfifo { limit_packets } | QueueConfig::Codel { limit_packets, .. } => {
                *limit_packets += 1
            }
            QueueConfig::Bfifo { limit_bytes } => *limit_bytes += 100,
            QueueConfig::Red(config) => config.limit_bytes += 100,
            QueueConfig::FqCodel(config) => config.limit_packets += 1,
            QueueConfig::Pie(config) => config.limit_packets += 1,
            QueueConfig::FqPie(config) => config.limit_packets += 1,
            QueueConfig::Cake(config) => *config.memlimit_bytes.as_mut().unwrap() += 2000,
            QueueConfig::Dualpi2(config) => config.limit_packets += 1,
        }
    }
    let config = config(&queue);
    let mut feed = case.feed.clone();
    if bug == Bug::Stale {
        feed.questions.iter_mut().for_each(|t| *t = t.saturating_sub(MS / 2));
    }
    let mut log = run_stepped(&config, &feed);
    if bug == Bug::Stale {
        log.samples.iter_mut().zip(&case.feed.questions).for_each(|(sample, &t)| sample.0 = t);
    }
    let middle = log.forwarded.len() / 2;
    match bug {
        Bug::Swallow if middle > 0 => {
            log.forwarded.remove(middle);
        }
        Bug::Overtake if middle > 0 => log.forwarded.swap(middle - 1, middle),
        Bug::Hasty if middle > 0 => log.forwarded[middle].0 -= 1,
        Bug::Forget => {
            log.marked.pop();
        }
        _ => (),
    }
    log
}

fn case() -> impl Strategy<Value = Case> {
    (queue(), feed()).prop_map(|(queue, feed)| Case { queue, feed })
}

/// Every discipline, with limits and times so small that a short burst reaches them.
fn queue() -> impl Strategy<Value = QueueConfig> {
    let limit = || 0..30_u32;
    let time = || prop_oneof![Just(0), 1..20 * MS];
    let interval = || MS..50 * MS;
    let codel = (limit(), time(), interval(), any::<bool>(), prop::option::of(time())).prop_map(
        |(limit_packets, target_ns, interval_ns, ecn, ce_threshold_ns)| QueueConfig::Codel {
            limit_packets,
            target_ns,
            interval_ns,
            ecn,
            ce_threshold_ns,
        },
    );
    let red = (0..40_000_u64, 0..5_000_u64, 1..20_000_u64, 1..=1_000_000_000_u32, any::<[bool; 4]>())
        .prop_map(|(limit_bytes, min_bytes, range, probability_ppb, [ecn, harddrop, nodrop, adaptive])| {
            QueueConfig::Red(RedConfig {
                limit_bytes,
                min_bytes,
                max_bytes: min_bytes + range,
                avpkt_bytes: 1000,
                burst_packets: 1 + min_bytes / 1000,
                probability_ppb,
                bandwidth_bps: RATE,
                ecn,
                harddrop,
                nodrop,
                adaptive,
            })
        });
    let fq_codel = (limit(), 1..6_u32, prop::option::of(100..4000_u32), time(), interval(), any::<bool>())
        .prop_map(|(limit_packets, flows, quantum_bytes, target_ns, interval_ns, ecn)| {
            QueueConfig::FqCodel(FqCodelConfig {
                limit_packets,
                flows,
                quantum_bytes,
                target_ns,
                interval_ns,
                ecn,
                ce_threshold_ns: None,
                memory_limit_bytes: 20_000,
                drop_batch: 64,
            })
        });
    let pie = (limit(), time(), interval(), 0..32_u32, 0..32_u32, any::<[bool; 3]>()).prop_map(
        |(limit_packets, target_ns, tupdate_ns, alpha, beta, [ecn, bytemode, dq_rate_estimator])| PieConfig {
            limit_packets,
            target_ns,
            tupdate_ns,
            alpha,
            beta,
            ecn,
            bytemode,
            dq_rate_estimator,
        },
    );
    let fq_pie =
        (pie.clone(), 1..6_u32, prop::option::of(100..4000_u32)).prop_map(|(pie, flows, quantum_bytes)| {
            QueueConfig::FqPie(FqPieConfig {
                limit_packets: pie.limit_packets,
                flows,
                target_ns: pie.target_ns,
                tupdate_ns: pie.tupdate_ns,
                alpha: pie.alpha,
                beta: pie.beta,
                quantum_bytes,
                memory_limit_bytes: 20_000,
                ecn_prob: 10,
                ecn: pie.ecn,
                bytemode: pie.bytemode,
                dq_rate_estimator: pie.dq_rate_estimator,
            })
        });
    let mode = prop_oneof![
        Just(FlowMode::Flowblind),
        Just(FlowMode::Hosts),
        Just(FlowMode::DualSrchost),
        Just(FlowMode::TripleIsolate)
    ];
    let cake = (prop::option::of(1_000_000..50_000_000_u64), interval(), mode, 0..60_000_u64).prop_map(
        |(bandwidth_bps, rtt_ns, flow_mode, memlimit)| {
            QueueConfig::Cake(CakeConfig { bandwidth_bps, rtt_ns, flow_mode, memlimit_bytes: Some(memlimit) })
        },
    );
    let dualpi2 = (limit(), time(), interval(), 0..4_000_000_000_u32, 1..4_u32, 0..=100_u32, any::<bool>())
        .prop_map(
            |(
                limit_packets,
                target_ns,
                tupdate_ns,
                gain,
                coupling_factor,
                classic_protection,
                drop_on_overload,
            )| {
                QueueConfig::Dualpi2(Dualpi2Config {
                    limit_packets,
                    target_ns,
                    tupdate_ns,
                    alpha_ppb: gain.into(),
                    beta_ppb: gain.into(),
                    coupling_factor,
                    step_thresh_ns: MS,
                    classic_protection,
                    drop_on_overload,
                })
            },
        );
    prop_oneof![
        limit().prop_map(|limit_packets| QueueConfig::Pfifo { limit_packets }),
        limit().prop_map(|limit_packets| QueueConfig::Netem { limit_packets }),
        (0..40_000_u64).prop_map(|limit_bytes| QueueConfig::Bfifo { limit_bytes }),
        codel,
        red,
        fq_codel,
        pie.prop_map(QueueConfig::Pie),
        fq_pie,
        cake,
        dualpi2,
    ]
}

/// Bursts of five flows of three hosts, each with its own ECN field, and long pauses.
fn feed() -> impl Strategy<Value = Feed> {
    let gap =
        prop_oneof![4 => Just(0), 4 => 0..2 * MS, 1 => (0..3_u64).prop_map(|n| n * MS), 1 => 0..400 * MS];
    // Whole nanoseconds: 2000 / 3 for each byte.
    let bytes = prop_oneof![Just(1500_u32), Just(600), (20..500_u32).prop_map(|n| n * 3)];
    let steps = prop::collection::vec((gap, bytes, 0..5_usize), 1..150);
    (steps, prop::collection::vec(0..400 * MS, 0..10)).prop_map(|(steps, mut questions)| {
        let mut at = 0;
        let mut packet = |(id, (gap, bytes, flow)): (usize, (u64, u32, usize))| {
            at += gap;
            let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct, Ecn::Ce][flow];
            let flow_hash = [1, 99, 12_345, 1 << 20, 0xdead_beef][flow];
            (at, Pkt { flow: flow_hash, src: flow as u16 % 3, ecn, ..Pkt::new(id as u32, bytes) })
        };
        let arrivals = steps.into_iter().enumerate().map(&mut packet).collect();
        questions.sort_unstable();
        Feed { arrivals, questions }
    })
}
