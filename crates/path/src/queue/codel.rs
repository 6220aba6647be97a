//! CoDel (RFC 8289) as Linux carries it out (net/sched/sch_codel.c, include/net/codel_impl.h).
//!
//! Linux counts time in units of 1024 ns here; this counts nanoseconds. Everything else, the rounding of the control
//! law included, is the same.

use params::Param;

use super::{ByteQueue, LinkContext, Place, Qdisc, Queued, Sink, Source, Store, mark};
use crate::packet::{DropReason, Nanos, Packet};

// Defaults of codel_params_init and codel_init: RFC 8289 section 4.3 and 4.4 for target and interval.
params::parameters! {
    /// CoDel (RFC 8289).
    pub struct CodelConfig: "codel" {
        /// Packets waiting.
        limit_packets: u32 = Param::limit_packets().default(1000),
        /// Acceptable standing sojourn time.
        target_ns: u64 = Param::time("target").default(5_000_000),
        /// Window over which the minimum is taken.
        interval_ns: u64 = Param::time("interval").above_zero().default(100_000_000),
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = Param::flag("ecn").default(0),
        /// Mark every ECN-capable packet that waited longer, if this is set.
        ce_threshold_ns: Option<u64> = Param::time("ce_threshold").otherwise("none"),
    }
}

pub(super) struct Codel {
    limit: u32,
    params: Params,
    state: State,
    queue: ByteQueue,
}

impl Codel {
    pub(super) fn new(config: &CodelConfig, link: LinkContext) -> Self {
        let params = Params {
            target: config.target_ns,
            interval: config.interval_ns,
            ecn: config.ecn,
            ce_threshold: config.ce_threshold_ns.unwrap_or(Nanos::MAX),
            ce_selector: 0,
            ce_mask: 0,
            mtu: link.mtu,
        };
        Codel { limit: config.limit_packets, params, state: State::default(), queue: ByteQueue::default() }
    }
}

impl<P: Packet> Qdisc<P> for Codel {
    fn enqueue(&mut self, now: Nanos, place: Place, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        if self.queue.packets < self.limit {
            self.queue.push(place, store);
        } else {
            store.discard(now, place, DropReason::Overlimit, sink);
        }
    }

    fn dequeue(&mut self, now: Nanos, store: &mut Store<P>, sink: &mut dyn Sink<P>) -> Option<Place> {
        self.state.dequeue(&self.params, now, store, &mut self.queue, sink)
    }

    /// Whether or not such a packet goes past the discipline, as at the root of a device of Linux (TCQ_F_CAN_BYPASS), it is the
    /// same: the last packet of those before left no more than an MTU behind, which ended the dropping state.
    fn pass(&mut self, _now: Nanos, _item: &Queued<P>) -> bool {
        debug_assert!(self.state.first_above.is_none() && !self.state.dropping);
        self.limit > 0
    }

    fn backlog_bytes(&self) -> u64 {
        self.queue.bytes
    }

    fn backlog_packets(&self) -> u32 {
        self.queue.packets
    }
}

/// The parameters of a controller.
#[derive(Clone, Debug)]
pub(super) struct Params {
    /// Acceptable standing sojourn time.
    pub(super) target: Nanos,
    /// Time that the sojourn time must stay above the target.
    pub(super) interval: Nanos,
    /// Mark instead of dropping where possible.
    pub(super) ecn: bool,
    /// Mark whatever waited longer.
    pub(super) ce_threshold: Nanos,
    /// Packets for which that threshold is: those whose DS field under the mask is the selector.
    pub(super) ce_selector: u8,
    pub(super) ce_mask: u8,
    /// No drop while no more than this waits, bytes.
    pub(super) mtu: u32,
}

impl Params {
    /// Whether the threshold of marks is for a packet.
    fn selects(&self, packet: &impl Packet) -> bool {
        let ds = packet.dscp() << 2 | packet.ecn() as u8;
        self.ce_mask == 0 || ds & self.ce_mask == self.ce_selector
    }
}

