//! FreeBSD's SACK scoreboard: a short list of holes between what is acknowledged and the highest byte SACKed.

use std::collections::VecDeque;

/// Bytes not acknowledged below bytes that are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// First missing byte.
    pub start: u64,
    /// End of the hole: one past the last missing byte.
    pub end: u64,
    /// Next byte to send again; `end` when all of it was.
    pub rxmit: u64,
    /// Highest byte sent when the hole was last retransmitted to its end: a SACK above it shows that the
    /// retransmission was lost too.
    pub sent_to: u64,
}

/// The scoreboard. Holes ascend and never touch; a hole's cost is met once when it is made and once when it goes.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    holes: VecDeque<Hole>,
    /// Number one past the highest byte SACKed (snd_fack).
    pub fack: u64,
    /// Bytes of holes that were sent again (sack_bytes_rexmit).
    pub rexmit: u64,
    /// Bytes SACKed above the cumulative acknowledgement.
    pub sacked: u64,
    /// Bytes the last ACK newly delivered, cumulatively or by SACK.
    pub delivered: u64,
    /// Bytes of holes with enough SACKed above them to be taken for lost (RFC 6675 IsLost).
    pub lost: u64,
    /// Bytes of all holes.
    missing: u64,
    /// Holes before this index are wholly retransmitted.
    next: usize,
    max_holes: usize,
}

impl Scoreboard {
    /// An empty scoreboard for at most `max_holes` holes (net.inet.tcp.sack.maxholes).
    pub fn new(max_holes: usize) -> Scoreboard {
        Scoreboard {
            holes: VecDeque::new(),
            fack: 0,
            rexmit: 0,
            sacked: 0,
            delivered: 0,
            lost: 0,
            missing: 0,
            next: 0,
            max_holes,
        }
    }

