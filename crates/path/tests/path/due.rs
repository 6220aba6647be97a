//! FQ at a host's interface: packets stay until their sender wants them to leave (sch_fq.c: fq_enqueue, fq_dequeue).

use path::queue::configs::FqConfig;
use path::{DropReason, Ecn, LinkConfig, Mode, QueueConfig};

use crate::common::{Log, Pkt, catch_up, link};

const MS: u64 = 1_000_000;

fn config(change: impl FnOnce(&mut FqConfig)) -> LinkConfig {
    let mut fq = FqConfig {
        limit_packets: 10_000,
        flow_limit_packets: 100,
        quantum_bytes: 3000,
        initial_quantum_bytes: 15_000,
        maxrate_bps: None,
        low_rate_threshold_bps: 550_000,
        refill_delay_ns: 40 * MS,
        orphan_mask: 1023,
        ce_threshold_ns: None,
        horizon_ns: 10_000 * MS,
        horizon_drop: true,
    };
    change(&mut fq);
    // 1500 bytes take a millisecond.
    LinkConfig {
        rate_bps: Some(12_000_000),
        queue: QueueConfig::Fq(fq),
        overhead: 0,
        ..LinkConfig::default()
    }
}

/// Lets packets of (arrival, due, flow) through, numbered from 0.
fn carry(config: &LinkConfig, packets: &[(u64, u64, u32)]) -> Log {
    let mut hop = link(config, Mode::Stepped);
    let mut log = Log::default();
    for (id, &(at, due, flow)) in (0..).zip(packets) {
        catch_up(&mut hop, at, &mut log);
        hop.arrive_due(at, due, Pkt { flow, ecn: Ecn::Ect0, ..Pkt::new(id, 1500) }, &mut log);
    }
    catch_up(&mut hop, u64::MAX, &mut log);
    log
}

/// Time of the start of each transmission, and which packet it is.
fn starts(log: &Log) -> Vec<(u64, u32)> {
    log.forwarded.iter().map(|(_, packet)| (packet.sent / MS - 1, packet.id)).collect()
}

#[test]
fn packets_stay_until_they_are_due_and_let_others_pass() {
    let packets = [(0, 5 * MS, 1), (0, 9 * MS, 1), (MS, 0, 2), (2 * MS, 0, 1), (3 * MS, 7 * MS, 3)];
    let log = carry(&config(|_| ()), &packets);
    // The acknowledgement of flow 1, without a time of its own, passes as nothing else is due (fq_fastpath_check).
    assert_eq!(starts(&log), [(1, 2), (2, 3), (5, 0), (7, 4), (9, 1)]);
    let waited = log.forwarded.iter().map(|(_, packet)| packet.waited);
    assert_eq!(waited.sum::<u64>(), 0, "waiting to be due is no queueing");
}

#[test]
fn what_is_due_and_waits_for_the_interface_longer_than_the_threshold_is_marked() {
    let packets: Vec<_> = (0..6).map(|n| (0, 2 * MS, n % 3)).collect();
    let log = carry(&config(|fq| fq.ce_threshold_ns = Some(3 * MS)), &packets);
    assert_eq!(log.forwarded.len(), 6);
    // The first starts at 2 ms, each next one 1 ms later; over 3 ms wait the last two.
    let times: Vec<u64> = log.marked.iter().map(|&(at, _)| at / MS).collect();
    assert_eq!(times, [6, 7]);
}

#[test]
fn beyond_the_horizon_a_packet_is_dropped_or_sent_at_it() {
    let packets = [(0, 30 * MS, 1), (0, 10 * MS, 2)];
    let log = carry(&config(|fq| fq.horizon_ns = 20 * MS), &packets);
    assert_eq!(log.dropped, [(0, 0, DropReason::Overlimit)]);
    assert_eq!(starts(&log), [(10, 1)]);
    let capped = |fq: &mut FqConfig| (fq.horizon_ns, fq.horizon_drop) = (20 * MS, false);
    let log = carry(&config(capped), &packets);
    assert_eq!((log.dropped.len(), starts(&log)), (0, vec![(10, 1), (20, 0)]));
}

#[test]
fn a_flow_has_so_many_packets_that_wait_to_be_due() {
    let packets: Vec<_> = (0..4).map(|n| (0, (10 + 2 * n) * MS, 1)).collect();
    let log = carry(&config(|fq| fq.flow_limit_packets = 3), &packets);
    assert_eq!(log.dropped, [(0, 3, DropReason::Overlimit)]);
    assert_eq!(starts(&log), [(10, 0), (12, 1), (14, 2)]);
}
