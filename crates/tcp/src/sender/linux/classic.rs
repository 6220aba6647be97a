//! The order of operations of 3.9: the window grows before losses are looked for; FACK, early retransmit, F-RTO of RFC 4138.

use super::LinuxSender;
use super::ack::Progress;
use super::output::Forced;
use super::scoreboard::{EVER_RETRANS, Id, LOST, NONE, RETRANS, SACKED};
use super::timer::TimerKind;
use crate::cc::linux::{CaState, CwndEvent};
use crate::clock::Nanos;
use crate::context::Context;
use crate::linux_config::Config;
use crate::sender::{Ack, SendState};

/// State that only this era has.
#[derive(Debug)]
pub(super) struct State {
    /// Holes count like SACKed packets; off for good once the path reorders.
    pub(super) fack_enabled: bool,
    /// 0: no F-RTO under way; 1, 2: that many ACKs are awaited.
    frto_counter: u32,
    /// Data up to here was outstanding at the timeout.
    pub(super) frto_highmark: u64,
    /// Everything below has been marked.
    pub(super) lost_cursor: Id,
    /// SACKed packets below it.
    pub(super) sacked_below: u32,
    early_retransmit: bool,
    early_retransmit_due: bool,
}

impl State {
    pub(super) fn new(config: &Config) -> State {
        State {
            fack_enabled: config.fack,
            frto_counter: 0,
            frto_highmark: 0,
            lost_cursor: 0,
            sacked_below: 0,
            early_retransmit: matches!(config.early_retrans, 1..=3) && config.reordering <= 3,
            early_retransmit_due: false,
        }
    }
}

impl State {
    /// The path is known to reorder (tcp_disable_fack, tcp_disable_early_retrans).
    pub(super) fn distrust_order(&mut self) {
        self.fack_enabled = false;
        self.early_retransmit = false;
    }
}

impl LinuxSender {
    #[inline(never)]
    pub(super) fn on_ack_classic(&mut self, snd: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        let mut p = self.begin_ack(snd, ack);
        if ack.ack < snd.una {
            self.tag_sacks(snd, ack, &mut p);
            if p.sacked {
                self.fastretrans_alert_classic(snd, &mut p, false, cx);
            }
            return;
        }
        if p.advanced {
            snd.una = ack.ack;
            self.core.una = ack.ack;
        }
        self.tag_sacks(snd, ack, &mut p);
        self.mark_lost_retransmissions();
        self.tell_in_ack(snd, ack, &p);
        self.probes = 0;
        if p.prior_packets == 0 {
            self.on_window_probe_ack(snd, cx);
            return;
        }
        let packets = self.clean_rtx_queue(snd, &mut p);
        if p.acked {
            self.retransmits = 0;
        }
        self.update_rtt(&mut p, packets, cx);
        if self.core.state != CaState::Loss || self.undo_marker.is_some() {
            self.check_reordering(&p);
        }
        if p.set_timer {
            self.rearm_rto(cx.now);
        }
        let frto = self.classic.frto_counter > 0 && self.process_frto(snd, &p, cx);
        let dubious = !p.not_dup || p.sacked || p.ece || self.core.state != CaState::Open;
        if p.acked && !frto {
            let may_raise = (!p.ece || self.core.cwnd < self.core.ssthresh) && !self.core.in_cwnd_reduction();
            if !dubious || may_raise {
                self.cc.cong_avoid(&mut self.core, ack.ack, packets);
                self.cwnd_stamp = self.core.jiffies;
            }
        }
        if dubious {
            let duplicate = !p.advanced && !p.not_dup;
            self.fastretrans_alert_classic(snd, &mut p, duplicate, cx);
        }
    }

