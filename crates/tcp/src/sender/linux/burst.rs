//! How much Linux lets leave at once and when: Nagle's algorithm, bursts and their deferral, TCP small queues, pacing.

use super::scoreboard::{BURST_END, Id, LOST, PUSHED, RETRANS, SACKED};
use super::write_queue::Head;
use super::{LinuxSender, TRUESIZE, time_at};
use crate::cc::linux::{CaState, INIT_CWND};
use crate::clock::{MILLISECOND, Nanos};
use crate::sender::{Limit, SendState, Transmit};

/// A burst of a sender without segmentation offload. Since 4.17 Linux builds super-packets all the same and cuts them
/// itself: it defers what is less than one, and pacing waits only between them.
#[derive(Debug, Default)]
pub(super) struct Burst {
    /// Packets still to leave.
    pub(super) packets: u64,
    /// Where it ends.
    pub(super) end: u64,
    /// They were sent before.
    pub(super) resent: bool,
    /// Whether the last packet of the burst has PSH.
    pub(super) pushes: bool,
    /// When all of it leaves, local time.
    pub(super) departure: Nanos,
    /// Time lost to late timers that its packets may still catch up.
    pub(super) credit: Nanos,
}

impl LinuxSender {
    /// Minshall's form of Nagle: one short segment outstanding at a time.
    pub(super) fn nagle_holds(&self, snd: &SendState, payload: u64) -> bool {
        let nagle = !snd.no_delay && self.core.packets_out > 0 && self.small_end > snd.una;
        !snd.fin && payload > 0 && (nagle || snd.cork.holds()) && snd.cork.pushed != snd.end
    }

    /// Length of the next burst, or why it waits for more.
    pub(super) fn tso_length(
        &mut self,
        snd: &SendState,
        payload: u64,
        window: u64,
        in_flight: u32,
    ) -> Result<u64, Limit> {
        let mss = u64::from(snd.payload);
        let cwnd_room = u64::from(self.core.cwnd - in_flight) * mss;
        let segments = self.tso_segments(snd);
        let most = segments * mss;
        let allowed = cwnd_room.min(most);
        let head = match self.is_modern() {
            true => self.head_buffer(snd, allowed, segments),
            false => Head { len: payload, last: true },
        };
        let whole = if head.last { snd.unsent() } else { head.len };
        if head.len <= mss {
            if head.last && head.len < mss && self.nagle_holds(snd, head.len) {
                return Err(limit_while_deferring(snd));
            }
            return Ok(whole);
        }
        if !self.pushes_one(snd) && self.defers_burst(snd, head, most, cwnd_room.min(window)) {
            if cwnd_room < window {
                if cwnd_room <= head.len {
                    self.output.cwnd_limited = true;
                    return Err(Limit::Cwnd);
                }
            } else if window <= head.len {
                return Err(Limit::Rwnd);
            }
            if !(head.last && snd.fin) {
                return Err(limit_while_deferring(snd));
            }
        }
        // What cwnd and the burst let go is whole segments; what the peer's window or the end of the buffer cuts may end
        // with a part of one (tcp_mss_split_point).
        let cut = head.len.min(window);
        if allowed <= cut {
            return Ok(allowed);
        }
        let partial = cut % mss;
        if partial > 0 && (!self.is_modern() && cut < head.len || self.nagle_holds(snd, partial)) {
            return Ok(cut - partial);
        }
        Ok(if cut == head.len { whole } else { cut })
    }

    /// A call of the writer fills the only buffer there is, and sends a burst of it that waits for nothing (tcp_push_one).
    fn pushes_one(&self, snd: &SendState) -> bool {
        self.output.pushes_one && snd.end - snd.max >= self.writers_buffer(snd)
    }

    /// Segments of one burst: a millisecond at the pacing rate, and up to 64 KB on short paths.
    pub(super) fn tso_segments(&self, snd: &SendState) -> u64 {
        let mss = u64::from(snd.payload);
        let most = (u64::from(snd.tso_max) / mss).min(u64::from(self.config.gso_max_segs)).max(1);
        if !self.is_modern() {
            return most;
        }
        if self.core.tso_segs > 0 {
            return u64::from(self.core.tso_segs).min(most);
        }
        let mut bytes = self.pacing_rate() >> 10;
        let shift = u64::from(self.core.min_rtt_us) >> self.config.tso_rtt_log;
        if self.config.tso_rtt_log > 0 && shift < 64 {
            bytes += self.config.gso_max_size >> shift;
        }
        let segments = bytes.min(self.config.gso_max_size) / mss;
        if segments >= most {
            return most;
        }
        let least = self.cc.min_tso_segs(&self.core).unwrap_or(self.config.min_tso_segs);
        segments.max(u64::from(least)).min(most)
    }

