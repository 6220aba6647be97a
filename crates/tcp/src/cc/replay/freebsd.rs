//! A congestion control of FreeBSD as a reference.

use super::{Arrival, Driven};
use crate::cc::freebsd::{AckKind, CcTuning, CcVar, CongestionControl, RTT_SHIFT, SSTHRESH_INFINITE, Signal};
use crate::clock::{HostClock, MICROSECOND, Nanos, SECOND};

/// Largest shift of a window's field (RFC 7323 section 2.3).
const LARGEST_SCALE: u8 = 14;

/// Bytes of options in each packet, which windows are counted with (t_maxseg): timestamps, which FreeBSD sends by default.
const OPTIONS: u64 = 12;

/// Round trip that is as long as any: the longest timeout.
const LONGEST_RTT: Nanos = 64 * SECOND;

/// Part of a sample in the smoothed RTT: an eighth (RFC 6298 section 2).
const GAIN: i64 = 8;

/// Module of FreeBSD, and what it sees of the connection. The peer's window never limits, and every ACK counts as one, however much
/// it acknowledges.
pub(crate) struct FreeBsd {
    ccv: CcVar,
    cc: Box<dyn CongestionControl>,
    clock: HostClock,
    /// Limit of what an ACK counts for in congestion avoidance, if the release has one.
    cap: Option<u64>,
    /// Whether the last reaction was to a timeout.
    timed_out: bool,
}

impl FreeBsd {
    /// A connection with packets of `mss` bytes, above 0, at a host with `hz` ticks a second.
    pub(crate) fn new(
        cc: Box<dyn CongestionControl>,
        tuning: CcTuning,
        capped: bool,
        mss: u32,
        hz: u32,
    ) -> FreeBsd {
        let mss = u64::from(mss);
        let cap = capped.then_some(tuning.abc_l_var * mss);
        let mut ccv = CcVar::new(tuning);
        (ccv.mss, ccv.maxseg, ccv.hz, ccv.snd_scale) = (mss, mss + OPTIONS, hz, LARGEST_SCALE);
        ccv.snd_wnd = ccv.largest_window();
        FreeBsd { ccv, cc, clock: HostClock::new(hz, 0, 0), cap, timed_out: false }
    }

    /// Takes a round trip in, and the sender's own smoothed one in place of the reference's where that is told.
    fn sample(&mut self, rtt: Option<Nanos>, srtt: Option<Nanos>) {
        let fixed = |time: Nanos| {
            ((time.min(LONGEST_RTT) << RTT_SHIFT) * u64::from(self.ccv.hz)).div_ceil(SECOND).max(1) as i64
        };
        let known = i64::from(self.ccv.srtt);
        let smoothed = match (srtt, rtt) {
            (Some(srtt), _) => fixed(srtt),
            (None, Some(rtt)) if known == 0 => fixed(rtt),
            (None, Some(rtt)) => known + (fixed(rtt) - known) / GAIN,
            (None, None) => return,
        };
        self.ccv.srtt = smoothed as u32;
        self.ccv.rtt_updates += 1;
    }

    fn end(&mut self) {
        (self.ccv.fast_recovery, self.ccv.cong_recovery, self.ccv.bytes_acked) = (false, false, 0);
    }
}

impl Driven for FreeBsd {
    fn init(&mut self) {
        self.cc.cb_init(&mut self.ccv);
        self.cc.conn_init(&mut self.ccv);
    }

    fn set_time(&mut self, now: Nanos) {
        self.ccv.ticks = self.clock.ticks(now);
        self.ccv.micros = self.ccv.ticks * (self.clock.tick_ns() / MICROSECOND);
    }

    fn follow(&mut self, cwnd: u64, ssthresh: Option<u64>) {
        self.ccv.cwnd = cwnd;
        self.ccv.ssthresh = ssthresh.unwrap_or(SSTHRESH_INFINITE);
        self.ccv.bytes_acked = 0;
        self.ccv.abc_sent_a_window = false;
    }

    fn window(&self, _found: u64) -> u64 {
        self.ccv.cwnd
    }

    fn threshold(&self) -> Option<u64> {
        self.ccv.known_ssthresh()
    }

    /// A window at the threshold itself grows by a slow start's step once: that is no slow start.
    fn is_slow_start(&self, cwnd: u64) -> bool {
        cwnd + self.ccv.mss <= self.ccv.ssthresh
    }

