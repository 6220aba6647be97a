//! DualPI2, the dual-queue coupled AQM for L4S (RFC 9332 appendix A) as Linux carries it out (net/sched/sch_dualpi2.c):
//! drops at dequeue or at enqueue, step marking by sojourn time or by packets.

use std::collections::VecDeque;

use params::{Param, Unit};
use rand_core::RngCore;

use super::drr::truesize;
use super::{ByteQueue, LinkContext, Place, Qdisc, Queued, Sink, Source, Store, mark};
use crate::Xoshiro256PlusPlus;
use crate::packet::{DropReason, Ecn, Nanos, Packet};

// Defaults of dualpi2_reset_default; RFC 9332 appendix A.1. Ranges of tc-dualpi2(8).
params::parameters! {
    /// DualPI2, the dual-queue coupled AQM for L4S (RFC 9332).
    pub struct Dualpi2Config: "dualpi2" {
        /// Packets waiting, over both queues.
        limit_packets: u32 = Param::limit_packets().default(10_000),
        /// Queueing delay aimed at.
        target_ns: u64 = Param::time("target").default(15_000_000),
        /// Time between updates of the base probability.
        tupdate_ns: u64 = Param::time("tupdate").above_zero().default(16_000_000),
        /// Weight of the distance from the target: probability per second of delay, Hz.
        alpha_ppb: u64 = gain("alpha").default(160_000_000),
        /// Weight of the delay's change, in the same unit.
        beta_ppb: u64 = gain("beta").default(3_200_000_000),
        /// Memory of both queues, as Linux accounts for it.
        memlimit_bytes: u64 = Param::bytes("memlimit")
            .range(0, u32::MAX as u64)
            .because("tc has 32 bits for it")
            .otherwise("2 limit (MTU + overhead)"),
        /// L4S packets that waited longer are marked always.
        step_thresh_ns: u64 = Param::time("step_thresh").default(1_000_000),
        /// L4S packets are marked while more packets are left in the L queue, in place of `step_thresh`.
        step_packets: Option<u32> = Param::new("step_packets", Unit::Packets).otherwise("none"),
        /// The step is for L4S packets that find at least so many in the L queue.
        min_qlen_step_packets: u32 = Param::new("min_qlen_step", Unit::Packets).default(0),
        /// L4S packets are marked with so many times the base probability.
        coupling_factor: u32 = Param::count("coupling_factor", 1, 255).default(2),
        /// Drop from both queues when L4S marking saturates (tc: `overflow` keeps marking and lets the limit drop).
        drop_on_overload: bool = Param::flag("drop_on_overload").default(1),
        /// Decide on drops and marks of the base probability when a packet comes, not when it leaves.
        drop_enqueue: bool = Param::flag("drop_enqueue").default(0),
        /// Put all ECN-capable packets into the L queue, also those of ECT(0).
        any_ect: bool = Param::flag("any_ect").default(0),
        /// Share of the classic queue while both have packets, percent.
        classic_protection: u32 = Param::count("classic_protection", 0, 100).default(10),
        /// Cut super-packets of live hosts before they are queued; packets of the model are none.
        split_gso: bool = Param::flag("split_gso").default(1),
    }
    besides {
        /// Largest round trip to be stable at: `alpha`, `beta`, `target` and `tupdate`, where not given, follow from both by RFC 9332.
        Param::time("max_rtt").above_zero().otherwise("6 typical_rtt, if that is given").derives(),
        /// Round trip of most traffic, which the delay aimed at is then.
        Param::time("typical_rtt").above_zero().otherwise("max_rtt / 6, if that is given").derives(),
    }
}

/// A gain of the controller, at most 256 Hz.
const fn gain(name: &'static str) -> Param {
    Param::new(name, Unit::Nano).range(0, 256_000_000_000)
}

/// Certainty: probabilities are parts of 2^32.
const ONE: u64 = 1 << 32;

