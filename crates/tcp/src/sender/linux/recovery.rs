//! How the window is reduced, and how a reduction is undone, in all eras.

use super::LinuxSender;
use super::ack::Progress;
use super::scoreboard::{EVER_RETRANS, PUSHED, Packet, SACKED};
use crate::cc::linux::{CaState, Cause, CwndEvent, INFINITE_SSTHRESH};
use crate::context::Context;
use crate::event::EventKind;
use crate::sender::SendState;

impl LinuxSender {
    /// Something is lost, which is no sign of congestion (tcp_non_congestion_loss_retransmit).
    pub(super) fn enter_loss_without_congestion(&mut self) {
        if self.core.state != CaState::Loss {
            self.high_seq = self.core.nxt;
            self.core.ssthresh = self.core.current_ssthresh();
            self.prior_ssthresh = 0;
            self.undo_marker = None;
            self.frto = false;
            self.set_state(CaState::Loss);
        }
    }

    /// Data that our SYN carried was not acknowledged with it: it was under way, is lost, and leaves again in segments of the
    /// length that is known now (tcp_rcv_fastopen_synack).
    #[cold]
    pub(super) fn resend_carried(&mut self, snd: &SendState) {
        let mut seq = snd.una;
        while seq < snd.max {
            let len = u64::from(snd.payload).min(snd.max - seq);
            let mut packet = Packet { seq, len: len as u32, sent: self.core.now, ..Packet::default() };
            packet.note_delivery(&self.core);
            let id = self.board.push(packet);
            if self.hears_losses {
                self.note_flight(id);
            }
            self.core.packets_out += 1;
            self.mark_lost(id);
            seq += len;
        }
        self.board.end_burst(self.board.tail() - 1, PUSHED);
        self.enter_loss_without_congestion();
    }

    pub(super) fn init_cwnd_reduction(&mut self) {
        self.high_seq = self.core.nxt;
        self.tlp = None;
        self.core.cwnd_cnt = 0;
        self.core.prior_cwnd = self.core.cwnd;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.core.ssthresh = self.cc.ssthresh(&mut self.core);
        self.core.cause = Cause::Loss;
        self.cwr_pending = true;
    }

    /// The threshold after a timeout.
    pub(super) fn ssthresh_of_timeout(&mut self) -> u32 {
        self.core.cause = Cause::Timeout;
        let ssthresh = self.cc.ssthresh(&mut self.core);
        self.core.cause = Cause::Loss;
        ssthresh
    }

    /// Proportional rate reduction (RFC 6937): cwnd follows what is delivered. `fast` forces one transmission.
    pub(super) fn reduce_cwnd(&mut self, delivered: u32, newly_lost: bool, advanced: bool, fast: bool) {
        let modern = self.is_modern();
        if modern && (delivered == 0 || self.core.prior_cwnd == 0) {
            return;
        }
        let in_flight = self.core.in_flight();
        self.prr_delivered += delivered;
        let (done, out) = (i64::from(self.prr_delivered), i64::from(self.prr_out));
        let delta = i64::from(self.core.ssthresh) - i64::from(in_flight);
        let mut send = if delta < 0 {
            let prior = u64::from(self.core.prior_cwnd.max(1));
            let share = u64::from(self.core.ssthresh) * u64::from(self.prr_delivered);
            share.div_ceil(prior) as i64 - out
        } else if modern {
            let bound = (done - out).max(i64::from(delivered)) + i64::from(advanced && !newly_lost);
            bound.min(delta)
        } else {
            ((done - out).max(i64::from(delivered)) + 1).min(delta)
        };
        let force = if modern { self.prr_out == 0 } else { fast };
        send = send.max(i64::from(force));
        self.core.cwnd = (i64::from(in_flight) + send).max(0) as u32;
    }

    pub(super) fn end_cwnd_reduction(&mut self) {
        if self.cc.owns_window() {
            return;
        }
        if self.core.ssthresh < INFINITE_SSTHRESH
            && (self.core.state == CaState::Cwr || self.undo_marker.is_some())
        {
            self.core.cwnd = self.core.ssthresh;
            self.cwnd_stamp = self.core.jiffies;
        }
        self.cc.cwnd_event(&mut self.core, CwndEvent::CompleteCwr);
    }

    /// One reduction per window without loss: ECN echo, local drop.
    pub(super) fn enter_cwr(&mut self, snd: &SendState, cx: &mut Context<'_>) {
        self.prior_ssthresh = 0;
        if self.core.state < CaState::Cwr {
            self.undo_marker = None;
            self.core.cause = Cause::Ecn;
            self.init_cwnd_reduction();
            self.set_state(CaState::Cwr);
            let value = i64::from(self.core.ssthresh) * i64::from(self.core.mss);
            cx.events.push(EventKind::Reduction, snd.offset(self.core.una), value);
        }
    }

    pub(super) fn enter_recovery(&mut self, snd: &SendState, ece: bool, cx: &mut Context<'_>) {
        cx.events.push(EventKind::RecoveryIn, snd.offset(self.core.una), self.cwnd_bytes());
        self.recoveries += 1;
        self.prior_ssthresh = 0;
        self.init_undo();
        if !self.core.in_cwnd_reduction() {
            if !ece {
                self.prior_ssthresh = self.core.current_ssthresh();
            }
            self.init_cwnd_reduction();
        } else {
            self.high_seq = self.core.nxt;
        }
        self.set_state(CaState::Recovery);
    }

