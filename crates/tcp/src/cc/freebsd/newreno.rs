//! NewReno (RFC 5681, 6582) as FreeBSD's cc_newreno(4) does it, with appropriate byte counting (RFC 3465).

use super::{AckKind, CcVar, CongestionControl, HyStart, Signal};
use crate::mutants::mutant;

/// NewReno. Keeps no state but that of HyStart++.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewReno {
    hystart: HyStart,
}

impl CongestionControl for NewReno {
    fn ack_received(&mut self, v: &mut CcVar, kind: AckKind) {
        if kind != AckKind::New || v.in_recovery() || !v.cwnd_limited {
            return;
        }
        if !v.tuning.hystart.allowed {
            grow(v);
        } else if v.cwnd > v.ssthresh {
            self.hystart.stop();
            grow(v);
        } else {
            let increment = slow_start_increment(v);
            let increment = if v.tuning.abc && !mutant!(NoHyStartPlusPlus) {
                self.hystart.slowed(&v.tuning.hystart, increment)
            } else {
                increment
            };
            v.cwnd = (v.cwnd + increment).min(v.largest_window());
        }
    }

    fn cong_signal(&mut self, v: &mut CcVar, signal: Signal) {
        if matches!(signal, Signal::DuplicateAcks | Signal::Ecn) {
            self.hystart.stop();
        }
        cong_signal(v, signal);
    }

    fn post_recovery(&mut self, v: &mut CcVar) {
        post_recovery(v);
    }

    fn after_idle(&mut self, v: &mut CcVar) {
        after_idle(v);
        if v.cwnd <= v.ssthresh {
            self.hystart.restart();
        }
    }

    fn new_round(&mut self, v: &mut CcVar, round: u32) {
        self.hystart.new_round(v, round);
    }

    fn rtt_sample(&mut self, v: &mut CcVar, rtt_us: u64, flight: u64) {
        self.hystart.rtt_sample(&v.tuning.hystart, rtt_us as u32, flight);
    }
}

/// Slow start or congestion avoidance for one ACK.
#[inline]
pub(super) fn grow(v: &mut CcVar) {
    let increment = if v.cwnd > v.ssthresh { avoidance_increment(v) } else { slow_start_increment(v) };
    v.cwnd = (v.cwnd + increment).min(v.largest_window());
}

/// Bytes to add in slow start (RFC 3465 section 2.2). After a timeout, while data is sent again, one segment at most
/// (section 2.3).
#[inline]
pub(super) fn slow_start_increment(v: &CcVar) -> u64 {
    if !v.tuning.abc {
        return v.maxseg;
    }
    let limit = if v.nxt == v.max {
        let merged = if v.tuning.abc_counts_merged_acks { v.nsegs } else { 1 };
        merged * v.tuning.abc_l_var * v.maxseg
    } else {
        v.maxseg
    };
    if mutant!(StretchAcksCount) { v.bytes_this_ack } else { v.bytes_this_ack.min(limit) }
}

/// Bytes to add in congestion avoidance: a segment per window acknowledged (RFC 3465 section 2.1).
#[inline]
pub(super) fn avoidance_increment(v: &mut CcVar) -> u64 {
    if !v.tuning.abc {
        return (v.maxseg * v.maxseg / v.cwnd).max(1);
    }
    if v.abc_sent_a_window {
        v.abc_sent_a_window = false;
        v.maxseg
    } else {
        0
    }
}

/// The window reduced by `percent`, in whole segments, at least two.
pub(super) fn reduced(v: &CcVar, percent: u64) -> u64 {
    let unit = v.loss_unit();
    (v.cwnd * percent / (100 * unit)).max(2) * unit
}

pub(super) fn cong_signal(v: &mut CcVar, signal: Signal) {
    let t = v.tuning;
    match signal {
        Signal::DuplicateAcks => {
            if !v.fast_recovery {
                if !v.cong_recovery {
                    v.ssthresh = reduced(v, t.newreno_beta);
                } else if t.abe && t.abe_loss_reduces {
                    v.ssthresh = v.ssthresh * t.newreno_beta / t.newreno_beta_ecn;
                }
                v.enter_recovery();
            }
        }
        Signal::Ecn => {
            if !v.cong_recovery {
                v.ssthresh = reduced(v, if t.abe { t.newreno_beta_ecn } else { t.newreno_beta });
                v.cwnd = v.ssthresh;
                v.cong_recovery = true;
            }
        }
        Signal::Timeout => on_timeout(v, t.newreno_beta),
        Signal::TimeoutUndone => {}
    }
}

/// A module's own reduction on a timeout (12 and later).
pub(super) fn on_timeout(v: &mut CcVar, percent: u64) {
    let t = v.tuning;
    if !t.module_handles_rto {
        return;
    }
    let unit = v.mss;
    if !t.rto_from_pipe {
        v.ssthresh = (v.snd_wnd.min(v.cwnd) / 2 / unit).max(2) * unit;
    } else if v.rxtshift == 1 {
        v.ssthresh = (v.snd_wnd.min(v.pipe) * percent / (100 * unit)).max(2) * unit;
    }
    v.cwnd = unit;
}

/// The window when recovery ends: ssthresh, or what is in flight and a segment more (RFC 6582 section 3.2 step 3).
pub(super) fn post_recovery(v: &mut CcVar) {
    if v.fast_recovery {
        v.cwnd = conservative_exit(v).unwrap_or(v.ssthresh);
    }
}

/// The window for a recovery that ends with less than ssthresh in flight, so that no burst follows.
pub(super) fn conservative_exit(v: &CcVar) -> Option<u64> {
    if v.pipe >= v.ssthresh {
        return None;
    }
    let floor = if v.tuning.exit_keeps_a_segment { v.maxseg } else { 0 };
    Some(v.pipe.max(floor) + v.maxseg)
}

/// The window after an idle time (RFC 5681 section 4.1).
pub(super) fn after_idle(v: &mut CcVar) {
    let t = v.tuning;
    if t.idle_keeps_ssthresh {
        v.ssthresh = v.ssthresh.max(v.cwnd - v.cwnd / 4);
    }
    let unit = if t.loss_counts_payload { v.mss } else { v.maxseg };
    v.cwnd = v.cwnd.min(t.restart_window.bytes(unit));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::freebsd::CcTuning;

    const FULL: u64 = 1448;

    /// NewReno of 15 in slow start with a window of 100 segments, where RACK allows HyStart++ as `mode` says.
    fn newreno(mode: i64) -> (NewReno, CcVar) {
        let mut tuning = CcTuning::FREEBSD_15;
        tuning.hystart.allowed = mode > 0;
        tuning.hystart.shrinks = mode > 1;
        tuning.hystart.conservative = mode > 2;
        let mut v = CcVar::new(tuning);
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
        cc.cong_signal(&mut v, Signal::DuplicateAcks);
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
        let (mut cc, mut v) = newreno(0);
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
