//! A TCP segment: header, options, stream offset and length, without its payload.

use std::ops::{BitAnd, BitOr, BitOrAssign};

use crate::fast_open::Cookie;

/// Header flags (RFC 9293 section 3.1, RFC 3168 section 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement field is valid.
    pub const ACK: Flags = Flags(0x10);
    /// Urgent (never sent).
    pub const URG: Flags = Flags(0x20);
    /// ECN echo.
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced.
    pub const CWR: Flags = Flags(0x80);
    /// Accurate ECN: with CWR and ECE a counter of marks (RFC 9768 section 3.2.2).
    pub const AE: Flags = Flags(0x100);
    /// All flags in which a receiver may tell of marks.
    pub const FEEDBACK: Flags = Flags(0x1c0);

    /// Whether all of `flags` are set.
    #[inline]
    pub fn has(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitAnd for Flags {
    type Output = Flags;
    #[inline]
    fn bitand(self, other: Flags) -> Flags {
        Flags(self.0 & other.0)
    }
}

impl BitOr for Flags {
    type Output = Flags;
    #[inline]
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    #[inline]
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

/// Options that a segment carries, besides SACK blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options(pub u8);

impl Options {
    /// Maximum segment size, in [`Segment::mss`].
    pub const MSS: Options = Options(1);
    /// Window scale, in [`Segment::wscale`].
    pub const WSCALE: Options = Options(2);
    /// SACK permitted (RFC 2018).
    pub const SACK_PERMITTED: Options = Options(4);
    /// Timestamps (RFC 7323), in [`Segment::tsval`] and [`Segment::tsecr`].
    pub const TIMESTAMPS: Options = Options(8);
    /// Byte counters of Accurate ECN (RFC 9768 section 3.2.3), in [`Segment::accecn`].
    pub const ACCECN: Options = Options(16);
    /// No option, and not on the wire: flags AE, CWR and ECE are a counter, so that segmentation offload repeats them in every packet
    /// and receive aggregation compares them.
    pub const ACE: Options = Options(32);
    /// A cookie of Fast Open, or the request for one (RFC 7413), in [`Segment::cookie`]. Only on segments with SYN.
    pub const FAST_OPEN: Options = Options(64);

    /// No option, and not on the wire: the packet is no segment, but a router's message about one. Only a simulated network has such.
    pub const ICMP: Options = Options(64);

    /// Whether all of `options` are present.
    #[inline]
    pub fn has(self, options: Options) -> bool {
        self.0 & options.0 == options.0
    }
}

impl BitOr for Options {
    type Output = Options;
    #[inline]
    fn bitor(self, other: Options) -> Options {
        Options(self.0 | other.0)
    }
}

impl BitOrAssign for Options {
    #[inline]
    fn bitor_assign(&mut self, other: Options) {
        self.0 |= other.0;
    }
}

/// Byte counters of Accurate ECN as the option holds them (RFC 9768 section 3.2.3): up to three of 24 bits, in one of two orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccEcnCounters {
    counters: [u8; 9],
    /// Number of counters, and the order.
    shape: u8,
}

impl AccEcnCounters {
    /// Kind of the option that begins with ECT(0): AccECN0.
    pub const ORDER_0: u8 = 172;
    /// Kind of the option that begins with ECT(1): AccECN1.
    pub const ORDER_1: u8 = 174;
    const E1_FIRST: u8 = 4;

    /// An option of `kind`, one of the two orders, without counters.
    #[inline]
    pub fn new(kind: u8) -> AccEcnCounters {
        let shape = if kind == Self::ORDER_1 { Self::E1_FIRST } else { 0 };
        AccEcnCounters { counters: [0; 9], shape }
    }

    /// An option that begins with ECT(1) and has all three counters, of each of which 24 bits remain.
    #[inline]
    pub fn complete(counters: [u32; 3]) -> AccEcnCounters {
        let [first, second, third] = counters.map(|counter| u64::from(counter & 0xff_ffff));
        let mut bytes = [counters[2] as u8; 9];
        bytes[..8].copy_from_slice(&(first << 40 | second << 16 | third >> 8).to_be_bytes());
        AccEcnCounters { counters: bytes, shape: Self::E1_FIRST | 3 }
    }

    /// Appends a counter, of which 24 bits remain; a fourth is ignored.
    #[inline]
    pub fn push(&mut self, counter: u32) {
        let count = self.len();
        if count < 3 {
            let [_, bytes @ ..] = counter.to_be_bytes();
            self.counters[3 * count..3 * count + 3].copy_from_slice(&bytes);
            self.shape += 1;
        }
    }

    /// Number of counters.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.shape & 3)
    }

    /// Whether the option holds none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Kind of the option: its order.
    #[inline]
    pub fn kind(&self) -> u8 {
        if self.shape & Self::E1_FIRST != 0 { Self::ORDER_1 } else { Self::ORDER_0 }
    }

    /// Each counter with what it counts the bytes of, in the option's order: ECT(1), CE, ECT(0), or from the other end.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (Ecn, u32)> + '_ {
        let order = match self.kind() {
            Self::ORDER_1 => [Ecn::Ect1, Ecn::Ce, Ecn::Ect0],
            _ => [Ecn::Ect0, Ecn::Ce, Ecn::Ect1],
        };
        let [a, b, c, d, e, f, g, h, last] = self.counters;
        let word = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let values = [word >> 40, word >> 16 & 0xff_ffff, (word & 0xffff) << 8 | u64::from(last)];
        order.into_iter().zip(values.map(|value| value as u32)).take(self.len())
    }

    /// Bytes of the option without padding.
    #[inline]
    pub fn bytes(&self) -> u32 {
        2 + 3 * self.len() as u32
    }
}

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0,
    /// ECT(1).
    Ect1 = 1,
    /// ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

