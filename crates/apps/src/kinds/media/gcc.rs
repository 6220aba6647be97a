//! Google Congestion Control (draft-ietf-rmcat-gcc-02), both controllers at the sender: a rate from the gradient of the delay, and one
//! from losses, of which the smaller holds. Marks mean nothing to it.

use std::collections::VecDeque;

use super::window::Recent;
use super::{Acked, Control, Feedback, Media};
use crate::Nanos;

/// burst_time: packets sent or received within it are a group. Numbers are those of table 1 and of the sections named.
const BURST_TIME: Nanos = 5_000_000;
/// Variance q of the state's noise.
const STATE_NOISE: f64 = 1e-3;
/// e(0), the variance of the estimate at first.
const FIRST_VARIANCE: f64 = 0.1;
/// chi, of the filter of the noise's variance, from [0.001, 0.1]; which of these is ours.
const CHI: f64 = 0.01;
/// K, the groups of which the highest rate is taken. The draft has no number; it is ours.
const RATE_GROUPS: usize = 60;
/// Groups by whose number the estimate is multiplied before it is compared. The draft compares the estimate of one group, which at groups
/// of 5 ms no queue of a link lets exceed the least threshold; what browsers compare is the delay over so many groups.
const GAIN_GROUPS: u32 = 60;
/// del_var_th(0) and its bounds, ms.
const THRESHOLD: f64 = 12.5;
const THRESHOLDS: [f64; 2] = [6.0, 600.0];
/// An estimate farther from the threshold than this leaves it as it is, ms.
const FAR: f64 = 15.0;
/// overuse_time_th, ms.
const OVERUSE_TIME: f64 = 10.0;
/// K_u and K_d, of the threshold upwards and downwards.
const K_U: f64 = 0.01;
const K_D: f64 = 0.000_18;
/// beta, of the incoming rate after over-use.
const BETA: f64 = 0.85;
/// eta, the largest increase in a second.
const ETA: f64 = 1.08;
/// T: time over which the incoming rate is measured.
const RATE_TIME: Nanos = 500_000_000;
/// Smoothing factor of the rates at which there was over-use.
const SMOOTHING: f64 = 0.95;
/// Largest target, as a multiple of the incoming rate.
const HEAD_ROOM: f64 = 1.5;
/// Time over which a share of losses is taken. The draft takes it of each report of RTCP; it is ours.
const LOSS_TIME: Nanos = 200_000_000;
/// Shares of losses below which the rate grows, and above which it shrinks (section 6).
const FEW_LOSSES: f64 = 0.02;
const MANY_LOSSES: f64 = 0.1;
/// Increase where there are few losses.
const LOSS_INCREASE: f64 = 1.05;

/// Congestion control of both parts.
pub(super) struct Gcc {
    min_bps: f64,
    max_bps: f64,
    filter: Filter,
    detector: Detector,
    rate: RateControl,
    losses: LossControl,
    received: Recent,
    began: Option<Nanos>,
    rtt_ms: f64,
    /// Least one-way delay so far, and the newest.
    delays: Option<(Nanos, Nanos)>,
    /// When the group of packets that leave together began, and its bits so far.
    burst: (Nanos, f64),
}

/// Groups of packets, and the gradient of their delay (sections 5.1 to 5.3).
#[derive(Default)]
struct Filter {
    last: Option<Group>,
    present: Option<Group>,
    /// Number of the newest packet; those that are overtaken are left out.
    newest: Option<u64>,
    /// Estimate m of the gradient, ms a group, and its variance e.
    estimate: f64,
    variance: Option<f64>,
    noise: f64,
    departures: VecDeque<f64>,
    groups: u32,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    began: Nanos,
    departed: Nanos,
    arrived: Nanos,
}

/// A new estimate of the gradient, after a time in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Estimate {
    gradient: f64,
    /// Times from the departure, and from the arrival, of the group before, ms.
    departure: f64,
    arrival: f64,
    groups: u32,
}

