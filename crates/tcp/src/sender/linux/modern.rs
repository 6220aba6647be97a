//! The order of operations since RACK became the only loss detection: first decide what is lost, then the window.

use super::LinuxSender;
use super::ack::Progress;
use super::scoreboard::{LOST, SACKED};
use super::timer::TimerKind;
use crate::cc::linux::{CaState, CwndEvent};
use crate::context::Context;
use crate::sender::{Ack, SendState};

impl LinuxSender {
    pub(super) fn on_ack_modern(&mut self, snd: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        self.rate_check_silence(snd);
        let mut p = self.begin_ack(snd, ack);
        self.output.prefer_new = false;
        if ack.ack < snd.una {
            // An old ACK can still bring SACK blocks.
            self.tag_sacks(snd, ack, &mut p);
            if p.sacked || p.dsack {
                self.fastretrans_alert_modern(snd, &mut p, false, cx);
                self.rate_finish(&mut p);
            }
            return;
        }
        if p.advanced {
            self.retransmits = 0;
            snd.una = ack.ack;
            self.core.una = ack.ack;
        }
        self.probes = 0;
        self.tag_sacks(snd, ack, &mut p);
        if !self.config.ack_event_after_cleaning {
            self.tell_in_ack(snd, ack, &p);
        }
        if p.prior_packets == 0 {
            if snd.ecn {
                self.take_accurate_ecn(snd, ack, &mut p);
            }
            if self.config.ack_event_after_cleaning {
                self.tell_in_ack(snd, ack, &p);
            }
            if p.dsack {
                // Everything is acknowledged: a reduction can still prove needless.
                self.fastretrans_alert_modern(snd, &mut p, false, cx);
            }
            self.on_window_probe_ack(snd, cx);
            if self.tlp.is_some() {
                self.process_tlp_ack(snd, ack.ack, &mut p, cx);
            }
            return;
        }
        let packets = self.clean_rtx_queue(snd, &mut p);
        if self.searches() {
            self.on_probe_acked(snd);
        }
        self.update_rtt(&mut p, packets, cx);
        if self.core.state != CaState::Loss || self.undo_marker.is_some() || p.acked {
            self.check_reordering(&p);
        }
        self.rack_adapt(p.rate.prior_delivered);
        if snd.ecn {
            self.take_accurate_ecn(snd, ack, &mut p);
        }
        if self.config.ack_event_after_cleaning {
            self.tell_in_ack(snd, ack, &p);
        }
        if self.tlp.is_some() {
            self.process_tlp_ack(snd, ack.ack, &mut p, cx);
        }
        if !p.not_dup || p.sacked || p.ece || p.dsack || self.core.state != CaState::Open {
            let duplicate = !p.advanced && !p.not_dup && !p.dsack;
            self.fastretrans_alert_modern(snd, &mut p, duplicate, cx);
        }
        if p.set_timer {
            if self.core.packets_out == 0 {
                self.timer.clear();
            } else {
                self.output.timer_due = true;
            }
        }
        // A lone packet, and a short one: its receiver waits for a second (FLAG_ACK_MAYBE_DELAYED).
        p.rate.is_ack_delayed = packets == 1
            && self.core.una - p.prior_una < u64::from(self.core.mss)
            && p.prior_sacked == 0
            && p.rate.prior_delivered + 1 == self.core.delivered
            && !(p.sacked || p.ece || p.dsack);
        self.rate_finish(&mut p);
        self.control_cwnd(snd, ack.ack, &p, cx);
    }

