//! Datagrams to the bytes of IPv4 packets: UDP (RFC 768) and ICMP echo (RFC 792), with zeros as payload.

use std::net::Ipv4Addr;

use crate::checksum::{self, sum};
use crate::codec::{self, Ends, Payload};
use crate::segment::{Ecn, IP_HEADER};

/// Length of the UDP header, and of that of an ICMP echo.
const HEADER: u32 = 8;
/// Protocol numbers of the IP header.
const ICMP: u8 = 1;
const UDP: u8 = 17;
/// Types of an ICMP message.
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;

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

/// Appends a datagram with `length` bytes of payload, all zeros, as an IPv4 packet to `buf`, of which it keeps `snaplen`
/// bytes, and returns the packet's length in bytes. TTL 64, don't fragment.
pub fn write_ipv4(
    buf: &mut Vec<u8>,
    kind: Kind,
    ends: &Ends<Ipv4Addr>,
    ecn: Ecn,
    length: u32,
    snaplen: u32,
) -> u32 {
    let start = buf.len();
    let carried = HEADER + length;
    let ip_length = IP_HEADER + carried;
    let protocol = if kind == Kind::Udp { UDP } else { ICMP };
    let ip = codec::ipv4_header(ends, protocol, ecn, 0, ip_length);
    let mut transport = [0u8; HEADER as usize];
    match kind {
        Kind::Udp => {
            transport[0..2].copy_from_slice(&ends.sport.to_be_bytes());
            transport[2..4].copy_from_slice(&ends.dport.to_be_bytes());
            transport[4..6].copy_from_slice(&u16::try_from(carried).unwrap_or(0).to_be_bytes());
            let pseudo = sum(&ip[12..20]) + u64::from(UDP) + u64::from(carried);
            // A checksum of zero would say that there is none.
            let checksum = match checksum::of(pseudo + sum(&transport)) {
                0 => u16::MAX,
                checksum => checksum,
            };
            transport[6..8].copy_from_slice(&checksum.to_be_bytes());
        }
        Kind::EchoRequest { identifier, sequence } | Kind::EchoReply { identifier, sequence } => {
            let request = matches!(kind, Kind::EchoRequest { .. });
            transport[0] = if request { ECHO_REQUEST } else { ECHO_REPLY };
            transport[4..6].copy_from_slice(&identifier.to_be_bytes());
            transport[6..8].copy_from_slice(&sequence.to_be_bytes());
            let checksum = checksum::of(sum(&transport));
            transport[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
    }
    buf.extend_from_slice(&ip);
    buf.extend_from_slice(&transport);
    codec::keep(buf, start, ip_length, Payload::Zeros { snaplen });
    ip_length
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Ends<Ipv4Addr> =
        Ends { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 1, 1), sport: 10_000, dport: 5201 };

    fn written(kind: Kind, length: u32, snaplen: u32) -> (Vec<u8>, u32) {
        let mut bytes = Vec::new();
        let on_the_wire = write_ipv4(&mut bytes, kind, &ENDS, Ecn::Ect1, length, snaplen);
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
    fn of_a_long_one_the_beginning_is_kept() {
        let (bytes, length) = written(Kind::Udp, 1472, 60);
        assert_eq!((bytes.len(), length), (60, 1500));
    }
}