impl Filter {
    /// A packet has arrived; the estimate, if a group is complete with it.
    fn take(&mut self, packet: &Acked) -> Option<Estimate> {
        if self.newest.is_some_and(|newest| packet.number < newest) {
            return None;
        }
        self.newest = Some(packet.number);
        let alone = Group { began: packet.sent, departed: packet.sent, arrived: packet.arrived };
        let Some(present) = &mut self.present else {
            self.present = Some(alone);
            return None;
        };
        let waits = ms(packet.arrived, present.arrived) - ms(packet.sent, present.departed);
        let is_burst = packet.arrived - present.arrived < BURST_TIME && waits < 0.0;
        if packet.sent - present.began < BURST_TIME || is_burst {
            (present.departed, present.arrived) = (packet.sent, packet.arrived);
            return None;
        }
        let complete = *present;
        *present = alone;
        let before = self.last.replace(complete)?;
        let departure = ms(complete.departed, before.departed);
        let arrival = ms(complete.arrived, before.arrived);
        self.update(arrival - departure, departure);
        Some(Estimate { gradient: self.estimate, departure, arrival, groups: self.groups })
    }

    /// The Kalman filter takes the delay variation of a group, ms.
    fn update(&mut self, variation: f64, departure: f64) {
        self.groups += 1;
        self.departures.push_back(departure);
        if self.departures.len() > RATE_GROUPS {
            self.departures.pop_front();
        }
        // 1000 f_max is the highest rate in a second.
        let least = self.departures.iter().copied().fold(f64::INFINITY, f64::min).max(0.001);
        let alpha = libm::pow(1.0 - CHI, 30.0 * least / 1000.0);
        let noise = self.noise.max(1.0);
        let innovation = variation - self.estimate;
        let bounded = innovation.min(3.0 * libm::sqrt(noise));
        self.noise = (alpha * noise + (1.0 - alpha) * bounded * bounded).max(1.0);
        let predicted = self.variance.unwrap_or(FIRST_VARIANCE) + STATE_NOISE;
        let gain = predicted / (self.noise + predicted);
        self.estimate += innovation * gain;
        self.variance = Some((1.0 - gain) * predicted);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Normal,
    Overuse,
    Underuse,
}

/// The over-use detector (section 5.4).
struct Detector {
    threshold: f64,
    over: f64,
    last: f64,
    signal: Signal,
}

impl Detector {
    fn update(&mut self, estimate: &Estimate) {
        let value = estimate.gradient * f64::from(estimate.groups.min(GAIN_GROUPS));
        if value > self.threshold {
            self.over += estimate.departure;
            if self.over > OVERUSE_TIME && value >= self.last {
                self.signal = Signal::Overuse;
            }
        } else {
            self.over = 0.0;
            self.signal = if value < -self.threshold { Signal::Underuse } else { Signal::Normal };
        }
        self.last = value;
        let distance = libm::fabs(value) - self.threshold;
        if distance <= FAR {
            let k = if distance < 0.0 { K_D } else { K_U };
            // Groups at a long distance say no more of it than those of 100 ms.
            self.threshold += estimate.arrival.clamp(0.0, 100.0) * k * distance;
            self.threshold = self.threshold.clamp(THRESHOLDS[0], THRESHOLDS[1]);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Hold,
    Increase,
    Decrease,
}

/// The rate control by delay (section 5.5).
struct RateControl {
    state: State,
    bps: f64,
    updated: Option<Nanos>,
    /// Mean and variance of the incoming rate at over-use, and of how many.
    maximum: Option<(f64, f64, u32)>,
}

impl RateControl {
    fn update(&mut self, now: Nanos, signal: Signal, incoming: f64, rtt_ms: f64) {
        let since = self.updated.replace(now).map_or(0.0, |updated| ms(now, updated));
        self.state = match (signal, self.state) {
            (Signal::Overuse, _) => State::Decrease,
            (Signal::Normal, State::Hold) => State::Increase,
            (Signal::Normal, State::Decrease) => State::Hold,
            (Signal::Normal, State::Increase) => State::Increase,
            (Signal::Underuse, _) => State::Hold,
        };
        match self.state {
            State::Hold => {}
            State::Decrease => {
                self.note_maximum(incoming);
                self.bps = self.bps.min(BETA * incoming);
            }
            State::Increase => {
                let grown = if self.is_near(incoming) {
                    let frame = self.bps / 30.0;
                    let packet = frame / libm::ceil(frame / 9600.0).max(1.0);
                    self.bps + (0.5 * (since / (100.0 + rtt_ms)).min(1.0) * packet).max(1000.0)
                } else {
                    self.bps * libm::pow(ETA, (since / 1000.0).min(1.0))
                };
                self.bps = grown.min((HEAD_ROOM * incoming).max(self.bps));
            }
        }
    }

    fn note_maximum(&mut self, incoming: f64) {
        self.maximum = Some(match self.maximum {
            None => (incoming, 0.0, 1),
            Some((mean, variance, count)) => {
                let far = incoming - mean;
                let mean = mean + (1.0 - SMOOTHING) * far;
                (mean, SMOOTHING * variance + (1.0 - SMOOTHING) * far * far, count + 1)
            }
        });
    }

    /// Whether the rate is close to those at which there was over-use. Above them, they are forgotten.
    fn is_near(&mut self, incoming: f64) -> bool {
        let Some((mean, variance, count)) = self.maximum else { return false };
        if count < 2 {
            return false;
        }
        let far = 3.0 * libm::sqrt(variance);
        if incoming > mean + far {
            self.maximum = None;
        }
        libm::fabs(incoming - mean) <= far
    }
}

/// The control by losses (section 6).
struct LossControl {
    bps: f64,
    lost: u64,
    known: u64,
    next: Nanos,
}

impl LossControl {
    fn update(&mut self, now: Nanos, feedback: &Feedback<'_>, most: f64) {
        self.lost += feedback.lost;
        self.known += feedback.lost + feedback.acked.len() as u64;
        if now < self.next || self.known == 0 {
            return;
        }
        let share = self.lost as f64 / self.known as f64;
        if share < FEW_LOSSES {
            self.bps = (self.bps * LOSS_INCREASE).min(most);
        } else if share > MANY_LOSSES {
            self.bps *= 1.0 - 0.5 * share;
        }
        (self.lost, self.known, self.next) = (0, 0, now + LOSS_TIME);
    }
}

impl Gcc {
    pub(super) fn new(media: &Media) -> Gcc {
        let bps = media.start_bps as f64;
        Gcc {
            min_bps: media.min_bps as f64,
            max_bps: media.max_bps as f64,
            filter: Filter::default(),
            detector: Detector { threshold: THRESHOLD, over: 0.0, last: 0.0, signal: Signal::Normal },
            rate: RateControl { state: State::Increase, bps, updated: None, maximum: None },
            losses: LossControl { bps, lost: 0, known: 0, next: 0 },
            received: Recent::new(RATE_TIME),
            began: None,
            rtt_ms: 0.0,
            delays: None,
            burst: (0, 0.0),
        }
    }
}

impl Control for Gcc {
    fn on_sent(&mut self, _now: Nanos, _bytes: u32, _flight: u64) {}

    fn on_feedback(&mut self, now: Nanos, feedback: &Feedback<'_>, _queued: u64) {
        for packet in feedback.acked {
            self.began.get_or_insert(packet.arrived);
            self.received.add(packet.arrived, packet.bytes.into());
            let delay = packet.arrived - packet.sent;
            self.delays = Some((self.delays.map_or(delay, |(least, _)| least.min(delay)), delay));
            if let Some(estimate) = self.filter.take(packet) {
                self.detector.update(&estimate);
            }
        }
        if let Some(rtt) = feedback.rtt {
            self.rtt_ms = ms(rtt, 0);
        }
        let newest = feedback.acked.last().map(|packet| packet.arrived);
        if newest.zip(self.began).is_some_and(|(newest, began)| newest >= began + RATE_TIME) {
            self.rate.update(now, self.detector.signal, self.received.bps(), self.rtt_ms);
            self.rate.bps = self.rate.bps.clamp(self.min_bps, self.max_bps);
        }
        self.losses.update(now, feedback, self.max_bps);
        self.losses.bps = self.losses.bps.clamp(self.min_bps, self.max_bps);
    }

    /// Section 4: as many packets at a time as the target rate sends in burst_time.
    fn pace(&mut self, now: Nanos, bytes: u32) -> Nanos {
        let (began, bits) = &mut self.burst;
        let target = self.rate.bps.min(self.losses.bps);
        if now >= *began + BURST_TIME {
            // What the last group exceeded its share by is paid by the time since then.
            *bits = (*bits - target * ms(now, *began) / 1000.0).max(0.0);
            *began = now;
        }
        *bits += f64::from(bytes) * 8.0;
        let share = target * ms(BURST_TIME, 0) / 1000.0;
        if *bits < share { 0 } else { ((*bits / share) as Nanos).max(1) * BURST_TIME - (now - *began) }
    }

    fn target_bps(&self) -> u64 {
        self.rate.bps.min(self.losses.bps) as u64
    }

    fn queue_delay(&self) -> Nanos {
        self.delays.map_or(0, |(least, newest)| newest - least)
    }
}

/// From one time to another, ms.
fn ms(later: Nanos, earlier: Nanos) -> f64 {
    (later as f64 - earlier as f64) / 1e6
}

#[cfg(test)]
mod tests {
    use super::super::tests::media;
    use super::*;

    const MS: Nanos = 1_000_000;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found}, expected {expected}");
    }

