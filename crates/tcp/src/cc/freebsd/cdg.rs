//! CAIA Delay-Gradient v0.1 (Hayes and Armitage, IFIP Networking 2011) as FreeBSD's cc_cdg(4) does it.

use std::collections::VecDeque;
use std::sync::OnceLock;

use super::{AckKind, CcVar, CongestionControl, Signal, newreno};
use crate::random::split_mix;

/// CDG's seven sysctls (net.inet.tcp.cc.cdg.*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CdgTuning {
    /// RTTs after which the window's increment grows by a segment; 0: it stays one segment (`alpha_inc`).
    pub alpha_inc: u32,
    /// Window kept on a delay signal, percent (`beta_delay`).
    pub beta_delay: u64,
    /// Window kept on a loss, percent (`beta_loss`).
    pub beta_loss: u64,
    /// Scale of the backoff probability, ticks of gradient (`exp_backoff_scale`).
    pub exp_backoff_scale: i64,
    /// RTTs over which gradients are averaged; 0: not averaged (`smoothing_factor`).
    pub smoothing_factor: usize,
    /// Delay signals in a row after which a loss-based competitor is assumed (`loss_compete_consec_cong`).
    pub loss_compete_consec_cong: u32,
    /// Delay signals then ignored (`loss_compete_hold_backoff`).
    pub loss_compete_hold_backoff: u32,
}

impl CdgTuning {
    /// Defaults that every release ships (cc_cdg(4)).
    pub const DEFAULT: CdgTuning = CdgTuning {
        alpha_inc: 0,
        beta_delay: 70,
        beta_loss: 50,
        exp_backoff_scale: 3,
        smoothing_factor: 8,
        loss_compete_consec_cong: 5,
        loss_compete_hold_backoff: 5,
    };
}

/// Fractional bits of gradients.
const GRADIENT_SHIFT: u32 = 7;
/// The largest gradient in the table of probabilities, in units of the scale.
const LARGEST_GRADIENT: i64 = 5;
/// Fractional bits of the probabilities.
const PROBABILITY_SHIFT: u32 = 15;
/// Window the shadow keeps on a loss, percent: NewReno's.
const RENO_BETA: u64 = 50;

/// State of the bottleneck's queue, by the delay gradients; the order matters (`< Full` tolerates loss).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Queue {
    Empty,
    Rising,
    Falling,
    Full,
    Unknown,
}

/// CDG's state. RTTs are ticks.
pub struct Cdg {
    tuning: CdgTuning,
    /// Uniform draws from 0 to 2^31 - 1.
    random: Box<dyn FnMut() -> u32 + Send>,
    max_trend: i64,
    min_trend: i64,
    /// The last gradients, (of the minimum, of the maximum), oldest first.
    gradients: VecDeque<(i64, i64)>,
    queue: Queue,
    /// Window that NewReno would have.
    shadow: u64,
    max_rtt: u32,
    min_rtt: u32,
    previous_max_rtt: u32,
    previous_min_rtt: u32,
    /// Delay signals in a row.
    signals: u32,
    increment: u64,
    rounds: u32,
}

impl Cdg {
    /// CDG before the connection is established, drawing from a generator seeded with `seed`.
    pub fn new(tuning: CdgTuning, seed: u64) -> Cdg {
        let mut state = seed;
        Cdg::with_random(tuning, Box::new(move || split_mix(&mut state) as u32 >> 1))
    }

    /// CDG with draws from `random`, uniform from 0 to 2^31 - 1.
    pub fn with_random(tuning: CdgTuning, random: Box<dyn FnMut() -> u32 + Send>) -> Cdg {
        Cdg {
            tuning,
            random,
            max_trend: 0,
            min_trend: 0,
            gradients: VecDeque::with_capacity(tuning.smoothing_factor),
            queue: Queue::Unknown,
            shadow: 0,
            max_rtt: 0,
            min_rtt: u32::MAX,
            previous_max_rtt: 0,
            previous_min_rtt: 0,
            signals: 0,
            increment: 0,
            rounds: 0,
        }
    }

    /// A round of one RTT is over: updates the gradients and the guess about the queue; true: back off.
    fn end_round(&mut self, slow_start: bool) -> bool {
        let mut backoff = false;
        if self.previous_max_rtt != 0 {
            let max = (i64::from(self.max_rtt) - i64::from(self.previous_max_rtt)) << GRADIENT_SHIFT;
            let min = (i64::from(self.min_rtt) - i64::from(self.previous_min_rtt)) << GRADIENT_SHIFT;
            self.average(min, max);
            backoff = if slow_start && min > 0 {
                self.draws_backoff(min)
            } else if self.min_trend > 0 {
                self.draws_backoff(self.min_trend)
            } else if slow_start && max > 0 {
                self.draws_backoff(max)
            } else if self.max_trend > 0 {
                self.draws_backoff(self.max_trend)
            } else {
                false
            };
            self.infer_queue_state();
            if self.min_trend < 0 || self.max_trend < 0 {
                self.signals = 0;
            }
        }
        self.previous_min_rtt = self.min_rtt;
        self.previous_max_rtt = self.max_rtt;
        self.min_rtt = u32::MAX;
        self.max_rtt = 0;
        backoff
    }

    fn infer_queue_state(&mut self) {
        let (min, max) = (self.min_trend, self.max_trend);
        if min > 0 && max <= 0 {
            self.queue = Queue::Full;
        } else if min >= 0 && max < 0 {
            self.queue = Queue::Empty;
            self.shadow = 0;
        } else if min > 0 && max > 0 {
            self.queue = Queue::Rising;
        } else if min < 0 && max < 0 {
            self.queue = Queue::Falling;
        }
    }

