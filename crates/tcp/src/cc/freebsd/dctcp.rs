//! DCTCP (Alizadeh et al., SIGCOMM 2010; RFC 8257) as FreeBSD's cc_dctcp(4) does it: NewReno whose reaction to an ECN echo is as
//! large as the part of the bytes that were marked.

use super::{AckKind, CcVar, CongestionControl, Signal, newreno};

/// DCTCP's sysctls (net.inet.tcp.cc.dctcp.*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DctcpTuning {
    /// Part of the bytes that a new connection takes to be marked, in 1/1024 (`alpha`).
    pub alpha: u32,
    /// Weight of a window's measurement, as a power of 1/2 (`shift_g`).
    pub shift_g: u32,
    /// The first echo halves the window (`slowstart`).
    pub slowstart: bool,
}

impl DctcpTuning {
    /// Defaults of FreeBSD 12 and later; 11 begins with an alpha of 0.
    pub const DEFAULT: DctcpTuning = DctcpTuning { alpha: MAX_ALPHA, shift_g: 4, slowstart: false };
}

/// Fractional bits of alpha.
const SHIFT: u32 = 10;
/// All bytes are marked.
pub const MAX_ALPHA: u32 = 1 << SHIFT;

/// DCTCP's state. Counts are of 32 bits, as there.
#[derive(Debug, Default)]
pub struct Dctcp {
    alpha: u32,
    /// Number of bytes acknowledged in this window, and of those that were marked.
    total: u32,
    marked: u32,
    /// The window ends when more than this is acknowledged.
    window_end: u64,
    /// The ACK at hand is an ECN echo.
    echo: bool,
    /// The ACK before was one.
    previous_echo: bool,
    /// The last segment that came was marked.
    previous_ce: bool,
    /// The first echo was answered, or something was lost.
    congested: bool,
    /// Window at the last echo, before the answer to it.
    cwnd_before_echo: u64,
}

impl Dctcp {
    /// Alpha at the end of a window: (1 - g) alpha + g F, with F the part of the bytes that were marked.
    fn update_alpha(&mut self, ccv: &CcVar) {
        let g = ccv.tuning.dctcp.shift_g;
        let share = (u64::from(self.marked) << (SHIFT - g)) / u64::from(self.total.max(1));
        let alpha = u64::from(self.alpha - (self.alpha >> g)) + share;
        self.alpha = alpha.min(u64::from(MAX_ALPHA)) as u32;
        self.begin_window(ccv);
    }

    fn begin_window(&mut self, ccv: &CcVar) {
        (self.total, self.marked) = (0, 0);
        self.window_end = ccv.nxt;
    }

    /// Counts the bytes of an ACK. One that covers several segments where the echo begins or ends is taken to cover one segment
    /// of the other kind.
    fn count(&mut self, acked: u64, segment: u64) {
        let several = acked > segment;
        let marked = match (self.echo, self.previous_echo) {
            (true, false) if several => acked - segment,
            (true, _) => acked,
            (false, true) if several => segment,
            (false, _) => 0,
        };
        self.total = self.total.wrapping_add(acked as u32);
        self.marked = self.marked.wrapping_add(marked as u32);
        self.previous_echo = std::mem::take(&mut self.echo);
    }

    fn on_echo(&mut self, ccv: &mut CcVar) {
        self.cwnd_before_echo = ccv.cwnd;
        if !ccv.cong_recovery {
            let least = 2 * ccv.loss_unit();
            if ccv.tuning.dctcp.slowstart && !std::mem::replace(&mut self.congested, true) {
                ccv.ssthresh = (ccv.cwnd / 2).max(least);
                self.alpha = MAX_ALPHA;
                self.begin_window(ccv);
            } else {
                let cut = (ccv.cwnd * u64::from(self.alpha)) >> (SHIFT + 1);
                ccv.ssthresh = (ccv.cwnd - cut).max(least);
            }
            ccv.cwnd = ccv.ssthresh;
            ccv.cong_recovery = true;
        }
        self.echo = true;
    }

    fn on_duplicate_acks(&mut self, ccv: &mut CcVar) {
        if ccv.fast_recovery {
            return;
        }
        // A window that an echo has reduced already is halved from what it was.
        let window = if ccv.cong_recovery { self.cwnd_before_echo } else { ccv.cwnd };
        self.congested |= !ccv.cong_recovery;
        ccv.ssthresh = (window / 2).max(2 * ccv.loss_unit());
        ccv.enter_recovery();
    }
}

impl CongestionControl for Dctcp {
    fn cb_init(&mut self, ccv: &mut CcVar) {
        self.alpha = ccv.tuning.dctcp.alpha;
    }

    fn conn_init(&mut self, ccv: &mut CcVar) {
        if ccv.ecn {
            self.window_end = ccv.nxt;
        }
    }

