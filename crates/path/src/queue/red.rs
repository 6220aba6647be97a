//! RED (Floyd and Jacobson 1993) as Linux carries it out (net/sched/sch_red.c, include/net/red.h), adaptive or nonlinear on request.
//!
//! One difference: after an idle time the average decays by the formula of section 11 of the paper, where Linux looks it
//! up in a table of some 256 entries.

use params::{Param, ParamError, Unit};
use rand_core::RngCore;

use super::{ByteQueue, LinkContext, Place, Qdisc, Sink, Source, Store, mark};
use crate::Xoshiro256PlusPlus;
use crate::packet::{DropReason, Nanos, Packet};

// Defaults of `tc` (iproute2 tc/q_red.c), and what it derives from the limit.
params::parameters! {
    /// RED (Floyd and Jacobson 1993).
    pub struct RedConfig: "red", check thresholds {
        /// Bytes waiting.
        limit_bytes: u64 = Param::limit_bytes().required(),
        /// Average queue below which nothing is dropped.
        min_bytes: u64 = Param::bytes("min").otherwise("a third of max"),
        /// Average queue from which everything is dropped, above min.
        max_bytes: u64 = Param::bytes("max").otherwise("3 min, or a quarter of the limit"),
        /// Size of an average packet.
        avpkt_bytes: u64 = Param::packet_bytes("avpkt", 1, 65_535).default(1000),
        /// Packets of a burst that passes unharmed: `tc` derives the averaging weight from it.
        burst_packets: u64 = Param::new("burst", Unit::Packets).otherwise("(2 min + max) / (3 avpkt)"),
        /// Drop probability when the average reaches max.
        probability_ppb: u32 = Param::new("probability", Unit::Ppb).default(20_000_000),
        /// Rate from which the average after an idle time is computed.
        bandwidth_bps: u64 = Param::rate("bandwidth").default(10_000_000),
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = Param::flag("ecn").default(0),
        /// Drop ECN-capable packets too when the average is at max.
        harddrop: bool = Param::flag("harddrop").default(0),
        /// Let packets that cannot be marked pass where they would be dropped, with `ecn`.
        nodrop: bool = Param::flag("nodrop").default(0),
        /// Adapt the probability between 1 % and 50 % (Floyd, Gummadi, Shenker 2001).
        adaptive: bool = Param::flag("adaptive").default(0),
        /// Probability of 1.5 times `probability` times the square of (average - min) / (max - min) (NLRED: Zhou, Yeung, Li 2006).
        nonlinear: bool = Param::flag("nonlinear").default(0),
    }
}

/// Checks what has to hold between the parameters.
fn thresholds(red: &RedConfig) -> Result<(), ParamError> {
    if red.min_bytes >= red.max_bytes {
        let (min, max) = (red.min_bytes, red.max_bytes);
        return Err(ParamError::new("min_bytes", min, format!("below max_bytes, {max}")));
    }
    if red.nodrop && !red.ecn {
        return Err(ParamError::new("nodrop", true, "false, or ecn true too"));
    }
    Ok(())
}

/// Time between adaptations, of 0.5 s by the paper (section 4) and by Linux's timer (red_adaptative_timer).
const ADAPT: Nanos = super::timer_period(500_000_000);

/// A billion: probabilities are parts of it.
const ONE: u64 = 1_000_000_000;

pub(super) struct Red {
    config: RedConfig,
    queue: ByteQueue,
    random: Xoshiro256PlusPlus,
    /// Average number of bytes that wait.
    average: Average,
    /// Packets since the last drop while the average is between the thresholds. None: below, or above.
    count: Option<u64>,
    /// Uniform draw of 2^32 that decides after how many packets the next one is dropped.
    draw: u64,
    probability: u64,
    adapt_next: Nanos,
}

/// The average of a queue's length, which decays while it is empty.
pub(super) struct Average {
    /// The averaging weight is 2^-`weight_log`.
    pub(super) weight_log: u32,
    /// Average times 2^`weight_log`.
    pub(super) scaled: u64,
    /// Time when the queue became empty.
    idle_since: Option<Nanos>,
    /// Time in which an average packet is sent.
    packet_time: Nanos,
}

