//! H-TCP as Linux has it (tcp_htcp.c): growth by the time since the last loss, back-off by the delays seen.
//!
//! D. Leith and R. Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004.

use super::{AckSample, CaState, CongestionControl, Core};

/// One, of `alpha` and `beta`.
const ONE: u32 = 1 << 7;
/// Smallest part of the window that is kept: a half.
const BETA_MIN: u32 = 1 << 6;
/// Largest part: 0.8.
const BETA_MAX: u32 = 102;
/// Shortest round trip that `beta` follows, microseconds.
const SHORT_US: u64 = 10_000;
/// By how much the longest round trip rises at most with one sample, microseconds.
const RISE_US: u64 = 20_000;
/// Round trips after a back-off in which estimates of the rate begin anew.
const NEAR: u32 = 3;

/// The `htcp` module. Times are in jiffies, rates in packets per second.
#[derive(Debug)]
pub(super) struct Htcp {
    /// Packets by which the window grows in a round trip, in 1/128.
    alpha: u32,
    /// Part of the window that a loss leaves, in 1/128.
    beta: u32,
    /// A loss with a steady rate has been seen.
    steady: bool,
    /// Packets of the last ACK in Open.
    acked: u32,
    packets: u32,
    min_rtt: u32,
    max_rtt: u32,
    /// Time when the last congestion was over.
    last: u32,
    /// State that [`CongestionControl::undo_cwnd`] restores: `last`, `max_rtt` and `old_max_rate`.
    undo: Option<(u32, u32, u32)>,
    max_rate: u32,
    old_max_rate: u32,
    rate: u32,
    /// Time when the sample of the rate under way began.
    begun: u32,
}

impl Htcp {
    pub(super) fn new() -> Htcp {
        Htcp {
            alpha: ONE,
            beta: BETA_MIN,
            steady: false,
            acked: 1,
            packets: 0,
            min_rtt: 0,
            max_rtt: 0,
            last: 0,
            undo: None,
            max_rate: 0,
            old_max_rate: 0,
            rate: 0,
            begun: 0,
        }
    }

    /// Time since the last congestion.
    fn since(&self, core: &Core) -> u32 {
        (core.jiffies as u32).wrapping_sub(self.last)
    }

    fn take_rtt(&mut self, core: &Core, rtt: u32) {
        if self.min_rtt > rtt || self.min_rtt == 0 {
            self.min_rtt = rtt;
        }
        if core.state == CaState::Open {
            self.max_rtt = self.max_rtt.max(self.min_rtt);
            if self.max_rtt < rtt && rtt <= self.max_rtt + core.us_to_jiffies(RISE_US) as u32 {
                self.max_rtt = rtt;
            }
        }
    }

    fn take_rate(&mut self, core: &Core, packets: u32) {
        let now = core.jiffies as u32;
        let passed = now.wrapping_sub(self.begun);
        self.packets += packets;
        let window = core.cwnd.wrapping_sub((self.alpha / ONE).max(1));
        if self.packets < window || passed < self.min_rtt || self.min_rtt == 0 || passed == 0 {
            return;
        }
        let rate = self.packets.wrapping_mul(core.hz) / passed;
        if self.since(core) / self.min_rtt <= NEAR {
            self.rate = rate;
            self.max_rate = rate;
        } else {
            self.rate = self.rate.wrapping_mul(3).wrapping_add(rate) / 4;
            self.max_rate = self.max_rate.max(self.rate);
        }
        self.packets = 0;
        self.begun = now;
    }

    fn update_beta(&mut self, core: &Core) {
        let old = std::mem::replace(&mut self.old_max_rate, self.max_rate);
        let (now, old) = (u64::from(self.max_rate) * 5, u64::from(old));
        if !(4 * old..=6 * old).contains(&now) {
            self.beta = BETA_MIN;
            self.steady = false;
        } else if self.steady && self.min_rtt > core.us_to_jiffies(SHORT_US) as u32 && self.max_rtt > 0 {
            self.beta = (self.min_rtt * ONE / self.max_rtt).clamp(BETA_MIN, BETA_MAX);
        } else {
            self.beta = BETA_MIN;
            self.steady = true;
        }
    }

    fn update_alpha(&mut self, core: &Core) {
        let hz = core.hz;
        let mut factor = 1;
        let since = self.since(core);
        if since > hz {
            let over = since - hz;
            let square = (over / 2).wrapping_mul(over / 2) / hz;
            factor = 1 + over.wrapping_mul(10).wrapping_add(square) / hz;
        }
        if self.min_rtt > 0 {
            let scale = ((hz << 3) / (10 * self.min_rtt)).clamp(1 << 2, 10 << 3);
            factor = ((factor << 3) / scale).max(1);
        }
        // Never 0: `beta` is less than one.
        self.alpha = 2 * factor * (ONE - self.beta);
    }
}