    /// Whether a burst that windows cut short waits for the next ACK to be whole.
    fn defers_burst(&mut self, snd: &SendState, head: Head, burst: u64, room: u64) -> bool {
        let mss = u64::from(self.core.mss);
        let cwnd_bytes = u64::from(self.core.cwnd) * mss;
        // Whether there is room for so much of a window, without dividing.
        let enough = |divisor: u32| {
            divisor > 0 && snd.wnd.min(cwnd_bytes) < (room + 1).saturating_mul(u64::from(divisor))
        };
        if !self.is_modern() {
            let wanted = burst.min(head.len);
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
            || room >= burst
            // In the middle of the queue it will not get longer.
            || !head.last && room >= head.len
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

    /// The first packet of a burst of `packets` has been made.
    pub(super) fn begin_burst(&mut self, packets: u64, resent: bool) {
        let burst = &mut self.output.burst;
        burst.packets = packets - 1;
        burst.resent = resent;
        burst.pushes = packets > 1 && self.config.pushes_bursts;
    }

    /// `last` is the newest packet of `transmit`. Where a burst ends with it, PSH does so too, this once: the copy that leaves
    /// has it. PSH behind all that was written stays with the packet.
    #[inline]
    pub(super) fn end_burst(&mut self, mut transmit: Transmit, last: Id) -> Transmit {
        if self.output.burst.packets == 0 {
            self.board.end_burst(last, if transmit.push { PUSHED } else { 0 });
            transmit.push |= std::mem::take(&mut self.output.burst.pushes);
        }
        transmit
    }

    /// How many packets from the lost one `id` on leave as one: those lost of its burst, as many as cwnd and a burst allow
    /// (tcp_xmit_retransmit_queue). 3.9 sends packet by packet.
    pub(super) fn lost_run(&self, id: Id, snd: &SendState) -> u64 {
        if !self.is_modern() {
            return 1;
        }
        let most = self.tso_segments(snd).min(u64::from(self.core.cwnd - self.core.in_flight()));
        let mut run = 1;
        while run < most && id + run < self.board.tail() && !self.board.get(id + run - 1).is_marked(BURST_END)
        {
            if self.board.get(id + run).tags & (LOST | RETRANS | SACKED) != LOST {
                break;
            }
            run += 1;
        }
        run
    }

    /// TCP small queues: enough of this connection is in the host's queues already.
    #[inline]
    pub(super) fn held_by_tsq(&self, snd: &mut SendState, shift: u32) -> bool {
        if snd.unqueued && !self.config.paced_by_queue
            || self.output.in_host <= 2 * u64::from(self.core.mss)
            || self.is_modern() && self.core.packets_out <= 1
        {
            return false;
        }
        let (memory, limit) = self.small_queue(snd);
        snd.throttled = memory > limit << shift;
        snd.throttled
    }

    /// Memory of this connection's packets in the host's queues, and how much TCP small queues allows.
    #[inline]
    pub(super) fn small_queue(&self, snd: &SendState) -> (u64, u64) {
        let mss = u64::from(self.core.mss);
        let config = &self.config;
        let per_packet = if snd.tso { mss } else { TRUESIZE };
        let memory = if snd.tso { self.output.in_host } else { self.output.in_host * TRUESIZE / mss };
        let mut limit = config.limit_output_bytes;
        if self.is_modern() {
            let rate = self.pacing_rate();
            let by_rate = (2 * per_packet).max(rate >> 10);
            limit = if self.paces() && !config.limit_output_always { by_rate } else { by_rate.min(limit) };
        }
        (memory, limit)
    }

    /// Moves the departure time on; returns that of this packet (local time).
    #[inline(always)]
    pub(super) fn set_departure(&mut self, bytes: u64) -> Nanos {
        let rate = if self.paces() { self.pacing_rate() } else { 0 };
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
        if rate > 0 && self.output.packets >= u64::from(INIT_CWND) {
            let gap = time_at(bytes, rate);
            // Time lost to late timers is caught up, at most half of each.
            let caught_up = (gap / 2).min(burst.credit);
            burst.credit -= caught_up;
            self.core.departure += gap - caught_up;
        }
        departure
    }

    /// Whether packets have a time to leave, for a timer of the connection's own or for the host's queue.
    #[inline]
    pub(super) fn paces(&self) -> bool {
        self.core.pacing || self.config.paced_by_queue
    }

    /// Whether the connection itself waits for that time.
    #[inline]
    pub(super) fn waits_for_pacing(&self) -> bool {
        self.core.pacing && !self.config.paced_by_queue
    }

    pub(super) fn pacing_rate(&self) -> u64 {
        if self.core.pacing { self.core.pacing_rate } else { self.core.usual_pacing_rate(&self.config) }
    }
}

/// Returns the limit of a sender whose writer is not held by the buffer as TCP_INFO counts it. That begins when the sender empties
/// its queue behind a call that sleeps (tcp_cwnd_validate): not while Nagle's algorithm or a deferred burst keeps a rest
/// of the data, and not where a call found no room at all, as all that could be sent had left before.
pub(super) fn limit_while_deferring(snd: &SendState) -> Limit {
    if snd.app_blocked { Limit::Cwnd } else { Limit::App }
}
