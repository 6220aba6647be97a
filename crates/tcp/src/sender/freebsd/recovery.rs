//! Fast retransmit and fast recovery of FreeBSD's default sender, by release.

use super::tuning::Recovery;
use super::{Ack, AckKind, EventKind, FreeBsdSender, Prr, SendState, Signal};
use crate::context::Context;

impl FreeBsdSender {
    /// PRR governs this connection's recovery.
    #[inline]
    fn uses_prr(&self, sack: bool) -> bool {
        self.tuning.do_prr && sack && self.tuning.recovery != Recovery::FromOneSegment
    }

    /// The threshold of duplicates was reached (RFC 5681 section 3.2, RFC 6675 section 5).
    pub(super) fn enter_recovery(&mut self, snd: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        self.recoveries += 1;
        cx.events.push(EventKind::RecoveryIn, snd.offset(snd.una), self.ccv.cwnd as i64);
        self.signal_duplicates(snd);
        self.ack_received(AckKind::Duplicate);
        self.rexmt = None;
        self.timed = None;
        let mss = self.ccv.mss;
        if !snd.sack {
            let next = snd.nxt;
            snd.nxt = ack.ack;
            self.ccv.cwnd = mss;
            self.output_all(snd, cx);
            self.ccv.cwnd =
                self.ccv.ssthresh + mss * u64::from(self.dupacks.saturating_sub(self.limited_transmits));
            snd.nxt = snd.nxt.max(next);
            return;
        }
        if self.tuning.recovery == Recovery::Prr15 {
            self.enter_prr15(snd, ack, cx);
            return;
        }
        if self.uses_prr(true) {
            let recover_fs = (snd.nxt - snd.una).max(1);
            // What a recovery sent that a timeout ended still counts: only a recovery's end forgets it.
            self.prr = Prr { delivered: self.board.sacked, recover_fs, ..self.prr };
            self.ccv.recover = snd.nxt;
        }
        self.new_data_from = snd.nxt;
        self.ccv.cwnd = mss;
        self.output_due = true;
    }

    fn signal_duplicates(&mut self, snd: &SendState) {
        if !self.ccv.fast_recovery {
            self.ccv.recover = snd.max;
            self.cwr |= snd.ecn;
        }
        self.ccv.pipe = self.pipe(snd);
        self.cc.cong_signal(&mut self.ccv, Signal::DuplicateAcks);
    }

    /// Entry in FreeBSD 15: exactly one retransmission, then the window stands at ssthresh.
    fn enter_prr15(&mut self, snd: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        let mss = self.ccv.mss;
        let delivered = (snd.max - ack.ack).min(u64::from(self.limited_transmits + 1) * mss);
        let recover_fs = (snd.nxt - snd.una).max(1);
        self.prr = Prr { delivered, out: 0, recover_fs };
        self.board.resend_all();
        self.mark_lost();
        snd.nxt = snd.max;
        self.new_data_from = snd.nxt;
        self.ccv.cwnd = self.pipe(snd) + mss;
        self.output_first(snd, cx);
        self.ccv.cwnd = self.ccv.ssthresh;
    }

    /// A duplicate ACK in recovery; output follows.
    pub(super) fn duplicate_in_recovery(&mut self, snd: &mut SendState, in_sack_recovery: bool) {
        let mss = self.ccv.mss;
        if self.ccv.fast_recovery && self.uses_prr(snd.sack) {
            self.prr_ack(snd);
        } else if self.ccv.fast_recovery && in_sack_recovery {
            if self.flight_in_recovery(snd) < self.ccv.ssthresh {
                self.ccv.cwnd = (self.ccv.cwnd + mss).min(self.ccv.ssthresh);
            }
        } else {
            self.ccv.cwnd += mss;
        }
    }

    /// Flight as recovery judges it: what is above the highest SACKed byte, and what was sent again; or the pipe.
    fn flight_in_recovery(&mut self, snd: &SendState) -> u64 {
        if self.tuning.recovery == Recovery::Prr15 {
            self.mark_lost();
            self.pipe(snd)
        } else if self.tuning.rfc6675_pipe {
            self.pipe(snd)
        } else {
            snd.nxt.saturating_sub(self.board.fack) + self.board.rexmit
        }
    }

