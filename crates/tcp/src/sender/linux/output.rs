//! What Linux sends next: retransmissions, then new data as far as windows, Nagle, TSQ, TSO deferral and pacing allow.

use super::scoreboard::{EVER_RETRANS, Id, LOST, NONE, Packet, RETRANS, SACKED};
use super::timers::TimerKind;
use super::{LinuxSender, TRUESIZE, time_at};
use crate::cc::linux::{CaState, CwndEvent, INIT_CWND};
use crate::clock::{MILLISECOND, Nanos};
use crate::mutants::mutant;
use crate::sender::{Context, Limit, Poll, SendState, Transmit};

/// Something a timer wants sent whatever the window says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forced {
    /// The oldest packet, after a timeout.
    Head,
    /// A tail loss probe: new data, or the newest packet again.
    LossProbe,
    /// A probe of a closed window.
    WindowProbe,
}

/// State of transmission.
#[derive(Debug, Default)]
pub(super) struct State {
    /// First sequence number of the stream.
    pub(super) first_seq: u64,
    /// Payload in the host's queues.
    pub(super) in_host: u64,
    /// Pacing holds the sender back until then, true time.
    pub(super) paced_until: Option<Nanos>,
    /// What is left of a burst that leaves as one.
    burst: Burst,
    pub(super) forced: Option<Forced>,
    /// An ACK moved the queue's head: the timer starts anew once everything that follows is sent.
    pub(super) timer_due: bool,
    /// F-RTO: new data goes before retransmissions.
    pub(super) prefer_new: bool,
    /// Packets sent since the sender last waited.
    sent: u32,
    /// The congestion window was a reason to stop.
    cwnd_limited: bool,
    /// Data packets sent so far.
    packets: u64,
    /// 3.9: jiffy at which TSO deferral began.
    deferred_since: Option<u64>,
    /// Next packet that forward retransmission looks at (3.9).
    forward: Id,
    /// The host has kept packets in a queue of its own; else they are sent as they leave the stack.
    host_queues: bool,
    /// What was sent last did not fill the congestion window, and the writer waits for room in the buffer.
    starved: bool,
    /// End of what the application had written when the sender last waited.
    asked_for: u64,
}

/// A burst of a sender without segmentation offload: since 4.17 Linux builds super-packets all the same and cuts them
/// itself, so that it defers what is less than one, and pacing waits between them only.
#[derive(Debug, Default)]
struct Burst {
    /// Packets still to leave.
    packets: u64,
    /// When all of it leaves, local time.
    departure: Nanos,
    /// Time lost to late timers that its packets may still catch up.
    credit: Nanos,
}

impl State {
    /// Forward retransmission looks at every hole anew.
    pub(super) fn restart_forward(&mut self) {
        self.forward = 0;
    }
}

impl LinuxSender {
    #[inline]
    pub(super) fn poll_output(&mut self, s: &mut SendState, cx: &mut Context<'_>) -> Poll {
        s.throttled = false;
        if let Some(forced) = self.output.forced.take()
            && let Some(transmit) = self.send_forced(forced, s, cx)
        {
            return Poll::Send(transmit);
        }
        if self.core.pacing && self.core.departure > self.core.now && self.output.burst.packets == 0 {
            self.output.paced_until = Some(cx.now + (self.core.departure - self.core.now));
            self.output.cwnd_limited |= self.core.in_flight() >= self.core.cwnd;
            return self.wait(Limit::Cwnd, s, cx);
        }
        if self.core.lost_out > self.core.retrans_out
            && !self.output.prefer_new
            && let Some(transmit) = self.send_lost(s, cx)
        {
            return Poll::Send(transmit);
        }
        let limit = match self.send_new(s, cx) {
            Ok(transmit) => return Poll::Send(transmit),
            Err(limit) => limit,
        };
        if self.output.prefer_new {
            self.output.prefer_new = false;
            if self.core.nxt <= self.high_seq {
                self.frto = false;
                if let Some(transmit) = self.send_lost(s, cx) {
                    return Poll::Send(transmit);
                }
            } else {
                self.output.prefer_new = true;
            }
        }
        if !self.is_modern()
            && self.core.state == CaState::Recovery
            && let Some(transmit) = self.send_forward(s, cx)
        {
            return Poll::Send(transmit);
        }
        self.wait(limit, s, cx)
    }

