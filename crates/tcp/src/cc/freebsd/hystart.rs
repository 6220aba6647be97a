//! HyStart++ (RFC 9406) as FreeBSD's cc_newreno(4) of 15 does it where the stack allows it: slow start becomes
//! conservative when a round's smallest RTT has risen, and ends after some such rounds.

use super::CcVar;

/// HyStart++'s sysctls (net.inet.tcp.cc.hystartplusplus.* of 15) and what the stack allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HyStartTuning {
    /// The stack allows it (net.inet.tcp.rack.features.hystartplusplus above 0).
    pub allowed: bool,
    /// The window shrinks to what was in flight when the rounds end, and conservative rounds go on (above 1).
    pub shrinks: bool,
    /// ssthresh is then the mean of what was in flight at both ends (above 2).
    pub conservative: bool,
    /// Smallest rise that counts, us (minrtt_thresh; RFC 9406 section 4.3 MIN_RTT_THRESH).
    pub min_threshold_us: u32,
    /// Largest rise that is asked for, us (maxrtt_thresh; MAX_RTT_THRESH).
    pub max_threshold_us: u32,
    /// RTT samples of a round before it is judged (n_rttsamples; N_RTT_SAMPLE).
    pub samples: u32,
    /// Conservative slow start grows by this part (css_growth_div; CSS_GROWTH_DIVISOR).
    pub growth_divisor: u64,
    /// Rounds of it before slow start ends (css_rounds; CSS_ROUNDS).
    pub rounds: u32,
}

/// A part of the last round's RTT that counts as a rise (RFC 9406 section 4.3 MIN_RTT_DIVISOR), as a shift.
const RISE_SHIFT: u32 = 3;
/// No RTT yet.
const UNKNOWN: u32 = u32::MAX;

/// The state of one connection. RTTs are microseconds.
#[derive(Clone, Copy, Debug)]
pub struct HyStart {
    enabled: bool,
    /// In conservative slow start.
    conservative: bool,
    round: u32,
    entered_at: u32,
    samples: u32,
    smallest: u32,
    smallest_of_last: u32,
    baseline: u32,
    /// In flight when the sample with the smallest RTT was sent, bytes; now and when conservative slow start began.
    flight: u64,
    flight_at_entry: u64,
}

impl Default for HyStart {
    fn default() -> HyStart {
        HyStart {
            enabled: true,
            conservative: false,
            round: 0,
            entered_at: 0,
            samples: 0,
            smallest: UNKNOWN,
            smallest_of_last: UNKNOWN,
            baseline: UNKNOWN,
            flight: 0,
            flight_at_entry: 0,
        }
    }
}

impl HyStart {
    /// Slow start is over, or loss came first: never again before an idle time.
    pub(super) fn stop(&mut self) {
        self.enabled = false;
        self.conservative = false;
    }

    /// After an idle time that leaves the window below ssthresh.
    pub(super) fn restart(&mut self) {
        if !self.enabled {
            self.enabled = true;
            self.conservative = false;
        }
    }

    /// An ACK in slow start that would add `increment` bytes: returns what it adds (RFC 9406 section 4.2).
    pub(super) fn slowed(&mut self, t: &HyStartTuning, increment: u64) -> u64 {
        if t.allowed && self.enabled && !self.conservative && self.has_risen(t) {
            self.conservative = true;
            self.flight_at_entry = self.flight;
            self.baseline = self.smallest;
            self.entered_at = self.round;
        }
        if self.conservative { increment / t.growth_divisor } else { increment }
    }

    fn has_risen(&self, t: &HyStartTuning) -> bool {
        if self.samples < t.samples || self.smallest == UNKNOWN || self.smallest_of_last == UNKNOWN {
            return false;
        }
        let part = self.smallest_of_last >> RISE_SHIFT;
        self.smallest >= self.smallest_of_last + part.max(t.min_threshold_us).min(t.max_threshold_us)
    }

    /// What was sent last when a round began is acknowledged.
    pub(super) fn new_round(&mut self, v: &mut CcVar, round: u32) {
        let t = v.tuning.hystart;
        self.smallest_of_last = self.smallest;
        self.smallest = UNKNOWN;
        self.samples = 0;
        self.round = round;
        if !self.conservative || round - self.entered_at < t.rounds {
            return;
        }
        if t.shrinks {
            v.ssthresh = if t.conservative { (self.flight + self.flight_at_entry) / 2 } else { self.flight };
            v.cwnd = self.flight_at_entry;
            self.entered_at = round;
        } else {
            v.ssthresh = v.cwnd;
            self.stop();
        }
    }

