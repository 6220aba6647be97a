//! Illinois as Linux has it (tcp_illinois.c): growth and back-off by the mean queueing delay of a round trip.
//!
//! S. Liu, T. Basar and R. Srikant, "TCP-Illinois: A loss- and delay-based congestion control algorithm for high-speed
//! networks", Performance Evaluation 65, 2008.

use super::{AckSample, CaState, CongestionControl, Core};

/// One, of `alpha`.
const ONE: u32 = 1 << 7;
const ALPHA_MIN: u32 = 3 * ONE / 10;
const ALPHA_MAX: u32 = 10 * ONE;
/// One, of `beta`.
const WHOLE: u32 = 1 << 6;
const BETA_MIN: u32 = WHOLE / 8;
const BETA_MAX: u32 = WHOLE / 2;
/// Longest round trip of which is known, microseconds.
const RTT_MAX: u32 = u32::MAX / ALPHA_MAX;
/// Window from which on growth and back-off follow delays, packets (`win_thresh`).
const WINDOW: u32 = 15;
/// Round trips of low delay before growth is fastest again (`theta`).
const THETA: u32 = 5;

/// The `illinois` module.
#[derive(Debug)]
pub(super) struct Illinois {
    sum_rtt: u64,
    samples: u32,
    min_rtt: u32,
    max_rtt: u32,
    /// End of the window of data under way.
    end: u64,
    /// Packets by which the window grows in a round trip, in 1/128.
    alpha: u32,
    /// Part of the window that a loss costs, in 1/64.
    beta: u32,
    acked: u32,
    /// Delay has been more than low.
    above: bool,
    /// Round trips of low delay since.
    low: u32,
}

impl Illinois {
    pub(super) fn new() -> Illinois {
        Illinois {
            sum_rtt: 0,
            samples: 0,
            min_rtt: 0x7fff_ffff,
            max_rtt: 0,
            end: 0,
            alpha: ALPHA_MAX,
            beta: BETA_MAX,
            acked: 0,
            above: false,
            low: 0,
        }
    }

    fn begin(&mut self, core: &Core) {
        self.end = core.nxt;
        self.samples = 0;
        self.sum_rtt = 0;
    }

    fn update(&mut self, core: &Core) {
        if core.cwnd < WINDOW {
            self.alpha = ONE;
            self.beta = BETA_MAX;
        } else if self.samples > 0 {
            let longest = self.max_rtt - self.min_rtt;
            let mean = (self.sum_rtt / u64::from(self.samples)) as u32 - self.min_rtt;
            self.alpha = self.alpha_for(mean, longest);
            self.beta = beta_for(mean, longest);
        }
        self.begin(core);
    }

    fn alpha_for(&mut self, mean: u32, longest: u32) -> u32 {
        let low = longest / 100;
        if mean <= low {
            if !self.above {
                return ALPHA_MAX;
            }
            self.low += 1;
            if self.low < THETA {
                return self.alpha;
            }
            self.low = 0;
            self.above = false;
            return ALPHA_MAX;
        }
        self.above = true;
        let (mean, longest) = (mean - low, longest - low);
        longest * ALPHA_MAX / (longest + mean * (ALPHA_MAX - ALPHA_MIN) / ALPHA_MIN)
    }
}

fn beta_for(mean: u32, longest: u32) -> u32 {
    let (low, high) = (longest / 10, 8 * longest / 10);
    if mean <= low {
        return BETA_MIN;
    }
    if mean >= high || high <= low {
        return BETA_MAX;
    }
    (BETA_MIN * high - BETA_MAX * low + (BETA_MAX - BETA_MIN) * mean) / (high - low)
}

impl CongestionControl for Illinois {
    fn init(&mut self, core: &mut Core) {
        self.begin(core);
    }

    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        (core.cwnd - core.cwnd * self.beta / WHOLE).max(2)
    }

    fn cong_avoid(&mut self, core: &mut Core, ack: u64, acked: u32) {
        if ack > self.end {
            self.update(core);
        }
        if !core.is_cwnd_limited() {
            return;
        }
        if core.in_slow_start() {
            core.slow_start(acked);
            return;
        }
        core.cwnd_cnt += self.acked;
        self.acked = 1;
        let delta = core.cwnd_cnt.wrapping_mul(self.alpha) / ONE;
        if delta >= core.cwnd {
            core.cwnd += delta / core.cwnd;
            core.cwnd_cnt = 0;
        }
    }

    fn pkts_acked(&mut self, _core: &mut Core, sample: &AckSample) {
        self.acked = sample.packets;
        let Some(rtt) = sample.rtt_us else { return };
        let rtt = rtt.min(RTT_MAX);
        self.min_rtt = self.min_rtt.min(rtt);
        self.max_rtt = self.max_rtt.max(rtt);
        self.samples += 1;
        self.sum_rtt += u64::from(rtt);
    }

    fn set_state(&mut self, core: &mut Core, state: CaState) {
        if state == CaState::Loss {
            self.alpha = ONE;
            self.beta = BETA_MAX;
            self.low = 0;
            self.above = false;
            self.begin(core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_falls_and_the_cost_of_a_loss_rises_with_delay() {
        // Of 100 ms of delay at most: 0.3 packets and a half at the most, ten and an eighth without.
        let mut illinois = Illinois::new();
        for (mean, alpha, beta) in
            [(500, 1280, 8), (10_000, 1280 * 99_000 / (99_000 + 9_000 * 1242 / 38), 8), (45_000, 82, 20)]
        {
            assert_eq!((illinois.alpha_for(mean, 100_000), beta_for(mean, 100_000)), (alpha, beta), "{mean}");
        }
        assert_eq!((illinois.alpha_for(100_000, 100_000), beta_for(100_000, 100_000)), (38, 32));
    }

    #[test]
    fn growth_is_fastest_again_after_five_round_trips_of_low_delay() {
        let mut illinois = Illinois::new();
        illinois.alpha = illinois.alpha_for(50_000, 100_000);
        let before = illinois.alpha;
        let after: Vec<u32> = (0..5).map(|_| illinois.alpha_for(0, 100_000)).collect();
        assert_eq!(after, [before, before, before, before, ALPHA_MAX]);
    }
}
