//! SCReAM, Self-Clocked Rate Adaptation for Multimedia (RFC 8298): a congestion window from the queueing delay, losses and marks, and a
//! target rate for the encoder.

use std::collections::VecDeque;

use super::window::{Largest, Recent};
use super::{Control, Feedback, Media, seconds};
use crate::Nanos;

/// QDELAY_TARGET_LO and QDELAY_TARGET_HI, s. All constants are those that section 4.1.1.1 recommends.
const QDELAY_TARGET: [f64; 2] = [0.1, 0.4];
/// QDELAY_WEIGHT: of a sample in the average of the queueing delay.
const QDELAY_WEIGHT: f64 = 0.1;
/// QDELAY_TREND_TH: trend that ends the fast increase.
const QDELAY_TREND_TH: f64 = 0.2;
/// QDELAY_TREND_LO: trend below which it may begin again.
const QDELAY_TREND_LO: f64 = 0.2;
/// T_RESUME_FAST_INCREASE.
const RESUME: Nanos = 5_000_000_000;
/// MIN_CWND, bytes.
const MIN_CWND: f64 = 3000.0;
/// MAX_BYTES_IN_FLIGHT_HEAD_ROOM.
const HEAD_ROOM: f64 = 1.1;
/// Time over which the most bytes in flight are known (section 4.1.2.2).
const FLIGHT_TIME: Nanos = 5_000_000_000;
/// GAIN of the window.
const GAIN: f64 = 1.0;
/// BETA_LOSS, BETA_ECN: of the window after a loss, after a mark. BETA_R: of the rate after a loss.
const BETA_LOSS: f64 = 0.8;
const BETA_ECN: f64 = 0.9;
const BETA_R: f64 = 0.9;
/// RATE_ADJUST_INTERVAL.
const RATE_ADJUST_INTERVAL: Nanos = 200_000_000;
/// RAMP_UP_SPEED, bit/s in a second.
const RAMP_UP_SPEED: f64 = 200_000.0;
/// PRE_CONGESTION_GUARD.
const PRE_CONGESTION_GUARD: f64 = 0.1;
/// TX_QUEUE_SIZE_FACTOR.
const TX_QUEUE_SIZE_FACTOR: f64 = 1.0;
/// RTP_QDELAY_TH, s.
const RTP_QDELAY_TH: f64 = 0.02;
/// TARGET_RATE_SCALE_RTP_QDELAY.
const TARGET_RATE_SCALE: f64 = 0.95;
/// RATE_PACE_MIN, bit/s.
const RATE_PACE_MIN: f64 = 50_000.0;
/// Interval at which the trend of the queueing delay is computed (section 4.1.2.1).
const TREND_INTERVAL: Nanos = 50_000_000;
/// Samples of the queueing delay that a trend, a mean and a variance are of.
const TRENDS: usize = 20;
const MEANS: usize = 50;
const VARIANCES: usize = 200;
/// Rate of loss events, per round trip, above which another flow is thought to fill the queue (section 4.1.2.3).
const LOSS_EVENT_RATE: f64 = 0.002;
/// Weight of a round trip in that rate. The RFC has no number; it is ours.
const LOSS_EVENT_WEIGHT: f64 = 0.002;
/// Variance of the queueing delay, in units of the target's square, below which it is thought steady.
const STEADY: f64 = 0.2;
/// A minute, of which the least delays of the last ten are kept (RFC 6817 section 4.2).
const MINUTE: Nanos = 60_000_000_000;
const MINUTES: usize = 10;
/// Values of the media's rate of which the median is taken: ten seconds and more of them.
const MEDIANS: usize = 51;

/// State of SCReAM, by the names of section 4.1.1.2.
pub(super) struct Scream {
    min_bps: f64,
    max_bps: f64,
    mss: f64,
    cwnd: f64,
    qdelay: f64,
    qdelay_target: f64,
    qdelay_fraction_avg: f64,
    qdelay_fractions: VecDeque<f64>,
    qdelay_norms: VecDeque<f64>,
    qdelay_trend: f64,
    qdelay_trend_mem: f64,
    next_trend: Nanos,
    /// Time since which the trend is low.
    low_since: Nanos,
    in_fast_increase: bool,
    base: BaseDelay,
    s_rtt: Option<f64>,
    /// Last reaction to a loss or a mark.
    reacted: Option<Nanos>,
    loss_event_rate: f64,
    loss_in_round: bool,
    next_round: Nanos,
    flights: Largest,
    target_bps: f64,
    target_last_max: f64,
    next_rate: Nanos,
    transmitted: Recent,
    acknowledged: Recent,
    media: Recent,
    media_rates: VecDeque<f64>,
}

