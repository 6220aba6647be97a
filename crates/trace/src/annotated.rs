//! Captures by one clock as one pcapng file (draft-ietf-opsawg-pcapng): an interface for each point, named as it is, and a
//! comment on each packet of which there is something to say.
//!
//! The point that sees the first packet of a direction is where that is sent; what is said of a packet at a later point is
//! measured from there. A packet is known again by its place in the stream and its timestamp.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;

use wire::Ecn;
use wire::capture::{LinkType, Record};
use wire::codec::{self, Ends};

use crate::capture::source;
use crate::connection::{Connections, Seen};
use crate::error::Error;
use crate::merged::Merged;

/// Capture of a point.
#[derive(Clone, Debug)]
pub struct Point {
    /// Name of the host or link, which becomes that of the interface.
    pub name: String,
    /// File of the capture, pcap or pcapng.
    pub path: PathBuf,
}

/// End of a packet, or mark on it, that no capture shows.
#[derive(Clone, Debug)]
pub struct Fate {
    /// Time, in ns, by the clock of the captures.
    pub t_ns: u64,
    /// Place where it happened, such as a link.
    pub place: String,
    /// Port of the connection's opening side.
    pub port: u16,
    /// First payload byte, counted from the start of the stream.
    pub offset: u64,
    /// Whether the packet was marked CE; otherwise it was dropped.
    pub marked: bool,
    /// Reason, empty where it is not known.
    pub why: String,
}

/// Writes captures as one file, with comments; returns the number of packets, and of those with a comment.
///
/// `program` is what the file names as its writer. Of equal times the order of `points` decides.
///
/// # Errors
///
/// When a capture cannot be read, or the file not be written.
pub fn write(points: &[Point], fates: &[Fate], program: &str, out: impl Write) -> Result<(u64, u64), Error> {
    let mut known = Known::new(points, fates);
    walk(points, |packet| {
        known.look(packet);
        Ok(())
    })?;
    known.begin_again();
    let mut file = File { out, block: Vec::new() };
    file.section(program).map_err(wire::capture::Error::Io)?;
    let links = first_links(points)?;
    for (point, link) in points.iter().zip(links) {
        file.interface(&point.name, link).map_err(wire::capture::Error::Io)?;
    }
    let (mut comment, mut packets, mut commented) = (String::new(), 0, 0);
    walk(points, |packet| {
        comment.clear();
        known.say(packet, &mut comment);
        packets += 1;
        commented += u64::from(!comment.is_empty());
        file.packet(packet.point, packet.record, &comment)
    })?;
    file.out.flush().map_err(wire::capture::Error::Io)?;
    Ok((packets, commented))
}

/// A packet at a point.
struct At<'a> {
    point: usize,
    /// Number of the packet among those of all points.
    ordinal: u64,
    record: &'a Record<'a>,
    /// The packet in its connection. None if it is not TCP.
    seen: Option<&'a Seen<'a>>,
}

/// Hands over the packets of all points in the order of their times.
fn walk(points: &[Point], mut visit: impl FnMut(&At<'_>) -> io::Result<()>) -> Result<(), Error> {
    let sources = points.iter().map(|point| source(&point.path)).collect::<io::Result<Vec<_>>>();
    let mut merged = Merged::new(sources.map_err(wire::capture::Error::Io)?)?;
    let mut connections: Vec<_> = points.iter().map(|_| Connections::new()).collect();
    let mut ordinal = 0;
    while let Some((point, record)) = merged.next_of()? {
        if record.link == LinkType::UNTIMED {
            continue;
        }
        let packet = record.ip().and_then(|(ip, wire_length)| codec::parse(ip, wire_length)).ok();
        let seen = packet.map(|packet| connections[point].add(record.t_ns, record.wire_length, packet).0);
        visit(&At { point, ordinal, record: &record, seen: seen.as_ref() })
            .map_err(wire::capture::Error::Io)?;
        ordinal += 1;
    }
    Ok(())
}

/// Link layers of the points; of one without a packet raw IP.
fn first_links(points: &[Point]) -> Result<Vec<LinkType>, Error> {
    let mut links = Vec::new();
    for point in points {
        let mut alone = Merged::new(vec![source(&point.path).map_err(wire::capture::Error::Io)?])?;
        let mut link = LinkType::UNTIMED;
        while link == LinkType::UNTIMED {
            link = alone.next_of()?.map_or(LinkType::RAW, |(_, record)| record.link);
        }
        links.push(link);
    }
    Ok(links)
}

/// State of both passes: the packets on the way, and what became of each.
struct Known<'a> {
    points: &'a [Point],
    fates: &'a [Fate],
    /// Fates by port and offset.
    of_data: HashMap<(u16, i64), Vec<usize>>,
    /// Packets of each fate: the last one before it at the point where it was sent, and at the place itself.
    met: Vec<[Option<u64>; 2]>,
    /// Fates of a packet by its number, and whether the packet is at the place itself.
    told: HashMap<u64, Vec<(usize, bool)>>,
    streams: HashMap<Ends<IpAddr>, Stream>,
}