    fn packet(number: u64, sent_ms: u64, arrived_ms: u64) -> Acked {
        Acked { number, sent: sent_ms * MS, arrived: arrived_ms * MS, bytes: 1200 }
    }

    #[test]
    fn packets_of_a_burst_are_a_group() {
        let mut filter = Filter::default();
        // Two packets within 5 ms; a third 33 ms later; a fourth another 33 ms, 3 ms more on its way.
        for one in [packet(0, 0, 50), packet(1, 3, 53), packet(2, 33, 83)] {
            assert_eq!(filter.take(&one), None);
        }
        let first = filter.take(&packet(3, 66, 119)).expect("two groups are complete");
        assert_eq!((first.departure, first.arrival, first.gradient), (30.0, 30.0, 0.0));
        assert_eq!(filter.take(&packet(2, 33, 130)), None, "overtaken");
        // Sent 33 ms later, and comes with the one before: the same group.
        assert_eq!(filter.take(&packet(4, 99, 121)), None);
        let second = filter.take(&packet(5, 132, 185)).expect("a group");
        assert_eq!((second.departure, second.arrival), (66.0, 38.0));
    }

    #[test]
    fn the_filter_is_the_kalman_filter_of_the_draft() {
        let mut filter = Filter::default();
        filter.update(2.0, 30.0);
        // z = 2; the noise stays at its least: 0.99^(0.9) x 1 + (1 - that) x 4 is above it.
        let alpha = libm::pow(0.99, 0.9);
        let noise = alpha + (1.0 - alpha) * 4.0;
        let gain = 0.101 / (noise + 0.101);
        near(filter.estimate, 2.0 * gain);
        near(filter.variance.expect("known"), (1.0 - gain) * 0.101);
        // An outlier counts with three standard deviations in the noise, and as it is in the estimate.
        let before = filter.estimate;
        filter.update(100.0, 30.0);
        let most = 3.0 * libm::sqrt(noise);
        let noise = alpha * noise + (1.0 - alpha) * most * most;
        let predicted = (1.0 - gain) * 0.101 + 0.001;
        near(filter.estimate, before + (100.0 - before) * predicted / (noise + predicted));
    }