    /// Nothing more to send now: window validation, probe timers, the send buffer.
    fn wait(&mut self, limit: Limit, s: &mut SendState, cx: &mut Context<'_>) -> Poll {
        let sent = std::mem::take(&mut self.output.sent);
        self.output.burst.packets = 0;
        self.output.asked_for = s.end;
        self.output.host_queues |= self.output.in_host > 0;
        let limited =
            std::mem::take(&mut self.output.cwnd_limited) || self.core.in_flight() >= self.core.cwnd;
        if sent > 0 || limited {
            self.validate_cwnd(s, limited);
        }
        if sent > 0 && self.is_modern() {
            if !self.schedule_loss_probe(false, cx.now) && self.output.timer_due {
                self.rearm_rto(cx.now);
            }
        } else if self.output.timer_due {
            self.set_transmit_timer(cx.now);
        }
        self.output.timer_due = false;
        if self.core.packets_out == 0 && s.unsent() > 0 && self.timer.kind().is_none() && limit == Limit::Rwnd
        {
            let interval = self.window_probe_interval();
            self.arm(TimerKind::WindowProbe, interval, cx.now);
        }
        let limit = if limit == Limit::SendBuffer { self.buffer_limits(sent) } else { limit };
        // A writer that waits for room in the send buffer is inside its call, and the check is at a call's start.
        if limit == Limit::App {
            self.rate_check_app_limited(s);
        }
        if s.app_blocked {
            self.expand_sndbuf(s);
        }
        Poll::Wait(limit)
    }

    /// Everything is sent and the writer sleeps in the midst of a call: the buffer is the limit if cwnd was not when the
    /// last of it left (tcp_cwnd_validate; 3.9 does not count).
    fn buffer_limits(&mut self, sent: u32) -> Limit {
        if sent > 0 {
            self.output.starved = !self.is_modern() || !self.core.is_cwnd_limited();
        }
        if self.output.starved { Limit::SendBuffer } else { Limit::Cwnd }
    }

    /// RFC 2861 as Linux has it: remembers whether cwnd was the limit, and shrinks a window long unused.
    fn validate_cwnd(&mut self, s: &SendState, limited: bool) {
        let core = &mut self.core;
        if s.una >= self.usage_seq
            || limited
            || (!core.cwnd_limited && core.packets_out > core.max_packets_out)
        {
            core.cwnd_limited = limited;
            core.max_packets_out = core.packets_out;
            self.usage_seq = s.max;
        }
        let used = if self.config.detection == super::Detection::Rack {
            core.is_cwnd_limited()
        } else {
            core.packets_out >= core.cwnd
        };
        if used {
            self.cwnd_used = 0;
            self.cwnd_stamp = core.jiffies;
            return;
        }
        self.cwnd_used = self.cwnd_used.max(core.packets_out);
        let unused_for = core.jiffies - self.cwnd_stamp.min(core.jiffies);
        if self.config.slow_start_after_idle
            && unused_for >= (self.rto << self.backoff.min(16))
            && !self.cc.owns_window()
        {
            if self.core.state == CaState::Open && !s.app_blocked {
                let used = self.cwnd_used.max(INIT_CWND);
                if used < self.core.cwnd {
                    self.core.ssthresh = self.core.current_ssthresh();
                    self.core.cwnd = (self.core.cwnd + used) >> 1;
                }
                self.cwnd_used = 0;
            }
            self.cwnd_stamp = self.core.jiffies;
        }
    }

    /// Idle longer than a timeout: the window halves once per timeout, down to the initial one.
    fn restart_after_idle(&mut self) {
        let rto = self.current_rto().max(1);
        let mut idle = self.core.jiffies - self.core.last_sent_jiffies.min(self.core.jiffies);
        if mutant!(NoIdleRestart)
            || !self.config.slow_start_after_idle
            || idle <= rto
            || self.cc.owns_window()
        {
            return;
        }
        let floor = INIT_CWND.min(self.core.cwnd);
        self.cc.cwnd_event(&mut self.core, CwndEvent::Restart);
        self.core.ssthresh = self.core.current_ssthresh();
        while idle > rto && self.core.cwnd > floor {
            self.core.cwnd >>= 1;
            idle -= rto;
        }
        self.core.cwnd = self.core.cwnd.max(floor);
        self.cwnd_stamp = self.core.jiffies;
        self.cwnd_used = 0;
    }

