//! Order in which Linux sends: retransmissions, then new data as far as windows, Nagle, TSQ, TSO deferral and pacing allow.

use super::LinuxSender;
use super::burst::{Burst, limit_while_deferring};
use super::scoreboard::{EVER_RETRANS, Id, LOST, NONE, PUSHED, Packet, RETRANS, SACKED};
use super::timer::TimerKind;
use super::write_queue::WriteQueue;
use crate::cc::linux::{CaState, CwndEvent, INIT_CWND};
use crate::clock::Nanos;
use crate::context::Context;
use crate::sender::{Limit, Poll, SendState, Transmit};

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
    /// Rest of a burst that leaves as one.
    pub(super) burst: Burst,
    pub(super) forced: Option<Forced>,
    /// An ACK moved the queue's head: the timer starts anew once everything that follows is sent.
    pub(super) timer_due: bool,
    /// F-RTO: new data goes before retransmissions.
    pub(super) prefer_new: bool,
    /// Packets sent since the sender last waited.
    pub(super) sent: u32,
    /// The congestion window was a reason to stop.
    pub(super) cwnd_limited: bool,
    /// Data packets sent so far.
    pub(super) packets: u64,
    /// 3.9: jiffy at which TSO deferral began.
    pub(super) deferred_since: Option<u64>,
    /// Next packet that forward retransmission looks at (3.9).
    pub(super) forward_retransmit: Id,
    /// The host has kept packets in a queue of its own beyond the event that sent them; else they are sent as they leave the stack.
    pub(super) host_has_queue: bool,
    /// Whether the last data sent did not fill the congestion window while the writer waits for room in the buffer.
    pub(super) starved: bool,
    /// Buffers of unsent data.
    pub(super) write_queue: WriteQueue,
    /// End of what a call of the writer pushed last (pushed_seq).
    pub(super) pushed: u64,
    /// End of what the writer's calls that ended wrote; what comes behind is of another.
    pub(super) call_ended: u64,
    /// The call of the writer at hand found at most one buffer that waited.
    pub(super) pushes_one: bool,
    /// End of what the application had written when the sender last waited.
    pub(super) written_at_wait: u64,
    /// End of what a blocked writer had written when it was woken; until it has written more it is not blocked (SOCK_NOSPACE).
    pub(super) woken_at: Option<u64>,
}

impl State {
    /// Forward retransmission looks at every hole anew.
    pub(super) fn restart_forward_retransmit(&mut self) {
        self.forward_retransmit = 0;
    }
}

