//! Packets between their three forms: as a script writes them, as bytes of IPv4, and as text for messages.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use tcp::endpoint::Icmp;
use wire::checksum;
use wire::codec::{self, Address as _, Ends};
use wire::{Cookie, Ecn, Flags};

use crate::script::{AccEcnOrder, EcnField, Packet, TcpOption, UdpPorts};
pub use crate::script::{LOCAL, REMOTE};

/// The port that `bind` takes and `connect` goes to.
pub const PORT: u16 = 8080;

/// Length of an IPv4 or a TCP header without options.
const HEADER: usize = 20;

/// A packet the system under test has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Addresses and ports.
    pub ends: Ends<Ipv4Addr>,
    /// Everything else, with sequence numbers as on the wire.
    pub packet: Packet,
}

/// Reads bytes of an IPv4 packet whose whole length is `wire_length`. None: not TCP over IPv4.
pub fn decode(bytes: &[u8], wire_length: u32) -> Option<Seen> {
    let read = codec::parse(bytes, wire_length).ok()?;
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (read.ends.src, read.ends.dst) else { return None };
    let segment = read.segment;
    let tcp = usize::from(bytes[0] & 15) * 4;
    let data = tcp + usize::from(bytes[tcp + 12] >> 4) * 4;
    Some(Seen {
        ends: Ends { src, dst, sport: read.ends.sport, dport: read.ends.dport },
        packet: Packet {
            ecn: Some(EcnField::Is(segment.ecn)),
            flags: segment.flags,
            seq: segment.seq,
            any_seq: false,
            len: segment.len,
            ack: segment.ack,
            window: Some(segment.window),
            options: Some(options(bytes.get(tcp + HEADER..data).unwrap_or(&[]))),
            udp: None,
            absolute: false,
        },
    })
}

/// Options in the order of the header, up to the first one that is malformed.
fn options(mut bytes: &[u8]) -> Vec<TcpOption> {
    let mut found = Vec::new();
    while let Some((&kind, rest)) = bytes.split_first() {
        if kind < 2 {
            found.push(if kind == 0 { TcpOption::End } else { TcpOption::Nop });
            bytes = rest;
            continue;
        }
        let Some(&length) = rest.first() else { break };
        let Some(value) = bytes.get(2..usize::from(length)) else { break };
        let be32 = |at: usize| u32::from_be_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]]);
        found.push(match (kind, value.len()) {
            (2, 2) => TcpOption::Mss(u16::from_be_bytes([value[0], value[1]])),
            (3, 1) => TcpOption::WindowScale(value[0]),
            (4, 0) => TcpOption::SackPermitted,
            (5, 8 | 16 | 24 | 32) => {
                TcpOption::Sack((0..value.len() / 8).map(|i| (be32(8 * i), be32(8 * i + 4))).collect())
            }
            (8, 8) => TcpOption::Timestamps { val: be32(0), ecr: be32(4) },
            (172 | 174, 0 | 3 | 6 | 9) => TcpOption::AccEcn {
                order: if kind == 172 { AccEcnOrder::Zero } else { AccEcnOrder::One },
                counters: value.chunks(3).map(|b| u32::from_be_bytes([0, b[0], b[1], b[2]])).collect(),
            },
            (Cookie::KIND, _) => TcpOption::FastOpen { cookie: value.to_vec(), experimental: false },
            (Cookie::EXPERIMENT, 2..) if value[..2] == Cookie::MAGIC.to_be_bytes() => {
                TcpOption::FastOpen { cookie: value[2..].to_vec(), experimental: true }
            }
            _ => TcpOption::Other(kind, value.to_vec()),
        });
        bytes = &bytes[usize::from(length)..];
    }
    found
}