    fn detector() -> Detector {
        Detector { threshold: THRESHOLD, over: 0.0, last: 0.0, signal: Signal::Normal }
    }

    #[test]
    fn overuse_lasts_ten_milliseconds_and_grows() {
        let mut detector = detector();
        let with = |gradient| Estimate { gradient, departure: 6.0, arrival: 6.0, groups: 100 };
        detector.update(&with(0.25));
        assert_eq!(detector.signal, Signal::Normal, "15 of 12.5, for 6 ms");
        // 6 ms at 0.01 of the distance of 2.5.
        near(detector.threshold, 12.5 + 6.0 * 0.01 * 2.5);
        detector.update(&with(0.26));
        assert_eq!(detector.signal, Signal::Overuse);
        detector.update(&with(0.0));
        assert_eq!(detector.signal, Signal::Normal);
        detector.update(&with(-0.3));
        assert_eq!(detector.signal, Signal::Underuse);
        let before = detector.threshold;
        detector.update(&with(1.0));
        near(detector.threshold, before);
        let mut falling = self::detector();
        falling.update(&with(0.3));
        falling.update(&with(0.29));
        assert_eq!(falling.signal, Signal::Normal, "the estimate falls");
    }

    #[test]
    fn the_rate_has_the_states_and_formulas_of_section_5_5() {
        let mut rate = RateControl { state: State::Increase, bps: 1e6, updated: None, maximum: None };
        rate.update(0, Signal::Normal, 1e6, 100.0);
        near(rate.bps, 1e6);
        rate.update(500 * MS, Signal::Normal, 1e6, 100.0);
        near(rate.bps, 1e6 * libm::pow(1.08, 0.5));
        rate.update(600 * MS, Signal::Overuse, 1e6, 100.0);
        near(rate.bps, 0.85e6);
        rate.update(700 * MS, Signal::Underuse, 0.8e6, 100.0);
        assert_eq!(rate.state, State::Hold);
        rate.update(800 * MS, Signal::Normal, 0.8e6, 100.0);
        assert_eq!(rate.state, State::Increase);
        rate.update(900 * MS, Signal::Overuse, 0.9e6, 100.0);
        // Near the rates of over-use, 1 and 0.9 Mbit/s: mean 0.995, deviation 22 kbit/s. 100 ms of 200 are a quarter of a packet.
        rate.update(950 * MS, Signal::Normal, 0.98e6, 100.0);
        rate.update(1000 * MS, Signal::Normal, 0.98e6, 100.0);
        let before = rate.bps;
        rate.update(1100 * MS, Signal::Normal, 0.98e6, 100.0);
        let frame = before / 30.0;
        near(rate.bps, before + 0.25 * (frame / libm::ceil(frame / 9600.0)));
        // Never above 1.5 times what arrives.
        rate.maximum = None;
        rate.bps = 1e6;
        rate.update(2100 * MS, Signal::Normal, 0.7e6, 100.0);
        near(rate.bps, 1.05e6);
    }

    #[test]
    fn losses_have_their_bounds() {
        let mut losses = LossControl { bps: 1e6, lost: 0, known: 0, next: 0 };
        let mut with = |lost: u64, came: usize| {
            let acked = vec![packet(0, 0, 0); came];
            let feedback = Feedback { acked: &acked, lost, marked: false, newly: 0, flight: 0, rtt: None };
            let now = losses.next;
            losses.update(now, &feedback, 2e6);
            std::mem::replace(&mut losses.bps, 1e6)
        };
        near(with(1, 99), 1.05e6);
        near(with(1, 19), 1e6);
        near(with(20, 80), 0.9e6);
    }

    #[test]
    fn packets_leave_in_bursts_at_the_target_rate() {
        let mut gcc = Gcc::new(&Media { start_bps: 960_000, ..media() });
        // 4800 bits in 5 ms: a packet of 1200 bytes is two of them.
        assert_eq!(gcc.pace(100 * MS, 1200), 10 * MS);
        assert_eq!(gcc.pace(110 * MS, 300), 0);
        assert_eq!(gcc.pace(110 * MS, 300), 5 * MS);
    }
}