impl Average {
    /// The average of a queue whose packets have so many bytes on average, and are sent at such a rate.
    pub(super) fn new(weight_log: u32, avpkt_bytes: u64, bandwidth_bps: u64) -> Average {
        let packet_time = (avpkt_bytes * 8 * ONE / bandwidth_bps).max(1);
        Average { weight_log, scaled: 0, idle_since: Some(0), packet_time }
    }

    /// Takes in the length that an arriving packet finds.
    pub(super) fn update(&mut self, now: Nanos, length: u64) {
        self.scaled = if self.idle_since.is_some() {
            self.decayed(now)
        } else {
            self.scaled + length - (self.scaled >> self.weight_log)
        };
        self.idle_since = None;
    }

    /// The queue is empty.
    pub(super) fn idle(&mut self, now: Nanos) {
        self.idle_since.get_or_insert(now);
    }

    /// The average as of `now`. While the queue is empty it decays as if small packets had arrived.
    fn decayed(&self, now: Nanos) -> u64 {
        let Some(since) = self.idle_since else { return self.scaled };
        let mut packets = (now - since) / self.packet_time;
        // (1 - weight) ^ packets, of 2^32, by squaring.
        let (mut factor, mut power) = (1_u64 << 32, (1_u64 << 32) - (1_u64 << (32 - self.weight_log)));
        while packets > 0 && factor > 0 {
            if packets & 1 == 1 {
                factor = (factor * power) >> 32;
            }
            power = (power * power) >> 32;
            packets >>= 1;
        }
        ((u128::from(self.scaled) * u128::from(factor)) >> 32) as u64
    }
}

impl Red {
    pub(super) fn new(config: &RedConfig, link: LinkContext) -> Self {
        let weight = weight_log(config.min_bytes, config.burst_packets, config.avpkt_bytes);
        Red {
            average: Average::new(weight, config.avpkt_bytes, config.bandwidth_bps),
            probability: u64::from(config.probability_ppb),
            config: config.clone(),
            queue: ByteQueue::default(),
            random: link.random,
            count: None,
            draw: 0,
            adapt_next: ADAPT,
        }
    }

    fn adapt(&mut self, now: Nanos) {
        if !self.config.adaptive {
            return;
        }
        while self.adapt_next <= now {
            let average = self.average.decayed(self.adapt_next) >> self.average.weight_log;
            let fifth = (self.config.max_bytes - self.config.min_bytes) / 5;
            let before = self.probability;
            if average > self.config.min_bytes + 3 * fifth && self.probability <= ONE / 2 {
                self.probability += (ONE / 100).min(self.probability / 4);
            } else if average < self.config.min_bytes + 2 * fifth && self.probability >= ONE / 100 {
                self.probability = self.probability / 10 * 9;
            }
            self.adapt_next += ADAPT;
            let is_low = average < self.config.min_bytes + 2 * fifth;
            if self.probability == before
                && (is_low || self.average.idle_since.is_none())
                && self.adapt_next <= now
            {
                // The average stays or falls, so that nothing changes any more: the rest of the time is skipped.
                self.adapt_next += (now - self.adapt_next) / ADAPT * ADAPT;
            }
        }
    }

    /// Whether the packet passes, is to be marked or dropped, or is to be dropped even if it could be marked.
    fn verdict(&mut self) -> Verdict {
        let config = &self.config;
        let Average { weight_log, scaled: average, .. } = self.average;
        if average < config.min_bytes << weight_log {
            self.count = None;
            return Verdict::Pass;
        }
        if average >= config.max_bytes << weight_log {
            self.count = None;
            return Verdict::Forced;
        }
        let above = (average - (config.min_bytes << weight_log)) >> weight_log;
        let range = config.max_bytes - config.min_bytes;
        match self.count {
            None => {
                self.count = Some(0);
                self.draw = self.random.next_u64() >> 32;
                Verdict::Pass
            }
            // (avg - min) * count >= U * (max - min) / probability, U uniform in [0, 1): the gaps between drops are
            // uniformly distributed (section 8, method 2).
            Some(count) => {
                let weight = if config.nonlinear { squared(above, range) } else { u128::from(above) << 16 };
                let left = (weight * u128::from(count + 1) * u128::from(self.probability)) << 16;
                if left >= u128::from(self.draw) * u128::from(range) * u128::from(ONE) {
                    self.count = Some(0);
                    self.draw = self.random.next_u64() >> 32;
                    Verdict::Early
                } else {
                    self.count = Some(count + 1);
                    Verdict::Pass
                }
            }
        }
    }
}

