//! Token bucket, policer, recorded rates, netem, reordering, and changes of a running link.

use std::collections::HashSet;

use crate::common::{Bug, Feed, Log, Pkt, check, equal, link, run_stepped};
use path::{
    CakeConfig, CodelConfig, DropReason, FlowMode, JitterConfig, JitterKind, Link, LinkChange, LinkConfig,
    Mode, PeakConfig, PfifoConfig, QueueConfig, ShaperConfig, stream,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn send(config: &LinkConfig, arrivals: Vec<(u64, Pkt)>) -> Log {
    run_stepped(config, &Feed { arrivals, questions: Vec::new() })
}

fn shaped(shaper: ShaperConfig) -> LinkConfig {
    LinkConfig { shaper: Some(shaper), overhead: 0, ..LinkConfig::default() }
}

/// Packets of 1000 bytes at the given times.
fn at(times: impl IntoIterator<Item = u64>) -> Vec<(u64, Pkt)> {
    times.into_iter().enumerate().map(|(id, at)| (at, Pkt::new(id as u32, 1000))).collect()
}

#[test]
fn a_token_bucket_delays_what_exceeds_its_burst() {
    // 8 Mbit/s, so that a packet needs tokens of 1 ms, and a burst of three.
    let config = shaped(ShaperConfig::TokenBucket { rate_bps: 8_000_000, burst_bytes: 3000, peak: None });
    let log = send(&config, at([0, 0, 0, 0, 0, 20 * MS, 20 * MS]));
    let times: Vec<_> = log.forwarded.iter().map(|&(at, _)| at).collect();
    assert_eq!(times, [0, 0, 0, MS, 2 * MS, 20 * MS, 20 * MS]);
    assert_eq!(log.forwarded[4].1.waited, 2 * MS);
}

/// A packet's transmission starts as early as no interval that ends with it has seen more than the burst and the tokens
/// of the interval (RFC 2697 section 2 for the committed bucket, which starts full), but not before the one ahead of it
/// has left; one larger than the burst is dropped.
#[test]
fn a_token_bucket_keeps_its_rate() {
    let cases = || (1000..20_000_000_u64, 100..10_000_u32, arrivals());
    let property = |(rate_bps, burst_bytes, arrivals): &(u64, u32, Arrivals), bug| {
        let (rate, burst) = spoilt(*rate_bps, *burst_bytes, bug);
        let bucket = ShaperConfig::TokenBucket { rate_bps: rate, burst_bytes: burst, peak: None };
        // The link behind it takes a nanosecond for each byte.
        let log = send(&LinkConfig { rate_bps: Some(8_000_000_000), ..shaped(bucket) }, arrivals.clone());
        let mut found: Vec<(u64, u32)> = log.forwarded.iter().map(|(at, packet)| (*at, packet.id)).collect();
        if bug == Bug::Hasty {
            found.iter_mut().take(1).for_each(|(at, _)| *at -= 1);
        }
        let mut before: Vec<(u64, u32)> = Vec::new();
        let mut expected: Vec<(u64, u32)> = Vec::new();
        for (arrived, packet) in arrivals.iter().filter(|(_, packet)| packet.bytes <= *burst_bytes) {
            let left = expected.last().map_or(0, |&(at, _)| at);
            let mut start = left.max(*arrived);
            let mut taken = parts(packet.bytes);
            for &(earlier, bytes) in before.iter().rev() {
                taken += parts(bytes);
                let wait = taken.saturating_sub(parts(*burst_bytes)).div_ceil(u128::from(*rate_bps));
                start = start.max(earlier + wait as u64);
            }
            before.push((start, packet.bytes));
            expected.push((start + u64::from(packet.bytes), packet.id));
        }
        equal("departures", &found, &expected)
    };
    check("token bucket", cases, property, &[Bug::Fast, Bug::Slow, Bug::Roomy, Bug::Hasty]);
}

/// Bytes in parts of a bit: 10^9 to the bit, so that a nanosecond brings as many of them as a second brings bits.
fn parts(bytes: u32) -> u128 {
    u128::from(bytes) * 8_000_000_000
}

/// A bucket's rate and burst with something wrong.
fn spoilt(rate_bps: u64, burst_bytes: u32, bug: Bug) -> (u64, u32) {
    match bug {
        Bug::Fast => (rate_bps + rate_bps / 50 + 1, burst_bytes),
        Bug::Slow => (rate_bps - rate_bps / 50 - 1, burst_bytes),
        Bug::Roomy => (rate_bps, burst_bytes + 100),
        _ => (rate_bps, burst_bytes),
    }
}

/// Packets of 1000 bytes at 8 Mbit/s, a millisecond each, in slots of two every 10 ms.
#[test]
fn slots_let_packets_go_together() {
    let slots = |packets, bytes| {
        let config = shaped(ShaperConfig::Slots { interval_ns: 10 * MS, packets, bytes });
        let config = LinkConfig { rate_bps: Some(8_000_000), ..config };
        let log = send(&config, at([0, 0, 3 * MS, 4 * MS, 5 * MS, 6 * MS, 11 * MS, 50 * MS, 53 * MS]));
        log.forwarded.iter().map(|&(at, _)| at / MS).collect::<Vec<_>>()
    };
    // The first finds an open slot at 0, and the second comes when that is under way.
    assert_eq!(slots(Some(2), None), [1, 11, 12, 21, 22, 31, 32, 51, 61]);
    // Nobody limits them: all that wait leave, one behind the other.
    assert_eq!(slots(None, None), [1, 11, 12, 13, 14, 15, 21, 51, 61]);
    // 1500 bytes: every other slot has 500 less.
    assert_eq!(slots(None, Some(1500)), [1, 11, 12, 21, 31, 32, 41, 51, 61]);
}

/// For packets of one size, that may be overdrawn is worth a packet more in the bucket.
#[test]
fn htb_is_a_token_bucket_that_holds_a_packet_more() {
    let arrivals = || at((0..40).map(|n| (n * n % 17) * MS));
    let times = |shaper| -> Vec<u64> {
        send(&shaped(shaper), arrivals()).forwarded.iter().map(|&(at, _)| at).collect()
    };
    for burst_bytes in [0, 1000, 3500] {
        let (rate_bps, ceil_bps) = (8_000_000, 8_000_000);
        let htb = ShaperConfig::Htb { rate_bps, ceil_bps, burst_bytes, cburst_bytes: burst_bytes };
        let bucket = ShaperConfig::TokenBucket { rate_bps, burst_bytes: burst_bytes + 1000, peak: None };
        assert_eq!(times(htb), times(bucket), "{burst_bytes}");
    }
}

/// `cburst` at the rate `ceil` bounds how fast what `burst` allows leaves; so does the peak rate of a token bucket.
#[test]
fn a_second_bucket_spreads_a_burst() {
    let times = |shaper| -> Vec<u64> {
        send(&shaped(shaper), at([0; 5])).forwarded.iter().map(|&(at, _)| at).collect()
    };
    let (rate_bps, ceil_bps) = (8_000_000, 16_000_000);
    let htb = ShaperConfig::Htb { rate_bps, ceil_bps, burst_bytes: 1500, cburst_bytes: 0 };
    // The last one alone waits for the rate: what the bucket held is gone.
    assert_eq!(times(htb), [0, MS / 2, MS, 3 * MS / 2, 5 * MS / 2]);
    let peak = Some(PeakConfig { rate_bps: ceil_bps, burst_bytes: 1000 });
    let bucket = ShaperConfig::TokenBucket { rate_bps, burst_bytes: 2500, peak };
    assert_eq!(times(bucket), [0, MS / 2, MS, 3 * MS / 2, 5 * MS / 2]);
}

/// HTB asks its discipline for a packet when it may leave, so that CoDel sees how long it has really waited, and never holds
/// one back.
#[test]
fn htb_leaves_packets_with_their_discipline() {
    let codel = QueueConfig::Codel(CodelConfig {
        limit_packets: 2,
        target_ns: 100 * MS,
        interval_ns: 100 * MS,
        ecn: false,
        ce_threshold_ns: None,
    });
    let (rate_bps, ceil_bps) = (8_000_000, 8_000_000);
    let htb = ShaperConfig::Htb { rate_bps, ceil_bps, burst_bytes: 0, cburst_bytes: 0 };
    let config = LinkConfig { queue: codel, ..shaped(htb) };
    let log = run_stepped(&config, &Feed { arrivals: at([0, 0, 0, 0]), questions: vec![0, MS] });
    let backlog: Vec<_> = log.samples.iter().map(|(_, counters)| counters.backlog_packets).collect();
    assert_eq!((backlog, log.dropped.len()), (vec![2, 1], 1));
}

/// Linux's netem hands every packet of an instant to the queue behind it before it asks for one: of a burst into an idle link one
/// less is kept. What leaves does so at the same times, and a packet that comes when another may leave finds that one waiting.
#[test]
fn a_burst_behind_its_delay_is_queued_before_any_of_it_leaves() {
    let htb = ShaperConfig::Htb { rate_bps: 8_000_000, ceil_bps: 8_000_000, burst_bytes: 0, cburst_bytes: 0 };
    let queue = QueueConfig::Pfifo(PfifoConfig { limit_packets: 2 });
    let rate = LinkConfig { rate_bps: Some(8_000_000), overhead: 0, ..LinkConfig::default() };
    for link in [shaped(htb), rate] {
        let times = |delay_first, delay_ns, arrivals: &[u64]| -> Vec<u64> {
            let config = LinkConfig { queue: queue.clone(), delay_first, delay_ns, ..link.clone() };
            let log = send(&config, at(arrivals.iter().copied()));
            let first = log.forwarded[0].0;
            log.forwarded.iter().map(|&(at, _)| at - first).collect()
        };
        for (delay_first, kept) in [(false, 3), (true, 2)] {
            assert_eq!(times(delay_first, 5 * MS, &[0; 6])[..], [0, MS, 2 * MS][..kept]);
        }
        let followed = [0, 0, MS, 3 * MS, 3 * MS];
        assert_eq!(times(false, 5 * MS, &followed), [0, MS, 2 * MS, 3 * MS, 4 * MS]);
        assert_eq!(times(true, 5 * MS, &followed), [0, MS, 2 * MS, 3 * MS, 4 * MS]);
        assert_eq!(
            times(true, 5 * MS, &[0, 0, MS, MS]),
            [0, MS, 2 * MS],
            "the second waits when two more come"
        );
        assert_eq!(times(true, 0, &[0; 6]), [0, MS, 2 * MS], "without a delay");
    }
}

#[test]
fn a_packet_larger_than_the_burst_is_dropped() {
    let config = shaped(ShaperConfig::TokenBucket { rate_bps: 8_000_000, burst_bytes: 999, peak: None });
    let log = send(&config, at([0]));
    assert_eq!(log.dropped, [(0, 0, DropReason::Overlimit)]);
}

#[test]
fn the_packet_that_waits_for_tokens_counts_as_waiting() {
    let codel = QueueConfig::Codel(CodelConfig {
        limit_packets: 2,
        target_ns: 100 * MS,
        interval_ns: 100 * MS,
        ecn: false,
        ce_threshold_ns: None,
    });
    // One leaves at once. Of the others, a FIFO keeps two; CoDel has given one of them away and has room for another.
    for (queue, kept) in [(QueueConfig::Pfifo(PfifoConfig { limit_packets: 2 }), 2), (codel, 3)] {
        let config = LinkConfig {
            queue,
            ..shaped(ShaperConfig::TokenBucket { rate_bps: 8_000_000, burst_bytes: 1000, peak: None })
        };
        let feed = Feed { arrivals: at([0, 0, 0, 0, 0, 0]), questions: vec![0, MS, 10 * MS] };
        let log = run_stepped(&config, &feed);
        let backlog: Vec<_> = log.samples.iter().map(|(_, counters)| counters.backlog_packets).collect();
        assert_eq!((backlog, log.dropped.len()), (vec![kept, kept - 1, 0], 5 - kept as usize));
    }
}

#[test]
fn a_policer_drops_what_exceeds_its_burst() {
    let config = shaped(ShaperConfig::Policer { rate_bps: 8_000_000, burst_bytes: 2000 });
    let log = send(&config, at([0, 0, 0, MS - 1, MS, 2 * MS]));
    assert_eq!(
        log.dropped,
        [(0, 2, DropReason::Policer), (MS - 1, 3, DropReason::Policer)],
        "two pass at once, and one each millisecond"
    );
    assert!(log.forwarded.iter().all(|(_, packet)| packet.waited == 0));
}

/// A packet passes if, and only if, no interval that ends with it would then have seen more than the burst and the
/// tokens of the interval (RFC 2697 section 2 for the committed bucket, which starts full).
#[test]
fn a_policer_lets_pass_what_its_bucket_allows() {
    let cases = || (1000..20_000_000_u64, 100..10_000_u32, arrivals());
    let property = |(rate_bps, burst_bytes, arrivals): &(u64, u32, Arrivals), bug| {
        let (rate, burst) = spoilt(*rate_bps, *burst_bytes, bug);
        let log =
            send(&shaped(ShaperConfig::Policer { rate_bps: rate, burst_bytes: burst }), arrivals.clone());
        let passed: HashSet<u32> = log.forwarded.iter().map(|(_, packet)| packet.id).collect();
        let mut before: Vec<(u64, u32)> = Vec::new();
        for (at, packet) in arrivals {
            let mut taken = parts(packet.bytes);
            let mut fits = taken <= parts(*burst_bytes);
            for &(earlier, bytes) in before.iter().rev() {
                taken += parts(bytes);
                fits &= taken <= parts(*burst_bytes) + u128::from(at - earlier) * u128::from(*rate_bps);
            }
            if fits != passed.contains(&packet.id) {
                return Err(format!("packet {} fits: {fits}", packet.id));
            }
            if fits {
                before.push((*at, packet.bytes));
            }
        }
        Ok(())
    };
    check("policer", cases, property, &[Bug::Fast, Bug::Slow, Bug::Roomy]);
}

/// Packets leave when a plain model says so: each opportunity carries so many bytes of the packets that wait, in their
/// order, and what it does not use is lost.
#[test]
fn a_trace_gives_what_its_opportunities_carry() {
    let times = prop::collection::vec(prop_oneof![Just(3 * MS), 0..10 * MS], 1..6);
    let cases = || (times.clone(), 1..5 * MS, 500..2000_u32, arrivals());
    let property = |(times, pause, bytes, arrivals): &(Vec<u64>, u64, u32, Arrivals), bug| {
        let mut opportunities_ns = times.clone();
        opportunities_ns.sort_unstable();
        let period_ns = opportunities_ns[opportunities_ns.len() - 1] + pause;
        let expected = deliveries(&opportunities_ns, period_ns, *bytes, arrivals);
        let trace = match bug {
            Bug::Slow => ShaperConfig::Trace { opportunities_ns, period_ns: period_ns + 1, bytes: *bytes },
            Bug::Roomy => ShaperConfig::Trace { opportunities_ns, period_ns, bytes: bytes + 100 },
            _ => ShaperConfig::Trace { opportunities_ns, period_ns, bytes: *bytes },
        };
        let log = send(&shaped(trace), arrivals.clone());
        let mut found: Vec<(u64, u32)> = log.forwarded.iter().map(|(at, packet)| (*at, packet.id)).collect();
        if bug == Bug::Hasty {
            found.iter_mut().take(1).for_each(|(at, _)| *at = at.saturating_sub(1));
        }
        equal("deliveries", &found, &expected)
    };
    check("trace", cases, property, &[Bug::Slow, Bug::Roomy, Bug::Hasty]);
}

/// Times when each packet has left, opportunity by opportunity.
fn deliveries(times: &[u64], period: u64, bytes: u32, arrivals: &[(u64, Pkt)]) -> Vec<(u64, u32)> {
    let mut delivered = Vec::new();
    // What has left of the first packet that waits.
    let mut sent = 0;
    for opportunity in (0..).flat_map(|lap: u64| times.iter().map(move |time| lap * period + time)) {
        let mut left = bytes;
        while let Some((at, packet)) = arrivals.get(delivered.len())
            && *at <= opportunity
            && left > 0
        {
            let part = left.min(packet.bytes - sent);
            left -= part;
            sent += part;
            if sent == packet.bytes {
                delivered.push((opportunity, packet.id));
                sent = 0;
            }
        }
        if delivered.len() == arrivals.len() {
            break;
        }
    }
    delivered
}

type Arrivals = Vec<(u64, Pkt)>;

/// Bursts of packets of any size, and pauses.
fn arrivals() -> impl Strategy<Value = Arrivals> {
    let gap =
        prop_oneof![4 => Just(0), 4 => 0..2 * MS, 1 => (0..3_u64).prop_map(|n| n * MS), 1 => 0..100 * MS];
    prop::collection::vec((gap, 20..1500_u32), 1..100).prop_map(|steps| {
        let mut at = 0;
        let packet = |(id, (gap, bytes)): (usize, (u64, u32))| {
            at += gap;
            (at, Pkt::new(id as u32, bytes))
        };
        steps.into_iter().enumerate().map(packet).collect()
    })
}

/// Delivers at one opportunity of 1500 bytes at 5 ms, and two at 7 ms, each 10 ms.
#[test]
fn a_trace_delivers_at_its_opportunities() {
    let opportunities_ns = vec![5 * MS, 7 * MS, 7 * MS];
    let trace = ShaperConfig::Trace { opportunities_ns, period_ns: 10 * MS, bytes: 1500 };
    let config = LinkConfig { delay_ns: MS, ..shaped(trace) };
    let log = send(&config, at([0, 0, 0, 0, 0, 0, 6 * MS, 100 * MS]));
    let times: Vec<_> = log.forwarded.iter().map(|&(at, _)| at / MS).collect();
    // 4500 bytes leave by 7 ms: four packets and a half; the half ends at 15 ms, which has room for a whole one more.
    assert_eq!(times, [6, 8, 8, 8, 16, 16, 18, 106]);
}

/// netem with `delay 10ms rate 8mbit limit 3` (net/sched/sch_netem.c): a packet's millisecond at the rate follows its
/// delay, and the limit counts packets in the delay line.
#[test]
fn netem_delays_first_and_counts_everything_inside() {
    let config = LinkConfig {
        rate_bps: Some(8_000_000),
        delay_ns: 10 * MS,
        queue: QueueConfig::Netem { limit_packets: 3 },
        overhead: 0,
        ..LinkConfig::default()
    };
    let arrivals = at([0, 0, 5 * MS, 5 * MS, 11 * MS - 1, 11 * MS, 12 * MS, 100 * MS]);
    let log = run_stepped(&config, &Feed { arrivals, questions: vec![0, 10 * MS, 11 * MS, 50 * MS] });
    let found: Vec<_> = log.forwarded.iter().map(|(at, p)| (at / MS, p.id, p.waited / MS)).collect();
    // The first leaves at 11 ms, when packet 5 finds room; the second at 12 ms, when packet 6 does.
    assert_eq!(found, [(11, 0, 0), (12, 1, 1), (16, 2, 0), (22, 5, 0), (23, 6, 0), (111, 7, 0)]);
    assert_eq!(log.dropped.iter().map(|drop| drop.1).collect::<Vec<_>>(), [3, 4]);
    let samples: Vec<_> = log.samples.iter().map(|(_, c)| (c.backlog_packets, c.packets)).collect();
    assert_eq!(samples, [(2, 0), (3, 0), (3, 1), (0, 5)]);
}

/// Without a rate, netem's limit is what bounds the product of bandwidth and delay.
#[test]
fn netem_reorders_within_its_limit() {
    let jitter = Some(JitterConfig { kind: JitterKind::Uniform, sd_ns: 10 * MS, reorder: true, table: None });
    let queue = QueueConfig::Netem { limit_packets: 25 };
    let config =
        LinkConfig { delay_ns: 20 * MS, queue, jitter, report_changes: true, ..LinkConfig::default() };
    let arrivals = at((0..2000).map(|i| i * MS));
    let log = send(&config, arrivals);
    assert!(log.forwarded.windows(2).any(|two| two[0].0 > two[1].0));
    assert!(log.changes.windows(2).all(|two| two[0].0 <= two[1].0), "changes out of order");
    let most = log.changes.iter().map(|change| change.2).max();
    assert_eq!((most, log.changes.last().map(|change| change.2)), (Some(25), Some(0)));
    assert_eq!(log.forwarded.len() + log.dropped.len(), 2000);
}

#[test]
fn jitter_reorders_only_when_told_to() {
    for kind in [JitterKind::Uniform, JitterKind::Normal, JitterKind::Pareto, JitterKind::Table] {
        let jitter = |reorder| {
            let table = (kind == JitterKind::Table).then(|| vec![-8192, 0, 8192]);
            Some(JitterConfig { kind, sd_ns: 5 * MS, reorder, table })
        };
        let config =
            |reorder| LinkConfig { delay_ns: 30 * MS, jitter: jitter(reorder), ..LinkConfig::default() };
        let ordered = send(&config(false), at((0..5000).map(|i| i * MS)));
        let free = send(&config(true), at((0..5000).map(|i| i * MS)));
        let overtakes = |log: &Log| log.forwarded.windows(2).filter(|two| two[0].0 > two[1].0).count();
        assert_eq!(overtakes(&ordered), 0);
        assert!(overtakes(&free) > 1000, "{kind:?}");
        assert!(!Link::<Pkt>::can_fuse(&config(true)) && Link::<Pkt>::can_fuse(&config(false)));
        let delays = || free.forwarded.iter().map(|(at, p)| (*at - u64::from(p.id) * MS) as f64 / MS as f64);
        let mean = delays().sum::<f64>() / 5000.0;
        let sd = (delays().map(|d| (d - mean) * (d - mean)).sum::<f64>() / 5000.0).sqrt();
        // Half a width of 1 has a standard deviation of 1 / sqrt 3. Pareto with shape 3 has sqrt(3) / 2, times 4/3, of
        // which the table's end at 4 leaves 0.81.
        let expected = match kind {
            JitterKind::Uniform => 5.0 / 3_f64.sqrt(),
            JitterKind::Table => 5.0 * (2.0_f64 / 3.0).sqrt(),
            JitterKind::Pareto => 5.0 * 0.81,
            JitterKind::Normal => 5.0,
        };
        assert!((mean - 30.0).abs() < 0.5 && (sd - expected).abs() < 0.15, "{kind:?}: {mean} {sd}");
    }
}

#[test]
fn a_delay_does_not_go_below_zero() {
    let jitter = Some(JitterConfig { kind: JitterKind::Normal, sd_ns: 5 * MS, reorder: true, table: None });
    let log =
        send(&LinkConfig { delay_ns: MS, jitter, ..LinkConfig::default() }, at((0..100).map(|i| i * MS)));
    assert!(log.forwarded.iter().all(|(at, packet)| *at >= u64::from(packet.id) * MS));
}

/// Feeds a link 1 packet per ms that takes 1 ms, and changes it at 5.5 ms, when packet 5 is in service.
fn changed(config: &LinkConfig, change: &LinkChange) -> Vec<(u64, u32)> {
    let mut link = link(config, Mode::Stepped);
    let mut log = Log::default();
    let streams = |purpose: &str| stream(7, 0, purpose, "link");
    for (id, (at, packet)) in at((0..10).map(|i| i * MS)).into_iter().enumerate() {
        if id == 6 {
            link.change(5 * MS + MS / 2, change, &streams, &mut log);
        }
        link.arrive(at, packet, &mut log);
    }
    link.on_event(u64::MAX >> 1, &mut log);
    log.forwarded.iter().map(|(at, packet)| (*at, packet.id)).collect()
}

const PLAIN: LinkConfig = LinkConfig {
    rate_bps: Some(8_000_000),
    delay_ns: 10 * MS,
    queue: QueueConfig::Pfifo(PfifoConfig { limit_packets: 100 }),
    loss: None,
    duplicate_ppb: 0,
    corrupt_ppb: 0,
    jitter: None,
    shaper: None,
    overhead: 0,
    mtu: 1500,
    delay_first: false,
    report_changes: false,
};

#[test]
fn a_new_rate_holds_from_the_next_packet_on() {
    let found = changed(&PLAIN, &LinkChange { rate_bps: Some(4_000_000), ..LinkChange::default() });
    let expected = (0..10).map(|i: u64| (if i <= 5 { i + 11 } else { 2 * i + 6 } * MS, i as u32));
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn a_shorter_delay_lets_nobody_overtake() {
    let found = changed(&PLAIN, &LinkChange { delay_ns: Some(9 * MS), ..LinkChange::default() });
    // Packet 6 would arrive at 16 ms, as packet 5 does.
    let expected = (0..10).map(|i: u64| (if i <= 5 { i + 11 } else { i + 10 } * MS, i as u32));
    assert_eq!(found, expected.collect::<Vec<_>>());
    let found = changed(&PLAIN, &LinkChange { delay_ns: Some(MS), ..LinkChange::default() });
    assert!(found.iter().all(|&(at, id)| id <= 5 || at == 16 * MS));
}

#[test]
fn an_outage_loses_what_enters() {
    let found = changed(&PLAIN, &LinkChange { down: Some(true), ..LinkChange::default() });
    assert_eq!(found.len(), 6);
}

#[test]
fn a_new_loss_starts_from_its_beginning() {
    let loss = Some(path::LossConfig::Nth { every: 2, packet: 0, min_payload: 0, dport: None, sport: None });
    let found = changed(&PLAIN, &LinkChange { loss, ..LinkChange::default() });
    assert_eq!(found.iter().map(|&(_, id)| id).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 7, 9]);
}

#[test]
fn a_new_queue_takes_over_what_it_admits() {
    let mut link = link(&PLAIN, Mode::Stepped);
    let mut log = Log::default();
    for (at, packet) in at([0; 10]) {
        link.arrive(at, packet, &mut log);
    }
    let queue = Some(QueueConfig::Pfifo(PfifoConfig { limit_packets: 4 }));
    let streams = |purpose: &str| stream(7, 0, purpose, "link");
    link.change(1, &LinkChange { queue, ..LinkChange::default() }, &streams, &mut log);
    assert_eq!(link.counters(1).backlog_packets, 4);
    assert_eq!(log.dropped.iter().map(|drop| drop.1).collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    link.on_event(u64::MAX >> 1, &mut log);
    assert_eq!(log.forwarded.len(), 5);
}

#[test]
fn what_a_shaping_queue_held_back_leaves_when_another_takes_its_place() {
    // CAKE lets a packet pass each second; the link itself sends one in 1 ms.
    let cake = CakeConfig {
        bandwidth_bps: Some(8_000),
        rtt_ns: 100 * MS,
        flow_mode: FlowMode::Flowblind,
        memlimit_bytes: 4 << 20,
    };
    let mut link = link(&LinkConfig { queue: QueueConfig::Cake(cake), ..PLAIN }, Mode::Stepped);
    let mut log = Log::default();
    for (at, packet) in at([0, 2 * MS, 20 * MS]) {
        link.arrive(at, packet, &mut log);
    }
    let queue = Some(QueueConfig::Pfifo(PfifoConfig { limit_packets: 4 }));
    let streams = |purpose: &str| stream(7, 0, purpose, "link");
    link.change(30 * MS, &LinkChange { queue, ..LinkChange::default() }, &streams, &mut log);
    link.on_event(u64::MAX >> 1, &mut log);
    let arrived: Vec<_> = log.forwarded.iter().map(|(at, packet)| (*at / MS, packet.id)).collect();
    assert_eq!(arrived, [(11, 0), (41, 1), (42, 2)]);
}

#[test]
fn a_paused_link_finishes_what_it_sends_and_starts_nothing() {
    let mut link = link(&PLAIN, Mode::Stepped);
    let mut log = Log::default();
    let mut packets = at([0, 0, 3 * MS]).into_iter();
    for (at, packet) in packets.by_ref().take(2) {
        link.arrive(at, packet, &mut log);
    }
    link.pause(MS / 2, true, &mut log);
    assert_eq!(link.next_event(), None);
    link.pause(2 * MS, false, &mut log);
    assert_eq!(link.counters(2 * MS).backlog_packets, 0);
    link.pause(3 * MS, true, &mut log);
    // The link is idle and its queue empty, and still the packet waits.
    let (at, packet) = packets.next().unwrap();
    link.arrive(at, packet, &mut log);
    assert_eq!(link.counters(3 * MS).backlog_packets, 1);
    link.pause(5 * MS, false, &mut log);
    let times: Vec<_> = log.forwarded.iter().map(|&(at, _)| at / MS).collect();
    assert_eq!(times, [11, 13, 16]);
}
