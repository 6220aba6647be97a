//! The headers between the beginning of a frame and its innermost IP packet: link layers, tags, labels, tunnels.

use super::LinkType;
use crate::codec::{self, NotTcp};

/// Headers that are followed in one frame. A tunnel in a tunnel, with tags and labels, has about ten.
const MAX_HEADERS: usize = 24;

/// Layer that the next bytes of a frame belong to.
#[derive(Clone, Copy)]
enum Layer {
    Ethernet,
    /// Layer that an EtherType names (IANA, IEEE 802 numbers); up to 1500 the type is a length, and LLC follows.
    Type(u16),
    Llc,
    Ip,
    Ppp,
    Pppoe,
    Mpls,
    Gre,
    Vxlan,
    Geneve,
    Gtp,
}

/// The largest length field of IEEE 802.3; larger values are EtherTypes.
const MAX_LENGTH: u16 = 1500;

/// The innermost IP packet of a frame: the bytes present, and its length on the wire. What is no tunnel that is read
/// is the innermost packet, of whatever protocol.
pub(super) fn innermost(link: LinkType, frame: &[u8], wire_length: u32) -> Result<(&[u8], u32), NotTcp> {
    let (mut layer, mut at) = first(link, frame)?;
    for _ in 0..MAX_HEADERS {
        let rest = frame.get(at..).ok_or(NotTcp::CutShort)?;
        let Some((next, header)) = step(layer, rest)? else {
            return Ok((rest, wire_length.checked_sub(at as u32).ok_or(NotTcp::Malformed)?));
        };
        (layer, at) = (next, at + header);
    }
    Err(NotTcp::Nested)
}

/// Returns the first layer of a frame of this link type, and where it begins.
fn first(link: LinkType, frame: &[u8]) -> Result<(Layer, usize), NotTcp> {
    Ok(match link {
        LinkType::ETHERNET => (Layer::Ethernet, 0),
        LinkType::RAW | LinkType::RAW_BSD | LinkType::RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => {
            (Layer::Ip, 0)
        }
        LinkType::NULL | LinkType::LOOP => (Layer::Ip, 4),
        LinkType::LINUX_SLL => (Layer::Type(be16(frame, 14)?), 16),
        LinkType::LINUX_SLL2 => (Layer::Type(be16(frame, 0)?), 20),
        LinkType::C_HDLC => (Layer::Type(be16(frame, 2)?), 4),
        // Cisco HDLC is told by its address.
        LinkType::PPP_SERIAL if matches!(frame.first(), Some(0x0f | 0x8f)) => {
            (Layer::Type(be16(frame, 2)?), 4)
        }
        LinkType::PPP | LinkType::PPP_SERIAL => (Layer::Ppp, 0),
        // The direction stands where the address is.
        LinkType::PPP_PPPD => (Layer::Ppp, 2),
        LinkType::PPP_ETHER => (Layer::Pppoe, 0),
        LinkType::NFLOG => (Layer::Ip, nflog_payload(frame)?),
        LinkType(other) => return Err(NotTcp::Link(other)),
    })
}

/// Returns the layer that follows a header, and the length of the header in bytes. None if `rest` is an IP packet
/// that is no tunnel.
fn step(layer: Layer, rest: &[u8]) -> Result<Option<(Layer, usize)>, NotTcp> {
    Ok(Some(match layer {
        Layer::Ethernet => (Layer::Type(be16(rest, 12)?), 14),
        Layer::Type(ethertype) => of_type(ethertype, rest)?,
        Layer::Llc => llc(rest)?,
        Layer::Ip => return ip(rest),
        Layer::Ppp => ppp(rest)?,
        // RFC 2516: version and type, code (0 in a session), session, length.
        Layer::Pppoe => match be16(rest, 0)? {
            0x1100 => (Layer::Ppp, 6),
            _ => return Err(NotTcp::EtherType(0x8864)),
        },
        Layer::Mpls => mpls(rest)?,
        Layer::Gre => gre(rest)?,
        // RFC 7348: the flag says that there is a network identifier.
        Layer::Vxlan if byte(rest, 0)? & 0x08 != 0 => (Layer::Ethernet, 8),
        // RFC 8926: version 0, options in units of four bytes; control packets have nothing in them.
        Layer::Geneve if byte(rest, 0)? >> 6 == 0 && byte(rest, 1)? & 0x80 == 0 => {
            (Layer::Type(be16(rest, 2)?), 8 + usize::from(byte(rest, 0)? & 0x3f) * 4)
        }
        Layer::Gtp => gtp(rest)?,
        Layer::Vxlan | Layer::Geneve => return Err(NotTcp::Protocol(UDP)),
    }))
}

