//! Linux's send buffer, which counts memory and not payload: what a write takes, when a writer is woken, autotuning.

use super::{LinuxSender, TRUESIZE};
use crate::cc::linux::INIT_CWND;
use crate::sender::SendState;

/// Memory of a buffer besides its payload, which fills pages (measured with `ss -m` on 6.18, without segmentation offload
/// too): the metadata of one clonable buffer and the room for headers.
const BUFFER_OVERHEAD: u64 = 832;

/// Largest buffer of a writer: what fits into 64 KB with room for headers (MAX_TCP_HEADER).
const BUFFER_MAX: u64 = 65_535 - 320;

impl LinuxSender {
    pub(super) fn init_sndbuf(&mut self, snd: &mut SendState) {
        let mut memory = snd.sndbuf;
        if snd.sndbuf_auto {
            memory = memory.max((2 * u64::from(INIT_CWND) * TRUESIZE).min(self.config.wmem.max));
        }
        self.set_sndbuf(memory, snd);
    }

    pub(super) fn set_sndbuf(&mut self, memory: u64, snd: &mut SendState) {
        self.sndbuf_memory = Some(memory);
        let mss = u64::from(self.core.mss);
        // 3.9 sends what it writes into large buffers in bursts as large; both cost next to nothing.
        let overhead = BUFFER_MAX / BUFFER_OVERHEAD;
        let large = snd.tso || self.is_modern();
        let payload = if large { memory - memory / overhead } else { memory / TRUESIZE * mss };
        snd.sndbuf = payload.max(mss);
    }

    /// A burst has left, or an ACK was dealt with: the buffer may grow, and a writer that waits for room is woken
    /// (tcp_check_space).
    pub(super) fn check_space(&mut self, snd: &mut SendState) {
        if !snd.app_blocked || self.output.woken_at == Some(snd.end) {
            return;
        }
        self.expand_sndbuf(snd);
        if self.wakes_writer(snd) {
            self.output.woken_at = Some(snd.end);
        }
    }

    /// Autotuning: twice the window, in memory, when the writer is blocked and cwnd is not full.
    pub(super) fn expand_sndbuf(&mut self, snd: &mut SendState) {
        if !snd.sndbuf_auto || self.core.in_flight() >= self.core.cwnd {
            return;
        }
        self.cwnd_stamp = self.core.jiffies;
        let packets = self.core.cwnd.max(INIT_CWND).max(self.reordering + 1);
        let wanted = u64::from(self.cc.sndbuf_expand(&self.core)) * u64::from(packets) * TRUESIZE;
        let wanted = wanted.min(self.config.wmem.max);
        if self.sndbuf_memory.is_none_or(|memory| wanted > memory) {
            self.set_sndbuf(wanted, snd);
        }
    }

    /// Payload the writer's call takes now (tcp_sendmsg), as far as it is `wanted`; none before the connection is there, as a
    /// write then waits for it. A writer that was blocked waits until it is woken.
    pub(super) fn buffer_space(&self, snd: &SendState, wanted: u64) -> u64 {
        let Some(memory) = self.sndbuf_memory else { return 0 };
        if snd.app_blocked && !self.wakes_writer(snd) {
            return 0;
        }
        if !snd.tso && !self.is_modern() {
            return snd.space();
        }
        if self.is_modern() && !snd.no_fast_path && self.has_plenty(snd, wanted, memory) {
            return wanted;
        }
        let segments = self.tso_segments(snd);
        let (queued, memory, overhead) = if self.is_modern() {
            (self.queued_memory(snd), memory, BUFFER_OVERHEAD)
        } else {
            (snd.end.saturating_sub(snd.una), snd.sndbuf, 0)
        };
        if snd.end <= snd.max && queued >= memory {
            return 0;
        }
        let (unsent, leaving) = self.waiting_and_leaving(snd, segments);
        let buffer = self.writers_buffer(snd);
        let call = Call {
            buffer,
            last: self.output.write_queue.last(snd.end - unsent, snd.end, buffer),
            burst: segments * u64::from(snd.payload),
            overhead,
            memory,
            queued,
            unsent,
            leaving,
            until_forced: self.until_forced(snd),
            notsent: self.notsent_lowat,
        };
        call.takes(snd.max_wnd / 2 + 1, wanted)
    }

