//! Series of one direction of a connection, column by column: its data segments, the acknowledgements for them, and the
//! SACK blocks these carry.

use crate::connection::{Connection, Direction, Seen};

/// Stream of data to follow: that of `direction` in the connection with this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Index of the connection.
    pub connection: usize,
    /// The direction of the data.
    pub direction: Direction,
}

/// The data segments of a stream, a row for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Time when the segment was captured, in ns, as the capture counts.
    pub t_ns: Vec<u64>,
    /// First payload byte, from the start of the stream.
    pub offset: Vec<i64>,
    /// Payload, bytes.
    pub bytes: Vec<u32>,
    /// Number of payload bytes that are not above the highest one sent before; see [`Seen::repeated_bytes`].
    pub repeated_bytes: Vec<u32>,
    /// Payload bytes in flight once the segment was seen: sent, and not acknowledged in an acknowledgement seen before.
    pub flight_bytes: Vec<u64>,
}

/// The acknowledgements of a stream, a row for each packet of the other side that carries one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    /// Time when the acknowledgement was captured, in ns, as the capture counts.
    pub t_ns: Vec<u64>,
    /// Bytes of the stream acknowledged so far. A FIN counts as one.
    pub acked: Vec<i64>,
    /// The receive window announced, bytes.
    pub window_bytes: Vec<u64>,
    /// Whether it is a duplicate.
    pub duplicate: Vec<bool>,
    /// Payload bytes still in flight after it.
    pub flight_bytes: Vec<u64>,
}

/// The SACK blocks of a stream's acknowledgements (RFC 2018), a row for each block in the order of the packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sacks {
    /// Time when the acknowledgement was captured, in ns, as the capture counts.
    pub t_ns: Vec<u64>,
    /// First byte of the block, from the start of the stream.
    pub offset: Vec<i64>,
    /// Length, bytes; a FIN counts as one.
    pub bytes: Vec<u32>,
    /// Whether the block says that data arrived twice (D-SACK, RFC 2883 section 4).
    pub duplicate: Vec<bool>,
}

impl Sacks {
    /// Adds the blocks of an acknowledgement of `ack` on the wire, which is `acked` from the start of the stream.
    fn add(&mut self, t_ns: u64, ack: u32, acked: i64, blocks: &[(u32, u32)]) {
        let place = |(left, right): (u32, u32)| {
            let offset = acked + i64::from(left.wrapping_sub(ack) as i32);
            (offset, offset + i64::from(right.wrapping_sub(left)))
        };
        for (index, &block) in blocks.iter().enumerate() {
            let (start, end) = place(block);
            let bytes = end - start;
            if bytes == 0 || bytes > i64::from(i32::MAX) {
                continue; // no block of any window
            }
            let inside = |other: (i64, i64)| other.0 <= start && end <= other.1;
            self.t_ns.push(t_ns);
            self.offset.push(start);
            self.bytes.push(bytes as u32);
            self.duplicate.push(
                index == 0 && (end <= acked || blocks.get(1).is_some_and(|&second| inside(place(second)))),
            );
        }
    }
}

/// All series of a stream.
#[derive(Clone, Debug)]
pub struct Series {
    stream: Stream,
    /// Data segments of the stream.
    pub data: Data,
    /// The acknowledgements for it.
    pub acks: Acks,
    /// SACK blocks of these acknowledgements.
    pub sacks: Sacks,
}

impl Series {
    /// Creates the series of a stream, empty.
    pub fn new(stream: Stream) -> Series {
        Series { stream, data: Data::default(), acks: Acks::default(), sacks: Sacks::default() }
    }

    /// Takes a packet if it belongs to the stream; for [`crate::read`].
    #[inline]
    pub fn add(&mut self, seen: &Seen<'_>, connection: &Connection) {
        if seen.connection != self.stream.connection {
            return;
        }
        let flight = connection.flight_bytes(self.stream.direction);
        if seen.direction == self.stream.direction {
            let bytes = seen.packet.segment.len;
            if bytes > 0 {
                self.data.t_ns.push(seen.t_ns);
                self.data.offset.push(seen.offset);
                self.data.bytes.push(bytes);
                self.data.repeated_bytes.push(seen.repeated_bytes);
                self.data.flight_bytes.push(flight);
            }
        } else if let Some(acked) = seen.acked {
            self.acks.t_ns.push(seen.t_ns);
            self.acks.acked.push(acked);
            self.acks.window_bytes.push(seen.window_bytes);
            self.acks.duplicate.push(seen.duplicate_ack);
            self.acks.flight_bytes.push(flight);
            let segment = &seen.packet.segment;
            if !segment.sack.is_empty() {
                self.sacks.add(seen.t_ns, segment.ack, acked, segment.sack.as_slice());
            }
        }
    }
}
