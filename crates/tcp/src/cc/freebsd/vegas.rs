//! Vegas (Brakmo and Peterson, IEEE JSAC 13(8), 1995) as FreeBSD's cc_vegas(4) does it.

use super::{AckKind, CcVar, CongestionControl, Signal, newreno};

/// Vegas' sysctls (net.inet.tcp.cc.vegas.*), in segments that wait in the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VegasTuning {
    /// Number of segments below which the window grows (`alpha`).
    pub alpha: i64,
    /// Number of segments above which the window shrinks (`beta`).
    pub beta: i64,
}

impl VegasTuning {
    /// Defaults that every release ships (cc_vegas(4)).
    pub const DEFAULT: VegasTuning = VegasTuning { alpha: 1, beta: 3 };
}

/// Vegas' state.
#[derive(Debug)]
pub struct Vegas {
    /// Slow start grows in this round; it does in every other one.
    grows: bool,
}

impl Default for Vegas {
    fn default() -> Vegas {
        Vegas { grows: true }
    }
}

impl Vegas {
    /// A measurement round has ended: compares what was sent in it with what a path without queue would have carried.
    fn end_round(&mut self, ccv: &mut CcVar) {
        let d = ccv.delays;
        if d.min_rtt == 0 || d.marked_rtt == 0 {
            return;
        }
        let expected = (d.marked_cwnd / u64::from(d.min_rtt)) as i64;
        let actual = d.marked_bytes as i64 / i64::from(d.marked_rtt);
        let waiting = (expected - actual) * i64::from(d.min_rtt) / ccv.maxseg as i64;
        if waiting < ccv.tuning.vegas.alpha {
            if ccv.cwnd <= ccv.ssthresh {
                self.grows = !self.grows;
            } else {
                self.grows = false;
                ccv.cwnd = (ccv.cwnd + ccv.maxseg).min(ccv.largest_window());
            }
        } else if waiting > ccv.tuning.vegas.beta {
            self.shrink(ccv);
            self.grows = false;
        }
    }

    fn shrink(&self, ccv: &mut CcVar) {
        if ccv.in_recovery() {
            return;
        }
        // A window of less than a segment wraps around.
        let less = u64::from((ccv.cwnd as u32).wrapping_sub(ccv.maxseg as u32));
        ccv.cwnd = less.max(2 * ccv.maxseg);
        // Slow start is over.
        ccv.ssthresh = ccv.ssthresh.min(ccv.cwnd);
    }
}

impl CongestionControl for Vegas {
    fn ack_received(&mut self, ccv: &mut CcVar, kind: AckKind) {
        if std::mem::take(&mut ccv.new_measurement) {
            self.end_round(ccv);
        }
        if self.grows {
            newreno::on_ack(ccv, kind);
        }
    }

    fn cong_signal(&mut self, ccv: &mut CcVar, signal: Signal) {
        let before = ccv.in_recovery();
        // Its state is this one flag, which is what releases that pass it on take for a percentage.
        newreno::cong_signal_of_another(ccv, signal, u64::from(self.grows));
        if ccv.in_recovery() && !before {
            self.grows = ccv.cwnd < ccv.ssthresh;
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
    use crate::cc::freebsd::PacketDelays;

    /// The window after a round of 50 ticks, 40 of them the path's, in which so many of its 50 segments were sent.
    fn after_round(sent: u64, ssthresh: u64) -> (u64, bool) {
        let mut ccv = CcVar::new(CcTuning::FREEBSD_15);
        (ccv.cwnd, ccv.ssthresh, ccv.maxseg, ccv.snd_scale) = (50_000, ssthresh, 1000, 10);
        ccv.delays = PacketDelays {
            min_rtt: 40,
            max_rtt: 50,
            marked_rtt: 50,
            marked_bytes: sent * 1000,
            marked_cwnd: 50_000,
        };
        ccv.new_measurement = true;
        let mut vegas = Vegas { grows: false };
        vegas.ack_received(&mut ccv, AckKind::New);
        (ccv.cwnd, vegas.grows)
    }

    #[test]
    fn the_window_follows_the_segments_that_wait() {
        // 1250 bytes a tick expected: 62 segments in the round leave none waiting, 60 two, 50 ten.
        assert_eq!(after_round(62, 10_000), (51_000, false));
        assert_eq!(after_round(60, 10_000), (50_000, false));
        assert_eq!(after_round(50, 10_000), (49_000, false));
        assert_eq!(after_round(62, 90_000), (50_000, true), "slow start grows in the next round");
    }
}