    /// Whether there is room for `wanted` bytes, however many buffers they are put into: each has segments of more payload than it
    /// costs besides, and only what may leave is put into others once more.
    fn has_plenty(&self, snd: &SendState, wanted: u64, memory: u64) -> bool {
        let payload = u64::from(snd.payload);
        let more = wanted.saturating_add(BUFFER_MAX + u64::from(self.core.cwnd) * payload);
        payload > BUFFER_OVERHEAD
            && more.saturating_add(snd.end.saturating_sub(snd.max)) < self.notsent_lowat
            && self.queued_memory(snd).saturating_add(more.saturating_mul(8)) < memory
    }

    /// Payload that still waits when the writer calls, and what more may leave during the call. What was written or
    /// allowed since the sender was last asked has left before: each call ends with sending, and so does each ACK.
    fn waiting_and_leaving(&self, snd: &SendState, segments: u64) -> (u64, u64) {
        let waiting = snd.end.saturating_sub(snd.max);
        if waiting == 0 || (snd.end == self.output.written_at_wait && !snd.app_blocked) {
            return (waiting, self.may_leave_at_once(snd, segments));
        }
        let (begun, leaving) = self.leaves_behind_records(snd, segments);
        let waiting = snd.end - begun;
        if leaving < waiting - waiting % u64::from(snd.payload) {
            return (waiting - leaving, 0);
        }
        let rest = waiting % u64::from(snd.payload);
        let held = rest > 0 && self.nagle_holds(snd, rest);
        (if held { rest } else { 0 }, (leaving + rest).saturating_sub(waiting))
    }

    /// Payload that the writer adds before it pushes all it has written: more than half of the largest window the peer ever
    /// offered, since it last did (forced_push).
    pub(super) fn until_forced(&self, snd: &SendState) -> u64 {
        (self.output.pushed + snd.max_wnd / 2 + 1).saturating_sub(snd.end)
    }

    /// New payload, in whole segments, that a call of the writer can send before it returns: what the windows, pacing and
    /// the host's queue let go, in bursts of `segments`.
    pub(super) fn may_leave_at_once(&self, snd: &SendState, segments: u64) -> u64 {
        let core = &self.core;
        let mss = u64::from(snd.payload);
        let window = (snd.una + snd.wnd).saturating_sub(snd.max);
        let room = window.min(u64::from(core.cwnd.saturating_sub(core.in_flight())) * mss);
        let burst = segments * mss;
        let paced = match self.waits_for_pacing() {
            true if core.departure > core.now => 0,
            true => burst,
            false => u64::MAX,
        };
        let queue = if self.output.host_has_queue {
            let (memory, limit) = self.small_queue(snd);
            if memory > limit { 0 } else { limit - memory + burst }
        } else {
            u64::MAX
        };
        let room = room.min(paced).min(queue);
        room - room % mss
    }

    /// A third of the buffer is free (sk_stream_is_writeable).
    #[inline(always)]
    pub(super) fn wakes_writer(&self, snd: &SendState) -> bool {
        let memory = self.sndbuf_memory.filter(|_| self.is_modern());
        // Most often the payload alone is too much.
        if memory.is_some_and(|memory| 3 * snd.end.saturating_sub(snd.una) > 2 * memory)
            || 2 * snd.end.saturating_sub(snd.max) >= self.notsent_lowat
        {
            return false;
        }
        match memory {
            Some(memory) => 3 * self.queued_memory(snd) <= 2 * memory,
            None => 3 * snd.space() >= snd.sndbuf,
        }
    }

    /// Memory of what was written and not acknowledged, since 4.17 (sk_wmem_queued): buffers of bursts that left, and those
    /// the writer filled.
    fn queued_memory(&self, snd: &SendState) -> u64 {
        let waiting = self.output.write_queue.buffers(snd.max, snd.end, self.writers_buffer(snd));
        let payload = snd.end.saturating_sub(snd.una);
        payload + (self.board.buffers() + waiting) * BUFFER_OVERHEAD
    }

    /// Payload of a buffer the writer fills: no more than half of the largest window the peer ever offered
    /// (tcp_xmit_size_goal).
    pub(super) fn writers_buffer(&self, snd: &SendState) -> u64 {
        let mss = u64::from(snd.payload);
        let most = BUFFER_MAX.min(snd.max_wnd / 2).max(mss);
        most - most % mss
    }
}

