//! NewReno (RFC 5681, 6582) as FreeBSD's cc_newreno(4) does it, with appropriate byte counting (RFC 3465).

use super::{AckKind, CcVar, CongestionControl, HyStart, Signal};

/// NewReno. Keeps no state but that of HyStart++.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewReno {
    hystart: HyStart,
    /// Part of the window that a loss leaves, in percent. None: what the host's sysctl says.
    beta: Option<u64>,
}

impl NewReno {
    /// NewReno with a beta of its own, in percent.
    pub fn with(beta: Option<u64>) -> NewReno {
        NewReno { beta, ..NewReno::default() }
    }
}

impl CongestionControl for NewReno {
    fn cb_init(&mut self, ccv: &mut CcVar) {
        if let Some(beta) = self.beta {
            ccv.tuning.newreno_beta = beta;
        }
    }

    fn ack_received(&mut self, ccv: &mut CcVar, kind: AckKind) {
        if kind != AckKind::New || ccv.in_recovery() || !ccv.cwnd_limited {
            return;
        }
        if !ccv.tuning.hystart.allowed {
            grow(ccv);
        } else if ccv.cwnd > ccv.ssthresh {
            self.hystart.leave();
            grow(ccv);
        } else {
            let increment = slow_start_increment(ccv);
            let increment =
                if ccv.tuning.abc { self.hystart.slowed(&ccv.tuning.hystart, increment) } else { increment };
            ccv.cwnd = (ccv.cwnd + increment).min(ccv.largest_window());
        }
    }

    fn cong_signal(&mut self, ccv: &mut CcVar, signal: Signal) {
        if matches!(signal, Signal::DuplicateAcks | Signal::Ecn) {
            self.hystart.stop();
        }
        cong_signal(ccv, signal);
    }

    fn post_recovery(&mut self, ccv: &mut CcVar) {
        post_recovery(ccv);
    }

    fn after_idle(&mut self, ccv: &mut CcVar) {
        after_idle(ccv);
        if ccv.cwnd <= ccv.ssthresh {
            self.hystart.restart();
        }
    }

    fn new_round(&mut self, ccv: &mut CcVar, round: u32) {
        self.hystart.new_round(ccv, round);
    }

    fn rtt_sample(&mut self, ccv: &mut CcVar, rtt_us: u64, flight: u64) {
        self.hystart.rtt_sample(&ccv.tuning.hystart, rtt_us as u32, flight);
    }
}

/// An ACK, as other modules pass it on.
pub(super) fn on_ack(ccv: &mut CcVar, kind: AckKind) {
    if kind == AckKind::New && !ccv.in_recovery() && ccv.cwnd_limited {
        grow(ccv);
    }
}

/// Slow start or congestion avoidance for one ACK.
#[inline]
pub(super) fn grow(ccv: &mut CcVar) {
    let increment =
        if ccv.cwnd > ccv.ssthresh { avoidance_increment(ccv) } else { slow_start_increment(ccv) };
    ccv.cwnd = (ccv.cwnd + increment).min(ccv.largest_window());
}

/// Bytes to add in slow start (RFC 3465 section 2.2). After a timeout, while data is sent again, one segment at most
/// (section 2.3).
#[inline]
pub(super) fn slow_start_increment(ccv: &CcVar) -> u64 {
    if ccv.tuning.abc { counted_increment(ccv) } else { ccv.maxseg }
}

/// Bytes to add in slow start, for modules that count bytes always (CUBIC of FreeBSD 15).
#[inline]
pub(super) fn counted_increment(ccv: &CcVar) -> u64 {
    let limit = if ccv.nxt == ccv.max {
        let merged = if ccv.tuning.abc_counts_merged_acks { ccv.nsegs } else { 1 };
        merged * ccv.tuning.abc_l_var * ccv.maxseg
    } else {
        ccv.maxseg
    };
    ccv.bytes_this_ack.min(limit)
}

/// Bytes to add in congestion avoidance: a segment per window acknowledged (RFC 3465 section 2.1).
#[inline]
pub(super) fn avoidance_increment(ccv: &mut CcVar) -> u64 {
    if !ccv.tuning.abc {
        return (ccv.maxseg * ccv.maxseg / ccv.cwnd).max(1);
    }
    if ccv.abc_sent_a_window {
        ccv.abc_sent_a_window = false;
        ccv.maxseg
    } else {
        0
    }
}

/// The window reduced by `percent`, in whole segments, at least two; in 32 bits.
pub(super) fn reduced(ccv: &CcVar, percent: u64) -> u64 {
    let unit = ccv.loss_unit();
    let segments = ((ccv.cwnd * percent / (100 * unit)) as u32).max(2);
    u64::from(segments.wrapping_mul(unit as u32))
}