/// The least one-way delay of each of the last minutes, as LEDBAT has it.
#[derive(Default)]
struct BaseDelay {
    minutes: VecDeque<(Nanos, Nanos)>,
}

impl BaseDelay {
    /// Adds a delay; returns the least.
    fn add(&mut self, now: Nanos, delay: Nanos) -> Nanos {
        let minute = now / MINUTE;
        match self.minutes.back_mut() {
            Some((at, least)) if *at == minute => *least = delay.min(*least),
            _ => self.minutes.push_back((minute, delay)),
        }
        while self.minutes.len() > MINUTES {
            self.minutes.pop_front();
        }
        self.minutes.iter().map(|&(_, least)| least).min().unwrap_or(delay)
    }
}

impl Scream {
    pub(super) fn new(media: &Media) -> Scream {
        Scream {
            min_bps: media.min_bps as f64,
            max_bps: media.max_bps as f64,
            mss: f64::from(media.payload),
            cwnd: MIN_CWND.max(2.0 * f64::from(media.payload)),
            qdelay: 0.0,
            qdelay_target: QDELAY_TARGET[0],
            qdelay_fraction_avg: 0.0,
            qdelay_fractions: VecDeque::new(),
            qdelay_norms: VecDeque::new(),
            qdelay_trend: 0.0,
            qdelay_trend_mem: 0.0,
            next_trend: 0,
            low_since: 0,
            in_fast_increase: true,
            base: BaseDelay::default(),
            s_rtt: None,
            reacted: None,
            loss_event_rate: 0.0,
            loss_in_round: false,
            next_round: 0,
            flights: Largest::new(FLIGHT_TIME),
            target_bps: media.start_bps as f64,
            target_last_max: 1.0,
            next_rate: 0,
            transmitted: Recent::new(RATE_ADJUST_INTERVAL),
            acknowledged: Recent::new(RATE_ADJUST_INTERVAL),
            media: Recent::new(RATE_ADJUST_INTERVAL),
            media_rates: VecDeque::new(),
        }
    }

    fn min_cwnd(&self) -> f64 {
        MIN_CWND.max(2.0 * self.mss)
    }

    fn rtt(&self) -> f64 {
        self.s_rtt.unwrap_or(0.0)
    }

    /// The trend of the queueing delay: how much of it the samples have in common with those before (section 4.1.2.1).
    fn update_trend(&mut self, now: Nanos) {
        let fraction = self.qdelay / self.qdelay_target;
        self.qdelay_fraction_avg =
            (1.0 - QDELAY_WEIGHT) * self.qdelay_fraction_avg + QDELAY_WEIGHT * fraction;
        push(&mut self.qdelay_fractions, fraction, TRENDS);
        let of: Vec<f64> = self.qdelay_fractions.iter().copied().collect();
        let average = mean(of.iter().copied());
        let products = |lag: usize| -> f64 {
            of.iter().zip(&of[lag..]).map(|(one, other)| (one - average) * (other - average)).sum()
        };
        let (alone, shifted) = (products(0), products(1.min(of.len())));
        let alike = if alone > 0.0 { shifted / alone } else { 0.0 };
        self.qdelay_trend = (alike * self.qdelay_fraction_avg).clamp(0.0, 1.0);
        self.qdelay_trend_mem = (0.99 * self.qdelay_trend_mem).max(self.qdelay_trend);
        if self.qdelay_trend >= QDELAY_TREND_LO {
            self.low_since = now;
        }
    }

    /// Section 4.1.2.2.
    fn update_cwnd(&mut self, newly: f64, flight: f64) {
        if self.in_fast_increase {
            if self.qdelay_trend < QDELAY_TREND_TH {
                if flight * 1.5 + newly > self.cwnd {
                    self.cwnd += newly;
                }
                return;
            }
            self.in_fast_increase = false;
            self.target_last_max = self.target_bps;
        }
        let off_target = (self.qdelay_target - self.qdelay) / self.qdelay_target;
        let used = flight * 1.25 + newly > self.cwnd;
        if off_target <= 0.0 || used {
            self.cwnd += GAIN * off_target * newly * self.mss / self.cwnd;
        }
        self.cwnd = self.cwnd.min(self.flights.value() as f64 * HEAD_ROOM).max(self.min_cwnd());
    }

