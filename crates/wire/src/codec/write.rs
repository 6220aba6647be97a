//! Segments to bytes, with the options laid out as real systems do.

use super::{Address, Ends, MAX_OPTIONS, PROTOCOL_TCP, Payload, SynLayout, kind, pseudo_tail};
use crate::checksum::{self, sum};
use crate::fast_open::Cookie;
use crate::segment::{Options, Segment, TCP_HEADER};

/// Appends an IP packet to `buf` and returns its length in bytes on the wire. TTL or hop limit 64, don't fragment;
/// `label` is the identification of IPv4 or the flow label of IPv6.
///
/// A packet above 65,535 bytes gets the length 0, as Linux writes before segmentation offload. SACK blocks that do
/// not fit the 40 bytes of options are left out.
///
/// # Panics
///
/// When [`Payload::Bytes`] has another length than the segment.
pub fn write<A: Address>(
    buf: &mut Vec<u8>,
    segment: &Segment,
    ends: &Ends<A>,
    layout: SynLayout,
    label: u32,
    payload: Payload<'_>,
) -> u32 {
    let start = buf.len();
    let options = OptionBytes::of(segment, layout);
    let tcp_length = TCP_HEADER + options.length as u32 + segment.len;
    buf.extend_from_slice(A::header(ends, PROTOCOL_TCP, segment.ecn, label, tcp_length).as_ref());
    let pseudo = A::sum(ends) + pseudo_tail(tcp_length);
    write_tcp(buf, segment, ends.sport, ends.dport, &options, pseudo, payload);
    let ip_length = A::HEADER + tcp_length;
    keep(buf, start, ip_length, payload);
    ip_length
}

fn write_tcp(
    buf: &mut Vec<u8>,
    segment: &Segment,
    sport: u16,
    dport: u16,
    options: &OptionBytes,
    pseudo: u64,
    payload: Payload<'_>,
) {
    let mut header = [0u8; TCP_HEADER as usize];
    header[0..2].copy_from_slice(&sport.to_be_bytes());
    header[2..4].copy_from_slice(&dport.to_be_bytes());
    header[4..8].copy_from_slice(&segment.seq.to_be_bytes());
    header[8..12].copy_from_slice(&segment.ack.to_be_bytes());
    // The length in 32-bit words, three unused bits, and nine flags.
    let words = (TCP_HEADER as usize + options.length) as u16 / 4;
    header[12..14].copy_from_slice(&(words << 12 | segment.flags.0).to_be_bytes());
    header[14..16].copy_from_slice(&segment.window.to_be_bytes());
    let data = match payload {
        Payload::Bytes(bytes) => {
            assert_eq!(bytes.len(), segment.len as usize, "the payload is as long as the segment says");
            bytes
        }
        Payload::Zeros { .. } => &[],
    };
    let checksum = checksum::of(pseudo + sum(&header) + sum(options.as_slice()) + sum(data));
    header[16..18].copy_from_slice(&checksum.to_be_bytes());
    buf.extend_from_slice(&header);
    buf.extend_from_slice(options.as_slice());
    buf.extend_from_slice(data);
}

/// Fills up with zeros, or cuts, to what of the packet is kept.
pub(crate) fn keep(buf: &mut Vec<u8>, start: usize, ip_length: u32, payload: Payload<'_>) {
    if let Payload::Zeros { snaplen } = payload {
        buf.resize(start + ip_length.min(snaplen) as usize, 0);
    }
}

/// The options of one segment on their way to the wire; a multiple of four bytes.
pub(super) struct OptionBytes {
    bytes: [u8; MAX_OPTIONS],
    length: usize,
}

