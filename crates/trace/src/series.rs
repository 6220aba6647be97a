//! Series of one direction of a connection, column by column: its data segments, and the acknowledgements for them.

use crate::connection::{Connection, Direction, Seen};

/// Which data to follow: that of `direction` in the connection with this index.
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
    /// When, nanoseconds, as the capture counts.
    pub t_ns: Vec<u64>,
    /// First payload byte, from the start of the stream.
    pub offset: Vec<i64>,
    /// Payload, bytes.
    pub bytes: Vec<u32>,
    /// How many of them are not above the highest one sent before; see [`Seen::repeated_bytes`].
    pub repeated_bytes: Vec<u32>,
    /// Payload bytes in flight once the segment was seen: sent, and not acknowledged in an acknowledgement seen before.
    pub flight_bytes: Vec<u64>,
}

/// The acknowledgements of a stream, a row for each packet of the other side that carries one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    /// When, nanoseconds, as the capture counts.
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

/// Both series of a stream.
#[derive(Clone, Debug)]
pub struct Series {
    stream: Stream,
    /// Its data segments.
    pub data: Data,
    /// The acknowledgements for it.
    pub acks: Acks,
}

impl Series {
    /// Of a stream; empty.
    pub fn new(stream: Stream) -> Series {
        Series { stream, data: Data::default(), acks: Acks::default() }
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
        }
    }
}
