//! Socket buffers of data that waits to be sent, at whose ends bursts end since Linux 4.17.

use std::collections::VecDeque;

use super::LinuxSender;
use crate::sender::SendState;

/// Where the buffers of unsent data end (sk_buffs of the write queue).
#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    /// End of the buffer that leaves next; none waits where all of it was sent.
    head: u64,
    /// End of all that was written.
    end: u64,
    /// The buffers behind it, the oldest first.
    behind: VecDeque<Run>,
    /// Ends of what calls of the writer pushed: the last packet of a buffer in which one lies has PSH.
    pushes: VecDeque<u64>,
    /// Ends of records, which are ends of buffers that nothing is added to.
    records: VecDeque<u64>,
}

/// Buffers of the same length one behind the other; the last may be shorter.
#[derive(Debug)]
struct Run {
    start: u64,
    len: u64,
    end: u64,
}

impl Run {
    fn first_end(&self) -> u64 {
        self.end.min(self.start + self.len)
    }

    fn last_start(&self) -> u64 {
        self.start + (self.end - self.start - 1) / self.len * self.len
    }
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
        let whole = self.records.back() == Some(&self.end);
        let last = std::mem::replace(&mut self.end, end);
        if whole && last > sent {
            let filled = end.min(last + most + leaving);
            self.append(last, filled - last, filled);
            return self.append(filled, most, end);
        }
        let Some(run) = self.behind.back_mut() else {
            let head = self.head.max(sent);
            let room = most.saturating_sub(head - sent) + leaving;
            self.head = end.min(head + room);
            return self.append(self.head, most, end);
        };
        if run.len == most {
            run.end = end;
            return;
        }
        let last = run.last_start();
        // A buffer that is longer than new ones may be stays as it is.
        let start = if run.end - last > most { run.end } else { last };
        run.end = start;
        if run.start == start {
            self.behind.pop_back();
        }
        self.append(start, most, end);
    }

    fn append(&mut self, start: u64, len: u64, end: u64) {
        if start < end {
            self.behind.push_back(Run { start, len, end });
        }
    }

    /// The data written so far is pushed (tcp_mark_push).
    fn push(&mut self) {
        self.pushes.push_back(self.end);
    }

    /// The data written so far ends a record.
    pub(super) fn end_record(&mut self) {
        self.records.push_back(self.end);
    }

    /// Start of what waits behind the last record, where `sent` has left.
    fn behind_records(&self, sent: u64) -> u64 {
        self.records.back().map_or(sent, |&end| end.max(sent))
    }

    /// Another call adds to the last buffer, if it is shorter than `most`: that is not pushed any more.
    fn unpush(&mut self, sent: u64, most: u64) {
        let start = self.behind.back().map_or(sent, Run::last_start);
        if self.end > sent && self.end - start < most && self.records.back() != Some(&self.end) {
            self.pushes.truncate(self.pushes.partition_point(|&at| at <= start));
        }
    }

    /// Whether what ends at `sent` is the end of a buffer that was pushed.
    #[inline]
    pub(super) fn was_pushed(&mut self, sent: u64) -> bool {
        if sent != self.head {
            return false;
        }
        let gone = self.pushes.partition_point(|&at| at <= sent);
        self.pushes.drain(..gone);
        gone > 0
    }

    /// Whether the writer has written what is not in buffers yet.
    #[inline]
    pub(super) fn lags(&self, snd: &SendState) -> bool {
        snd.end > self.end.max(snd.max)
    }

    /// The buffers that left whole are gone.
    #[inline]
    fn advance(&mut self, sent: u64) {
        while self.head <= sent && self.begin_next() {}
        while self.records.front().is_some_and(|&end| end <= sent) {
            self.records.pop_front();
        }
    }

    /// The next buffer comes to the head; false if there is none.
    fn begin_next(&mut self) -> bool {
        let Some(run) = self.behind.front_mut() else { return false };
        self.head = run.first_end();
        run.start = self.head;
        if run.start == run.end {
            self.behind.pop_front();
        }
        true
    }

    /// The first buffer takes data of the one behind it until it has `wanted` (tcp_grow_skb).
    #[inline]
    fn grow(&mut self, sent: u64, wanted: u64) {
        let wanted = sent + wanted;
        if wanted <= self.head || self.records.front() == Some(&self.head) {
            return;
        }
        let Some(run) = self.behind.front_mut() else { return };
        let second = run.first_end();
        if wanted >= second {
            self.begin_next();
        } else {
            // What is left of it is shorter than those behind.
            let (start, len) = (second, run.len);
            run.start = wanted;
            self.head = wanted;
            if start < run.end {
                let end = std::mem::replace(&mut run.end, start);
                self.behind.insert(1, Run { start, len, end });
            }
        }
    }

    /// Number of buffers in which data from `sent` on wait, where new ones take `most` bytes.
    pub(super) fn buffers(&self, sent: u64, end: u64, most: u64) -> u64 {
        let head = u64::from(self.head > sent);
        let behind =
            self.behind.iter().map(|run| (run.end - run.start.max(sent).min(run.end)).div_ceil(run.len));
        head + behind.sum::<u64>() + end.saturating_sub(self.end.max(sent)).div_ceil(most)
    }

    /// Payload from `sent` on in the last buffer, where new buffers take `most` bytes; none where nothing is added to it.
    pub(super) fn last(&self, sent: u64, end: u64, most: u64) -> u64 {
        if self.records.back() == Some(&end) {
            return 0;
        }
        let known = self.end.max(sent);
        let in_it = known - self.behind.back().map_or(sent, Run::last_start).max(sent);
        let since = end - known;
        let filled = if in_it < most && self.records.back() != Some(&self.end) { most - in_it } else { 0 };
        match since.saturating_sub(filled) {
            0 => in_it + since,
            more => (more - 1) % most + 1,
        }
    }

    #[inline]
    fn head(&self, sent: u64) -> Head {
        Head { len: self.head.saturating_sub(sent), last: self.behind.is_empty() }
    }
}

