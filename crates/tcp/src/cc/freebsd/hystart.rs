//! HyStart++ (RFC 9406) as FreeBSD's cc_newreno(4) and cc_cubic(4) of 15 do it where the stack allows it: slow start
//! becomes conservative when a round's smallest RTT has risen, and ends after some such rounds.

use super::CcVar;

/// HyStart++'s sysctls (net.inet.tcp.cc.hystartplusplus.* of FreeBSD 15) and what the stack allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HyStartTuning {
    /// Whether the stack allows HyStart++ (net.inet.tcp.rack.features.hystartplusplus above 0).
    pub allowed: bool,
    /// Whether the window shrinks at the end of the rounds to what was in flight, and conservative rounds go on
    /// (above 1).
    pub shrinks: bool,
    /// ssthresh is then the mean of what was in flight at both ends (above 2).
    pub conservative: bool,
    /// Smallest rise that counts, us (minrtt_thresh; RFC 9406 section 4.3 MIN_RTT_THRESH).
    pub min_threshold_us: u32,
    /// Largest rise that is asked for, us (maxrtt_thresh; MAX_RTT_THRESH).
    pub max_threshold_us: u32,
    /// Number of RTT samples of a round before it is judged (n_rttsamples; N_RTT_SAMPLE).
    pub samples: u32,
    /// Conservative slow start grows by this part (css_growth_div; CSS_GROWTH_DIVISOR).
    pub growth_divisor: u64,
    /// Rounds of conservative slow start before slow start ends (css_rounds; CSS_ROUNDS).
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
    /// Whether slow start is conservative.
    conservative: bool,
    round: u32,
    entered_at: u32,
    samples: u32,
    smallest: u32,
    smallest_of_last: u32,
    baseline: u32,
    /// Bytes in flight when the sample with the smallest RTT was sent; now and when conservative slow start began.
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
    /// Loss came first, or conservative slow start is over: never again before an idle time.
    pub(super) fn stop(&mut self) {
        self.enabled = false;
        self.conservative = false;
    }

    /// The window is above ssthresh: conservative slow start, if it is that, is over.
    pub(super) fn leave(&mut self) {
        if self.conservative {
            self.stop();
        }
    }

    /// Starts again after an idle time.
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

    /// Begins a round: what was sent last when the last one began is acknowledged.
    pub(super) fn new_round(&mut self, ccv: &mut CcVar, round: u32) {
        let t = ccv.tuning.hystart;
        if !t.allowed {
            return;
        }
        self.smallest_of_last = self.smallest;
        self.smallest = UNKNOWN;
        self.samples = 0;
        self.round = round;
        if !self.conservative || round - self.entered_at < t.rounds {
            return;
        }
        if t.shrinks {
            ccv.ssthresh =
                if t.conservative { (self.flight + self.flight_at_entry) / 2 } else { self.flight };
            ccv.cwnd = self.flight_at_entry;
            self.entered_at = round;
        } else {
            ccv.ssthresh = ccv.cwnd;
            self.stop();
        }
    }

    /// The RTT of a segment that was sent once, with `flight` bytes in flight.
    pub(super) fn rtt_sample(&mut self, t: &HyStartTuning, rtt_us: u32, flight: u64) {
        if !t.allowed {
            return;
        }
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