impl LinuxSender {
    #[inline]
    pub(super) fn poll_output(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Poll {
        snd.throttled = false;
        if self.searches()
            && (self.core.lost_out > self.core.retrans_out
                || matches!(self.output.forced, Some(Forced::Head)))
        {
            self.abandon_probe(snd);
        }
        if let Some(forced) = self.output.forced.take()
            && let Some(transmit) = self.send_forced(forced, snd, cx)
        {
            return Poll::Send(transmit);
        }
        if self.waits_for_pacing() && self.core.departure > self.core.now && self.output.burst.packets == 0 {
            self.output.paced_until = Some(cx.now + (self.core.departure - self.core.now));
            self.output.cwnd_limited |= self.core.in_flight() >= self.core.cwnd;
            self.finish_output(Limit::Pacing, snd, cx);
            return Poll::Wait(self.limit_while_paced(snd));
        }
        if self.core.lost_out > self.core.retrans_out
            && !self.output.prefer_new
            && let Some(transmit) = self.send_lost(snd, cx)
        {
            return Poll::Send(transmit);
        }
        if self.searches()
            && let Some(answer) = self.probe_path(snd, cx)
        {
            return answer;
        }
        let limit = match self.send_new(snd, cx) {
            Ok(transmit) => return Poll::Send(transmit),
            Err(limit) => limit,
        };
        if self.output.prefer_new {
            self.output.prefer_new = false;
            if self.core.nxt <= self.high_seq {
                self.frto = false;
                if let Some(transmit) = self.send_lost(snd, cx) {
                    return Poll::Send(transmit);
                }
            } else {
                self.output.prefer_new = true;
            }
        }
        if !self.is_modern()
            && self.core.state == CaState::Recovery
            && let Some(transmit) = self.send_forward_retransmit(snd, cx)
        {
            return Poll::Send(transmit);
        }
        self.finish_output(limit, snd, cx)
    }

    /// Nothing more to send now: window validation, probe timers, the send buffer.
    fn finish_output(&mut self, limit: Limit, snd: &mut SendState, cx: &mut Context<'_>) -> Poll {
        let sent = std::mem::take(&mut self.output.sent);
        self.begin_burst(1, false);
        if self.is_modern() && snd.end != self.output.written_at_wait {
            if self.output.write_queue.lags(snd) {
                self.take_in(snd, self.tso_segments(snd));
            }
            self.output.pushes_one = false;
        }
        self.output.written_at_wait = snd.end;
        // A call that waits for memory with nothing left to send pushes nothing (tcp_push).
        if snd.end > snd.max || self.until_forced(snd) == 0 {
            self.output.pushed = snd.end;
        }
        let limited =
            std::mem::take(&mut self.output.cwnd_limited) || self.core.in_flight() >= self.core.cwnd;
        if sent > 0 || limited {
            self.validate_cwnd(snd, limited);
        }
        if sent > 0 && self.is_modern() {
            if !self.schedule_loss_probe(false, cx.now) && self.output.timer_due {
                self.rearm_rto(cx.now);
            }
        } else if self.output.timer_due {
            self.set_transmit_timer(cx.now);
        }
        self.output.timer_due = false;
        if self.core.packets_out == 0
            && snd.unsent() > 0
            && self.timer.kind().is_none()
            && (limit == Limit::Rwnd || snd.cork.holds())
        {
            let interval = self.window_probe_interval();
            self.arm(TimerKind::WindowProbe, interval, cx.now);
        }
        let limit = if limit == Limit::SendBuffer { self.buffer_limits(sent) } else { limit };
        // The kernel looks at the start of a call. A writer that waits for room in the send buffer is in the midst
        // of one.
        if limit == Limit::App {
            self.rate_check_app_limited(snd);
        }
        self.check_space(snd);
        Poll::Wait(limit)
    }

    /// Returns the limit of a sender that pacing holds: pacing only where a segment waits that both windows admit.
    fn limit_while_paced(&mut self, snd: &SendState) -> Limit {
        let waits = snd.end - snd.max.min(snd.end);
        if self.core.in_flight() >= self.core.cwnd {
            Limit::Cwnd
        } else if self.core.lost_out > self.core.retrans_out {
            Limit::Pacing
        } else if snd.unsent() == 0 {
            if snd.app_blocked { self.buffer_limits(0) } else { Limit::App }
        } else if waits.min(u64::from(snd.payload)) > (snd.una + snd.wnd).saturating_sub(snd.max) {
            Limit::Rwnd
        } else {
            Limit::Pacing
        }
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
    fn validate_cwnd(&mut self, snd: &SendState, limited: bool) {
        let core = &mut self.core;
        if snd.una >= self.usage_seq
            || limited
            || (!core.cwnd_limited && core.packets_out > core.max_packets_out)
        {
            core.cwnd_limited = limited;
            core.max_packets_out = core.packets_out;
            self.usage_seq = snd.max;
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
            if self.core.state == CaState::Open && !snd.app_blocked {
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
        if !self.config.slow_start_after_idle || idle <= rto || self.cc.owns_window() {
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
    fn send_forced(&mut self, forced: Forced, snd: &mut SendState, cx: &mut Context<'_>) -> Option<Transmit> {
        match forced {
            Forced::Head => {
                let head = self.board.head();
                if self.board.is_empty() {
                    return None;
                }
                let transmit = self.retransmit(head, snd, cx);
                let rto = self.next_rto(cx);
                self.arm(TimerKind::Retransmission, rto, cx.now);
                Some(transmit)
            }
            Forced::LossProbe => {
                let first = u64::from(snd.payload).min(snd.unsent());
                let transmit = if snd.unsent() > 0 && snd.max + first <= snd.una + snd.wnd {
                    let transmit = self.transmit_new(first, snd, cx);
                    let transmit = self.end_burst(transmit, self.board.tail() - 1);
                    // No probe follows a probe.
                    self.output.sent = 0;
                    self.note_probe(snd.max, false);
                    Some(transmit)
                } else if self.board.is_empty() {
                    None
                } else {
                    let last = self.board.tail() - 1;
                    let transmit = self.resend(last, snd);
                    self.note_probe(snd.max, true);
                    Some(transmit)
                };
                self.rearm_after_probe(cx.now);
                transmit
            }
            Forced::WindowProbe => {
                let room = (snd.una + snd.wnd).saturating_sub(snd.max);
                if room > 0 && snd.unsent() > 0 {
                    let len = room.min(snd.unsent()).min(u64::from(snd.payload));
                    if snd.cork.holds() {
                        // Data is on its way, and nothing to be probed (tcp_send_probe0).
                        (self.backoff, self.probes) = (0, 0);
                    }
                    let transmit = self.transmit_new(len, snd, cx);
                    return Some(self.end_burst(transmit, self.board.tail() - 1));
                }
                Some(Transmit { seq: snd.una - 1, ..Transmit::default() })
            }
        }
    }

    /// The lowest lost packet, if the window has room.
    fn send_lost(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Option<Transmit> {
        if self.core.in_flight() >= self.core.cwnd {
            return None;
        }
        let id = self.board.next_lost();
        let within_burst = self.output.burst.resent && self.output.burst.packets > 0;
        if id == NONE || !within_burst && self.held_by_tsq(snd, 1) {
            return None;
        }
        let seq = self.board.get(id).seq;
        if seq >= snd.una + snd.wnd && seq != snd.una {
            return None;
        }
        let run = if within_burst { 0 } else { self.lost_run(id, snd) };
        let mut transmit = self.retransmit(id, snd, cx);
        let mut last = id;
        if !within_burst {
            self.begin_burst(run, true);
            while snd.tso && self.output.burst.packets > 0 {
                last += 1;
                let more = self.retransmit(last, snd, cx);
                transmit.len += more.len;
                transmit.fin |= more.fin;
                transmit.push |= more.push;
            }
        }
        Some(self.end_burst(transmit, last))
    }

    /// 3.9: when nothing marked lost and nothing new can be sent, holes below the highest SACK go again.
    fn send_forward_retransmit(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Option<Transmit> {
        if !self.sack_ok
            || self.core.in_flight() >= self.core.cwnd
            || self.core.lost_out > self.core.retrans_out
        {
            return None;
        }
        let mut id = self.output.forward_retransmit.max(self.board.head());
        let end = self.fack.min(self.board.tail());
        while id < end {
            let packet = self.board.get(id);
            if packet.tags & (SACKED | RETRANS | LOST) == 0 {
                self.output.forward_retransmit = id + 1;
                return Some(self.retransmit(id, snd, cx));
            }
            id += 1;
        }
        self.output.forward_retransmit = id;
        None
    }

    /// Sends `id` again as a counted retransmission.
    fn retransmit(&mut self, id: Id, snd: &mut SendState, cx: &mut Context<'_>) -> Transmit {
        let transmit = self.resend(id, snd);
        self.retrans_stamp.get_or_insert(cx.clock.timestamp_ms(cx.now));
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
    fn resend(&mut self, id: Id, snd: &mut SendState) -> Transmit {
        let departure = self.set_departure(u64::from(self.board.get(id).len));
        let modern = self.is_modern();
        let core = &self.core;
        let packet = self.board.get_mut(id);
        packet.tags |= EVER_RETRANS;
        packet.sent = departure;
        if modern {
            packet.note_delivery(core);
        } else {
            packet.delivered = snd.max;
        }
        let packet = *packet;
        if self.hears_losses {
            self.note_flight(id);
        }
        self.remove_from_send_order(id);
        self.board.append_to_send_order(id);
        snd.retransmits += 1;
        let fin = packet.has(super::scoreboard::FIN);
        // Of a packet that the peer has the beginning of only the rest is sent (tcp_trim_head).
        let gone = snd.una.saturating_sub(packet.seq).min(u64::from(packet.len - u32::from(fin))) as u32;
        self.output.in_host += u64::from(packet.len - gone);
        Transmit {
            seq: packet.seq + u64::from(gone),
            len: packet.len - u32::from(fin) - gone,
            fin,
            push: fin || packet.is_marked(PUSHED),
            retransmission: true,
            ..Transmit::default()
        }
    }

    /// New data within all limits, or what forbids it.
    #[inline(always)]
    fn send_new(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Result<Transmit, Limit> {
        let unsent = snd.unsent();
        if unsent == 0 {
            return Err(if snd.blocked_midway || !self.is_modern() {
                snd.limit_without_data()
            } else {
                limit_while_deferring(snd)
            });
        }
        // While the window is closed nothing is looked at but whether it opens (tcp_ack_update_window).
        if self.core.packets_out == 0 && snd.una + snd.wnd > snd.max {
            self.restart_after_idle();
        }
        let mss = u64::from(snd.payload);
        let payload = unsent - u64::from(snd.fin);
        let one = mss + u64::from(snd.fin && payload <= mss);
        let within_burst = !snd.tso && self.output.burst.packets > 0 && !self.output.burst.resent;
        let burst = if within_burst {
            self.output.burst.end - snd.max
        } else {
            // Between bursts that an ACK lets go; those of a call leave before it waits for room.
            if self.output.sent > 0 && snd.end == self.output.written_at_wait && self.is_modern() {
                self.check_space(snd);
            }
            self.burst_length(snd, payload, one)?
        };
        let len = if snd.tso { burst } else { burst.min(one) };
        let mut transmit = self.transmit_new(len, snd, cx);
        transmit.push |= self.output.write_queue.was_pushed(snd.max);
        if !within_burst {
            // A FIN takes no packet of its own behind data.
            let packets = if burst <= mss { 1 } else { burst.min(payload).div_ceil(mss).max(1) };
            self.begin_burst(packets, false);
            self.output.burst.end = snd.max - len + burst;
            if snd.tso {
                self.output.burst.packets = 0;
            }
        }
        Ok(self.end_burst(transmit, self.board.tail() - 1))
    }

    /// How much new data leaves as the next burst, or what forbids it. `one`: sequence space of one packet.
    #[inline]
    fn burst_length(&mut self, snd: &mut SendState, payload: u64, one: u64) -> Result<u64, Limit> {
        let in_flight = self.core.in_flight();
        if in_flight >= self.core.cwnd {
            self.output.cwnd_limited = true;
            return Err(Limit::Cwnd);
        }
        let mss = u64::from(snd.payload);
        let window = (snd.una + snd.wnd).saturating_sub(snd.max);
        if payload.min(mss) > window {
            return Err(Limit::Rwnd);
        }
        let burst = if snd.tso || self.is_modern() {
            self.tso_length(snd, payload, window, in_flight)?
        } else {
            if payload < mss && self.nagle_holds(snd, payload) {
                return Err(limit_while_deferring(snd));
            }
            snd.unsent().min(one)
        };
        if self.held_by_tsq(snd, 0) {
            return Err(Limit::Cwnd);
        }
        Ok(burst)
    }

    /// Sends the first `len` of the unsent sequence space (a FIN counts one). Inlined: else its result would be
    /// written in pieces and read as a whole, which stalls the processor.
    #[inline(always)]
    pub(super) fn transmit_new(&mut self, len: u64, snd: &mut SendState, cx: &mut Context<'_>) -> Transmit {
        self.record_new(len, snd, cx);
        let fin = snd.max > snd.end;
        Transmit {
            seq: snd.max - len,
            len: (len - u64::from(fin)) as u32,
            fin,
            push: snd.max >= snd.end,
            retransmission: false,
            cwr: std::mem::take(&mut self.cwr_pending) && snd.ecn,
        }
    }

    /// The books of a first transmission.
    #[inline(always)]
    fn record_new(&mut self, len: u64, snd: &mut SendState, cx: &mut Context<'_>) {
        let plain = len == u64::from(snd.payload)
            && snd.max + len <= snd.end
            && self.core.in_flight() > 0
            && self.probes_tail()
            && !snd.no_fast_path;
        if plain {
            self.record_plain(len, snd);
        } else {
            self.record_any(len, snd, cx);
        }
    }

    /// [`LinuxSender::record_any`] of one full packet among others, in a modern system that will probe the tail.
    #[inline(always)]
    fn record_plain(&mut self, len: u64, snd: &mut SendState) {
        let departure = self.set_departure(len);
        let mut packet = Packet { seq: snd.max, len: len as u32, sent: departure, ..Packet::default() };
        packet.note_delivery(&self.core);
        self.board.push_in_send_order(packet);
        if self.hears_losses {
            self.note_flight(self.board.tail() - 1);
        }
        let end = snd.max + len;
        snd.max = end;
        snd.nxt = end;
        self.core.nxt = end;
        self.core.packets_out += 1;
        self.core.last_sent_jiffies = self.core.jiffies;
        self.output.in_host += len;
        self.output.sent += 1;
        self.output.packets += 1;
        self.prr_out += u32::from(self.core.in_cwnd_reduction());
    }

    #[inline(never)]
    fn record_any(&mut self, len: u64, snd: &mut SendState, cx: &mut Context<'_>) {
        if self.core.in_flight() == 0 {
            self.cc.cwnd_event(&mut self.core, CwndEvent::TxStart);
            self.report_told(snd, cx);
        }
        if self.core.packets_out == 0 {
            self.core.first_tx_mstamp = self.core.now_us();
            self.core.delivered_mstamp = self.core.now_us();
        }
        let seq = snd.max;
        let end = seq + len;
        let fin = end > snd.end;
        let payload = len - u64::from(fin);
        let prior_packets = self.core.packets_out;
        let departure = self.set_departure(payload);
        let mss = u64::from(snd.payload);
        let mut template = Packet { sent: departure, ..Packet::default() };
        template.note_delivery(&self.core);
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
                tags: template.tags | if last_fin { super::scoreboard::FIN } else { 0 },
                ..template
            });
            if modern {
                self.board.append_to_send_order(id);
            }
            if self.hears_losses {
                self.note_flight(id);
            }
            at += piece;
            count += 1;
            self.core.packets_out += 1;
        }
        if payload != mss && !payload.is_multiple_of(mss) {
            self.small_end = end;
        }
        snd.max = end;
        snd.nxt = end;
        self.core.nxt = end;
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
}