    #[cold]
    #[inline(never)]
    fn send_forced(&mut self, forced: Forced, s: &mut SendState, cx: &mut Context<'_>) -> Option<Transmit> {
        match forced {
            Forced::Head => {
                let head = self.board.head();
                if self.board.is_empty() {
                    return None;
                }
                let transmit = self.retransmit(head, s, cx);
                let rto = self.current_rto();
                self.arm(TimerKind::Retransmission, rto, cx.now);
                Some(transmit)
            }
            Forced::LossProbe => {
                let first = u64::from(self.core.mss).min(s.unsent());
                let transmit = if s.unsent() > 0 && s.max + first <= s.una + s.wnd {
                    let transmit = self.transmit_new(first, s, cx);
                    // No probe follows a probe.
                    self.output.sent = 0;
                    self.note_probe(s.max, false);
                    Some(transmit)
                } else if self.board.is_empty() {
                    None
                } else {
                    let last = self.board.tail() - 1;
                    let transmit = self.resend(last, s, cx);
                    self.note_probe(s.max, true);
                    Some(transmit)
                };
                self.rearm_after_probe(cx.now);
                transmit
            }
            Forced::WindowProbe => {
                let room = (s.una + s.wnd).saturating_sub(s.max);
                if room > 0 && s.unsent() > 0 {
                    let len = room.min(s.unsent()).min(u64::from(self.core.mss));
                    return Some(self.transmit_new(len, s, cx));
                }
                Some(Transmit {
                    seq: s.una - 1,
                    len: 0,
                    fin: false,
                    push: false,
                    retransmission: false,
                    cwr: false,
                })
            }
        }
    }

    /// The lowest lost packet, if the window has room.
    fn send_lost(&mut self, s: &mut SendState, cx: &mut Context<'_>) -> Option<Transmit> {
        if self.core.in_flight() >= self.core.cwnd {
            return None;
        }
        let id = self.board.next_lost();
        if id == NONE || self.held_by_tsq(s, 1) {
            return None;
        }
        let seq = self.board.get(id).seq;
        if seq >= s.una + s.wnd && seq != s.una {
            return None;
        }
        let mut transmit = self.retransmit(id, s, cx);
        // With segmentation offload, adjacent losses go in one burst.
        if s.tso && self.is_modern() {
            let mut next = id + 1;
            let max = self.tso_segments(s);
            while u64::from(next as u32 - id as u32) < max
                && self.core.in_flight() < self.core.cwnd
                && self.board.next_lost() == next
            {
                let more = self.retransmit(next, s, cx);
                transmit.len += more.len;
                transmit.fin |= more.fin;
                next += 1;
            }
        }
        Some(transmit)
    }

    /// 3.9: when nothing marked lost and nothing new can be sent, holes below the highest SACK go again.
    fn send_forward(&mut self, s: &mut SendState, cx: &mut Context<'_>) -> Option<Transmit> {
        if !self.sack_ok
            || self.core.in_flight() >= self.core.cwnd
            || self.core.lost_out > self.core.retrans_out
        {
            return None;
        }
        let mut id = self.output.forward.max(self.board.head());
        let end = self.fack.min(self.board.tail());
        while id < end {
            let packet = self.board.get(id);
            if packet.tags & (SACKED | RETRANS | LOST) == 0 {
                self.output.forward = id + 1;
                return Some(self.retransmit(id, s, cx));
            }
            id += 1;
        }
        self.output.forward = id;
        None
    }

