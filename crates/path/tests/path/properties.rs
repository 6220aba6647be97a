//! Properties of every link and every arrival pattern; each property is shown to catch a planted bug.

use crate::common::{self, Bug, Feed, Log, Pkt, equal, run_fused, run_passing, run_stepped};
use path::{
    BfifoConfig, DropReason, JitterConfig, JitterKind, LinkConfig, LossConfig, PfifoConfig, QueueConfig,
};
use proptest::prelude::*;

/// A random link and what enters it.
#[derive(Clone, Debug)]
struct Case {
    config: LinkConfig,
    feed: Feed,
    ahead: u64,
    promise: bool,
}

fn check(name: &str, property: impl Fn(&Case, Bug) -> Result<(), String>, catches: &[Bug]) {
    common::check(name, case, property, catches);
}

#[test]
fn fused_and_stepped_links_agree() {
    let property = |case: &Case, bug| {
        let fused = run_fused(&case.config, &case.feed, case.ahead, case.promise);
        let stepped = planted(case, bug);
        equal("forwarded", &fused.forwarded, &stepped.forwarded)?;
        equal("dropped", &fused.dropped, &stepped.dropped)?;
        equal("samples", &fused.samples, &stepped.samples)?;
        if let Some(passing) = run_passing(&case.config, &case.feed, case.promise) {
            equal("passed", &passing.forwarded, &stepped.forwarded)?;
            equal("not passed", &passing.dropped, &stepped.dropped)?;
        }
        Ok(())
    };
    let bugs = [
        Bug::Swallow,
        Bug::Overtake,
        Bug::Hasty,
        Bug::Roomy,
        Bug::Narrow,
        Bug::LateTie,
        Bug::Stale,
        Bug::Drift,
    ];
    check("agreement", property, &bugs);
}

#[test]
fn links_do_what_a_naive_model_does() {
    let property = |case: &Case, bug| {
        let LinkConfig { loss, duplicate_ppb, corrupt_ppb, jitter, .. } = &case.config;
        if loss.is_some() || *duplicate_ppb > 0 || *corrupt_ppb > 0 || jitter.is_some() {
            return Ok(());
        }
        let log = planted(case, bug);
        let naive = naive(&case.config, &case.feed);
        equal("forwarded", &log.forwarded, &naive.forwarded)?;
        equal("dropped", &log.dropped, &naive.dropped)
    };
    check("model", property, &[Bug::Hasty, Bug::Roomy, Bug::Narrow, Bug::LateTie, Bug::Drift]);
}

#[test]
fn packets_are_conserved() {
    let property = |case: &Case, bug| {
        let log = planted(case, bug);
        let mut fates = vec![0; case.feed.arrivals.len()];
        let ids = log.forwarded.iter().map(|(_, packet)| packet.id);
        for id in ids.chain(log.dropped.iter().map(|&(_, id, _)| id)) {
            fates[id as usize] += 1;
        }
        let allowed = if case.config.duplicate_ppb > 0 { 1..=2 } else { 1..=1 };
        if let Some(id) = fates.iter().position(|fate| !allowed.contains(fate)) {
            return Err(format!("packet {id} had {} fates", fates[id]));
        }
        if case.config.duplicate_ppb > 0 {
            return Ok(());
        }
        for &(t, counters) in &log.samples {
            let entered = case.feed.arrivals.iter().filter(|&&(at, _)| at <= t).count() as u64;
            let known = counters.packets + counters.drops + u64::from(counters.backlog_packets);
            if known != entered {
                return Err(format!("at {t}, {entered} packets entered and {known} are known"));
            }
        }
        Ok(())
    };
    check("conservation", property, &[Bug::Swallow, Bug::Stale]);
}

#[test]
fn order_is_kept() {
    let property = |case: &Case, bug| {
        let log = planted(case, bug);
        match log.forwarded.windows(2).find(|two| two[0].0 > two[1].0 || two[0].1.id > two[1].1.id) {
            Some(two) => Err(format!("{two:?}")),
            None => Ok(()),
        }
    };
    check("order", property, &[Bug::Overtake]);
}

#[test]
fn no_limit_is_exceeded_and_no_place_is_wasted() {
    let property = |case: &Case, bug| {
        let log = planted(case, bug);
        let arrived = |id: u32| case.feed.arrivals[id as usize].0;
        // (arrival, start, bytes) of every packet that waited.
        let waits: Vec<_> = log
            .forwarded
            .iter()
            .map(|(_, packet)| {
                (packet.id, arrived(packet.id), packet.waited, packet.bytes + case.config.overhead)
            })
            .filter(|&(_, _, waited, _)| waited > 0)
            .collect();
        let waiting = |t: u64, before: u32| {
            let there = waits.iter().filter(|w| w.0 < before && w.1 <= t && w.1 + w.2 > t);
            there.fold((0, 0), |(packets, bytes), w| (packets + 1, bytes + u64::from(w.3)))
        };
        let room = |(packets, bytes): (u32, u64), len: u32| match case.config.queue {
            QueueConfig::Pfifo(PfifoConfig { limit_packets }) => packets < limit_packets,
            QueueConfig::Bfifo(BfifoConfig { limit_bytes }) => bytes + u64::from(len) <= limit_bytes,
            _ => unreachable!(),
        };
        if case.config.duplicate_ppb > 0 {
            return Ok(());
        }
        for &(id, at, _, len) in &waits {
            if !room(waiting(at, id), len) {
                return Err(format!("packet {id} found no room and waits"));
            }
        }
        for &(at, id, why) in &log.dropped {
            let len = case.feed.arrivals[id as usize].1.bytes + case.config.overhead;
            if why == DropReason::Overlimit && room(waiting(at, id), len) {
                return Err(format!("packet {id} found room and was dropped"));
            }
        }
        Ok(())
    };
    check("limit", property, &[Bug::Roomy, Bug::Narrow]);
}