/// One direction of a connection.
struct Stream {
    /// Point where it is sent.
    origin: usize,
    /// Data on the way, by their first byte.
    sent: BTreeMap<i64, Vec<Sent>>,
    /// Shortest time from the origin to a point, by length.
    quickest: HashMap<(usize, u32), u64>,
}

/// A data packet as it left.
#[derive(Clone, Copy)]
struct Sent {
    t_ns: u64,
    tsval: u32,
    /// Number of the retransmission; 0 of what is sent for the first time.
    number: u32,
}

impl<'a> Known<'a> {
    fn new(points: &'a [Point], fates: &'a [Fate]) -> Known<'a> {
        let mut of_data: HashMap<_, Vec<_>> = HashMap::new();
        for (index, fate) in fates.iter().enumerate() {
            of_data.entry((fate.port, fate.offset as i64)).or_default().push(index);
        }
        Known {
            points,
            fates,
            of_data,
            met: vec![[None; 2]; fates.len()],
            told: HashMap::new(),
            streams: HashMap::new(),
        }
    }

    /// Follows a packet of the first pass.
    fn look(&mut self, at: &At<'_>) {
        let Some(seen) = at.seen else { return };
        let data = self.follow(at, seen);
        if seen.packet.segment.len == 0 {
            return;
        }
        if let Some((sent, true)) = data {
            let took = at.record.t_ns - sent.t_ns;
            let stream = self.streams.get_mut(&seen.packet.ends).expect("followed");
            let quickest = stream.quickest.entry((at.point, seen.frame_bytes)).or_insert(took);
            *quickest = took.min(*quickest);
        }
        let origin = self.streams[&seen.packet.ends].origin;
        for &index in fates_of(&self.of_data, seen) {
            let fate = &self.fates[index];
            if fate.t_ns < at.record.t_ns {
                continue;
            }
            if at.point == origin {
                self.met[index][0] = Some(at.ordinal);
            }
            if self.points[at.point].name == fate.place {
                self.met[index][1] = Some(at.ordinal);
            }
        }
    }

    /// Ends the first pass: what was measured stays, what was on the way is forgotten.
    fn begin_again(&mut self) {
        for stream in self.streams.values_mut() {
            stream.sent.clear();
        }
        for (index, &[sent, here]) in self.met.iter().enumerate() {
            if let Some(ordinal) = here {
                self.told.entry(ordinal).or_default().push((index, true));
            }
            if let Some(ordinal) = sent.filter(|_| sent != here) {
                self.told.entry(ordinal).or_default().push((index, false));
            }
        }
    }

    /// Takes a packet down where it is sent, and finds it again elsewhere: how it left, and whether that was elsewhere.
    fn follow(&mut self, at: &At<'_>, seen: &Seen<'_>) -> Option<(Sent, bool)> {
        let ends = seen.packet.ends;
        // What has been acknowledged at its sender is no longer on the way.
        if let Some((acked, back)) = seen.acked.zip(self.streams.get_mut(&ends.reversed()))
            && back.origin == at.point
        {
            while back.sent.first_key_value().is_some_and(|(&offset, _)| offset < acked) {
                back.sent.pop_first();
            }
        }
        let stream = self.streams.entry(ends).or_insert_with(|| Stream {
            origin: at.point,
            sent: BTreeMap::new(),
            quickest: HashMap::new(),
        });
        let (segment, t_ns) = (&seen.packet.segment, at.record.t_ns);
        if segment.len == 0 {
            return None;
        }
        if stream.origin == at.point {
            let copies = stream.sent.entry(seen.offset).or_default();
            let number =
                if seen.repeated_bytes > 0 { copies.last().map_or(0, |last| last.number) + 1 } else { 0 };
            let sent = Sent { t_ns, tsval: segment.tsval, number };
            copies.push(sent);
            return Some((sent, false));
        }
        let copies = stream.sent.get(&seen.offset)?;
        let sent = copies.iter().rev().find(|sent| sent.tsval == segment.tsval && sent.t_ns <= t_ns)?;
        Some((*sent, true))
    }

    /// Says of a packet of the second pass what there is to say.
    fn say(&mut self, at: &At<'_>, comment: &mut String) {
        let Some(seen) = at.seen else { return };
        let followed = self.follow(at, seen);
        if let Some((sent, elsewhere)) = followed {
            if sent.number > 0 {
                let _ = write!(comment, "retransmission {}", sent.number);
            }
            let stream = &self.streams[&seen.packet.ends];
            let quickest = stream.quickest.get(&(at.point, seen.frame_bytes));
            let longer =
                quickest.map_or(0, |quickest| (at.record.t_ns - sent.t_ns).saturating_sub(*quickest));
            if elsewhere && longer >= LEAST_NS {
                let (then, from) = (separator(comment), &self.points[stream.origin].name);
                let _ = write!(comment, "{then}{} ms longer from {from} than the quickest", Ms(longer));
            }
        }
        let mut marked_here = false;
        for &(index, here) in self.told.get(&at.ordinal).map_or(&[][..], Vec::as_slice) {
            let (then, fate) = (separator(comment), &self.fates[index]);
            let what = if fate.marked { "marked CE" } else { "dropped" };
            marked_here |= fate.marked && here;
            let _ = match here {
                true => write!(comment, "{then}{what} here"),
                false => write!(comment, "{then}{what} at {}", fate.place),
            };
            let after = fate.t_ns - at.record.t_ns;
            let _ = if after >= LEAST_NS { write!(comment, " after {} ms", Ms(after)) } else { Ok(()) };
            let _ = if fate.why.is_empty() { Ok(()) } else { write!(comment, ": {}", fate.why) };
        }
        if seen.packet.segment.ecn == Ecn::Ce && !marked_here {
            let then = separator(comment);
            let _ = write!(comment, "{then}marked CE on the way");
        }
    }
}