    /// The RTT of a segment that was sent once, with `flight` bytes in flight.
    pub(super) fn rtt_sample(&mut self, t: &HyStartTuning, rtt_us: u32, flight: u64) {
        self.samples += 1;
        if rtt_us < self.smallest {
            self.smallest = rtt_us;
            self.flight = flight;
        }
        let judged = self.samples >= t.samples && self.smallest_of_last != UNKNOWN;
        if judged && self.smallest < self.baseline {
            // The rise was none: slow start goes on.
            self.conservative = false;
            self.baseline = UNKNOWN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AckKind, CongestionControl, NewReno, by_name};
    use super::*;
    use crate::cc::freebsd::CubicEra;
    use crate::profile::freebsd::release;

    const FULL: u64 = 1448;

    /// NewReno of 15 in slow start with a window of 100 segments.
    fn newreno(mode: i64) -> (NewReno, CcVar) {
        use crate::profile::Profile;
        let mut profile = release("freebsd-15-current/rack").expect("a release");
        profile.set("net.inet.tcp.rack.features.hystartplusplus", mode);
        let mut v = CcVar::new(profile.sender_tuning().cc);
        v.mss = FULL;
        v.maxseg = 1460;
        v.cwnd = 100 * FULL;
        v.snd_wnd = 10_000 * FULL;
        v.snd_scale = 10;
        v.cwnd_limited = true;
        (NewReno::default(), v)
    }

    fn round(cc: &mut NewReno, v: &mut CcVar, number: u32, rtt_us: u64) {
        cc.new_round(v, number);
        for _ in 0..8 {
            cc.rtt_sample(v, rtt_us, 50 * FULL);
        }
    }

    /// Bytes that an ACK for two segments adds.
    fn growth(cc: &mut NewReno, v: &mut CcVar) -> u64 {
        let before = v.cwnd;
        v.bytes_this_ack = 2 * FULL;
        cc.ack_received(v, AckKind::New);
        v.cwnd - before
    }

    #[test]
    fn a_rise_of_an_eighth_slows_growth_to_a_quarter_and_five_rounds_end_slow_start() {
        let (mut cc, mut v) = newreno(1);
        round(&mut cc, &mut v, 1, 40_000);
        assert_eq!(growth(&mut cc, &mut v), 2896, "no round before");
        round(&mut cc, &mut v, 2, 44_999);
        assert_eq!(growth(&mut cc, &mut v), 2896, "less than 40 ms / 8");
        round(&mut cc, &mut v, 3, 50_624);
        assert_eq!(growth(&mut cc, &mut v), 724, "44.999 ms and an eighth");
        for number in 4..8 {
            round(&mut cc, &mut v, number, 60_000);
            assert_eq!(growth(&mut cc, &mut v), 724, "round {number}");
        }
        cc.new_round(&mut v, 8);
        assert_eq!(v.ssthresh, v.cwnd, "five rounds after the third");
        assert_eq!(v.cwnd, 100 * FULL + 2 * 2896 + 5 * 724);
    }

    #[test]
    fn the_rise_is_4_ms_at_least_and_16_at_most() {
        for (rtt, rise, slowed) in
            [(8000, 3999, false), (8000, 4000, true), (400_000, 15_999, false), (400_000, 16_000, true)]
        {
            let (mut cc, mut v) = newreno(1);
            round(&mut cc, &mut v, 1, rtt);
            round(&mut cc, &mut v, 2, rtt + rise);
            assert_eq!(growth(&mut cc, &mut v) == 724, slowed, "{rtt} us and {rise} us");
        }
    }

    #[test]
    fn seven_samples_are_too_few() {
        let (mut cc, mut v) = newreno(1);
        round(&mut cc, &mut v, 1, 40_000);
        cc.new_round(&mut v, 2);
        for _ in 0..7 {
            cc.rtt_sample(&mut v, 80_000, 0);
        }
        assert_eq!(growth(&mut cc, &mut v), 2896);
        cc.rtt_sample(&mut v, 80_000, 0);
        assert_eq!(growth(&mut cc, &mut v), 724);
    }

    #[test]
    fn an_rtt_below_the_one_that_slowed_it_resumes_slow_start() {
        let (mut cc, mut v) = newreno(1);
        round(&mut cc, &mut v, 1, 40_000);
        round(&mut cc, &mut v, 2, 50_000);
        assert_eq!(growth(&mut cc, &mut v), 724);
        round(&mut cc, &mut v, 3, 49_999);
        assert_eq!(growth(&mut cc, &mut v), 2896);
    }

    #[test]
    fn loss_and_avoidance_end_it() {
        let (mut cc, mut v) = newreno(1);
        round(&mut cc, &mut v, 1, 40_000);
        round(&mut cc, &mut v, 2, 50_000);
        assert_eq!(growth(&mut cc, &mut v), 724);
        cc.cong_signal(&mut v, super::super::Signal::DuplicateAcks);
        v.fast_recovery = false;
        v.cong_recovery = false;
        v.ssthresh = v.cwnd + 100 * FULL;
        assert_eq!(growth(&mut cc, &mut v), 2896, "slow start after a loss is plain");
    }

    #[test]
    fn the_window_may_shrink_to_what_was_in_flight() {
        for (mode, ssthresh) in [(2, 30), (3, 40)] {
            let (mut cc, mut v) = newreno(mode);
            round(&mut cc, &mut v, 1, 40_000);
            round(&mut cc, &mut v, 2, 50_000);
            assert_eq!(growth(&mut cc, &mut v), 724);
            for number in 3..=6 {
                cc.new_round(&mut v, number);
                cc.rtt_sample(&mut v, 60_000, 30 * FULL);
            }
            cc.new_round(&mut v, 7);
            assert_eq!((v.cwnd, v.ssthresh), (50 * FULL, ssthresh * FULL), "mode {mode}");
        }
    }

    #[test]
    fn it_is_off_where_no_stack_allows_it() {
        let (_, mut v) = newreno(0);
        let tuning = crate::cc::freebsd::CdgTuning::DEFAULT;
        let mut cc = by_name("newreno", CubicEra::Rfc8312Micros, &tuning, 0).expect("NewReno");
        for (number, rtt) in [(1, 40_000), (2, 400_000)] {
            cc.new_round(&mut v, number);
            for _ in 0..8 {
                cc.rtt_sample(&mut v, rtt, 0);
            }
        }
        v.bytes_this_ack = 2 * FULL;
        cc.ack_received(&mut v, AckKind::New);
        assert_eq!(v.cwnd, 102 * FULL);
    }
}
