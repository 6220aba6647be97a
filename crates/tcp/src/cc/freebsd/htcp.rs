//! H-TCP (Leith and Shorten, PFLDnet 2004; draft-leith-tcp-htcp) as FreeBSD's cc_htcp(4) does it.

use super::newreno::{self, conservative_exit};
use super::{AckKind, CcVar, CongestionControl, RTT_SHIFT, SSTHRESH_INFINITE, Signal};

/// H-TCP's sysctls (net.inet.tcp.cc.htcp.*).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HtcpTuning {
    /// The decrease follows the ratio of the smallest to the largest RTT (`adaptive_backoff`).
    pub adaptive_backoff: bool,
    /// The increase follows the RTT (`rtt_scaling`).
    pub rtt_scaling: bool,
}

/// Fractional bits of the decrease, and of the ratio of RTTs.
const SHIFT: u32 = 8;
/// The smallest decrease factor, 0.5.
const MIN_BETA: i64 = 128;
/// The largest, 0.8.
const MAX_BETA: i64 = 204;
/// The smallest ratio of an RTT to the reference, 0.1.
const MIN_RATIO: i64 = 26;
/// The largest, 2.
const MAX_RATIO: i64 = 512;
/// The reference RTT, ms.
const REFERENCE_MS: i64 = 100;
/// Number of RTTs that are measured before the smoothed one counts.
const MIN_SAMPLES: u32 = 8;
/// The largest time since congestion, in ticks, that 32 bits can compute the increase of.
const LONGEST: i64 = i32::MAX as i64 / 160;

/// H-TCP's state.
#[derive(Debug)]
pub struct Htcp {
    /// Segments added per RTT.
    alpha: i64,
    /// Part of the window that a loss leaves, in 1/256.
    beta: i64,
    /// Smallest and largest smoothed RTT as the release gives it; 0 before the first.
    min_rtt: i64,
    max_rtt: i64,
    /// Window before the last reduction.
    previous: u64,
    /// Tick of the last congestion.
    congested: u64,
}

impl Default for Htcp {
    fn default() -> Htcp {
        Htcp { alpha: 1, beta: MIN_BETA, min_rtt: 0, max_rtt: 0, previous: 0, congested: 0 }
    }
}

/// The smoothed RTT as the release gives it.
fn smoothed_rtt(ccv: &CcVar) -> i64 {
    i64::from(if ccv.tuning.rtt_in_whole_ticks { ccv.srtt >> RTT_SHIFT } else { ccv.srtt })
}

impl Htcp {
    fn record_rtt(&mut self, ccv: &CcVar) {
        let srtt = smoothed_rtt(ccv);
        if ccv.rtt_updates < MIN_SAMPLES {
            return;
        }
        if srtt < self.min_rtt || self.min_rtt == 0 {
            self.min_rtt = srtt;
        }
        self.max_rtt = self.max_rtt.max(srtt);
    }

    fn recompute_beta(&mut self, ccv: &CcVar) {
        self.beta = if ccv.tuning.htcp.adaptive_backoff && self.min_rtt != 0 && self.max_rtt != 0 {
            ((self.min_rtt << SHIFT) / self.max_rtt).clamp(MIN_BETA, MAX_BETA)
        } else {
            MIN_BETA
        };
    }

    /// Segments per RTT: one in the first second after congestion, then 1 + 10 t + (t / 2)^2.
    fn recompute_alpha(&mut self, ccv: &CcVar) {
        let hz = i64::from(ccv.hz);
        let since = (ccv.ticks - self.congested) as i64 - hz;
        if since >= LONGEST {
            return;
        }
        self.alpha = 1;
        if since <= 0 {
            return;
        }
        let sixteenths = 16 + 160 * since / hz + since / hz * ((since << 4) / (4 * hz));
        self.alpha = sixteenths >> 4;
        if ccv.tuning.htcp.adaptive_backoff {
            self.alpha = ((2 * ((1 << SHIFT) - self.beta) * self.alpha) >> SHIFT).max(1);
        }
        if ccv.tuning.htcp.rtt_scaling {
            let reference = (REFERENCE_MS << RTT_SHIFT) * hz / 1000;
            let ratio = ((smoothed_rtt(ccv) << SHIFT) / reference).clamp(MIN_RATIO, MAX_RATIO);
            self.alpha = ((ratio * self.alpha) >> SHIFT).max(1);
        }
    }

