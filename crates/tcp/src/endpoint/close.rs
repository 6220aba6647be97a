//! Closing and failing: FINs, resets, TIME-WAIT.

use wire::{Segment, seq};

use super::{Endpoint, Failure, State};
use crate::clock::Nanos;
use crate::event::EventKind;
use crate::peers::{Lesson, Style};
use crate::reset;

impl Endpoint {
    /// No more writes: a FIN follows the data (SHUT_WR).
    pub fn shutdown(&mut self, now: Nanos) {
        match self.state {
            State::Established => self.enter_state(State::FinWait1, now),
            // The FIN waits for the handshake.
            State::SynReceived => {}
            State::CloseWait => self.enter_state(State::LastAck, now),
            State::SynSent => {
                self.handshake.deadline = None;
                self.handshake.syn_due = false;
                self.enter_state(State::Closed, now);
                return;
            }
            _ => return,
        }
        self.snd.fin = true;
        self.snd.app_blocked = false;
        self.snd.blocked_midway = false;
    }

    /// Closes both directions. What is unread causes a reset on some systems (RFC 9293 section 3.10.4, RFC 2525
    /// section 2.17), on others it is forgotten. Data that arrives afterwards is answered with a reset (RFC 1122
    /// section 4.2.2.13).
    pub fn close(&mut self, now: Nanos) {
        self.closed_by_app = true;
        let unread = self.rcv.readable > 0 && self.carries_data();
        if unread && self.unread_resets {
            self.abort(now);
            return;
        }
        self.shutdown(now);
        if unread {
            // The FIN tells of the room.
            self.read(now, u64::MAX);
            self.rcv.ack_now = false;
        }
    }

    /// Resets the connection at once.
    pub fn abort(&mut self, now: Nanos) {
        if self.carries_data() {
            self.reset = Some((seq::wire(self.snd.max), Some(seq::wire(self.rcv.nxt))));
        }
        self.fail(now, Failure::Aborted);
    }

    pub(super) fn answer_with_reset(&mut self, segment: &Segment) {
        self.reset = reset::reset_for(segment).or(self.reset);
    }

    pub(super) fn on_fin_acked(&mut self, now: Nanos) {
        match self.state {
            State::FinWait1 => self.enter_state(State::FinWait2, now),
            State::Closing => self.enter_time_wait(now),
            State::LastAck => self.enter_state(State::Closed, now),
            _ => {}
        }
    }

    pub(super) fn on_peer_fin(&mut self, now: Nanos) {
        match self.state {
            State::Established => self.enter_state(State::CloseWait, now),
            State::FinWait1 => self.enter_state(State::Closing, now),
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    fn enter_time_wait(&mut self, now: Nanos) {
        self.time_wait_until = Some(self.timer_expiry(now, self.time_wait));
        self.enter_state(State::TimeWait, now);
    }

    /// When a timer runs that is set to so long from now.
    pub(super) fn timer_expiry(&self, now: Nanos, wait: Nanos) -> Nanos {
        if self.timer_wheel { self.clock.linux_timer(now, wait) } else { now + wait }
    }

    pub(super) fn fail(&mut self, now: Nanos, failure: Failure) {
        self.failure.get_or_insert(failure);
        self.handshake.deadline = None;
        self.handshake.syn_due = false;
        self.rcv.ack_now = false;
        self.enter_state(State::Closed, now);
    }

    pub(super) fn enter_state(&mut self, state: State, now: Nanos) {
        if state == State::Closed || state == State::TimeWait {
            self.limits.settle(now);
            self.limits.running = false;
            if self.state != State::TimeWait && self.state != State::Closed {
                self.note_lesson(state, now);
                self.sender.on_closed();
            }
        }
        self.state = state;
        self.events.push(EventKind::State, 0, state as i64);
    }

    /// The connection ends, or enters TIME-WAIT: its host may learn of it.
    fn note_lesson(&mut self, next: State, now: Nanos) {
        let keeping = &self.handshake.keeping;
        let waits = next == State::TimeWait;
        let counts = match keeping.style {
            Style::None => false,
            // tcp_update_metrics.
            Style::Linux => waits || self.state == State::LastAck && self.failure.is_none(),
            Style::FreeBsd | Style::FreeBsdAfterTimeWait => true,
        };
        if !keeping.keeps || !counts {
            return;
        }
        let after_wait =
            self.time_wait_until.filter(|_| waits && keeping.style == Style::FreeBsdAfterTimeWait);
        let from = self.clock.local(after_wait.unwrap_or(now));
        self.handshake.lesson = self.sender.lesson(&self.snd).map(|lesson| (from, lesson));
    }

    /// Takes what the connection has learnt of its peer, and from when on its host knows that, by the host's own clock.
    pub fn lesson(&mut self) -> Option<(Nanos, Lesson)> {
        self.handshake.lesson.take()
    }

    /// Whether data, FINs and ACKs of them can still pass.
    #[inline]
    pub(super) fn carries_data(&self) -> bool {
        match self.state {
            State::Established
            | State::CloseWait
            | State::FinWait1
            | State::FinWait2
            | State::Closing
            | State::LastAck => true,
            State::SynReceived => self.handshake.fast_open.opens_early(),
            _ => false,
        }
    }
}
