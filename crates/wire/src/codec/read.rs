//! Bytes to segments: never panics, and reads only what the lengths in the headers and the bytes present allow.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Ends, NotTcp, PROTOCOL_TCP, Packet, kind};
use crate::fast_open::Cookie;
use crate::segment::{AccEcnCounters, Ecn, Flags, IPV6_HEADER, Options, SackBlocks, Segment, TCP_HEADER};

/// The fragment offset of IPv4, without the flags before it.
const FRAGMENT_OFFSET: u16 = 0x1fff;
/// Extension headers of IPv6 whose length counts units of 8 bytes behind the first (RFC 8200 section 4, RFC 6275, RFC 7401, RFC
/// 5533): hop-by-hop options, routing, destination options, mobility, host identity, Shim6.
const EXTENSIONS: [u8; 6] = [0, 43, 60, 135, 139, 140];
const FRAGMENT: u8 = 44;
/// The authentication header, whose length counts units of 4 bytes behind the first two (RFC 4302 section 2.2).
const AUTHENTICATION: u8 = 51;

/// Reads an IP packet. `wire_length` is its length on the wire from the IP header on, for a capture that keeps only
/// the beginning, and where the length field is 0 (before segmentation offload); otherwise `bytes.len()`. Link-layer
/// padding behind the packet is ignored.
///
/// ```
/// use std::net::Ipv4Addr;
/// use wire::codec::{Ends, Payload, SynLayout, parse, write};
/// use wire::{Flags, Segment};
///
/// let [src, dst] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
/// let ends = Ends { src, dst, sport: 40_000, dport: 80 };
/// let segment = Segment { seq: 7, len: 5, flags: Flags::ACK, ..Segment::default() };
/// let mut bytes = Vec::new();
/// let length = write(&mut bytes, &segment, &ends, SynLayout::Linux, 0, Payload::Bytes(b"hello"));
///
/// let packet = parse(&bytes, length)?;
/// assert_eq!((packet.segment.seq, packet.payload, packet.ends.dport), (7, &b"hello"[..], 80));
/// # Ok::<(), wire::codec::NotTcp>(())
/// ```
#[inline]
pub fn parse(bytes: &[u8], wire_length: u32) -> Result<Packet<'_>, NotTcp> {
    match bytes.first().map(|first| first >> 4) {
        Some(4) => parse_ipv4(bytes, wire_length),
        Some(6) => parse_ipv6(bytes, wire_length),
        Some(version) => Err(NotTcp::Version(version)),
        None => Err(NotTcp::CutShort),
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
    let header: &[u8; IPV6_HEADER as usize] = bytes.first_chunk().ok_or(NotTcp::CutShort)?;
    let ip_bytes = match be16(header, 4) {
        0 => wire_length,
        length => u32::from(length) + IPV6_HEADER,
    };
    let (next, at) = extensions(bytes)?;
    if next != PROTOCOL_TCP {
        return Err(NotTcp::Protocol(next));
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let left = ip_bytes.checked_sub(at as u32).ok_or(NotTcp::Malformed)?;
    let mut packet = parse_tcp(&bytes[at..], left, address(8), address(24))?;
    packet.segment.ecn = ecn(header[1] >> 4);
    packet.ip_bytes = ip_bytes;
    Ok(packet)
}

/// The protocol within an IPv6 packet, and where it begins, which is not beyond what is present.
fn extensions(bytes: &[u8]) -> Result<(u8, usize), NotTcp> {
    let (mut next, mut at) = (*bytes.get(6).ok_or(NotTcp::CutShort)?, IPV6_HEADER as usize);
    while matches!(next, FRAGMENT | AUTHENTICATION) || EXTENSIONS.contains(&next) {
        let rest = bytes.get(at..).ok_or(NotTcp::CutShort)?;
        let extension: &[u8; 8] = rest.first_chunk().ok_or(NotTcp::CutShort)?;
        // The offset, above three bits of flags.
        if next == FRAGMENT && be16(extension, 2) >> 3 != 0 {
            return Err(NotTcp::Fragment);
        }
        let length = usize::from(extension[1]);
        at += match next {
            FRAGMENT => 8,
            AUTHENTICATION => (length + 2) * 4,
            _ => (length + 1) * 8,
        };
        next = extension[0];
    }
    if at > bytes.len() { Err(NotTcp::CutShort) } else { Ok((next, at)) }
}

/// Returns the protocol within an IP packet, behind the extension headers of IPv6, where it begins, and whether this is a fragment
/// of IPv4 other than the first.
///
/// # Errors
/// A fragment of IPv6 other than the first, or bytes that are too few or no IP packet.
pub fn protocol(bytes: &[u8]) -> Result<(u8, usize, bool), NotTcp> {
    match bytes.first().map(|first| first >> 4) {
        Some(4) => {
            let header: &[u8; 20] = bytes.first_chunk().ok_or(NotTcp::CutShort)?;
            let at = usize::from(header[0] & 0x0f) * 4;
            if at < 20 {
                return Err(NotTcp::Malformed);
            }
            Ok((header[9], at, be16(header, 6) & FRAGMENT_OFFSET != 0))
        }
        Some(6) => extensions(bytes).map(|(next, at)| (next, at, false)),
        Some(version) => Err(NotTcp::Version(version)),
        None => Err(NotTcp::CutShort),
    }
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
        flags: Flags(be16(header, 12) & 0x1ff),
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
            (AccEcnCounters::ORDER_0 | AccEcnCounters::ORDER_1, _) => {
                segment.options |= Options::ACCECN;
                segment.accecn = AccEcnCounters::new(option);
                for counter in value.chunks_exact(3) {
                    segment.accecn.push(u32::from_be_bytes([0, counter[0], counter[1], counter[2]]));
                }
            }
            (Cookie::KIND, _) if syn => segment.set_cookie(Cookie::new(value, false)),
            (Cookie::EXPERIMENT, 2..) if syn && be16(value, 0) == Cookie::MAGIC => {
                segment.set_cookie(Cookie::new(&value[2..], true));
            }
            (kind::SACK, 8 | 16 | 24 | 32) if !segment.options.has(Options::FAST_OPEN) => {
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
pub(super) fn ecn(traffic_class: u8) -> Ecn {
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