    fn arrived(&mut self, ack: &Arrival) {
        (self.ccv.una, self.ccv.nxt, self.ccv.max, self.ccv.curack) = (ack.una, ack.nxt, ack.nxt, ack.una);
        self.ccv.bytes_this_ack = ack.bytes;
    }

    fn grow(&mut self, rtt: Option<Nanos>, srtt: Option<Nanos>) {
        self.sample(rtt, srtt);
        if self.ccv.bytes_this_ack == 0 {
            return;
        }
        let threshold = self.ccv.ssthresh;
        self.ccv.count_ack(self.cap);
        self.cc.ack_received(&mut self.ccv, AckKind::New);
        self.ccv.ssthresh = threshold;
    }

    fn measure(&mut self, rtt: Option<Nanos>, srtt: Option<Nanos>) {
        self.sample(rtt, srtt);
        self.cc.ack_received(&mut self.ccv, AckKind::Duplicate);
    }

    fn react(&mut self, cwnd: u64, flight: u64, ecn: bool) {
        self.end();
        self.timed_out = false;
        (self.ccv.cwnd, self.ccv.pipe, self.ccv.recover) = (cwnd, flight, self.ccv.nxt);
        self.cc.cong_signal(&mut self.ccv, if ecn { Signal::Ecn } else { Signal::DuplicateAcks });
    }

    fn recovered(&mut self) -> u64 {
        // As much is in flight as may be, so that the window is not smaller for what is not sent.
        (self.ccv.cwnd, self.ccv.pipe) = (self.ccv.ssthresh, self.ccv.ssthresh);
        self.cc.post_recovery(&mut self.ccv);
        self.end();
        self.ccv.cwnd
    }

    /// Data in flight, and a packet more, which may be sent by now (RFC 6582 section 3.2 step 3).
    fn leads_to(&self, ssthresh: u64, cwnd: u64, flight: u64) -> bool {
        cwnd < ssthresh && cwnd <= flight + 2 * self.ccv.maxseg
    }

    fn timeout(&mut self, cwnd: u64, flight: u64, first: bool, _reduced: bool) {
        self.end();
        self.timed_out = true;
        self.ccv.cwnd = cwnd;
        (self.ccv.pipe, self.ccv.rxtshift) = (flight, if first { 1 } else { 2 });
        self.cc.cong_signal(&mut self.ccv, Signal::Timeout);
    }

    fn restart(&mut self) {
        self.cc.after_idle(&mut self.ccv);
    }

    fn undo(&mut self) {
        if std::mem::take(&mut self.timed_out) {
            self.cc.cong_signal(&mut self.ccv, Signal::TimeoutUndone);
        }
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Compared, Notice, Replay, Seen, Verdict};
    use super::*;
    use crate::cc::freebsd::{CdgTuning, CubicEra, built_in};

    const MSS: u64 = 1000;
    const RTT: Nanos = 50_000_000;

    fn reference(name: &str, era: CubicEra) -> Replay {
        let cc = built_in(&[name]).get(name).expect("built in").connect(era, &CdgTuning::DEFAULT, 0);
        let driven = FreeBsd::new(cc, CcTuning::FREEBSD_15, false, MSS as u32, 1000);
        Replay::new(Box::new(driven), MSS as u32, false)
    }

    /// Verdicts on a sender that doubles a window of 10 packets for three round trips, an ACK for every two packets, loses one,
    /// and is left with `left` of its window.
    fn told(name: &str, era: CubicEra, left: f64) -> Vec<Verdict> {
        let mut replay = reference(name, era);
        let (mut now, mut cwnd, mut found) = (0, 10 * MSS, Vec::new());
        let mut tell = |now, notice, bytes, cwnd| {
            found.extend(replay.step(&Seen::with_window(now, notice, bytes, RTT, cwnd)));
        };
        tell(0, Notice::Ack, 0, cwnd);
        for round in 0..4 {
            let acks = cwnd / MSS / 2;
            if round == 3 {
                tell(now, Notice::Loss, MSS, cwnd);
                cwnd = (cwnd as f64 * left) as u64;
            }
            for _ in 0..acks {
                now += RTT / acks;
                cwnd += if round == 3 { 0 } else { 2 * MSS };
                tell(now, Notice::Ack, 2 * MSS, cwnd);
            }
        }
        found
    }

