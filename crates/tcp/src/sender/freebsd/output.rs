//! FreeBSD's output decision: which segment may leave now, one at a time.

use super::tuning::{Recovery, Tuning};
use super::{CcVar, FreeBsdSender, Limit, Poll, SendGrant, SendState, Transmit};
use crate::context::Context;

impl FreeBsdSender {
    /// Decides on transmissions until there is none and queues them: for windows that hold only for this call.
    pub(super) fn output_all(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        while self.output_first(snd, cx) {}
    }

    /// Decides on one transmission and queues it; false if there is none.
    #[inline(never)]
    pub(super) fn output_first(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> bool {
        let Some(transmit) = self.output(snd, cx) else { return false };
        self.queue.push_back(transmit);
        true
    }

    /// [`FreeBsdSender::output`] in its usual case: no recovery, no reaction to ECN, no offload, data in flight. A
    /// full segment leaves, or the window does not even admit a part of one. None: it is another case.
    #[inline(always)]
    pub(super) fn output_fast_path(&mut self, snd: &mut SendState) -> Option<Poll> {
        // Without a branch each: nearly always all of them hold.
        let odd = self.force_output
            | self.window_probe
            | self.ccv.in_recovery()
            | self.cwr
            | snd.tso
            | snd.fin
            | snd.sndbuf_auto
            | !snd.timestamps
            | self.packets.is_some()
            | self.rexmt.is_none()
            | snd.no_fast_path;
        let usual = !odd && snd.nxt == snd.max && snd.nxt > snd.una;
        if !usual {
            return None;
        }
        let edge = snd.una + snd.wnd.min(self.ccv.cwnd);
        if snd.nxt + self.full_segment <= edge.min(snd.end) {
            let end = snd.nxt + u64::from(snd.payload);
            let transmit =
                Transmit { seq: snd.nxt, len: snd.payload, push: end == snd.end, ..Transmit::default() };
            snd.nxt = end;
            snd.max = end;
            self.last_transmit = Some(transmit);
            // After more full segments less of the window is left than a part of a segment needs.
            if edge < snd.end && self.full_segment <= snd.max_wnd / 2 {
                self.wait(snd);
                // After the last of them data waits behind the window's edge.
                self.limit = narrower_window(snd, &self.ccv);
                // Segments end less than a full one's options below the edge that they need.
                snd.grant = SendGrant {
                    edge: edge - (self.full_segment - u64::from(snd.payload)),
                    limit: self.limit,
                    last: 0,
                };
            }
            return Some(Poll::Send(transmit));
        }
        let room = edge.saturating_sub(snd.nxt);
        let silly = room == 0 || room < self.full_segment.min(snd.max_wnd / 2);
        if silly && edge > snd.una && edge < snd.end {
            self.wait(snd);
            return Some(Poll::Wait(self.limit));
        }
        None
    }

    /// Ends output until something happens.
    #[inline(always)]
    pub(super) fn wait(&mut self, snd: &SendState) {
        self.output_due = false;
        self.began_idle = None;
        self.app_data_seen = (snd.end, snd.fin);
        self.limit = what_limits(snd, &self.ccv, self.full_segment);
    }

    /// Takes back what is still granted; output decides again.
    #[inline(always)]
    pub(super) fn revoke_grant(&mut self, snd: &mut SendState) {
        self.began_idle = None;
        if snd.grant.edge > 0 {
            snd.grant.edge = 0;
            self.output_due = true;
        }
    }

    /// The next segment, accounted for as sent. None: nothing may leave.
    #[inline(always)]
    pub(super) fn output(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Option<Transmit> {
        if snd.nxt < snd.max && snd.sack {
            snd.nxt = self.board.skip_sacked(snd.nxt);
        }
        let nothing_out = snd.max == snd.una;
        // One call of tcp_output sends all it can, and looks once whether anything is out.
        let idle = *self.began_idle.get_or_insert(nothing_out);
        if nothing_out {
            self.restart_after_idle(snd, cx);
        }
        let mut window = snd.wnd.min(self.ccv.cwnd);
        let mut forced = std::mem::take(&mut self.force_output);
        let mut probing = std::mem::take(&mut self.window_probe);
        if probing && window == 0 {
            window = 1;
        } else if probing {
            // There is a window, if less than a segment: what fits is sent.
            probing = false;
            forced = true;
            self.persist = None;
            self.rtt.shift = 0;
        }
        if let Some((seq, len)) = self.hole_to_send(snd, window) {
            return Some(self.send_hole(snd, seq, len, cx));
        }
        let buffered = snd.end.saturating_sub(snd.una);
        let offset = snd.nxt - snd.una;
        let room = self.room_for_new_data(snd, window, buffered, offset);
        let closed = window == 0
            && if self.tuning.persists_when_closed { room <= 0 && offset < buffered } else { room < 0 };
        if closed {
            // The window closed: nothing is outstanding as far as the timer is concerned, probes take over.
            self.rexmt = None;
            self.rtt.shift = 0;
            snd.nxt = snd.una;
            if self.persist.is_none() {
                self.start_persist(cx);
            }
        }
        let len = room.max(0) as u64;
        autosize(&self.tuning, snd, window, buffered, self.tuning.sendbuf_inc);
        if forced && len == 0 && !(snd.fin && snd.nxt == snd.end) {
            return Some(Transmit { seq: snd.max, len: 0, ..Transmit::default() });
        }
        let worth = probing
            || forced
            || self.worth_sending(snd, len, offset + len >= buffered && (idle || snd.no_delay));
        if !worth {
            self.ensure_timer(snd, buffered, cx);
            return None;
        }
        let transmit = self.send(snd, len, probing, cx);
        if transmit.len == 0 {
            // Behind a FIN there is nothing, and one call of tcp_output sends it once, also where a closed window makes it the
            // next segment again.
            self.wait(snd);
        }
        Some(transmit)
    }

    /// First byte and length of the retransmission that fills a hole, in SACK recovery.
    #[inline]
    fn hole_to_send(&mut self, snd: &SendState, window: u64) -> Option<(u64, u64)> {
        if !self.ccv.fast_recovery || !snd.sack {
            return None;
        }
        let budget = if self.tuning.recovery == Recovery::Prr15 {
            window.saturating_sub(self.pipe(snd))
        } else {
            window.saturating_sub(self.board.rexmit)
        };
        let recover = self.ccv.recover;
        let hole = self.board.next_hole()?;
        if hole.rxmit >= recover || budget == 0 {
            return None;
        }
        let len = (hole.end.min(recover) - hole.rxmit).min(budget);
        Some((hole.rxmit, len))
    }

    /// Number of bytes of new (or, after a timeout, old) data that fit; negative when more is out than the window
    /// holds.
    #[inline]
    fn room_for_new_data(&self, snd: &SendState, window: u64, buffered: u64, offset: u64) -> i64 {
        let in_sack_recovery = self.ccv.fast_recovery && snd.sack;
        if in_sack_recovery && self.tuning.recovery == Recovery::Prr15 {
            let room = window as i64 - self.pipe(snd) as i64;
            return room.min(buffered.min(snd.wnd) as i64 - offset as i64);
        }
        if in_sack_recovery && self.board.rexmit > 0 {
            let fits = buffered.min(snd.wnd) as i64 - offset as i64;
            if fits <= 0 {
                return fits;
            }
            let spent = snd.nxt.saturating_sub(self.new_data_from) + self.board.rexmit;
            return fits.min(self.ccv.cwnd.saturating_sub(spent) as i64);
        }
        buffered.min(window) as i64 - offset as i64
    }

    /// Silly-window avoidance and Nagle's algorithm (RFC 9293 section 3.8.6.2.1, RFC 896).
    #[inline]
    fn worth_sending(&self, snd: &SendState, len: u64, last_and_idle: bool) -> bool {
        if len == 0 {
            // A FIN leaves by itself when all data has.
            return snd.fin && snd.nxt == snd.end && (snd.max <= snd.end || snd.nxt == snd.una);
        }
        len >= self.full_segment
            || (last_and_idle && !snd.app_blocked)
            || (snd.max_wnd > 0 && len >= snd.max_wnd / 2)
            || snd.nxt < snd.max
            || (snd.fin && snd.nxt + len == snd.end)
    }

    #[inline(never)]
    fn send_hole(&mut self, snd: &mut SendState, seq: u64, len: u64, cx: &mut Context<'_>) -> Transmit {
        let segments = if self.tuning.sack_tso && snd.tso { u64::from(snd.tso_max / snd.payload) } else { 1 };
        let len = len.min(segments * u64::from(snd.payload));
        if let Some(packets) = &mut self.packets {
            packets.on_sent(seq, seq + len, cx.clock.timestamp_ms(cx.now));
        }
        self.board.sent(len, snd.max);
        self.prr.out += len;
        snd.retransmits += len.div_ceil(u64::from(snd.payload));
        if self.rexmt.is_none() {
            self.start_rexmt(cx.clock);
        }
        // A hole below a recovery point of SND.MAX may hold the FIN, which is no payload.
        let end = seq + len;
        let last = end >= snd.end;
        Transmit {
            seq,
            len: (end.min(snd.end) - seq.min(snd.end)) as u32,
            fin: snd.fin && last,
            push: last,
            retransmission: true,
            ..Transmit::default()
        }
    }

    #[inline(always)]
    fn send(&mut self, snd: &mut SendState, len: u64, probing: bool, cx: &mut Context<'_>) -> Transmit {
        let seq = snd.nxt;
        let payload = u64::from(snd.payload);
        self.black_hole.full_sent = len >= u64::from(snd.mss);
        let len = if len <= payload {
            len
        } else if snd.tso && self.tuning.tso && !self.cc.wants_packet_rtt() {
            let most = len.min(u64::from(snd.tso_max));
            // Whole segments, unless the rest of the buffer fits.
            if seq + most < snd.end { most - most % payload } else { most }
        } else {
            payload
        };
        let end = seq + len;
        if let Some(packets) = &mut self.packets
            && len > 0
        {
            packets.on_sent(seq, end, cx.clock.timestamp_ms(cx.now));
        }
        let fin = snd.fin && end == snd.end && !probing;
        let retransmission = seq < snd.max && len > 0;
        if retransmission {
            snd.retransmits += if len <= payload { 1 } else { len.div_ceil(payload) };
        }
        let cwr = !retransmission && len > 0 && std::mem::take(&mut self.cwr);
        let next = end + u64::from(fin);
        if probing {
            snd.max = snd.max.max(next);
        } else {
            snd.nxt = next;
            if next > snd.max {
                snd.max = next;
                if !snd.timestamps && self.timed.is_none() {
                    self.timed = Some((self.tick.number, seq));
                }
            }
            if self.ccv.in_recovery() {
                self.prr.out += len;
            }
            if self.rexmt.is_none() {
                if self.persist.take().is_some() {
                    self.rtt.shift = 0;
                }
                self.start_rexmt(cx.clock);
            }
        }
        Transmit { seq, len: len as u32, fin, push: end == snd.end && len > 0, retransmission, cwr }
    }

    /// Starts the window again after nothing was received for a retransmission timeout, or no new data sent (RFC
    /// 5681 section 4.1). A recovery can last that long too.
    fn restart_after_idle(&mut self, snd: &SendState, cx: &Context<'_>) {
        let since = |then| self.tick.number.saturating_sub(cx.clock.ticks(then));
        let rto = u64::from(self.rtt.rto);
        let sent_long_ago =
            self.tuning.idle_counts_sending && snd.last_new_sent > 0 && since(snd.last_new_sent) >= rto;
        if since(snd.last_received) >= rto || sent_long_ago {
            self.refresh_cc_var(snd);
            self.cc.after_idle(&mut self.ccv);
        }
    }

    /// Sets a timer where nothing leaves: what is outstanding must be timed, and what cannot leave must be probed
    /// for.
    fn ensure_timer(&mut self, snd: &SendState, buffered: u64, cx: &mut Context<'_>) {
        if self.rexmt.is_some() || self.persist.is_some() {
            return;
        }
        if snd.sack && snd.max > snd.una {
            self.start_rexmt(cx.clock);
        } else if buffered > 0 && snd.nxt < snd.end {
            self.rtt.shift = 0;
            self.start_persist(cx);
        }
    }

    pub(super) fn start_persist(&mut self, cx: &Context<'_>) {
        let wait = self.rtt.persist();
        self.persist = Some(cx.clock.time_of_tick(self.tick.number + u64::from(wait)));
    }
}

/// Grows the send buffer by `step` while it is what limits, and not a window (tcp(4), net.inet.tcp.sendbuf_auto). That is
/// so if the peer's window is larger, `buffered` nearly fills it, and the window has room for all of that. A step that
/// the socket refuses is the last one tried.
#[inline]
pub(in crate::sender) fn autosize(t: &Tuning, snd: &mut SendState, window: u64, buffered: u64, step: u64) {
    let grows = snd.sndbuf_auto
        && snd.wnd / 4 * 5 >= snd.sndbuf
        && buffered >= snd.sndbuf / 8 * 7
        && buffered < t.sendbuf_max
        && window >= buffered.saturating_sub(snd.nxt - snd.una);
    if !grows {
        return;
    }
    let wanted = (snd.sndbuf + step).min(t.sendbuf_max);
    if wanted <= t.largest_buffer {
        snd.sndbuf = wanted;
    } else {
        snd.sndbuf_auto = false;
    }
}

/// Limit that keeps the sender from sending more, if `segment` bytes are worth a segment.
#[inline]
pub(in crate::sender) fn what_limits(snd: &SendState, ccv: &CcVar, segment: u64) -> Limit {
    let waiting = snd.end.saturating_sub(snd.nxt);
    let wanted = snd.nxt - snd.una + waiting.min(segment);
    if waiting == 0 || (!ccv.fast_recovery && wanted <= ccv.cwnd.min(snd.wnd)) {
        snd.limit_without_data()
    } else {
        narrower_window(snd, ccv)
    }
}

/// Window that keeps a segment from leaving.
#[inline(always)]
fn narrower_window(snd: &SendState, ccv: &CcVar) -> Limit {
    if ccv.cwnd <= snd.wnd || ccv.fast_recovery { Limit::Cwnd } else { Limit::Rwnd }
}