fn of_type(ethertype: u16, rest: &[u8]) -> Result<(Layer, usize), NotTcp> {
    Ok(match ethertype {
        0x0800 | 0x86dd => (Layer::Ip, 0),
        // IEEE 802.1Q, 802.1ad, and two numbers from before it.
        0x8100 | 0x88a8 | 0x9100 | 0x9200 => (Layer::Type(be16(rest, 2)?), 4),
        // VN-tag; E-tag (IEEE 802.1BR).
        0x8926 => (Layer::Type(be16(rest, 4)?), 6),
        0x893f => (Layer::Type(be16(rest, 6)?), 8),
        0x8847 | 0x8848 => (Layer::Mpls, 0),
        0x8864 => (Layer::Pppoe, 0),
        0x880b => (Layer::Ppp, 0),
        0x6558 => (Layer::Ethernet, 0),
        0..=MAX_LENGTH => (Layer::Llc, 0),
        other => return Err(NotTcp::EtherType(other)),
    })
}

/// LLC (IEEE 802.2), and SNAP behind it (RFC 1042).
fn llc(rest: &[u8]) -> Result<(Layer, usize), NotTcp> {
    let sap = byte(rest, 0)?;
    if sap == 0x06 {
        return Ok((Layer::Ip, 3));
    }
    if sap == 0xaa {
        let ethertype = be16(rest, 6)?;
        // Of organisations only those that say that an EtherType follows.
        if matches!(rest[3..6], [0, 0, 0 | 0xf8]) && ethertype > MAX_LENGTH {
            return Ok((Layer::Type(ethertype), 8));
        }
    }
    Err(NotTcp::Llc(sap))
}

/// PPP (RFC 1661), with address and control or without, the protocol in one byte or in two.
fn ppp(rest: &[u8]) -> Result<(Layer, usize), NotTcp> {
    let at = if rest.starts_with(&[0xff, 0x03]) { 2 } else { 0 };
    let first = byte(rest, at)?;
    let (protocol, header) =
        if first & 1 == 1 { (u16::from(first), at + 1) } else { (be16(rest, at)?, at + 2) };
    match protocol {
        0x0021 | 0x0057 => Ok((Layer::Ip, header)),
        0x0281 | 0x0283 => Ok((Layer::Mpls, header)),
        other => Err(NotTcp::Ppp(other)),
    }
}

/// A label (RFC 3032). Nothing says what follows the last one: an IP packet is known by its version, anything else is
/// Ethernet, behind a control word (RFC 4448) if it begins as one and is none without.
fn mpls(rest: &[u8]) -> Result<(Layer, usize), NotTcp> {
    let last = be16(rest, 2)? & 0x0100 != 0;
    if !last {
        return Ok((Layer::Mpls, 4));
    }
    let rest = &rest[4..];
    let is_ethernet = be16(rest, 12)
        .is_ok_and(|ethertype| ethertype > MAX_LENGTH && of_type(ethertype, &rest[14..]).is_ok());
    Ok(match byte(rest, 0)? >> 4 {
        4 | 6 => (Layer::Ip, 4),
        0 if !is_ethernet => (Layer::Ethernet, 8),
        _ => (Layer::Ethernet, 4),
    })
}

const UDP: u8 = 17;
const GRE: u8 = 47;

