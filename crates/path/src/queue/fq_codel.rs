//! FQ-CoDel (RFC 8290) as Linux carries it out (net/sched/sch_fq_codel.c).

use params::Param;
use rand_core::RngCore;

use super::codel::{self, State};
use super::drr::{Flows, MAX_FLOWS, quantum};
use super::{LinkContext, Place, Qdisc, Sink, Source, Store};
use crate::packet::{DropReason, Nanos, Packet};

// Defaults of fq_codel_init; RFC 8290 section 5.2.
params::parameters! {
    /// FQ-CoDel (RFC 8290): flow queues with CoDel.
    pub struct FqCodelConfig: "fq_codel" {
        /// Packets waiting, over all flows.
        limit_packets: u32 = Param::limit_packets().default(10_240),
        /// Queues that flows are hashed to.
        flows: u32 = Param::count("flows", 1, MAX_FLOWS).default(1024),
        /// Acceptable standing sojourn time.
        target_ns: u64 = Param::time("target").default(5_000_000),
        /// Window over which the minimum is taken.
        interval_ns: u64 = Param::time("interval").above_zero().default(100_000_000),
        /// Bytes that a flow may send in a round.
        quantum_bytes: u32 = quantum(),
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = Param::flag("ecn").default(1),
        /// Mark every ECN-capable packet that waited longer, if this is set.
        ce_threshold_ns: Option<u64> = Param::time("ce_threshold").otherwise("none"),
        /// Marks of that threshold are only for packets whose DS field, under the mask, is this: 1 with a mask of 3 is ECT(1).
        ce_threshold_selector: u32 = Param::count("ce_threshold_selector", 0, 255).default(0),
        /// Bits of the DS field that are compared with the selector; 0: every packet.
        ce_threshold_mask: u32 = Param::count("ce_threshold_mask", 0, 255).default(0),
        /// Memory of all packets, as Linux accounts for it.
        memory_limit_bytes: u64 = Param::bytes("memory_limit").default(32 << 20),
        /// Packets dropped at most when the limit is exceeded, from the flow with the most bytes.
        drop_batch: u32 = Param::count("drop_batch", 1, 65_535).default(64),
    }
}

pub(super) struct FqCodel {
    limit: u32,
    memory_limit: u64,
    drop_batch: u32,
    params: codel::Params,
    flows: Flows,
    states: Box<[State]>,
}

impl FqCodel {
    pub(super) fn new(config: &FqCodelConfig, mut link: LinkContext) -> Self {
        FqCodel {
            limit: config.limit_packets,
            memory_limit: config.memory_limit_bytes,
            drop_batch: config.drop_batch,
            params: codel::Params {
                ce_threshold: config.ce_threshold_ns.unwrap_or(Nanos::MAX),
                ce_selector: config.ce_threshold_selector as u8,
                ce_mask: config.ce_threshold_mask as u8,
                target: config.target_ns,
                interval: config.interval_ns,
                ecn: config.ecn,
                mtu: link.mtu,
            },
            flows: Flows::new(config.flows, config.quantum_bytes, link.random.next_u32()),
            states: (0..config.flows).map(|_| State::default()).collect(),
        }
    }

    /// Drops half of the bytes of the fattest flow, oldest packets first, at most a batch (RFC 8290 section 4.1).
    fn drop_from_fattest<P>(&mut self, now: Nanos, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        let fattest = self.flows.fattest();
        let half = self.flows.flows[fattest].bytes / 2;
        let mut bytes = 0;
        let mut packets = 0;
        while let Some(place) = self.flows.pop(fattest, store) {
            bytes += u64::from(store[place].len);
            packets += 1;
            store.discard(now, place, DropReason::Overlimit, sink);
            if packets == self.drop_batch || bytes >= half {
                break;
            }
        }
        let state = &mut self.states[fattest];
        state.count = state.count.wrapping_add(packets);
    }
}

impl<P: Packet> Qdisc<P> for FqCodel {
    fn enqueue(&mut self, now: Nanos, place: Place, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        let index = self.flows.classify(&store[place].packet);
        self.flows.push(index, place, store);
        if self.flows.packets > self.limit || self.flows.memory > self.memory_limit {
            self.drop_from_fattest(now, store, sink);
        }
    }

    fn dequeue(&mut self, now: Nanos, store: &mut Store<P>, sink: &mut dyn Sink<P>) -> Option<Place> {
        loop {
            let turn = self.flows.turn(store, &self.states)?;
            let mut queue = OneFlow { flows: &mut self.flows, index: turn.flow };
            match self.states[turn.flow].dequeue(&self.params, now, store, &mut queue, sink) {
                Some(place) => {
                    self.flows.sent(turn, store[place].len);
                    return Some(place);
                }
                None => self.flows.empty(turn),
            }
        }
    }

    fn backlog_bytes(&self) -> u64 {
        self.flows.bytes
    }

    fn backlog_packets(&self) -> u32 {
        self.flows.packets
    }
}

/// The packets of one flow with the backlog of all flows: CoDel drops nothing while no more than an MTU waits in the whole queue,
/// as in Linux.
struct OneFlow<'a> {
    flows: &'a mut Flows,
    index: usize,
}

impl<P> Source<P> for OneFlow<'_> {
    fn pop(&mut self, store: &mut Store<P>) -> Option<Place> {
        self.flows.pop(self.index, store)
    }

    fn backlog(&self) -> u64 {
        self.flows.bytes
    }
}