/// The bytes of an IPv4 packet with both checksums; the payload is zeros. [`ip_length`] fits its field.
pub fn encode(packet: &Packet, ends: &Ends<Ipv4Addr>) -> Vec<u8> {
    let options = packet.options.as_deref().unwrap_or(&[]);
    let option_length = option_length(options);
    let ip_length = ip_length(packet);
    let tcp_length = ip_length - HEADER;
    let ecn = match packet.ecn {
        Some(EcnField::Is(ecn)) => ecn,
        Some(EcnField::Capable) => Ecn::Ect0,
        None => Ecn::NotEct,
    };
    let mut bytes = Vec::with_capacity(ip_length);
    bytes.extend(Ipv4Addr::header(ends, codec::PROTOCOL_TCP, ecn, 0, tcp_length as u32).as_ref());
    bytes.extend(ends.sport.to_be_bytes());
    bytes.extend(ends.dport.to_be_bytes());
    bytes.extend(packet.seq.to_be_bytes());
    bytes.extend(packet.ack.to_be_bytes());
    let words = ((HEADER + option_length) / 4) as u16;
    bytes.extend((words << 12 | packet.flags.0).to_be_bytes());
    bytes.extend(packet.window.unwrap_or(0).to_be_bytes());
    bytes.extend([0; 4]);
    options.iter().for_each(|option| write_option(&mut bytes, option));
    bytes.resize(2 * HEADER + option_length, 0);
    bytes.resize(ip_length, 0);
    // The pseudo-header (RFC 9293 section 3.1): addresses, protocol, length.
    let pseudo = checksum::sum(&bytes[12..20]) + u64::from(codec::PROTOCOL_TCP) + tcp_length as u64;
    let tcp_checksum = checksum::of(pseudo + checksum::sum(&bytes[HEADER..]));
    bytes[HEADER + 16..HEADER + 18].copy_from_slice(&tcp_checksum.to_be_bytes());
    bytes
}

/// The bytes of an ICMP message of IPv4 about a packet that was sent between `ends`, of which it quotes the IP header and eight
/// bytes (RFC 792).
pub fn encode_icmp(message: &Icmp, ends: &Ends<Ipv4Addr>) -> Vec<u8> {
    let carried = message.length.saturating_sub(HEADER as u32);
    let mut body = vec![message.kind, message.code, 0, 0, 0, 0];
    body.extend((message.mtu as u16).to_be_bytes());
    body.extend(Ipv4Addr::header(ends, codec::PROTOCOL_TCP, Ecn::NotEct, 0, carried).as_ref());
    body.extend(ends.sport.to_be_bytes());
    body.extend(ends.dport.to_be_bytes());
    body.extend(message.seq.to_be_bytes());
    let sum = checksum::of(checksum::sum(&body));
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    let back = ends.reversed();
    let header = Ipv4Addr::header(&back, Ipv4Addr::ICMP, Ecn::NotEct, 0, body.len() as u32);
    let mut bytes = header.as_ref().to_vec();
    bytes.extend(body);
    bytes
}

fn write_option(bytes: &mut Vec<u8>, option: &TcpOption) {
    match option {
        TcpOption::End => bytes.push(0),
        TcpOption::Nop => bytes.push(1),
        TcpOption::Mss(mss) => {
            bytes.extend([2, 4]);
            bytes.extend(mss.to_be_bytes());
        }
        TcpOption::WindowScale(shift) => bytes.extend([3, 3, *shift]),
        TcpOption::SackPermitted => bytes.extend([4, 2]),
        TcpOption::Sack(blocks) => {
            bytes.extend([5, 2 + 8 * blocks.len() as u8]);
            for (left, right) in blocks {
                bytes.extend(left.to_be_bytes());
                bytes.extend(right.to_be_bytes());
            }
        }
        TcpOption::Timestamps { val, ecr } => {
            bytes.extend([8, 10]);
            bytes.extend(val.to_be_bytes());
            bytes.extend(ecr.to_be_bytes());
        }
        TcpOption::AccEcn { order, counters } => {
            bytes.extend([order.kind(), 2 + 3 * counters.len() as u8]);
            counters.iter().for_each(|counter| bytes.extend(&counter.to_be_bytes()[1..]));
        }
        TcpOption::FastOpen { cookie, experimental } => {
            let length = 2 + 2 * u8::from(*experimental) + cookie.len() as u8;
            bytes.extend([if *experimental { Cookie::EXPERIMENT } else { Cookie::KIND }, length]);
            if *experimental {
                bytes.extend(Cookie::MAGIC.to_be_bytes());
            }
            bytes.extend(cookie);
        }
        TcpOption::Other(kind, value) => {
            bytes.extend([*kind, 2 + value.len() as u8]);
            bytes.extend(value);
        }
    }
}

