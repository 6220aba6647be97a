//! CoDel (RFC 8289) as Linux carries it out (net/sched/sch_codel.c, include/net/codel_impl.h).
//!
//! Linux counts time in units of 1024 ns here; this counts nanoseconds. Everything else, the rounding of the control
//! law included, is the same.

use super::{Bytes, Param, Qdisc, QueueKind, Queued, Sink, Source, mark};
use crate::packet::{DropReason, Nanos, Packet};

/// Defaults of codel_params_init and codel_init: RFC 8289 section 4.3 and 4.4 for target and interval.
pub(super) const CODEL: QueueKind = QueueKind {
    kind: "codel",
    params: &[
        Param::new("limit", "packets", Some(1000)),
        Param::new("target", "ns", Some(5_000_000)),
        Param::new("interval", "ns", Some(100_000_000)),
        Param::new("ecn", "bool", Some(0)),
        Param::new("ce_threshold", "ns", None),
    ],
};

pub(super) struct Codel<P> {
    limit: u32,
    params: Params,
    state: State,
    queue: Bytes<P>,
}

impl<P> Codel<P> {
    pub(super) fn new(limit: u32, params: Params) -> Self {
        Codel { limit, params, state: State::default(), queue: Bytes::default() }
    }
}

impl<P: Packet> Qdisc<P> for Codel<P> {
    fn enqueue(&mut self, now: Nanos, item: Queued<P>, sink: &mut dyn Sink<P>) {
        if self.backlog_packets() < self.limit {
            self.queue.push(item);
        } else {
            sink.dropped(now, &item.packet, DropReason::Overlimit);
        }
    }

    fn dequeue(&mut self, now: Nanos, sink: &mut dyn Sink<P>) -> Option<Queued<P>> {
        self.state.dequeue(&self.params, now, &mut self.queue, sink)
    }

    fn backlog_bytes(&self) -> u64 {
        self.queue.bytes
    }

    fn backlog_packets(&self) -> u32 {
        self.queue.items.len() as u32
    }
}

/// What does not change.
#[derive(Clone, Debug)]
pub(super) struct Params {
    /// Acceptable standing sojourn time.
    pub(super) target: Nanos,
    /// How long the sojourn time must stay above it.
    pub(super) interval: Nanos,
    /// Mark instead of dropping where possible.
    pub(super) ecn: bool,
    /// Mark whatever waited longer.
    pub(super) ce_threshold: Nanos,
    /// No drop while no more than this waits, bytes.
    pub(super) mtu: u32,
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
    /// When the sojourn time will have been above the target for an interval.
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
        source: &mut impl Source<P>,
        sink: &mut dyn Sink<P>,
    ) -> Option<Queued<P>> {
        let mut item = self.controlled(params, now, source, sink)?;
        if now - item.arrived > params.ce_threshold {
            mark(now, &mut item.packet, sink);
        }
        Some(item)
    }

    /// The next packet that the control law lets pass (RFC 8289 section 5.5).
    fn controlled<P: Packet>(
        &mut self,
        params: &Params,
        now: Nanos,
        source: &mut impl Source<P>,
        sink: &mut dyn Sink<P>,
    ) -> Option<Queued<P>> {
        let Some(mut item) = source.pop() else {
            self.first_above = None;
            self.dropping = false;
            return None;
        };
        let above = self.above(params, now, Some(&item), source);
        if self.dropping {
            self.dropping = above;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.wrapping_add(1);
                self.newton_step();
                if params.ecn && mark(now, &mut item.packet, sink) {
                    self.drop_next = self.control_law(params, self.drop_next);
                    break;
                }
                sink.dropped(now, &item.packet, DropReason::Aqm);
                let next = source.pop();
                if self.above(params, now, next.as_ref(), source) {
                    self.drop_next = self.control_law(params, self.drop_next);
                } else {
                    self.dropping = false;
                }
                item = next?;
            }
        } else if above {
            self.dropping = true;
            let next = if params.ecn && mark(now, &mut item.packet, sink) {
                Some(item)
            } else {
                sink.dropped(now, &item.packet, DropReason::Aqm);
                let next = source.pop();
                self.above(params, now, next.as_ref(), source);
                next
            };
            self.start_count(params, now);
            self.drop_next = self.control_law(params, now);
            return next;
        }
        Some(item)
    }

    /// Whether the sojourn time has been above the target for an interval (RFC 8289 section 5.6).
    fn above<P>(
        &mut self,
        params: &Params,
        now: Nanos,
        item: Option<&Queued<P>>,
        source: &impl Source<P>,
    ) -> bool {
        let standing = |item: &Queued<P>| {
            now - item.arrived >= params.target && source.backlog() > u64::from(params.mtu)
        };
        if !item.is_some_and(standing) {
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

    /// Takes up the last dropping state's rate if there was one and it ended less than 16 intervals ago.
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

    /// One step of Newton's method, x (3 - count x^2) / 2, with x of 2^32 and the result cut to 16 bits. When an
    /// overflow of FQ-CoDel has made `count` jump, the bracket is negative and the result an accident: Linux's own.
    fn newton_step(&mut self) {
        let x = u64::from(self.inverse_sqrt) << 16;
        let squared = (x * x) >> 32;
        // Two bits less, so that the product fits.
        let bracket = (3_u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(squared)) >> 2;
        let next = bracket.wrapping_mul(x) >> (32 - 2 + 1);
        self.inverse_sqrt = (next >> 16) as u16;
    }
}
