//! Compound TCP (Tan, Song, Zhang and Sridharan, INFOCOM 2006; draft-sridharan-tcpm-ctcp-02): a delay window beside cwnd.
//!
//! Windows here are in bytes; the published formulas count packets, so gamma, the threshold and win^k are converted.

use crate::clock::Nanos;

/// Backlog in packets from which the delay window retreats, at first (section 4 of the paper).
const GAMMA: u64 = 30;
/// Smallest backlog that tuning may choose, packets.
const GAMMA_LOW: u64 = 5;
/// The delay part sleeps while cwnd is below so many packets (section 3.1 of the draft).
const LOW_WINDOW: u64 = 38;
/// Samples a round needs for its mean to count.
const SAMPLES: u64 = 3;

/// The delay part of one connection.
#[derive(Clone, Debug)]
pub struct Compound {
    dwnd: u64,
    /// Packets, in 1/16.
    gamma: u64,
    base: Option<Nanos>,
    sum: Nanos,
    samples: u64,
    /// The round ends when this is acknowledged.
    round_end: u64,
    /// Backlog that a Reno flow of cwnd would hold, packets in 1/16. None: no round since the last loss.
    reno_backlog: Option<u64>,
    /// Whether Compound TCP rests: after a timeout, until congestion avoidance.
    off: bool,
}

impl Default for Compound {
    fn default() -> Compound {
        Compound::new()
    }
}

impl Compound {
    /// The state of a new connection.
    pub fn new() -> Compound {
        Compound {
            dwnd: 0,
            gamma: GAMMA * 16,
            base: None,
            sum: 0,
            samples: 0,
            round_end: 0,
            reno_backlog: None,
            off: false,
        }
    }

    /// The delay window, bytes.
    pub fn delay_window(&self) -> u64 {
        self.dwnd
    }

    /// A round trip was measured.
    pub fn sample(&mut self, rtt: Nanos) {
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        self.sum += rtt;
        self.samples += 1;
    }

    /// An ACK up to `una`, with `nxt` sent: at the end of a round in congestion avoidance the delay window moves.
    pub fn on_ack(&mut self, una: u64, nxt: u64, cwnd: u64, mss: u64, avoiding: bool) {
        if una < self.round_end {
            return;
        }
        self.round_end = nxt;
        let (sum, samples) = (std::mem::take(&mut self.sum), std::mem::take(&mut self.samples));
        let Some(base) = self.base else { return };
        if !avoiding || samples < SAMPLES {
            return;
        }
        self.off = false;
        let rtt = (sum / samples).max(base).max(1);
        // Own packets in the queue: win (1 - base / rtt).
        let queued = |window: u64| (u128::from(window) * u128::from(rtt - base) / u128::from(rtt)) as u64;
        self.reno_backlog = Some(queued(cwnd) * 16 / mss);
        if cwnd < LOW_WINDOW * mss {
            self.dwnd = 0;
            return;
        }
        let window = cwnd + self.dwnd;
        let backlog = queued(window);
        if backlog * 16 < self.gamma * mss {
            self.dwnd += increment(window, mss);
        } else {
            self.dwnd = self.dwnd.saturating_sub(backlog);
        }
    }

    /// A loss: the total is to be half of what it was, cwnd half of itself (beta = 1/2); gamma learns from the backlog that
    /// overflowed (lambda = 0.8).
    pub fn on_loss(&mut self, cwnd: u64, mss: u64) {
        let window = cwnd + self.dwnd;
        self.dwnd =
            if self.off || cwnd < LOW_WINDOW * mss { 0 } else { (window / 2).saturating_sub(cwnd / 2) };
        if let Some(backlog) = self.reno_backlog.take() {
            let target = backlog * 3 / 4;
            self.gamma = ((self.gamma + 4 * target) / 5).clamp(GAMMA_LOW * 16, GAMMA * 16);
        }
    }

    /// A timeout: the delay part is off until congestion avoidance, and gamma starts again.
    pub fn on_timeout(&mut self) {
        self.dwnd = 0;
        self.gamma = GAMMA * 16;
        self.reno_backlog = None;
        self.off = true;
    }
}

/// alpha win^k - 1 packets in bytes, with alpha = 1/8 and k = 3/4 (section 3.3 of the paper); not below zero.
fn increment(window: u64, mss: u64) -> u64 {
    // win^(3/4) = sqrt(win sqrt(win)), in packets; 2^16 keeps the fraction.
    let packets = (u128::from(window) << 32) / u128::from(mss);
    let power = (packets * packets.isqrt()).isqrt() as u64;
    // packets has 32 fractional bits, its root 16, their product 48, the root of that 24.
    let bytes = (u128::from(power) * u128::from(mss)) >> (24 + 3);
    (bytes as u64).saturating_sub(mss)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1460;

    #[test]
    fn grows_by_the_published_amounts() {
        // draft-sridharan-tcpm-ctcp: packets per RTT at some windows.
        for (packets, tenths) in [(16, 0), (38, 9), (100, 29), (340, 89), (1000, 212), (3400, 547)] {
            let got = increment(packets * MSS, MSS) * 10 / MSS;
            assert!(got.abs_diff(tenths) <= 1, "{packets}: {got} for {tenths} tenths");
        }
    }

    #[test]
    fn sleeps_below_the_low_window_and_retreats_above_gamma() {
        let mut compound = Compound::new();
        let round = |compound: &mut Compound, n: u64, cwnd: u64, rtt: Nanos| {
            for _ in 0..4 {
                compound.sample(rtt);
            }
            compound.on_ack(n, n, cwnd, MSS, true);
        };
        round(&mut compound, 1, 37 * MSS, 40_000_000);
        assert_eq!(compound.delay_window(), 0);
        round(&mut compound, 2, 100 * MSS, 40_000_000);
        let grown = compound.delay_window();
        assert!(grown > 2 * MSS && grown < 4 * MSS, "{grown}");
        // 60 packets of 103 wait: more than gamma.
        round(&mut compound, 3, 100 * MSS, 100_000_000);
        assert_eq!(compound.delay_window(), 0);
    }

    #[test]
    fn gamma_learns_and_a_timeout_forgets() {
        let mut compound = Compound::new();
        for _ in 0..4 {
            compound.sample(40_000_000);
        }
        compound.on_ack(1, 1, 50 * MSS, MSS, true);
        compound.on_loss(50 * MSS, MSS);
        // No backlog at the loss: a fifth of 30 packets is left.
        assert_eq!(compound.gamma, GAMMA * 16 / 5);
        compound.on_timeout();
        assert_eq!(compound.gamma, GAMMA * 16);
    }
}