    /// Decides the state, what is lost and the window after an ACK that is not plain progress (tcp_fastretrans_alert).
    fn fastretrans_alert_classic(
        &mut self,
        snd: &SendState,
        p: &mut Progress,
        duplicate: bool,
        cx: &mut Context<'_>,
    ) {
        let acked = p.prior_packets - self.core.packets_out;
        let mut do_lost = duplicate || (p.sacked && self.fackets_out() > self.reordering);
        let mut fast = false;
        if self.core.packets_out == 0 {
            self.core.sacked_out = 0;
        }
        if p.ece {
            self.prior_ssthresh = 0;
        }
        if p.reneging {
            self.renege_classic(cx.now);
            return;
        }
        if self.core.state == CaState::Open {
            self.retrans_stamp = None;
        } else if self.core.una >= self.high_seq && self.end_episode_classic(snd, p, cx) {
            return;
        }
        if self.core.state == CaState::Loss && !self.try_undo_loss_classic(snd, p, cx) {
            self.moderate_cwnd();
            return;
        }
        match self.core.state {
            CaState::Recovery => {
                if !p.advanced {
                    if !self.sack_ok && duplicate {
                        self.add_reno_sack(p.ece);
                    }
                } else {
                    do_lost = self.try_undo_partial_classic(snd, p, cx);
                }
            }
            _ => {
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
                if !self.time_to_recover(snd, cx) {
                    self.reduce_or_keep_open(snd, p, acked, cx);
                    return;
                }
                self.enter_recovery(snd, p.ece, cx);
                fast = true;
            }
        }
        if do_lost || (self.classic.fack_enabled && self.head_timed_out()) {
            self.update_scoreboard(fast);
        }
        self.reduce_cwnd(self.newly_delivered(acked, p), false, p.advanced, fast);
    }

    /// Leaves a state whose packets have all arrived. Returns whether nothing else is to be decided.
    fn end_episode_classic(&mut self, snd: &SendState, p: &Progress, cx: &mut Context<'_>) -> bool {
        match self.core.state {
            CaState::Loss => {
                self.retransmits = 0;
                self.try_undo_recovery(snd, p, cx)
            }
            CaState::Cwr if self.core.una != self.high_seq => {
                self.end_cwnd_reduction();
                self.set_state(CaState::Open);
                false
            }
            CaState::Recovery => {
                if !self.sack_ok {
                    self.core.sacked_out = 0;
                }
                self.leave_recovery(snd, p, cx)
            }
            _ => false,
        }
    }

    /// No loss: CWR where the peer echoes a mark or it is under way, else Open or Disorder.
    fn reduce_or_keep_open(&mut self, snd: &SendState, p: &Progress, acked: u32, cx: &mut Context<'_>) {
        if self.core.retrans_out == 0 {
            self.retrans_stamp = None;
        }
        if p.ece {
            self.enter_cwr(snd, cx);
        }
        if self.core.state == CaState::Cwr {
            self.reduce_cwnd(self.newly_delivered(acked, p), false, p.advanced, false);
        } else {
            self.keep_open();
            if self.core.state != CaState::Open {
                self.moderate_cwnd();
            }
        }
    }

    /// Packets that the ACK at hand delivered, `acked` of them cumulatively.
    fn newly_delivered(&self, acked: u32, p: &Progress) -> u32 {
        (acked + self.core.sacked_out).saturating_sub(p.prior_sacked)
    }

    /// No burst larger than the reordering degree in the less usual states.
    pub(super) fn moderate_cwnd(&mut self) {
        self.core.cwnd = self.core.cwnd.min(self.core.in_flight() + self.reordering);
        self.cwnd_stamp = self.core.jiffies;
    }

    fn may_send_new(&self, snd: &SendState) -> bool {
        let unsent = snd.unsent();
        unsent > 0
            && self.core.in_flight() < self.core.cwnd
            && snd.max + unsent.min(u64::from(self.core.mss)) <= snd.una + snd.wnd
    }

    fn time_to_recover(&mut self, snd: &SendState, cx: &mut Context<'_>) -> bool {
        // F-RTO decides first.
        if self.classic.frto_counter > 0 {
            return false;
        }
        if self.core.lost_out > 0 {
            return true;
        }
        let heuristic = if self.classic.fack_enabled { self.fackets_out() } else { self.core.sacked_out + 1 };
        if heuristic > self.reordering || (self.classic.fack_enabled && self.head_timed_out()) {
            return true;
        }
        let out = self.core.packets_out;
        if out <= self.reordering
            && self.core.sacked_out >= (out / 2).max(self.config.reordering)
            && !self.may_send_new(snd)
        {
            return true;
        }
        if self.classic.early_retransmit
            && self.reord_seen == 0
            && self.core.retrans_out == 0
            && self.core.sacked_out > 0
            && out > self.core.sacked_out
            && out < 4
            && out == self.core.sacked_out + 1
            && !self.may_send_new(snd)
        {
            return !self.pause_early_retransmit(cx);
        }
        false
    }