#[test]
fn no_rate_is_exceeded() {
    let property = |case: &Case, bug| {
        let Some(rate) = case.config.rate_bps else { return Ok(()) };
        let log = planted(case, bug);
        let starts: Vec<u64> = log
            .forwarded
            .iter()
            .map(|(_, packet)| case.feed.arrivals[packet.id as usize].0 + packet.waited)
            .collect();
        for (i, &start) in starts.iter().enumerate() {
            let mut bits = 0;
            for (_, packet) in &log.forwarded[i..] {
                bits += u128::from(packet.bytes + case.config.overhead) * 8;
                // The first start is rounded up by less than a nanosecond.
                let elapsed = u128::from(packet.sent - start + 1);
                if bits * 1_000_000_000 > elapsed * u128::from(rate) {
                    return Err(format!("{bits} bits in {elapsed} ns from packet {i}"));
                }
            }
        }
        Ok(())
    };
    check("rate", property, &[Bug::Drift, Bug::Hasty]);
}

/// The stepped link of a case, with something wrong.
fn planted(case: &Case, bug: Bug) -> Log {
    let Case { mut config, mut feed, .. } = case.clone();
    match (bug, &mut config.queue) {
        (Bug::Roomy, QueueConfig::Pfifo(PfifoConfig { limit_packets })) => *limit_packets += 1,
        (Bug::Roomy, QueueConfig::Bfifo(BfifoConfig { limit_bytes })) => *limit_bytes += 1,
        (Bug::Narrow, QueueConfig::Pfifo(PfifoConfig { limit_packets })) => {
            *limit_packets = limit_packets.saturating_sub(1)
        }
        (Bug::Narrow, QueueConfig::Bfifo(BfifoConfig { limit_bytes })) => {
            *limit_bytes = limit_bytes.saturating_sub(1)
        }
        _ => (),
    }
    let mut previous = 0;
    for (at, _) in &mut feed.arrivals {
        if bug == Bug::LateTie {
            *at = previous.max(at.saturating_sub(1));
            previous = *at;
        }
    }
    if bug == Bug::Stale {
        feed.questions.iter_mut().for_each(|t| *t = t.saturating_sub(1));
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
        // By more than the rounding that the rate's test must allow.
        Bug::Hasty if middle > 0 => {
            let sent = &mut log.forwarded[middle].1.sent;
            *sent = sent.saturating_sub(2);
        }
        Bug::Drift => log.forwarded.iter_mut().enumerate().for_each(|(i, (_, packet))| {
            packet.sent = packet.sent.saturating_sub(i as u64 / 4);
        }),
        _ => (),
    }
    log
}

/// A drop-tail link in exact fractions, every packet compared with every earlier one. All times in 1 / rate ns.
fn naive(config: &LinkConfig, feed: &Feed) -> Log {
    let mut log = Log::default();
    let rate = u128::from(config.rate_bps.unwrap_or(1));
    let mut starts: Vec<(u128, u32)> = Vec::new();
    let mut free = 0;
    for (at, packet) in &feed.arrivals {
        let now = u128::from(*at) * rate;
        let free_ns = free_ceil(free, rate);
        let len = packet.bytes + config.overhead;
        let waiting = || starts.iter().filter(|&&(start, _)| free_ceil(start, rate) > u128::from(*at));
        let fits = match config.queue {
            QueueConfig::Pfifo(PfifoConfig { limit_packets }) => waiting().count() < limit_packets as usize,
            QueueConfig::Bfifo(BfifoConfig { limit_bytes }) => {
                waiting().map(|&(_, len)| u64::from(len)).sum::<u64>() + u64::from(len) <= limit_bytes
            }
            _ => unreachable!(),
        };
        let idle = free_ns <= u128::from(*at);
        if !fits && !idle {
            log.dropped.push((*at, packet.id, DropReason::Overlimit));
            continue;
        }
        let start = if free_ns < u128::from(*at) { now } else { free };
        starts.push((start, len));
        let mut sent = packet.clone();
        sent.waited = (free_ceil(start, rate) as u64).saturating_sub(*at);
        free = if config.rate_bps.is_some() { start + u128::from(len) * 8_000_000_000 } else { now };
        sent.sent = free_ceil(free, rate) as u64;
        log.forwarded.push((sent.sent + config.delay_ns, sent));
    }
    log
}