    /// Sends `id` again as a counted retransmission.
    fn retransmit(&mut self, id: Id, s: &mut SendState, cx: &mut Context<'_>) -> Transmit {
        let transmit = self.resend(id, s, cx);
        let packet = self.board.get_mut(id);
        if !packet.has(RETRANS) {
            packet.tags |= RETRANS;
            self.core.retrans_out += 1;
        }
        if self.undo_retrans < 0 {
            self.undo_retrans = 0;
        }
        self.undo_retrans += 1;
        if self.core.in_cwnd_reduction() {
            self.prr_out += 1;
        }
        if id == self.board.head() && self.timer.kind() != Some(TimerKind::Reordering) {
            let rto = self.current_rto();
            self.arm(TimerKind::Retransmission, rto, cx.now);
        }
        transmit
    }

    /// Sends `id` again, without counting it in flight twice.
    fn resend(&mut self, id: Id, s: &mut SendState, cx: &mut Context<'_>) -> Transmit {
        let now_ms = cx.clock.timestamp_ms(cx.now);
        self.retrans_stamp.get_or_insert(now_ms);
        let departure = self.depart(u64::from(self.board.get(id).len));
        let modern = self.is_modern();
        let core = &self.core;
        let packet = self.board.get_mut(id);
        packet.tags |= EVER_RETRANS;
        packet.sent = departure;
        if modern {
            packet.delivered = core.delivered;
            packet.delivered_mstamp = core.delivered_mstamp;
            packet.first_tx_mstamp = core.first_tx_mstamp;
            packet.app_limited = core.app_limited != 0;
        } else {
            packet.delivered = s.max;
        }
        let packet = *packet;
        self.delist(id);
        self.board.list(id);
        s.retransmits += 1;
        self.output.in_host += u64::from(packet.len);
        let fin = packet.has(super::scoreboard::FIN);
        Transmit {
            seq: packet.seq,
            len: packet.len - u32::from(fin),
            fin,
            push: fin || packet.end() == s.end || self.pushes_bursts() && packet.len > self.core.mss,
            retransmission: true,
            cwr: false,
        }
    }

    /// New data within all limits, or what forbids it.
    #[inline(always)]
    fn send_new(&mut self, s: &mut SendState, cx: &mut Context<'_>) -> Result<Transmit, Limit> {
        let unsent = s.unsent();
        if unsent == 0 {
            return Err(if s.blocked_midway || !self.is_modern() { s.starved() } else { held(s) });
        }
        if self.core.packets_out == 0 {
            self.restart_after_idle();
        }
        let in_flight = self.core.in_flight();
        if in_flight >= self.core.cwnd {
            self.output.cwnd_limited = true;
            return Err(Limit::Cwnd);
        }
        let mss = u64::from(self.core.mss);
        let window = (s.una + s.wnd).saturating_sub(s.max);
        let payload = s.end - s.max.min(s.end);
        if payload.min(mss) > window {
            return Err(Limit::Rwnd);
        }
        let within_burst = !s.tso && self.output.burst.packets > 0;
        let one = mss + u64::from(s.fin && payload <= mss);
        let burst = if within_burst {
            unsent.min(mss)
        } else if s.tso || self.is_modern() {
            self.tso_length(s, payload, window, in_flight)?
        } else {
            if payload < mss && self.nagle_holds(s, payload) {
                return Err(held(s));
            }
            unsent.min(one)
        };
        if !within_burst && self.held_by_tsq(s, 0) {
            return Err(Limit::Cwnd);
        }
        let len = if s.tso { burst } else { burst.min(one) };
        let transmit = self.transmit_new(len, s, cx);
        if !within_burst {
            self.output.burst.packets = (burst - len).div_ceil(mss);
        }
        Ok(transmit)
    }

    /// Since 5.5 (net/ipv4/tcp_output.c) what is cut into several packets ends with PSH, so that a receiver's GRO lets
    /// it go at once; a single packet does not.
    fn pushes_bursts(&self) -> bool {
        self.is_modern()
    }

    /// Minshall's form of Nagle: one short segment outstanding at a time.
    fn nagle_holds(&self, s: &SendState, payload: u64) -> bool {
        !mutant!(NoNagle)
            && !s.fin
            && !s.no_delay
            && self.core.packets_out > 0
            && self.small_end > s.una
            && payload > 0
    }