fn ip(rest: &[u8]) -> Result<Option<(Layer, usize)>, NotTcp> {
    // What is wrong with a packet is said by who reads it.
    let Ok((protocol, at, fragment)) = codec::protocol(rest) else { return Ok(None) };
    let inner = match protocol {
        4 | 41 => (Layer::Ip, at),
        GRE => (Layer::Gre, at),
        // EtherIP (RFC 3378); MPLS in IP (RFC 4023).
        97 => (Layer::Ethernet, at + 2),
        137 => (Layer::Mpls, at),
        UDP if !fragment => match be16(rest, at + 2) {
            // The second is Linux's from before there was a number.
            Ok(4789 | 8472) => (Layer::Vxlan, at + 8),
            Ok(6081) => (Layer::Geneve, at + 8),
            Ok(2152) => (Layer::Gtp, at + 8),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    if fragment { Err(NotTcp::Fragment) } else { Ok(Some(inner)) }
}

/// GRE (RFC 2784, RFC 2890), and PPTP's (RFC 2637).
fn gre(rest: &[u8]) -> Result<(Layer, usize), NotTcp> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const ACKNOWLEDGEMENT: u16 = 0x0080;
    let (flags, ethertype) = (be16(rest, 0)?, be16(rest, 2)?);
    let optional = match flags & 7 {
        0 => CHECKSUM | KEY | SEQUENCE,
        _ => KEY | SEQUENCE | ACKNOWLEDGEMENT,
    };
    if flags & 7 > 1 || flags & ROUTING != 0 || ethertype <= MAX_LENGTH {
        return Err(NotTcp::Protocol(GRE));
    }
    Ok((Layer::Type(ethertype), 4 + (flags & optional).count_ones() as usize * 4))
}

/// GTP-U (3GPP TS 29.281): a packet of a user, behind extension headers.
fn gtp(rest: &[u8]) -> Result<(Layer, usize), NotTcp> {
    const USER_PACKET: u8 = 255;
    let flags = byte(rest, 0)?;
    // Version 1, and not GTP'.
    if flags >> 4 != 3 || byte(rest, 1)? != USER_PACKET {
        return Err(NotTcp::Protocol(UDP));
    }
    if flags & 7 == 0 {
        return Ok((Layer::Ip, 8));
    }
    let (mut at, mut extension) = (12, flags & 4 != 0 && byte(rest, 11)? != 0);
    while extension {
        let length = usize::from(byte(rest, at)?) * 4;
        if length == 0 {
            return Err(NotTcp::Malformed);
        }
        at += length;
        extension = byte(rest, at - 1)? != 0;
    }
    Ok((Layer::Ip, at))
}

/// Finds the field of an NFLOG record in which the packet begins. Numbers are in the byte order of the machine that
/// captured; kinds are small, which tells it.
fn nflog_payload(frame: &[u8]) -> Result<usize, NotTcp> {
    const PAYLOAD: u16 = 9;
    let mut at = 4;
    loop {
        let field = frame.get(at..).and_then(|rest| rest.first_chunk()).ok_or(NotTcp::CutShort)?;
        let [a, b, c, d] = *field;
        let (length, kind) = match d {
            0 => (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])),
            _ => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        };
        if length < 4 {
            return Err(NotTcp::Malformed);
        }
        if kind == PAYLOAD {
            return Ok(at + 4);
        }
        at += usize::from(length).next_multiple_of(4);
    }
}

fn byte(bytes: &[u8], at: usize) -> Result<u8, NotTcp> {
    bytes.get(at).copied().ok_or(NotTcp::CutShort)
}

