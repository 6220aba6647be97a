//! A frame as the emulator has it: what its links need to know of it, and what they do to its bytes.
//!
//! Bytes are those of packet sockets: a virtio header (VIRTIO 1.2 section 5.1.6, in the machine's byte order), then an
//! Ethernet frame.

use std::cell::Cell;
use std::net::IpAddr;

use path::{Ecn, Nanos};
use wire::checksum::{self, sum};
use wire::codec;

use super::port::VNET;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Offset of the IP header.
pub(crate) const IP: usize = VNET + ETHERNET;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;

/// VIRTIO_NET_HDR_F_NEEDS_CSUM: the checksum of the transport is not complete.
const NEEDS_CSUM: u8 = 1;
/// VIRTIO_NET_HDR_GSO_NONE.
const GSO_NONE: u8 = 0;
/// VIRTIO_NET_HDR_GSO_UDP_L4.
const GSO_UDP: u8 = 5;
/// VIRTIO_NET_HDR_GSO_ECN, a flag beside the kind: CWR is set, on the first segment only.
const GSO_ECN: u8 = 0x80;

/// TCP flags.
const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// A packet on its way through a link, whose bytes lie in a slot of the pool.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Slot that holds the frame's bytes.
    pub(crate) slot: u32,
    /// Number of bytes, with the virtio header.
    pub(crate) length: u32,
    /// Index of the frame's flow. None: nobody's.
    pub(crate) flow: Option<u16>,
    /// Whether the frame goes from the flow's sender to its receiver.
    pub(crate) forward: bool,
    /// Payload bytes since the start of the stream. None if not known.
    pub(crate) offset: Option<u64>,
    /// The ECN field was changed to CE.
    pub(crate) marked: bool,
    /// Whether the frame is to be damaged.
    pub(crate) corrupt: bool,
    /// Two frames have the slot: it was duplicated.
    pub(crate) shared: Cell<bool>,
    /// Waited in queues so long.
    pub(crate) queue_delay: Nanos,
    /// Headers of the frame.
    pub(crate) headers: Headers,
}

impl Clone for Frame {
    /// A second frame with the same slot, of which both then know.
    fn clone(&self) -> Self {
        self.shared.set(true);
        Frame { shared: Cell::new(true), ..*self }
    }
}

impl path::Packet for Frame {
    #[inline]
    fn bytes(&self) -> u32 {
        self.headers.bytes
    }

    #[inline]
    fn payload(&self) -> u32 {
        self.headers.payload
    }

    #[inline]
    fn flow_hash(&self) -> u32 {
        (self.headers.hash >> 32) as u32
    }

    #[inline]
    fn ports(&self) -> (u16, u16) {
        self.headers.ports
    }

    #[inline]
    fn src(&self) -> u16 {
        self.headers.src
    }

    #[inline]
    fn dst(&self) -> u16 {
        self.headers.dst
    }

    #[inline]
    fn dscp(&self) -> u8 {
        self.headers.traffic_class >> 2
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        match self.headers.traffic_class & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    #[inline]
    fn set_ce(&mut self) {
        self.marked |= self.headers.traffic_class & 3 != 3;
        self.headers.traffic_class |= 3;
    }

    #[inline]
    fn set_corrupt(&mut self) {
        self.corrupt = true;
    }
}

/// Headers of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    /// Length of the IP packet.
    pub(crate) bytes: u32,
    /// Payload of TCP or UDP; of others, of IP.
    pub(crate) payload: u32,
    /// Offset of the transport's header.
    pub(crate) transport: u16,
    /// Protocol behind IP.
    pub(crate) protocol: u8,
    /// TCP's flags, or 0.
    pub(crate) flags: u8,
    /// The type of service of IPv4, the traffic class of IPv6.
    pub(crate) traffic_class: u8,
    /// TCP's sequence number, or 0.
    pub(crate) seq: u32,
    /// Hash of addresses, ports and protocol, well mixed.
    pub(crate) hash: u64,
    /// Digest of the sender's address.
    pub(crate) src: u16,
    /// Digest of the receiver's address.
    pub(crate) dst: u16,
    /// Ports, of TCP and UDP; else 0.
    pub(crate) ports: (u16, u16),
}

