//! A packet on its way through the simulated network: a segment and what the simulator wants to know of it.

use path::Nanos;
use wire::Segment;

/// Port of every accepting side (iperf3's).
const PORT: u16 = 5201;
/// Opening sides have this port and the flow's number added.
const FIRST_PORT: u16 = 10_000;
/// Ports are used again after so many flows.
const PORTS: u32 = 50_000;

/// Source and destination port of a packet for the connection `receiver`.
pub fn ports(receiver: u32) -> (u16, u16) {
    let opening = FIRST_PORT + (receiver / 2 % PORTS) as u16;
    if receiver & 1 == 1 { (opening, PORT) } else { (PORT, opening) }
}

/// Where a connection's packets come from and go to.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Sending host.
    pub src: u16,
    /// Receiving host.
    pub dst: u16,
    /// The connection at the receiving end.
    pub peer: u32,
    /// See [`Packet::echo_delay`].
    pub echo_delay: Nanos,
}

impl Ends {
    /// The packet that carries `segment`, of `bytes` bytes, sent at `now`.
    #[inline(always)]
    pub fn packet(&self, now: Nanos, segment: &Segment, bytes: u32, queue_delay: Nanos) -> Packet {
        Packet {
            segment: *segment,
            sent_at: now,
            echo_delay: self.echo_delay,
            queue_delay,
            bytes,
            connection: self.peer,
            src: self.src,
            dst: self.dst,
            corrupt: false,
        }
    }
}

/// A segment in flight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    /// The segment.
    pub segment: Segment,
    /// True time when the sending host handed it to its NIC.
    pub sent_at: Nanos,
    /// On packets with an acknowledgement: one-way delay of the newest data packet their sender had received, 0 for
    /// none. With this packet's own delay it makes the round trip of a packet pair (SPP, Zander and Armitage, LCN 2013).
    pub echo_delay: Nanos,
    /// Time spent waiting in queues.
    pub queue_delay: Nanos,
    /// Length of the IP packet.
    pub bytes: u32,
    /// Index of the connection at the receiving end: 2 x flow, + 1 at the accepting side.
    pub connection: u32,
    /// Sending host.
    pub src: u16,
    /// Receiving host.
    pub dst: u16,
    /// Damaged on the way.
    pub corrupt: bool,
}

/// What a link sees of a packet that is somewhere else meanwhile: a queue moves its packets often, and these are small.
#[derive(Clone, Debug)]
pub struct Light {
    /// Where the packet is.
    place: u32,
    bytes: u32,
    payload: u32,
    connection: u32,
    src: u16,
    dst: u16,
    ecn: path::Ecn,
    corrupt: bool,
    /// Time spent waiting in the queue of this link.
    queue_delay: Nanos,
}

/// The packets that are in links.
#[derive(Default)]
pub struct Waiting {
    packets: Vec<Packet>,
    free: Vec<u32>,
}

impl Waiting {
    /// Keeps a packet that enters a link.
    #[inline]
    pub fn put(&mut self, packet: &Packet) -> Light {
        let place = match self.free.pop() {
            Some(place) => {
                self.packets[place as usize] = *packet;
                place
            }
            None => {
                self.packets.push(*packet);
                self.packets.len() as u32 - 1
            }
        };
        Light {
            place,
            bytes: packet.bytes,
            payload: packet.segment.len,
            connection: packet.connection,
            src: packet.src,
            dst: packet.dst,
            ecn: path::Packet::ecn(packet),
            corrupt: packet.corrupt,
            queue_delay: 0,
        }
    }

    /// The packet of something that is in a link.
    pub fn get(&self, light: &Light) -> &Packet {
        &self.packets[light.place as usize]
    }

    /// The packet of something that leaves a link, or is dropped there, with what happened to it.
    #[inline]
    pub fn take(&mut self, light: &Light) -> Packet {
        self.free.push(light.place);
        let mut packet = self.packets[light.place as usize];
        packet.corrupt = light.corrupt;
        packet.queue_delay += light.queue_delay;
        if light.ecn == path::Ecn::Ce {
            packet.segment.ecn = wire::Ecn::Ce;
        }
        packet
    }
}

impl path::Packet for Light {
    #[inline]
    fn bytes(&self) -> u32 {
        self.bytes
    }

    #[inline]
    fn payload(&self) -> u32 {
        self.payload
    }

    #[inline]
    fn flow_hash(&self) -> u32 {
        flow_hash(self.connection)
    }

    #[inline]
    fn src(&self) -> u16 {
        self.src
    }

    #[inline]
    fn dst(&self) -> u16 {
        self.dst
    }

    #[inline]
    fn dscp(&self) -> u8 {
        0
    }

    #[inline]
    fn ecn(&self) -> path::Ecn {
        self.ecn
    }

    #[inline]
    fn set_ce(&mut self) {
        self.ecn = path::Ecn::Ce;
    }

    #[inline]
    fn set_corrupt(&mut self) {
        self.corrupt = true;
    }

    #[inline]
    fn add_queue_delay(&mut self, ns: Nanos) {
        self.queue_delay += ns;
    }
}

/// Connections are numbered densely; a multiplicative hash spreads them (Knuth, TAOCP 6.4).
#[inline]
fn flow_hash(connection: u32) -> u32 {
    connection.wrapping_mul(0x9e37_79b1)
}

impl path::Packet for Packet {
    #[inline]
    fn bytes(&self) -> u32 {
        self.bytes
    }

    #[inline]
    fn payload(&self) -> u32 {
        self.segment.len
    }

    #[inline]
    fn flow_hash(&self) -> u32 {
        flow_hash(self.connection)
    }

    #[inline]
    fn src(&self) -> u16 {
        self.src
    }

    #[inline]
    fn dst(&self) -> u16 {
        self.dst
    }

    #[inline]
    fn dscp(&self) -> u8 {
        0
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

    #[inline]
    fn add_queue_delay(&mut self, ns: Nanos) {
        self.queue_delay += ns;
    }
}
