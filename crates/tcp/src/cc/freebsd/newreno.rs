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
