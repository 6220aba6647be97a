//! The RACK stack's map of what was sent: every unacknowledged transmission in the order of the stream, with its place
//! in the order of sending (RFC 8985 section 5.2). Times are microseconds of the host's clock.

use std::collections::VecDeque;

use wire::RangeSet;

/// Segment that is not cumulatively acknowledged, with its transmissions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub start: u64,
    pub end: u64,
    /// Time when the segment was last sent.
    pub at: u64,
    /// Place in the order of sending.
    pub order: u64,
    /// Millisecond timestamp of the segment's first transmission.
    pub first_stamp: u32,
    /// Millisecond timestamp of the segment's last transmission.
    pub last_stamp: u32,
    /// Bytes sent again.
    pub retransmitted: u32,
    /// Bytes in flight when the segment was first sent, itself among them.
    pub flight: u32,
    /// Number of times that the segment was sent.
    pub count: u32,
    /// Number of duplicate ACKs while the segment's last transmission was the oldest out.
    pub dupacks: u8,
    pub sacked: bool,
    /// Whether the last transmission is taken for lost.
    pub lost: bool,
    /// Whether the reordering timer has found the segment lost, and it was not sent again yet.
    pub considered_lost: bool,
    /// Whether the segment was sent again because later transmissions were SACKed.
    pub resent_after_later_sack: bool,
    /// Whether the last transmission was a probe.
    pub probe: bool,
    /// Whether nothing could follow the segment when it was the last: its acknowledgement may have been delayed.
    pub last_of_flight: bool,
}

/// Deliveries that an ACK or SACK blocks report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    /// Newly delivered bytes.
    pub bytes: u64,
    /// Entry sent last of those that were delivered.
    pub newest: Option<Entry>,
    /// End of the first of the delivered entries that was sent only once.
    pub once: Option<u64>,
    /// Whether an entry arrived although later transmissions were SACKed before it.
    pub reordered: bool,
}

impl Delivered {
    fn take(&mut self, entry: &Entry, passed: u64) {
        self.reordered |= entry.order < passed;
        if self.newest.is_none_or(|newest| newest.order < entry.order) {
            self.newest = Some(*entry);
        }
        if entry.count == 1 {
            self.once = self.once.or(Some(entry.end));
        }
    }
}

/// The map.
#[derive(Default)]
pub(super) struct SendMap {
    entries: VecDeque<Entry>,
    /// Entries acknowledged and gone: the number of the first in `entries`.
    acked_entries: u64,
    /// Numbers of entries in the order of sending, with the order they had; stale ones are dropped when met.
    send_order: VecDeque<(u64, u64)>,
    /// Orders given out.
    orders: u64,
    pub sacked: RangeSet,
    /// The latest in the order of sending that was SACKed: everything before it was passed.
    pub newest_sacked: u64,
    /// Bytes sent again and not cumulatively acknowledged (rc_holes_rxt).
    pub retransmitted: u64,
    /// Bytes that the reordering timer has found lost and that were not sent again yet (rc_considered_lost).
    pub considered_lost: u64,
}

impl SendMap {
    pub(super) fn get(&self, index: usize) -> &Entry {
        &self.entries[index]
    }

    /// A new transmission.
    pub(super) fn push(&mut self, start: u64, end: u64, at: u64, stamp: u32, flight: u32) {
        self.orders += 1;
        self.send_order.push_back((self.acked_entries + self.entries.len() as u64, self.orders));
        self.entries.push_back(Entry {
            start,
            end,
            at,
            order: self.orders,
            first_stamp: stamp,
            last_stamp: stamp,
            retransmitted: 0,
            flight,
            count: 1,
            dupacks: 0,
            sacked: false,
            lost: false,
            considered_lost: false,
            resent_after_later_sack: false,
            probe: false,
            last_of_flight: false,
        });
    }

    /// Removes what was sent from `start` on, which the host refused: it never was.
    pub(super) fn remove_refused(&mut self, start: u64) {
        while self.entries.back().is_some_and(|last| last.start >= start && last.count == 1) {
            self.entries.pop_back();
            self.send_order.pop_back();
        }
    }

    /// Notes that an entry is sent again; returns the entry.
    pub(super) fn resend(&mut self, index: usize, at: u64, stamp: u32, probe: bool) -> Entry {
        self.orders += 1;
        let passed = self.newest_sacked;
        let entry = &mut self.entries[index];
        let length = entry.end - entry.start;
        entry.lost = false;
        if std::mem::take(&mut entry.considered_lost) {
            self.considered_lost -= length;
        }
        entry.resent_after_later_sack = entry.order < passed;
        (entry.at, entry.last_stamp) = (at, stamp);
        entry.order = self.orders;
        entry.count += 1;
        entry.dupacks = 0;
        entry.probe = probe;
        if !probe {
            entry.retransmitted += length as u32;
            self.retransmitted += length;
        }
        self.send_order.push_back((self.acked_entries + index as u64, self.orders));
        *entry
    }

