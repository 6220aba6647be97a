//! Filter by which the RACK stack does not read SACKs twice (sack_filter.c).

use wire::seq;

/// Filter of SACK blocks that a release has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SackFilterKind {
    /// Blocks are known when their ACK seems older than the last one (FreeBSD 13).
    LastAck,
    /// Blocks are known when they are on a board of fifteen (FreeBSD 15).
    Islands,
}

/// Blocks that the board holds (SACK_FILTER_BLOCKS).
const BOARD: usize = 15;
/// Blocks that an ACK can bring.
const BLOCKS: usize = 4;

/// The filter of one connection.
#[derive(Clone, Debug)]
pub(super) enum SackFilter {
    LastAck(LastAck),
    Islands(Islands),
}

impl SackFilter {
    pub(super) fn new(kind: SackFilterKind) -> SackFilter {
        match kind {
            SackFilterKind::LastAck => SackFilter::LastAck(LastAck::default()),
            SackFilterKind::Islands => SackFilter::Islands(Islands::default()),
        }
    }

    /// All that is out is acknowledged, or a timeout makes all SACKs news again.
    pub(super) fn clear(&mut self) {
        match self {
            SackFilter::LastAck(filter) => filter.last = None,
            SackFilter::Islands(filter) => filter.board.clear(),
        }
    }

    /// Returns what is read of the blocks that came with `ack`; `max` is the highest sent plus one, `mss` a full
    /// segment.
    pub(super) fn filter(&mut self, blocks: &[(u64, u64)], ack: u64, max: u64, mss: u64) -> News {
        match self {
            SackFilter::LastAck(filter) => {
                let read = if !blocks.is_empty() && filter.passes(ack) { blocks } else { &[] };
                read.iter().copied().collect()
            }
            SackFilter::Islands(filter) => filter.filter(blocks, ack, max, mss),
        }
    }
}

/// The blocks of an ACK that are read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    blocks: [(u64, u64); BLOCKS],
    count: usize,
}

impl std::ops::Deref for News {
    type Target = [(u64, u64)];

    fn deref(&self) -> &[(u64, u64)] {
        &self.blocks[..self.count]
    }
}

impl FromIterator<(u64, u64)> for News {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(blocks: I) -> News {
        let mut news = News::default();
        for (place, block) in news.blocks.iter_mut().zip(blocks) {
            *place = block;
            news.count += 1;
        }
        news
    }
}

/// The acknowledgement that came with the last blocks, in the 32 bits of a sequence number. Only a timeout, or an ACK for all
/// that is out, forgets it. An ACK that is 2^31 bytes or more behind it seems older, and its blocks are taken for known: so
/// are those of a loss that follows the last one after 2 to 4 GiB (sack_filter_blks, is_sack_on_board).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastAck {
    last: Option<u64>,
}

impl LastAck {
    /// Whether the blocks that came with `ack` are read.
    fn passes(&mut self, ack: u64) -> bool {
        let Some(last) = self.last else {
            self.last = Some(ack);
            return true;
        };
        if seq::before(ack as u32, last as u32) {
            return ack < last;
        }
        self.last = Some(ack);
        true
    }
}

/// The blocks that were read. What an ACK adds to them is read while there is room for another; once fifteen are held nothing
/// is, and what then only made one of them larger is never read (sack_filter_run).
#[derive(Clone, Debug, Default)]
pub(super) struct Islands {
    board: Vec<(u64, u64)>,
}

impl Islands {
    fn filter(&mut self, blocks: &[(u64, u64)], ack: u64, max: u64, mss: u64) -> News {
        self.board.retain_mut(|block| {
            block.0 = block.0.max(ack);
            block.0 < block.1
        });
        let room = BOARD - self.board.len();
        let news: News = blocks.iter().filter_map(|&block| self.add(block, ack, max, mss)).collect();
        let news: News = news.iter().copied().take(room).collect();
        for &block in news.iter() {
            self.board.push(block);
        }
        self.collapse();
        news
    }

    /// Adds a block, and returns what of it is not on the board. A block of the board that it touches is made
    /// larger by it; pieces below a segment that do not end where the stream does are taken for known.
    fn add(&mut self, (start, end): (u64, u64), ack: u64, max: u64, mss: u64) -> Option<(u64, u64)> {
        let (mut start, mut end) = (start.max(ack), end.max(ack));
        for known in &mut self.board {
            if known.0 <= start && end <= known.1 {
                return None;
            }
            if end < known.0 || known.1 < start {
                continue;
            }
            if known.0 <= start {
                (start, known.1) = (known.1, end);
            } else if end <= known.1 {
                (end, known.0) = (known.0, start);
            }
        }
        let small = end.saturating_sub(start) < mss && end != max;
        (start < end && !small).then_some((start, end))
    }