impl OptionBytes {
    #[inline]
    pub(super) fn of(segment: &Segment, layout: SynLayout) -> OptionBytes {
        let mut options = OptionBytes { bytes: [kind::END; MAX_OPTIONS], length: 0 };
        let has = |option| segment.options.has(option);
        let in_syn = Options::MSS.0 | Options::WSCALE.0 | Options::SACK_PERMITTED.0 | Options::FAST_OPEN.0;
        if segment.options.0 & in_syn == 0 {
            if has(Options::TIMESTAMPS) {
                options.timestamps(segment);
            }
            if has(Options::ACCECN) {
                options.accecn(segment, !segment.sack.is_empty());
            }
        } else {
            if has(Options::MSS) {
                options.put(&[kind::MSS, 4]);
                options.put(&segment.mss.to_be_bytes());
            }
            match layout {
                SynLayout::FreeBsd => {
                    if has(Options::WSCALE) {
                        options.window_scale(segment);
                    }
                    if has(Options::SACK_PERMITTED) {
                        options.put(&[kind::SACK_PERMITTED, 2]);
                    }
                    if has(Options::TIMESTAMPS) {
                        options.timestamps(segment);
                    }
                }
                SynLayout::Linux => {
                    // Counters stand behind timestamps, whose word SACK permitted shares, and before it where it is by itself.
                    if has(Options::ACCECN) && !has(Options::TIMESTAMPS) {
                        options.accecn(segment, false);
                    }
                    options.sack_permitted_and_timestamps(segment);
                    if has(Options::ACCECN) && has(Options::TIMESTAMPS) {
                        options.accecn(segment, false);
                    }
                    if has(Options::WSCALE) {
                        options.window_scale(segment);
                    }
                }
                SynLayout::Windows => {
                    if has(Options::WSCALE) {
                        options.window_scale(segment);
                    }
                    options.sack_permitted_and_timestamps(segment);
                }
            }
            if has(Options::ACCECN) && layout != SynLayout::Linux {
                while !options.length.is_multiple_of(4) {
                    options.put(&[kind::NOP]);
                }
                options.accecn(segment, false);
            }
            if let Some(cookie) = segment.cookie() {
                options.cookie(&cookie, layout);
            }
            // Nothing is read behind END.
            let padding = if segment.sack.is_empty() { kind::END } else { kind::NOP };
            while !options.length.is_multiple_of(4) {
                options.put(&[padding]);
            }
        }
        let blocks = segment.sack.as_slice();
        let fitting = blocks.len().min((MAX_OPTIONS - (options.length & !3)).saturating_sub(4) / 8);
        if fitting > 0 {
            while options.length % 4 != 2 {
                options.put(&[kind::NOP]);
            }
            options.put(&[kind::SACK, 2 + 8 * fitting as u8]);
            for (left, right) in &blocks[..fitting] {
                options.put(&left.to_be_bytes());
                options.put(&right.to_be_bytes());
            }
        }
        while !options.length.is_multiple_of(4) {
            options.put(&[kind::NOP]);
        }
        options
    }

    /// Counters of Accurate ECN. Up to two bytes beyond whole words stand where the padding of SACK blocks would (`shares`).
    fn accecn(&mut self, segment: &Segment, shares: bool) {
        let counters = &segment.accecn;
        self.put(&[counters.kind(), counters.bytes() as u8]);
        counters.iter().for_each(|(_, counter)| self.put(&counter.to_be_bytes()[1..]));
        let shares = shares && self.length % 4 <= 2;
        while !shares && !self.length.is_multiple_of(4) {
            self.put(&[kind::NOP]);
        }
    }

    /// A cookie of Fast Open, the last option of a SYN: on Linux in words of its own, on FreeBSD where the ones before end.
    /// One that does not fit is left out.
    fn cookie(&mut self, cookie: &Cookie, layout: SynLayout) {
        let bytes = cookie.option_bytes();
        while layout != SynLayout::FreeBsd && !self.length.is_multiple_of(4) {
            self.put(&[kind::NOP]);
        }
        if self.length + bytes as usize > MAX_OPTIONS {
            return;
        }
        let experimental = cookie.is_experimental();
        self.put(&[if experimental { Cookie::EXPERIMENT } else { Cookie::KIND }, bytes as u8]);
        if experimental {
            self.put(&Cookie::MAGIC.to_be_bytes());
        }
        self.put(cookie.bytes());
        while layout != SynLayout::FreeBsd && !self.length.is_multiple_of(4) {
            self.put(&[kind::NOP]);
        }
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Timestamps with their values on a word boundary: NOPs until two bytes beyond one.
    #[inline]
    fn timestamps(&mut self, segment: &Segment) {
        while self.length % 4 != 2 {
            self.put(&[kind::NOP]);
        }
        self.put(&[kind::TIMESTAMPS, 10]);
        self.put(&segment.tsval.to_be_bytes());
        self.put(&segment.tsecr.to_be_bytes());
    }

    /// Each fills up the other's word; by itself, SACK permitted is behind two NOPs.
    fn sack_permitted_and_timestamps(&mut self, segment: &Segment) {
        let timestamps = segment.options.has(Options::TIMESTAMPS);
        if segment.options.has(Options::SACK_PERMITTED) {
            if !timestamps {
                self.put(&[kind::NOP, kind::NOP]);
            }
            self.put(&[kind::SACK_PERMITTED, 2]);
        }
        if timestamps {
            self.timestamps(segment);
        }
    }

    fn window_scale(&mut self, segment: &Segment) {
        self.put(&[kind::NOP, kind::WSCALE, 3, segment.wscale]);
    }
}
