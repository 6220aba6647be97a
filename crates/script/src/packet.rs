//! Packets between their three forms: as a script writes them, as bytes of IPv4, and as text for messages.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use wire::codec::{self, Ends};
use wire::{Ecn, Flags};

use crate::parse::encoded_length;
use crate::script::{Packet, TcpOption};

/// The address of the system under test.
pub const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
/// The address that scripts speak for (TEST-NET-1, RFC 5737).
pub const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
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

/// Reads bytes of an IPv4 packet whose whole length is `wire_length`; None: not TCP over IPv4.
pub fn decode(bytes: &[u8], wire_length: u32) -> Option<Seen> {
    let read = codec::parse(bytes, wire_length).ok()?;
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (read.ends.src, read.ends.dst) else { return None };
    let segment = read.segment;
    let tcp = usize::from(bytes[0] & 15) * 4;
    let data = tcp + usize::from(bytes[tcp + 12] >> 4) * 4;
    Some(Seen {
        ends: Ends { src, dst, sport: read.ends.sport, dport: read.ends.dport },
        packet: Packet {
            ecn: Some(crate::script::EcnField::Is(segment.ecn)),
            flags: segment.flags,
            seq: segment.seq,
            len: segment.len,
            ack: segment.ack,
            window: Some(segment.window),
            options: Some(options(bytes.get(tcp + HEADER..data).unwrap_or(&[]))),
        },
    })
}

/// Options as they stand in the header. What cannot be is left out from there on.
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
            _ => TcpOption::Other(kind, value.to_vec()),
        });
        bytes = &bytes[usize::from(length)..];
    }
    found
}

/// The bytes of an IPv4 packet with both checksums; the payload is zeros.
pub fn encode(packet: &Packet, ends: &Ends<Ipv4Addr>) -> Vec<u8> {
    let options = packet.options.as_deref().unwrap_or(&[]);
    let option_length = encoded_length(options);
    let tcp_length = HEADER + option_length + packet.len as usize;
    let mut bytes = Vec::with_capacity(HEADER + tcp_length);
    let ecn = match packet.ecn {
        Some(crate::script::EcnField::Is(ecn)) => ecn,
        Some(crate::script::EcnField::Capable) => Ecn::Ect0,
        None => Ecn::NotEct,
    };
    bytes.extend([0x45, ecn as u8]);
    bytes.extend(((HEADER + tcp_length) as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    bytes.extend(ends.src.octets());
    bytes.extend(ends.dst.octets());
    let checksum = checksum(&bytes, 0);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(ends.sport.to_be_bytes());
    bytes.extend(ends.dport.to_be_bytes());
    bytes.extend(packet.seq.to_be_bytes());
    bytes.extend(packet.ack.to_be_bytes());
    bytes.extend([(((HEADER + option_length) / 4) as u8) << 4, packet.flags.0]);
    bytes.extend(packet.window.unwrap_or(0).to_be_bytes());
    bytes.extend([0; 4]);
    options.iter().for_each(|option| write_option(&mut bytes, option));
    bytes.resize(2 * HEADER + option_length, 0);
    bytes.resize(HEADER + tcp_length, 0);
    let pseudo = [&bytes[12..20], &[0, 6], &(tcp_length as u16).to_be_bytes()].concat();
    let checksum = self::checksum(&bytes[HEADER..], u64::from(!self::checksum(&pseudo, 0)));
    bytes[HEADER + 16..HEADER + 18].copy_from_slice(&checksum.to_be_bytes());
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
        TcpOption::Other(kind, value) => {
            bytes.extend([*kind, 2 + value.len() as u8]);
            bytes.extend(value);
        }
    }
}

/// The Internet checksum (RFC 1071) of `bytes` and what was summed before.
fn checksum(bytes: &[u8], before: u64) -> u16 {
    let mut sum = before;
    for pair in bytes.chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
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
            Some(crate::script::EcnField::Is(Ecn::Ect0)) => f.write_str("[ect0] ")?,
            Some(crate::script::EcnField::Is(Ecn::Ect1)) => f.write_str("[ect1] ")?,
            Some(crate::script::EcnField::Is(Ecn::Ce)) => f.write_str("[ce] ")?,
            Some(crate::script::EcnField::Capable) => f.write_str("[ect01] ")?,
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
            None => f.write_str(" <...>"),
            Some([]) => Ok(()),
            Some(options) => {
                f.write_str(" <")?;
                for (index, option) in options.iter().enumerate() {
                    f.write_str(if index > 0 { "," } else { "" })?;
                    write!(f, "{option}")?;
                }
                f.write_str(">")
            }
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
            TcpOption::Other(kind, value) => write!(f, "option {kind} of {} bytes", value.len()),
        }
    }
}
