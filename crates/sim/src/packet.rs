//! A packet on its way through the simulated network: a segment and what the simulator wants to know of it.

use contract::ids::{ConnectionId, HostId};
use path::Nanos;
use wire::Segment;

/// Port of every accepting side (iperf3's).
const PORT: u16 = 5201;
/// Opening sides have this port and the flow's number added.
const FIRST_PORT: u16 = 10_000;
/// Ports are used again after so many flows.
const PORTS: u32 = 50_000;

/// Source and destination port of a packet for the connection `receiver`.
pub(crate) fn ports(receiver: ConnectionId) -> (u16, u16) {
    let opening = FIRST_PORT + (receiver.flow().0 % PORTS) as u16;
    if receiver.is_opening() { (PORT, opening) } else { (opening, PORT) }
}

/// Source and destination of a connection's packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// Sending host.
    pub src: HostId,
    /// Receiving host.
    pub dst: HostId,
    /// The connection at the receiving end.
    pub peer: ConnectionId,
    /// See [`Packet::echo_delay`].
    pub echo_delay: Nanos,
}

impl Ends {
    /// The packet that carries `segment`, of `bytes` bytes, sent at `now`.
    #[inline(always)]
    pub(crate) fn packet(&self, now: Nanos, segment: &Segment, bytes: u32, queue_delay: Nanos) -> Packet {
        let mut packet = Packet { segment: *segment, ..Packet::default() };
        self.fill(now, &mut packet, bytes, queue_delay);
        packet
    }

    /// Makes `packet`, whose segment is written, one of `bytes` bytes, sent at `now`.
    #[inline(always)]
    pub(crate) fn fill(&self, now: Nanos, packet: &mut Packet, bytes: u32, queue_delay: Nanos) {
        packet.sent_at = now;
        packet.echo_delay = self.echo_delay;
        packet.queue_delay = queue_delay;
        packet.bytes = bytes;
        packet.connection = self.peer;
        packet.src = self.src;
        packet.dst = self.dst;
        packet.corrupt = false;
        packet.fragment = 0;
    }
}

/// A segment in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packet {
    /// The segment.
    pub segment: Segment,
    /// True time when the sending host handed it to its NIC.
    pub sent_at: Nanos,
    /// One-way delay of the newest data packet that the sender of an acknowledgement had received, 0 for none. With
    /// this packet's own delay it makes the round trip of a packet pair (SPP, Zander and Armitage, LCN 2013).
    pub echo_delay: Nanos,
    /// Time spent waiting in queues.
    pub queue_delay: Nanos,
    /// Length of the IP packet.
    pub bytes: u32,
    /// The connection at the receiving end.
    pub connection: ConnectionId,
    /// Sending host.
    pub src: HostId,
    /// Receiving host.
    pub dst: HostId,
    /// Damaged on the way.
    pub corrupt: bool,
    /// Part of the IP packet that this is, as its header says: offset in units of eight bytes, and [`MORE_FRAGMENTS`] unless it is
    /// the last. 0: the whole.
    pub fragment: u16,
}

impl Packet {
    /// Whether it is neither damaged nor a part of a packet.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        !self.corrupt & (self.fragment == 0)
    }
}

/// Bit of [`Packet::fragment`] where more follow (RFC 791 section 3.1); the others are the offset.
pub(crate) const MORE_FRAGMENTS: u16 = 0x2000;

/// Implements what a link asks of a packet, whether it is here or in the pool.
macro_rules! packet_fields {
    () => {
        #[inline]
        fn bytes(&self) -> u32 {
            self.bytes
        }

        /// Connections are numbered densely; a multiplicative hash spreads them (Knuth, TAOCP 6.4).
        #[inline]
        fn flow_hash(&self) -> u32 {
            self.connection.0.wrapping_mul(0x9e37_79b1)
        }

        #[inline]
        fn ports(&self) -> (u16, u16) {
            $crate::packet::ports(self.connection)
        }

        #[inline]
        fn src(&self) -> u16 {
            self.src.0
        }

        #[inline]
        fn dst(&self) -> u16 {
            self.dst.0
        }

        #[inline]
        fn dscp(&self) -> u8 {
            0
        }
    };
}
pub(crate) use packet_fields;

impl path::Packet for Packet {
    packet_fields!();

    #[inline]
    fn payload(&self) -> u32 {
        self.segment.len
    }

    #[inline]
    fn ecn(&self) -> path::Ecn {
        match self.segment.ecn {
            wire::Ecn::NotEct => path::Ecn::NotEct,
            wire::Ecn::Ect1 => path::Ecn::Ect1,
            wire::Ecn::Ect0 => path::Ecn::Ect0,
            wire::Ecn::Ce => path::Ecn::Ce,
        }
    }

    #[inline]
    fn set_ce(&mut self) {
        self.segment.ecn = wire::Ecn::Ce;
    }

    #[inline]
    fn set_corrupt(&mut self) {
        self.corrupt = true;
    }
}