impl Headers {
    /// Headers of a frame that is no packet.
    pub(crate) const NONE: Headers = Headers {
        bytes: 0,
        payload: 0,
        transport: 0,
        protocol: 0,
        flags: 0,
        traffic_class: 0,
        seq: 0,
        hash: 0,
        src: 0,
        dst: 0,
        ports: (0, 0),
    };

    /// Reads a frame that begins with its virtio header. None: it is not IP, or keeps the network together (neighbour
    /// and multicast listener discovery, RFC 4861, 2710 and 3810), or is cut short.
    pub(crate) fn read(bytes: &[u8]) -> Option<Headers> {
        Headers::read_start(bytes).filter(|headers| bytes.len() >= IP + headers.bytes as usize)
    }

    /// Reads the beginning of a frame, headers included, as [`Headers::read`] reads a whole one.
    pub(crate) fn read_start(bytes: &[u8]) -> Option<Headers> {
        let ip = bytes.get(IP..)?;
        let (header, total, protocol, traffic_class, addresses) = match (bytes[IP - 2], bytes[IP - 1]) {
            (0x08, 0x00) if ip.len() >= 20 => {
                let header = usize::from(ip[0] & 0x0f) * 4;
                (header, usize::from(be16(ip, 2)), ip[9], ip[1], 12..20)
            }
            (0x86, 0xdd) if ip.len() >= 40 => {
                let traffic_class = ip[0] << 4 | ip[1] >> 4;
                // A packet whose headers cannot be followed, such as a later fragment, is one without ports.
                let (protocol, header) = codec::protocol(ip).map_or((ip[6], 40), |(next, at, _)| (next, at));
                (header, 40 + usize::from(be16(ip, 4)), protocol, traffic_class, 8..40)
            }
            _ => return None,
        };
        if header < 20 || total < header {
            return None;
        }
        let (transport, length) = (ip.get(header..total.min(ip.len()))?, total - header);
        let fragment = addresses.len() == 8 && be16(ip, 6) & 0x1fff != 0;
        let (payload, ports, flags, seq) = match protocol {
            _ if fragment => (length, (0, 0), 0, 0),
            TCP if transport.len() >= 20 => {
                let header = usize::from(transport[12] >> 4) * 4;
                (length.checked_sub(header)?, ports(transport), transport[13], be32(transport, 4))
            }
            UDP if transport.len() >= 8 => (length - 8, ports(transport), 0, 0),
            // Multicast listener discovery, also of version 2, and neighbour discovery.
            ICMP6 if transport.first().is_some_and(|kind| matches!(kind, 130..=137 | 143)) => return None,
            _ => (length, (0, 0), 0, 0),
        };
        let middle = addresses.start + addresses.len() / 2;
        let src = digest(&ip[addresses.start..middle]);
        let dst = digest(&ip[middle..addresses.end]);
        let rest = u64::from(ports.0) << 32 | u64::from(ports.1) << 16 | u64::from(protocol);
        Some(Headers {
            bytes: total as u32,
            payload: payload as u32,
            transport: (IP + header) as u16,
            protocol,
            flags,
            traffic_class,
            seq,
            hash: fold(fold(src, dst.rotate_left(32)), rest),
            src: (src >> 48) as u16,
            dst: (dst >> 48) as u16,
            ports,
        })
    }

    /// Digest that tells a packet from all others of its flow that are on their way at the time. It covers what no router
    /// and no queue discipline changes of the beginning of the frame `bytes`.
    pub(crate) fn identity(&self, bytes: &[u8]) -> u64 {
        let transport = usize::from(self.transport);
        // Without the checksum, which may not be made yet.
        let (first, rest) = if self.protocol == TCP { (16, 20..40) } else { (6, 8..40) };
        let identification = u64::from(be16(bytes, IP + 4));
        let mut found = fold(self.hash, identification << 32 | u64::from(self.bytes));
        for part in [
            bytes.get(transport..bytes.len().min(transport + first)),
            bytes.get(transport + rest.start..bytes.len().min(transport + rest.end)),
        ] {
            let mut words = part.unwrap_or_default().chunks_exact(8);
            found = words.by_ref().fold(found, |so_far, word| fold(so_far, whole(word)));
            found = fold(found, whole(words.remainder()));
        }
        found
    }