impl CongestionControl for Htcp {
    fn init(&mut self, core: &mut Core) {
        self.last = core.jiffies as u32;
        // The first sample is one since the kernel's own beginning of time, and so of a rate of nothing.
        self.begun = self.last.wrapping_sub(1 << 31);
    }

    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        self.update_beta(core);
        self.update_alpha(core);
        if self.min_rtt > 0 && self.max_rtt > self.min_rtt {
            self.max_rtt = self.min_rtt + (self.max_rtt - self.min_rtt) * 95 / 100;
        }
        (core.cwnd.wrapping_mul(self.beta) / ONE).max(2)
    }

    fn cong_avoid(&mut self, core: &mut Core, _ack: u64, acked: u32) {
        if !core.is_cwnd_limited() {
            return;
        }
        if core.in_slow_start() {
            core.slow_start(acked);
            return;
        }
        if core.cwnd_cnt.wrapping_mul(self.alpha) / ONE >= core.cwnd {
            core.cwnd += 1;
            core.cwnd_cnt = 0;
            self.update_alpha(core);
        } else {
            core.cwnd_cnt += self.acked;
        }
        self.acked = 1;
    }

    fn pkts_acked(&mut self, core: &mut Core, sample: &AckSample) {
        if core.state == CaState::Open {
            self.acked = sample.packets;
        }
        if let Some(rtt) = sample.rtt_us.filter(|&rtt| rtt > 0) {
            self.take_rtt(core, core.us_to_jiffies(u64::from(rtt)) as u32);
        }
        if matches!(core.state, CaState::Open | CaState::Disorder) {
            self.take_rate(core, sample.packets);
        } else {
            self.packets = 0;
            self.begun = core.jiffies as u32;
        }
    }

    fn set_state(&mut self, core: &mut Core, state: CaState) {
        match state {
            CaState::Open => {
                if self.undo.take().is_some() {
                    self.last = core.jiffies as u32;
                }
            }
            CaState::Cwr | CaState::Recovery | CaState::Loss => {
                self.undo = Some((self.last, self.max_rtt, self.old_max_rate));
                self.last = core.jiffies as u32;
            }
            CaState::Disorder => {}
        }
    }

    fn undo_cwnd(&mut self, core: &mut Core) -> u32 {
        if let Some(undo) = self.undo.take() {
            (self.last, self.max_rtt, self.old_max_rate) = undo;
        }
        core.cwnd.max(core.prior_cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core() -> Core {
        let mut core = Core::new(1);
        (core.cwnd, core.ssthresh, core.jiffies, core.cwnd_limited) = (100, 50, 9000, true);
        core
    }

    #[test]
    fn growth_is_quadratic_from_the_second_second_on_and_less_at_short_round_trips() {
        let core = core();
        for (seconds, min_rtt, alpha) in [(1, 100, 128), (3, 100, 22 * 128), (3, 50, 11 * 128)] {
            let mut htcp = Htcp::new();
            (htcp.min_rtt, htcp.last) = (min_rtt, 9000 - 1000 * seconds);
            htcp.update_alpha(&core);
            assert_eq!(htcp.alpha, alpha, "{seconds} s, {min_rtt} ms");
        }
    }

    #[test]
    fn a_loss_leaves_the_ratio_of_round_trips_once_the_rate_is_steady() {
        let mut core = core();
        let mut htcp = Htcp::new();
        (htcp.min_rtt, htcp.max_rtt, htcp.max_rate) = (60, 100, 1000);
        assert_eq!(htcp.ssthresh(&mut core), 50);
        assert_eq!(htcp.ssthresh(&mut core), 50);
        // Fading memory: 100, 98 and 96 ms.
        assert_eq!(htcp.ssthresh(&mut core), 100 * (60 * 128 / 96) / 128);
        htcp.max_rate = 1201;
        assert_eq!(htcp.ssthresh(&mut core), 50);
    }

    #[test]
    fn a_loss_that_was_none_counts_no_time_from_it() {
        let mut core = core();
        let mut htcp = Htcp::new();
        htcp.last = 5000;
        htcp.set_state(&mut core, CaState::Recovery);
        assert_eq!(htcp.since(&core), 0);
        htcp.undo_cwnd(&mut core);
        htcp.set_state(&mut core, CaState::Open);
        assert_eq!(htcp.since(&core), 4000);
    }
}