/// A call of the writer that is carried out buffer by buffer, since 4.17 whatever the interface can do; before, with segmentation
/// offload. All in bytes.
struct Call {
    /// Payload of a full buffer.
    buffer: u64,
    /// Payload that waits in the last buffer, which is longer than a full one where the window was larger when it was
    /// begun.
    last: u64,
    /// Payload that leaves at once.
    burst: u64,
    /// Memory of a buffer besides its payload.
    overhead: u64,
    /// Memory from which on no buffer is begun.
    memory: u64,
    /// Memory of what was written and not acknowledged.
    queued: u64,
    /// Payload that waits.
    unsent: u64,
    /// Payload that may still leave.
    leaving: u64,
    /// Payload that is written before all that waits is pushed.
    until_forced: u64,
    /// Payload that waits from which on no buffer is begun (tcp_stream_memory_free).
    notsent: u64,
}

impl Call {
    /// Payload it takes, at least what is `wanted` if there is room; all is pushed each `forced` bytes.
    ///
    /// The kernel compares memory with the limit only when it begins a buffer. A buffer begun is filled whatever the limit says,
    /// and a burst that leaves it makes room in it that is filled again, unless another buffer waits before it
    /// (tcp_push_one).
    fn takes(mut self, forced: u64, wanted: u64) -> u64 {
        let mut taken = 0;
        while taken < wanted {
            if self.last == 0 || self.last >= self.buffer {
                if self.queued >= self.memory || self.unsent >= self.notsent {
                    break;
                }
                if self.leaving == 0 {
                    let whole = self.buffer + self.overhead;
                    let buffers = (self.memory - self.queued).div_ceil(whole);
                    return taken
                        + buffers.min((self.notsent - self.unsent).div_ceil(self.buffer)) * self.buffer;
                }
                self.queued += self.overhead;
                self.last = 0;
            }
            let room = self.buffer - self.last;
            taken += room;
            self.queued += room;
            self.unsent += room;
            let leaves = if room >= self.until_forced {
                self.until_forced = forced;
                self.unsent.min(self.leaving)
            } else {
                self.until_forced -= room;
                let alone = self.unsent == self.buffer;
                if alone { self.burst.min(self.buffer).min(self.leaving) } else { 0 }
            };
            self.send(leaves);
            self.last = self.unsent.min(self.buffer);
        }
        taken
    }

    /// Data that leave are in buffers of their own: bursts are cut from those they are in.
    fn send(&mut self, bytes: u64) {
        let before = self.unsent.div_ceil(self.buffer);
        self.unsent -= bytes;
        self.leaving -= bytes;
        let after = self.unsent.div_ceil(self.buffer) + bytes.div_ceil(self.burst);
        self.queued += self.overhead * after.saturating_sub(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: u64 = 150_000;

    /// A writer of 150,000 bytes has a send buffer of 20,000 and segments of 1,000. While the largest window is that of the SYN,
    /// 10,000, Linux 6.18 takes 15,000 bytes, of which 10 segments leave (TCP_INFO).
    #[test]
    fn a_small_window_makes_small_buffers() {
        let call = Call {
            buffer: 5_000,
            last: 0,
            burst: 2_000,
            overhead: BUFFER_OVERHEAD,
            memory: 20_000,
            queued: 0,
            unsent: 0,
            leaving: 10_000,
            until_forced: 5_001,
            notsent: u64::MAX,
        };
        assert_eq!(call.takes(5_001, WHOLE), 15_000);
    }

    /// That writer after the first acknowledgement, with a window of 2.56 MB: 15 more leave, and 65,000 bytes wait.
    #[test]
    fn a_buffer_begun_is_filled_as_often_as_a_burst_leaves() {
        let call = Call {
            buffer: 65_000,
            last: 0,
            burst: 4_000,
            overhead: BUFFER_OVERHEAD,
            memory: 20_000,
            queued: 5_000 + BUFFER_OVERHEAD,
            unsent: 0,
            leaving: 15_000,
            until_forced: 1_270_001,
            notsent: u64::MAX,
        };
        assert_eq!(call.takes(1_280_001, WHOLE), 80_000);
    }

    /// A write shorter than a buffer is followed no further.
    #[test]
    fn no_more_is_followed_than_is_wanted() {
        let call = Call {
            buffer: 65_000,
            last: 0,
            burst: 4_000,
            overhead: BUFFER_OVERHEAD,
            memory: 1 << 50,
            queued: 0,
            unsent: 0,
            leaving: 1 << 40,
            until_forced: 1 << 30,
            notsent: u64::MAX,
        };
        assert_eq!(call.takes(1 << 30, 1), 65_000);
    }
}
