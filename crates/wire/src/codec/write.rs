//! Segments to bytes, with the options laid out as real systems do.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Ends, IPV6_HEADER, MAX_OPTIONS, PROTOCOL_TCP, Payload, SynLayout, kind, pseudo_tail};
use crate::checksum::{self, sum};
use crate::segment::{Ecn, IP_HEADER, Options, Segment, TCP_HEADER};

/// The TTL or hop limit that FreeBSD and Linux send with.
const HOP_LIMIT: u8 = 64;
/// Don't Fragment, in the first byte of the flags and the fragment offset (RFC 791 section 3.1).
const DONT_FRAGMENT: u8 = 0x40;

/// Appends an IPv4 packet to `buf` and returns its length in bytes on the wire. TTL 64, don't fragment.
///
/// A packet above 65,535 bytes gets the length 0, as Linux writes before segmentation offload. SACK blocks that do
/// not fit the 40 bytes of options are left out.
///
/// # Panics
///
/// When [`Payload::Bytes`] has another length than the segment.
pub fn write_ipv4(
    buf: &mut Vec<u8>,
    segment: &Segment,
    ends: &Ends<Ipv4Addr>,
    layout: SynLayout,
    ip_id: u16,
    payload: Payload<'_>,
) -> u32 {
    let start = buf.len();
    let options = OptionBytes::of(segment, layout);
    let tcp_length = TCP_HEADER + options.length as u32 + segment.len;
    let ip_length = IP_HEADER + tcp_length;

    let header = ipv4_header(ends, PROTOCOL_TCP, segment.ecn, ip_id, ip_length);
    buf.extend_from_slice(&header);

    let pseudo = sum(&header[12..20]) + pseudo_tail(tcp_length);
    write_tcp(buf, segment, ends.sport, ends.dport, &options, pseudo, payload);
    keep(buf, start, ip_length, payload);
    ip_length
}

/// The header of an IPv4 packet of `ip_length` bytes; see [`write_ipv4`].
#[inline]
pub fn ipv4_header(
    ends: &Ends<Ipv4Addr>,
    protocol: u8,
    ecn: Ecn,
    ip_id: u16,
    ip_length: u32,
) -> [u8; IP_HEADER as usize] {
    let mut header = [0u8; IP_HEADER as usize];
    // Version 4, five words.
    header[0] = 0x45;
    header[1] = ecn as u8;
    header[2..4].copy_from_slice(&u16::try_from(ip_length).unwrap_or(0).to_be_bytes());
    header[4..6].copy_from_slice(&ip_id.to_be_bytes());
    header[6] = DONT_FRAGMENT;
    header[8] = HOP_LIMIT;
    header[9] = protocol;
    header[12..16].copy_from_slice(&ends.src.octets());
    header[16..20].copy_from_slice(&ends.dst.octets());
    let checksum = checksum::of(sum(&header));
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// Appends an IPv6 packet to `buf` and returns its length in bytes on the wire; otherwise as [`write_ipv4`].
///
/// # Panics
///
/// When [`Payload::Bytes`] has another length than the segment.
pub fn write_ipv6(
    buf: &mut Vec<u8>,
    segment: &Segment,
    ends: &Ends<Ipv6Addr>,
    layout: SynLayout,
    payload: Payload<'_>,
) -> u32 {
    let start = buf.len();
    let options = OptionBytes::of(segment, layout);
    let tcp_length = TCP_HEADER + options.length as u32 + segment.len;

    let mut header = [0u8; IPV6_HEADER];
    header[0] = 0x60;
    header[1] = (segment.ecn as u8) << 4;
    header[4..6].copy_from_slice(&u16::try_from(tcp_length).unwrap_or(0).to_be_bytes());
    header[6] = PROTOCOL_TCP;
    header[7] = HOP_LIMIT;
    header[8..24].copy_from_slice(&ends.src.octets());
    header[24..40].copy_from_slice(&ends.dst.octets());
    buf.extend_from_slice(&header);

    let pseudo = sum(&header[8..40]) + pseudo_tail(tcp_length);
    write_tcp(buf, segment, ends.sport, ends.dport, &options, pseudo, payload);
    let ip_length = IPV6_HEADER as u32 + tcp_length;
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
        let in_syn = Options::MSS.0 | Options::WSCALE.0 | Options::SACK_PERMITTED.0;
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
