//! Socket buffers of data that waits to be sent, at whose ends bursts end since Linux 4.17.

use std::collections::VecDeque;

use super::LinuxSender;
use crate::sender::SendState;

/// Where the buffers of unsent data end (sk_buffs of the write queue), the oldest first.
#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    ends: VecDeque<u64>,
}

/// The buffer that leaves next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Unsent payload in it.
    pub(super) len: u64,
    /// The writer can still add to it: there is none behind it.
    pub(super) last: bool,
}

impl WriteQueue {
    /// The data up to `end` was written. The last buffer is filled up to `most`, then new ones begin (tcp_sendmsg). What
    /// leaves while the writer fills the only buffer, `leaving`, makes room in it that is filled again (tcp_push_one).
    fn take_in(&mut self, sent: u64, end: u64, most: u64, leaving: u64) {
        let before = self.ends.len().checked_sub(2).map_or(sent, |at| self.ends[at]);
        let only = self.ends.len() <= 1;
        let last = self.ends.pop_back().unwrap_or(sent);
        let room = most.saturating_sub(last - before) + if only { leaving } else { 0 };
        self.ends.push_back(end.min(last + room));
        while let Some(&last) = self.ends.back().filter(|&&last| last < end) {
            self.ends.push_back(end.min(last + most));
        }
    }

    /// The first buffer takes data of the one behind it until it has `wanted` (tcp_grow_skb).
    fn grow(&mut self, sent: u64, wanted: u64) {
        let [first, second, ..] = *self.ends.make_contiguous() else { return };
        let first = (sent + wanted).clamp(first, second);
        if first == second {
            self.ends.pop_front();
        }
        self.ends[0] = first;
    }

    fn head(&self, sent: u64) -> Head {
        Head { len: self.ends.front().map_or(0, |end| end - sent), last: self.ends.len() <= 1 }
    }
}

impl LinuxSender {
    /// The buffer that leaves next, where cwnd and the size of a burst allow `allowed` bytes.
    pub(super) fn head_buffer(&mut self, snd: &SendState, allowed: u64) -> Head {
        let queue = &self.output.write_queue;
        let known = queue.ends.back().map_or(snd.max, |&end| end.max(snd.max));
        let sent = queue.ends.iter().take_while(|&&end| end <= snd.max).count();
        // The call that wrote fills and sends in turn; of that nothing has left yet.
        let alone = queue.ends.len() - sent <= 1;
        let leaving = if snd.end > known && alone { self.may_leave_at_once(snd) } else { 0 };
        let most = self.writers_buffer(snd);
        let queue = &mut self.output.write_queue;
        queue.ends.drain(..sent);
        if snd.end > known {
            queue.take_in(snd.max, snd.end, most, leaving);
        }
        if self.config.grows_bursts {
            queue.grow(snd.max, allowed);
        }
        queue.head(snd.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_filled_before_new_ones_begin() {
        let mut queue = WriteQueue::default();
        queue.take_in(0, 100, 45, 0);
        assert_eq!(queue.ends, [45, 90, 100]);
        queue.take_in(0, 140, 45, 7);
        assert_eq!(queue.ends, [45, 90, 135, 140]);
        assert_eq!(queue.head(44), Head { len: 1, last: false });
    }

    #[test]
    fn what_leaves_the_only_buffer_during_the_call_is_filled_again() {
        let mut queue = WriteQueue::default();
        queue.take_in(0, 100, 45, 10);
        assert_eq!(queue.ends, [55, 100]);
        let mut queue = WriteQueue::default();
        queue.take_in(0, 20, 45, 10);
        assert_eq!(queue.ends, [20]);
        queue.take_in(5, 200, 45, 0);
        assert_eq!(queue.ends, [50, 95, 140, 185, 200]);
    }

    #[test]
    fn a_burst_takes_in_the_buffer_behind() {
        let mut queue = WriteQueue { ends: [45, 90].into() };
        queue.grow(43, 4);
        assert_eq!(queue.ends, [47, 90]);
        assert_eq!(queue.head(43), Head { len: 4, last: false });
        queue.grow(43, 1);
        assert_eq!(queue.ends, [47, 90]);
        queue.grow(43, 100);
        assert_eq!(queue.ends, [90]);
        queue.grow(43, 100);
        assert_eq!(queue.head(43), Head { len: 47, last: true });
    }
}