/// ONE over the square of a second in nanoseconds, in lowest terms: what turns a gain (parts of 10^9, times nanoseconds) into
/// a step of the probability.
const DELTA_TIMES: i128 = 1 << 14;
const DELTA_PER: i128 = 5_i128.pow(18);

/// Step of the base probability for the sum of both gains.
fn delta(gains: i128) -> i128 {
    gains * DELTA_TIMES / DELTA_PER
}

pub(super) struct Dualpi2 {
    config: Dualpi2Config,
    mtu: u32,
    random: Xoshiro256PlusPlus,
    classic: ByteQueue,
    l4s: ByteQueue,
    /// Memory of the packets of both.
    memory: u64,
    /// Whether the step is for each packet of the L queue, where it is not for all.
    stepped: VecDeque<bool>,
    /// Base probability p'.
    base: u64,
    /// Larger of the queues' delays at the last update.
    delay_old: Nanos,
    /// Time of the next update.
    update_next: Nanos,
    /// Byte credit of the classic queue in hundredths; it is served when positive.
    credit: i64,
}

impl Dualpi2 {
    pub(super) fn new(config: &Dualpi2Config, link: LinkContext) -> Self {
        let mut dualpi2 = Dualpi2 {
            update_next: config.tupdate_ns,
            config: config.clone(),
            mtu: link.mtu,
            random: link.random,
            classic: ByteQueue::default(),
            l4s: ByteQueue::default(),
            memory: 0,
            stepped: VecDeque::new(),
            base: 0,
            delay_old: 0,
            credit: 0,
        };
        dualpi2.reset_credit();
        dualpi2
    }

    /// The L queue goes first after an idle time.
    fn reset_credit(&mut self) {
        let classic = i64::from(self.config.classic_protection);
        self.credit = i64::from(self.mtu) * (classic - (100 - classic));
    }

    /// Carries out the updates that were due at or before `now` (RFC 9332 appendix A.1, dualpi2_update); those that move
    /// the base probability alike, at once.
    fn catch_up<P>(&mut self, now: Nanos, store: &Store<P>) {
        while self.update_next <= now {
            let at = self.update_next;
            let waited = |queue: &ByteQueue| queue.first(store).map_or(0, |item| at - item.arrived.min(at));
            let delay = waited(&self.classic).max(waited(&self.l4s));
            let away = i128::from(delay) - i128::from(self.config.target_ns);
            let change = i128::from(delay) - i128::from(self.delay_old);
            let gains = away * i128::from(self.config.alpha_ppb) + change * i128::from(self.config.beta_ppb);
            // Each update from here on sees the delay grow by as much: by nothing while no packet waits, or by its own period.
            let growth = if self.waiting() == 0 { 0 } else { self.config.tupdate_ns };
            let alike = if change == i128::from(growth) { self.updates_alike(gains, growth) } else { 1 };
            let times = alike.min((now - at) / self.config.tupdate_ns + 1);
            let step = delta(gains).clamp(-i128::from(ONE), i128::from(ONE));
            let base = i128::from(self.base) + step * i128::from(times);
            self.base = base.clamp(0, i128::from(self.most())) as u64;
            self.delay_old = delay + growth * (times - 1);
            self.update_next += times * self.config.tupdate_ns;
        }
    }

    /// Number of updates, this one included, that move the base probability by as much as this one, or that find it at
    /// an end of its range and leave it there, when the delay grows by `growth` nanoseconds from one to the next.
    fn updates_alike(&self, gains: i128, growth: Nanos) -> u64 {
        let slope = i128::from(growth) * i128::from(self.config.alpha_ppb) * DELTA_TIMES;
        let delta = delta(gains);
        if slope == 0 || delta >= 0 && self.base == self.most() {
            return u64::MAX;
        }
        let gains = gains * DELTA_TIMES;
        // As divisions cut towards zero, a negative delta stays until its own quotient is passed, another until the next one is
        // reached.
        let left = match delta {
            ..0 if self.base == 0 => DELTA_PER - 1 - gains,
            ..0 => delta * DELTA_PER - gains,
            _ => (delta + 1) * DELTA_PER - 1 - gains,
        };
        u64::try_from(left / slope).map_or(u64::MAX, |more| more.saturating_add(1))
    }

