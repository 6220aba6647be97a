//! Reaction of FreeBSD's sender to a path that takes only smaller packets: told by a router, or found out by itself (RFC 4821).

use super::FreeBsdSender;
use crate::context::Context;
use crate::sender::SendState;

/// Path MTU black hole detection (net.inet.tcp.pmtud_blackhole_detection and what belongs to it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlackHoleTuning {
    /// 0 off, 1 on, 2 for IPv4 only, 3 for IPv6 only.
    pub detection: u8,
    /// MSS that is tried first, of IPv4 and IPv6 (net.inet.tcp.pmtud_blackhole_mss, v6pmtud_blackhole_mss).
    pub mss: [u32; 2],
}

/// MSS that is tried last, of IPv4 and IPv6 (net.inet.tcp.mssdflt, v6mssdflt).
const DEFAULT_MSS: [u32; 2] = [536, 1220];
/// Timeouts in a row before a smaller MSS is tried, and with each that is tried.
const TRIES: u32 = 2;

/// State of black hole detection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlackHole {
    /// MSS to which an unsuccessful search returns.
    saved: Option<u32>,
    /// Timeouts in a row after which the search is given up.
    gives_up_after: u32,
    /// Whether the smallest MSS is tried already, by which packets may be fragmented.
    smallest: bool,
    /// Whether a whole MSS could have been sent last (TF2_PLPMTU_MAXSEGSNT); what options take of it does not count.
    pub(super) full_sent: bool,
}

impl FreeBsdSender {
    /// The size of segments is known, or another.
    pub(super) fn adopt_mss(&mut self, snd: &SendState) {
        self.ccv.mss = u64::from(snd.payload);
        self.ccv.maxseg = u64::from(if self.tuning.maxseg_without_options { snd.payload } else { snd.mss });
        self.full_segment =
            if self.tuning.silly_window_counts_options { self.ccv.maxseg } else { self.ccv.mss };
    }

    /// Sends all again from the oldest on, with the window as it was (tcp_mtudisc).
    pub(super) fn restart_below_path_mtu(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        self.revoke_grant(snd);
        self.update_tick(cx.now, cx.clock);
        self.adopt_mss(snd);
        self.timed = None;
        snd.nxt = snd.una;
        self.board.clear();
        self.ccv.recover = snd.max;
        self.ccv.fast_recovery &= !snd.sack;
        self.queue.clear();
        self.refresh_cc_var(snd);
        self.output_due = true;
    }

    /// Looks for a black hole after a timeout (tcp_timer_rexmt).
    pub(super) fn detect_black_hole(&mut self, snd: &mut SendState) {
        let BlackHoleTuning { detection, mss } = self.tuning.black_hole;
        let family = usize::from(snd.ipv6);
        if detection == 0 || detection == 2 && snd.ipv6 || detection == 3 && !snd.ipv6 {
            return;
        }
        let (first, last, shift) = (mss[family], DEFAULT_MSS[family], self.rtt.shift);
        let hole = &mut self.black_hole;
        if shift == 1 {
            let more = u32::from(snd.mss > first) + u32::from(snd.mss > last && first > last);
            hole.gives_up_after = TRIES * (1 + more);
        }
        let tries = !hole.smallest
            && hole.full_sent
            && (TRIES..hole.gives_up_after).contains(&shift)
            && shift.is_multiple_of(TRIES);
        let mss = if tries {
            hole.saved.get_or_insert(snd.mss);
            hole.smallest = !(snd.mss > first && first > last);
            if hole.smallest { last } else { first }
        } else if let Some(saved) = hole.saved.filter(|_| shift >= hole.gives_up_after) {
            (hole.saved, hole.smallest) = (None, false);
            saved
        } else {
            return;
        };
        snd.set_mss(mss);
        self.adopt_mss(snd);
        self.cc.conn_init(&mut self.ccv);
    }
}