    /// Blocks that meet become one.
    fn collapse(&mut self) {
        self.board.sort_unstable();
        self.board.dedup_by(|next, kept| {
            let meets = next.0 <= kept.1;
            if meets {
                kept.1 = kept.1.max(next.1);
            }
            meets
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn passes(filter: &mut SackFilter, ack: u64) -> bool {
        !filter.filter(&[(ack + MSS, ack + 2 * MSS)], ack, u64::MAX, MSS).is_empty()
    }

    /// Between the recoveries of the recorded `f13rack_cubic_1g_41ms_b256` at 41.6 s and at 65.2 s lie 2.5 GB, and SACKs
    /// of the second do nothing.
    #[test]
    fn two_to_four_gib_after_the_last_sack_the_next_ones_are_not_read() {
        for (bytes, read) in
            [(1, true), (0x7fff_ffff, true), (0x8000_0001, false), (0xffff_ffff, false), (1 << 32, true)]
        {
            let mut filter = SackFilter::new(SackFilterKind::LastAck);
            assert!(passes(&mut filter, 1000));
            assert_eq!(passes(&mut filter, 1000 + bytes), read, "{bytes} bytes on");
            assert_eq!(
                passes(&mut filter, 2000 + bytes),
                read || bytes == 0xffff_ffff,
                "{bytes} bytes on, the next ACK"
            );
            filter.clear();
            assert!(passes(&mut filter, 3000 + bytes));
            let mut filter = SackFilter::new(SackFilterKind::Islands);
            assert!(passes(&mut filter, 1000) && passes(&mut filter, 1000 + bytes.next_multiple_of(MSS)));
        }
    }

    #[test]
    fn an_ack_that_was_overtaken_is_read() {
        let mut filter = SackFilter::new(SackFilterKind::LastAck);
        assert!(passes(&mut filter, 5000));
        assert!(passes(&mut filter, 4000));
    }

    /// The blocks of ACKs for nothing, as they come and as they are read.
    fn read(filter: &mut SackFilter, block: (u64, u64)) -> Vec<(u64, u64)> {
        let scaled = (block.0 * MSS, block.1 * MSS);
        let news = filter.filter(&[scaled], 0, u64::MAX, MSS);
        news.iter().map(|&(start, end)| (start / MSS, end / MSS)).collect()
    }

    #[test]
    fn what_a_block_adds_to_the_board_is_read_once() {
        let mut filter = SackFilter::new(SackFilterKind::Islands);
        assert_eq!(read(&mut filter, (2, 4)), [(2, 4)]);
        assert_eq!(read(&mut filter, (2, 4)), []);
        assert_eq!(read(&mut filter, (2, 7)), [(4, 7)]);
        assert_eq!(read(&mut filter, (1, 3)), [(1, 2)]);
        assert_eq!(read(&mut filter, (9, 10)), [(9, 10)]);
        assert_eq!(read(&mut filter, (7, 10)), [(7, 9)]);
        assert_eq!(read(&mut filter, (1, 10)), []);
        assert_eq!(filter.filter(&[(20_000, 20_400)], 0, u64::MAX, MSS).len(), 0, "less than a segment");
        assert_eq!(filter.filter(&[(20_000, 20_400)], 0, 20_400, MSS).len(), 1, "the end of the stream");
    }

    #[test]
    fn the_sixteenth_island_is_not_read_until_an_ack_makes_room() {
        let mut filter = SackFilter::new(SackFilterKind::Islands);
        for island in 1..=15 {
            assert_eq!(read(&mut filter, (2 * island, 2 * island + 1)).len(), 1, "island {island}");
        }
        assert_eq!(read(&mut filter, (32, 33)), []);
        assert_eq!(read(&mut filter, (30, 32)), [], "it grows the fifteenth, and nobody learns of it");
        let news = filter.filter(&[(32 * MSS, 33 * MSS)], 4 * MSS, u64::MAX, MSS);
        assert_eq!(&*news, [(32 * MSS, 33 * MSS)]);
        assert_eq!(read(&mut filter, (30, 33)), [], "the growth is taken for known");
        filter.clear();
        assert_eq!(read(&mut filter, (30, 33)), [(30, 33)]);
    }
}
