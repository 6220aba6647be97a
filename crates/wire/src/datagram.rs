//! Datagrams to the bytes of IP packets: UDP (RFC 768) and ICMP echo (RFC 792, RFC 4443), with zeros as payload.

use crate::checksum::{self, sum};
use crate::codec::{self, Address, Ends, Payload};
use crate::segment::Ecn;

/// Length of the UDP header, and of that of an ICMP echo.
const HEADER: u32 = 8;
/// UDP in the protocol field of an IP header.
const UDP: u8 = 17;

/// Kind of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UDP between the ports of its ends.
    Udp,
    /// An ICMP echo request; the ports are not used.
    EchoRequest {
        /// Tells one prober from another.
        identifier: u16,
        /// Number of the probe.
        sequence: u16,
    },
    /// The answer to an echo request.
    EchoReply {
        /// Identifier of the request.
        identifier: u16,
        /// Sequence number of the request.
        sequence: u16,
    },
}

/// Appends a datagram with `length` bytes of payload, all zeros, as an IP packet to `buf`, of which it keeps `snaplen`
/// bytes, and returns the packet's length in bytes. TTL or hop limit 64, don't fragment, identification or flow label 0.
pub fn write<A: Address>(
    buf: &mut Vec<u8>,
    kind: Kind,
    ends: &Ends<A>,
    ecn: Ecn,
    length: u32,
    snaplen: u32,
) -> u32 {
    let start = buf.len();
    let carried = HEADER + length;
    let protocol = if kind == Kind::Udp { UDP } else { A::ICMP };
    let ip = A::header(ends, protocol, ecn, 0, carried);
    let pseudo = A::sum(ends) + u64::from(protocol) + u64::from(carried);
    let mut transport = [0u8; HEADER as usize];
    match kind {
        Kind::Udp => {
            transport[0..2].copy_from_slice(&ends.sport.to_be_bytes());
            transport[2..4].copy_from_slice(&ends.dport.to_be_bytes());
            transport[4..6].copy_from_slice(&u16::try_from(carried).unwrap_or(0).to_be_bytes());
            // A checksum of zero would say that there is none.
            let checksum = match checksum::of(pseudo + sum(&transport)) {
                0 => u16::MAX,
                checksum => checksum,
            };
            transport[6..8].copy_from_slice(&checksum.to_be_bytes());
        }
        Kind::EchoRequest { identifier, sequence } | Kind::EchoReply { identifier, sequence } => {
            let [request, reply] = A::ECHO;
            transport[0] = if matches!(kind, Kind::EchoRequest { .. }) { request } else { reply };
            transport[4..6].copy_from_slice(&identifier.to_be_bytes());
            transport[6..8].copy_from_slice(&sequence.to_be_bytes());
            let covered = if A::ICMP_COVERS_ADDRESSES { pseudo } else { 0 };
            let checksum = checksum::of(covered + sum(&transport));
            transport[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
    }
    let ip_length = A::HEADER + carried;
    buf.extend_from_slice(ip.as_ref());
    buf.extend_from_slice(&transport);
    codec::keep(buf, start, ip_length, Payload::Zeros { snaplen });
    ip_length
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const ENDS: Ends<Ipv4Addr> =
        Ends { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 1, 1), sport: 10_000, dport: 5201 };

    fn written(kind: Kind, length: u32, snaplen: u32) -> (Vec<u8>, u32) {
        let mut bytes = Vec::new();
        let on_the_wire = write(&mut bytes, kind, &ENDS, Ecn::Ect1, length, snaplen);
        (bytes, on_the_wire)
    }

    #[test]
    fn a_udp_datagram_sums_to_zero_with_its_pseudo_header() {
        let (bytes, length) = written(Kind::Udp, 3, 100);
        assert_eq!((bytes.len(), length), (31, 31));
        assert_eq!(bytes[1], 1, "ECT(1) (RFC 3168 section 5)");
        assert_eq!(checksum::of(sum(&bytes[..20])), 0, "the header");
        // Source, destination, protocol, UDP length (RFC 768).
        assert_eq!(checksum::of(sum(&bytes[12..20]) + 17 + 11 + sum(&bytes[20..])), 0, "the datagram");
    }

    #[test]
    fn an_echo_and_its_reply_differ_in_their_type() {
        let number = |bytes: &[u8]| (bytes[20], bytes[24..28].to_vec());
        let (request, _) = written(Kind::EchoRequest { identifier: 0x0102, sequence: 0x0304 }, 56, 1500);
        let (reply, _) = written(Kind::EchoReply { identifier: 0x0102, sequence: 0x0304 }, 56, 1500);
        assert_eq!(number(&request), (8, vec![1, 2, 3, 4]));
        assert_eq!(number(&reply), (0, vec![1, 2, 3, 4]));
        for bytes in [request, reply] {
            assert_eq!((bytes.len(), checksum::of(sum(&bytes[20..]))), (84, 0));
        }
    }

    #[test]
    fn over_ipv6_both_kinds_sum_to_zero_with_the_addresses() {
        let address = |last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
        let ends = Ends { src: address(1), dst: address(2), sport: 10_000, dport: 5201 };
        let echo = |kind: fn(u16, u16) -> Kind| kind(7, 9);
        let request = echo(|identifier, sequence| Kind::EchoRequest { identifier, sequence });
        let reply = echo(|identifier, sequence| Kind::EchoReply { identifier, sequence });
        // Protocol numbers of UDP and ICMPv6; types of RFC 4443 section 4.
        for (kind, protocol, first) in [(Kind::Udp, 17, 10_000u16 >> 8), (request, 58, 128), (reply, 58, 129)]
        {
            let mut bytes = Vec::new();
            assert_eq!(write(&mut bytes, kind, &ends, Ecn::Ect0, 3, 100), 51);
            assert_eq!((bytes.len(), bytes[6], u16::from(bytes[40])), (51, protocol, first));
            let pseudo = sum(&bytes[8..40]) + u64::from(protocol) + 11;
            assert_eq!(checksum::of(pseudo + sum(&bytes[40..])), 0, "{kind:?}");
        }
    }

    #[test]
    fn of_a_long_one_the_beginning_is_kept() {
        let (bytes, length) = written(Kind::Udp, 1472, 60);
        assert_eq!((bytes.len(), length), (60, 1500));
    }
}