    /// Whether there is no hole.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.holes.is_empty()
    }

    /// The first and the last hole, to be prefetched.
    pub(super) fn ends(&self) -> [Option<&Hole>; 2] {
        [self.holes.front(), self.holes.back()]
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.holes.clear();
        self.rexmit = 0;
        self.sacked = 0;
        self.lost = 0;
        self.missing = 0;
        self.next = 0;
    }

    /// Takes in an ACK: SACK blocks (clipped to what is sent, above `ack`) and the cumulative advance from `una`.
    /// Returns whether it said anything new.
    pub fn update(&mut self, una: u64, ack: u64, blocks: &[(u64, u64)]) -> bool {
        self.delivered = 0;
        let advance = ack > una && !self.holes.is_empty();
        if !advance && blocks.is_empty() {
            return false;
        }
        if self.holes.is_empty() {
            self.fack = una.max(ack);
            self.sacked = 0;
            self.rexmit = 0;
            self.next = 0;
        }
        let mut changed = false;
        let mut sorted = [(0u64, 0u64); 5];
        let mut count = 0;
        if advance {
            sorted[0] = (una, ack);
            count = 1;
            if self.fack < ack {
                self.delivered += ack - self.fack;
                self.fack = ack;
                changed = true;
            }
        }
        for &block in blocks.iter().take(4) {
            let mut at = count;
            while at > 0 && sorted[at - 1].0 > block.0 {
                sorted[at] = sorted[at - 1];
                at -= 1;
            }
            sorted[at] = block;
            count += 1;
        }
        for &(start, end) in &sorted[..count] {
            changed |= self.take(start, end);
        }
        let advanced = if advance { ack - una } else { 0 };
        self.sacked = (self.sacked + self.delivered).saturating_sub(advanced);
        changed
    }

    /// Marks `start..end` as received.
    fn take(&mut self, start: u64, end: u64) -> bool {
        let mut changed = false;
        if start < self.fack {
            changed = self.cut(start, end.min(self.fack));
        }
        if start > self.fack {
            if self.holes.len() >= self.max_holes {
                return changed;
            }
            self.holes.push_back(Hole { start: self.fack, end: start, rxmit: self.fack, sent_to: 0 });
            self.missing += start - self.fack;
            self.delivered += end - start;
            self.fack = end;
            return true;
        }
        if end > self.fack {
            self.delivered += end - self.fack;
            self.fack = end;
            changed = true;
        }
        changed
    }

    /// Removes `start..end` from the holes.
    fn cut(&mut self, start: u64, end: u64) -> bool {
        let mut index = match self.holes.front() {
            None => return false,
            Some(first) if first.start >= end => return false,
            Some(first) if first.end > start => 0,
            _ => self.holes.partition_point(|hole| hole.end <= start),
        };
        let mut changed = false;
        while let Some(&hole) = self.holes.get(index) {
            if hole.start >= end {
                break;
            }
            changed = true;
            self.rexmit -= hole.rxmit - hole.start;
            let filled = end.min(hole.end) - start.max(hole.start);
            self.delivered += filled;
            self.missing -= filled;
            let left = Hole { end: hole.end.min(start), rxmit: hole.rxmit.min(start), ..hole };
            let right = Hole { start: hole.start.max(end), rxmit: hole.rxmit.max(end), ..hole };
            let keeps_left = hole.start < start;
            let keeps_right = end < hole.end;
            match (keeps_left, keeps_right) {
                (false, false) => {
                    self.holes.remove(index);
                    self.next -= usize::from(index < self.next);
                    continue;
                }
                (true, false) => self.holes[index] = left,
                (false, true) => self.holes[index] = right,
                (true, true) if self.holes.len() >= self.max_holes => {
                    // No room to remember both sides.
                    self.delivered -= filled;
                    self.missing += filled;
                    self.rexmit += hole.rxmit - hole.start;
                    return false;
                }
                (true, true) => {
                    self.holes[index] = left;
                    self.holes.insert(index + 1, right);
                    self.next += usize::from(index < self.next);
                    self.rexmit += right.rxmit - right.start;
                }
            }
            let hole = self.holes[index];
            self.rexmit += hole.rxmit - hole.start;
            index += 1 + usize::from(keeps_left && keeps_right);
        }
        changed
    }

    /// The first hole with something not yet sent again.
    #[inline]
    pub fn next_hole(&mut self) -> Option<&mut Hole> {
        while self.next < self.holes.len() && self.holes[self.next].rxmit >= self.holes[self.next].end {
            self.next += 1;
        }
        self.holes.get_mut(self.next)
    }

    /// `len` bytes of the hole [`Scoreboard::next_hole`] named were sent again; `max` is the highest byte ever sent.
    pub fn sent(&mut self, len: u64, max: u64) {
        let hole = &mut self.holes[self.next];
        hole.rxmit += len;
        hole.sent_to = max;
        self.rexmit += len;
    }

    /// Takes back the last [`Scoreboard::sent`]: the host's own queue refused the segment.
    pub fn unsent(&mut self, seq: u64, len: u64) {
        let index = self.holes.partition_point(|hole| hole.end <= seq);
        if let Some(hole) = self.holes.get_mut(index) {
            let back = len.min(hole.rxmit - hole.start);
            hole.rxmit -= back;
            self.rexmit -= back;
            self.next = self.next.min(index);
        }
    }

    /// All holes may be sent again.
    pub fn resend_all(&mut self) {
        for hole in &mut self.holes {
            hole.rxmit = hole.start;
        }
        self.rexmit = 0;
        self.next = 0;
    }

    /// Whether the first hole's retransmission was lost: all of it was sent again and a byte sent later is SACKed.
    pub fn lost_retransmission(&self) -> bool {
        self.holes.front().is_some_and(|hole| hole.rxmit >= hole.end && self.fack > hole.sent_to)
    }

    /// Marks every hole whose retransmission was lost for sending again.
    pub fn resend_lost(&mut self) {
        let fack = self.fack;
        for hole in &mut self.holes {
            if hole.rxmit >= hole.end && fack > hole.sent_to {
                self.rexmit -= hole.rxmit - hole.start;
                hole.rxmit = hole.start;
            }
        }
        self.next = 0;
    }

    /// Adds a hole over the last segment below `recover`, to be sent again (rescue retransmission, RFC 6675 section 5).
    pub fn add_rescue(&mut self, start: u64, end: u64) {
        if self.holes.is_empty() {
            self.rexmit = 0;
            self.sacked = 0;
            self.fack = end;
            self.next = 0;
            self.missing = end - start;
            self.lost = 0;
            self.holes.push_back(Hole { start, end, rxmit: start, sent_to: 0 });
        }
    }

    /// Place where go-back-N continues: `nxt`, moved over what is SACKed.
    pub fn skip_sacked(&self, nxt: u64) -> u64 {
        if self.holes.is_empty() || nxt >= self.fack {
            return nxt;
        }
        let index = self.holes.partition_point(|hole| hole.end <= nxt);
        match self.holes.get(index) {
            // The holes begin above: below them everything is cumulatively acknowledged, or about to be.
            Some(hole) if index > 0 || hole.start <= nxt => nxt.max(hole.start),
            Some(_) => nxt,
            None => self.fack,
        }
    }

    /// Recomputes [`Scoreboard::lost`]: holes above which more than `2 * mss` bytes or at least three separate blocks are
    /// SACKed (RFC 6675 section 4, IsLost).
    pub fn mark_lost(&mut self, mss: u64) {
        let mut above = 0;
        let mut blocks = 0;
        let mut upper = self.fack;
        let mut not_lost = 0;
        for hole in self.holes.iter().rev() {
            above += upper - hole.end;
            blocks += u32::from(upper > hole.end);
            if above > 2 * mss || blocks >= 3 {
                break;
            }
            not_lost += hole.end - hole.start;
            upper = hole.start;
        }
        self.lost = self.missing - not_lost;
    }

    /// The holes in ascending order.
    pub fn holes(&self) -> impl Iterator<Item = &Hole> {
        self.holes.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn holes(board: &Scoreboard) -> Vec<(u64, u64)> {
        board.holes().map(|hole| (hole.start, hole.end)).collect()
    }

    #[test]
    fn blocks_make_holes_and_repairs_close_them() {
        let mut board = Scoreboard::new(128);
        assert!(board.update(100, 100, &[(120, 130)]));
        assert_eq!(holes(&board), [(100, 120)]);
        assert!(board.update(100, 100, &[(140, 150), (120, 130)]));
        assert_eq!(holes(&board), [(100, 120), (130, 140)]);
        assert_eq!((board.fack, board.sacked), (150, 20));
        assert!(!board.update(100, 100, &[(140, 150)]), "nothing new");
        assert!(board.update(100, 130, &[(140, 150)]));
        assert_eq!(holes(&board), [(130, 140)]);
        assert_eq!((board.sacked, board.delivered), (10, 20));
        assert!(board.update(130, 150, &[]));
        assert!(board.is_empty());
    }

    #[test]
    fn a_retransmitted_part_stays_counted_when_a_hole_is_split() {
        let mut board = Scoreboard::new(128);
        board.update(0, 0, &[(40, 50)]);
        assert_eq!(board.next_hole().map(|hole| hole.start), Some(0));
        board.sent(30, 50);
        assert!(board.update(0, 0, &[(10, 20)]));
        assert_eq!(holes(&board), [(0, 10), (20, 40)]);
        assert_eq!(board.rexmit, 20);
        assert_eq!(board.next_hole().map(|hole| hole.rxmit), Some(30));
    }

    #[test]
    fn follows_a_model_of_sets() {
        // A plain generator: the same cases on every machine.
        let mut state = 7u64;
        let mut draw = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..200 {
            let mut board = Scoreboard::new(128);
            let mut una = 0u64;
            let mut received: BTreeSet<u64> = BTreeSet::new();
            for _ in 0..40 {
                let start = una + 1 + draw(60);
                let end = start + 1 + draw(12);
                received.extend(start..end);
                let mut ack = una;
                if draw(4) == 0 {
                    received.insert(ack);
                }
                while received.contains(&ack) {
                    ack += 1;
                }
                let blocks: Vec<(u64, u64)> =
                    if start.max(ack) < end { vec![(start.max(ack), end)] } else { vec![] };
                let before = board.sacked;
                board.update(una, ack, &blocks);
                if ack > una && blocks.is_empty() && before == 0 {
                    board.clear();
                }
                una = ack;
                received = received.split_off(&una);
                let top = received.last().map_or(una, |last| last + 1);
                let missing: Vec<u64> = (una..top).filter(|byte| !received.contains(byte)).collect();
                let held: Vec<u64> = board.holes().flat_map(|hole| hole.start..hole.end).collect();
                assert_eq!(held, missing);
                if !board.is_empty() {
                    assert_eq!(board.sacked, received.len() as u64);
                }
                if let Some(hole) = board.next_hole() {
                    let len = (hole.end - hole.rxmit).min(1 + draw(6));
                    board.sent(len, top);
                }
                let again: u64 = board.holes().map(|hole| hole.rxmit - hole.start).sum();
                assert_eq!(board.rexmit, again);
            }
        }
    }
}
