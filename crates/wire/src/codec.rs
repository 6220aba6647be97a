//! Segments to the bytes of IPv4 or IPv6 packets with TCP headers, and back.
//!
//! Writing lays options out as real systems do and computes both checksums. Reading takes whatever a network or a
//! capture file holds: it never panics, and reads only what the lengths in the headers and the bytes present allow.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::{self, sum};
use crate::segment::{Ecn, Flags, IP_HEADER, Options, SackBlocks, Segment, TCP_HEADER};

/// Where a packet comes from and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ends<A> {
    /// Source address.
    pub src: A,
    /// Destination address.
    pub dst: A,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
}

impl<A> Ends<A> {
    /// The opposite direction.
    #[inline]
    pub fn reversed(self) -> Ends<A> {
        Ends { src: self.dst, dst: self.src, sport: self.dport, dport: self.sport }
    }
}

/// In which order a system puts the options of a SYN. All take the same number of bytes,
/// [`Segment::option_bytes`]; outside a SYN all systems write NOP, NOP, timestamps, NOP, NOP, SACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynLayout {
    /// MSS, NOP, window scale, SACK permitted, timestamps; the rest padded with zeros
    /// (`tcp_addoptions` in FreeBSD's tcp_output.c).
    FreeBsd,
    /// MSS, SACK permitted, timestamps, NOP, window scale (`tcp_options_write` in Linux's tcp_output.c).
    Linux,
    /// MSS, NOP, window scale, then timestamps and SACK permitted behind two NOPs each, or behind each other.
    Windows,
}

/// The payload of a packet being written.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// These bytes, as many as the segment's `len`.
    Bytes(&'a [u8]),
    /// Zeros, and of the whole packet at most `snaplen` bytes; lengths and checksums are those of the whole.
    Zeros {
        /// Bytes kept of the packet, from the IP header on.
        snaplen: u32,
    },
}

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

/// A TCP packet as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Addresses and ports.
    pub ends: Ends<IpAddr>,
    /// The segment. `offset` is 0, `frames` 1; `len` is the payload on the wire, present in `payload` or not. MSS,
    /// window scale and SACK permitted are read from SYNs only.
    pub segment: Segment,
    /// The payload bytes present, fewer than the segment's `len` in a capture that keeps only the beginning.
    pub payload: &'a [u8],
    /// The identification field of IPv4; 0 for IPv6.
    pub ip_id: u16,
    /// Length on the wire from the IP header on.
    pub ip_bytes: u32,
    /// TCP header and the payload present, for the checksum.
    tcp: &'a [u8],
    tcp_length: u32,
}

impl Packet<'_> {
    /// Whether the TCP checksum is right; None when not the whole packet is present.
    pub fn checksum_ok(&self) -> Option<bool> {
        if self.tcp.len() as u32 != self.tcp_length {
            return None;
        }
        let addresses = match (self.ends.src, self.ends.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => sum(&src.octets()) + sum(&dst.octets()),
            (IpAddr::V6(src), IpAddr::V6(dst)) => sum(&src.octets()) + sum(&dst.octets()),
            _ => return None,
        };
        Some(checksum::of(addresses + pseudo_tail(self.tcp_length) + sum(self.tcp)) == 0)
    }
}

/// Why bytes are not a TCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTcp {
    /// Neither IPv4 nor IPv6: the version field.
    Version(u8),
    /// Another protocol: its number (for IPv6 the first header that is no known extension).
    Protocol(u8),
    /// A fragment other than the first, so without a TCP header.
    Fragment,
    /// The capture ends within the headers.
    CutShort,
    /// A length field contradicts the header or the packet.
    Malformed,
}

/// Reads an IP packet. `wire_length` is its length on the wire from the IP header on, for a capture that keeps only
/// the beginning, and where the length field is 0 (before segmentation offload); otherwise `bytes.len()`. Link-layer
/// padding behind the packet is ignored.
#[inline]
pub fn parse(bytes: &[u8], wire_length: u32) -> Result<Packet<'_>, NotTcp> {
    match bytes.first().map(|first| first >> 4) {
        Some(4) => parse_ipv4(bytes, wire_length),
        Some(6) => parse_ipv6(bytes, wire_length),
        Some(version) => Err(NotTcp::Version(version)),
        None => Err(NotTcp::CutShort),
    }
}