/// A signal that another module passes on. FreeBSD 12 to 14 read NewReno's two percentages from the beginning of
/// that module's own state, whose first eight bytes are `own`; 15 knows one percentage for all, and halves on a
/// timeout.
pub(super) fn cong_signal_of_another(ccv: &mut CcVar, signal: Signal, own: u64) {
    let usual = ccv.tuning;
    if usual.state_of_others_is_read {
        (ccv.tuning.newreno_beta, ccv.tuning.newreno_beta_ecn) = (own & u64::from(u32::MAX), own >> 32);
    } else if usual.rto_from_pipe {
        ccv.tuning.abe = false;
        if signal == Signal::Timeout {
            ccv.tuning.newreno_beta = 50;
        }
    }
    cong_signal(ccv, signal);
    ccv.tuning = usual;
}

pub(super) fn cong_signal(ccv: &mut CcVar, signal: Signal) {
    let t = ccv.tuning;
    match signal {
        Signal::DuplicateAcks => {
            if !ccv.fast_recovery {
                if !ccv.cong_recovery {
                    ccv.ssthresh = reduced(ccv, t.newreno_beta);
                } else if t.abe && t.abe_loss_reduces {
                    ccv.ssthresh = ccv.ssthresh * t.newreno_beta / t.newreno_beta_ecn;
                }
                ccv.enter_recovery();
            }
        }
        Signal::Ecn => {
            if !ccv.cong_recovery {
                ccv.ssthresh = reduced(ccv, if t.abe { t.newreno_beta_ecn } else { t.newreno_beta });
                ccv.cwnd = ccv.ssthresh;
                ccv.cong_recovery = true;
            }
        }
        Signal::Timeout => on_timeout(ccv, t.newreno_beta),
        Signal::TimeoutUndone => {}
    }
}

/// A module's own reduction on a timeout (FreeBSD 12 and later).
pub(super) fn on_timeout(ccv: &mut CcVar, percent: u64) {
    let t = ccv.tuning;
    if !t.module_handles_rto {
        return;
    }
    let unit = ccv.mss;
    if !t.rto_from_pipe {
        ccv.ssthresh = (ccv.snd_wnd.min(ccv.cwnd) / 2 / unit).max(2) * unit;
    } else if ccv.rxtshift == 1 {
        ccv.ssthresh = (ccv.snd_wnd.min(ccv.pipe) * percent / (100 * unit)).max(2) * unit;
    }
    ccv.cwnd = unit;
}

/// The window when recovery ends: ssthresh, or what is in flight and a segment more (RFC 6582 section 3.2 step 3).
pub(super) fn post_recovery(ccv: &mut CcVar) {
    if ccv.fast_recovery {
        ccv.cwnd = conservative_exit(ccv).unwrap_or(ccv.ssthresh);
    }
}

/// The window for a recovery that ends with less than ssthresh in flight, so that no burst follows.
pub(super) fn conservative_exit(ccv: &CcVar) -> Option<u64> {
    if ccv.pipe >= ccv.ssthresh {
        return None;
    }
    let floor = if ccv.tuning.exit_keeps_a_segment { ccv.maxseg } else { 0 };
    Some(ccv.pipe.max(floor) + ccv.maxseg)
}

