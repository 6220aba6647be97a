//! HD, the Hamilton Institute's delay-based control (Budzisz et al., IEEE Communications Letters 13(7), 2009) as FreeBSD's
//! cc_hd(4) does it: NewReno that also backs off, at random, when a packet was delayed.

use super::{AckKind, CcVar, CongestionControl, Signal, newreno};
use crate::random::split_mix;

/// Sysctls of HD (net.inet.tcp.cc.hd.*) and of CHD, delays in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffTuning {
    /// Queueing delay at which backing off is likeliest (`queue_threshold`).
    pub threshold: u32,
    /// Queueing delay up to which the module does not back off (`queue_min`).
    pub min: u32,
    /// Largest probability of backing off, in percent (`pmax`).
    pub max_percent: u32,
}

impl BackoffTuning {
    /// HD's defaults that every release ships (cc_hd(4)).
    pub const HD: BackoffTuning = BackoffTuning { threshold: 20, min: 5, max_percent: 5 };

    /// The probability of backing off at a queueing delay above the least that counts, of 2^31: it rises to the threshold, and
    /// falls from there to the largest delay that was seen. Products are kept in 32 bits.
    pub(super) fn probability(&self, delay: u32, largest: u32) -> u32 {
        let most = (i32::MAX as u32 / 100).wrapping_mul(self.max_percent);
        let (slope, steps) = match delay.cmp(&self.threshold) {
            std::cmp::Ordering::Less => (self.threshold.wrapping_sub(self.min), delay - self.min),
            std::cmp::Ordering::Equal => return most,
            std::cmp::Ordering::Greater => (largest - self.threshold, largest - delay),
        };
        (most / slope.max(1)).wrapping_mul(steps)
    }
}

/// HD's state.
#[derive(Debug)]
pub struct Hd {
    random: u64,
}

impl Hd {
    /// HD that draws from a generator seeded with `seed`.
    pub fn new(seed: u64) -> Hd {
        Hd { random: seed }
    }
}

impl CongestionControl for Hd {
    fn ack_received(&mut self, ccv: &mut CcVar, kind: AckKind) {
        let (t, d) = (ccv.tuning.hd, ccv.delays);
        if kind == AckKind::New && ccv.delay_rtt > 0 && d.min_rtt > 0 && t.threshold > 0 {
            let delay = ccv.delay_rtt - d.min_rtt;
            if delay > t.min
                && !ccv.in_recovery()
                && draw(&mut self.random) < t.probability(delay, d.max_rtt - d.min_rtt)
            {
                return self.cong_signal(ccv, Signal::Ecn);
            }
        }
        newreno::on_ack(ccv, kind);
    }

    fn cong_signal(&mut self, ccv: &mut CcVar, signal: Signal) {
        let betas = ccv.tuning.newreno_beta | ccv.tuning.newreno_beta_ecn << 32;
        newreno::cong_signal_of_another(ccv, signal, betas);
    }

    fn post_recovery(&mut self, ccv: &mut CcVar) {
        newreno::post_recovery(ccv);
    }

    fn wants_packet_rtt(&self) -> bool {
        true
    }
}

/// Uniform from 0 to 2^31 - 1.
pub(super) fn draw(state: &mut u64) -> u32 {
    split_mix(state) as u32 >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backing_off_is_likeliest_at_the_threshold() {
        let percent = |delay| BackoffTuning::HD.probability(delay, 60) / (i32::MAX as u32 / 10_000);
        // Hundredths of a percent: up to 5 % at 20 ticks, down to nothing at the largest delay.
        assert_eq!([6, 12, 19, 20, 30, 50, 60].map(percent), [33, 233, 466, 500, 375, 125, 0]);
    }
}