    /// Takes what is lost out of the pipe, where the release does so (net.inet.tcp.sack.revised).
    fn mark_lost(&mut self) {
        if self.tuning.rfc6675_pipe {
            self.board.mark_lost(self.ccv.mss);
        }
    }

    /// Proportional rate reduction for one ACK (RFC 6937 section 3).
    fn prr_ack(&mut self, snd: &SendState) {
        let mss = self.ccv.mss;
        let delivered = self.board.delivered;
        let lost_before = self.board.lost;
        let mut pipe = self.flight_in_recovery(snd);
        if self.tuning.recovery == Recovery::Prr15 {
            // SND.UNA has not moved yet.
            pipe = pipe.saturating_sub(self.ccv.bytes_this_ack);
        }
        let ssthresh = self.ccv.ssthresh;
        let out = self.prr.out;
        self.prr.delivered += delivered;
        let send = if pipe >= ssthresh {
            if self.prr.recover_fs == 0 {
                self.prr.recover_fs = (snd.nxt - snd.una).max(1);
            }
            // Both factors stay below 2^31 for any window there can be.
            let share = (self.prr.delivered * ssthresh).div_ceil(self.prr.recover_fs);
            let rounding = if self.tuning.recovery == Recovery::Prr15 { mss - 1 } else { 0 };
            (share + rounding).saturating_sub(out)
        } else {
            let room = self.prr.delivered.saturating_sub(out);
            let new_loss = self.board.lost > lost_before;
            let careful = self.tuning.recovery == Recovery::Prr15 && (delivered == 0 || new_loss);
            let limit =
                if self.tuning.prr_conservative || careful { room } else { room.max(delivered) + mss };
            (ssthresh - pipe).min(limit)
        };
        let send = send / mss * mss;
        let window = if self.tuning.recovery == Recovery::Prr13 {
            snd.nxt.saturating_sub(self.ccv.recover) + self.board.rexmit + send
        } else {
            (pipe + send).saturating_sub(delivered)
        };
        self.ccv.cwnd = window.max(mss);
    }

    /// An advancing ACK during either kind of recovery, before SND.UNA moves.
    #[inline(never)]
    pub(super) fn advance_in_recovery(
        &mut self,
        snd: &mut SendState,
        ack: &Ack<'_>,
        has_sack: bool,
        cx: &mut Context<'_>,
    ) {
        let complete = ack.ack >= self.ccv.recover;
        if complete {
            if !self.tuning.post_recovery_last && self.ccv.fast_recovery {
                self.post_recovery(snd, ack);
            }
            return;
        }
        if !self.ccv.fast_recovery {
            if self.tuning.recovery == Recovery::Prr15 && self.tuning.do_prr {
                self.board.delivered = self.ccv.bytes_this_ack;
                self.prr_ack(snd);
            }
            return;
        }
        self.rexmt = None;
        self.timed = None;
        self.force_output = true;
        // What leaves now leaves before SND.UNA and the window move.
        let window = std::mem::replace(&mut snd.wnd, ack.previous_wnd);
        if !snd.sack {
            self.newreno_partial_ack(snd, ack, cx);
        } else if self.uses_prr(true) && (has_sack || self.tuning.recovery == Recovery::Prr13) {
            self.prr_ack(snd);
        } else {
            let unit = self.full_segment;
            let segments = if self.ccv.bytes_this_ack >= 2 * unit { 2 } else { 1 };
            let sent = self.board.rexmit + snd.nxt.saturating_sub(self.new_data_from);
            self.ccv.cwnd = (sent + segments * unit).min(self.ccv.ssthresh);
            if self.tuning.recovery == Recovery::Prr15 {
                self.rescue(snd, ack);
            }
        }
        if snd.sack {
            // Often only a bare ACK fits.
            self.output_all(snd, cx);
        }
        snd.wnd = window;
    }