    /// Sends the first `len` of the unsent sequence space (a FIN counts one). Inlined, or what it returns would be written
    /// in pieces and read in one, which has to wait for all writing before it.
    #[inline(always)]
    fn transmit_new(&mut self, len: u64, s: &mut SendState, cx: &mut Context<'_>) -> Transmit {
        self.record_new(len, s, cx);
        let fin = s.max > s.end;
        Transmit {
            seq: s.max - len,
            len: (len - u64::from(fin)) as u32,
            fin,
            push: s.max >= s.end || self.pushes_bursts() && len > u64::from(self.core.mss),
            retransmission: false,
            cwr: std::mem::take(&mut self.cwr_pending) && s.ecn,
        }
    }

    /// The books of a first transmission.
    #[inline(always)]
    fn record_new(&mut self, len: u64, s: &mut SendState, cx: &mut Context<'_>) {
        let plain = len == u64::from(self.core.mss)
            && s.max + len <= s.end
            && self.core.in_flight() > 0
            && self.probes_tail()
            && !self.core.in_cwnd_reduction()
            && !s.long_way;
        if plain {
            self.record_plain(len, s);
        } else {
            self.record_any(len, s, cx);
        }
    }

    /// [`LinuxSender::record_any`] of one full packet among others, in a modern system that will probe the tail.
    #[inline(always)]
    fn record_plain(&mut self, len: u64, s: &mut SendState) {
        let departure = self.depart(len);
        self.board.push_listed(Packet {
            seq: s.max,
            len: len as u32,
            sent: departure,
            delivered: self.core.delivered,
            delivered_mstamp: self.core.delivered_mstamp,
            first_tx_mstamp: self.core.first_tx_mstamp,
            app_limited: self.core.app_limited != 0,
            ..Packet::default()
        });
        let end = s.max + len;
        s.max = end;
        s.nxt = end;
        self.core.nxt = end;
        self.core.packets_out += 1;
        self.core.last_sent_jiffies = self.core.jiffies;
        self.output.in_host += len;
        self.output.sent += 1;
        self.output.packets += 1;
    }

    #[inline(never)]
    fn record_any(&mut self, len: u64, s: &mut SendState, cx: &mut Context<'_>) {
        if self.core.in_flight() == 0 {
            self.cc.cwnd_event(&mut self.core, CwndEvent::TxStart);
        }
        if self.core.packets_out == 0 {
            self.core.first_tx_mstamp = self.core.now_us();
            self.core.delivered_mstamp = self.core.now_us();
        }
        let seq = s.max;
        let end = seq + len;
        let fin = end > s.end;
        let payload = len - u64::from(fin);
        let prior_packets = self.core.packets_out;
        let departure = self.depart(payload);
        let mss = u64::from(self.core.mss);
        let template = Packet {
            sent: departure,
            delivered: self.core.delivered,
            delivered_mstamp: self.core.delivered_mstamp,
            first_tx_mstamp: self.core.first_tx_mstamp,
            app_limited: self.core.app_limited != 0,
            ..Packet::default()
        };
        let modern = self.is_modern();
        let mut at = seq;
        let mut count = 0;
        while at < end {
            // The FIN rides on the last packet.
            let rest = end - at;
            let piece = if rest <= mss + u64::from(fin) { rest } else { mss };
            let last_fin = fin && at + piece == end;
            let id = self.board.push(Packet {
                seq: at,
                len: piece as u32,
                tags: if last_fin { super::scoreboard::FIN } else { 0 },
                ..template
            });
            if modern {
                self.board.list(id);
            }
            at += piece;
            count += 1;
        }
        if payload != mss && !payload.is_multiple_of(mss) {
            self.small_end = end;
        }
        s.max = end;
        s.nxt = end;
        self.core.nxt = end;
        self.core.packets_out += count;
        self.core.last_sent_jiffies = self.core.jiffies;
        self.output.in_host += payload;
        self.output.sent += count;
        self.output.packets += u64::from(count);
        if self.core.in_cwnd_reduction() {
            self.prr_out += count;
        }
        // A probe is set anew when everything is sent (see `wait`).
        let probes = self.probes_tail();
        if !probes && (prior_packets == 0 || self.timer.kind() == Some(TimerKind::LossProbe)) {
            self.rearm_rto(cx.now);
        }
    }

