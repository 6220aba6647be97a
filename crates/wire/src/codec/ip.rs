//! IP headers, as FreeBSD and Linux write them: IPv4 without options that must not be fragmented, IPv6 without extensions.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Ends;
use crate::checksum::{self, sum};
use crate::segment::{Ecn, IPV4_HEADER, IPV6_HEADER};

/// TTL or hop limit that FreeBSD and Linux send with.
const HOP_LIMIT: u8 = 64;
/// Don't Fragment, in the first byte of the flags and the fragment offset (RFC 791 section 3.1).
const DONT_FRAGMENT: u8 = 0x40;

/// Address of either IP version, and what packets between two of them begin with.
pub trait Address: Copy {
    /// Length of the header in bytes.
    const HEADER: u32;
    /// Number of the version's ICMP in the protocol field.
    const ICMP: u8;
    /// ICMP types of an echo request and its reply.
    const ECHO: [u8; 2];
    /// Whether the checksum of ICMP covers the addresses (RFC 4443 section 2.3).
    const ICMP_COVERS_ADDRESSES: bool;
    /// Number of the version in the header of an Ethernet frame.
    const ETHERTYPE: [u8; 2];

    /// Header of a packet that carries `carried` bytes behind it.
    ///
    /// `label` is the identification of IPv4 or the flow label of IPv6. What is too long for the length field gets the
    /// length 0, as Linux writes before segmentation offload.
    fn header(ends: &Ends<Self>, protocol: u8, ecn: Ecn, label: u32, carried: u32) -> impl AsRef<[u8]>;

    /// Sum of source and destination, as checksums count it.
    fn sum(ends: &Ends<Self>) -> u64;

    /// Last four bytes of the address.
    fn tail(self) -> [u8; 4];
}

impl Address for Ipv4Addr {
    const HEADER: u32 = IPV4_HEADER;
    const ICMP: u8 = 1;
    const ECHO: [u8; 2] = [8, 0];
    const ICMP_COVERS_ADDRESSES: bool = false;
    const ETHERTYPE: [u8; 2] = [0x08, 0x00];

    #[inline]
    fn header(ends: &Ends<Ipv4Addr>, protocol: u8, ecn: Ecn, label: u32, carried: u32) -> impl AsRef<[u8]> {
        let mut header = [0u8; IPV4_HEADER as usize];
        // Version 4, five words.
        header[0] = 0x45;
        header[1] = ecn as u8;
        header[2..4].copy_from_slice(&u16::try_from(IPV4_HEADER + carried).unwrap_or(0).to_be_bytes());
        header[4..6].copy_from_slice(&(label as u16).to_be_bytes());
        header[6] = DONT_FRAGMENT;
        header[8] = HOP_LIMIT;
        header[9] = protocol;
        header[12..16].copy_from_slice(&ends.src.octets());
        header[16..20].copy_from_slice(&ends.dst.octets());
        let checksum = checksum::of(sum(&header));
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header
    }

    #[inline]
    fn sum(ends: &Ends<Ipv4Addr>) -> u64 {
        sum(&ends.src.octets()) + sum(&ends.dst.octets())
    }

    fn tail(self) -> [u8; 4] {
        self.octets()
    }
}

impl Address for Ipv6Addr {
    const HEADER: u32 = IPV6_HEADER;
    const ICMP: u8 = 58;
    const ECHO: [u8; 2] = [128, 129];
    const ICMP_COVERS_ADDRESSES: bool = true;
    const ETHERTYPE: [u8; 2] = [0x86, 0xdd];

    #[inline]
    fn header(ends: &Ends<Ipv6Addr>, protocol: u8, ecn: Ecn, label: u32, carried: u32) -> impl AsRef<[u8]> {
        let mut header = [0u8; IPV6_HEADER as usize];
        // Version 6, eight bits of traffic class, 20 of flow label (RFC 8200 section 3).
        let first = 6 << 28 | (ecn as u32) << 20 | label & 0xf_ffff;
        header[0..4].copy_from_slice(&first.to_be_bytes());
        header[4..6].copy_from_slice(&u16::try_from(carried).unwrap_or(0).to_be_bytes());
        header[6] = protocol;
        header[7] = HOP_LIMIT;
        header[8..24].copy_from_slice(&ends.src.octets());
        header[24..40].copy_from_slice(&ends.dst.octets());
        header
    }

    #[inline]
    fn sum(ends: &Ends<Ipv6Addr>) -> u64 {
        sum(&ends.src.octets()) + sum(&ends.dst.octets())
    }

    fn tail(self) -> [u8; 4] {
        let octets = self.octets();
        [octets[12], octets[13], octets[14], octets[15]]
    }
}