    /// Largest base probability.
    fn most(&self) -> u64 {
        if self.config.drop_on_overload { ONE } else { ONE / u64::from(self.config.coupling_factor) }
    }

    /// Packets waiting in both queues.
    fn waiting(&self) -> u32 {
        self.classic.packets + self.l4s.packets
    }

    fn hit(&mut self, probability: u64) -> bool {
        (self.random.next_u64() >> 32) < probability
    }

    /// Whether a packet that comes, or was just taken from its queue, is to be dropped; it may be marked instead.
    fn drops<P: Packet>(&mut self, now: Nanos, packet: &mut P, sink: &mut dyn Sink<P>) -> bool {
        if self.classic.bytes + self.l4s.bytes < 2 * u64::from(self.mtu) {
            return false;
        }
        let coupled = self.base * u64::from(self.config.coupling_factor);
        let overload = coupled > ONE;
        if !self.is_l4s(packet) {
            // The square of the base probability, as two rolls.
            let hit = self.hit(self.base) && self.hit(self.base);
            return hit && (overload || !mark(now, packet, sink));
        }
        if overload && self.config.drop_on_overload && self.hit(self.base) && self.hit(self.base) {
            return true;
        }
        if overload || self.hit(coupled) {
            mark(now, packet, sink);
        }
        false
    }

    /// Whether a packet is for the L queue, which takes ECT(1) and CE (RFC 9331 section 5.1).
    fn is_l4s(&self, packet: &impl Packet) -> bool {
        match packet.ecn() {
            Ecn::NotEct => false,
            Ecn::Ect0 => self.config.any_ect,
            Ecn::Ect1 | Ecn::Ce => true,
        }
    }

    /// Marks a packet just taken from the L queue if it waited for too long, or too many packets wait behind it.
    fn step<P: Packet>(&self, now: Nanos, item: &mut Queued<P>, sink: &mut dyn Sink<P>) {
        let beyond = match self.config.step_packets {
            Some(packets) => self.l4s.packets > packets,
            None => now - item.arrived > self.config.step_thresh_ns,
        };
        if beyond && item.packet.ecn() != Ecn::Ce {
            mark(now, &mut item.packet, sink);
        }
    }
}

impl<P: Packet> Qdisc<P> for Dualpi2 {
    fn enqueue(&mut self, now: Nanos, place: Place, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        self.catch_up(now, store);
        let memory = self.memory + truesize(store[place].len);
        if self.waiting() >= self.config.limit_packets || memory > self.config.memlimit_bytes {
            store.discard(now, place, DropReason::Overlimit, sink);
            return;
        }
        // A mark made here does not put a packet into the other queue.
        let is_l4s = self.is_l4s(&store[place].packet);
        if self.config.drop_enqueue && self.drops(now, &mut store[place].packet, sink) {
            store.discard(now, place, DropReason::Aqm, sink);
            return;
        }
        self.memory = memory;
        if !is_l4s {
            self.classic.push(place, store);
            return;
        }
        if self.config.min_qlen_step_packets > 0 {
            self.stepped.push_back(self.l4s.packets >= self.config.min_qlen_step_packets);
        }
        self.l4s.push(place, store);
    }