/// The window after an idle time (RFC 5681 section 4.1).
pub(super) fn after_idle(ccv: &mut CcVar) {
    let t = ccv.tuning;
    if t.idle_keeps_ssthresh {
        ccv.ssthresh = ccv.ssthresh.max(ccv.cwnd - ccv.cwnd / 4);
    }
    let unit = if t.loss_counts_payload { ccv.mss } else { ccv.maxseg };
    ccv.cwnd = ccv.cwnd.min(t.restart_window.bytes(unit));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::freebsd::CcTuning;

    const FULL: u64 = 1448;

    /// NewReno of FreeBSD 15 in slow start with a window of 100 segments, where RACK allows HyStart++ as `mode` says.
    fn newreno(mode: i64) -> (NewReno, CcVar) {
        let mut tuning = CcTuning::FREEBSD_15;
        tuning.hystart.allowed = mode > 0;
        tuning.hystart.shrinks = mode > 1;
        tuning.hystart.conservative = mode > 2;
        let mut ccv = CcVar::new(tuning);
        ccv.mss = FULL;
        ccv.maxseg = 1460;
        ccv.cwnd = 100 * FULL;
        ccv.snd_wnd = 10_000 * FULL;
        ccv.snd_scale = 10;
        ccv.cwnd_limited = true;
        (NewReno::default(), ccv)
    }

    fn round(cc: &mut NewReno, ccv: &mut CcVar, number: u32, rtt_us: u64) {
        cc.new_round(ccv, number);
        for _ in 0..8 {
            cc.rtt_sample(ccv, rtt_us, 50 * FULL);
        }
    }

    /// Bytes that an ACK for two segments adds.
    fn growth(cc: &mut NewReno, ccv: &mut CcVar) -> u64 {
        let before = ccv.cwnd;
        ccv.bytes_this_ack = 2 * FULL;
        cc.ack_received(ccv, AckKind::New);
        ccv.cwnd - before
    }

    #[test]
    fn a_rise_of_an_eighth_slows_growth_to_a_quarter_and_five_rounds_end_slow_start() {
        let (mut cc, mut ccv) = newreno(1);
        round(&mut cc, &mut ccv, 1, 40_000);
        assert_eq!(growth(&mut cc, &mut ccv), 2896, "no round before");
        round(&mut cc, &mut ccv, 2, 44_999);
        assert_eq!(growth(&mut cc, &mut ccv), 2896, "less than 40 ms / 8");
        round(&mut cc, &mut ccv, 3, 50_624);
        assert_eq!(growth(&mut cc, &mut ccv), 724, "44.999 ms and an eighth");
        for number in 4..8 {
            round(&mut cc, &mut ccv, number, 60_000);
            assert_eq!(growth(&mut cc, &mut ccv), 724, "round {number}");
        }
        cc.new_round(&mut ccv, 8);
        assert_eq!(ccv.ssthresh, ccv.cwnd, "five rounds after the third");
        assert_eq!(ccv.cwnd, 100 * FULL + 2 * 2896 + 5 * 724);
    }

    #[test]
    fn the_rise_is_4_ms_at_least_and_16_at_most() {
        for (rtt, rise, slowed) in
            [(8000, 3999, false), (8000, 4000, true), (400_000, 15_999, false), (400_000, 16_000, true)]
        {
            let (mut cc, mut ccv) = newreno(1);
            round(&mut cc, &mut ccv, 1, rtt);
            round(&mut cc, &mut ccv, 2, rtt + rise);
            assert_eq!(growth(&mut cc, &mut ccv) == 724, slowed, "{rtt} us and {rise} us");
        }
    }

    #[test]
    fn seven_samples_are_too_few() {
        let (mut cc, mut ccv) = newreno(1);
        round(&mut cc, &mut ccv, 1, 40_000);
        cc.new_round(&mut ccv, 2);
        for _ in 0..7 {
            cc.rtt_sample(&mut ccv, 80_000, 0);
        }
        assert_eq!(growth(&mut cc, &mut ccv), 2896);
        cc.rtt_sample(&mut ccv, 80_000, 0);
        assert_eq!(growth(&mut cc, &mut ccv), 724);
    }

    #[test]
    fn an_rtt_below_the_one_that_slowed_it_resumes_slow_start() {
        let (mut cc, mut ccv) = newreno(1);
        round(&mut cc, &mut ccv, 1, 40_000);
        round(&mut cc, &mut ccv, 2, 50_000);
        assert_eq!(growth(&mut cc, &mut ccv), 724);
        round(&mut cc, &mut ccv, 3, 49_999);
        assert_eq!(growth(&mut cc, &mut ccv), 2896);
    }

    #[test]
    fn loss_and_avoidance_end_it() {
        let (mut cc, mut ccv) = newreno(1);
        round(&mut cc, &mut ccv, 1, 40_000);
        round(&mut cc, &mut ccv, 2, 50_000);
        assert_eq!(growth(&mut cc, &mut ccv), 724);
        cc.cong_signal(&mut ccv, Signal::DuplicateAcks);
        ccv.fast_recovery = false;
        ccv.cong_recovery = false;
        ccv.ssthresh = ccv.cwnd + 100 * FULL;
        assert_eq!(growth(&mut cc, &mut ccv), 2896, "slow start after a loss is plain");
    }

    #[test]
    fn the_window_may_shrink_to_what_was_in_flight() {
        for (mode, ssthresh) in [(2, 30), (3, 40)] {
            let (mut cc, mut ccv) = newreno(mode);
            round(&mut cc, &mut ccv, 1, 40_000);
            round(&mut cc, &mut ccv, 2, 50_000);
            assert_eq!(growth(&mut cc, &mut ccv), 724);
            for number in 3..=6 {
                cc.new_round(&mut ccv, number);
                cc.rtt_sample(&mut ccv, 60_000, 30 * FULL);
            }
            cc.new_round(&mut ccv, 7);
            assert_eq!((ccv.cwnd, ccv.ssthresh), (50 * FULL, ssthresh * FULL), "mode {mode}");
        }
    }

    #[test]
    fn it_is_off_where_no_stack_allows_it() {
        let (mut cc, mut ccv) = newreno(0);
        for (number, rtt) in [(1, 40_000), (2, 400_000)] {
            cc.new_round(&mut ccv, number);
            for _ in 0..8 {
                cc.rtt_sample(&mut ccv, rtt, 0);
            }
        }
        ccv.bytes_this_ack = 2 * FULL;
        cc.ack_received(&mut ccv, AckKind::New);
        assert_eq!(ccv.cwnd, 102 * FULL);
    }
}
