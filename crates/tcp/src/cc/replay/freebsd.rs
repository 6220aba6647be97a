//! A congestion control of FreeBSD as a reference.

use super::{Arrival, Driven};
use crate::cc::freebsd::{AckKind, CcTuning, CcVar, CongestionControl, RTT_SHIFT, SSTHRESH_INFINITE, Signal};
use crate::clock::{HostClock, MICROSECOND, Nanos, SECOND};

/// Largest shift of a window's field (RFC 7323 section 2.3).
const LARGEST_SCALE: u8 = 14;

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
        (ccv.mss, ccv.maxseg, ccv.hz, ccv.snd_scale) = (mss, mss, hz, LARGEST_SCALE);
        ccv.snd_wnd = ccv.largest_window();
        FreeBsd { ccv, cc, clock: HostClock::new(hz, 0, 0), cap }
    }

    fn sample(&mut self, rtt: Nanos) {
        let ticks = (rtt * u64::from(self.ccv.hz) / SECOND).max(1).min(u64::from(u32::MAX >> RTT_SHIFT));
        let sample = (ticks << RTT_SHIFT) as i64;
        let known = i64::from(self.ccv.srtt);
        self.ccv.srtt = if known == 0 { sample } else { known + (sample - known) / GAIN } as u32;
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

    fn window(&self) -> u64 {
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

    fn grow(&mut self, rtt: Option<Nanos>) {
        if let Some(rtt) = rtt {
            self.sample(rtt);
        }
        if self.ccv.bytes_this_ack == 0 {
            return;
        }
        let threshold = self.ccv.ssthresh;
        self.ccv.count_ack(self.cap);
        self.cc.ack_received(&mut self.ccv, AckKind::New);
        self.ccv.ssthresh = threshold;
    }

    fn react(&mut self, cwnd: u64, flight: u64, ecn: bool) {
        self.end();
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

    fn timeout(&mut self, cwnd: u64, first: bool, reduced: bool) {
        self.end();
        if !reduced {
            self.ccv.cwnd = cwnd;
        }
        (self.ccv.pipe, self.ccv.rxtshift) = (cwnd, if first { 1 } else { 2 });
        self.cc.cong_signal(&mut self.ccv, Signal::Timeout);
    }

    fn undo(&mut self) {
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
            let seen = Seen { now, notice, bytes, rtt: Some(RTT), flight: None, cwnd, ssthresh: None };
            found.extend(replay.step(&seen));
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
    fn cubic_leaves_seven_tenths_and_newreno_half() {
        for (name, era, left) in [
            ("cubic", CubicEra::Rfc8312, 0.7),
            ("cubic", CubicEra::Rfc8312Micros, 0.7),
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
}
