//! A capture in memory: every connection with its packets as columns, for what needs several passes or captures.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use wire::capture::Reader;

use crate::connection::{Connection, Connections, Direction, Seen};
use crate::error::{MAX_CONNECTIONS, MAX_PACKETS};
use crate::merged::{Merged, Records};
use crate::pairs::Sightings;
use crate::series::{Series, Stream};
use crate::throughput::{Count, Window, Windows};
use crate::{Error, Skipped, read_while};

/// A capture.
///
/// ```
/// use std::net::Ipv4Addr;
/// use trace::Direction;
/// use trace::capture::Capture;
/// use wire::capture::LinkType;
/// use wire::codec::{Ends, Payload, SynLayout, write};
/// use wire::{Flags, Segment};
///
/// let [src, dst] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
/// let segment = Segment { seq: 7, len: 5, flags: Flags::ACK, ..Segment::default() };
/// let (mut packet, ends) = (Vec::new(), Ends { src, dst, sport: 40_000, dport: 80 });
/// let length = write(&mut packet, &segment, &ends, SynLayout::Linux, 0, Payload::Bytes(b"hello"));
/// let mut file = wire::pcap::Writer::new(Vec::new(), LinkType::RAW, 65_535)?;
/// file.packet(1_000_000_000, length, &packet)?;
///
/// let capture = Capture::read(&file.get_mut()[..], false)?;
/// let connection = &capture.connections.list()[0];
/// assert_eq!((connection.ends.dport, connection.half(Direction::Forward).payload_bytes), (80, 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Capture {
    /// Connections of the capture, with counters.
    pub connections: Connections,
    /// Packets that were not used.
    pub skipped: Skipped,
    /// Times when the first and last TCP packets were captured, in ns.
    pub span: Option<(u64, u64)>,
    held: Vec<Held>,
}

/// The packets of a connection.
#[derive(Debug)]
struct Held {
    series: [Series; 2],
    packets: [Packets; 2],
    sightings: Sightings,
}

/// All packets of one direction.
#[derive(Debug, Default)]
struct Packets {
    t_ns: Vec<u64>,
    ip_bytes: Vec<u32>,
    frame_bytes: Vec<u32>,
}

impl Capture {
    /// Reads a pcap or pcapng file, compressed by gzip or not. `pairs` keeps what finding packets in another capture needs.
    ///
    /// # Errors
    ///
    /// When it cannot be read, is no capture, contradicts itself or is too large to hold.
    pub fn open(path: &Path, pairs: bool) -> Result<Capture, Error> {
        Capture::read(source(path).map_err(wire::capture::Error::from)?, pairs)
    }

    /// Reads two files by one clock as one capture, as where each holds one direction; as [`Capture::open`].
    ///
    /// # Errors
    ///
    /// As [`Capture::open`].
    pub fn open_both(path: &Path, beside: &Path, pairs: bool) -> Result<Capture, Error> {
        Capture::of(
            &mut Merged::new(vec![
                source(path).map_err(wire::capture::Error::from)?,
                source(beside).map_err(wire::capture::Error::from)?,
            ])?,
            pairs,
        )
    }

    /// Reads a capture; as [`Capture::open`].
    ///
    /// # Errors
    ///
    /// As [`Capture::open`].
    pub fn read<R: Read>(source: R, pairs: bool) -> Result<Capture, Error> {
        Capture::of(&mut Reader::new(source)?, pairs)
    }

    fn of(records: &mut impl Records, pairs: bool) -> Result<Capture, Error> {
        let mut capture = Capture::default();
        let (mut packets, mut connections) = (0, Connections::new());
        let mut fits = true;
        let result = read_while(records, &mut connections, |seen, connection| {
            packets += 1;
            fits = packets <= MAX_PACKETS && seen.connection < MAX_CONNECTIONS;
            if fits {
                capture.add(seen, connection, pairs);
            }
            fits
        });
        capture.skipped = result?;
        if !fits {
            return Err(Error::TooLarge);
        }
        capture.connections = connections;
        Ok(capture)
    }

    fn add(&mut self, seen: &Seen<'_>, connection: &Connection, pairs: bool) {
        while self.held.len() <= seen.connection {
            let stream = |direction| Series::new(Stream { connection: self.held.len(), direction });
            self.held.push(Held {
                series: [stream(Direction::Forward), stream(Direction::Backward)],
                packets: Default::default(),
                sightings: Sightings::new(),
            });
        }
        let (first, last) = self.span.unwrap_or((seen.t_ns, seen.t_ns));
        self.span = Some((first.min(seen.t_ns), last.max(seen.t_ns)));
        let held = &mut self.held[seen.connection];
        for series in &mut held.series {
            series.add(seen, connection);
        }
        let packets = &mut held.packets[seen.direction as usize];
        packets.t_ns.push(seen.t_ns);
        packets.ip_bytes.push(seen.packet.ip_bytes);
        packets.frame_bytes.push(seen.frame_bytes);
        if pairs {
            held.sightings.add(seen);
        }
    }