/// The state of one controller.
#[derive(Default)]
pub(super) struct State {
    /// Packets dropped or marked since the dropping state was entered.
    pub(super) count: u32,
    /// `count` when it was last entered.
    last_count: u32,
    dropping: bool,
    /// 1 / sqrt(count), of 2^16.
    inverse_sqrt: u16,
    /// Time when the sojourn time will have been above the target for an interval.
    first_above: Option<Nanos>,
    /// Time of the next drop.
    drop_next: Nanos,
}

impl State {
    /// The next packet to transmit.
    pub(super) fn dequeue<P: Packet>(
        &mut self,
        params: &Params,
        now: Nanos,
        store: &mut Store<P>,
        source: &mut impl Source<P>,
        sink: &mut dyn Sink<P>,
    ) -> Option<Place> {
        let place = self.controlled(params, now, store, source, sink)?;
        let item = &mut store[place];
        if now - item.arrived > params.ce_threshold && params.selects(&item.packet) {
            mark(now, &mut item.packet, sink);
        }
        Some(place)
    }

    /// The next packet that the control law lets pass (RFC 8289 section 5.5).
    fn controlled<P: Packet>(
        &mut self,
        params: &Params,
        now: Nanos,
        store: &mut Store<P>,
        source: &mut impl Source<P>,
        sink: &mut dyn Sink<P>,
    ) -> Option<Place> {
        let Some(mut place) = source.pop(store) else {
            self.first_above = None;
            self.dropping = false;
            return None;
        };
        let above = self.above(params, now, Some(place), store, source);
        if self.dropping {
            self.dropping = above;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.wrapping_add(1);
                self.newton_step();
                if params.ecn && mark(now, &mut store[place].packet, sink) {
                    self.drop_next = self.control_law(params, self.drop_next);
                    break;
                }
                store.discard(now, place, DropReason::Aqm, sink);
                let next = source.pop(store);
                if self.above(params, now, next, store, source) {
                    self.drop_next = self.control_law(params, self.drop_next);
                } else {
                    self.dropping = false;
                }
                place = next?;
            }
        } else if above {
            self.dropping = true;
            let next = if params.ecn && mark(now, &mut store[place].packet, sink) {
                Some(place)
            } else {
                store.discard(now, place, DropReason::Aqm, sink);
                let next = source.pop(store);
                self.above(params, now, next, store, source);
                next
            };
            self.start_count(params, now);
            self.drop_next = self.control_law(params, now);
            return next;
        }
        Some(place)
    }

    /// Whether the sojourn time has been above the target for an interval (RFC 8289 section 5.6).
    fn above<P>(
        &mut self,
        params: &Params,
        now: Nanos,
        place: Option<Place>,
        store: &Store<P>,
        source: &impl Source<P>,
    ) -> bool {
        let standing =
            |place| now - store[place].arrived >= params.target && source.backlog() > u64::from(params.mtu);
        if !place.is_some_and(standing) {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + params.interval);
                false
            }
            Some(since) => now > since,
        }
    }

    /// Starts with the drop rate of the last dropping state if there was one and it ended less than 16 intervals ago.
    fn start_count(&mut self, params: &Params, now: Nanos) {
        let delta = self.count.wrapping_sub(self.last_count);
        if delta > 1 && self.last_count > 0 && now < self.drop_next + 16 * params.interval {
            self.count = delta;
            self.newton_step();
        } else {
            self.count = 1;
            self.inverse_sqrt = u16::MAX;
        }
        self.last_count = self.count;
    }

    /// `time + interval / sqrt(count)` (RFC 8289 section 5.4).
    fn control_law(&self, params: &Params, time: Nanos) -> Nanos {
        time + ((params.interval * u64::from(self.inverse_sqrt)) >> 16)
    }

    /// Takes a step of Newton's method, x (3 - count x^2) / 2, with x of 2^32 and the result cut to 16 bits. When
    /// an overflow of FQ-CoDel has made `count` jump, the bracket is negative and the result has no meaning; it is
    /// what Linux computes.
    fn newton_step(&mut self) {
        let x = u64::from(self.inverse_sqrt) << 16;
        let squared = (x * x) >> 32;
        // Two bits less, so that the product fits.
        let bracket = (3_u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(squared)) >> 2;
        let next = bracket.wrapping_mul(x) >> (32 - 2 + 1);
        self.inverse_sqrt = (next >> 16) as u16;
    }
}