    /// Early retransmit waits a quarter of an RTT for a reordered packet (RFC 5827 section 3 leaves that open).
    fn pause_early_retransmit(&mut self, cx: &mut Context<'_>) -> bool {
        if std::mem::take(&mut self.classic.early_retransmit_due) || self.config.early_retrans < 2 {
            return false;
        }
        let delay = (self.rtt.srtt8() >> 5).max(2 * u64::from(self.core.hz) / 1000).max(1);
        if self.rtt.srtt8() == 0 || delay >= self.current_rto() {
            return false;
        }
        if self.timer.kind() != Some(TimerKind::EarlyRetransmit) {
            self.arm(TimerKind::EarlyRetransmit, delay, cx.now);
        }
        true
    }

    pub(super) fn on_early_retransmit(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        self.rearm_rto_from_head(cx.now);
        if self.core.state <= CaState::Disorder && self.core.sacked_out > 0 {
            self.enter_recovery(snd, false, cx);
            self.update_scoreboard(true);
            self.reduce_cwnd(0, false, false, true);
        }
    }

    /// The oldest packet is older than a timeout.
    fn head_timed_out(&self) -> bool {
        self.board.front().is_some_and(|head| {
            self.core.packets_out > 0
                && (self.core.now - head.sent.min(self.core.now)) / self.tick > self.current_rto()
        })
    }

    fn update_scoreboard(&mut self, fast: bool) {
        if self.board.is_empty() {
            return;
        }
        if !self.sack_ok {
            self.mark_head_lost();
        } else if self.classic.fack_enabled {
            let lost = self.fackets_out().saturating_sub(self.reordering).max(1);
            let end = (self.board.head() + u64::from(lost)).min(self.board.tail());
            self.mark_lost_below(end);
        } else if self.core.sacked_out >= self.reordering {
            self.mark_lost_by_threshold();
        } else if fast {
            self.mark_head_lost();
        }
        if self.classic.fack_enabled && self.head_timed_out() {
            self.mark_timed_out();
        }
    }

    fn mark_head_lost(&mut self) {
        let head = self.board.head();
        if !self.board.get(head).has(SACKED | LOST) {
            self.board.mark_lost(&mut self.core, head);
        }
    }

    /// Marks every packet below `end` that is not SACKed. What was looked at once stays behind the cursor.
    fn mark_lost_below(&mut self, end: Id) {
        let mut id = self.classic.lost_cursor.max(self.board.head());
        if id > self.classic.lost_cursor {
            self.classic.sacked_below = 0;
        }
        while id < end {
            let tags = self.board.get(id).tags;
            if tags & SACKED != 0 {
                self.classic.sacked_below += 1;
            } else if tags & LOST == 0 {
                self.board.mark_lost(&mut self.core, id);
            }
            id += 1;
        }
        self.classic.lost_cursor = self.classic.lost_cursor.max(id);
    }

    /// Without FACK a packet is lost when at least `reordering` packets above it are SACKed.
    pub(super) fn mark_lost_by_threshold(&mut self) {
        let Some(upto) = self.core.sacked_out.checked_sub(self.reordering) else { return };
        let mut id = self.classic.lost_cursor.max(self.board.head());
        if id > self.classic.lost_cursor {
            self.classic.sacked_below = 0;
        }
        while id < self.board.tail() {
            let tags = self.board.get(id).tags;
            if tags & SACKED != 0 {
                if self.classic.sacked_below >= upto {
                    break;
                }
                self.classic.sacked_below += 1;
            } else if tags & LOST == 0 {
                self.remove_from_send_order(id);
                self.mark_lost(id);
            }
            id += 1;
        }
        self.classic.lost_cursor = id;
    }

    /// FACK's timeout of single packets at the head.
    fn mark_timed_out(&mut self) {
        let rto = self.current_rto();
        let mut id = self.board.head();
        while id < self.board.tail() {
            let packet = *self.board.get(id);
            if (self.core.now - packet.sent.min(self.core.now)) / self.tick <= rto {
                break;
            }
            if !packet.has(SACKED | LOST) {
                self.board.mark_lost(&mut self.core, id);
            }
            id += 1;
        }
    }