    /// Moves the departure time on; returns that of this packet (local time).
    #[inline]
    fn depart(&mut self, bytes: u64) -> Nanos {
        let burst = &mut self.output.burst;
        if burst.packets > 0 {
            burst.packets -= 1;
        } else {
            let previous = self.core.departure;
            burst.departure = previous.max(self.core.now);
            burst.credit = burst.departure - previous;
            self.core.departure = burst.departure;
        }
        let departure = burst.departure;
        if self.core.pacing && self.core.pacing_rate > 0 && self.output.packets >= u64::from(INIT_CWND) {
            let gap = time_at(bytes, self.core.pacing_rate);
            // Time lost to late timers is caught up, at most half of each.
            let caught_up = (gap / 2).min(burst.credit);
            burst.credit -= caught_up;
            self.core.departure += gap - caught_up;
        }
        departure
    }

    /// TCP small queues: enough of this connection is in the host's queues already.
    #[inline]
    fn held_by_tsq(&self, s: &mut SendState, shift: u32) -> bool {
        if self.output.in_host <= 2 * u64::from(self.core.mss)
            || self.is_modern() && self.core.packets_out <= 1
        {
            return false;
        }
        let (memory, limit) = self.small_queue(s);
        s.throttled = memory > limit << shift;
        s.throttled
    }

    /// Memory of this connection's packets in the host's queues, and how much TCP small queues allows.
    #[inline]
    fn small_queue(&self, s: &SendState) -> (u64, u64) {
        let mss = u64::from(self.core.mss);
        let config = &self.config;
        let per_packet = if s.tso { mss } else { TRUESIZE };
        let memory = if s.tso { self.output.in_host } else { self.output.in_host * TRUESIZE / mss };
        let mut limit = config.limit_output_bytes;
        if self.is_modern() {
            let rate = self.pacing_rate();
            let by_rate = (2 * per_packet).max(rate >> 10);
            limit =
                if self.core.pacing && !config.limit_output_always { by_rate } else { by_rate.min(limit) };
        }
        (memory, limit)
    }

    fn pacing_rate(&self) -> u64 {
        if self.core.pacing { self.core.pacing_rate } else { self.core.usual_pacing_rate(&self.config) }
    }

    /// Segments of one burst: a millisecond at the pacing rate, and up to 64 KB on short paths.
    fn tso_segments(&self, s: &SendState) -> u64 {
        let mss = u64::from(self.core.mss);
        let most = (u64::from(s.tso_max) / mss).min(u64::from(self.config.gso_max_segs)).max(1);
        if !self.is_modern() {
            return most;
        }
        let mut bytes = self.pacing_rate() >> 10;
        let shift = u64::from(self.core.min_rtt_us) >> self.config.tso_rtt_log;
        if self.config.tso_rtt_log > 0 && shift < 64 {
            bytes += self.config.gso_max_size >> shift;
        }
        let bytes = bytes.min(self.config.gso_max_size);
        let least = self.cc.min_tso_segs(&self.core).unwrap_or(self.config.min_tso_segs);
        (bytes / mss).max(u64::from(least)).min(most)
    }

    /// Length of the next burst, or why it waits for more.
    fn tso_length(&mut self, s: &SendState, payload: u64, window: u64, in_flight: u32) -> Result<u64, Limit> {
        let mss = u64::from(self.core.mss);
        let quota = u64::from(self.core.cwnd - in_flight);
        let max = self.tso_segments(s);
        if payload <= mss {
            if payload < mss && self.nagle_holds(s, payload) {
                return Err(held(s));
            }
            return Ok(s.unsent());
        }
        let cwnd_room = quota * mss;
        let room = cwnd_room.min(window);
        if self.defers(s, payload, max * mss, room) {
            if cwnd_room < window {
                if cwnd_room <= payload {
                    self.output.cwnd_limited = true;
                    return Err(Limit::Cwnd);
                }
            } else if window <= payload {
                return Err(Limit::Rwnd);
            }
            if !s.fin {
                return Err(held(s));
            }
        }
        let most = (max * mss).min(room);
        if payload >= most {
            // Whole segments only while more follows.
            return Ok(if most >= mss { most - most % mss } else { most });
        }
        let partial = payload % mss;
        if partial > 0 && self.nagle_holds(s, partial) {
            return Ok(payload - partial);
        }
        Ok(s.unsent())
    }