    fn ack_received(&mut self, ccv: &mut CcVar, kind: AckKind) {
        if !ccv.ecn {
            return newreno::on_ack(ccv, kind);
        }
        // An echo does not hold the window.
        let reacting = std::mem::take(&mut ccv.cong_recovery);
        newreno::on_ack(ccv, kind);
        ccv.cong_recovery = reacting;
        let acked = match kind {
            AckKind::New => ccv.bytes_this_ack,
            AckKind::Duplicate => ccv.bytes_this_ack.min(ccv.maxseg),
        };
        self.count(acked, ccv.maxseg);
        if !ccv.fast_recovery && ccv.curack > self.window_end {
            self.update_alpha(ccv);
        }
    }

    fn cong_signal(&mut self, ccv: &mut CcVar, signal: Signal) {
        if !ccv.ecn {
            let own = u64::from(self.marked) | u64::from(self.total) << 32;
            return newreno::cong_signal_of_another(ccv, signal, own);
        }
        match signal {
            Signal::DuplicateAcks => self.on_duplicate_acks(ccv),
            Signal::Ecn => self.on_echo(ccv),
            Signal::Timeout => {
                newreno::on_timeout(ccv, 50);
                self.update_alpha(ccv);
                self.window_end += ccv.maxseg;
                self.congested = true;
            }
            Signal::TimeoutUndone => {}
        }
    }

    fn post_recovery(&mut self, ccv: &mut CcVar) {
        newreno::post_recovery(ccv);
        if ccv.ecn {
            self.update_alpha(ccv);
        }
    }

    fn after_idle(&mut self, ccv: &mut CcVar) {
        if ccv.ecn {
            let previous_ce = self.previous_ce;
            *self = Dctcp { alpha: ccv.tuning.dctcp.alpha, previous_ce, ..Dctcp::default() };
            self.window_end = ccv.nxt;
        }
        newreno::after_idle(ccv);
    }

    /// A change of the mark is answered at once, and each ACK echoes the mark of the last segment (RFC 8257 section 3.2).
    fn ecnpkt_handler(&mut self, ccv: &mut CcVar) {
        let changes = std::mem::replace(&mut self.previous_ce, ccv.ip_ce) != ccv.ip_ce;
        ccv.echoes_ce = ccv.ip_ce;
        ccv.ack_now = if ccv.tuning.dctcp_answers_cwr {
            changes || ccv.tcp_cwr
        } else {
            changes && ccv.delayed_ack && !ccv.tcp_cwr
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::freebsd::CcTuning;

    const FULL: u64 = 1448;

    /// DCTCP of FreeBSD 15 past slow start, with a window of 100 segments and an alpha of `alpha`.
    fn dctcp(alpha: u32) -> (Dctcp, CcVar) {
        let mut tuning = CcTuning::FREEBSD_15;
        tuning.dctcp.alpha = alpha;
        let mut ccv = CcVar::new(tuning);
        (ccv.mss, ccv.maxseg, ccv.ecn) = (FULL, FULL, true);
        (ccv.cwnd, ccv.ssthresh, ccv.snd_wnd) = (100 * FULL, 50 * FULL, 10_000 * FULL);
        let mut cc = Dctcp::default();
        cc.cb_init(&mut ccv);
        (cc, ccv)
    }

    #[test]
    fn an_echo_cuts_by_half_of_what_was_marked_once_a_window() {
        let (mut cc, mut ccv) = dctcp(MAX_ALPHA / 4);
        cc.cong_signal(&mut ccv, Signal::Ecn);
        assert_eq!(ccv.cwnd, 100 * FULL - 100 * FULL / 8);
        cc.cong_signal(&mut ccv, Signal::Ecn);
        assert_eq!(ccv.cwnd, 100 * FULL - 100 * FULL / 8, "still reacting");
    }

    #[test]
    fn a_loss_after_an_echo_halves_the_window_of_before_it() {
        let (mut cc, mut ccv) = dctcp(MAX_ALPHA);
        cc.cong_signal(&mut ccv, Signal::Ecn);
        cc.cong_signal(&mut ccv, Signal::DuplicateAcks);
        assert_eq!((ccv.ssthresh, ccv.fast_recovery), (50 * FULL, true));
    }

    #[test]
    fn alpha_moves_a_sixteenth_towards_the_marked_part_at_the_end_of_a_window() {
        let (mut cc, mut ccv) = dctcp(0);
        ccv.nxt = 8 * FULL;
        cc.begin_window(&ccv);
        for segment in 1..=9 {
            if segment > 5 {
                cc.cong_signal(&mut ccv, Signal::Ecn);
            }
            ccv.curack = segment * FULL;
            ccv.bytes_this_ack = FULL;
            cc.ack_received(&mut ccv, AckKind::New);
        }
        // 4 of 9 segments.
        assert_eq!(cc.alpha, 64 * 4 / 9);
        assert_eq!((cc.total, cc.marked), (0, 0));
    }

    #[test]
    fn a_change_of_the_mark_is_answered_at_once_and_echoed() {
        let (mut cc, mut ccv) = dctcp(0);
        let mut seen = Vec::new();
        for ce in [false, true, true, false] {
            ccv.ip_ce = ce;
            cc.ecnpkt_handler(&mut ccv);
            seen.push((ccv.ack_now, ccv.echoes_ce));
        }
        assert_eq!(seen, [(false, false), (true, true), (false, true), (true, false)]);
    }
}