/// Up to four SACK blocks, first one first (RFC 2018 section 3), as `(left edge, right edge)` on the wire.
#[derive(Clone, Copy, Debug, Default)]
pub struct SackBlocks {
    edges: [(u32, u32); 4],
    count: u8,
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &SackBlocks) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

impl SackBlocks {
    /// The most blocks a segment can hold.
    pub const MAX: usize = 4;

    /// Appends a block; a fifth is ignored.
    #[inline]
    pub fn push(&mut self, left: u32, right: u32) {
        if (self.count as usize) < Self::MAX {
            self.edges[self.count as usize] = (left, right);
            self.count += 1;
        }
    }

    /// Removes all blocks.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Keeps the first `count` blocks.
    #[inline]
    pub fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count as u8);
    }

    /// The blocks in order.
    #[inline]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.edges[..self.count as usize]
    }

    /// Number of blocks.
    #[inline]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A SYN has no SACK blocks: a cookie of Fast Open takes their place, so that no segment is larger for it.
impl Segment {
    /// Puts a cookie, or the request for one, on a SYN.
    pub fn set_cookie(&mut self, cookie: Cookie) {
        let [head, a, b, c, d] = cookie.words();
        self.sack = SackBlocks { edges: [(head, 0), (a, b), (c, d), (0, 0)], count: 0 };
        self.options |= Options::FAST_OPEN;
    }

    /// Takes the cookie off a SYN.
    pub fn clear_cookie(&mut self) {
        self.options.0 &= !Options::FAST_OPEN.0;
    }

    /// The cookie of a SYN.
    pub fn cookie(&self) -> Option<Cookie> {
        let [(head, _), (a, b), (c, d), _] = self.sack.edges;
        self.options.has(Options::FAST_OPEN).then(|| Cookie::of_words([head, a, b, c, d]))
    }
}

/// A segment without its bytes. Drivers that need payload keep rings indexed by [`Segment::offset`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Offset in the stream of the first payload byte, from 0. Set on output; not carried on the wire.
    pub offset: u64,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Payload bytes. May exceed the MSS before segmentation offload or after aggregation.
    pub len: u32,
    /// Timestamp value.
    pub tsval: u32,
    /// Timestamp echo reply.
    pub tsecr: u32,
    /// SACK blocks.
    pub sack: SackBlocks,
    /// Counters of [`Options::ACCECN`].
    pub accecn: AccEcnCounters,
    /// The window field, unscaled as on the wire.
    pub window: u16,
    /// MSS option.
    pub mss: u16,
    /// Window scale option.
    pub wscale: u8,
    /// Header flags.
    pub flags: Flags,
    /// Options present.
    pub options: Options,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Number of received frames that an aggregating receiver (LRO, GRO) merged into this one; 1 on the wire.
    pub frames: u16,
}

/// IPv4 header without options.
pub const IPV4_HEADER: u32 = 20;
/// IPv6 header without extension headers (RFC 8200 section 3).
pub const IPV6_HEADER: u32 = 40;
/// TCP header without options.
pub const TCP_HEADER: u32 = 20;
/// Timestamps with the two NOPs before them, outside a SYN (RFC 7323 appendix A).
pub const TIMESTAMPS_BYTES: u32 = 12;
/// The MSS of a peer that announces none (RFC 9293 section 3.7.1), or 0, which Linux and FreeBSD take for none.
pub const DEFAULT_MSS: u16 = 536;
/// The largest value of a window field.
pub const MAX_WINDOW: u64 = 65_535;
/// The largest shift of a window field (RFC 7323 section 2.3).
pub const MAX_WINDOW_SHIFT: u8 = 14;