    #[test]
    fn newreno_leaves_half_and_the_first_reduction_of_cubic_no_more() {
        for (name, era, left) in [
            ("cubic", CubicEra::Rfc8312, 0.49),
            ("cubic", CubicEra::Rfc8312Micros, 0.49),
            ("newreno", CubicEra::Rfc8312, 0.5),
        ] {
            let found = told(name, era, left);
            let (growth, losses): (Vec<Verdict>, Vec<Verdict>) =
                found.into_iter().partition(|verdict| verdict.compared == Compared::SlowStart);
            assert!(growth.len() >= 2, "{name}: {growth:?}");
            for verdict in &growth {
                assert_eq!(verdict.expected, verdict.found, "{name}: slow start doubles");
            }
            let [loss] = &losses[..] else { panic!("{name}: {losses:?}") };
            assert_eq!(loss.compared, Compared::Loss);
            assert!(loss.expected.abs_diff(loss.found) <= MSS, "{name}: {loss:?}");
        }
    }
    #[test]
    fn a_recovery_that_ends_with_little_in_flight_is_judged_by_its_threshold() {
        for (threshold, equal) in [(50, true), (35, false)] {
            let mut replay = reference("newreno", CubicEra::Rfc8312);
            let mut tell = |now, notice, left, cwnd, ssthresh| {
                let (flight, left, ssthresh) = (Some(100 * MSS), Some(left * MSS), Some(ssthresh * MSS));
                let seen = Seen::with_window(now, notice, MSS, RTT, cwnd * MSS);
                replay.step(&Seen { flight, most: flight, left, ssthresh, ..seen })
            };
            tell(0, Notice::Ack, 100, 100, 10);
            tell(1, Notice::Loss, 100, 100, 10);
            let told = tell(RTT, Notice::Recovered, 20, 21, threshold).expect("a verdict");
            assert_eq!((told.found == told.expected, told.expected), (equal, 50 * MSS), "{told:?}");
        }
    }

    #[test]
    fn each_timeout_in_a_row_reduces_until_15() {
        for (rto_from_pipe, threshold) in [(false, 2), (true, 50)] {
            let modules = built_in(&["newreno"]);
            let newreno = modules.get("newreno").expect("built in");
            let cc = newreno.connect(CubicEra::Rfc8312, &CdgTuning::DEFAULT, 0);
            let tuning = CcTuning { rto_from_pipe, ..CcTuning::FREEBSD_15 };
            let driven = FreeBsd::new(cc, tuning, false, MSS as u32, 1000);
            let mut replay = Replay::new(Box::new(driven), MSS as u32, false);
            let mut told = None;
            for (now, notice, cwnd) in
                [(0, Notice::Ack, 100), (1, Notice::Timeout, 1), (2, Notice::Timeout, 1), (3, Notice::Ack, 2)]
            {
                let (flight, ssthresh) = (Some(100 * MSS), (now > 0).then_some(threshold * MSS));
                let seen = Seen::with_window(now * SECOND, notice, MSS, RTT, cwnd * MSS);
                told = replay.step(&Seen { flight, most: flight, ssthresh, ..seen });
            }
            let told = told.expect("a verdict");
            assert_eq!((told.compared, told.expected), (Compared::Threshold, threshold * MSS), "{told:?}");
        }
    }

    #[test]
    fn a_window_grows_by_packets_with_their_options() {
        let mut replay = reference("newreno", CubicEra::Rfc8312);
        let mut cwnd = 100 * MSS;
        let mut found = Vec::new();
        for packet in 0..301 {
            cwnd += if packet > 0 && packet % 100 == 0 { MSS + OPTIONS } else { 0 };
            let (now, ssthresh) = (packet * RTT / 100, Some(50 * MSS));
            let (notice, bytes) = (Notice::Ack, if packet > 0 { MSS } else { 0 });
            let seen = Seen::with_window(now, notice, bytes, RTT, cwnd);
            found.extend(replay.step(&Seen { srtt: Some(RTT), ssthresh, ..seen }));
        }
        assert!(found.len() >= 2, "{found:?}");
        for verdict in found {
            assert_eq!(verdict.compared, Compared::Avoidance);
            assert_eq!((verdict.expected - 100 * MSS) % (MSS + OPTIONS), 0, "{verdict:?}");
            assert!(verdict.expected.abs_diff(verdict.found) <= MSS + OPTIONS, "{verdict:?}");
        }
    }
}