/// Length of the IPv4 packet, bytes.
pub(crate) fn ip_length(packet: &Packet) -> usize {
    2 * HEADER + option_length(packet.options.as_deref().unwrap_or(&[])) + packet.len as usize
}

/// Bytes the options take in a header, padded to four.
pub(crate) fn option_length(options: &[TcpOption]) -> usize {
    let bytes: usize = options
        .iter()
        .map(|option| match option {
            TcpOption::End | TcpOption::Nop => 1,
            TcpOption::Mss(_) => 4,
            TcpOption::WindowScale(_) => 3,
            TcpOption::SackPermitted => 2,
            TcpOption::Sack(blocks) => 2 + 8 * blocks.len(),
            TcpOption::Timestamps { .. } => 10,
            TcpOption::AccEcn { counters, .. } => 2 + 3 * counters.len(),
            TcpOption::FastOpen { cookie, experimental } => 2 + 2 * usize::from(*experimental) + cookie.len(),
            TcpOption::Other(_, value) => 2 + value.len(),
        })
        .sum();
    bytes.next_multiple_of(4)
}

/// Flags as scripts write them.
struct FlagWord(Flags);

impl fmt::Display for FlagWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: &[(Flags, char)] = &[
            (Flags::FIN, 'F'),
            (Flags::SYN, 'S'),
            (Flags::RST, 'R'),
            (Flags::PSH, 'P'),
            (Flags::ECE, 'E'),
            (Flags::CWR, 'W'),
            (Flags::AE, 'A'),
            (Flags::ACK, '.'),
        ];
        if self.0.0 == 0 {
            return f.write_str("-");
        }
        LETTERS.iter().filter(|(flag, _)| self.0.has(*flag)).try_for_each(|(_, letter)| write!(f, "{letter}"))
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.seq.wrapping_add(self.len);
        match self.ecn {
            Some(EcnField::Is(Ecn::Ect0)) => f.write_str("[ect0] ")?,
            Some(EcnField::Is(Ecn::Ect1)) => f.write_str("[ect1] ")?,
            Some(EcnField::Is(Ecn::Ce)) => f.write_str("[ce] ")?,
            Some(EcnField::Capable) => f.write_str("[ect01] ")?,
            _ => {}
        }
        write!(f, "{} {}:{end}({})", FlagWord(self.flags), self.seq, self.len)?;
        if self.flags.has(Flags::ACK) {
            write!(f, " ack {}", self.ack)?;
        }
        if let Some(window) = self.window {
            write!(f, " win {window}")?;
        }
        match self.options.as_deref() {
            None => f.write_str(" <...>")?,
            Some([]) => {}
            Some(options) => {
                f.write_str(" <")?;
                for (index, option) in options.iter().enumerate() {
                    f.write_str(if index > 0 { "," } else { "" })?;
                    write!(f, "{option}")?;
                }
                f.write_str(">")?;
            }
        }
        match self.udp {
            None => Ok(()),
            Some(UdpPorts { sport, dport }) => write!(f, "/udp({sport} > {dport})"),
        }
    }
}

impl fmt::Display for TcpOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TcpOption::End => f.write_str("eol"),
            TcpOption::Nop => f.write_str("nop"),
            TcpOption::Mss(mss) => write!(f, "mss {mss}"),
            TcpOption::WindowScale(shift) => write!(f, "wscale {shift}"),
            TcpOption::SackPermitted => f.write_str("sackOK"),
            TcpOption::Sack(blocks) => {
                f.write_str("sack")?;
                blocks.iter().try_for_each(|(left, right)| write!(f, " {left}:{right}"))
            }
            TcpOption::Timestamps { val, ecr } => write!(f, "TS val {val} ecr {ecr}"),
            TcpOption::AccEcn { order, counters } => {
                f.write_str("ECN")?;
                let named = order.names().into_iter().zip(counters);
                named.into_iter().try_for_each(|(name, counter)| write!(f, " {name} {counter}"))
            }
            TcpOption::FastOpen { cookie, experimental } => {
                f.write_str(if *experimental { "FOEXP" } else { "FO" })?;
                f.write_str(if cookie.is_empty() { "" } else { " " })?;
                cookie.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            TcpOption::Other(kind, value) => write!(f, "option {kind} of {} bytes", value.len()),
        }
    }
}