    fn reduce(&mut self, ccv: &mut CcVar) {
        // So that a shorter path shows.
        self.max_rtt = (self.min_rtt + (self.max_rtt - self.min_rtt) * 95) / 100;
        let factor = if ccv.ssthresh == SSTHRESH_INFINITE {
            MIN_BETA
        } else {
            self.recompute_beta(ccv);
            self.beta
        };
        ccv.ssthresh = (ccv.cwnd * factor as u64) >> SHIFT;
        self.congested = ccv.ticks;
    }
}

impl CongestionControl for Htcp {
    fn conn_init(&mut self, ccv: &mut CcVar) {
        self.congested = ccv.ticks;
    }

    fn ack_received(&mut self, ccv: &mut CcVar, kind: AckKind) {
        self.record_rtt(ccv);
        let abc = ccv.tuning.abc;
        let slow_start = ccv.cwnd <= ccv.ssthresh;
        if kind != AckKind::New
            || ccv.in_recovery()
            || !ccv.cwnd_limited
            || (abc && !slow_start && !ccv.abc_sent_a_window)
        {
            return;
        }
        self.recompute_beta(ccv);
        self.recompute_alpha(ccv);
        if self.alpha == 1 || slow_start {
            newreno::grow(ccv);
        } else if abc {
            ccv.cwnd += self.alpha as u64 * ccv.maxseg;
            ccv.abc_sent_a_window = false;
        } else {
            let per_ack = ((self.alpha as u64) << SHIFT) / (ccv.cwnd / ccv.maxseg) * ccv.maxseg;
            ccv.cwnd += per_ack >> SHIFT;
        }
    }

    fn cong_signal(&mut self, ccv: &mut CcVar, signal: Signal) {
        match signal {
            Signal::DuplicateAcks => {
                if ccv.fast_recovery {
                    return;
                }
                if !ccv.cong_recovery {
                    self.reduce(ccv);
                    self.previous = ccv.cwnd;
                }
                ccv.enter_recovery();
            }
            Signal::Ecn => {
                if ccv.cong_recovery {
                    return;
                }
                self.reduce(ccv);
                ccv.cwnd = ccv.ssthresh;
                self.previous = ccv.cwnd;
                ccv.cong_recovery = true;
            }
            Signal::Timeout => {
                newreno::on_timeout(ccv, 50);
                // The first may be spurious.
                if ccv.rxtshift >= 2 {
                    self.congested = ccv.ticks;
                }
            }
            Signal::TimeoutUndone => {}
        }
    }

    fn post_recovery(&mut self, ccv: &mut CcVar) {
        if ccv.fast_recovery {
            let kept = (self.beta as u64 * self.previous / ccv.maxseg) >> SHIFT;
            ccv.cwnd = conservative_exit(ccv).unwrap_or(kept.max(1) * ccv.maxseg);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::freebsd::CcTuning;

    #[test]
    fn the_increase_is_that_of_the_draft() {
        let mut ccv = CcVar::new(CcTuning::FREEBSD_15);
        let mut htcp = Htcp { congested: 1000, ..Htcp::default() };
        // 1 + 10 t + (t / 2)^2, t seconds after the first one, in whole segments.
        for (seconds, segments) in [(1, 1), (2, 11), (3, 22), (5, 45), (11, 126)] {
            ccv.ticks = 1000 + 1000 * seconds;
            htcp.recompute_alpha(&ccv);
            assert_eq!(htcp.alpha, segments, "after {seconds} s");
        }
    }

    #[test]
    fn the_decrease_follows_the_ratio_of_rtts_where_it_may() {
        let mut ccv = CcVar::new(CcTuning::FREEBSD_15);
        let mut htcp = Htcp { min_rtt: 60, max_rtt: 100, ..Htcp::default() };
        htcp.recompute_beta(&ccv);
        assert_eq!(htcp.beta, 128);
        ccv.tuning.htcp.adaptive_backoff = true;
        htcp.recompute_beta(&ccv);
        assert_eq!(htcp.beta, 153, "0.6 of 256");
        htcp.max_rtt = 61;
        htcp.recompute_beta(&ccv);
        assert_eq!(htcp.beta, 204, "0.8 at most");
    }

    #[test]
    fn scaling_by_the_rtt_is_at_its_floor_where_ticks_are_whole() {
        let mut ccv = CcVar::new(CcTuning::FREEBSD_15);
        ccv.tuning.htcp.rtt_scaling = true;
        (ccv.ticks, ccv.srtt) = (11_000, 200 << RTT_SHIFT);
        let mut htcp = Htcp::default();
        for (whole_ticks, segments) in [(false, 252), (true, 12)] {
            ccv.tuning.rtt_in_whole_ticks = whole_ticks;
            htcp.recompute_alpha(&ccv);
            // 126 segments: twice, or 26/256 of them.
            assert_eq!(htcp.alpha, segments);
        }
    }
}