    /// RFC 6582 section 3.2: one segment again, the window deflated by what was acknowledged.
    fn newreno_partial_ack(&mut self, snd: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        let mss = self.ccv.mss;
        let (window, next) = (self.ccv.cwnd, snd.nxt);
        let acked = self.ccv.bytes_this_ack;
        snd.nxt = ack.ack;
        self.ccv.cwnd = mss + acked;
        self.output_all(snd, cx);
        self.ccv.cwnd = window.saturating_sub(acked) + mss;
        snd.nxt = snd.nxt.max(next);
    }

    /// No hole is left although recovery is not over: the last segment below the recovery point goes again (FreeBSD
    /// 15).
    fn rescue(&mut self, snd: &SendState, ack: &Ack<'_>) {
        if self.tuning.rfc6675_pipe
            && self.board.is_empty()
            && self.ccv.recover == snd.max
            && self.board.delivered > 0
        {
            let start = self.ccv.recover.saturating_sub(self.ccv.mss).max(ack.ack);
            self.board.add_rescue(start, self.ccv.recover);
        }
    }

    /// A retransmission was lost as well: everything so lost goes again, after another reduction (FreeBSD 15).
    #[inline(never)]
    pub(super) fn detect_lost_retransmission(&mut self, snd: &SendState) {
        if !self.ccv.fast_recovery || self.board.fack <= self.ccv.recover || !self.board.lost_retransmission()
        {
            return;
        }
        self.board.resend_lost();
        self.ccv.cwnd = self.ccv.ssthresh;
        self.ccv.fast_recovery = false;
        self.ccv.cong_recovery = false;
        self.signal_duplicates(snd);
        self.ccv.cwnd = self.ccv.mss;
        // The rate reduction starts again from what is in flight now (RFC 6937 section 3).
        self.prr = Prr { delivered: 0, out: 0, recover_fs: (snd.max - snd.una).max(1) };
    }

    fn post_recovery(&mut self, snd: &SendState, ack: &Ack<'_>) {
        self.ccv.pipe = if self.tuning.rfc6675_pipe { self.pipe(snd) } else { snd.max - ack.ack };
        self.cc.post_recovery(&mut self.ccv);
        self.ccv.bytes_acked = 0;
        self.prr = Prr::default();
    }

    /// SND.UNA moves, and a recovery that is acknowledged to its end is over. On the short way of `predicted` ACKs nobody looks: a
    /// reaction to delay that the congestion control begins there lasts until the next one.
    #[inline]
    pub(super) fn finish_advance(
        &mut self,
        snd: &mut SendState,
        ack: &Ack<'_>,
        predicted: bool,
        cx: &mut Context<'_>,
    ) {
        let over = !predicted && self.ccv.in_recovery() && ack.ack >= self.ccv.recover;
        snd.una = ack.ack;
        snd.nxt = snd.nxt.max(snd.una);
        if over {
            self.end_recovery(snd, ack, cx);
        }
        if snd.sack && snd.una > self.ccv.recover {
            self.ccv.recover = snd.una;
        }
    }

    #[inline(never)]
    fn end_recovery(&mut self, snd: &SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        if self.tuning.post_recovery_last {
            self.post_recovery(snd, ack);
        }
        if self.ccv.fast_recovery {
            cx.events.push(EventKind::RecoveryOut, snd.offset(snd.una), self.ccv.cwnd as i64);
        }
        self.ccv.fast_recovery = false;
        self.ccv.cong_recovery = false;
    }

    /// The first and second duplicate ACK let one new segment each leave (RFC 3042).
    pub(super) fn limited_transmit(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        let mss = self.ccv.mss;
        if self.dupacks == 1 {
            self.limited_transmits = 0;
        }
        let (window, max) = (self.ccv.cwnd, snd.max);
        let extra = u64::from(self.dupacks.saturating_sub(self.limited_transmits)) * mss;
        self.ccv.cwnd = snd.nxt - snd.una + extra;
        if snd.end > snd.nxt {
            self.output_all(snd, cx);
        }
        let sent = snd.max - max;
        if sent > mss {
            self.limited_transmits = 2;
        } else if sent > 0 {
            self.limited_transmits += 1;
        }
        self.ccv.cwnd = window;
    }
}