/// Stand-in for `above` of `range` bytes where the probability is not linear, in 1/2^16 byte. With the factor 1.5
/// all averages between the thresholds together meet as many drops as they do on the line (section 3.1 of the paper).
fn squared(above: u64, range: u64) -> u128 {
    ((u128::from(above) * u128::from(above) * 3) << 15) / u128::from(range)
}

enum Verdict {
    Pass,
    Early,
    Forced,
}

impl<P: Packet> Qdisc<P> for Red {
    fn enqueue(&mut self, now: Nanos, place: Place, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        self.adapt(now);
        self.average.update(now, self.queue.bytes);
        let dropped = match self.verdict() {
            Verdict::Pass => false,
            Verdict::Forced if self.config.harddrop => true,
            Verdict::Early | Verdict::Forced => {
                !(self.config.ecn && (mark(now, &mut store[place].packet, sink) || self.config.nodrop))
            }
        };
        if dropped {
            store.discard(now, place, DropReason::Aqm, sink);
        } else if self.queue.bytes + u64::from(store[place].len) > self.config.limit_bytes {
            store.discard(now, place, DropReason::Overlimit, sink);
        } else {
            self.queue.push(place, store);
            return;
        }
        if self.queue.items.is_empty() {
            self.average.idle(now);
        }
    }

    fn dequeue(&mut self, now: Nanos, store: &mut Store<P>, _sink: &mut dyn Sink<P>) -> Option<Place> {
        self.adapt(now);
        let place = self.queue.pop(store);
        if self.queue.items.is_empty() {
            self.average.idle(now);
        }
        place
    }

    fn backlog_bytes(&self) -> u64 {
        self.queue.bytes
    }

    fn backlog_packets(&self) -> u32 {
        self.queue.packets
    }
}

/// The smallest weight 2^-n with which a burst that starts at an empty queue does not bring the average to `min`:
/// burst + 1 - min / avpkt <= (1 - (1 - W)^burst) / W (section 6 of the paper; iproute2 tc_red_eval_ewma).
pub(super) fn weight_log(min_bytes: u64, burst_packets: u64, avpkt_bytes: u64) -> u32 {
    let burst = burst_packets as f64;
    let needed = burst + 1.0 - min_bytes as f64 / avpkt_bytes as f64;
    let fits = |log: &u32| {
        let weight = 1.0 / f64::from(1 << log);
        needed <= (1.0 - libm::pow(1.0 - weight, burst)) / weight
    };
    (1..31).find(fits).unwrap_or(31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 3.1 of the paper: the square of the excess, with the factor at which both curves enclose the same area.
    #[test]
    fn the_nonlinear_curve_is_a_square_over_the_same_area() {
        let range = 30_000;
        assert_eq!(squared(range, range), (u128::from(range) * 3) << 15, "1.5 times `probability` at max");
        assert_eq!(squared(range / 2, range) * 4, squared(range, range));
        assert_eq!(squared(0, range), 0);
        let area = |curve: fn(u64, u64) -> u128| (0..=range).map(|above| curve(above, range)).sum::<u128>();
        let line = area(|above, _| u128::from(above) << 16);
        assert!(area(squared).abs_diff(line) * 1000 < line);
    }

    /// Values that `tc qdisc add ... red` derives (iproute2: burst 20 and 55 with min 30000 and avpkt 1000 is the
    /// example of tc-red(8), whose weight of 1 / 2^n must let the burst pass).
    #[test]
    fn the_weight_lets_the_burst_pass() {
        for burst in [35, 55, 100, 300] {
            let log = weight_log(30_000, burst, 1000);
            // The average after `burst` packets of 1000 bytes that arrive at once, one by one.
            let average = |log: u32| {
                let weight = 1.0 / f64::from(1 << log);
                (1..=burst).fold(0.0, |avg, queue| avg + weight * (queue as f64 * 1000.0 - avg))
            };
            assert!(average(log) <= 30_000.0, "burst {burst}: {} with 2^-{log}", average(log));
            assert!(average(log - 1) > 30_000.0, "burst {burst}: 2^-{} would do", log - 1);
        }
    }
}