    /// In Recovery a retransmission is lost again when data first sent after it has been SACKed.
    fn mark_lost_retransmissions(&mut self) {
        if !self.classic.fack_enabled || self.core.retrans_out == 0 || self.core.state != CaState::Recovery {
            return;
        }
        let received = self.fack_end();
        loop {
            let id = self.board.first_sent();
            if id == NONE {
                return;
            }
            let packet = *self.board.get(id);
            if packet.has(RETRANS) && !packet.has(SACKED) {
                if received <= packet.delivered {
                    return;
                }
                if packet.end() > self.core.una {
                    if !packet.has(LOST) {
                        self.board.mark_lost(&mut self.core, id);
                    }
                    self.board.mark_lost(&mut self.core, id);
                }
            }
            self.remove_from_send_order(id);
        }
    }

    /// A partial ACK in Recovery: true if the next hole is lost too.
    fn try_undo_partial_classic(&mut self, snd: &SendState, p: &Progress, cx: &mut Context<'_>) -> bool {
        let failed = !self.sack_ok || self.fackets_out() > self.reordering;
        if !self.may_undo(p) {
            return failed;
        }
        if self.core.retrans_out == 0 {
            self.retrans_stamp = None;
        }
        self.undo_cwnd(snd, false, cx);
        false
    }

    fn try_undo_loss_classic(&mut self, snd: &SendState, p: &Progress, cx: &mut Context<'_>) -> bool {
        if !self.may_undo(p) {
            return false;
        }
        self.undo_cwnd(snd, true, cx);
        self.retransmits = 0;
        if self.sack_ok {
            self.set_state(CaState::Open);
        }
        true
    }

    /// A retransmission timeout: first doubt it (F-RTO), else believe it.
    pub(super) fn enter_timeout_classic(&mut self, snd: &SendState) {
        if self.config.frto == 2 && self.sack_ok {
            self.enter_frto(snd);
        } else {
            self.enter_loss_classic();
        }
    }

    fn new_window_of_loss(&self) -> bool {
        self.core.state <= CaState::Disorder
            || self.core.una == self.high_seq
            || (self.core.state == CaState::Loss && self.retransmits == 0)
    }

    /// The peer has thrown away what it had SACKed: all of it is lost at once (tcp_check_sack_reneging).
    fn renege_classic(&mut self, now: Nanos) {
        let marker = self.undo_marker;
        self.forget_sacks();
        self.enter_loss_classic();
        self.undo_marker = self.undo_marker.and(marker);
        self.retransmits += 1;
        self.output.forced = Some(Forced::Head);
        self.arm(TimerKind::Retransmission, self.current_rto(), now);
    }

    fn enter_loss_classic(&mut self) {
        if self.new_window_of_loss() {
            self.prior_ssthresh = self.core.current_ssthresh();
            self.core.prior_cwnd = self.core.cwnd;
            self.core.ssthresh = self.ssthresh_of_timeout();
            self.cc.cwnd_event(&mut self.core, CwndEvent::Loss);
        }
        self.core.cwnd = 1;
        self.core.cwnd_cnt = 0;
        if !self.sack_ok {
            self.core.sacked_out = 0;
        }
        self.undo_marker = Some(self.core.una);
        self.undo_retrans = 0;
        self.forget_retransmissions();
        self.mark_all_lost(|_| false);
        self.reordering = self.reordering.min(self.config.reordering);
        self.set_state(CaState::Loss);
        self.high_seq = self.core.nxt;
        self.cwr_pending = true;
        self.classic.frto_counter = 0;
    }

    /// Retransmissions made so far count no more; if there were any, what follows cannot be undone.
    fn forget_retransmissions(&mut self) {
        for id in self.board.head()..self.board.tail() {
            if self.board.get(id).has(RETRANS | EVER_RETRANS) {
                self.undo_marker = None;
                let packet = self.board.get_mut(id);
                if packet.has(RETRANS) {
                    packet.tags &= !RETRANS;
                    self.core.retrans_out -= 1;
                }
                if !self.board.get(id).has(SACKED) && self.board.get(id).has(LOST) {
                    // It waits to be sent again.
                    self.board.unmark_lost(&mut self.core, id);
                }
            }
        }
        self.classic.lost_cursor = self.board.head();
        self.classic.sacked_below = 0;
        self.output.restart_forward_retransmit();
    }

