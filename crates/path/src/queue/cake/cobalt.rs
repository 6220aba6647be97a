//! COBALT, CAKE's controller of one queue: CoDel and BLUE together (Linux net/sched/sch_cake.c).

use rand_core::RngCore;

use crate::Xoshiro256PlusPlus;
use crate::packet::{Nanos, Packet};
use crate::queue::{Queued, Sink, mark};

/// COBALT's parameters.
pub(super) struct Params {
    interval: Nanos,
    target: Nanos,
    /// Time in which the shaper sends a packet of the MTU.
    mtu_time: Nanos,
}

impl Params {
    pub(super) fn new(rtt: Nanos, mtu_time: Nanos) -> Self {
        let wanted = (rtt / 20).max(1);
        let target = wanted.max(mtu_time * 3 / 2);
        Params { interval: (rtt + target - wanted).max(target * 2), target, mtu_time }
    }
}

/// BLUE's step up, of 2^32: 1 / 256.
const BLUE_UP: u32 = 1 << 24;
/// BLUE's step down, of 2^32: 1 / 4096.
const BLUE_DOWN: u32 = 1 << 20;

/// COBALT's state of one flow. As in Linux, a queue that was never used starts with an `inverse_sqrt` of zero: its first
/// drop follows at once on its first packet above the target.
#[derive(Default)]
pub(super) struct Cobalt {
    /// CoDel's count, which decays when the queue is good instead of starting again.
    count: u32,
    /// 1 / sqrt(count), of 2^32.
    inverse_sqrt: u32,
    drop_next: Nanos,
    dropping: bool,
    /// Time when BLUE last moved.
    blue_moved: Nanos,
    /// BLUE's drop probability, of 2^32.
    blue: u32,
}

impl Cobalt {
    /// The limit of memory has made this flow lose a packet.
    pub(super) fn queue_full(&mut self, params: &Params, now: Nanos) {
        if now - self.blue_moved > params.target {
            self.blue = self.blue.saturating_add(BLUE_UP);
            self.blue_moved = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// The flow has nothing to send.
    #[inline]
    pub(super) fn queue_empty(&mut self, params: &Params, now: Nanos) {
        if self.blue > 0 && now - self.blue_moved > params.target {
            self.blue = self.blue.saturating_sub(BLUE_DOWN);
            self.blue_moved = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.decrease_count(params);
        }
    }

    #[inline(never)]
    fn decrease_count(&mut self, params: &Params) {
        self.set_count(self.count - 1);
        self.drop_next = self.control(params, self.drop_next);
    }

    /// Time before which [`Cobalt::queue_empty`] changes nothing, and [`Cobalt::is_at_rest`] stays false.
    pub(super) fn unchanged_until(&self) -> Nanos {
        if self.is_idle() { self.drop_next } else { 0 }
    }

    /// Whether nothing is left that would have to decay.
    pub(super) fn is_at_rest(&self, now: Nanos) -> bool {
        self.is_idle() && now >= self.drop_next
    }

    /// Whether CoDel's count and BLUE's probability are zero: only a packet above the target can change anything.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.count | self.blue == 0
    }

    /// Notes a packet below the target while [`Cobalt::is_idle`].
    #[inline]
    pub(super) fn note_good(&mut self, params: &Params, now: Nanos) {
        self.dropping = false;
        self.drop_next = now + params.interval;
    }

    /// Whether to drop a packet that is about to leave; it may be marked instead.
    #[inline]
    pub(super) fn should_drop<P: Packet>(
        &mut self,
        params: &Params,
        now: Nanos,
        item: &mut Queued<P>,
        random: &mut Xoshiro256PlusPlus,
        sink: &mut dyn Sink<P>,
    ) -> bool {
        let sojourn = now - item.arrived;
        let over_target = sojourn > params.target && sojourn > 4 * params.mtu_time;
        if !over_target && self.is_idle() {
            self.note_good(params, now);
            return false;
        }
        self.control_queue(params, now, over_target, item, random, sink)
    }

    /// The rest of [`Cobalt::should_drop`], where CoDel or BLUE has something to do.
    #[inline(never)]
    fn control_queue<P: Packet>(
        &mut self,
        params: &Params,
        now: Nanos,
        over_target: bool,
        item: &mut Queued<P>,
        random: &mut Xoshiro256PlusPlus,
        sink: &mut dyn Sink<P>,
    ) -> bool {
        let mut late = now.checked_sub(self.drop_next);
        let mut due = self.count > 0 && late.is_some();
        let mut drop = false;
        if over_target {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.control(params, now);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        if due && self.dropping {
            drop = !mark(now, &mut item.packet, sink);
            self.set_count(self.count.saturating_add(1));
            self.drop_next = self.control(params, self.drop_next);
            late = now.checked_sub(self.drop_next);
        } else {
            while due {
                self.set_count(self.count - 1);
                self.drop_next = self.control(params, self.drop_next);
                late = now.checked_sub(self.drop_next);
                due = self.count > 0 && late.is_some();
            }
        }
        // BLUE drops ECN-capable packets too.
        if self.blue > 0 && !drop {
            drop = ((random.next_u64() >> 32) as u32) < self.blue;
        }
        if self.count == 0 {
            self.drop_next = now + params.interval;
        } else if late.is_some_and(|late| late > 0) && !drop {
            self.drop_next = now;
        }
        drop
    }

    /// CoDel's control law: `time + interval / sqrt(count)` (RFC 8289 section 5.4).
    fn control(&self, params: &Params, time: Nanos) -> Nanos {
        time + ((u128::from(params.interval) * u128::from(self.inverse_sqrt)) >> 32) as Nanos
    }

    /// Small counts have their exact root, large ones a step of Newton's method from the one before.
    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.inverse_sqrt = match count {
            0 | 1 => u32::MAX,
            2..16 => ((1_u128 << 64) / u128::from(count)).isqrt() as u32,
            _ => {
                let x = u64::from(self.inverse_sqrt);
                let bracket = (3_u64 << 32).wrapping_sub(u64::from(count).wrapping_mul((x * x) >> 32)) >> 2;
                (bracket.wrapping_mul(x) >> 31) as u32
            }
        };
    }
}