    /// Whether a burst that windows cut short waits for the next ACK to be whole.
    fn defers(&mut self, s: &SendState, payload: u64, burst: u64, room: u64) -> bool {
        let mss = u64::from(self.core.mss);
        let cwnd_bytes = u64::from(self.core.cwnd) * mss;
        let enough = |divisor: u32| divisor > 0 && room >= s.wnd.min(cwnd_bytes) / u64::from(divisor);
        let wanted = burst.min(payload);
        if !self.is_modern() {
            let waited = self.output.deferred_since.is_some_and(|since| self.core.jiffies > since + 1);
            if self.core.state != CaState::Open
                || waited
                || room >= wanted
                || enough(self.config.tso_win_divisor)
            {
                self.output.deferred_since = None;
                return false;
            }
            self.output.deferred_since.get_or_insert(self.core.jiffies);
            return true;
        }
        if self.core.state >= CaState::Recovery
            || self.core.now > self.core.departure + MILLISECOND
            || room >= wanted
            || enough(self.config.tso_win_divisor)
        {
            return false;
        }
        let Some(head) = self.board.front() else { return false };
        let age_us = (self.core.now.saturating_sub(head.sent)) / 1000;
        let half = self.core.srtt_us / 2;
        if self.config.defer_by_next_ack {
            self.core.srtt_us.saturating_sub(age_us) <= half.min(1000)
        } else {
            age_us >= half
        }
    }
}

/// What limits a sender whose writer is not held by the buffer as TCP_INFO counts it. That begins when the sender empties
/// its queue behind a call that sleeps (tcp_cwnd_validate): not while Nagle's algorithm or a deferred burst keeps a rest
/// of the data, and not where a call found no room at all, as all that could be sent had left before.
fn held(s: &SendState) -> Limit {
    if s.app_blocked { Limit::Cwnd } else { Limit::App }
}

/// Memory of a buffer besides its payload, which fills pages (measured with `ss -m` on 6.18, without segmentation offload
/// too): the metadata of one clonable buffer and the room for headers.
const BUFFER_OVERHEAD: u64 = 832;

/// Largest buffer of a writer: what fits into 64 KB with room for headers (MAX_TCP_HEADER).
const BUFFER_MAX: u64 = 65_535 - 320;

/// The send buffer counts memory, not payload.
impl LinuxSender {
    pub(super) fn init_sndbuf(&mut self, s: &mut SendState) {
        let mut memory = s.sndbuf;
        if s.sndbuf_auto {
            memory = memory.max((2 * u64::from(INIT_CWND) * TRUESIZE).min(self.config.wmem.max));
        }
        self.set_sndbuf(memory, s);
    }

    fn set_sndbuf(&mut self, memory: u64, s: &mut SendState) {
        self.sndbuf_memory = Some(memory);
        let mss = u64::from(self.core.mss);
        // What 3.9 writes into large buffers it sends in bursts as large, so both cost next to nothing.
        let overhead = BUFFER_MAX / BUFFER_OVERHEAD;
        let large = s.tso || self.is_modern();
        let payload = if large { memory - memory / overhead } else { memory / TRUESIZE * mss };
        s.sndbuf = payload.max(mss);
    }

    /// Memory of what was written and not acknowledged, since 4.17: large buffers, of which those sent were cut to bursts.
    fn queued_memory(&self, s: &SendState) -> u64 {
        let payload = s.end.saturating_sub(s.una);
        let sent = u64::from(self.core.packets_out).div_ceil(self.tso_segments(s));
        let waiting = s.end.saturating_sub(s.max).div_ceil(self.writers_buffer(s));
        payload + (sent + waiting) * BUFFER_OVERHEAD
    }

    /// Payload of a buffer the writer fills: no more than half of the largest window the peer ever offered
    /// (tcp_xmit_size_goal).
    fn writers_buffer(&self, s: &SendState) -> u64 {
        let mss = u64::from(self.core.mss);
        let most = BUFFER_MAX.min(s.max_wnd / 2).max(mss);
        most - most % mss
    }