    /// Section 4.1.2.3: room for flows that fill the queue until it overflows.
    fn adjust_qdelay_target(&mut self) {
        let [low, high] = QDELAY_TARGET;
        push(&mut self.qdelay_norms, self.qdelay / low, VARIANCES);
        let recent = mean(self.qdelay_norms.iter().rev().take(MEANS).copied());
        let all = mean(self.qdelay_norms.iter().copied());
        let variance = mean(self.qdelay_norms.iter().map(|norm| (norm - all) * (norm - all)));
        let new = (recent + libm::sqrt(variance)) * low;
        self.qdelay_target = if self.loss_event_rate > LOSS_EVENT_RATE {
            1.5 * new
        } else if variance < STEADY {
            new
        } else if new < low {
            (self.qdelay_target * 0.5).max(new)
        } else {
            self.qdelay_target * 0.9
        };
        self.qdelay_target = self.qdelay_target.clamp(low, high);
    }

    /// A loss or a mark, at which the window and the rate become smaller, once in a round trip.
    fn react(&mut self, now: Nanos, window: f64, rate: f64) {
        self.reacted = Some(now);
        self.in_fast_increase = false;
        self.cwnd = (self.cwnd * window).max(self.min_cwnd());
        self.target_last_max = self.target_bps;
        self.target_bps = (self.target_bps * rate).clamp(self.min_bps, self.max_bps);
        self.next_rate = now + RATE_ADJUST_INTERVAL;
    }

    /// Section 4.1.3.
    fn adjust_rate(&mut self, now: Nanos, queued: u64) {
        for rate in [&mut self.transmitted, &mut self.acknowledged, &mut self.media] {
            rate.forget(now);
        }
        push(&mut self.media_rates, self.media.bps(), MEDIANS);
        let queued = queued as f64 * 8.0;
        let current = self.transmitted.bps().max(self.acknowledged.bps());
        let ramp_up = RAMP_UP_SPEED.min(self.target_bps / 2.0) * seconds(RATE_ADJUST_INTERVAL);
        let far = (self.target_bps - self.target_last_max) / self.target_last_max * 4.0;
        let scale = (far * far).clamp(0.2, 1.0);
        if self.in_fast_increase {
            self.target_bps += ramp_up * scale;
        } else {
            let change =
                current * (1.0 - PRE_CONGESTION_GUARD * self.qdelay_trend) - TX_QUEUE_SIZE_FACTOR * queued;
            // Where packets wait at the sender the RFC forces a reduction. It is one only without the increase before it: with both,
            // the rate would settle at 19 times that increase, 760 kbit/s, whatever the path carries.
            if queued > RTP_QDELAY_TH * current {
                self.target_bps = (self.target_bps + change.min(0.0)) * TARGET_RATE_SCALE;
            } else if change > 0.0 {
                self.target_bps += (change * scale).min(ramp_up);
            }
        }
        let limit = current.max(self.media.bps()).max(median(&self.media_rates));
        let limit = limit * (2.0 - self.qdelay_trend_mem);
        self.target_bps = self.target_bps.min(limit).clamp(self.min_bps, self.max_bps);
    }

    fn note_round(&mut self, now: Nanos) {
        if now < self.next_round {
            return;
        }
        let lost = f64::from(u8::from(self.loss_in_round));
        self.loss_event_rate += LOSS_EVENT_WEIGHT * (lost - self.loss_event_rate);
        self.loss_in_round = false;
        self.next_round = now + (self.rtt() * 1e9) as Nanos;
    }
}

impl Control for Scream {
    fn on_sent(&mut self, now: Nanos, bytes: u32, flight: u64) {
        self.transmitted.add(now, bytes.into());
        self.flights.add(now, flight);
    }

    fn on_frame(&mut self, now: Nanos, bytes: u32) {
        self.media.add(now, bytes.into());
    }

    fn on_feedback(&mut self, now: Nanos, feedback: &Feedback<'_>, _queued: u64) {
        for packet in feedback.acked {
            let delay = packet.arrived - packet.sent;
            self.qdelay = seconds(delay - self.base.add(now, delay));
            self.acknowledged.add(now, packet.bytes.into());
        }
        if let Some(rtt) = feedback.rtt.map(seconds) {
            self.s_rtt = Some(self.s_rtt.map_or(rtt, |old| old + (rtt - old) / 8.0));
        }
        if now >= self.next_trend {
            self.update_trend(now);
            self.next_trend = now + TREND_INTERVAL;
        }
        self.loss_in_round |= feedback.lost > 0;
        self.note_round(now);
        let again = self.reacted.is_none_or(|at| seconds(now - at) > self.rtt());
        if feedback.lost > 0 && again {
            self.react(now, BETA_LOSS, BETA_R);
        } else if feedback.marked && again {
            self.react(now, BETA_ECN, BETA_ECN);
        } else {
            self.update_cwnd(feedback.newly as f64, feedback.flight as f64);
        }
        self.adjust_qdelay_target();
        if !self.in_fast_increase && now - self.low_since.max(self.reacted.unwrap_or(0)) >= RESUME {
            self.in_fast_increase = true;
        }
    }