    fn control_cwnd(&mut self, snd: &SendState, ack: u64, p: &Progress, cx: &mut Context<'_>) {
        let delivered = p.rate.acked_sacked;
        if self.cc.owns_window() {
            self.cc.cong_control(&mut self.core, &p.rate);
            self.report_told(snd, cx);
        } else if self.core.in_cwnd_reduction() {
            self.reduce_cwnd(delivered, p.rate.losses > 0, p.advanced, false);
        } else {
            // With much reordering, any delivery clocks growth; otherwise only cumulative progress does.
            let progress = p.acked || (self.reordering > self.config.reordering && (p.sacked || p.advanced));
            if progress {
                self.cc.cong_avoid(&mut self.core, ack, delivered);
                self.cwnd_stamp = self.core.jiffies;
                if std::mem::take(&mut self.core.cwr_requested) {
                    self.enter_cwr(snd, cx);
                }
            }
        }
    }

    /// Decides the state and what is lost after an ACK that is not plain progress (tcp_fastretrans_alert).
    fn fastretrans_alert_modern(
        &mut self,
        snd: &SendState,
        p: &mut Progress,
        duplicate: bool,
        cx: &mut Context<'_>,
    ) {
        let mut do_lost = duplicate || (p.sacked && self.core.sacked_out > self.reordering);
        if self.core.packets_out == 0 {
            self.core.sacked_out = 0;
        }
        if p.ece {
            self.prior_ssthresh = 0;
        }
        if p.reneging && p.advanced {
            // It may yet acknowledge all of it. If not, everything is sent again (tcp_check_sack_reneging).
            let patience = self.core.us_to_jiffies(self.rtt.srtt() / 2).max(u64::from(self.core.hz) / 100);
            self.arm(TimerKind::Retransmission, patience, cx.now);
            p.set_timer = false;
            return;
        }
        // What the episode was about has arrived.
        if self.core.state == CaState::Open {
            self.retrans_stamp = None;
        } else if self.core.una >= self.high_seq {
            match self.core.state {
                CaState::Cwr if self.core.una > self.high_seq => {
                    self.end_cwnd_reduction();
                    self.set_state(CaState::Open);
                }
                CaState::Recovery => {
                    if !self.sack_ok {
                        self.core.sacked_out = 0;
                    }
                    if self.leave_recovery(snd, p, cx) {
                        return;
                    }
                }
                _ => {}
            }
        }
        match self.core.state {
            CaState::Recovery => {
                if !p.advanced {
                    if !self.sack_ok && duplicate {
                        self.add_reno_sack(p.ece);
                    }
                } else if self.try_undo_partial(snd, p, &mut do_lost, cx) {
                    return;
                }
                if self.try_undo_dsack(snd, cx) {
                    self.keep_open();
                }
                self.identify_losses(p, do_lost, cx);
                if self.core.state != CaState::Recovery {
                    if self.core.lost_out == 0 {
                        return;
                    }
                    self.enter_recovery(snd, p.ece, cx);
                }
            }
            CaState::Loss => {
                self.process_loss(snd, p, duplicate, cx);
                self.identify_losses(p, do_lost, cx);
                if self.core.state == CaState::Open || p.lost_retransmission {
                    self.fastretrans_outside_recovery(snd, p, do_lost, false, cx);
                }
            }
            _ => self.fastretrans_outside_recovery(snd, p, do_lost, duplicate, cx),
        }
    }

    /// [`LinuxSender::fastretrans_alert_modern`] in Open, Disorder and CWR.
    fn fastretrans_outside_recovery(
        &mut self,
        snd: &SendState,
        p: &mut Progress,
        do_lost: bool,
        duplicate: bool,
        cx: &mut Context<'_>,
    ) {
        if !self.sack_ok {
            if p.advanced {
                self.core.sacked_out = 0;
            }
            if duplicate {
                self.add_reno_sack(p.ece);
            }
        }
        if self.core.state <= CaState::Disorder {
            self.try_undo_dsack(snd, cx);
        }
        self.identify_losses(p, do_lost, cx);
        if self.core.lost_out > 0 {
            if self.searches() && self.probe_is_lost(snd) {
                return;
            }
            self.enter_recovery(snd, p.ece, cx);
            return;
        }
        self.forget_retrans_stamp();
        if p.ece {
            self.enter_cwr(snd, cx);
        }
        if self.core.state != CaState::Cwr {
            self.keep_open();
        }
    }