    /// Payload the writer's call takes now (tcp_sendmsg); none before the connection is there, as a write then waits for it.
    ///
    /// The kernel compares memory with the limit only when it begins a buffer. A buffer begun is filled whatever the limit
    /// says, and what can be sent at once leaves it in the same call and makes room in it again. So a call that finds the
    /// last buffer not full, because Nagle's algorithm or a deferred burst kept a rest of the call before, may queue
    /// all that the windows allow. Since 4.17 this is so whatever the interface can do; before, with segmentation
    /// offload. A writer that was blocked waits until it is woken.
    pub(super) fn buffer_space(&self, s: &SendState) -> u64 {
        let Some(memory) = self.sndbuf_memory else { return 0 };
        if s.app_blocked && !self.wakes_writer(s) {
            return 0;
        }
        if !s.tso && !self.is_modern() {
            return s.space();
        }
        let (queued, memory, overhead) = if self.is_modern() {
            (self.queued_memory(s), memory, BUFFER_OVERHEAD)
        } else {
            (s.end.saturating_sub(s.una), s.sndbuf, 0)
        };
        let (waiting, leaving) = self.between_calls(s);
        if waiting == 0 && queued >= memory {
            return 0;
        }
        let buffer = self.writers_buffer(s);
        let mut space = waiting.max(1).next_multiple_of(buffer) - waiting;
        if waiting <= buffer {
            space += leaving;
        }
        let queued = queued + space + overhead;
        space + memory.saturating_sub(queued).div_ceil(buffer + overhead) * buffer
    }

    /// Payload that still waits when the writer calls, and what more may leave during the call. What was written or
    /// allowed since the sender was last asked has left before: each call ends with sending, and so does each ACK.
    fn between_calls(&self, s: &SendState) -> (u64, u64) {
        let waiting = s.end.saturating_sub(s.max);
        let leaving = self.may_leave_at_once(s);
        if waiting == 0 || (s.end == self.output.asked_for && !s.app_blocked) {
            return (waiting, leaving);
        }
        if leaving < waiting - waiting % u64::from(self.core.mss) {
            return (waiting - leaving, 0);
        }
        let rest = waiting % u64::from(self.core.mss);
        let held = rest > 0 && self.nagle_holds(s, rest);
        (if held { rest } else { 0 }, (leaving + rest).saturating_sub(waiting))
    }

    /// New payload, in whole segments, that a call of the writer can send before it returns: what the windows, pacing and
    /// the host's queue let go.
    fn may_leave_at_once(&self, s: &SendState) -> u64 {
        let core = &self.core;
        let mss = u64::from(core.mss);
        let window = (s.una + s.wnd).saturating_sub(s.max);
        let room = window.min(u64::from(core.cwnd.saturating_sub(core.in_flight())) * mss);
        let burst = self.tso_segments(s) * mss;
        let paced = match core.pacing {
            true if core.departure > core.now => 0,
            true => burst,
            false => u64::MAX,
        };
        let (memory, limit) = self.small_queue(s);
        let queue = match self.output.host_queues {
            true if memory > limit => 0,
            true => limit - memory + burst,
            false => u64::MAX,
        };
        let room = room.min(paced).min(queue);
        room - room % mss
    }

    /// A third of the buffer is free (sk_stream_is_writeable).
    pub(super) fn wakes_writer(&self, s: &SendState) -> bool {
        match self.sndbuf_memory.filter(|_| self.is_modern()) {
            Some(memory) => 3 * self.queued_memory(s) <= 2 * memory,
            None => 3 * s.space() >= s.sndbuf,
        }
    }

    /// Autotuning: twice the window, in memory, when the writer is blocked and cwnd is not full.
    fn expand_sndbuf(&mut self, s: &mut SendState) {
        if !s.sndbuf_auto || self.core.in_flight() >= self.core.cwnd {
            return;
        }
        let packets = self.core.cwnd.max(INIT_CWND).max(self.reordering + 1);
        let wanted = u64::from(self.cc.sndbuf_factor()) * u64::from(packets) * TRUESIZE;
        let wanted = wanted.min(self.config.wmem.max);
        if self.sndbuf_memory.is_none_or(|memory| wanted > memory) {
            self.set_sndbuf(wanted, s);
        }
    }
}
