//! Connections of a capture: their two directions, offsets that do not wrap, and counters.

use std::collections::HashMap;
use std::net::IpAddr;

use wire::codec::{Ends, Packet};
use wire::segment::{Flags, Options, Segment};
use wire::seq::{self, FIRST_LAP};

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Packets from the side that opened the connection (or, if the capture does not hold the beginning, that sent
    /// the first packet seen).
    Forward,
    /// Towards it.
    Backward,
}

impl Direction {
    /// Opposite direction.
    pub fn reversed(self) -> Direction {
        match self {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        }
    }
}

/// A TCP packet in its connection.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Time when the packet was captured, in ns, as the capture counts.
    pub t_ns: u64,
    /// Length of the frame on the wire, bytes.
    pub frame_bytes: u32,
    /// Index of its connection.
    pub connection: usize,
    /// Direction of the packet.
    pub direction: Direction,
    /// The first payload byte, counted from the start of the stream (or, if the capture does not hold the beginning,
    /// from the first byte seen; bytes before that are negative).
    pub offset: i64,
    /// The acknowledgement, counted likewise in the opposite stream: how many bytes have arrived. None without one.
    pub acked: Option<i64>,
    /// Payload bytes below the highest one that was sent before: a retransmission if the capture is the sender's, an
    /// arrival out of order otherwise. Keep-alive and window probes are among them.
    pub repeated_bytes: u32,
    /// Whether this is a duplicate acknowledgement (RFC 5681 section 2, without its condition on the window, which
    /// systems that adjust the window on every packet do not meet).
    pub duplicate_ack: bool,
    /// The window announced, scaled, bytes; as it stands if the capture does not hold the handshake.
    pub window_bytes: u64,
    /// The packet itself.
    pub packet: Packet<'a>,
}

/// A connection as far as it was read.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Ends as [`Direction::Forward`] sees them.
    pub ends: Ends<IpAddr>,
    /// Time when the connection's first packet was captured, in ns.
    pub first_ns: u64,
    /// Time when the connection's newest packet was captured, in ns.
    pub last_ns: u64,
    /// Whether a reset was seen.
    pub reset: bool,
    halves: [Half; 2],
}

impl Connection {
    /// The counters of one direction.
    pub fn half(&self, direction: Direction) -> &Half {
        &self.halves[direction as usize]
    }

    /// Payload bytes sent this way and not acknowledged yet.
    pub fn flight_bytes(&self, direction: Direction) -> u64 {
        let half = self.half(direction);
        half.highest.saturating_sub(half.highest_acked.max(half.base))
    }
}

/// Half of a connection: what one side sent.
#[derive(Clone, Debug, Default)]
pub struct Half {
    /// Packets.
    pub packets: u64,
    /// Bytes from the IP header on.
    pub ip_bytes: u64,
    /// Packets with payload.
    pub data_packets: u64,
    /// Payload bytes, repeated ones too.
    pub payload_bytes: u64,
    /// Packets with repeated payload; see [`Seen::repeated_bytes`].
    pub repeated_packets: u64,
    /// Repeated payload bytes.
    pub repeated_bytes: u64,
    /// Acknowledgements that moved forward.
    pub advancing_acks: u64,
    /// Duplicate acknowledgements.
    pub duplicate_acks: u64,
    /// Packets with SACK blocks.
    pub sack_packets: u64,
    /// Packets with the ECN-echo flag, without SYNs, where it means something else.
    pub ece_packets: u64,
    /// The largest payload, bytes. Beyond the MSS the capture sits above segmentation or below aggregation.
    pub largest_payload: u32,
    /// Whether the SYN, and so the true start of the stream, was seen.
    pub syn_seen: bool,
    /// Whether the FIN was seen.
    pub fin_seen: bool,
    /// MSS announced in the SYN.
    pub mss: Option<u16>,
    window_scale: Option<u8>,
    /// Extended sequence number of the first payload byte; 0 before the first packet either way.
    base: u64,
    /// Offset one beyond the highest payload byte sent.
    highest: u64,
    /// The highest acknowledgement of this stream, from the other side.
    highest_acked: u64,
}

impl Half {
    /// The sequence number of the first payload byte, or of the first one seen; None before any.
    pub fn first_seq(&self) -> Option<u32> {
        (self.base != 0).then_some(self.base as u32)
    }

    /// Payload bytes of this stream that the other side has acknowledged.
    pub fn acked_bytes(&self) -> u64 {
        // A FIN takes one number that is no byte.
        self.highest_acked.min(self.highest).saturating_sub(self.base)
    }

    /// The extended number of `seq`, which is the first one seen of this stream if there was none before.
    #[inline]
    fn place(&mut self, seq: u32, syn: bool) -> u64 {
        if self.base == 0 {
            self.base = FIRST_LAP + u64::from(seq) + u64::from(syn);
            self.highest = self.base;
            self.syn_seen = syn;
        }
        seq::extend(self.highest.max(self.highest_acked), seq)
    }
}

/// All connections of a capture, in the order of their first packets.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    list: Vec<Connection>,
    index: HashMap<Ends<IpAddr>, (usize, Direction)>,
    /// Consecutive packets are mostly of one connection.
    newest: Option<(Ends<IpAddr>, usize, Direction)>,
}

impl Connections {
    /// None yet.
    pub fn new() -> Connections {
        Connections::default()
    }

