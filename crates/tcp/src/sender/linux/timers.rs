//! When Linux's sender sets its timer, and what happens when it expires: retransmission, tail loss probe, reordering,
//! zero-window probe.

use super::output::Forced;
use super::timer::{Timer, TimerKind, Wait};
use super::{LinuxSender, Tlp};
use crate::cc::linux::CaState;
use crate::clock::Nanos;
use crate::context::Context;
use crate::event::EventKind;
use crate::sender::SendState;

/// Added to the tail loss probe's and the reordering timer, microseconds whatever a jiffy is (TCP_TIMEOUT_MIN_US).
pub(super) const TIMEOUT_MIN_US: u64 = 2000;

impl LinuxSender {
    /// Sets the timer to `jiffies` from now.
    #[inline]
    pub(super) fn arm(&mut self, kind: TimerKind, jiffies: u64, now: Nanos) {
        let jiffies = jiffies.clamp(1, self.rto_max());
        let at = now + (jiffies - 1) * self.tick;
        self.timer = Timer { armed: Some((kind, Wait::Jiffies(jiffies))), start: self.core.jiffies, at };
    }

    /// Sets the timer to so many microseconds from now, rounded up to jiffies, at least one.
    #[inline]
    pub(super) fn arm_us(&mut self, kind: TimerKind, us: u64, now: Nanos) {
        let us = us.clamp(1, self.config.rto_max_ms * 1000);
        let at = now + (us * 1000).saturating_sub(self.tick);
        self.timer = Timer { armed: Some((kind, Wait::Micros(us))), start: self.core.jiffies, at };
    }

    /// Longest timeout in jiffies.
    pub(super) fn rto_max(&self) -> u64 {
        self.config.rto_max_ms * u64::from(self.core.hz) / 1000
    }

    /// The timeout with its backoff, jiffies.
    #[inline]
    pub(super) fn current_rto(&self) -> u64 {
        (self.rto << self.backoff.min(16)).min(self.rto_max())
    }

    /// Microseconds from now until a timeout counted from the head's last transmission.
    fn rto_left_us(&self) -> i64 {
        let Some(head) = self.board.front() else { return 0 };
        let rto_us = self.current_rto() * self.tick / 1000;
        (head.sent / 1000 + rto_us) as i64 - self.core.now_us() as i64
    }

    /// (Re)starts the retransmission timer, or stops it when nothing is outstanding.
    pub(super) fn rearm_rto(&mut self, now: Nanos) {
        if self.core.packets_out == 0 {
            self.timer.clear();
            return;
        }
        let counts_from_head = matches!(
            self.timer.kind(),
            Some(TimerKind::Reordering | TimerKind::LossProbe | TimerKind::EarlyRetransmit)
        );
        if counts_from_head {
            self.arm_us(TimerKind::Retransmission, self.rto_left_us().max(0) as u64, now);
        } else {
            self.arm(TimerKind::Retransmission, self.current_rto(), now);
        }
    }

    /// A tail loss probe, not the timeout, follows the next transmissions.
    #[inline]
    pub(super) fn probes_tail(&self) -> bool {
        self.is_modern()
            && matches!(self.config.early_retrans, 3 | 4)
            && self.sack_ok
            && matches!(self.core.state, CaState::Open | CaState::Cwr)
    }

    /// Arms the tail loss probe in place of the timeout where it applies. `advancing`: the timeout would start now.
    pub(super) fn schedule_loss_probe(&mut self, advancing: bool, now: Nanos) -> bool {
        if self.core.packets_out == 0 || !self.probes_tail() {
            return false;
        }
        let srtt = self.rtt.srtt8() >> 2;
        let mut us = if srtt == 0 {
            1_000_000
        } else if self.core.packets_out == 1 {
            srtt + self.config.rto_min_us
        } else {
            srtt + TIMEOUT_MIN_US
        };
        let left =
            if advancing { (self.current_rto() * self.tick / 1000) as i64 } else { self.rto_left_us() };
        if left > 0 {
            us = us.min(left as u64);
        }
        self.arm_us(TimerKind::LossProbe, us, now);
        true
    }

