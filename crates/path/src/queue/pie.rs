//! PIE (RFC 8033) as Linux carries it out (net/sched/sch_pie.c): the queueing delay is the sojourn time of the last packet
//! that left, or, where asked for, what waits over an estimate of the departure rate.

use params::Param;
use rand_core::RngCore;

use super::{ByteQueue, LinkContext, Place, Qdisc, Queued, Sink, Source, Store, mark};
use crate::Xoshiro256PlusPlus;
use crate::packet::{DropReason, Nanos, Packet};

/// A table of parameters with those of the controller in it, which PIE and FQ-PIE have in common, and what makes a controller of
/// them. Defaults of pie_params_init and fq_pie_init; RFC 8033 section 4.2 and 4.3.
macro_rules! pie_parameters {
    (
        $(#[doc = $about:literal])+
        struct $config:ident: $kind:literal { $($first:tt)* } controller { $($middle:tt)* }
    ) => {
        params::parameters! {
            $(#[doc = $about])+
            pub struct $config: $kind {
                $($first)*
                /// Queueing delay aimed at.
                target_ns: u64 = Param::time("target").default(15_000_000),
                /// Time between updates of the drop probability, to which Linux's timer adds a tick of 1 ms.
                tupdate_ns: u64 = Param::time("tupdate").above_zero().default(15_000_000),
                /// Weight of the distance from the target, in sixteenths per second.
                alpha: u32 = Param::count("alpha", 0, 32).default(2),
                /// Weight of the delay's change, in sixteenths per second.
                beta: u32 = Param::count("beta", 0, 32).default(20),
                $($middle)*
                /// Drop small packets less often.
                bytemode: bool = Param::flag("bytemode").default(0),
                /// Estimate the delay from the departure rate (RFC 8033 section 4.3) instead of measuring it (section 5.2).
                dq_rate_estimator: bool = Param::flag("dq_rate_estimator").default(0),
            }
        }

        impl $config {
            /// The parameters of a controller.
            fn controller(&self, mtu: u32) -> Params {
                Params {
                    target: self.target_ns,
                    tupdate: super::timer_period(self.tupdate_ns),
                    alpha: self.alpha,
                    beta: self.beta,
                    bytemode: self.bytemode,
                    estimates: self.dq_rate_estimator,
                    mtu,
                }
            }
        }
    };
}
pub(super) use pie_parameters;

pie_parameters! {
    /// PIE (RFC 8033).
    struct PieConfig: "pie" {
        /// Packets waiting.
        limit_packets: u32 = Param::limit_packets().default(1000),
    } controller {
        /// Mark ECN-capable packets instead of dropping them while the probability is at most 10 %.
        ecn: bool = Param::flag("ecn").default(0),
    }
}

pub(super) struct Pie {
    limit: u32,
    /// Highest drop probability at which packets are marked instead (RFC 8033 section 5.1).
    mark_below: u64,
    params: Params,
    state: State,
    queue: ByteQueue,
    random: Xoshiro256PlusPlus,
}

impl Pie {
    pub(super) fn new(config: &PieConfig, link: LinkContext) -> Self {
        Pie {
            limit: config.limit_packets,
            mark_below: if config.ecn { ONE / 10 } else { 0 },
            params: config.controller(link.mtu),
            state: State::default(),
            queue: ByteQueue::default(),
            random: link.random,
        }
    }
}

impl<P: Packet> Qdisc<P> for Pie {
    fn enqueue(&mut self, now: Nanos, place: Place, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        self.state.catch_up(&self.params, now, self.queue.bytes);
        let room = self.queue.packets < self.limit;
        let admission = Admission { now, room, mark_below: self.mark_below, backlog: self.queue.bytes };
        if self.state.admit(&self.params, admission, place, store, &mut self.random, sink) {
            self.queue.push(place, store);
        }
    }

    fn dequeue(&mut self, now: Nanos, store: &mut Store<P>, _sink: &mut dyn Sink<P>) -> Option<Place> {
        self.state.catch_up(&self.params, now, self.queue.bytes);
        let place = self.queue.pop(store)?;
        self.state.departed(&self.params, now, &store[place], self.queue.bytes);
        Some(place)
    }

    fn backlog_bytes(&self) -> u64 {
        self.queue.bytes
    }

    fn backlog_packets(&self) -> u32 {
        self.queue.packets
    }
}

/// Certainty: probabilities are parts of 2^56, as in Linux. A drop probability may be above it.
const ONE: u64 = 1 << 56;

/// A percentage as a probability.
pub(super) const fn percent(percent: u64) -> u64 {
    ONE / 100 * percent
}

/// Time after one without congestion in which nothing is dropped early, in ns (RFC 8033 section 4.4).
const MAX_BURST: Nanos = 150_000_000;

/// The parameters of a controller.
pub(super) struct Params {
    pub(super) target: Nanos,
    pub(super) tupdate: Nanos,
    /// Probability per second of delay, times 16.
    pub(super) alpha: u32,
    pub(super) beta: u32,
    pub(super) bytemode: bool,
    pub(super) estimates: bool,
    pub(super) mtu: u32,
}

/// State that an arriving packet finds.
pub(super) struct Admission {
    /// Time when the packet arrives.
    pub(super) now: Nanos,
    /// The limit allows one more.
    pub(super) room: bool,
    /// Highest probability at which it is marked instead of dropped; 0: never.
    pub(super) mark_below: u64,
    /// Bytes waiting.
    pub(super) backlog: u64,
}

/// The state of one controller.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct State {
    probability: u64,
    /// Probability summed since the last drop, of 2^56 too: makes the gaps between drops more even (section 5.4).
    accumulated: u64,
    /// Sojourn time of the last packet that left; 0 if it left an empty queue.
    delay: Nanos,
    delay_old: Nanos,
    /// Rest of the burst allowance.
    burst: Nanos,
    /// Time when the last packet left; with the estimator, when the present measurement began.
    departed: Option<Nanos>,
    /// Bytes that have left in the present measurement, with the estimator.
    counted: Option<u64>,
    /// Average departure rate, bytes per nanosecond times 2^32; 0: none yet.
    rate: u64,
    /// Time of the last update.
    updated: Nanos,
}

/// A measurement of the departure rate takes so many bytes, and needs as many waiting (RFC 8033 section 4.3,
/// DQ_THRESHOLD, which Linux calls QUEUE_THRESHOLD).
const MEASURED_BYTES: u64 = 16_384;

impl Default for State {
    fn default() -> Self {
        State {
            probability: 0,
            accumulated: 0,
            delay: 0,
            delay_old: 0,
            burst: MAX_BURST,
            departed: None,
            counted: None,
            rate: 0,
            updated: 0,
        }
    }
}

impl State {
    /// Carries out the updates that were due at or before `now`: between packets nothing else changes.
    pub(super) fn catch_up(&mut self, params: &Params, now: Nanos, backlog: u64) {
        while self.updated + params.tupdate <= now {
            self.updated += params.tupdate;
            let before = self.clone();
            self.update(params, backlog);
            if *self == before {
                // Nothing changes before a packet comes or leaves: the rest of the time is skipped.
                self.updated = now - now % params.tupdate;
            }
        }
    }

    /// Drops, marks or passes a packet on arrival (RFC 8033 section 4.1); false: dropped.
    pub(super) fn admit<P: Packet>(
        &mut self,
        params: &Params,
        admission: Admission,
        place: Place,
        store: &mut Store<P>,
        random: &mut Xoshiro256PlusPlus,
        sink: &mut dyn Sink<P>,
    ) -> bool {
        let packet = &mut store[place].packet;
        let mut why = DropReason::Overlimit;
        if admission.room {
            let early = self.drops_early(params, admission.backlog, packet.bytes(), random);
            let spared = self.probability <= admission.mark_below;
            if !early || (spared && mark(admission.now, packet, sink)) {
                return true;
            }
            why = DropReason::Aqm;
        }
        self.accumulated = 0;
        store.discard(admission.now, place, why, sink);
        false
    }

    /// Notes that a packet left at `now` and `backlog` bytes behind (section 4.4: the burst allowance shrinks).
    pub(super) fn departed<P>(&mut self, params: &Params, now: Nanos, item: &Queued<P>, backlog: u64) {
        let passed = if params.estimates {
            self.measure(now, item.len, backlog)
        } else {
            self.delay = if backlog == 0 { 0 } else { now - item.arrived };
            now - self.departed.replace(now).unwrap_or(now)
        };
        self.burst = self.burst.saturating_sub(passed);
    }

    /// Estimates the departure rate (section 4.3); returns the length of a measurement that ends here, or 0.
    fn measure(&mut self, now: Nanos, len: u32, backlog: u64) -> Nanos {
        if backlog >= MEASURED_BYTES && self.counted.is_none() {
            self.counted = Some(0);
            self.departed = Some(now);
        }
        let (Some(counted), Some(began)) = (&mut self.counted, self.departed) else { return 0 };
        *counted += u64::from(len);
        if *counted < MEASURED_BYTES || now == began {
            return 0;
        }
        let rate = (*counted << 32) / (now - began);
        // The weight of a new measurement is an eighth.
        self.rate = if self.rate == 0 { rate } else { self.rate - self.rate / 8 + rate / 8 };
        self.counted = (backlog >= MEASURED_BYTES).then_some(0);
        self.departed = Some(now);
        now - began
    }

    fn drops_early(
        &mut self,
        params: &Params,
        backlog: u64,
        bytes: u32,
        random: &mut Xoshiro256PlusPlus,
    ) -> bool {
        let safe = self.delay < params.target / 2 && self.probability < ONE / 5;
        if self.burst > 0 || safe || backlog < 2 * u64::from(params.mtu) {
            return false;
        }
        let probability = if params.bytemode && bytes <= params.mtu {
            self.probability / u64::from(params.mtu) * u64::from(bytes)
        } else {
            self.probability
        };
        // In 64 bits, as Linux has it: above 850 % every packet is marked, which does not begin the count anew.
        self.accumulated = if probability == 0 { 0 } else { self.accumulated.wrapping_add(probability) };
        if self.accumulated < percent(85) {
            return false;
        }
        if self.accumulated >= percent(850) {
            return true;
        }
        let drop = random.next_u64() >> 8 < probability;
        if drop {
            self.accumulated = 0;
        }
        drop
    }

    /// Takes a step of the control loop (RFC 8033 section 4.2).
    fn update(&mut self, params: &Params, backlog: u64) {
        if params.estimates {
            self.delay = (backlog << 32).checked_div(self.rate).unwrap_or(0);
        }
        // Packets wait, but the last one that left had not waited: that tells nothing of the delay.
        let measured = !(self.delay == 0 && backlog > 0);
        let mut scale = 0;
        if self.probability < ONE / 10 {
            scale = 1;
            let mut below = 100;
            while below <= 1_000_000 && self.probability < ONE / below {
                scale += 2;
                below *= 10;
            }
        }
        // Probability per nanosecond of delay.
        let per_ns =
            |sixteenths: u32| ((u64::from(sixteenths) * (ONE / 1_000_000_000)) >> (4 + scale)) as i64;
        let away = self.delay as i64 - params.target as i64;
        let change = self.delay as i64 - self.delay_old as i64;
        let mut delta = per_ns(params.alpha)
            .saturating_mul(away)
            .saturating_add(per_ns(params.beta).saturating_mul(change));
        if delta > percent(2) as i64 && self.probability >= ONE / 10 {
            delta = percent(2) as i64;
        }
        if self.delay > 250_000_000 {
            delta = delta.saturating_add(percent(2) as i64);
        }
        // Above certainty it goes on growing, as in Linux, which looks for an overflow of 64 bits alone: a queue that was full
        // for long drops all for a while after it has emptied.
        self.probability = self.probability.saturating_add_signed(delta);
        if measured && self.delay == 0 && self.delay_old == 0 {
            self.probability -= self.probability / 64;
        }
        let quiet = self.delay < params.target / 2 && self.delay_old < params.target / 2;
        if quiet && self.probability == 0 && (!params.estimates || self.rate > 0) {
            self.burst = MAX_BURST;
            self.accumulated = 0;
            self.departed = None;
            self.counted = None;
            self.rate = 0;
        }
        self.delay_old = self.delay;
    }
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng as _;

    use super::*;

    #[test]
    fn a_probability_grows_above_certainty_while_a_queue_stays_full() {
        let ms = 1_000_000;
        let (target, tupdate, alpha, beta, mtu) = (15 * ms, 15 * ms, 2, 20, 1500);
        let params = Params { target, tupdate, alpha, beta, bytemode: false, estimates: false, mtu };
        let mut state = State { probability: ONE, delay: 600 * ms, delay_old: 600 * ms, ..State::default() };
        state.update(&params, 750_000);
        // Two percent for the delay above 250 ms, and two at most for the distance from the target.
        assert_eq!(state.probability, ONE + 2 * percent(2));
        state.delay = 0;
        state.update(&params, 0);
        // 0.125 Hz times the distance from the target, and 1.25 Hz times the change.
        let expected = (1.04 - 0.125 * 0.015 - 1.25 * 0.6) * ONE as f64;
        assert!((state.probability as f64 / expected - 1.0).abs() < 1e-3);
    }

    #[test]
    fn packets_that_are_marked_for_ever_leave_the_count_in_64_bits() {
        let ms = 1_000_000;
        let params = Params {
            target: 15 * ms,
            tupdate: 15 * ms,
            alpha: 2,
            beta: 20,
            bytemode: false,
            estimates: false,
            mtu: 1500,
        };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let (probability, accumulated) = (ONE / 10, percent(850));
        let mut state = State { probability, accumulated, delay: 30 * ms, burst: 0, ..State::default() };
        let early = |_: u32| state.drops_early(&params, 30_000, 1500, &mut random);
        // 25,600 % are 2^64: each of some 2,475 packets is marked, then the sum begins anew.
        let marked = (0..2_600).map(early).take_while(|&early| early).count();
        assert_eq!(marked, 2_475);
    }
}