fn be16(bytes: &[u8], at: usize) -> Result<u16, NotTcp> {
    let two = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(NotTcp::CutShort)?;
    Ok(u16::from_be_bytes(*two))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::capture::Record;

    /// An IPv4 packet of this protocol.
    fn ipv4(protocol: u8, inner: &[u8]) -> Vec<u8> {
        let length = (20 + inner.len()) as u16;
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        [&packet, inner].concat()
    }

    /// A TCP packet with ten bytes.
    fn tcp() -> Vec<u8> {
        let mut header = [0; 30];
        (header[1], header[3], header[12], header[13]) = (7, 9, 0x50, 0x10);
        ipv4(6, &header)
    }

    fn udp(port: u16, inner: &[u8]) -> Vec<u8> {
        let length = (8 + inner.len()) as u16;
        let header = [[0x12, 0x34], port.to_be_bytes(), length.to_be_bytes(), [0, 0]].concat();
        ipv4(UDP, &[&header, inner].concat())
    }

    fn ethernet(ethertype: u16, inner: &[u8]) -> Vec<u8> {
        [&[2; 12][..], &ethertype.to_be_bytes(), inner].concat()
    }

    fn read(link: LinkType, bytes: &[u8]) -> Result<u32, NotTcp> {
        let record = Record { t_ns: 0, wire_length: bytes.len() as u32, link, bytes };
        let (ip, length) = record.ip()?;
        let packet = codec::parse(ip, length)?;
        assert_eq!((packet.ends.sport, packet.ends.dport), (7, 9));
        Ok(packet.segment.len)
    }

    fn framed(header: &[u8], inner: &[u8]) -> Vec<u8> {
        [header, inner].concat()
    }

    #[test]
    fn the_packet_behind_each_header_is_found() {
        let tcp = tcp();
        let inside = ethernet(0x0800, &tcp);
        let pppoe = framed(&[0x11, 0, 0, 1, 0, 52, 0, 0x21], &tcp);
        let ethernets: Vec<(&str, Vec<u8>)> = vec![
            ("PPPoE", ethernet(0x8864, &pppoe)),
            ("QinQ", ethernet(0x88a8, &framed(&[0, 5, 0x81, 0, 0, 6, 8, 0], &tcp))),
            ("VN-tag", ethernet(0x8926, &framed(&[0x80, 0, 0, 1, 0x81, 0, 0, 6, 8, 0], &tcp))),
            ("E-tag", ethernet(0x893f, &framed(&[0, 0, 0, 0, 0, 0, 8, 0], &tcp))),
            ("MPLS", ethernet(0x8847, &framed(&[0, 1, 0, 64, 0, 2, 1, 64], &tcp))),
            ("Ethernet over MPLS", ethernet(0x8847, &framed(&[0, 2, 1, 64], &inside))),
            ("with a control word", ethernet(0x8847, &framed(&[0, 2, 1, 64, 0, 0, 0, 0], &inside))),
            ("SNAP", ethernet(58, &framed(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &tcp))),
            ("LLC", ethernet(53, &framed(&[6, 6, 3], &tcp))),
            ("IP in IP", ethernet(0x0800, &ipv4(4, &tcp))),
            ("GRE", ethernet(0x0800, &ipv4(GRE, &framed(&[0, 0, 8, 0], &tcp)))),
            (
                "GRE, all fields",
                ethernet(0x0800, &ipv4(GRE, &framed(&[&[0xb0, 0, 8, 0][..], &[0; 12]].concat(), &tcp))),
            ),
            (
                "Ethernet in GRE",
                ethernet(0x0800, &ipv4(GRE, &framed(&[0x20, 0, 0x65, 0x58, 0, 0, 0, 1], &inside))),
            ),
            (
                "PPTP",
                ethernet(
                    0x0800,
                    &ipv4(
                        GRE,
                        &framed(
                            &[0x30, 0x81, 0x88, 0x0b, 0, 54, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 3, 0, 0x21],
                            &tcp,
                        ),
                    ),
                ),
            ),
            ("EtherIP", ethernet(0x0800, &ipv4(97, &framed(&[0x30, 0], &inside)))),
            ("MPLS in IP", ethernet(0x0800, &ipv4(137, &framed(&[0, 2, 1, 64], &tcp)))),
            ("VXLAN", ethernet(0x0800, &udp(4789, &framed(&[8, 0, 0, 0, 0, 0, 1, 0], &inside)))),
            (
                "Geneve",
                ethernet(0x0800, &udp(6081, &framed(&[1, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 2, 3, 4], &inside))),
            ),
            ("GTP", ethernet(0x0800, &udp(2152, &framed(&[0x30, 255, 0, 50, 0, 0, 0, 1], &tcp)))),
            (
                "GTP, extended",
                ethernet(
                    0x0800,
                    &udp(2152, &framed(&[0x34, 255, 0, 58, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0x10, 9, 0], &tcp)),
                ),
            ),
        ];
        for (name, frame) in &ethernets {
            assert_eq!(read(LinkType::ETHERNET, frame), Ok(10), "{name}");
        }
        let nflog =
            [&[2, 0, 0, 0, 8, 0, 1, 0, 8, 0, 3, 0, 5, 0, 10, 0, 0, 0, 0, 0, 54, 0, 9, 0][..], &tcp].concat();
        let nflog_be = [&[2, 0, 0, 0, 0, 8, 0, 1, 8, 0, 3, 0, 0, 54, 0, 9][..], &tcp].concat();
        let links: Vec<(LinkType, Vec<u8>)> = vec![
            (LinkType::PPP, framed(&[0xff, 3, 0, 0x21], &tcp)),
            (LinkType::PPP, framed(&[0x21], &tcp)),
            (LinkType::PPP_SERIAL, framed(&[0xff, 3, 0, 0x21], &tcp)),
            (LinkType::PPP_SERIAL, framed(&[0x0f, 0, 8, 0], &tcp)),
            (LinkType::PPP_PPPD, framed(&[1, 3, 0, 0x21], &tcp)),
            (LinkType::PPP_ETHER, pppoe),
            (LinkType::C_HDLC, framed(&[0x0f, 0, 8, 0], &tcp)),
            (LinkType::NFLOG, nflog),
            (LinkType::NFLOG, nflog_be),
            (LinkType::LINUX_SLL, [&[0; 14][..], &[0x81, 0, 0, 5, 8, 0], &tcp].concat()),
        ];
        for (link, frame) in &links {
            assert_eq!(read(*link, frame), Ok(10), "{link:?}");
        }
    }

    #[test]
    fn what_is_not_read_is_named() {
        let (tcp, ethernet_of) = (tcp(), |kind| ethernet(kind, &[0; 40]));
        let said = |link, frame: &[u8]| read(link, frame).unwrap_err().to_string();
        assert_eq!(said(LinkType::ETHERNET, &ethernet_of(0x0806)), "ARP");
        assert_eq!(said(LinkType::ETHERNET, &ethernet_of(0x1234)), "EtherType 0x1234");
        assert_eq!(said(LinkType(105), &tcp), "IEEE 802.11 (link type 105)");
        assert_eq!(said(LinkType::ETHERNET, &ethernet(38, &[0x42, 0x42, 3])), "STP");
        assert_eq!(said(LinkType::PPP, &[0xff, 3, 0xc0, 0x21, 1]), "PPP LCP");
        assert_eq!(said(LinkType::RAW, &ipv4(50, &[0; 40])), "ESP");
        assert_eq!(said(LinkType::RAW, &udp(53, &[0; 40])), "UDP");
        assert_eq!(said(LinkType::RAW, &udp(4789, &[0; 40])), "UDP");
        let mut fragment = ipv4(GRE, &[0; 40]);
        fragment[7] = 1;
        assert_eq!(read(LinkType::RAW, &fragment), Err(NotTcp::Fragment));
        let deep = (0..MAX_HEADERS).fold(tcp, |inner, _| ipv4(4, &inner));
        assert_eq!(read(LinkType::RAW, &deep), Err(NotTcp::Nested));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            link in prop::sample::select(vec![0, 1, 9, 50, 51, 101, 104, 108, 113, 166, 239, 276]),
            start in prop::sample::select(vec![
                vec![],
                ethernet(0x0800, &ipv4(GRE, &[])), ethernet(0x8847, &[]), ethernet(0x8864, &[]), ethernet(20, &[]),
                ethernet(0x0800, &udp(4789, &[8])), ethernet(0x0800, &udp(6081, &[])), ethernet(0x0800, &udp(2152, &[0x34, 255])),
            ]),
            bytes in prop::collection::vec(any::<u8>(), 0..120),
            wire_length in 0_u32..200,
        ) {
            let bytes = framed(&start, &bytes);
            let record = Record { t_ns: 0, wire_length, link: LinkType(link), bytes: &bytes };
            if let Ok((ip, length)) = record.ip() {
                prop_assert!(bytes.ends_with(ip) && length <= wire_length);
                let _ = codec::parse(ip, length);
            }
        }
    }
}