impl LinuxSender {
    /// The buffer that leaves next, where cwnd and the size of a burst, of `segments`, allow `allowed` bytes.
    #[inline]
    pub(super) fn head_buffer(&mut self, snd: &SendState, allowed: u64, segments: u64) -> Head {
        self.take_in(snd, segments);
        let queue = &mut self.output.write_queue;
        if self.config.grows_bursts {
            queue.grow(snd.max, allowed);
        }
        queue.head(snd.max)
    }

    /// Start of what waits behind the records that may leave at once, and how much of that may leave with them: the last segment
    /// of each record is a whole one of cwnd, however short.
    pub(super) fn leaves_behind_records(&self, snd: &SendState, segments: u64) -> (u64, u64) {
        let mss = u64::from(snd.payload);
        let mut begun = snd.max;
        let mut leaving = self.may_leave_at_once(snd, segments);
        for &end in self.output.write_queue.records.iter().filter(|&&end| end > snd.max) {
            let Some(left) = leaving.checked_sub((end - begun).next_multiple_of(mss)) else { break };
            (begun, leaving) = (end, left);
        }
        (begun, leaving)
    }

    /// The buffers are those of now.
    #[inline]
    pub(super) fn take_in(&mut self, snd: &SendState, segments: u64) {
        let queue = &mut self.output.write_queue;
        queue.advance(snd.max);
        if queue.lags(snd) {
            self.take_in_written(snd, segments);
        }
    }

    /// A call begins at the instant at which the one before it ended. That one sent what it could as it ended (tcp_push): where
    /// this was all that waited, a short segment has left and takes nothing of the call that begins.
    #[cold]
    pub(super) fn part_calls(&mut self, snd: &SendState) {
        let mss = u64::from(snd.payload);
        if !self.is_modern() || self.sndbuf_memory.is_none() {
            return;
        }
        let waiting = snd.end.saturating_sub(snd.max);
        // No more than cwnd can leave.
        if waiting > u64::from(self.core.cwnd) * mss {
            return;
        }
        let begun = self.output.write_queue.behind_records(snd.max);
        let rest = snd.end.saturating_sub(begun) % mss;
        // Of two short segments the second waits for an ACK of the first.
        let small_waits = begun > snd.max && !snd.no_delay;
        if rest == 0 || small_waits || self.nagle_holds(snd, rest) {
            return;
        }
        // What is still in the host's queue holds a short buffer (tcp_should_autocork).
        if self.output.host_has_queue && (self.output.in_host > 0 || waiting > mss) {
            return;
        }
        let segments = self.tso_segments(snd);
        let parted = self.output.write_queue.records.iter().filter(|&&end| end > snd.max).count() as u64;
        let burst = segments * mss;
        // As long as there is room for a whole burst, none is deferred.
        let room = parted * mss + if waiting > mss { waiting.next_multiple_of(burst) } else { mss };
        if self.may_leave_at_once(snd, segments) >= room {
            self.take_in(snd, segments);
            self.output.write_queue.end_record();
        }
    }

