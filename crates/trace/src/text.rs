//! The TCP packets of a capture as lines of text, in the form tcpdump prints them (`tcpdump -n -ttttt -r FILE`).

use std::collections::HashMap;
use std::fmt::Write;
use std::io::Read;
use std::net::IpAddr;

use wire::capture::{Error, LinkType, Reader, Record};
use wire::codec::{self, NotTcp};

use crate::Skipped;

/// Writes the TCP packets of a capture to `line`, one call a line without its end. Times count from the first packet of the
/// file; sequence numbers from the first of each direction, except in SYNs and in the first acknowledgement seen of a
/// connection (print-tcp.c of tcpdump 4.99). Packets cut short within their TCP header are passed over.
///
/// `flights` makes one line of data that follows in sequence, as a capture above segmentation offload shows it: until
/// the other side sends, or flags other than PSH, the acknowledgement or the window change.
///
/// Stops when `line` returns false. Returns what was passed over.
///
/// # Errors
///
/// When the file cannot be read, is no capture, or contradicts itself; lines before that have been written.
pub fn print<R: Read>(
    source: R,
    flights: bool,
    mut line: impl FnMut(&str) -> bool,
) -> Result<Skipped, Error> {
    let mut skipped = Skipped::default();
    let mut reader = Reader::new(source)?;
    let mut begin = None;
    let mut bases = Bases::default();
    let mut text = String::new();
    let mut held: Option<Packet> = None;
    let mut more = true;
    loop {
        let record = match reader.next_record() {
            Ok(Some(record)) => record,
            // Cut off while it was written: good up to there.
            Ok(None) => break,
            Err(Error::CutShort { offset }) => {
                skipped.file_ends_at = Some(offset);
                break;
            }
            Err(error) => return Err(error),
        };
        if record.link == LinkType::UNTIMED {
            skipped.count(NotTcp::Link(record.link.0));
            continue;
        }
        let begin = *begin.get_or_insert(record.t_ns);
        let packet = match Packet::of(&record, begin) {
            Ok(packet) => packet,
            Err(why) => {
                skipped.count(why);
                continue;
            }
        };
        match &mut held {
            Some(last) if flights && last.continues_with(&packet) => last.append(&packet),
            _ => {
                if let Some(last) = held.replace(packet) {
                    more = last.write(&mut bases, &mut text, &mut line);
                    if !more {
                        break;
                    }
                }
            }
        }
    }
    if let Some(last) = held.filter(|_| more) {
        last.write(&mut bases, &mut text, &mut line);
    }
    Ok(skipped)
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;
const URG: u8 = 32;
/// Letters of the flags, in the order in which they are printed.
const LETTERS: [(u8, char); 8] =
    [(FIN, 'F'), (SYN, 'S'), (RST, 'R'), (PSH, 'P'), (ACK, '.'), (URG, 'U'), (64, 'E'), (128, 'W')];

/// A TCP packet of the capture.
struct Packet {
    /// Time since the first packet of the file, in us as that clock counts them.
    t_us: u64,
    src: IpAddr,
    dst: IpAddr,
    sport: u16,
    dport: u16,
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    urgent: u16,
    /// Bytes of payload.
    length: u32,
    options: Vec<u8>,
}

impl Packet {
    fn of(record: &Record<'_>, begin: u64) -> Result<Packet, NotTcp> {
        let (ip, length) = record.ip()?;
        let packet = codec::parse(ip, length)?;
        let tcp = packet.tcp();
        let header = tcp.len() - packet.payload.len();
        let (ends, segment) = (packet.ends, &packet.segment);
        // Cut within the options.
        if header < usize::from(tcp[12] >> 4) * 4 {
            return Err(NotTcp::CutShort);
        }
        Ok(Packet {
            t_us: (record.t_ns / 1000).saturating_sub(begin / 1000),
            src: ends.src,
            dst: ends.dst,
            sport: ends.sport,
            dport: ends.dport,
            seq: segment.seq,
            ack: segment.ack,
            flags: tcp[13],
            window: segment.window,
            urgent: u16::from_be_bytes([tcp[18], tcp[19]]),
            length: segment.len,
            options: tcp[20..header].to_vec(),
        })
    }

    /// Whether `next` is more data of the same flight.
    fn continues_with(&self, next: &Packet) -> bool {
        let same =
            (self.src, self.sport, self.dst, self.dport) == (next.src, next.sport, next.dst, next.dport);
        same && self.length > 0
            && next.length > 0
            // Two lengths that only the record told of may be too much for one.
            && self.length.checked_add(next.length).is_some()
            && next.seq == self.seq.wrapping_add(self.length)
            && (next.ack, next.window, next.flags | PSH) == (self.ack, self.window, self.flags | PSH)
    }

    fn append(&mut self, next: &Packet) {
        self.length += next.length;
        self.flags |= next.flags;
    }

    fn write(&self, bases: &mut Bases, text: &mut String, line: &mut impl FnMut(&str) -> bool) -> bool {
        text.clear();
        // Writing to a String cannot fail.
        let _ = self.format(bases, text);
        line(text)
    }

    fn format(&self, bases: &mut Bases, text: &mut String) -> std::fmt::Result {
        let (seconds, us) = (self.t_us / 1_000_000, self.t_us % 1_000_000);
        let family = if self.src.is_ipv4() { "IP" } else { "IP6" };
        write!(text, " {:02}:{:02}:{:02}.{us:06} ", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        write!(text, "{family} {}.{} > {}.{}: Flags [", self.src, self.sport, self.dst, self.dport)?;
        if self.flags == 0 {
            text.push_str("none");
        }
        text.extend(LETTERS.iter().filter(|(bit, _)| self.flags & bit != 0).map(|(_, letter)| *letter));
        text.push(']');
        let (seq_base, ack_base) = bases.of(self);
        let seq = self.seq.wrapping_sub(seq_base);
        if self.length > 0 {
            write!(text, ", seq {seq}:{}", seq.wrapping_add(self.length))?;
        } else if self.flags & (SYN | FIN | RST) != 0 {
            write!(text, ", seq {seq}")?;
        }
        if self.flags & ACK != 0 {
            write!(text, ", ack {}", self.ack.wrapping_sub(ack_base))?;
        }
        write!(text, ", win {}", self.window)?;
        if self.flags & URG != 0 {
            write!(text, ", urg {}", self.urgent)?;
        }
        if !self.options.is_empty() {
            text.push_str(", options [");
            options(&self.options, ack_base, text)?;
            text.push(']');
        }
        write!(text, ", length {}", self.length)
    }
}

/// Bases from which the numbers of each connection count.
#[derive(Default)]
struct Bases {
    /// Bases by the ends, the smaller first: that of the smaller end's sequence numbers, and that of the other's.
    known: HashMap<[(IpAddr, u16); 2], (u32, u32)>,
}

impl Bases {
    /// Returns what to take from a packet's sequence number and from its acknowledgement.
    fn of(&mut self, packet: &Packet) -> (u32, u32) {
        if packet.flags & ACK == 0 {
            return (0, 0);
        }
        let (from, to) = ((packet.src, packet.sport), (packet.dst, packet.dport));
        let backward = from > to;
        let key = if backward { [to, from] } else { [from, to] };
        let swapped = |pair: (u32, u32)| if backward { (pair.1, pair.0) } else { pair };
        match self.known.get(&key) {
            Some(&bases) if packet.flags & SYN == 0 => swapped(bases),
            _ => {
                self.known.insert(key, swapped((packet.seq, packet.ack.wrapping_sub(1))));
                (0, 0)
            }
        }
    }
}

/// The options as they stand in the header; SACK edges count as acknowledgements do.
fn options(bytes: &[u8], ack_base: u32, text: &mut String) -> std::fmt::Result {
    let mut at = 0;
    while at < bytes.len() {
        if at > 0 {
            text.push(',');
        }
        let kind = bytes[at];
        let length = match kind {
            0 => {
                text.push_str("eol");
                return Ok(());
            }
            1 => {
                text.push_str("nop");
                at += 1;
                continue;
            }
            _ => bytes.get(at + 1).map_or(0, |&length| usize::from(length)),
        };
        let Some(body) = bytes.get(at + 2..at + length).filter(|_| length >= 2) else {
            text.push_str("[|tcp]");
            return Ok(());
        };
        match (kind, body.len()) {
            (2, 2) => write!(text, "mss {}", be16(body, 0).unwrap_or(0))?,
            (3, 1) => write!(text, "wscale {}", body[0])?,
            (4, 0) => text.push_str("sackOK"),
            (5, blocks) if blocks % 8 == 0 && blocks > 0 => {
                write!(text, "sack {} ", blocks / 8)?;
                for block in body.chunks_exact(8) {
                    let edge = |at: usize| be32(block, at).unwrap_or(0).wrapping_sub(ack_base);
                    write!(text, "{{{}:{}}}", edge(0), edge(4))?;
                }
            }
            (8, 8) => {
                write!(text, "TS val {} ecr {}", be32(body, 0).unwrap_or(0), be32(body, 4).unwrap_or(0))?;
            }
            _ => {
                write!(text, "unknown-{kind} 0x")?;
                for byte in body {
                    write!(text, "{byte:02x}")?;
                }
            }
        }
        at += length;
    }
    Ok(())
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