    fn dequeue(&mut self, now: Nanos, store: &mut Store<P>, sink: &mut dyn Sink<P>) -> Option<Place> {
        self.catch_up(now, store);
        loop {
            let classic_waits = self.classic.packets > 0;
            let l4s_waits = self.l4s.packets > 0;
            let from_l4s = l4s_waits && (!classic_waits || self.credit <= 0);
            let queue = if from_l4s { &mut self.l4s } else { &mut self.classic };
            let Some(place) = queue.pop(store) else {
                self.reset_credit();
                return None;
            };
            self.memory -= truesize(store[place].len);
            let in_step = from_l4s && self.stepped.pop_front().unwrap_or(true);
            if !self.config.drop_enqueue && self.drops(now, &mut store[place].packet, sink) {
                store.discard(now, place, DropReason::Aqm, sink);
                continue;
            }
            let item = &mut store[place];
            // Credit moves only while both queues compete.
            let share = i64::from(self.config.classic_protection);
            let credit = match (from_l4s, classic_waits, l4s_waits) {
                (true, true, _) => share,
                (false, _, true) => share - 100,
                _ => 0,
            };
            self.credit += credit * i64::from(item.len);
            if in_step {
                self.step(now, item, sink);
            }
            if self.waiting() == 0 {
                self.reset_credit();
            }
            return Some(place);
        }
    }

    fn backlog_bytes(&self) -> u64 {
        self.classic.bytes + self.l4s.bytes
    }

    fn backlog_packets(&self) -> u32 {
        self.waiting()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    use rand_core::SeedableRng;

    use super::*;

    /// Gains, target, period, first base probability, arrival of a packet that waits (none: the queue is empty).
    type Drawn = (u64, u64, u64, u64, u64, Option<u64>, bool);

    fn drawn() -> impl Strategy<Value = Drawn> {
        let gain = || prop_oneof![Just(0), 1..1_000_000_000_u64, 1..256_000_000_000_u64];
        let arrival = prop::option::of(0..5_000_000_u64);
        (gain(), gain(), 0..1_000_000_u64, 1_000..100_000_u64, 0..=ONE / 2, arrival, any::<bool>())
    }

    /// A queue of such parameters, with the packet in it.
    fn queue((alpha, beta, target, tupdate, base, arrival, overload): Drawn) -> (Dualpi2, Store<()>) {
        let config = Dualpi2Config {
            limit_packets: 10,
            target_ns: target,
            tupdate_ns: tupdate,
            alpha_ppb: alpha,
            beta_ppb: beta,
            memlimit_bytes: 1 << 20,
            step_thresh_ns: 1_000_000,
            step_packets: None,
            min_qlen_step_packets: 0,
            coupling_factor: 2,
            drop_on_overload: overload,
            drop_enqueue: false,
            any_ect: false,
            classic_protection: 10,
            split_gso: true,
        };
        let random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut dualpi2 = Dualpi2::new(&config, LinkContext { mtu: 1514, rate_bps: Some(1_000_000), random });
        dualpi2.base = base;
        let mut store = Store::default();
        if let Some(arrived) = arrival {
            dualpi2.catch_up(arrived, &store);
            let place = store.put(Queued { packet: (), arrived, len: 1514 });
            dualpi2.classic.push(place, &mut store);
        }
        (dualpi2, store)
    }

    /// Base probability, delay at the last update and time of the next one after 10 ms; with `each`, asked for at each.
    fn after(drawn: Drawn, each: bool) -> (u64, Nanos, Nanos) {
        let (mut dualpi2, store) = queue(drawn);
        let end = 10_000_000;
        while each && dualpi2.update_next <= end {
            dualpi2.catch_up(dualpi2.update_next, &store);
        }
        dualpi2.catch_up(end, &store);
        (dualpi2.base, dualpi2.delay_old, dualpi2.update_next)
    }

    #[test]
    fn updates_at_once_do_what_they_do_one_by_one() {
        let config = Config { cases: 2000, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        runner
            .run(&drawn(), |drawn| {
                prop_assert_eq!(after(drawn, false), after(drawn, true));
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn updates_of_years_take_no_time() {
        let years = 100_000_000_000_000_000;
        for (alpha_ppb, beta_ppb) in [(0, 0), (0, 1), (1, 0), (160_000_000, 3_200_000_000)] {
            let (mut dualpi2, store) = queue((alpha_ppb, beta_ppb, 15_000_000, 1_000, 0, Some(0), true));
            dualpi2.catch_up(years, &store);
            assert!(dualpi2.update_next > years);
        }
    }
}