    fn enter_frto(&mut self, snd: &SendState) {
        let running = self.classic.frto_counter > 0;
        if (!running && self.core.state <= CaState::Disorder)
            || self.core.una == self.high_seq
            || ((self.core.state == CaState::Loss || running) && self.retransmits == 0)
        {
            self.prior_ssthresh = self.core.current_ssthresh();
            self.core.prior_cwnd = self.core.cwnd;
            // A second timeout during the test: as if the window had been cut to 2 already.
            let cwnd = self.core.cwnd;
            if running {
                self.core.cwnd = 2;
            }
            self.core.ssthresh = self.ssthresh_of_timeout();
            self.core.cwnd = cwnd;
            self.cc.cwnd_event(&mut self.core, CwndEvent::Frto);
        }
        self.undo_marker = Some(self.core.una);
        self.undo_retrans = 0;
        let head = self.board.head();
        let packet = self.board.get_mut(head);
        if packet.has(RETRANS | EVER_RETRANS) {
            self.undo_marker = None;
        }
        if packet.has(RETRANS) {
            packet.tags &= !RETRANS;
            self.core.retrans_out -= 1;
        }
        self.core.cwnd = self.core.cwnd.min(self.core.in_flight() + 1);
        let earlier = running || self.core.state >= CaState::Recovery;
        self.classic.frto_highmark =
            if earlier && self.high_seq > self.core.una { self.high_seq } else { snd.max };
        self.set_state(CaState::Disorder);
        self.high_seq = snd.max;
        self.classic.frto_counter = 1;
    }

    /// An ACK during F-RTO (RFC 4138 with SACK). True: it must not grow the window.
    fn process_frto(&mut self, snd: &SendState, p: &Progress, cx: &mut Context<'_>) -> bool {
        let counter = self.classic.frto_counter;
        if p.later_retransmission_acked || (counter >= 2 && p.retransmission_acked) {
            self.undo_marker = None;
        }
        if self.core.una >= self.classic.frto_highmark {
            self.leave_frto_by_loss(if counter == 1 { 2 } else { 3 }, p);
            return true;
        }
        if !p.acked && counter == 1 {
            if self.core.in_flight() == 0 {
                self.leave_frto_by_loss(2, p);
            } else {
                self.core.cwnd = self.core.cwnd.min(self.core.in_flight());
            }
            return true;
        }
        let progress = p.acked || p.sacked;
        if counter >= 2 && (!progress || (p.sacked && !p.only_original)) {
            if progress || !p.not_dup {
                self.leave_frto_by_loss(3, p);
            }
            return true;
        }
        if counter == 1 {
            self.core.cwnd = self.core.in_flight() + 2;
            self.classic.frto_counter = 2;
            if !self.may_send_new(snd) {
                self.leave_frto_by_loss(2, p);
            }
            return true;
        }
        // Spurious.
        self.classic.frto_counter = 0;
        match self.config.frto_response {
            2 => self.undo_cwnd(snd, false, cx),
            1 => {
                self.core.cwnd = self.core.cwnd.min(self.core.ssthresh);
                self.core.cwnd_cnt = 0;
                self.moderate_cwnd();
            }
            _ => {
                // Not reduced again: ssthresh was set at the timeout.
                let ssthresh = self.core.ssthresh;
                self.enter_cwr(snd, cx);
                self.core.ssthresh = ssthresh;
            }
        }
        self.undo_marker = None;
        false
    }

    /// The timeout was right: all that was outstanding then is lost, slow start from here.
    fn leave_frto_by_loss(&mut self, allowed: u32, p: &Progress) {
        let keep_head = self.classic.frto_counter == 1 && !p.acked;
        let head = self.board.head();
        for id in head..self.board.tail() {
            self.board.unmark_lost(&mut self.core, id);
            let packet = self.board.get_mut(id);
            if keep_head && id == head {
                continue;
            }
            let was = packet.tags;
            packet.tags &= !RETRANS;
            if was & RETRANS != 0 {
                self.core.retrans_out -= 1;
            }
            if was & (RETRANS | EVER_RETRANS) != 0 {
                self.undo_marker = None;
            }
        }
        self.board.clear_lost();
        for id in head..self.board.tail() {
            let packet = self.board.get(id);
            if !packet.has(SACKED) && packet.end() <= self.classic.frto_highmark {
                self.board.mark_lost(&mut self.core, id);
            }
        }
        self.core.cwnd = self.core.in_flight() + allowed;
        self.core.cwnd_cnt = 0;
        self.classic.frto_counter = 0;
        self.classic.lost_cursor = head;
        self.classic.sacked_below = 0;
        self.output.restart_forward_retransmit();
        self.reordering = self.reordering.min(self.config.reordering);
        self.set_state(CaState::Loss);
        self.high_seq = self.core.nxt;
        self.cwr_pending = true;
    }
}