    fn identify_losses(&mut self, p: &mut Progress, do_lost: bool, cx: &mut Context<'_>) {
        if self.board.is_empty() {
            return;
        }
        if !self.sack_ok {
            self.mark_lost_newreno(p.advanced);
        } else if self.config.uses_rack() {
            let before = self.core.retrans_out;
            if self.rack_mark_lost(cx.now) {
                p.set_timer = false;
            }
            p.lost_retransmission |= before > self.core.retrans_out;
        } else if do_lost {
            // tcp_recovery without RACK (6.8 only): the duplicate threshold.
            self.mark_lost_by_threshold();
        }
    }

    /// RFC 6582: the third duplicate ACK, then each partial one, tells of one loss: the head.
    pub(super) fn mark_lost_newreno(&mut self, advanced: bool) {
        let recovering = self.core.state >= CaState::Recovery;
        if (!recovering && self.core.sacked_out >= self.reordering)
            || (self.core.state == CaState::Recovery && advanced)
        {
            let head = self.board.head();
            if !self.board.get(head).has(LOST) {
                self.remove_from_send_order(head);
                self.mark_lost(head);
            }
        }
    }

    /// In Recovery a partial ACK shows that the original arrived: the hole was reordering.
    fn try_undo_partial(
        &mut self,
        snd: &SendState,
        p: &Progress,
        do_lost: &mut bool,
        cx: &mut Context<'_>,
    ) -> bool {
        if self.undo_marker.is_none() || !self.original_arrived(p) {
            return false;
        }
        // Data was delivered without its retransmission: reordering of at least this much.
        self.note_reordering(p.prior_una, self.fack_end());
        if self.core.retrans_out > 0 {
            // Partial evidence only: stop reducing, keep the state.
            return true;
        }
        self.forget_retrans_stamp();
        self.undo_cwnd(snd, true, cx);
        self.keep_open();
        *do_lost = false;
        false
    }

    pub(super) fn enter_loss_modern(&mut self) {
        let new_recovery = self.core.state < CaState::Recovery;
        if !self.sack_ok {
            self.core.sacked_out = 0;
        }
        let reneged = self.board.front().is_some_and(|head| head.has(SACKED));
        if reneged {
            self.forget_sacks();
            self.reneged = true;
        }
        if self.config.uses_rack() && self.sack_ok && !reneged {
            let spares = self.rack_spares();
            self.mark_all_lost(spares);
        } else {
            self.mark_all_lost(|_| false);
        }
        if self.core.state <= CaState::Disorder
            || self.high_seq <= self.core.una
            || (self.core.state == CaState::Loss && self.retransmits == 0)
        {
            self.prior_ssthresh = self.core.current_ssthresh();
            self.core.prior_cwnd = self.core.cwnd;
            self.core.ssthresh = self.ssthresh_of_timeout();
            self.cc.cwnd_event(&mut self.core, CwndEvent::Loss);
            self.init_undo();
        }
        self.core.cwnd = self.core.in_flight() + 1;
        self.core.cwnd_cnt = 0;
        self.cwnd_stamp = self.core.jiffies;
        if self.core.state <= CaState::Disorder && self.core.sacked_out >= self.config.reordering {
            self.reordering = self.reordering.min(self.config.reordering);
        }
        self.set_state(CaState::Loss);
        self.high_seq = self.core.nxt;
        self.tlp = None;
        self.cwr_pending = true;
        self.frto = self.config.frto != 0 && (new_recovery || self.retransmits > 0);
    }

    /// The peer has thrown SACKed data away: nothing it reported counts.
    pub(super) fn forget_sacks(&mut self) {
        self.board.forget_sacks();
        self.core.sacked_out = 0;
        self.sacked.clear();
    }