    /// Puts into buffers what was written since the sender last looked.
    #[inline(never)]
    fn take_in_written(&mut self, snd: &SendState, segments: u64) {
        // The call that wrote fills and sends in turn; of that nothing has left yet.
        let alone = self.output.write_queue.behind.is_empty();
        let leaving = if alone { self.leaves_behind_records(snd, segments).1 } else { 0 };
        let most = self.writers_buffer(snd);
        let call_ended = self.output.call_ended;
        let queue = &mut self.output.write_queue;
        if queue.end == call_ended {
            queue.unpush(snd.max, most);
        }
        queue.take_in(snd.max, snd.end, most, leaving);
        queue.push();
        self.output.pushes_one = alone;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl WriteQueue {
        /// Where buffers end.
        fn ends(&self) -> Vec<u64> {
            let behind = self.behind.iter().flat_map(|run| {
                let whole = (run.start..run.end).step_by(run.len as usize);
                whole.map(|start| run.end.min(start + run.len))
            });
            std::iter::once(self.head).chain(behind).collect()
        }
    }

    #[test]
    fn buffers_are_filled_before_new_ones_begin() {
        let mut queue = WriteQueue::default();
        queue.take_in(0, 100, 45, 0);
        assert_eq!(queue.ends(), [45, 90, 100]);
        queue.take_in(0, 140, 45, 7);
        assert_eq!(queue.ends(), [45, 90, 135, 140]);
        assert_eq!(queue.head(44), Head { len: 1, last: false });
    }

    #[test]
    fn the_last_buffer_is_as_long_as_it_is() {
        let mut queue = WriteQueue::default();
        queue.take_in(0, 100, 45, 0);
        assert_eq!([queue.last(0, 100, 45), queue.last(95, 100, 45), queue.last(100, 100, 45)], [10, 5, 0]);
        assert_eq!(
            [queue.last(0, 135, 45), queue.last(0, 140, 45)],
            [45, 5],
            "written, and in no buffer yet"
        );
        queue.grow(43, 4);
        queue.advance(47);
        assert_eq!(queue.last(47, 100, 45), 10, "what leaves is cut from the front");
        queue.end_record();
        assert_eq!(queue.last(47, 100, 45), 0);
        assert_eq!(queue.last(47, 130, 45), 30);
    }

    #[test]
    fn what_leaves_the_only_buffer_during_the_call_is_filled_again() {
        let mut queue = WriteQueue::default();
        queue.take_in(0, 100, 45, 10);
        assert_eq!(queue.ends(), [55, 100]);
        let mut queue = WriteQueue::default();
        queue.take_in(0, 20, 45, 10);
        assert_eq!(queue.ends(), [20]);
        queue.take_in(5, 200, 45, 0);
        assert_eq!(queue.ends(), [50, 95, 140, 185, 200]);
        let mut queue = WriteQueue::default();
        queue.take_in(0, 20, 45, 0);
        queue.end_record();
        queue.take_in(0, 200, 45, 30);
        assert_eq!(queue.ends(), [20, 95, 140, 185, 200], "behind a short segment that leaves too");
    }

    /// A call that ends or waits pushes the end of the last buffer, however much is added to that by the same call; another
    /// call takes it back, unless the buffer was full.
    #[test]
    fn a_buffer_in_which_a_call_waited_is_pushed() {
        let mut queue = WriteQueue::default();
        queue.take_in(0, 100, 45, 0);
        queue.push();
        queue.take_in(0, 120, 45, 0);
        queue.push();
        let pushed = |queue: &mut WriteQueue, sent: u64| {
            let pushed = queue.was_pushed(sent);
            queue.advance(sent);
            pushed
        };
        assert!(!pushed(&mut queue, 45));
        assert!(!pushed(&mut queue, 80));
        assert!(!pushed(&mut queue, 90));
        queue.unpush(90, 45);
        queue.take_in(90, 140, 45, 0);
        assert!(!pushed(&mut queue, 100), "the middle of a buffer");
        assert!(!pushed(&mut queue, 135), "another call has added to it");
        queue.push();
        assert!(pushed(&mut queue, 140));
        queue.take_in(140, 185, 45, 0);
        queue.push();
        queue.unpush(140, 45);
        assert!(pushed(&mut queue, 185), "nothing can be added to a full buffer");
    }

    /// The window that the peer offers has grown, and with it the buffers that are begun.
    #[test]
    fn the_last_buffer_is_filled_to_the_new_length() {
        let mut queue = WriteQueue::default();
        queue.take_in(0, 100, 30, 0);
        queue.take_in(0, 200, 45, 0);
        assert_eq!(queue.ends(), [30, 60, 90, 135, 180, 200]);
        queue.take_in(0, 220, 10, 0);
        assert_eq!(queue.ends(), [30, 60, 90, 135, 180, 200, 210, 220]);
        queue.advance(180);
        assert_eq!(queue.ends(), [200, 210, 220]);
    }

    #[test]
    fn a_burst_takes_in_the_buffer_behind() {
        let mut queue = WriteQueue::default();
        queue.take_in(0, 120, 45, 0);
        queue.grow(43, 4);
        assert_eq!(queue.ends(), [47, 90, 120]);
        assert_eq!(queue.head(43), Head { len: 4, last: false });
        queue.grow(43, 1);
        assert_eq!(queue.ends(), [47, 90, 120]);
        queue.grow(43, 50);
        assert_eq!(queue.ends(), [90, 120]);
        queue.grow(43, 100);
        assert_eq!(queue.ends(), [120]);
        queue.grow(43, 100);
        assert_eq!(queue.head(43), Head { len: 77, last: true });
    }
}
