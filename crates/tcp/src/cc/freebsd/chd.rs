//! CHD (Hayes and Armitage, "Improved coexistence and loss tolerance for delay based TCP congestion control", IEEE LCN 2010) as
//! FreeBSD's cc_chd(4) does it.

use super::hd::{BackoffTuning, draw};
use super::{AckKind, CcVar, CongestionControl, Signal, newreno};

/// CHD's sysctls (net.inet.tcp.cc.chd.*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChdTuning {
    /// Thresholds of backing off.
    pub backoff: BackoffTuning,
    /// Competes with flows that only losses hold back (`loss_fair`).
    pub loss_fair: bool,
    /// A round's delay is its largest, not its last (`use_max`).
    pub use_max: bool,
}

impl ChdTuning {
    /// Defaults that every release ships (cc_chd(4)).
    pub const DEFAULT: ChdTuning = ChdTuning {
        backoff: BackoffTuning { threshold: 20, min: 5, max_percent: 50 },
        loss_fair: true,
        use_max: true,
    };
}

/// CHD's state. Delays are ticks.
#[derive(Debug)]
pub struct Chd {
    random: u64,
    /// Window that there would be without reactions to delay; 0: nobody seems to compete.
    shadow: u64,
    /// Others seem to be held back by losses alone.
    competes: bool,
    /// Largest RTT of the round.
    max_rtt: u32,
    /// Queueing delay at the last backoff.
    backed_off_at: u32,
}

impl Chd {
    /// CHD that draws from a generator seeded with `seed`.
    pub fn new(seed: u64) -> Chd {
        Chd { random: seed, shadow: 0, competes: false, max_rtt: 0, backed_off_at: 0 }
    }

    /// A round is over: the queueing delay to back off for, if any.
    fn end_round(&mut self, ccv: &CcVar) -> Option<u32> {
        let (t, d) = (ccv.tuning.chd, ccv.delays);
        let rtt = if t.use_max { self.max_rtt } else { ccv.delay_rtt };
        self.max_rtt = 0;
        if rtt == 0 || d.min_rtt == 0 || ccv.in_recovery() {
            return None;
        }
        let delay = rtt - d.min_rtt;
        if delay <= t.backoff.min {
            self.competes = false;
            return None;
        }
        let drawn = draw(&mut self.random);
        let backs_off = drawn < t.backoff.probability(delay, d.max_rtt - d.min_rtt);
        if delay <= t.backoff.threshold {
            self.competes = false;
        } else if t.loss_fair && backs_off {
            self.competes = true;
        }
        backs_off.then_some(delay)
    }

    fn delay_signal(&mut self, ccv: &mut CcVar, delay: u32) {
        self.shadow = if self.competes || delay > self.backed_off_at { self.shadow.max(ccv.cwnd) } else { 0 };
        self.backed_off_at = delay;
        halve(ccv);
        ccv.cwnd = ccv.ssthresh;
        ccv.recover = ccv.max;
        ccv.cong_recovery = true;
    }

    fn loss_signal(&mut self, ccv: &mut CcVar) {
        let delay = ccv.delay_rtt.max(self.max_rtt).wrapping_sub(ccv.delays.min_rtt);
        if !ccv.in_recovery() && delay > ccv.tuning.chd.backoff.threshold {
            if self.competes {
                ccv.cwnd = ccv.cwnd.max(self.shadow);
            }
            halve(ccv);
        } else {
            // Not for congestion, or answered already.
            ccv.ssthresh = ccv.cwnd;
            ccv.recover = ccv.max;
        }
        if self.shadow > 0 {
            self.shadow = (self.shadow / ccv.maxseg / 2).max(2) * ccv.maxseg;
        }
        ccv.fast_recovery = true;
    }

    /// NewReno's growth, but neither recovery nor an application that sends little holds it back.
    fn grow(&mut self, ccv: &mut CcVar, new_round: bool) {
        let increment = if ccv.cwnd <= ccv.ssthresh {
            slow_start_increment(ccv)
        } else if ccv.tuning.abc {
            if std::mem::take(&mut ccv.abc_sent_a_window) { ccv.maxseg } else { 0 }
        } else if new_round {
            ccv.maxseg
        } else {
            0
        };
        if self.shadow > 0 {
            self.shadow = (self.shadow + increment).min(ccv.largest_window());
        }
        ccv.cwnd = (ccv.cwnd + increment).min(ccv.largest_window());
    }
}

/// Slow-start increment as NewReno's, but ACKs that receive aggregation merged count as one in every release.
fn slow_start_increment(ccv: &CcVar) -> u64 {
    if !ccv.tuning.abc {
        return ccv.maxseg;
    }
    let segments = if ccv.nxt == ccv.max { ccv.tuning.abc_l_var } else { 1 };
    ccv.bytes_this_ack.min(segments * ccv.maxseg)
}

/// The threshold at half the window in whole segments. A window of less than one wraps around.
fn halve(ccv: &mut CcVar) {
    let segments = (ccv.snd_wnd.min(ccv.cwnd) / ccv.maxseg) as u32;
    let half = segments.wrapping_sub((segments / 2).max(1)).max(2);
    ccv.ssthresh = u64::from(half.wrapping_mul(ccv.maxseg as u32));
}

impl CongestionControl for Chd {
    fn conn_init(&mut self, ccv: &mut CcVar) {
        self.shadow = ccv.cwnd;
    }

    fn ack_received(&mut self, ccv: &mut CcVar, kind: AckKind) {
        self.max_rtt = self.max_rtt.max(ccv.delay_rtt);
        let new_round = std::mem::take(&mut ccv.new_measurement);
        let delay = if new_round { self.end_round(ccv) } else { None };
        if let Some(delay) = delay {
            self.delay_signal(ccv, delay);
        } else if kind == AckKind::New {
            self.grow(ccv, new_round);
        }
    }

    fn cong_signal(&mut self, ccv: &mut CcVar, signal: Signal) {
        match signal {
            Signal::DuplicateAcks => self.loss_signal(ccv),
            // What its state begins with is the shadow.
            other => newreno::cong_signal_of_another(ccv, other, self.shadow),
        }
    }

    fn post_recovery(&mut self, ccv: &mut CcVar) {
        newreno::post_recovery(ccv);
    }

    fn wants_packet_rtt(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::freebsd::CcTuning;

    fn losing(delay: u32, competes: bool) -> (u64, u64) {
        let mut ccv = CcVar::new(CcTuning::FREEBSD_15);
        (ccv.cwnd, ccv.maxseg, ccv.snd_wnd) = (40_000, 1000, 1_000_000);
        ccv.delay_rtt = 40 + delay;
        ccv.delays.min_rtt = 40;
        let mut chd = Chd { shadow: 60_000, competes, ..Chd::new(1) };
        chd.cong_signal(&mut ccv, Signal::DuplicateAcks);
        assert!(ccv.fast_recovery);
        (ccv.cwnd, ccv.ssthresh)
    }

    #[test]
    fn a_loss_counts_where_the_queue_is_long() {
        assert_eq!(losing(10, true), (40_000, 40_000), "not for congestion");
        assert_eq!(losing(30, false), (40_000, 20_000));
        assert_eq!(losing(30, true), (60_000, 30_000), "the window that others left it");
    }
}
