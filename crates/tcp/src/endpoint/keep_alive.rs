//! Keep-alive: probes of a connection on which nothing comes, and its end when they get no answer (RFC 9293 section
//! 3.8.4).

use wire::{Segment, seq};

use super::{Endpoint, Failure, State};
use crate::clock::Nanos;
use crate::stack::KeepAlive;

/// Keep-alive of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    times: KeepAlive,
    /// Times at which the timer was last set, and to which.
    since: Nanos,
    at: Nanos,
    /// Probes sent since the peer was last heard.
    probes: u32,
    /// A probe must leave.
    due: bool,
}

impl Endpoint {
    /// Sets keep-alive, or ends it. The longest duration of a connection attempt is set as well.
    pub fn set_keep_alive(&mut self, now: Nanos, times: KeepAlive, on: bool) {
        self.handshake.attempt = times.attempt;
        let probes = self.keep_alive.as_ref().map_or(0, |watch| watch.probes);
        let silent =
            if self.rules.keep_alive_counts_probes { now - self.snd.last_received.min(now) } else { 0 };
        let at = now + times.idle.saturating_sub(silent);
        self.keep_alive = on.then(|| Box::new(Watch { times, since: now, at, probes, due: false }));
        self.usual_timers = !on && !self.snd.no_fast_path;
    }

    /// The connection is open: the peer has just been heard.
    pub(super) fn begin_keep_alive(&mut self, now: Nanos) {
        if let Some(watch) = &mut self.keep_alive {
            (watch.since, watch.at) = (now, now + watch.times.idle);
        }
    }

    /// Time at which the timer of keep-alive may run out.
    #[inline]
    pub(super) fn next_keep_alive(&self) -> Option<Nanos> {
        let watch = self.keep_alive.as_ref().filter(|_| self.is_kept_alive())?;
        let restarted = !self.rules.keep_alive_counts_probes && self.snd.last_received > watch.since;
        let at = if restarted { self.snd.last_received + watch.times.idle } else { watch.at };
        Some(if self.timer_wheel { self.clock.linux_timer(watch.since, at - watch.since) } else { at })
    }

    /// States in which the peer may be asked: FreeBSD leaves out those in which it has only to close.
    fn is_kept_alive(&self) -> bool {
        let closes = matches!(self.state, State::FinWait2 | State::LastAck);
        self.carries_data() && (self.rules.keep_alive_counts_probes || !closes)
    }

    /// The timer may have run out (tcp_timer_keep of FreeBSD, tcp_keepalive_timer of Linux).
    #[cold]
    pub(super) fn on_keep_alive_timer(&mut self, now: Nanos) {
        let (heard, busy) = (self.snd.last_received, self.snd.limit() != self.snd.una);
        let Some(watch) = &mut self.keep_alive else { return };
        let counts = self.rules.keep_alive_counts_probes;
        let KeepAlive { idle, interval, count, .. } = watch.times;
        if heard > watch.since {
            watch.probes = 0;
        }
        let silent = now - heard.min(now);
        let wait = if counts && busy {
            // Data that waits for its acknowledgement has a timer of its own.
            idle
        } else if silent < idle {
            idle - silent
        } else if counts && watch.probes >= count || !counts && silent >= idle + Nanos::from(count) * interval
        {
            self.reset = Some((seq::wire(self.snd.max), Some(seq::wire(self.rcv.nxt))));
            self.fail(now, Failure::Timeout);
            return;
        } else {
            watch.probes += 1;
            watch.due = true;
            self.rcv.ack_now = true;
            interval
        };
        (watch.since, watch.at) = (now, now + wait);
    }

    /// Turns an ACK that leaves into the probe, where one is due: below what the peer has acknowledged, so that it answers.
    #[cold]
    pub(super) fn write_probe(&mut self, segment: &mut Segment) {
        if let Some(watch) = &mut self.keep_alive
            && std::mem::take(&mut watch.due)
        {
            segment.seq = seq::wire(self.snd.una - 1);
        }
    }
}
