//! The RACK stack's first measurement of goodput, which pacing waits for (13.0's rack.c: rack_start_gp_measurement,
//! rack_need_set_test, rack_enough_for_measurement and rack_do_goodput_measurement). Times are microseconds.

/// Segments that a measurement takes, and of them what its clock misses (MIN_GP_WIN).
const SEGMENTS: u64 = 6;
const MISSED_SEGMENTS: u64 = 2;

/// The first measurement of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Goodput {
    mss: u64,
    /// Bytes that a measurement takes.
    window: u64,
    running: Option<Running>,
    known: bool,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    /// Bytes from here on are counted.
    start: u64,
    end: u64,
    /// Time when the first of what was sent only once arrived.
    since: Option<u64>,
}

impl Goodput {
    pub(super) fn new(initial_window: u64, mss: u64) -> Goodput {
        Goodput { mss, window: initial_window.max(SEGMENTS * mss), running: None, known: false }
    }

    /// Whether there is a measurement.
    pub(super) fn known(&self) -> bool {
        self.known
    }

    /// The clock of a measurement does not run yet: what is acknowledged may have waited for more.
    pub(super) fn waits_for_arrival(&self) -> bool {
        self.running.is_some_and(|running| running.since.is_none())
    }

    /// New data from `seq` on leaves.
    pub(super) fn on_sent(&mut self, seq: u64) {
        if !self.known && self.running.is_none() {
            self.running = Some(Running { start: seq, end: seq + self.window, since: None });
        }
    }

    /// Notes the arrival of what was sent only once, up to `end`.
    pub(super) fn on_arrival(&mut self, end: u64, now: u64) {
        if let Some(running) = &mut self.running
            && running.since.is_none()
            && end >= running.start
        {
            running.since = Some(now);
            running.start = end;
            if end > running.end {
                running.end = end + self.window;
            }
        }
    }

    /// `ack` is acknowledged, which is `all` that was sent or not; a measurement lasts for an RTT at least, `smoothed`.
    /// Whether this ACK completes the first one.
    pub(super) fn on_ack(&mut self, ack: u64, all: bool, smoothed: u64, now: u64) -> bool {
        let Some(Running { start, end, since }) = self.running else { return false };
        let bytes = ack.saturating_sub(start);
        let elapsed = since.map_or(0, |since| now - since);
        let long_enough = since.is_some() && elapsed >= smoothed;
        if !all && (ack < start || (ack < end && bytes < self.window) || !long_enough) {
            return false;
        }
        self.running = None;
        self.known = elapsed > 0 && bytes >= (SEGMENTS - MISSED_SEGMENTS) * self.mss;
        self.known
    }
}

#[cfg(test)]
mod tests {
    use super::Goodput;

    const MSS: u64 = 1448;

    /// The first round trips of the recorded `f13rack_newreno_10m_40ms_b90`: ten segments leave at 40.119 ms, and an ACK for
    /// two arrives every 2.422 ms. The one at 125.136 ms still finds output unpaced, that at 127.558 ms ends the measurement.
    #[test]
    fn the_first_measurement_lasts_for_an_rtt_from_the_first_ack() {
        let mut goodput = Goodput::new(10 * MSS, MSS);
        goodput.on_sent(0);
        assert!(goodput.waits_for_arrival());
        goodput.on_arrival(2 * MSS, 82_648);
        assert!(!goodput.waits_for_arrival());
        assert!(!goodput.on_ack(2 * MSS, false, 0, 82_648));
        goodput.on_sent(10 * MSS);
        for (segments, now) in [(4, 85_071), (6, 87_493), (8, 89_915), (10, 92_338)] {
            assert!(!goodput.on_ack(segments * MSS, false, 44_000, now));
        }
        assert!(!goodput.on_ack(12 * MSS, false, 45_202, 125_136));
        assert!(goodput.on_ack(14 * MSS, false, 44_863, 127_558));
        assert!(goodput.known());
        goodput.on_sent(40 * MSS);
        assert!(!goodput.waits_for_arrival(), "one is enough");
    }

    /// Measures nothing where too little arrived: the next new data starts another.
    #[test]
    fn a_short_flight_measures_nothing() {
        let mut goodput = Goodput::new(10 * MSS, MSS);
        goodput.on_sent(0);
        goodput.on_arrival(2 * MSS, 1_000);
        assert!(!goodput.on_ack(5 * MSS, true, 0, 2_000));
        assert!(!goodput.known());
        goodput.on_sent(5 * MSS);
        assert!(goodput.waits_for_arrival());
    }
}