/// Fates of data that begin where a packet's do, whichever side sent them.
fn fates_of<'a>(of_data: &'a HashMap<(u16, i64), Vec<usize>>, seen: &Seen<'_>) -> &'a [usize] {
    let ends = &seen.packet.ends;
    let of = |port| of_data.get(&(port, seen.offset));
    of(ends.sport).or_else(|| of(ends.dport)).map_or(&[], Vec::as_slice)
}

/// Text between a comment so far and the next part.
fn separator(comment: &str) -> &'static str {
    if comment.is_empty() { "" } else { "; " }
}

/// Least time that is worth a comment, in ns.
const LEAST_NS: u64 = 1_000;

/// A time in ns as ms with three digits.
struct Ms(u64);

impl std::fmt::Display for Ms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000_000, self.0 / 1_000 % 1_000)
    }
}

/// A pcapng file that is written, in little-endian order.
struct File<W> {
    out: W,
    block: Vec<u8>,
}

impl<W: Write> File<W> {
    const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    const INTERFACE_DESCRIPTION: u32 = 1;
    const ENHANCED_PACKET: u32 = 6;
    const COMMENT: u16 = 1;
    const IF_NAME: u16 = 2;
    const SHB_USERAPPL: u16 = 4;
    const IF_TSRESOL: u16 = 9;

    fn section(&mut self, program: &str) -> io::Result<()> {
        self.begin(Self::SECTION_HEADER);
        self.block.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        // Version 1.0, and a section whose length is not told.
        self.block.extend_from_slice(&[1, 0, 0, 0]);
        self.block.extend_from_slice(&u64::MAX.to_le_bytes());
        self.option(Self::SHB_USERAPPL, program.as_bytes());
        self.end(true)
    }

    fn interface(&mut self, name: &str, link: LinkType) -> io::Result<()> {
        self.begin(Self::INTERFACE_DESCRIPTION);
        self.block.extend_from_slice(&link.0.to_le_bytes());
        // Reserved, and a packet is cut at no length that all share.
        self.block.extend_from_slice(&[0; 6]);
        self.option(Self::IF_NAME, name.as_bytes());
        self.option(Self::IF_TSRESOL, &[9]);
        self.end(true)
    }

    fn packet(&mut self, interface: usize, record: &Record<'_>, comment: &str) -> io::Result<()> {
        self.begin(Self::ENHANCED_PACKET);
        let kept = record.bytes.len() as u32;
        let halves = [(record.t_ns >> 32) as u32, record.t_ns as u32];
        for field in [interface as u32, halves[0], halves[1], kept, record.wire_length] {
            self.block.extend_from_slice(&field.to_le_bytes());
        }
        self.block.extend_from_slice(record.bytes);
        self.pad();
        if !comment.is_empty() {
            self.option(Self::COMMENT, comment.as_bytes());
        }
        self.end(!comment.is_empty())
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.block.extend_from_slice(&kind.to_le_bytes());
        self.block.extend_from_slice(&[0; 4]);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.block.extend_from_slice(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Writes the block, behind its options the end of those.
    fn end(&mut self, options: bool) -> io::Result<()> {
        if options {
            self.block.extend_from_slice(&[0; 4]);
        }
        let length = (self.block.len() as u32 + 4).to_le_bytes();
        self.block[4..8].copy_from_slice(&length);
        self.block.extend_from_slice(&length);
        self.out.write_all(&self.block)
    }
}