    /// The transmission longest ago that is neither acknowledged nor SACKed.
    pub(super) fn oldest(&mut self) -> Option<usize> {
        while let Some(&(number, order)) = self.send_order.front() {
            if number >= self.acked_entries {
                let index = (number - self.acked_entries) as usize;
                let entry = &self.entries[index];
                if entry.order == order && !entry.sacked {
                    return Some(index);
                }
            }
            self.send_order.pop_front();
        }
        None
    }

    /// A duplicate ACK counts against the oldest transmission; returns how many have.
    pub(super) fn count_duplicate_ack(&mut self) -> u8 {
        let Some(index) = self.oldest() else { return 0 };
        let entry = &mut self.entries[index];
        entry.dupacks = entry.dupacks.saturating_add(1);
        entry.dupacks
    }

    /// The last two transmissions that are neither acknowledged nor SACKed, the last first.
    pub(super) fn latest(&self) -> (Option<&Entry>, Option<&Entry>) {
        let mut found = self.send_order.iter().rev().filter_map(|&(number, order)| {
            let entry = &self.entries[number.checked_sub(self.acked_entries)? as usize];
            (entry.order == order && !entry.sacked).then_some(entry)
        });
        (found.next(), found.next())
    }

    /// The highest in the stream that is not SACKed.
    pub(super) fn highest(&self) -> Option<usize> {
        self.entries.iter().rposition(|entry| !entry.sacked)
    }

    /// Notes that nothing can follow the last segment now.
    pub(super) fn end_flight(&mut self) {
        if let Some(last) = self.entries.back_mut() {
            last.last_of_flight = true;
        }
    }

    /// Takes an entry for lost.
    pub(super) fn mark_lost(&mut self, index: usize) {
        self.entries[index].lost = true;
    }

    /// Takes the oldest transmissions for lost, as many as were passed by a SACKed one.
    pub(super) fn consider_lost(&mut self) {
        for &(number, order) in &self.send_order {
            let Some(index) = number.checked_sub(self.acked_entries) else { continue };
            let entry = &mut self.entries[index as usize];
            if entry.order != order || entry.sacked {
                continue;
            }
            if entry.order >= self.newest_sacked {
                return;
            }
            if !std::mem::replace(&mut entry.considered_lost, true) {
                self.considered_lost += entry.end - entry.start;
            }
        }
    }

    /// Forgets SACKs after a timeout: nothing is SACKed any more, and nothing has been passed.
    pub(super) fn forget_sacks(&mut self) {
        self.sacked.clear();
        self.newest_sacked = 0;
        self.considered_lost = 0;
        self.send_order.clear();
        for (index, entry) in self.entries.iter_mut().enumerate() {
            entry.sacked = false;
            entry.considered_lost = false;
            entry.resent_after_later_sack = false;
            entry.dupacks = 0;
            self.orders += 1;
            entry.order = self.orders;
            self.send_order.push_back((self.acked_entries + index as u64, entry.order));
        }
    }

    /// Takes in SACK blocks.
    pub(super) fn take_sack(&mut self, blocks: &[(u64, u64)]) -> Delivered {
        let mut delivered = Delivered::default();
        let (entries, lost, passed) = (&mut self.entries, &mut self.considered_lost, self.newest_sacked);
        let mut latest = passed;
        for &(start, end) in blocks {
            delivered.bytes += self.sacked.insert(start, end, |from, to| {
                let first = entries.partition_point(|entry| entry.end <= from);
                for entry in entries.iter_mut().skip(first) {
                    if entry.start >= to {
                        break;
                    }
                    if entry.start >= from && entry.end <= to && !entry.sacked {
                        entry.sacked = true;
                        entry.lost = false;
                        if std::mem::take(&mut entry.considered_lost) {
                            *lost -= entry.end - entry.start;
                        }
                        latest = latest.max(entry.order);
                        delivered.take(entry, passed);
                    }
                }
            });
        }
        self.newest_sacked = latest;
        delivered
    }

    /// Removes what `ack` covers.
    pub(super) fn take_ack(&mut self, ack: u64, una: u64) -> Delivered {
        let mut delivered =
            Delivered { bytes: ack - una - self.sacked.covered_within(una, ack), ..Delivered::default() };
        while let Some(entry) = self.entries.front_mut() {
            let done = entry.end <= ack;
            if !done && entry.start >= ack {
                break;
            }
            let length = entry.end.min(ack) - entry.start;
            let again = if done { entry.retransmitted } else { entry.retransmitted.min(length as u32) };
            entry.retransmitted -= again;
            self.retransmitted -= u64::from(again);
            if entry.considered_lost {
                self.considered_lost -= length;
            }
            if !entry.sacked {
                delivered.take(entry, self.newest_sacked);
            }
            if !done {
                entry.start = ack;
                entry.dupacks = 0;
                break;
            }
            self.entries.pop_front();
            self.acked_entries += 1;
        }
        self.sacked.remove_below(ack);
        delivered
    }
}