const IPV6_HEADER: usize = 40;
/// TCP in the protocol field of an IP header (RFC 9293 section 3.1).
pub const PROTOCOL_TCP: u8 = 6;
/// The TTL or hop limit that FreeBSD and Linux send with.
const HOP_LIMIT: u8 = 64;
/// Don't Fragment, in the first byte of the flags and the fragment offset (RFC 791 section 3.1).
const DONT_FRAGMENT: u8 = 0x40;
/// The fragment offset of IPv4, without the flags before it.
const FRAGMENT_OFFSET: u16 = 0x1fff;
/// Extension headers of IPv6 (RFC 8200 section 4.1): hop-by-hop options, routing, destination options; fragment.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
const FRAGMENT: u8 = 44;
/// The most bytes of options that the data offset can express (RFC 9293 section 3.1).
const MAX_OPTIONS: usize = 40;

/// Option kinds (IANA, TCP parameters).
mod kind {
    pub const END: u8 = 0;
    pub const NOP: u8 = 1;
    pub const MSS: u8 = 2;
    pub const WSCALE: u8 = 3;
    pub const SACK_PERMITTED: u8 = 4;
    pub const SACK: u8 = 5;
    pub const TIMESTAMPS: u8 = 8;
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
    header[12] = ((TCP_HEADER as usize + options.length) as u8 / 4) << 4;
    header[13] = segment.flags.0;
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
struct OptionBytes {
    bytes: [u8; MAX_OPTIONS],
    length: usize,
}

impl OptionBytes {
    #[inline]
    fn of(segment: &Segment, layout: SynLayout) -> OptionBytes {
        let mut options = OptionBytes { bytes: [kind::END; MAX_OPTIONS], length: 0 };
        let has = |option| segment.options.has(option);
        let in_syn = Options::MSS.0 | Options::WSCALE.0 | Options::SACK_PERMITTED.0;
        if segment.options.0 & in_syn == 0 {
            if has(Options::TIMESTAMPS) {
                options.timestamps(segment);
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
                    options.sack_permitted_and_timestamps(segment);
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
            // Nothing is read behind END.
            let padding = if segment.sack.is_empty() { kind::END } else { kind::NOP };
            while !options.length.is_multiple_of(4) {
                options.put(&[padding]);
            }
        }
        let blocks = segment.sack.as_slice();
        let fitting = blocks.len().min((MAX_OPTIONS - options.length).saturating_sub(4) / 8);
        if fitting > 0 {
            options.put(&[kind::NOP, kind::NOP, kind::SACK, 2 + 8 * fitting as u8]);
            for (left, right) in &blocks[..fitting] {
                options.put(&left.to_be_bytes());
                options.put(&right.to_be_bytes());
            }
        }
        options
    }

    #[inline]
    fn as_slice(&self) -> &[u8] {
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

#[inline]
fn parse_ipv4(bytes: &[u8], wire_length: u32) -> Result<Packet<'_>, NotTcp> {
    let header: &[u8; 20] = bytes.first_chunk().ok_or(NotTcp::CutShort)?;
    let header_length = usize::from(header[0] & 0x0f) * 4;
    let total_length = match be16(header, 2) {
        0 => wire_length,
        length => u32::from(length),
    };
    if header[9] != PROTOCOL_TCP {
        return Err(NotTcp::Protocol(header[9]));
    }
    if be16(header, 6) & FRAGMENT_OFFSET != 0 {
        return Err(NotTcp::Fragment);
    }
    if header_length < 20 || total_length < header_length as u32 {
        return Err(NotTcp::Malformed);
    }
    let address =
        |at: usize| IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
    let rest = bytes.get(header_length..).ok_or(NotTcp::CutShort)?;
    let mut packet = parse_tcp(rest, total_length - header_length as u32, address(12), address(16))?;
    packet.segment.ecn = ecn(header[1]);
    packet.ip_id = be16(header, 4);
    packet.ip_bytes = total_length;
    Ok(packet)
}

fn parse_ipv6(bytes: &[u8], wire_length: u32) -> Result<Packet<'_>, NotTcp> {
    let header: &[u8; IPV6_HEADER] = bytes.first_chunk().ok_or(NotTcp::CutShort)?;
    let ip_bytes = match be16(header, 4) {
        0 => wire_length,
        length => u32::from(length) + IPV6_HEADER as u32,
    };
    let mut left = ip_bytes.checked_sub(IPV6_HEADER as u32).ok_or(NotTcp::Malformed)?;
    let mut rest = &bytes[IPV6_HEADER..];
    let mut next = header[6];
    while next == FRAGMENT || EXTENSIONS.contains(&next) {
        let extension: &[u8; 8] = rest.first_chunk().ok_or(NotTcp::CutShort)?;
        let length = if next == FRAGMENT { 8 } else { (usize::from(extension[1]) + 1) * 8 };
        // The offset, above three bits of flags.
        if next == FRAGMENT && be16(extension, 2) >> 3 != 0 {
            return Err(NotTcp::Fragment);
        }
        left = left.checked_sub(length as u32).ok_or(NotTcp::Malformed)?;
        rest = rest.get(length..).ok_or(NotTcp::CutShort)?;
        next = extension[0];
    }
    if next != PROTOCOL_TCP {
        return Err(NotTcp::Protocol(next));
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let mut packet = parse_tcp(rest, left, address(8), address(24))?;
    packet.segment.ecn = ecn(header[1] >> 4);
    packet.ip_bytes = ip_bytes;
    Ok(packet)
}

/// Reads a TCP header and its payload, `length` bytes on the wire, of which `bytes` has the beginning.
#[inline]
fn parse_tcp(bytes: &[u8], length: u32, src: IpAddr, dst: IpAddr) -> Result<Packet<'_>, NotTcp> {
    let tcp = &bytes[..bytes.len().min(length as usize)];
    let header: &[u8; TCP_HEADER as usize] = match tcp.first_chunk() {
        Some(header) => header,
        None if length < TCP_HEADER => return Err(NotTcp::Malformed),
        None => return Err(NotTcp::CutShort),
    };
    let header_length = usize::from(header[12] >> 4) * 4;
    if header_length < TCP_HEADER as usize || header_length as u32 > length {
        return Err(NotTcp::Malformed);
    }
    let mut segment = Segment {
        seq: be32(header, 4),
        ack: be32(header, 8),
        len: length - header_length as u32,
        window: be16(header, 14),
        flags: Flags(header[13]),
        frames: 1,
        ..Segment::default()
    };
    parse_options(&tcp[TCP_HEADER as usize..tcp.len().min(header_length)], &mut segment);
    Ok(Packet {
        ends: Ends { src, dst, sport: be16(header, 0), dport: be16(header, 2) },
        segment,
        payload: tcp.get(header_length..).unwrap_or(&[]),
        ip_id: 0,
        ip_bytes: 0,
        tcp,
        tcp_length: length,
    })
}

/// Reads options up to the first one whose length makes no sense, as real stacks do.
#[inline]
fn parse_options(mut bytes: &[u8], segment: &mut Segment) {
    // What nearly every segment carries: NOP, NOP, timestamps (RFC 7323 appendix A).
    if let Some(&[kind::NOP, kind::NOP, kind::TIMESTAMPS, 10, ref values @ ..]) = bytes.first_chunk::<12>() {
        timestamps(values, segment);
        bytes = &bytes[12..];
    }
    let syn = segment.flags.has(Flags::SYN);
    while let Some((&option, rest)) = bytes.split_first() {
        match option {
            kind::END => return,
            kind::NOP => {
                bytes = rest;
                continue;
            }
            _ => {}
        }
        let length = match rest.first() {
            Some(&length) if length >= 2 && usize::from(length) <= bytes.len() => usize::from(length),
            _ => return,
        };
        let value = &bytes[2..length];
        match (option, value.len()) {
            (kind::MSS, 2) if syn => {
                segment.mss = be16(value, 0);
                segment.options |= Options::MSS;
            }
            (kind::WSCALE, 1) if syn => {
                segment.wscale = value[0];
                segment.options |= Options::WSCALE;
            }
            (kind::SACK_PERMITTED, 0) if syn => segment.options |= Options::SACK_PERMITTED,
            (kind::TIMESTAMPS, 8) => timestamps(value, segment),
            (kind::SACK, 8 | 16 | 24 | 32) => {
                segment.sack = SackBlocks::default();
                for block in value.chunks_exact(8) {
                    segment.sack.push(be32(block, 0), be32(block, 4));
                }
            }
            _ => {}
        }
        bytes = &bytes[length..];
    }
}

#[inline]
fn timestamps(value: &[u8], segment: &mut Segment) {
    segment.tsval = be32(value, 0);
    segment.tsecr = be32(value, 4);
    segment.options |= Options::TIMESTAMPS;
}

#[inline]
fn ecn(traffic_class: u8) -> Ecn {
    match traffic_class & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

#[inline]
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The end of the pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1): protocol and length.
fn pseudo_tail(tcp_length: u32) -> u64 {
    u64::from(PROTOCOL_TCP) + u64::from(tcp_length >> 16) + u64::from(tcp_length & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENDS: Ends<Ipv4Addr> =
        Ends { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 1, 1), sport: 40000, dport: 5201 };
    const ALL: Options =
        Options(Options::MSS.0 | Options::WSCALE.0 | Options::SACK_PERMITTED.0 | Options::TIMESTAMPS.0);

    fn options_of(segment: &Segment, layout: SynLayout) -> Vec<u8> {
        OptionBytes::of(segment, layout).as_slice().to_vec()
    }

    #[test]
    fn a_syn_of_each_system_has_its_layout() {
        let syn = Segment {
            flags: Flags::SYN,
            options: ALL,
            mss: 1460,
            wscale: 7,
            tsval: 0x01020304,
            ..Segment::default()
        };
        let mss = [2, 4, 5, 180];
        let timestamps = [8, 10, 1, 2, 3, 4, 0, 0, 0, 0];
        let layout = |layout| options_of(&syn, layout);
        assert_eq!(layout(SynLayout::Linux), [&mss[..], &[4, 2], &timestamps, &[1, 3, 3, 7]].concat());
        assert_eq!(layout(SynLayout::FreeBsd), [&mss[..], &[1, 3, 3, 7], &[4, 2], &timestamps].concat());
        let plain = Segment { options: Options(ALL.0 & !Options::TIMESTAMPS.0), wscale: 8, ..syn };
        assert_eq!(
            options_of(&plain, SynLayout::Windows),
            [&mss[..], &[1, 3, 3, 8], &[1, 1, 4, 2]].concat(),
            "Windows 7 sends no timestamps by default"
        );
        assert_eq!(options_of(&plain, SynLayout::FreeBsd), [&mss[..], &[1, 3, 3, 8], &[4, 2, 0, 0]].concat());
        assert_eq!(options_of(&plain, SynLayout::Linux), [&mss[..], &[1, 1, 4, 2], &[1, 3, 3, 8]].concat());
    }

    #[test]
    fn every_layout_takes_the_bytes_that_a_segment_says() {
        for bits in 0..16 {
            for layout in [SynLayout::FreeBsd, SynLayout::Linux, SynLayout::Windows] {
                let syn = Segment { flags: Flags::SYN, options: Options(bits), ..Segment::default() };
                assert_eq!(
                    options_of(&syn, layout).len() as u32,
                    syn.option_bytes(),
                    "{bits:04b} {layout:?}"
                );
            }
        }
    }

    #[test]
    fn a_fourth_sack_block_beside_timestamps_does_not_fit() {
        let mut segment = Segment { options: Options::TIMESTAMPS, flags: Flags::ACK, ..Segment::default() };
        (0..4).for_each(|block| segment.sack.push(block, block + 1));
        let mut bytes = Vec::new();
        write_ipv4(&mut bytes, &segment, &ENDS, SynLayout::Linux, 1, Payload::Bytes(&[]));
        let read = parse(&bytes, bytes.len() as u32).unwrap();
        assert_eq!(read.segment.sack.as_slice(), &segment.sack.as_slice()[..3]);
        assert_eq!(bytes.len(), 80);
    }

    #[test]
    fn snaplen_cuts_the_packet_but_not_its_lengths() {
        let segment =
            Segment { len: 1448, options: Options::TIMESTAMPS, flags: Flags::ACK, ..Segment::default() };
        let mut bytes = vec![0xee; 3];
        let length =
            write_ipv4(&mut bytes, &segment, &ENDS, SynLayout::Linux, 9, Payload::Zeros { snaplen: 60 });
        assert_eq!((length, bytes.len()), (1500, 63));
        let read = parse(&bytes[3..], length).unwrap();
        assert_eq!((read.segment.len, read.payload.len(), read.ip_id), (1448, 8, 9));
        assert_eq!(read.checksum_ok(), None);
        let mut whole = Vec::new();
        write_ipv4(&mut whole, &segment, &ENDS, SynLayout::Linux, 9, Payload::Zeros { snaplen: u32::MAX });
        assert_eq!(parse(&whole, length).unwrap().checksum_ok(), Some(true));
        assert_eq!(whole[..60], bytes[3..]);
    }

    #[test]
    fn a_packet_above_64_kib_is_written_with_length_zero_and_read_back() {
        let segment = Segment { len: 100_000, flags: Flags::ACK, ..Segment::default() };
        let mut bytes = Vec::new();
        let length =
            write_ipv4(&mut bytes, &segment, &ENDS, SynLayout::Linux, 0, Payload::Zeros { snaplen: 96 });
        assert_eq!(bytes[2..4], [0, 0]);
        assert_eq!(parse(&bytes, length).unwrap().segment.len, 100_000);
    }

    #[test]
    fn link_layer_padding_is_no_payload() {
        let mut bytes = Vec::new();
        let segment = Segment { flags: Flags::ACK, ..Segment::default() };
        write_ipv4(&mut bytes, &segment, &ENDS, SynLayout::Linux, 0, Payload::Bytes(&[]));
        bytes.resize(46, 0);
        let read = parse(&bytes, 46).unwrap();
        assert_eq!((read.segment.len, read.payload.len(), read.checksum_ok()), (0, 0, Some(true)));
    }

    #[test]
    fn what_is_not_tcp_says_so() {
        let mut udp = Vec::new();
        let segment = Segment { flags: Flags::ACK, ..Segment::default() };
        write_ipv4(&mut udp, &segment, &ENDS, SynLayout::Linux, 0, Payload::Bytes(&[]));
        let reason = |bytes: &[u8]| parse(bytes, bytes.len() as u32).map(|_| ()).unwrap_err();
        let changed = |at: usize, value: u8| {
            let mut bytes = udp.clone();
            bytes[at] = value;
            bytes
        };
        assert_eq!(reason(&changed(9, 17)), NotTcp::Protocol(17));
        assert_eq!(reason(&changed(0, 0x55)), NotTcp::Version(5));
        assert_eq!(reason(&changed(7, 1)), NotTcp::Fragment);
        assert_eq!(reason(&changed(0, 0x44)), NotTcp::Malformed);
        assert_eq!(reason(&changed(3, 39)), NotTcp::Malformed, "shorter than the headers");
        assert_eq!(reason(&changed(32, 0xf0)), NotTcp::Malformed, "options beyond the packet");
        assert_eq!(reason(&udp[..30]), NotTcp::CutShort);
        assert_eq!(reason(&[]), NotTcp::CutShort);
    }

    #[test]
    fn extension_headers_of_ipv6_are_passed() {
        let ends = Ends { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::LOCALHOST, sport: 1, dport: 2 };
        let segment = Segment { seq: 77, flags: Flags::ACK, ..Segment::default() };
        let mut bytes = Vec::new();
        write_ipv6(&mut bytes, &segment, &ends, SynLayout::Linux, Payload::Bytes(&[]));
        // Hop-by-hop options, 8 bytes, between the IPv6 and the TCP header.
        bytes[6] = 0;
        bytes[5] += 8;
        bytes.splice(40..40, [6, 0, 1, 4, 0, 0, 0, 0]);
        assert_eq!(parse(&bytes, bytes.len() as u32).unwrap().segment.seq, 77);
    }

    fn segments() -> impl Strategy<Value = Segment> {
        let sack = prop::collection::vec(any::<(u32, u32)>(), 0..=4);
        let numbers = any::<(u32, u32, u32, u32, u16, u16, u8)>();
        (numbers, sack, any::<u8>(), 0..16u8, 0..4u8, 0..200u32).prop_map(
            |((seq, ack, tsval, tsecr, window, mss, wscale), blocks, flags, options, traffic_class, len)| {
                let flags = Flags(flags);
                let mut segment = Segment {
                    seq,
                    ack,
                    window,
                    flags,
                    len,
                    ecn: ecn(traffic_class),
                    frames: 1,
                    ..Segment::default()
                };
                segment.options =
                    Options(if flags.has(Flags::SYN) { options } else { options & Options::TIMESTAMPS.0 });
                if segment.options.has(Options::MSS) {
                    segment.mss = mss;
                }
                if segment.options.has(Options::WSCALE) {
                    segment.wscale = wscale;
                }
                if segment.options.has(Options::TIMESTAMPS) {
                    (segment.tsval, segment.tsecr) = (tsval, tsecr);
                }
                let fitting = (MAX_OPTIONS as u32 - segment.option_bytes()).saturating_sub(4) / 8;
                blocks
                    .iter()
                    .take(fitting as usize)
                    .for_each(|&(left, right)| segment.sack.push(left, right));
                segment
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(segment in segments(), layout in 0..3, src: u128, dst: u128, data: [u8; 200]) {
            let layout = [SynLayout::FreeBsd, SynLayout::Linux, SynLayout::Windows][layout as usize];
            let data = &data[..segment.len as usize];
            let mut v4 = Vec::new();
            let ends = Ends { src: Ipv4Addr::from(src as u32), dst: Ipv4Addr::from(dst as u32), sport: 1, dport: 2 };
            let length = write_ipv4(&mut v4, &segment, &ends, layout, 7, Payload::Bytes(data));
            prop_assert_eq!(length, segment.ip_bytes());
            let read = parse(&v4, length).unwrap();
            prop_assert_eq!((read.segment, read.ip_bytes), (segment, length));
            prop_assert_eq!(read.payload, data);
            prop_assert_eq!(read.checksum_ok(), Some(true));
            prop_assert_eq!(read.ends.src, IpAddr::V4(ends.src));
            prop_assert_eq!(checksum::of(sum(&v4[..20])), 0, "the header checksum");

            let mut v6 = Vec::new();
            let ends = Ends { src: Ipv6Addr::from(src), dst: Ipv6Addr::from(dst), sport: 1, dport: 2 };
            let length = write_ipv6(&mut v6, &segment, &ends, layout, Payload::Bytes(data));
            prop_assert_eq!(length, segment.ip_bytes() + 20);
            let read = parse(&v6, length).unwrap();
            prop_assert_eq!((read.segment, read.ip_bytes), (segment, length));
            prop_assert_eq!(read.checksum_ok(), Some(true));
            prop_assert_eq!(read.ends.dst, IpAddr::V6(ends.dst));
        }

        #[test]
        fn one_flipped_bit_is_noticed(segment in segments(), data: [u8; 200], at: prop::sample::Index, bit in 0..8u8) {
            let mut bytes = Vec::new();
            let data = &data[..segment.len as usize];
            let length = write_ipv4(&mut bytes, &segment, &ENDS, SynLayout::Linux, 7, Payload::Bytes(data));
            // Behind the IP header, but not in the data offset, which moves the border between header and payload.
            let at = 20 + at.index(bytes.len() - 20);
            prop_assume!(at != 32);
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(parse(&bytes, length).unwrap().checksum_ok(), Some(false));
        }

        #[test]
        fn hostile_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), wire_length: u32, version in 0..3) {
            // Most random bytes fail at the first look; make some that get further.
            if let Some(first) = bytes.first_mut() {
                *first = [0x45, 0x60, *first][version as usize];
            }
            if let Some(protocol) = bytes.get_mut([9, 6, 9][version as usize]) {
                *protocol = PROTOCOL_TCP;
            }
            if let Some(flags) = bytes.get_mut(6).filter(|_| version == 0) {
                *flags = 0x40;
            }
            if let Some(offset) = bytes.get_mut(7).filter(|_| version == 0) {
                *offset = 0;
            }
            if let Ok(packet) = parse(&bytes, wire_length) {
                prop_assert!(packet.payload.len() as u32 <= packet.segment.len);
                packet.checksum_ok();
            }
        }
    }
}
