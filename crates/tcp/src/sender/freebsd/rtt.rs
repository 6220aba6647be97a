//! FreeBSD's retransmission timeout: smoothed RTT and variation in ticks with fractional bits, slop after the backoff.

/// Fractional bits of the smoothed RTT.
const SRTT_SHIFT: u32 = 5;
/// Fractional bits of the variation.
const VAR_SHIFT: u32 = 4;
/// Fractional bits both are brought to when combined.
const DELTA_SHIFT: u32 = 2;
/// Multipliers of the timeout after 0, 1, 2 … timeouts in a row.
const BACKOFF: [u32; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512, 512, 512];
/// Samples from which on round trips are worth keeping (tcp_discardcb).
const SAMPLES_TO_KEEP: u32 = 4;
/// Timeouts in a row after which the connection fails (TCP_MAXRXTSHIFT).
pub const MAX_SHIFT: u32 = 12;
/// Largest retransmission timeout, seconds.
const LARGEST_RTO_S: u32 = 64;
/// Bounds of the persist timer, seconds.
const PERSIST_S: (u32, u32) = (5, 60);

/// The estimator. All times in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    /// Smoothed RTT, 1/32 tick; 0 while unknown.
    pub srtt: i32,
    /// Variation, 1/16 tick; of [`Rtt::micros`] 1/32.
    pub rttvar: i32,
    /// The timeout in force.
    pub rto: u32,
    /// Timeouts in a row.
    pub shift: u32,
    /// Samples so far.
    pub updates: u32,
    /// Fractional bits of the variation: with one more than [`VAR_SHIFT`] it follows half as fast.
    var_shift: u32,
    min: u32,
    slop: u32,
    hz: u32,
}

impl Rtt {
    /// No samples yet. `min_ms` and `slop_ms` as in net.inet.tcp.rexmit_min and rexmit_slop.
    pub fn new(hz: u32, min_ms: u32, slop_ms: u32) -> Rtt {
        let ticks = |ms: u32| (u64::from(ms) * u64::from(hz) / 1000) as u32;
        let (min, slop) = (ticks(min_ms).max(1), ticks(slop_ms));
        Rtt { srtt: 0, rttvar: 0, rto: 3 * hz, shift: 0, updates: 0, var_shift: VAR_SHIFT, min, slop, hz }
    }

    /// Creates the RTT of FreeBSD 15's RACK stack: ticks are microseconds, and the variation follows by an eighth,
    /// not a quarter (tcp_rack_xmit_timer_commit).
    pub fn micros(min_ms: u32, slop_ms: u32) -> Rtt {
        Rtt { var_shift: VAR_SHIFT + 1, ..Rtt::new(1_000_000, min_ms, slop_ms) }
    }

    /// Begins with what is known of the path, in fractions of ticks of a clock of `hz`: see [`Rtt::known`] (cc_conn_init).
    pub fn begin_with(&mut self, srtt: u64, rttvar: u64, hz: u32) {
        if srtt == 0 {
            return;
        }
        let ours = |value: u64| (value * u64::from(self.hz) / u64::from(hz)) as i32;
        self.srtt = ours(srtt);
        // Unknown, it is one round trip.
        let variation = if rttvar > 0 { ours(rttvar) } else { self.srtt >> (SRTT_SHIFT - VAR_SHIFT) };
        self.rttvar = variation << (self.var_shift - VAR_SHIFT);
        self.rto = self.within((((self.srtt >> 2) + variation) >> 1) as u32, self.min);
    }

    /// Smoothed RTT and variation in 1/32 and 1/16 tick of a clock of `hz` (t_srtt, t_rttvar). None: there were too few samples
    /// for a host to keep them.
    pub fn known(&self, hz: u32) -> Option<(u64, u64)> {
        let theirs = |value: i32| value as u64 * u64::from(hz) / u64::from(self.hz);
        let variation = self.rttvar >> (self.var_shift - VAR_SHIFT);
        (self.updates >= SAMPLES_TO_KEEP).then(|| (theirs(self.srtt), theirs(variation)))
    }

    /// Takes a sample of `rtt` ticks, counted from 1 (RFC 6298 section 2.3 in fixed point).
    #[inline]
    pub fn sample(&mut self, rtt: u32) {
        self.updates = self.updates.saturating_add(1);
        if self.srtt != 0 {
            let delta = ((rtt as i32 - 1) << DELTA_SHIFT) - (self.srtt >> (SRTT_SHIFT - DELTA_SHIFT));
            self.srtt = (self.srtt + delta).max(1);
            let delta = delta.abs() - (self.rttvar >> (self.var_shift - DELTA_SHIFT));
            self.rttvar = (self.rttvar + delta).max(1);
        } else {
            self.srtt = (rtt << SRTT_SHIFT) as i32;
            self.rttvar = (rtt << (self.var_shift - 1)) as i32;
        }
        self.shift = 0;
        self.rto = self.within(self.rto_without_backoff() + self.slop, self.min.max(rtt + 2));
    }

