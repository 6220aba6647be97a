//! Start of a connection with what its host knows of the peer, and what the host learns at the end (tcp_metrics.c).

use super::LinuxSender;
use crate::cc::linux::{CaState, INFINITE_SSTHRESH};
use crate::peers::{Known, Lesson};

impl LinuxSender {
    /// Begins with what is known of the peer, after the round trip of the handshake (tcp_init_metrics). The window of packets ends
    /// at `nxt`.
    pub(super) fn begin_with(&mut self, known: &Known, nxt: u64) {
        if known.ssthresh > 0 {
            self.core.ssthresh = known.ssthresh as u32;
        }
        if known.reordering > 0 && known.reordering != self.reordering {
            self.reordering = known.reordering;
            self.classic.distrust_order();
        }
        if !self.is_modern() {
            if known.rtt > 0 && self.rtt.srtt8() > 0 {
                self.rtt.raise(known.rtt, known.rttvar, nxt);
                self.set_rto();
            }
        } else if known.rtt > self.rtt.srtt8() {
            // The timeout alone: round trips are measured anew.
            let hz = u64::from(self.core.hz);
            let rtt = known.rtt / (8_000_000 / hz);
            self.rto = rtt + (2 * rtt).max(self.core.us_to_jiffies(self.config.rto_min_us));
        }
    }

    /// Lesson of the connection (tcp_update_metrics).
    pub(super) fn learnt(&self) -> Lesson {
        let core = &self.core;
        let (half, ssthresh) = (core.cwnd >> 1, core.ssthresh);
        let opening = ssthresh >= INFINITE_SSTHRESH;
        let above = if self.is_modern() { core.cwnd >= ssthresh } else { core.cwnd > ssthresh };
        let steady = !opening && above && core.state == CaState::Open;
        let learnt_reordering = !opening && !steady && self.reordering != self.config.reordering;
        Lesson {
            rtt: if self.backoff > 0 { 0 } else { self.rtt.srtt8() },
            rttvar: self.rtt.mdev4(),
            ssthresh: u64::from(match (opening, steady) {
                (true, _) => half,
                (_, true) => half.max(ssthresh),
                _ => ssthresh,
            }),
            raises_ssthresh: !steady,
            reordering: if learnt_reordering { self.reordering } else { 0 },
        }
    }
}