fn free_ceil(time: u128, rate: u128) -> u128 {
    time.div_ceil(rate)
}

fn case() -> impl Strategy<Value = Case> {
    let ahead = prop_oneof![Just(0), 0..20_000_u64, Just(1 << 40)];
    (config(), ahead, any::<bool>()).prop_flat_map(|(config, ahead, promise)| {
        feed(config.rate_bps).prop_map(move |feed| Case { config: config.clone(), feed, ahead, promise })
    })
}

fn config() -> impl Strategy<Value = LinkConfig> {
    // Whole nanoseconds per byte, and hardly ever whole ones.
    let rate = prop_oneof![
        1 => Just(None),
        4 => Just(Some(1_000_000_000)),
        2 => Just(Some(8_000_000_000)),
        4 => (1_000_000..100_000_000_000_u64).prop_map(Some),
    ];
    let queue = prop_oneof![
        (0..8_u32).prop_map(|limit_packets| QueueConfig::Pfifo(PfifoConfig { limit_packets })),
        (0..8_000_u64).prop_map(|limit_bytes| QueueConfig::Bfifo(BfifoConfig { limit_bytes })),
        // Filled to the last byte by packets of one of the usual sizes, with or without overhead.
        (0..8_u64, prop_oneof![Just(1000_u64), Just(1014), Just(1500), Just(1538)])
            .prop_map(|(packets, bytes)| QueueConfig::Bfifo(BfifoConfig { limit_bytes: packets * bytes })),
    ];
    let overhead = prop_oneof![Just(0), Just(14), Just(38)];
    let ppb = || prop_oneof![3 => Just(0), 1 => 0..1_000_000_001_u32];
    let delay = prop_oneof![Just(0), 0..100_000_u64];
    let jitter = (0..100_000_u64, any::<bool>()).prop_map(|(sd_ns, uniform)| JitterConfig {
        kind: if uniform { JitterKind::Uniform } else { JitterKind::Normal },
        sd_ns,
        reorder: false,
        table: None,
    });
    let impairments =
        (prop::option::weighted(0.3, loss()), ppb(), ppb(), prop::option::weighted(0.2, jitter));
    (rate, delay, queue, overhead, impairments).prop_map(
        |(rate_bps, delay_ns, queue, overhead, (loss, duplicate_ppb, corrupt_ppb, jitter))| LinkConfig {
            rate_bps,
            delay_ns,
            queue,
            overhead,
            loss,
            duplicate_ppb,
            corrupt_ppb,
            jitter,
            ..LinkConfig::default()
        },
    )
}

fn loss() -> impl Strategy<Value = LossConfig> {
    let ppb = || 0..1_000_000_001_u32;
    prop_oneof![
        ppb().prop_map(|probability_ppb| LossConfig::Random { probability_ppb }),
        (1..5_u32, 0..5_u32).prop_map(|(every, packet)| LossConfig::Nth {
            every,
            packet: packet % every,
            min_payload: 100,
            dport: None,
            sport: None,
        }),
        (ppb(), ppb(), ppb(), ppb()).prop_map(|(p_ppb, r_ppb, loss_bad_ppb, loss_good_ppb)| {
            LossConfig::Gilbert { p_ppb, r_ppb, loss_bad_ppb, loss_good_ppb }
        }),
        prop::collection::btree_set(0..60_u64, 0..10)
            .prop_map(|packets| LossConfig::List { packets: packets.into_iter().collect() }),
    ]
}

/// Arrivals in bursts, at random, and exactly when others depart; questions at random and at arrivals.
fn feed(rate_bps: Option<u64>) -> impl Strategy<Value = Feed> {
    let size = prop_oneof![Just(1500_u32), Just(1000), Just(111), Just(40), 40..1500_u32];
    let unit = 8_000_000_000_000_u64 / rate_bps.unwrap_or(1_000_000_000);
    let gap = prop_oneof![
        2 => Just(0),
        2 => (0..4_u64).prop_map(move |n| n * unit),
        1 => (0..4_u64).prop_map(move |n| n * unit + 1),
        1 => 0..10 * unit,
    ];
    // At an arrival, or at any time.
    let question = prop_oneof![(0..80_usize).prop_map(Ok), (0..100 * unit).prop_map(Err)];
    (prop::collection::vec((gap, size), 1..80), prop::collection::vec(question, 0..20)).prop_map(
        |(steps, questions)| {
            let mut at = 0;
            let arrivals: Vec<_> = steps
                .into_iter()
                .enumerate()
                .map(|(id, (gap, bytes))| {
                    at += gap;
                    (at, Pkt::new(id as u32, bytes))
                })
                .collect();
            let mut questions: Vec<_> = questions
                .into_iter()
                .map(|question| match question {
                    Ok(index) => arrivals[index % arrivals.len()].0,
                    Err(t) => t,
                })
                .collect();
            questions.sort_unstable();
            Feed { arrivals, questions }
        },
    )
}
