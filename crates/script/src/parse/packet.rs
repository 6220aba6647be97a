//! Packets: flags, sequence numbers, TCP options.

use wire::{Ecn, Flags};

use super::{Parsed, Parser, Problem};
use crate::packet;
use crate::script::{AccEcnOrder, EcnField, Packet, TcpOption, UdpPorts};

/// Bytes of options that a TCP header has room for (RFC 9293 section 3.1).
const MAX_OPTION_BYTES: usize = 40;

/// Flags AE, CWR and ECE of a number from 0 to 7.
fn ace(number: u16) -> Flags {
    Flags((number & 4) << 6 | (number & 3) << 6)
}

impl Parser<'_> {
    pub(super) fn packet(&mut self, inbound: bool) -> Parsed<Packet> {
        self.space()?;
        let ecn = if self.sees('[') || self.sees('(') { Some(self.ip_info()?) } else { None };
        self.space()?;
        for protocol in ["icmp", "udp", "ipv4", "ipv6", "gre", "mpls", "GREv0"] {
            if self.rest().starts_with(protocol) {
                return Err(Problem::refused(
                    protocol,
                    "only TCP packets are supported, and ICMP to the system",
                ));
            }
        }
        let flags = self.flags()?;
        self.space()?;
        let any_seq = !inbound && self.rest().starts_with("...(");
        let (seq, len) = if any_seq {
            self.at += 4;
            let len = self.number("TCP payload size", 65_535)? as u32;
            self.need(')')?;
            (0, len)
        } else {
            self.sequence()?
        };
        let mut packet = Packet {
            ecn,
            flags,
            seq,
            any_seq,
            len,
            ack: 0,
            window: None,
            options: Some(Vec::new()),
            udp: None,
            absolute: false,
        };
        packet.absolute = self.take('!');
        self.space()?;
        if self.take_word("ack") {
            packet.ack = self.number("TCP ack sequence number", u64::from(u32::MAX))? as u32;
            self.space()?;
        }
        if self.take_word("win") {
            packet.window = Some(self.number("TCP window value", 65_535)? as u16);
            self.space()?;
        }
        if self.take_word("urg") {
            return Err(Problem::NotSupported("urgent data".into()));
        }
        if self.take('<') {
            packet.options = self.tcp_options()?;
        }
        packet.udp = self.udp()?;
        if inbound && packet.window.is_none() && !flags.has(Flags::RST) {
            return Err(Problem::Rule("a packet that is sent to the system needs win N"));
        }
        if inbound && packet.options.is_none() {
            return Err(Problem::Rule("<...> can only be used with outbound packets"));
        }
        if inbound && packet::ip_length(&packet) > usize::from(u16::MAX) {
            return Err(Problem::Rule("a packet that is sent to the system has more than 65535 bytes"));
        }
        Ok(packet)
    }

    fn ip_info(&mut self) -> Parsed<EcnField> {
        let close = if self.sees('[') { ']' } else { ')' };
        self.at += 1;
        self.space()?;
        let word = self.word()?;
        let field = match word.as_str() {
            "noecn" => EcnField::Is(Ecn::NotEct),
            "ect0" => EcnField::Is(Ecn::Ect0),
            "ect1" => EcnField::Is(Ecn::Ect1),
            "ce" => EcnField::Is(Ecn::Ce),
            "ect01" => EcnField::Capable,
            _ => {
                return Err(Problem::refused(format!("[{word}]"), "expected noecn, ect0, ect1, ect01 or ce"));
            }
        };
        self.space()?;
        if !self.take(close) {
            return Err(self.found(close));
        }
        Ok(field)
    }

    fn flags(&mut self) -> Parsed<Flags> {
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            return Err(Problem::Rule("ports in packets are not supported"));
        }
        if self.take('-') {
            return Ok(Flags(0));
        }
        let mut flags = Flags(0);
        let mut length = 0;
        for c in self.rest().chars() {
            flags |= match c {
                'F' => Flags::FIN,
                'S' => Flags::SYN,
                'R' => Flags::RST,
                'P' => Flags::PSH,
                '.' => Flags::ACK,
                'E' => Flags::ECE,
                'W' => Flags::CWR,
                'U' => return Err(Problem::NotSupported("urgent data".into())),
                'A' => Flags::AE,
                // The three flags of Accurate ECN as a number (RFC 9768 section 3.2.2).
                '0'..='7' if length > 0 => ace(c as u16 - '0' as u16),
                c if c.is_whitespace() => break,
                _ => return Err(Problem::Flags(self.glimpse())),
            };
            length += 1;
        }
        self.at += length;
        if length == 0 { Err(Problem::Rule("a packet has no flags")) } else { Ok(flags) }
    }

    /// `/udp(9811 > 1)`
    pub(super) fn udp(&mut self) -> Parsed<Option<UdpPorts>> {
        self.space()?;
        if !self.rest().starts_with("/udp(") {
            return Ok(None);
        }
        self.at += "/udp(".len();
        let port = "UDP port";
        let sport = self.number(port, 65_535)? as u16;
        self.need('>')?;
        let dport = self.number(port, 65_535)? as u16;
        self.need(')')?;
        Ok(Some(UdpPorts { sport, dport }))
    }

    /// `1:1001(1000)`
    pub(super) fn sequence(&mut self) -> Parsed<(u32, u32)> {
        let start = self.number("TCP start sequence number", u64::from(u32::MAX))? as u32;
        self.need(':')?;
        let end = self.number("TCP end sequence number", u64::from(u32::MAX))? as u32;
        self.need('(')?;
        let len = self.number("TCP payload size", 65_535)? as u32;
        self.need(')')?;
        if start.wrapping_add(len) != end {
            return Err(Problem::Rule("inconsistent TCP sequence numbers and payload size"));
        }
        Ok((start, len))
    }

    fn tcp_options(&mut self) -> Parsed<Option<Vec<TcpOption>>> {
        self.space()?;
        if self.rest().starts_with("...") {
            self.at += 3;
            self.space()?;
            self.need('>')?;
            return Ok(None);
        }
        let mut options = Vec::new();
        loop {
            options.push(self.tcp_option()?);
            self.space()?;
            if self.take('>') {
                break;
            }
            self.need(',')?;
        }
        if packet::option_length(&options) > MAX_OPTION_BYTES {
            return Err(Problem::Rule("TCP option list too long"));
        }
        Ok(Some(options))
    }

    /// The hexadecimal digits of a cookie, or a symbol for them; none asks for one.
    fn cookie(&mut self) -> Parsed<Vec<u8>> {
        self.space()?;
        if !self.rest().starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Ok(Vec::new());
        }
        let word = self.word()?;
        let digits = self.defines.get(&word).cloned().unwrap_or(word.clone());
        let digits = digits.trim_matches('"');
        let pairs = digits.as_bytes().chunks(2).map(|pair| {
            let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
            u8::from_str_radix(text, 16).ok()
        });
        pairs
            .collect::<Option<Vec<u8>>>()
            .ok_or_else(|| Problem::value("FO", format!("`{word}`"), "an even number of hexadecimal digits"))
    }

    fn tcp_option(&mut self) -> Parsed<TcpOption> {
        self.space()?;
        let u32_max = u64::from(u32::MAX);
        let word = self.word()?;
        Ok(match word.as_str() {
            "nop" => TcpOption::Nop,
            "eol" => TcpOption::End,
            "mss" => TcpOption::Mss(self.number("mss value", 65_535)? as u16),
            "wscale" => TcpOption::WindowScale(self.number("window scale shift count", 255)? as u8),
            "sackOK" => TcpOption::SackPermitted,
            "sack" => {
                let mut blocks = Vec::new();
                self.space()?;
                while self.rest().starts_with(|c: char| c.is_ascii_digit()) {
                    let left = self.number("TCP SACK left sequence number", u32_max)? as u32;
                    self.need(':')?;
                    blocks.push((left, self.number("TCP SACK right sequence number", u32_max)? as u32));
                    self.space()?;
                }
                if blocks.is_empty() {
                    return Err(Problem::Rule("sack needs blocks, such as 1:1001"));
                }
                TcpOption::Sack(blocks)
            }
            "TS" => {
                self.need_word("val")?;
                let val = self.number("ts val", u32_max)? as u32;
                self.need_word("ecr")?;
                TcpOption::Timestamps { val, ecr: self.number("ecr val", u32_max)? as u32 }
            }
            "ECN" => {
                self.space()?;
                let order = if self.rest().starts_with("e0b") { AccEcnOrder::Zero } else { AccEcnOrder::One };
                let mut counters = Vec::new();
                for name in order.names() {
                    if !self.take_word(name) {
                        break;
                    }
                    counters.push(self.number("AccECN counter", 0xff_ffff)? as u32);
                    self.space()?;
                }
                TcpOption::AccEcn { order, counters }
            }
            "FO" | "FOEXP" => TcpOption::FastOpen { cookie: self.cookie()?, experimental: word == "FOEXP" },
            "md5" => return Err(Problem::NotSupported(format!("TCP option {word}"))),
            _ => {
                return Err(Problem::refused(
                    format!("TCP option {word}"),
                    "expected mss, nop, wscale, sackOK, sack, TS, ECN, FO, FOEXP or eol",
                ));
            }
        })
    }
}