    /// The data of a direction of a connection, and the acknowledgements for them. None if there is no such connection.
    pub fn series(&self, stream: Stream) -> Option<&Series> {
        self.held.get(stream.connection).map(|held| &held.series[stream.direction as usize])
    }

    /// The packets of a connection as another capture may know them again.
    pub fn sightings(&self, connection: usize) -> Option<&Sightings> {
        self.held.get(connection).map(|held| &held.sightings)
    }

    /// Bytes that a stream's packets carry, acknowledgements without data included, in windows over the whole capture.
    ///
    /// # Errors
    ///
    /// As [`Windows::new`].
    pub fn throughput(
        &self,
        stream: Stream,
        count: Count,
        width_ns: u64,
        step_ns: u64,
    ) -> Result<Vec<Window>, Error> {
        let mut windows = self.windows(width_ns, step_ns)?;
        if let Some(held) = self.held.get(stream.connection) {
            let packets = &held.packets[stream.direction as usize];
            let data = &held.series[stream.direction as usize].data;
            let (times, bytes) = match count {
                Count::Payload => (&data.t_ns, &data.bytes),
                Count::Ip => (&packets.t_ns, &packets.ip_bytes),
                Count::Frame => (&packets.t_ns, &packets.frame_bytes),
            };
            for (&t_ns, &bytes) in times.iter().zip(bytes) {
                windows.add(t_ns, u64::from(bytes));
            }
        }
        Ok(windows.finish())
    }

    /// Bytes of a stream that were newly acknowledged, in the same windows.
    ///
    /// # Errors
    ///
    /// As [`Windows::new`].
    pub fn acknowledged(&self, stream: Stream, width_ns: u64, step_ns: u64) -> Result<Vec<Window>, Error> {
        let mut windows = self.windows(width_ns, step_ns)?;
        if let Some(series) = self.series(stream) {
            // The handshake's acknowledgement is at 0, and so is one that covers nothing new. A FIN is no byte.
            let (mut highest, data) = (0, &series.data);
            let ends = data.offset.iter().zip(&data.bytes).map(|(&offset, &bytes)| offset + i64::from(bytes));
            let end = ends.max().unwrap_or(0);
            for (&t_ns, &acked) in series.acks.t_ns.iter().zip(&series.acks.acked) {
                let acked = acked.min(end);
                windows.add(t_ns, acked.saturating_sub(highest).max(0) as u64);
                highest = highest.max(acked);
            }
        }
        Ok(windows.finish())
    }

    fn windows(&self, width_ns: u64, step_ns: u64) -> Result<Windows, Error> {
        let (from_ns, last_ns) = self.span.unwrap_or_default();
        // Whole steps, unless the last one would end beyond 64 bits.
        let end_ns = last_ns.saturating_add(1);
        let steps_ns = (end_ns - from_ns).checked_next_multiple_of(step_ns.max(1));
        let to_ns = steps_ns.and_then(|steps_ns| from_ns.checked_add(steps_ns)).unwrap_or(end_ns);
        Windows::new(width_ns, step_ns, from_ns, to_ns)
    }
}

/// The most bytes that a compressed capture may hold: more than [`MAX_PACKETS`] whole frames on average need half of.
pub const MAX_EXPANDED: u64 = 1 << 37;

/// A compressed file, up to [`MAX_EXPANDED`] bytes of what it holds.
struct Expanded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Expanded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::other(format!("holds more than {} GiB, decompressed", MAX_EXPANDED >> 30))
        })?;
        Ok(count)
    }
}

/// A capture file as it is read, through gzip where it is compressed.
///
/// # Errors
///
/// When the file cannot be opened, or is no regular file: one that never ends, or waits for somebody to write.
pub fn source(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("is no regular file"));
    }
    let mut magic = [0; 2];
    let gzip = match File::open(path)?.read_exact(&mut magic) {
        Ok(()) => magic == [0x1f, 0x8b],
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
        Err(error) => return Err(error),
    };
    let file = File::open(path)?;
    Ok(if gzip {
        Box::new(Expanded { inner: MultiGzDecoder::new(file), left: MAX_EXPANDED })
    } else {
        Box::new(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_compressed_file_holds_is_bounded() {
        let mut text = Vec::new();
        Expanded { inner: io::repeat(0).take(100), left: 100 }
            .read_to_end(&mut text)
            .expect("as much as may be");
        assert_eq!(text.len(), 100);
        let refused =
            Expanded { inner: io::repeat(0), left: 1 << 20 }.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(refused.to_string(), "holds more than 128 GiB, decompressed");
    }
}
