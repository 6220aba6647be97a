//! Segments to the bytes of IPv4 or IPv6 packets with TCP headers, and back.
//!
//! Writing lays options out as real systems do and computes both checksums. Reading takes whatever a network or a
//! capture file holds: it never panics, and reads only what the lengths in the headers and the bytes present allow.

mod ip;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;
use std::net::IpAddr;

use crate::checksum::{self, sum};
use crate::segment::Segment;

pub use ip::Address;
pub use read::{parse, protocol};
pub(crate) use write::keep;
pub use write::write;

/// Source and destination of a packet.
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

/// Order in which a system puts the options of a SYN. All take the same number of bytes, [`Segment::option_bytes`];
/// outside a SYN all systems write NOP, NOP, timestamps, NOP, NOP, SACK.
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
    /// Bytes given, as many as the segment's `len`.
    Bytes(&'a [u8]),
    /// Zeros, and of the whole packet at most `snaplen` bytes; lengths and checksums are those of the whole.
    Zeros {
        /// Bytes kept of the packet, from the IP header on.
        snaplen: u32,
    },
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
    /// The TCP header and the payload, as far as they are present.
    pub fn tcp(&self) -> &[u8] {
        self.tcp
    }

    /// Whether the TCP checksum is right. None when not the whole packet is present.
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

/// Reason why bytes are not a TCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotTcp {
    /// A link layer that is not read: the capture's number for it.
    Link(u16),
    /// Something else than IP in a frame: its EtherType.
    EtherType(u16),
    /// Something else than IP in LLC: the service access point.
    Llc(u8),
    /// Something else than IP in PPP: the protocol.
    Ppp(u16),
    /// More headers before an IP packet than are followed.
    Nested,
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

impl fmt::Display for NotTcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            NotTcp::Link(105) => "IEEE 802.11 (link type 105)",
            NotTcp::Link(127) => "IEEE 802.11 (link type 127)",
            NotTcp::Link(u16::MAX) => "with a time before 1970 or after 2554",
            NotTcp::Link(other) => return write!(f, "link type {other}"),
            NotTcp::EtherType(0x0806) => "ARP",
            NotTcp::EtherType(0x22eb | 0x88be) => "ERSPAN",
            NotTcp::EtherType(0x8863) => "PPPoE discovery",
            NotTcp::EtherType(0x888e) => "EAPOL",
            NotTcp::EtherType(0x88cc) => "LLDP",
            NotTcp::EtherType(0x88e5) => "MACsec",
            NotTcp::EtherType(other) => return write!(f, "EtherType 0x{other:04x}"),
            NotTcp::Llc(0x42) => "STP",
            NotTcp::Llc(other) => return write!(f, "LLC 0x{other:02x}"),
            NotTcp::Ppp(0x002d | 0x002f | 0x00fd) => "PPP, compressed",
            NotTcp::Ppp(0x003d) => "PPP multilink",
            NotTcp::Ppp(0x8021) => "PPP IPCP",
            NotTcp::Ppp(0xc021) => "PPP LCP",
            NotTcp::Ppp(other) => return write!(f, "PPP 0x{other:04x}"),
            NotTcp::Nested => "too many headers before IP",
            NotTcp::Version(_) => "neither IPv4 nor IPv6",
            NotTcp::Protocol(1) => "ICMP",
            NotTcp::Protocol(2) => "IGMP",
            NotTcp::Protocol(17) => "UDP",
            NotTcp::Protocol(47) => "GRE",
            NotTcp::Protocol(50) => "ESP",
            NotTcp::Protocol(51) => "AH",
            NotTcp::Protocol(58) => "ICMPv6",
            NotTcp::Protocol(89) => "OSPF",
            NotTcp::Protocol(115) => "L2TP",
            NotTcp::Protocol(132) => "SCTP",
            NotTcp::Protocol(other) => return write!(f, "IP protocol {other}"),
            NotTcp::Fragment => "fragment",
            NotTcp::CutShort => "cut short",
            NotTcp::Malformed => "malformed",
        };
        f.write_str(name)
    }
}

/// TCP in the protocol field of an IP header (RFC 9293 section 3.1).
pub const PROTOCOL_TCP: u8 = 6;
/// The most bytes of options that the data offset can express (RFC 9293 section 3.1).
const MAX_OPTIONS: usize = 40;

/// Option kinds (IANA, TCP parameters).
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NOP: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WSCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}

/// The end of the pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1): protocol and length.
fn pseudo_tail(tcp_length: u32) -> u64 {
    u64::from(PROTOCOL_TCP) + u64::from(tcp_length >> 16) + u64::from(tcp_length & 0xffff)
}