    fn on_time(&mut self, now: Nanos, queued: u64) {
        if now >= self.next_rate {
            // The first interval has nothing to go by.
            if self.next_rate > 0 && self.s_rtt.is_some() {
                self.adjust_rate(now, queued);
            }
            self.next_rate = now + RATE_ADJUST_INTERVAL;
        }
    }

    /// The send window (section 4.1.2.5).
    fn admits(&self, bytes: u32, flight: u64) -> bool {
        let slack = if self.qdelay <= self.qdelay_target { self.mss } else { 0.0 };
        flight as f64 + f64::from(bytes) <= self.cwnd + slack
    }

    /// Section 4.1.2.6.
    fn pace(&mut self, _now: Nanos, bytes: u32) -> Nanos {
        let by_window = self.s_rtt.map_or(0.0, |rtt| self.cwnd * 8.0 / rtt.max(1e-9));
        (f64::from(bytes) * 8e9 / by_window.max(RATE_PACE_MIN)) as Nanos
    }

    fn target_bps(&self) -> u64 {
        self.target_bps as u64
    }

    fn queue_delay(&self) -> Nanos {
        (self.qdelay * 1e9) as Nanos
    }
}

/// Appends a number; only the last `most` stay.
fn push(to: &mut VecDeque<f64>, number: f64, most: usize) {
    to.push_back(number);
    while to.len() > most {
        to.pop_front();
    }
}

