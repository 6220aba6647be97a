//! Backlogs of queues from the packets that enter and leave them: a row for each change.
//!
//! A tap sees a packet where it comes to the queue's node. It enters the queue when the link's delay is over, which lies before the
//! queue: then, or at once where the delay differs by packet. What the queue drops at that time never was in it; what is dropped
//! earlier was lost on the way.

use std::collections::BTreeMap;

use contract::tables::QueueRow;
use path::Nanos;

/// Time that the kernel may take to tell of a dropped packet: changes are told so long after they were.
const LATE: Nanos = 20_000_000;

/// Time of a packet's entry into a queue, and its place among all changes.
pub(super) type Entry = (Nanos, u64);

/// Backlogs of the links whose changes are recorded.
#[derive(Debug, Default)]
pub(super) struct Backlogs {
    of: BTreeMap<u32, Backlog>,
    /// Changes that are not told yet.
    ahead: BTreeMap<Entry, Change>,
    changes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    link: u32,
    packets: i64,
    bytes: i64,
    dropped: bool,
    marked: bool,
}

#[derive(Debug, Default)]
struct Backlog {
    packets: i64,
    bytes: i64,
    drops: u64,
    marks: u64,
}

impl Backlogs {
    pub(super) fn new(links: impl Iterator<Item = u32>) -> Backlogs {
        Backlogs { of: links.map(|link| (link, Backlog::default())).collect(), ..Backlogs::default() }
    }

    /// A packet of so many bytes will enter a link's queue at `t`. None where the link's changes are not recorded.
    pub(super) fn enters(&mut self, link: u32, t: Nanos, bytes: u32) -> Option<Entry> {
        self.of.contains_key(&link).then(|| self.note(t, link, 1, bytes, false, false))
    }

    /// A packet that has entered leaves at `t`.
    pub(super) fn left(&mut self, link: u32, entry: Entry, t: Nanos, bytes: u32, marked: bool) {
        self.note(t.max(entry.0), link, -1, bytes, false, marked);
    }

    /// A packet that has entered, or would have, is dropped at `t`.
    pub(super) fn dropped(&mut self, link: u32, entry: Entry, t: Nanos, bytes: u32) {
        let never_in = t <= entry.0 && self.ahead.remove(&entry).is_some();
        self.note(t, link, if never_in { 0 } else { -1 }, bytes, true, false);
    }

    fn note(&mut self, t: Nanos, link: u32, packets: i64, bytes: u32, dropped: bool, marked: bool) -> Entry {
        self.changes += 1;
        let entry = (t, self.changes);
        self.ahead
            .insert(entry, Change { link, packets, bytes: packets * i64::from(bytes), dropped, marked });
        entry
    }

    /// Tells the changes that are certain at `now`, in order of time.
    pub(super) fn tell(&mut self, now: Nanos, row: impl FnMut(&QueueRow)) {
        if !self.ahead.is_empty() {
            self.tell_before(now.saturating_sub(LATE), row);
        }
    }

    /// Tells all changes before `end`.
    pub(super) fn tell_before(&mut self, end: Nanos, mut row: impl FnMut(&QueueRow)) {
        let later = self.ahead.split_off(&(end, 0));
        for ((t, _), change) in std::mem::replace(&mut self.ahead, later) {
            let Some(backlog) = self.of.get_mut(&change.link) else { continue };
            backlog.packets += change.packets;
            backlog.bytes += change.bytes;
            backlog.drops += u64::from(change.dropped);
            backlog.marks += u64::from(change.marked);
            row(&QueueRow {
                t,
                hop: change.link,
                backlog_bytes: backlog.bytes.max(0) as u64,
                backlog_packets: backlog.packets.max(0) as u32,
                drops: backlog.drops,
                ce_marks: backlog.marks,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(backlogs: &mut Backlogs, end: Nanos) -> Vec<(Nanos, u32, u64, u64, u64)> {
        let mut rows = Vec::new();
        let each = |row: &QueueRow| {
            rows.push((row.t, row.backlog_packets, row.backlog_bytes, row.drops, row.ce_marks));
        };
        backlogs.tell_before(end, each);
        rows
    }

    #[test]
    fn a_packet_is_in_the_queue_from_the_end_of_the_delay_until_it_leaves() {
        let mut backlogs = Backlogs::new([3].into_iter());
        let first = backlogs.enters(3, 20, 1500).expect("recorded");
        let second = backlogs.enters(3, 25, 100).expect("recorded");
        backlogs.left(3, first, 30, 1500, true);
        backlogs.left(3, second, 40, 100, false);
        let expected = [(20, 1, 1500, 0, 0), (25, 2, 1600, 0, 0), (30, 1, 100, 0, 1), (40, 0, 0, 0, 1)];
        assert_eq!(told(&mut backlogs, 100), expected);
        assert!(backlogs.enters(4, 20, 1500).is_none(), "nobody asked for this link");
    }

    #[test]
    fn a_drop_takes_out_of_the_queue_what_was_in_it() {
        let mut backlogs = Backlogs::new([0].into_iter());
        let entries = [10, 20, 30].map(|t| backlogs.enters(0, t, 1000).expect("recorded"));
        // One that finds no room, one from the head of the queue, and one that is lost before the queue.
        backlogs.dropped(0, entries[1], 20, 1000);
        backlogs.dropped(0, entries[0], 25, 1000);
        backlogs.dropped(0, entries[2], 5, 1000);
        assert_eq!(
            told(&mut backlogs, 100),
            [(5, 0, 0, 1, 0), (10, 1, 1000, 1, 0), (20, 1, 1000, 2, 0), (25, 0, 0, 3, 0)]
        );
    }

    #[test]
    fn a_change_is_told_once_and_not_while_a_drop_may_follow() {
        let mut backlogs = Backlogs::new([0].into_iter());
        backlogs.enters(0, 1000, 1000);
        let mut count = 0;
        backlogs.tell(1000 + LATE, |_| count += 1);
        assert_eq!(count, 0);
        backlogs.tell(1001 + LATE, |_| count += 1);
        assert_eq!(count, 1);
        assert!(told(&mut backlogs, 10_000).is_empty());
    }
}
