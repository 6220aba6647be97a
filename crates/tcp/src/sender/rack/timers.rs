//! The timers of the RACK stack: reordering, tail loss probe and timeout, of which one runs; persist; and when the
//! high-precision timer system wakes the connection.

use super::{OutputCall, Probe, RackSender, SHORTEST_TIMER_US, Timer, UNKNOWN_RTT_US};
use crate::clock::MICROSECOND;
use crate::context::Context;
use crate::event::EventKind;
use crate::sender::SendState;

/// Probes in a row (net.inet.tcp.rack.tlp_limit).
const MAX_PROBES: u32 = 2;
/// Shortest probe timeout, us (net.inet.tcp.rack.tlpminto).
const SHORTEST_PROBE_US: u64 = 10_000;
/// A slot of the high-precision timer system, us.
const SLOT_US: u64 = 10;
/// Shortest sleep of the timer system, in us.
const SHORTEST_SLEEP_US: u64 = 250;

impl RackSender {
    /// A timer has run out.
    pub(super) fn on_timer_expired(&mut self, snd: &mut SendState, timer: Timer, cx: &mut Context<'_>) {
        self.timers_from = self.now_us;
        match timer {
            Timer::Reordering => {
                let due = self.map.oldest().filter(|&index| {
                    let at = self.map.get(index).at;
                    self.elapsed_since(at) >= self.loss_threshold()
                });
                let Some(index) = due else {
                    self.paced_until = None;
                    self.output_call = OutputCall::Finished;
                    return;
                };
                self.enter_recovery(snd, index, cx);
                if self.rack.pipe_without_lost {
                    self.map.consider_lost();
                }
                if !self.rack.timer_costs_credit {
                    self.prr_credit = self.prr_credit.max(self.ccv.mss);
                }
                self.resend = Some(index);
                self.pacing_waived = true;
            }
            Timer::Probe => self.plan_probe(snd, cx),
            Timer::Retransmission => self.on_timeout(snd, cx),
        }
    }

    /// The timer that should run, and how long from now, us. One at a time: reordering before probe before timeout.
    pub(super) fn timer_to_run(&mut self, snd: &SendState) -> Option<(Timer, u64)> {
        if snd.max == snd.una {
            return None;
        }
        let oldest = self.map.oldest().map(|index| *self.map.get(index));
        if let Some(oldest) = oldest {
            if self.later_delivered(&oldest) && snd.max <= snd.end {
                let left = self.loss_threshold().saturating_sub(self.elapsed_since(oldest.at));
                return Some((Timer::Reordering, left));
            }
            if snd.sack && snd.max <= snd.end && self.probes < MAX_PROBES {
                return Some((Timer::Probe, self.probe_time()));
            }
        }
        let from = oldest.map_or(0, |oldest| oldest.at).max(self.timers_from);
        let left = self.rto_us().saturating_sub(self.elapsed_since(from));
        Some((Timer::Retransmission, left))
    }

    /// Time until a tail loss probe, in us (RFC 8985 section 7.2).
    fn probe_time(&self) -> u64 {
        let (Some(last), before) = self.map.latest() else { return 0 };
        let srtt = self.srtt_us().unwrap_or(UNKNOWN_RTT_US).max(self.last_rtt).max(1);
        let mut wait = 2 * srtt;
        match before {
            Some(before) if last.end - last.start <= self.ccv.mss => {
                wait += self.stack_time(last.at).saturating_sub(self.stack_time(before.at));
            }
            None => wait = wait.max(srtt + srtt / 2 + self.rack.probe_delayed_ack_ms * 1000),
            Some(_) => {}
        }
        let wait = wait.min(self.rto_us()).max(SHORTEST_PROBE_US);
        wait.saturating_sub(self.elapsed_since(last.at.max(self.timers_from)))
    }

    /// Chooses what a tail loss probe will send: new data if a segment of it fits the peer's window, else the last
    /// segment again (RFC 8985 section 7.3).
    fn plan_probe(&mut self, snd: &SendState, cx: &mut Context<'_>) {
        cx.events.push(EventKind::Tlp, snd.offset(snd.una), 0);
        self.pacing_waived = true;
        let outstanding = snd.max - snd.una;
        let whole = snd.end.saturating_sub(snd.nxt) >= self.ccv.mss && outstanding + self.ccv.mss <= snd.wnd;
        if whole {
            if self.ccv.fast_recovery {
                self.prr_credit = self.ccv.mss;
                if self.rack.recovery_hides_probes {
                    return;
                }
            }
            self.probe = Probe::NewData;
        } else if let Some(index) = self.map.highest() {
            self.probe = Probe::Resend(index);
        }
    }

    /// Has the connection woken for the timer that should run, or for the end of pacing where that comes first.
    pub(super) fn arm(&mut self, snd: &SendState, cx: &Context<'_>) {
        let running = self.timer;
        self.timer = self.timer_to_run(snd).map(|(timer, left)| {
            let at = self.stack_time(self.now_us) + left.max(SHORTEST_TIMER_US);
            match running {
                // What only the shortest timer puts off is not put off again.
                Some((same, earlier)) if same == timer && left < SHORTEST_TIMER_US => {
                    (timer, at.min(earlier))
                }
                _ => (timer, at),
            }
        });
        let stack_now = self.stack_time(self.now_us);
        let timer_wait = self.timer.map(|(_, at)| at.saturating_sub(stack_now));
        // The end of pacing, unless the timer's time is shorter (rack_start_hpts_timer).
        let pace_wait = self.paced_until.map(|at| at.saturating_sub(self.now_us));
        let paces = pace_wait.is_some_and(|wait| timer_wait.is_none_or(|timer| wait <= timer));
        if let Some(wheel) = &mut self.wheel {
            let slots = match paces {
                true => pace_wait.map(|wait| wait.div_ceil(SLOT_US)),
                // Whole milliseconds of the stack's clock, and a slot.
                false => timer_wait.map(|wait| wait / SLOT_US + 1),
            };
            if let Some(slots) = slots.filter(|_| !wheel.is_taken()) {
                wheel.insert(slots, cx.clock, cx.now);
            }
            wheel.end_look(cx.clock, cx.now);
            self.wake = wheel.wake(cx.clock);
            return;
        }
        let until = if paces { self.paced_until } else { self.timer.map(|(_, at)| at) };
        if self.wake.is_none() || self.wake_for != until {
            self.wake_for = until;
            let wait = if paces { pace_wait } else { timer_wait };
            self.wake = wait
                .map(|wait| cx.now + (wait.div_ceil(SLOT_US) * SLOT_US).max(SHORTEST_SLEEP_US) * MICROSECOND);
        }
    }

    /// The connection waits for nothing until it is armed again.
    pub(super) fn leave_wheel(&mut self, cx: &Context<'_>) {
        if let Some(wheel) = &mut self.wheel {
            wheel.clear(cx.clock, cx.now);
        }
    }

    /// Waits for nothing: nothing is out, and nothing is to be sent.
    pub(super) fn rest(&mut self, cx: &Context<'_>) {
        self.leave_wheel(cx);
        (self.timer, self.paced_until, self.wake, self.wake_for) = (None, None, None, None);
    }

    pub(super) fn start_persist(&mut self, cx: &Context<'_>) {
        let wait = self.rtt.persist();
        self.persist = Some(cx.now + u64::from(wait) * self.rtt.tick_ns());
    }

    /// The window is open again: what probing it backed off counts against no retransmission (rack_exit_persist).
    pub(super) fn leave_persist(&mut self) {
        if self.persist.take().is_some() {
            self.rtt.shift = 0;
        }
    }
}