fn mean(of: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = of.fold((0.0, 0.0), |(sum, count), number| (sum + number, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

fn median(of: &VecDeque<f64>) -> f64 {
    let mut sorted: Vec<f64> = of.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::media;
    use super::super::{Acked, Feedback};
    use super::*;

    const MS: Nanos = 1_000_000;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{found}, expected {expected}");
    }

    /// A report of one packet of 1000 bytes with a one-way delay of 50 ms and so much queueing, after which so much is in flight.
    fn report(scream: &mut Scream, now: Nanos, queueing: Nanos, lost: u64, marked: bool, flight: u64) {
        let sent = now - 100 * MS - queueing;
        let acked = [Acked { number: 0, sent, arrived: sent + 50 * MS + queueing, bytes: 1000 }];
        let rtt = Some(100 * MS + queueing);
        let feedback = Feedback { acked: &acked, lost, marked, newly: 1000, flight, rtt };
        scream.on_feedback(now, &feedback, 0);
    }

    fn scream() -> Scream {
        Scream::new(&Media { payload: 1000, ..media() })
    }

    #[test]
    fn the_window_grows_by_what_arrives_until_there_is_a_queue() {
        let mut scream = scream();
        near(scream.cwnd, 3000.0);
        report(&mut scream, 1000 * MS, 0, 0, false, 2000);
        near(scream.cwnd, 4000.0);
        // Not where it is not used: 1.5 x 1000 + 1000 < 4000.
        report(&mut scream, 1100 * MS, 0, 0, false, 1000);
        near(scream.cwnd, 4000.0);
        scream.in_fast_increase = false;
        scream.on_sent(1100 * MS, 1000, 8000);
        // off_target = (0.1 - 0.05) / 0.1; 0.5 x 1000 x 1000 / 4000 = 125.
        report(&mut scream, 1200 * MS, 50 * MS, 0, false, 4000);
        near(scream.cwnd, 4125.0);
        // off_target = -1 with 200 ms: 1000 x 1000 / 4125 less. The target is still 100 ms at that.
        report(&mut scream, 1300 * MS, 200 * MS, 0, false, 4000);
        near(scream.cwnd, 4125.0 - 1e6 / 4125.0);
        // And never above 1.1 times what was in flight in the last five seconds.
        scream.cwnd = 20_000.0;
        report(&mut scream, 1400 * MS, 100 * MS, 0, false, 4000);
        near(scream.cwnd, 8800.0);
    }

    #[test]
    fn a_loss_and_a_mark_count_once_in_a_round_trip() {
        let mut scream = scream();
        (scream.cwnd, scream.target_bps) = (10_000.0, 1e6);
        report(&mut scream, 1000 * MS, 0, 1, false, 9000);
        near(scream.cwnd, 8000.0);
        near(scream.target_bps, 0.9e6);
        near(scream.target_last_max, 1e6);
        assert!(!scream.in_fast_increase);
        scream.on_sent(1000 * MS, 1000, 9000);
        report(&mut scream, 1050 * MS, 0, 1, false, 8000);
        assert!(scream.cwnd > 8000.0, "within the same round trip");
        scream.cwnd = 8000.0;
        report(&mut scream, 1200 * MS, 0, 0, true, 8000);
        near(scream.cwnd, 7200.0);
        near(scream.target_bps, 0.81e6);
        scream.cwnd = 3500.0;
        report(&mut scream, 1400 * MS, 0, 1, false, 8000);
        near(scream.cwnd, 3000.0);
    }

    #[test]
    fn the_trend_is_what_samples_have_in_common_with_those_before() {
        let mut scream = scream();
        // 0, 10, 20, 30 ms of 100: mean 0.15, deviations -0.15, -0.05, 0.05, 0.15.
        for (step, queueing) in (0..4).zip([0, 10, 20, 30]) {
            scream.qdelay = f64::from(queueing) / 1000.0;
            scream.update_trend(step * 50 * MS);
        }
        let average = ((0.1 * 0.1) * 0.9 + 0.1 * 0.2) * 0.9 + 0.1 * 0.3;
        let alike = (0.15 * 0.05 - 0.05 * 0.05 + 0.05 * 0.15) / (2.0 * (0.15 * 0.15 + 0.05 * 0.05));
        near(scream.qdelay_fraction_avg, average);
        near(scream.qdelay_trend, alike * average);
    }

    #[test]
    fn the_rate_follows_the_formulas_of_section_4_1_3() {
        let mut scream = scream();
        (scream.target_bps, scream.s_rtt) = (500_000.0, Some(0.1));
        let fill = |scream: &mut Scream, now| {
            scream.on_sent(now, 12_500, 0);
            scream.on_frame(now, 12_500);
        };
        // 12,500 bytes in 200 ms are 500 kbit/s. Fast increase: 200 kbit/s in a second, of which this is a fifth.
        fill(&mut scream, 1000 * MS);
        scream.adjust_rate(1100 * MS, 0);
        near(scream.target_bps, 540_000.0);
        // Else the same at most, and a fifth of it near the last maximum: (0.04 / 0.5 x 4)^2 = 0.1 is below 0.2.
        (scream.in_fast_increase, scream.target_last_max) = (false, 500_000.0);
        scream.adjust_rate(1150 * MS, 0);
        near(scream.target_bps, 540_000.0 + 40_000.0);
        // 2000 bytes that wait are 32 ms at this rate: 5 % less, and no increase.
        scream.adjust_rate(1199 * MS, 2000);
        near(scream.target_bps, 580_000.0 * 0.95);
        // Twice what is sent is the most.
        scream.target_bps = 1_400_000.0;
        scream.adjust_rate(1199 * MS, 0);
        near(scream.target_bps, 1_000_000.0);
    }

    #[test]
    fn a_queue_that_others_keep_full_moves_the_target() {
        let mut scream = scream();
        for _ in 0..200 {
            scream.qdelay = 0.25;
            scream.adjust_qdelay_target();
        }
        near(scream.qdelay_target, 0.25);
        scream.qdelay = 1.0;
        (0..200).for_each(|_| scream.adjust_qdelay_target());
        near(scream.qdelay_target, 0.4);
        scream.qdelay = 0.0;
        (0..400).for_each(|_| scream.adjust_qdelay_target());
        near(scream.qdelay_target, 0.1);
    }

    #[test]
    fn packets_are_paced_by_the_window_and_the_round_trip() {
        let mut scream = scream();
        assert_eq!(scream.pace(0, 1000), 160 * MS, "50 kbit/s before a round trip is known");
        (scream.cwnd, scream.s_rtt) = (10_000.0, Some(0.1));
        assert_eq!(scream.pace(0, 1000), 10 * MS);
        assert!(scream.admits(1000, 10_000) && !scream.admits(1001, 10_000));
        scream.qdelay = 0.11;
        assert!(scream.admits(1000, 9000) && !scream.admits(1000, 9001));
    }
}