    /// All connections.
    pub fn list(&self) -> &[Connection] {
        &self.list
    }

    /// Puts a packet into its connection and counts it.
    #[inline]
    pub fn add<'a>(&mut self, t_ns: u64, frame_bytes: u32, packet: Packet<'a>) -> (Seen<'a>, &Connection) {
        let (index, direction) = self.find(t_ns, &packet);
        let connection = &mut self.list[index];
        connection.last_ns = connection.last_ns.max(t_ns);
        let segment = &packet.segment;
        let flags = segment.flags;
        let syn = flags.has(Flags::SYN);
        connection.reset |= flags.has(Flags::RST);
        let [forward, backward] = &mut connection.halves;
        let (mine, other) = match direction {
            Direction::Forward => (forward, backward),
            Direction::Backward => (backward, forward),
        };

        let start = mine.place(segment.seq, syn) + u64::from(syn);
        let repeated_bytes = mine.highest.saturating_sub(start).min(u64::from(segment.len)) as u32;
        mine.count(&packet, repeated_bytes);
        mine.highest = mine.highest.max(start + u64::from(segment.len));

        let (acked, duplicate_ack) = match flags.has(Flags::ACK) {
            true => mine.acknowledge(other, segment),
            false => (None, false),
        };
        let scale = match (mine.window_scale, other.window_scale) {
            (Some(scale), Some(_)) if !syn => scale.min(14),
            _ => 0,
        };
        let seen = Seen {
            t_ns,
            frame_bytes,
            connection: index,
            direction,
            offset: start.wrapping_sub(mine.base) as i64,
            acked,
            repeated_bytes,
            duplicate_ack,
            window_bytes: u64::from(segment.window) << scale,
            packet,
        };
        (seen, connection)
    }

    #[inline]
    fn find(&mut self, t_ns: u64, packet: &Packet<'_>) -> (usize, Direction) {
        let opens = packet.segment.flags.has(Flags::SYN) && !packet.segment.flags.has(Flags::ACK);
        if let Some((ends, index, direction)) = self.newest
            && ends == packet.ends
            && !opens
        {
            return (index, direction);
        }
        let found = self.index.get(&packet.ends).copied();
        let (index, direction) = match found {
            Some((index, direction)) if !opens || self.list[index].opened_by(direction, &packet.segment) => {
                (index, direction)
            }
            // Ports used again, or never seen.
            _ => {
                let direction = if packet.segment.flags.has(Flags::SYN | Flags::ACK) {
                    Direction::Backward
                } else {
                    Direction::Forward
                };
                (self.insert(t_ns, packet.ends, direction), direction)
            }
        };
        self.newest = Some((packet.ends, index, direction));
        (index, direction)
    }

    fn insert(&mut self, t_ns: u64, ends: Ends<IpAddr>, direction: Direction) -> usize {
        let index = self.list.len();
        self.index.insert(ends, (index, direction));
        self.index.insert(ends.reversed(), (index, direction.reversed()));
        self.list.push(Connection {
            ends: if direction == Direction::Forward { ends } else { ends.reversed() },
            first_ns: t_ns,
            last_ns: t_ns,
            reset: false,
            halves: Default::default(),
        });
        index
    }
}

impl Connection {
    /// Whether a SYN is the one that opened this connection, sent again, or the first packet its side sends.
    fn opened_by(&self, direction: Direction, syn: &Segment) -> bool {
        let half = self.half(direction);
        half.packets == 0 || half.syn_seen && half.base as u32 == syn.seq.wrapping_add(1)
    }
}

impl Half {
    #[inline]
    fn count(&mut self, packet: &Packet<'_>, repeated_bytes: u32) {
        let segment = &packet.segment;
        self.packets += 1;
        self.ip_bytes += u64::from(packet.ip_bytes);
        self.payload_bytes += u64::from(segment.len);
        self.data_packets += u64::from(segment.len > 0);
        self.repeated_packets += u64::from(repeated_bytes > 0);
        self.repeated_bytes += u64::from(repeated_bytes);
        self.largest_payload = self.largest_payload.max(segment.len);
        self.sack_packets += u64::from(!segment.sack.is_empty());
        self.fin_seen |= segment.flags.has(Flags::FIN);
        if segment.flags.has(Flags::SYN) {
            self.mss = segment.options.has(Options::MSS).then_some(segment.mss);
            self.window_scale = segment.options.has(Options::WSCALE).then_some(segment.wscale);
        } else {
            self.ece_packets += u64::from(segment.flags.has(Flags::ECE));
        }
    }

    /// Takes note of an acknowledgement that this half sent for `other`'s stream: its offset there, and whether it is a
    /// duplicate.
    #[inline]
    fn acknowledge(&mut self, other: &mut Half, segment: &Segment) -> (Option<i64>, bool) {
        let ack = other.place(segment.ack, false);
        let outstanding = other.highest > other.highest_acked;
        let bare = segment.len == 0 && !segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::FIN);
        let duplicate = ack == other.highest_acked && outstanding && bare;
        if ack > other.highest_acked {
            self.advancing_acks += u64::from(other.highest_acked != 0);
            other.highest_acked = ack;
        }
        self.duplicate_acks += u64::from(duplicate);
        (Some(ack.wrapping_sub(other.base) as i64), duplicate)
    }
}
