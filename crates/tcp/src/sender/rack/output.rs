//! Output of the RACK stack: what a call sends, and how long the next call waits.

use super::wheel::Wheel;
use super::{OutputCall, Probe, RackSender, SHORTEST_TIMER_US, Timer};
use crate::context::Context;
use crate::sender::freebsd::output::{autosize, what_limits};
use crate::sender::{Limit, SendState, Transmit};

impl RackSender {
    /// The next transmission of the call of output at hand.
    pub(super) fn output(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Option<Transmit> {
        self.cwnd_used = self.ccv.cwnd;
        if let Some(index) = self.resend.take() {
            let transmit = self.retransmit(snd, index, false, cx);
            self.charge_timer(&transmit);
            self.end_output_call();
            return Some(transmit);
        }
        if self.awaits_ack && self.probe == Probe::None {
            return None;
        }
        if let Some(index) = self.lost_entry(snd) {
            return self.send_lost(snd, index, cx);
        }
        let probe = std::mem::replace(&mut self.probe, Probe::None);
        if let Probe::Resend(index) = probe {
            self.probes += 1;
            let transmit = self.retransmit(snd, index, true, cx);
            self.charge_timer(&transmit);
            self.end_output_call();
            return Some(transmit);
        }
        let buffered = snd.end.saturating_sub(snd.una);
        let offset = snd.nxt - snd.una;
        let probing = std::mem::take(&mut self.window_probe);
        if probing && snd.wnd == 0 && snd.nxt < snd.end {
            return Some(self.send_new(snd, 1, cx));
        }
        if self.sent_in_call >= u64::from(self.rack.burst_segments) * self.ccv.mss {
            return None;
        }
        let len = self.sendable(snd, buffered.saturating_sub(offset), probe == Probe::NewData);
        // A fifth more, where the default stack adds net.inet.tcp.sendbuf_inc.
        let step = (snd.sndbuf / 5).max(self.tuning.sendbuf_inc);
        autosize(&self.tuning, snd, snd.wnd.min(self.ccv.cwnd), buffered, step);
        if self.worth_sending(snd, len, offset, buffered) || (probing && len > 0) {
            if probe == Probe::NewData {
                self.probes += 1;
            } else {
                self.probes = 0;
            }
            return Some(self.send_new(snd, self.transmission_length(snd, len), cx));
        }
        if snd.fin && snd.nxt == snd.end && snd.una == snd.end {
            return Some(self.send_new(snd, 0, cx));
        }
        if buffered > offset && offset == 0 && self.persist.is_none() {
            self.start_persist(cx);
        }
        None
    }

    /// Takes credit for what a timer has asked for, where any retransmission costs it.
    fn charge_timer(&mut self, transmit: &Transmit) {
        if self.rack.timer_costs_credit {
            self.prr_credit = self.prr_credit.saturating_sub(u64::from(transmit.len));
        }
    }

    /// Sends a lost segment: one a call.
    fn send_lost(&mut self, snd: &mut SendState, index: usize, cx: &mut Context<'_>) -> Option<Transmit> {
        if !self.ccv.in_recovery() {
            self.enter_recovery(snd, index, cx);
        }
        let transmit = self.retransmit(snd, index, false, cx);
        self.prr_credit = self.prr_credit.saturating_sub(u64::from(transmit.len));
        self.end_output_call();
        Some(transmit)
    }

    /// Number of bytes of new data that may leave, of `left` that wait. A probe is not limited by the window.
    fn sendable(&mut self, snd: &SendState, left: u64, probe: bool) -> u64 {
        let outstanding = snd.max - snd.una;
        let by_window = snd.wnd.saturating_sub(outstanding);
        if self.ccv.fast_recovery {
            return self.prr_credit.min(by_window).min(left);
        }
        if probe {
            return self.ccv.mss.min(left).min(by_window);
        }
        let window = snd.wnd.min(self.ccv.cwnd);
        window.saturating_sub(self.flight(snd)).min(by_window).min(left)
    }

    /// Silly-window avoidance and Nagle's algorithm (RFC 9293 section 3.8.6.2.1, RFC 896).
    fn worth_sending(&self, snd: &SendState, len: u64, offset: u64, buffered: u64) -> bool {
        if len == 0 || len >= self.ccv.mss {
            return len > 0;
        }
        let outstanding = snd.max - snd.una;
        let last = offset + len >= buffered && (outstanding == 0 || snd.no_delay || snd.fin);
        let last_fit = snd.wnd.saturating_sub(outstanding) < self.ccv.mss && outstanding < 2 * self.ccv.mss;
        ((last || outstanding == 0) && !snd.app_blocked)
            || (snd.max_wnd > 0 && len >= snd.max_wnd / 2)
            || (last_fit && outstanding > 0 && !self.ccv.fast_recovery)
    }

    /// Number of the `room` bytes that may leave which one transmission takes.
    pub(super) fn transmission_length(&self, snd: &SendState, room: u64) -> u64 {
        if room <= self.ccv.mss {
            return room;
        }
        if !snd.tso || !self.tuning.tso || self.cc.wants_packet_rtt() {
            return self.ccv.mss;
        }
        let left = (u64::from(self.rack.burst_segments) * self.ccv.mss).saturating_sub(self.sent_in_call);
        let most = room.min(u64::from(snd.tso_max)).min(left.max(self.ccv.mss));
        most - most % self.ccv.mss
    }

    fn retransmit(&mut self, snd: &mut SendState, index: usize, probe: bool, cx: &Context<'_>) -> Transmit {
        let stamp = cx.clock.timestamp_ms(cx.now);
        let entry = self.map.resend(index, self.now_us, stamp, probe);
        let length = entry.end - entry.start;
        if self.ccv.in_recovery() {
            self.prr_out += length;
            self.resent_in_recovery += length;
        }
        snd.retransmits += length.div_ceil(u64::from(snd.payload));
        self.sent_in_call += length;
        let data_end = entry.end.min(snd.end);
        if let Some(packets) = &mut self.packets {
            packets.on_sent(entry.start, data_end, stamp);
        }
        Transmit {
            seq: entry.start,
            len: (data_end - entry.start) as u32,
            fin: entry.end > snd.end,
            push: data_end == snd.end,
            retransmission: true,
            ..Transmit::default()
        }
    }

    fn send_new(&mut self, snd: &mut SendState, len: u64, cx: &mut Context<'_>) -> Transmit {
        let seq = snd.nxt;
        let data_end = seq + len;
        let stamp = cx.clock.timestamp_ms(cx.now);
        if let Some(packets) = &mut self.packets
            && len > 0
        {
            packets.on_sent(seq, data_end, stamp);
        }
        if self.rack.paces_when_measured {
            self.goodput.on_sent(seq);
        }
        // A FIN leaves by itself, when all data is acknowledged.
        let fin = len == 0 && snd.fin;
        let end = data_end + u64::from(fin);
        if snd.max == snd.una {
            self.timers_from = self.now_us;
        }
        // One entry a segment, however long the transmission.
        let mut start = seq;
        while start < end {
            let stop = (start + self.ccv.mss).min(end);
            let flight = (stop - snd.una).saturating_sub(self.map.sacked.covered());
            self.map.push(start, stop, self.now_us, stamp, flight as u32);
            start = stop;
        }
        snd.nxt = end;
        snd.max = snd.max.max(end);
        if self.ccv.in_recovery() {
            self.prr_out += len;
        }
        if self.ccv.fast_recovery {
            self.prr_credit = self.prr_credit.saturating_sub(len);
        }
        self.sent_in_call += len;
        self.leave_persist();
        Transmit {
            seq,
            len: len as u32,
            fin,
            push: data_end == snd.end && len > 0,
            retransmission: false,
            cwr: len > 0 && std::mem::take(&mut self.cwr),
        }
    }

    /// A retransmission is all that this call of output sends.
    fn end_output_call(&mut self) {
        self.output_call = OutputCall::Finished;
        let wait = match self.rack.paces_after_retransmission {
            true => SHORTEST_TIMER_US,
            false => self.pacing_delay(),
        };
        self.pace(wait);
    }

    /// The next call of output waits for so long after this one, us.
    pub(super) fn pace(&mut self, wait: u64) {
        self.paced_until = (wait > 0).then_some(self.now_us + wait);
    }

    /// Whether output may be called: what waits in the wheel is left alone unless an ACK, a timer or the application calls.
    pub(super) fn may_call(&mut self, snd: &SendState) -> bool {
        let called = std::mem::take(&mut self.called)
            | (snd.limit() != std::mem::replace(&mut self.written, snd.limit()));
        called || self.pacing_waived || !self.waits_in_wheel()
    }

    /// Whether a call of output sends nothing because of pacing.
    pub(super) fn is_paced(&self) -> bool {
        let waits = |at| self.now_us < at || (self.now_us == at && self.waits_in_wheel());
        !self.pacing_waived && self.paced_until.is_some_and(waits)
    }

    fn waits_in_wheel(&self) -> bool {
        self.wheel.as_ref().is_some_and(Wheel::is_taken)
    }

    /// Time that output waits after a call that sent `sent_in_call` bytes, in us: their time at the rate of the
    /// largest window per shortest RTT, in whole milliseconds, less a quarter.
    pub(super) fn pacing_delay(&self) -> u64 {
        let rtt = if self.min_rtt > 0 { self.min_rtt } else { self.srtt_us().unwrap_or(1000) };
        let cwnd = if self.largest_cwnd > 0 { self.largest_cwnd } else { self.cwnd_used };
        let per_ms = cwnd * 1000 / rtt;
        let slot = self.sent_in_call / if per_ms > 0 { per_ms } else { self.ccv.mss };
        (slot - slot / 4) * 1000
    }

    /// Lets output wait, before goodput was measured, no longer than the timer that runs, whose milliseconds are
    /// taken for microseconds (FreeBSD 13.0's rack_start_hpts_timer).
    pub(super) fn shorten_unmeasured_pace(&mut self, snd: &SendState) {
        if !self.rack.paces_when_measured || self.goodput.known() {
            return;
        }
        let Some(paced_until) = self.paced_until else { return };
        if let Some((Timer::Probe | Timer::Retransmission, left)) = self.timer_to_run(snd) {
            self.paced_until = Some(paced_until.min(self.now_us + (left / 1000).max(1)));
        }
    }

    pub(super) fn restart_after_idle(&mut self, snd: &SendState, cx: &Context<'_>) {
        let rto = self.rtt.rto_ns();
        if cx.now.saturating_sub(snd.last_received) >= rto {
            self.cc.after_idle(&mut self.ccv);
            // The idle restart never goes below the initial window.
            self.ccv.cwnd = self.ccv.cwnd.max(self.tuning.initial_window.bytes(self.ccv.mss));
        }
    }

    /// Limit that keeps the stack from sending more. Data that the windows admit waits for pacing, or for what a
    /// burst of it may hold.
    pub(super) fn limit(&self, snd: &SendState) -> Limit {
        let limit = what_limits(snd, &self.ccv, self.ccv.mss);
        let waits = snd.end.saturating_sub(snd.nxt) >= self.ccv.mss;
        if waits && matches!(limit, Limit::App | Limit::SendBuffer) { Limit::Pacing } else { limit }
    }
}