    /// Leaves Recovery with cwnd at ssthresh, unless it was undone.
    pub(super) fn leave_recovery(&mut self, snd: &SendState, p: &Progress, cx: &mut Context<'_>) -> bool {
        if self.try_undo_recovery(snd, p, cx) {
            return true;
        }
        self.end_cwnd_reduction();
        cx.events.push(EventKind::RecoveryOut, snd.offset(self.core.una), self.cwnd_bytes());
        false
    }

    /// An episode begins that D-SACKs for what was retransmitted can undo, what is in flight included.
    pub(super) fn init_undo(&mut self) {
        self.undo_marker = Some(self.core.una);
        let probe = self.config.undo_counts_probe && self.tlp.is_some_and(|tlp| tlp.retransmission);
        let in_flight = i64::from(self.core.retrans_out) + i64::from(probe);
        self.undo_retrans = if in_flight > 0 { in_flight } else { -1 };
    }

    pub(super) fn may_undo(&self, p: &Progress) -> bool {
        self.undo_marker.is_some() && (self.undo_retrans == 0 || self.original_arrived(p))
    }

    /// The echoed timestamp is older than the first retransmission: the original had arrived (Eifel, RFC 3522).
    pub(super) fn original_arrived(&self, p: &Progress) -> bool {
        match (self.retrans_stamp, p.tsecr) {
            (Some(stamp), Some(tsecr)) => wire::seq::before(tsecr, stamp),
            // Without a retransmission there is nothing that could have been spurious. Without SACK the time of the first is forgotten
            // while an episode that is over is held open (tcp_packet_delayed).
            (None, _) => self.sack_ok || self.core.una < self.high_seq,
            _ => false,
        }
    }

    /// An episode's first retransmission is over once none is in flight, nor the head one of them (tcp_any_retrans_done).
    pub(super) fn forget_retrans_stamp(&mut self) {
        if self.core.retrans_out == 0 && !self.board.front().is_some_and(|head| head.has(EVER_RETRANS)) {
            self.retrans_stamp = None;
        }
    }

    pub(super) fn undo_cwnd(&mut self, snd: &SendState, unmark_loss: bool, cx: &mut Context<'_>) {
        if unmark_loss {
            for id in self.board.head()..self.board.tail() {
                self.board.unmark_lost(&mut self.core, id);
            }
            self.board.clear_lost();
        }
        if self.prior_ssthresh > 0 {
            self.core.cwnd = self.cc.undo_cwnd(&mut self.core);
            if self.prior_ssthresh > self.core.ssthresh {
                self.core.ssthresh = self.prior_ssthresh;
                self.cwr_pending = false;
            }
            cx.events.push(EventKind::Undo, snd.offset(self.core.una), self.cwnd_bytes());
        }
        self.cwnd_stamp = self.core.jiffies;
        self.undo_marker = None;
        self.rack.advanced = true;
    }

    /// Everything outstanding when Recovery or Loss began has arrived: Open again, unless a peer without SACK could
    /// still send duplicate ACKs for it. True: hold.
    pub(super) fn try_undo_recovery(&mut self, snd: &SendState, p: &Progress, cx: &mut Context<'_>) -> bool {
        if self.may_undo(p) {
            self.undo_cwnd(snd, false, cx);
        } else {
            self.rack.persist = self.rack.persist.saturating_sub(1);
        }
        self.forget_retrans_stamp();
        if self.core.una == self.high_seq && !self.sack_ok {
            if !self.is_modern() {
                self.moderate_cwnd();
            }
            return true;
        }
        self.set_state(CaState::Open);
        self.reneged = false;
        false
    }

    /// All retransmissions of the episode were reported as duplicates: none was needed.
    pub(super) fn try_undo_dsack(&mut self, snd: &SendState, cx: &mut Context<'_>) -> bool {
        if self.undo_marker.is_none() || self.undo_retrans != 0 {
            return false;
        }
        self.rack.persist = self.rack.persist.saturating_add(1).min(16);
        self.undo_cwnd(snd, false, cx);
        true
    }

    /// Open or Disorder, whichever fits.
    pub(super) fn keep_open(&mut self) {
        let state = if self.core.left_out() > 0 || self.core.retrans_out > 0 {
            CaState::Disorder
        } else {
            CaState::Open
        };
        if self.core.state != state {
            self.set_state(state);
            self.high_seq = self.core.nxt;
        }
    }

    /// Everything unSACKed is lost; used by timeouts. `keep` spares a packet.
    pub(super) fn mark_all_lost(&mut self, keep: impl Fn(&Packet) -> bool) {
        let head = self.board.head();
        for id in head..self.board.tail() {
            let packet = self.board.get(id);
            if packet.has(SACKED) || (id != head && keep(packet)) {
                continue;
            }
            self.remove_from_send_order(id);
            self.mark_lost(id);
        }
    }
}