    /// An ACK in Loss: F-RTO (RFC 5682), undo, the end.
    fn process_loss(&mut self, snd: &SendState, p: &mut Progress, duplicate: bool, cx: &mut Context<'_>) {
        let recovered = self.core.una >= self.high_seq;
        if p.advanced && self.try_undo_loss(snd, p, false, cx) {
            return;
        }
        if self.frto {
            // Never-retransmitted data arrived: the timeout was spurious.
            if p.original && self.try_undo_loss(snd, p, true, cx) {
                return;
            }
            if self.core.nxt > self.high_seq {
                if p.sacked || duplicate {
                    self.frto = false;
                }
            } else if p.advanced && !recovered {
                self.high_seq = self.core.nxt;
                if snd.unsent() > 0 && snd.una + snd.wnd > self.core.nxt {
                    // New data instead of retransmissions: the next ACK will tell.
                    self.output.prefer_new = true;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(snd, p, cx);
            return;
        }
        if !self.sack_ok {
            if self.core.nxt > self.high_seq && duplicate {
                self.add_reno_sack(p.ece);
            } else if p.advanced {
                self.core.sacked_out = 0;
            }
        }
    }

    fn try_undo_loss(&mut self, snd: &SendState, p: &Progress, frto: bool, cx: &mut Context<'_>) -> bool {
        if !frto && !self.may_undo(p) {
            return false;
        }
        self.undo_cwnd(snd, true, cx);
        self.retransmits = 0;
        if frto || self.sack_ok {
            self.set_state(CaState::Open);
            self.reneged = false;
        }
        true
    }

    /// An ACK while a tail loss probe was under way.
    fn process_tlp_ack(&mut self, snd: &SendState, ack: u64, p: &mut Progress, cx: &mut Context<'_>) {
        let Some(tlp) = self.tlp else { return };
        if ack < tlp.high_seq {
            return;
        }
        if !tlp.retransmission || p.dsack_tlp {
            self.tlp = None;
        } else if ack > tlp.high_seq {
            // The probe repaired a loss that nothing else noticed: one reduction.
            if self.hears_losses {
                self.cc.cwnd_event(&mut self.core, CwndEvent::TlpRecovery);
            }
            self.init_cwnd_reduction();
            self.set_state(CaState::Cwr);
            let value = i64::from(self.core.ssthresh) * i64::from(self.core.mss);
            cx.events.push(crate::event::EventKind::Reduction, snd.offset(self.core.una), value);
            self.end_cwnd_reduction();
            self.keep_open();
        } else if !p.advanced && !p.not_dup && !p.sacked {
            // A plain duplicate: original and probe both arrived.
            self.tlp = None;
        } else {
            p.rate.acks_probe = true;
        }
    }

    pub(super) fn on_reordering_timer(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        let before = self.core.in_flight();
        let lost_before = self.core.lost;
        self.rack_detect();
        if before != self.core.in_flight() && self.core.state != CaState::Recovery {
            self.enter_recovery(snd, false, cx);
            if !self.cc.owns_window() {
                self.reduce_cwnd(1, self.core.lost > lost_before, false, false);
            }
        }
        if self.timer.kind() != Some(TimerKind::Retransmission) {
            self.rearm_rto_from_head(cx.now);
        }
    }

    /// An ACK while nothing was outstanding: did it open the window?
    pub(super) fn on_window_probe_ack(&mut self, snd: &SendState, cx: &mut Context<'_>) {
        if snd.unsent() == 0 {
            return;
        }
        let first = snd.unsent().min(u64::from(self.core.mss));
        if snd.max + first <= snd.una + snd.wnd {
            self.backoff = 0;
            if self.timer.kind() == Some(TimerKind::WindowProbe) {
                self.timer.clear();
            }
        } else {
            let interval = self.window_probe_interval();
            self.arm(TimerKind::WindowProbe, interval, cx.now);
        }
    }
}