    /// After an ACK that moved the queue's head: the probe if it applies, else the timeout.
    pub(super) fn set_transmit_timer(&mut self, now: Nanos) {
        if !self.schedule_loss_probe(true, now) {
            self.rearm_rto(now);
        }
    }

    pub(super) fn run_timers(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        if self.output.paced_until.is_some_and(|at| at <= cx.now) {
            self.output.paced_until = None;
        }
        let Some((kind, wait)) = self.timer.armed else { return };
        if cx.now < self.timer.at {
            return;
        }
        let jiffies = match wait {
            Wait::Jiffies(jiffies) => jiffies,
            Wait::Micros(us) => self.core.us_to_jiffies(us),
        };
        let jiffy = self.config.timer_runs(self.timer.start, jiffies);
        if self.core.jiffies < jiffy {
            self.timer.at = cx.clock.time_of_tick(jiffy);
            return;
        }
        self.timer.clear();
        match kind {
            TimerKind::Retransmission => self.on_rto(snd, cx),
            TimerKind::LossProbe => self.on_loss_probe(snd, cx),
            TimerKind::Reordering => self.on_reordering_timer(snd, cx),
            TimerKind::WindowProbe => self.on_window_probe(snd, cx),
            TimerKind::EarlyRetransmit => self.on_early_retransmit(snd, cx),
        }
    }

    fn on_rto(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        if self.core.packets_out == 0 {
            return;
        }
        if self.gives_up_retransmitting(cx) {
            self.failed = true;
            return;
        }
        self.timeouts += 1;
        self.suspect_black_hole(snd, cx);
        if self.is_modern() {
            self.enter_loss_modern();
        } else {
            self.enter_timeout_classic(snd);
        }
        self.retransmits += 1;
        self.backoff += 1;
        self.core.rto = self.current_rto();
        cx.events.push(EventKind::Rto, snd.offset(self.core.una), i64::from(self.backoff));
        self.report_told(snd, cx);
        self.output.forced = Some(Forced::Head);
        let rto = self.next_rto(cx);
        self.arm(TimerKind::Retransmission, rto, cx.now);
    }

    fn on_loss_probe(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        // One probe at a time; without one the timeout takes over.
        if self.tlp.is_some() || self.core.packets_out == 0 {
            self.rearm_after_probe(cx.now);
            return;
        }
        cx.events.push(EventKind::Tlp, snd.offset(self.core.una), 0);
        self.output.forced = Some(Forced::LossProbe);
    }

    /// The timeout after a probe counts from the head's transmission.
    pub(super) fn rearm_after_probe(&mut self, now: Nanos) {
        if self.core.packets_out == 0 {
            self.timer.clear();
            return;
        }
        let jiffies = self.current_rto();
        self.arm(TimerKind::Retransmission, jiffies, now);
    }

    /// The timeout, counted from the head's last transmission: after a timer that stood in its place.
    pub(super) fn rearm_rto_from_head(&mut self, now: Nanos) {
        if self.core.packets_out == 0 {
            self.timer.clear();
            return;
        }
        self.arm_us(TimerKind::Retransmission, self.rto_left_us().max(0) as u64, now);
    }

    pub(super) fn note_probe(&mut self, high_seq: u64, retransmission: bool) {
        self.tlp = Some(Tlp { high_seq, retransmission });
    }

    fn on_window_probe(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        if self.core.packets_out > 0 || snd.unsent() == 0 {
            self.probes = 0;
            return;
        }
        let silent = cx.now.saturating_sub(snd.last_received) > 120_000_000_000;
        if self.gives_up_probing(cx.now) || self.probes >= self.config.retries2 && silent {
            self.failed = true;
            return;
        }
        self.probes += 1;
        self.backoff += 1;
        self.core.rto = self.current_rto();
        self.output.forced = Some(Forced::WindowProbe);
        let rto = self.next_probe(cx.now);
        self.arm(TimerKind::WindowProbe, rto, cx.now);
    }

    pub(super) fn window_probe_interval(&self) -> u64 {
        (self.rto.max(u64::from(self.core.hz) / 5) << self.backoff.min(16)).min(self.rto_max())
    }
}