impl Segment {
    /// Bytes of TCP options, padded to a multiple of four, in the layout common to the modelled systems:
    /// timestamps take 12 with two NOPs, n SACK blocks 8n + 4.
    #[inline]
    pub fn option_bytes(&self) -> u32 {
        if self.options == Options::TIMESTAMPS && self.sack.is_empty() {
            TIMESTAMPS_BYTES
        } else {
            self.other_option_bytes()
        }
    }

    /// [`Segment::option_bytes`] of a segment that carries more, or less, than timestamps.
    fn other_option_bytes(&self) -> u32 {
        let in_syn = Options::MSS.0 | Options::WSCALE.0 | Options::SACK_PERMITTED.0 | Options::FAST_OPEN.0;
        let opens = self.options.0 & in_syn != 0;
        let counted = Options::TIMESTAMPS | Options::ACCECN;
        if !opens && self.options.has(counted) && self.sack.is_empty() {
            return TIMESTAMPS_BYTES + ((self.accecn.bytes() + 3) & !3);
        }
        let mut bytes = 0;
        if opens {
            if self.options.has(Options::MSS) {
                bytes += 4;
            }
            if self.options.has(Options::WSCALE) {
                bytes += 3;
            }
            if self.options.has(Options::SACK_PERMITTED) {
                bytes += 2;
            }
            if self.options.has(Options::TIMESTAMPS) {
                bytes += 10;
            }
            bytes = (bytes + 3) & !3;
        } else if self.options.has(Options::TIMESTAMPS) {
            bytes = TIMESTAMPS_BYTES;
        }
        if self.options.has(Options::ACCECN) {
            // Up to two bytes stand where padding before SACK blocks would.
            let whole = self.accecn.bytes();
            let rest = if self.sack.is_empty() || opens { 0 } else { 2 };
            bytes += if whole % 4 <= rest { whole & !3 } else { (whole + 3) & !3 };
        }
        if let Some(cookie) = self.cookie() {
            bytes += (cookie.option_bytes() + 3) & !3;
        }
        if !self.sack.is_empty() {
            bytes += 8 * self.sack.len() as u32 + 4;
        }
        bytes
    }

    /// Length of header, options and payload in bytes. The IP header comes on top.
    #[inline]
    pub fn tcp_bytes(&self) -> u32 {
        TCP_HEADER + self.option_bytes() + self.len
    }

    /// Sequence space the segment occupies: payload, SYN and FIN.
    #[inline]
    pub fn seq_len(&self) -> u32 {
        self.len + u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_segment_with_timestamps_is_1500_bytes() {
        let segment = Segment { len: 1448, options: Options::TIMESTAMPS, ..Segment::default() };
        assert_eq!(segment.tcp_bytes(), 1480);
    }

    #[test]
    fn three_sack_blocks_beside_timestamps_take_40_option_bytes() {
        let mut segment = Segment { options: Options::TIMESTAMPS, ..Segment::default() };
        for block in 0..3 {
            segment.sack.push(block * 10, block * 10 + 5);
        }
        assert_eq!(segment.option_bytes(), 40);
    }

    #[test]
    fn counters_of_accurate_ecn_fill_the_padding_before_sack_blocks() {
        let mut segment = Segment { options: Options::TIMESTAMPS | Options::ACCECN, ..Segment::default() };
        segment.accecn = AccEcnCounters::new(AccEcnCounters::ORDER_1);
        let lengths = |segment: &Segment| segment.option_bytes() - TIMESTAMPS_BYTES;
        let mut alone = vec![lengths(&segment)];
        let mut beside = vec![lengths(&Segment { sack: one_block(), ..segment }) - 12];
        for counter in [0x0102_0304, 5, 6] {
            segment.accecn.push(counter);
            alone.push(lengths(&segment));
            beside.push(lengths(&Segment { sack: one_block(), ..segment }) - 12);
        }
        assert_eq!(alone, [4, 8, 8, 12]);
        assert_eq!(beside, [0, 4, 8, 12]);
        assert_eq!(AccEcnCounters::complete([0x0102_0304, 5, 6]), segment.accecn);
        let counters: Vec<(Ecn, u32)> = segment.accecn.iter().collect();
        assert_eq!(counters, [(Ecn::Ect1, 0x02_0304), (Ecn::Ce, 5), (Ecn::Ect0, 6)]);
    }

    fn one_block() -> SackBlocks {
        let mut blocks = SackBlocks::default();
        blocks.push(1, 2);
        blocks
    }

    #[test]
    fn a_syn_with_all_options_has_20_option_bytes() {
        let options = Options::MSS | Options::WSCALE | Options::SACK_PERMITTED | Options::TIMESTAMPS;
        let segment = Segment { flags: Flags::SYN, options, ..Segment::default() };
        assert_eq!(segment.option_bytes(), 20);
        assert_eq!(segment.seq_len(), 1);
    }
}