    /// Whether this is TCP.
    pub(crate) fn is_tcp(&self) -> bool {
        self.protocol == TCP && self.transport != 0 && self.ports != (0, 0)
    }
}

/// The addresses of an IP packet in a frame that [`Headers::read`] has read.
pub(crate) fn addresses(bytes: &[u8]) -> (IpAddr, IpAddr) {
    let ip = &bytes[IP..];
    if ip[0] >> 4 == 4 {
        let at = |start: usize| IpAddr::from(<[u8; 4]>::try_from(&ip[start..start + 4]).unwrap_or_default());
        (at(12), at(16))
    } else {
        let at =
            |start: usize| IpAddr::from(<[u8; 16]>::try_from(&ip[start..start + 16]).unwrap_or_default());
        (at(8), at(24))
    }
}

/// Writes the ECN field CE into a frame's IP header, and what that does to its checksum (RFC 1624).
pub(crate) fn mark(bytes: &mut [u8]) {
    let ip = &mut bytes[IP..];
    if ip[0] >> 4 == 6 {
        ip[1] |= 0x30;
        return;
    }
    let old = be16(ip, 0);
    ip[1] |= 3;
    let new = be16(ip, 0);
    // Equation 3 there.
    let sum = u64::from(!be16(ip, 10)) + u64::from(!old) + u64::from(new);
    let checksum = checksum::of(sum);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Damages a frame so that its receiver discards it: one bit of the last byte that the transport's checksum covers.
/// False, with nothing done, for a super-packet, whose checksums are not made yet.
#[must_use]
pub(crate) fn damage(bytes: &mut [u8], headers: &Headers) -> bool {
    if bytes[1] != GSO_NONE {
        return false;
    }
    let last = IP + headers.bytes as usize - 1;
    bytes[last] ^= 0x10;
    true
}

/// Fills in a checksum that was left to the interface, but not of a super-packet.
#[inline]
pub(crate) fn complete_checksum(bytes: &mut [u8]) {
    if bytes[0] & NEEDS_CSUM != 0 && bytes[1] == GSO_NONE {
        fill_in_checksum(bytes);
    }
}

fn fill_in_checksum(bytes: &mut [u8]) {
    let start = VNET + usize::from(ne16(bytes, 6));
    let at = start + usize::from(ne16(bytes, 8));
    if at + 2 <= bytes.len() {
        // The field holds the sum of the pseudo-header.
        let checksum = checksum::of(sum(&bytes[start..]));
        bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
    bytes[0] &= !NEEDS_CSUM;
}

/// Cuts a super-packet into the packets that an interface would send, of at most its `gso_size` payload bytes each;
/// hands each to `emit`, in `scratch`. False, with nothing done, if it is none, or of a kind that no TCP or UDP sends.
///
/// As the kernel's own segmentation (Documentation/networking/segmentation-offloads.rst): IPv4's identification counts
/// up, FIN and PSH go on the last, CWR on the first, and every checksum is complete.
pub(crate) fn segment(
    bytes: &[u8],
    headers: &Headers,
    scratch: &mut [u8],
    emit: &mut dyn FnMut(&mut [u8]),
) -> bool {
    let kind = bytes[1] & !GSO_ECN;
    let size = usize::from(ne16(bytes, 4));
    let transport = usize::from(headers.transport);
    let length = match (kind, headers.protocol) {
        (GSO_NONE, _) => return false,
        (GSO_UDP, UDP) => 8,
        (_, TCP) => usize::from(bytes[transport + 12] >> 4) * 4,
        _ => return false,
    };
    // A data offset that cannot be: the checksum has no place in what would be cut.
    if headers.protocol == TCP && length < 20 {
        return false;
    }
    let header = transport + length;
    let end = IP + headers.bytes as usize;
    if size == 0 || header + size > scratch.len() || header >= end {
        return false;
    }
    scratch[..header].copy_from_slice(&bytes[..header]);
    scratch[..VNET].fill(0);
    let version4 = bytes[IP] >> 4 == 4;
    let mut offset = 0;
    for (number, piece) in (0u16..).zip(bytes[header..end].chunks(size)) {
        let (first, last) = (number == 0, header + offset + piece.len() == end);
        let packet = &mut scratch[..header + piece.len()];
        packet[header..].copy_from_slice(piece);
        let total = packet.len() - IP;
        if version4 {
            packet[IP + 2..IP + 4].copy_from_slice(&(total as u16).to_be_bytes());
            let id = be16(bytes, IP + 4).wrapping_add(number);
            packet[IP + 4..IP + 6].copy_from_slice(&id.to_be_bytes());
            packet[IP + 10..IP + 12].fill(0);
            let checksum = checksum::of(sum(&packet[IP..transport]));
            packet[IP + 10..IP + 12].copy_from_slice(&checksum.to_be_bytes());
        } else {
            packet[IP + 4..IP + 6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
        }
        let checksum_at = if headers.protocol == TCP {
            let seq = headers.seq.wrapping_add(offset as u32);
            packet[transport + 4..transport + 8].copy_from_slice(&seq.to_be_bytes());
            let mut flags = bytes[transport + 13];
            flags &= if first { !0 } else { !CWR };
            flags &= if last { !0 } else { !(FIN | PSH) };
            packet[transport + 13] = flags;
            transport + 16
        } else {
            let length = (packet.len() - transport) as u16;
            packet[transport + 4..transport + 6].copy_from_slice(&length.to_be_bytes());
            transport + 6
        };
        packet[checksum_at..checksum_at + 2].fill(0);
        let checksum = transport_checksum(packet, transport, headers.protocol, version4);
        packet[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
        offset += piece.len();
        emit(packet);
    }
    true
}

/// The checksum of TCP or UDP with its pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1).
fn transport_checksum(packet: &[u8], transport: usize, protocol: u8, version4: bool) -> u16 {
    let addresses = if version4 { &packet[IP + 12..IP + 20] } else { &packet[IP + 8..IP + 40] };
    let length = (packet.len() - transport) as u64;
    let sum = sum(addresses) + u64::from(protocol) + length + sum(&packet[transport..]);
    match checksum::of(sum) {
        // For UDP, zero says that there is none (RFC 768).
        0 if protocol == UDP => 0xffff,
        checksum => checksum,
    }
}

fn ports(transport: &[u8]) -> (u16, u16) {
    (be16(transport, 0), be16(transport, 2))
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A field of the virtio header, in the machine's byte order.
/// Up to eight bytes as a number.
fn whole(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

fn ne16(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

/// An address in 64 well mixed bits.
fn digest(address: &[u8]) -> u64 {
    address.chunks(4).fold(0, |so_far, word| fold(so_far, u64::from(be32(word, 0)) | 1 << 32))
}

/// Mixes two words: the two halves of a product of odd constants' sums.
fn fold(a: u64, b: u64) -> u64 {
    // The fractions of the square roots of 2 and 3, made odd.
    let product = u128::from(a ^ 0x6a09_e667_f3bc_c909) * u128::from(b ^ 0xbb67_ae85_84ca_a73b);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with a TCP segment: virtio header, Ethernet, IPv4 or IPv6.
    fn tcp(version4: bool, payload: usize, flags: u8) -> Vec<u8> {
        let mut bytes = vec![0; VNET];
        bytes.extend([2; 12]);
        let total = 32 + payload;
        if version4 {
            bytes.extend([0x08, 0, 0x45, 2]);
            bytes.extend(((total + 20) as u16).to_be_bytes());
            bytes.extend([0xff, 0xff, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 1, 1]);
            let checksum = checksum::of(sum(&bytes[IP..IP + 20]));
            bytes[IP + 10..IP + 12].copy_from_slice(&checksum.to_be_bytes());
        } else {
            bytes.extend([0x86, 0xdd, 0x60, 0x20, 0, 0]);
            bytes.extend((total as u16).to_be_bytes());
            bytes.extend([TCP, 64]);
            bytes.extend([0xfd; 32]);
        }
        let transport = bytes.len();
        bytes.extend([
            0x9c, 0x40, 0x14, 0x51, 0xff, 0xff, 0xff, 0x00, 0, 0, 0, 1, 0x80, flags, 1, 0, 0, 0, 0, 0,
        ]);
        bytes.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        bytes.extend((0..payload).map(|index| index as u8));
        let checksum = transport_checksum(&bytes, transport, TCP, version4);
        bytes[transport + 16..transport + 18].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Whether all checksums are right.
    fn sound(bytes: &[u8], headers: &Headers) -> bool {
        let version4 = bytes[IP] >> 4 == 4;
        let transport = usize::from(headers.transport);
        let ip = !version4 || checksum::of(sum(&bytes[IP..transport])) == 0;
        ip && transport_checksum(bytes, transport, headers.protocol, version4) == 0
    }

    #[test]
    fn headers_are_read() {
        for version4 in [true, false] {
            let bytes = tcp(version4, 1000, SYN);
            let headers = Headers::read(&bytes).unwrap();
            assert!(sound(&bytes, &headers));
            assert_eq!(headers.bytes, if version4 { 1052 } else { 1072 });
            assert_eq!((headers.payload, headers.flags, headers.seq), (1000, SYN, 0xffff_ff00));
            assert_eq!((headers.ports, headers.traffic_class), ((40_000, 5201), 2));
            assert!(headers.is_tcp());
            for cut in [0, VNET, IP, IP + 19, bytes.len() - 1] {
                assert_eq!(Headers::read(&bytes[..cut]), None, "{cut} bytes");
            }
        }
        let mut arp = tcp(true, 0, 0);
        arp[IP - 1] = 0x06;
        assert_eq!(Headers::read(&arp), None);
    }

    #[test]
    fn ports_are_found_behind_extension_headers_of_any_length() {
        let plain = tcp(false, 100, 0x10);
        let first = Headers::read(&plain).unwrap();
        let behind = |kind: u8, units: u8| {
            let mut bytes = plain.clone();
            let mut header = vec![0; (usize::from(units) + 1) * 8];
            (header[0], header[1]) = (TCP, if kind == 44 { 0 } else { units });
            bytes.splice(IP + 40..IP + 40, header);
            bytes[IP + 6] = kind;
            let length = (bytes.len() - IP - 40) as u16;
            bytes[IP + 4..IP + 6].copy_from_slice(&length.to_be_bytes());
            bytes
        };
        for units in 0..=u8::MAX {
            let bytes = behind(60, units);
            let headers = Headers::read(&bytes).unwrap();
            let more = u32::from(units) * 8 + 8;
            assert_eq!((headers.bytes, headers.payload), (first.bytes + more, 100));
            assert_eq!((headers.ports, headers.hash, headers.flags), (first.ports, first.hash, first.flags));
            assert!(sound(&bytes, &headers));
        }
        // A report of multicast listeners, behind hop-by-hop options as always (RFC 3810 section 5), is nobody's packet.
        let mut report = behind(0, 0);
        report[IP + 40] = ICMP6;
        report[IP + 48] = 143;
        assert_eq!(Headers::read(&report), None);
        // The first fragment has ports; a later one is a packet without.
        let mut bytes = behind(44, 0);
        assert_eq!(Headers::read(&bytes).unwrap().ports, first.ports);
        bytes[IP + 43] = 8;
        let later = Headers::read(&bytes).unwrap();
        assert_eq!((later.ports, later.payload, later.is_tcp()), ((0, 0), first.bytes - 40 + 8, false));
    }

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        for version4 in [true, false] {
            let mut bytes = tcp(version4, 10, 0);
            mark(&mut bytes);
            let headers = Headers::read(&bytes).unwrap();
            assert!(sound(&bytes, &headers));
            assert_eq!(headers.traffic_class & 3, 3);
        }
    }

    #[test]
    fn damage_is_found_by_the_checksum() {
        for payload in [0, 1, 1000] {
            let mut bytes = tcp(true, payload, 0);
            let headers = Headers::read(&bytes).unwrap();
            let whole = bytes.clone();
            // The checksum left to the interface, as the kernel leaves it: the pseudo-header's sum is in its place.
            let transport = usize::from(headers.transport);
            bytes[0] = NEEDS_CSUM;
            bytes[6..8].copy_from_slice(&((transport - VNET) as u16).to_ne_bytes());
            bytes[8..10].copy_from_slice(&16u16.to_ne_bytes());
            let pseudo = !checksum::of(sum(&bytes[IP + 12..IP + 20]) + 6 + (bytes.len() - transport) as u64);
            bytes[transport + 16..transport + 18].copy_from_slice(&pseudo.to_be_bytes());
            complete_checksum(&mut bytes);
            assert_eq!((&bytes[IP..], bytes[0]), (&whole[IP..], 0));
            assert!(damage(&mut bytes, &headers));
            assert!(!sound(&bytes, &headers), "{payload}");
        }
    }

    #[test]
    fn a_super_packet_is_cut_as_an_interface_does_it() {
        for version4 in [true, false] {
            let mut bytes = tcp(version4, 10_000, FIN | PSH | CWR | 0x10);
            bytes[1] = 1 | GSO_ECN;
            bytes[4..6].copy_from_slice(&1448u16.to_ne_bytes());
            let headers = Headers::read(&bytes).unwrap();
            let (mut scratch, mut pieces) = (vec![0; 2048], Vec::new());
            assert!(segment(&bytes, &headers, &mut scratch, &mut |piece| pieces.push(piece.to_vec())));
            assert_eq!(pieces.len(), 7);
            let mut payload = Vec::new();
            for (number, piece) in pieces.iter().enumerate() {
                let found = Headers::read(piece).unwrap();
                assert!(sound(piece, &found), "packet {number}");
                assert_eq!(piece[..VNET], [0; VNET]);
                assert_eq!(found.seq, headers.seq.wrapping_add(1448 * number as u32));
                let expected = match number {
                    0 => CWR | 0x10,
                    6 => FIN | PSH | 0x10,
                    _ => 0x10,
                };
                assert_eq!(found.flags, expected, "packet {number}");
                assert_eq!((found.hash, found.ports), (headers.hash, headers.ports));
                if version4 {
                    assert_eq!(be16(piece, IP + 4), 0xffff_u16.wrapping_add(number as u16));
                }
                payload.extend_from_slice(&piece[piece.len() - found.payload as usize..]);
            }
            assert_eq!(payload, bytes[bytes.len() - 10_000..]);
            // Nor is one cut whose TCP header cannot be.
            bytes[usize::from(headers.transport) + 12] = 0;
            let headers = Headers::read(&bytes).unwrap();
            bytes[4..6].copy_from_slice(&1u16.to_ne_bytes());
            assert!(!segment(&bytes, &headers, &mut scratch, &mut |_| panic!("nothing to cut")));
            // What is no super-packet stays whole.
            let plain = tcp(version4, 100, 0);
            let headers = Headers::read(&plain).unwrap();
            assert!(!segment(&plain, &headers, &mut scratch, &mut |_| panic!("nothing to cut")));
        }
    }

    #[test]
    fn hashes_of_neighbouring_flows_spread() {
        let mut buckets = [0; 64];
        for port in 0..6400u16 {
            let mut bytes = tcp(true, 0, 0);
            bytes[IP + 20..IP + 22].copy_from_slice(&(10_000 + port).to_be_bytes());
            let hash = (Headers::read(&bytes).unwrap().hash >> 32) as u32;
            buckets[(hash % 64) as usize] += 1;
        }
        // 100 each; the standard deviation is 10.
        assert!(buckets.iter().all(|count| (50..150).contains(count)), "{buckets:?}");
    }
}