    /// `value`, at least `least` and at most the largest timeout; of the two the latter wins (TCPT_RANGESET).
    #[inline]
    fn within(&self, value: u32, least: u32) -> u32 {
        value.max(least).min(LARGEST_RTO_S * self.hz)
    }

    /// max(rexmit_min, srtt + 4 rttvar).
    #[inline]
    fn rto_without_backoff(&self) -> u32 {
        let variation = self.rttvar >> (self.var_shift - VAR_SHIFT);
        let sum = ((self.srtt >> (SRTT_SHIFT - DELTA_SHIFT)) + variation) >> DELTA_SHIFT;
        (sum as u32).max(self.min)
    }

    /// The timeout after `shift` timeouts in a row.
    pub fn back_off(&mut self) {
        let backed = self.rto_without_backoff().saturating_mul(BACKOFF[self.shift.min(MAX_SHIFT) as usize]);
        self.rto = self.within(backed.saturating_add(self.slop), self.min);
    }

    /// The estimate is taken for worthless: the next sample replaces it, the variation keeps the timeout up.
    pub fn forget(&mut self) {
        self.rttvar += self.srtt >> SRTT_SHIFT;
        self.srtt = 0;
    }

    /// Time to the next probe of a closed window; counts as a backoff.
    pub fn persist(&mut self) -> u32 {
        let variation = self.rttvar >> (self.var_shift - VAR_SHIFT);
        let base = (((self.srtt >> 2) + variation) >> 1) as u32;
        let wait = base.saturating_mul(BACKOFF[self.shift.min(MAX_SHIFT) as usize]).saturating_add(self.slop);
        self.shift = (self.shift + 1).min(MAX_SHIFT);
        wait.clamp(PERSIST_S.0 * self.hz, PERSIST_S.1 * self.hz)
    }

    /// A tick in nanoseconds.
    pub fn tick_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz)
    }

    /// Half the smoothed RTT in ticks.
    pub fn half(&self) -> u64 {
        (self.srtt >> (SRTT_SHIFT + 1)) as u64
    }

    /// Smoothed RTT in nanoseconds. None while unknown.
    pub fn srtt_ns(&self) -> Option<u64> {
        (self.updates > 0).then(|| (self.srtt as u64 * (1_000_000_000 / u64::from(self.hz))) >> SRTT_SHIFT)
    }

    /// Variation in nanoseconds. None while unknown.
    pub fn rttvar_ns(&self) -> Option<u64> {
        (self.updates > 0)
            .then(|| (self.rttvar as u64 * (1_000_000_000 / u64::from(self.hz))) >> self.var_shift)
    }

    /// The timeout in force in nanoseconds.
    pub fn rto_ns(&self) -> u64 {
        u64::from(self.rto) * (1_000_000_000 / u64::from(self.hz))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_on_a_lan_are_230_260_320_440_680_1160_ms() {
        let mut rtt = Rtt::new(1000, 30, 200);
        for _ in 0..100 {
            rtt.sample(1);
        }
        let mut seen = vec![rtt.rto];
        for shift in 1..=5 {
            rtt.shift = shift;
            rtt.back_off();
            seen.push(rtt.rto);
        }
        assert_eq!(seen, [230, 260, 320, 440, 680, 1160]);
    }

    /// rexmit_min and what a sample asks for are raised to, then the largest timeout has the last word.
    #[test]
    fn no_timeout_is_above_64_s() {
        for seconds in [63, 64, 65, 3600] {
            let mut rtt = Rtt::new(1000, 30, 200);
            rtt.sample(seconds * 1000);
            assert_eq!(rtt.rto, 64_000, "a round trip of {seconds} s");
            rtt.back_off();
            assert_eq!(rtt.rto, 64_000);
        }
        let mut rtt = Rtt::new(1000, 100_000, 200);
        rtt.sample(40);
        assert_eq!(rtt.rto, 64_000, "a minimum of 100 s");
    }

    #[test]
    fn the_first_sample_sets_srtt_and_half_of_it_as_variation() {
        let mut rtt = Rtt::new(1000, 30, 200);
        rtt.sample(42);
        assert_eq!(rtt.srtt_ns(), Some(42_000_000));
        assert_eq!(rtt.rttvar_ns(), Some(21_000_000));
        assert_eq!(rtt.rto, 42 + 84 + 200);
    }
}