    /// Moving averages over the last `smoothing_factor` rounds.
    fn average(&mut self, min: i64, max: i64) {
        let n = self.tuning.smoothing_factor;
        if n == 0 {
            self.min_trend = min;
            self.max_trend = max;
            return;
        }
        let (old_min, old_max) =
            if self.gradients.len() >= n { self.gradients.pop_front().unwrap_or((0, 0)) } else { (0, 0) };
        self.gradients.push_back((min, max));
        self.min_trend += (min - old_min) / n as i64;
        self.max_trend += (max - old_max) / n as i64;
    }

    /// Backs off with probability 1 - exp(-gradient / scale).
    fn draws_backoff(&mut self, gradient: i64) -> bool {
        let scale = self.tuning.exp_backoff_scale;
        if gradient > (LARGEST_GRADIENT * scale) << GRADIENT_SHIFT {
            return true;
        }
        let index = if scale > 1 { (gradient + scale / 2) / scale } else { gradient };
        let threshold =
            (i32::MAX as u32 / (1 << PROBABILITY_SHIFT)) * u32::from(probabilities()[index as usize]);
        (self.random)() < threshold
    }

    fn decreased(ccv: &CcVar, window: u64, percent: u64) -> u64 {
        window.min(ccv.snd_wnd) * percent / 100
    }

    fn delay_signal(&mut self, ccv: &mut CcVar) {
        ccv.ssthresh = Cdg::decreased(ccv, ccv.cwnd, self.tuning.beta_delay);
        ccv.cwnd = ccv.ssthresh;
        ccv.recover = ccv.max;
        self.increment = 0;
        self.rounds = 0;
        ccv.cong_recovery = true;
    }

    fn loss_signal(&mut self, ccv: &mut CcVar) {
        if ccv.cong_recovery || self.queue < Queue::Full {
            // No queue is full, so the loss is not taken for congestion.
            ccv.ssthresh = ccv.cwnd;
            ccv.recover = ccv.max;
        } else {
            if self.shadow > 0 {
                self.shadow = Cdg::decreased(ccv, self.shadow, RENO_BETA);
            }
            ccv.ssthresh = self.shadow.max(Cdg::decreased(ccv, ccv.cwnd, self.tuning.beta_loss));
            self.increment = 0;
            self.rounds = 0;
        }
        ccv.enter_recovery();
    }

    /// Slow start adds a segment per ACK, avoidance one per RTT (or more with `alpha_inc`).
    fn grow(&mut self, ccv: &mut CcVar, new_round: bool) {
        let (mut increment, mut shadow_increment) = (0, 0);
        if ccv.cwnd <= ccv.ssthresh {
            increment = ccv.maxseg;
            shadow_increment = ccv.maxseg;
            self.increment = 0;
            self.rounds = 0;
        } else if new_round {
            shadow_increment = ccv.maxseg;
            increment = ccv.maxseg;
            if self.tuning.alpha_inc > 0 {
                self.rounds += 1;
                if self.rounds >= self.tuning.alpha_inc {
                    self.increment += 1;
                    self.rounds = 0;
                }
                increment *= self.increment.max(1);
            }
        }
        if self.shadow > 0 {
            self.shadow = (self.shadow + shadow_increment).min(ccv.largest_window());
        }
        ccv.cwnd = (ccv.cwnd + increment).min(ccv.largest_window());
    }
}

impl CongestionControl for Cdg {
    fn conn_init(&mut self, ccv: &mut CcVar) {
        self.shadow = ccv.cwnd;
    }

    fn ack_received(&mut self, ccv: &mut CcVar, kind: AckKind) {
        self.max_rtt = self.max_rtt.max(ccv.delay_rtt);
        self.min_rtt = self.min_rtt.min(ccv.delay_rtt);
        let new_round = ccv.new_measurement;
        ccv.new_measurement = false;
        if new_round && self.end_round(ccv.cwnd <= ccv.ssthresh) {
            self.signals += 1;
            if !ccv.in_recovery() {
                let t = self.tuning;
                if self.signals <= t.loss_compete_consec_cong {
                    self.delay_signal(ccv);
                } else if self.signals >= t.loss_compete_consec_cong + t.loss_compete_hold_backoff {
                    self.signals = 0;
                }
                // The effect shows only in the second RTT from now.
                self.previous_max_rtt = 0;
                self.shadow = self.shadow.max(ccv.cwnd);
            }
        } else if kind == AckKind::New {
            self.grow(ccv, new_round);
        }
    }

    fn cong_signal(&mut self, ccv: &mut CcVar, signal: Signal) {
        match signal {
            Signal::DuplicateAcks => self.loss_signal(ccv),
            // What its state begins with is the trend of the maximum, usually 0.
            other => newreno::cong_signal_of_another(ccv, other, self.max_trend as u64),
        }
    }

    fn post_recovery(&mut self, ccv: &mut CcVar) {
        newreno::post_recovery(ccv);
    }

    fn wants_packet_rtt(&self) -> bool {
        true
    }
}

/// 1 - exp(-i/128) for i = 0 to 640, in 1/32768. The first entry is small but not zero.
fn probabilities() -> &'static [u16] {
    static TABLE: OnceLock<Vec<u16>> = OnceLock::new();
    TABLE.get_or_init(|| {
        (0..=LARGEST_GRADIENT << GRADIENT_SHIFT)
            .map(|i| {
                let p = 1.0 - libm::exp(-(i as f64) / f64::from(1 << GRADIENT_SHIFT));
                // About 3e-4 for a gradient that rounds to nothing.
                ((p * f64::from(1 << PROBABILITY_SHIFT)) as u16).max(9)
            })
            .collect()
    })
}
