//! A packet on its way through the simulated network: a segment and what the simulator wants to know of it.

use path::{Nanos, prefetch};
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
        let mut packet = Packet { segment: *segment, ..Packet::default() };
        self.fill(now, &mut packet, bytes, queue_delay);
        packet
    }

    /// Makes `packet`, whose segment is written, one of `bytes` bytes, sent at `now`.
    #[inline(always)]
    pub fn fill(&self, now: Nanos, packet: &mut Packet, bytes: u32, queue_delay: Nanos) {
        packet.sent_at = now;
        packet.echo_delay = self.echo_delay;
        packet.queue_delay = queue_delay;
        packet.bytes = bytes;
        packet.connection = self.peer;
        packet.src = self.src;
        packet.dst = self.dst;
        packet.corrupt = false;
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Light {
    /// Time spent waiting in queues.
    queue_delay: Nanos,
    /// Where the packet is.
    place: u32,
    bytes: u32,
    payload: u32,
    connection: u32,
    src: u16,
    dst: u16,
    /// ECN field and damage as bits; of types with few values, an `Option` of this would take an odd shape that is
    /// slow to copy.
    marks: u32,
}

/// The ECN field in [`Light::marks`], as in the IP header.
const ECN: u32 = 3;
/// Damage in [`Light::marks`].
const CORRUPT: u32 = 4;

impl Light {
    /// The packet has waited in one more queue.
    #[inline]
    pub fn add_queue_delay(&mut self, waited: Nanos) {
        self.queue_delay += waited;
    }

    /// See [`Packet::connection`].
    #[inline]
    pub fn connection(&self) -> u32 {
        self.connection
    }
}

/// The packets that are in links with a discipline or impairments, and behind them.
///
/// Places are given out in turn, so that packets that come together lie together: memory is read and written in order.
#[derive(Default)]
pub struct Waiting {
    packets: Vec<Slot>,
    taken: Vec<bool>,
    count: usize,
    /// Where to look for the next free place; may be behind the last.
    hand: usize,
}

/// A packet in as few cache lines as it fits into.
#[derive(Clone, Copy, Default)]
#[repr(align(128))]
struct Slot(Packet);

/// More than 7 of 8 places are never taken: a free one is near.
const FULL: (usize, usize) = (7, 8);

impl Waiting {
    /// Where the next packet is to be written.
    #[inline(always)]
    pub fn draft(&mut self) -> &mut Packet {
        if self.taken.get(self.hand) != Some(&false) {
            self.find_place();
        }
        &mut self.packets[self.hand].0
    }

    /// Asks the processor for the memory of packets after the next: writing into what is far away holds up what follows.
    #[inline]
    pub fn bring_draft(&self) {
        if let Some(packet) = self.packets.get(self.hand + 2) {
            prefetch(packet);
        }
    }

    /// Keeps a packet that enters a link.
    pub fn put(&mut self, packet: &Packet) -> Light {
        *self.draft() = *packet;
        let Packet { queue_delay, bytes, connection, src, dst, .. } = *packet;
        Light {
            queue_delay,
            place: self.take_draft(),
            bytes,
            payload: packet.segment.len,
            connection,
            src,
            dst,
            marks: packet.segment.ecn as u32 | if packet.corrupt { CORRUPT } else { 0 },
        }
    }

    /// Keeps the packet whose segment was written into [`Waiting::draft`]; see [`Ends::fill`].
    #[inline(always)]
    pub fn put_draft(&mut self, now: Nanos, ends: &Ends, bytes: u32, queue_delay: Nanos) -> Light {
        let packet = self.draft();
        ends.fill(now, packet, bytes, queue_delay);
        let (payload, marks) = (packet.segment.len, packet.segment.ecn as u32);
        // Not read from the packet: what has just been written in pieces is slow to read in one.
        let Ends { src, dst, peer, .. } = *ends;
        Light { queue_delay, place: self.take_draft(), bytes, payload, connection: peer, src, dst, marks }
    }

    #[inline(always)]
    fn take_draft(&mut self) -> u32 {
        let place = self.hand;
        self.taken[place] = true;
        self.count += 1;
        self.hand += 1;
        place as u32
    }

    /// Moves the hand to a free place.
    #[inline(never)]
    fn find_place(&mut self) {
        if self.count * FULL.1 >= self.packets.len() * FULL.0 {
            self.grow();
            return;
        }
        while self.taken.get(self.hand) != Some(&false) {
            self.hand = if self.hand < self.packets.len() { self.hand + 1 } else { 0 };
        }
    }

    /// Makes room for a quarter more, where the hand is then.
    #[cold]
    fn grow(&mut self) {
        let places = self.packets.len();
        self.hand = places;
        self.packets.resize(places + places / 4 + 16, Slot::default());
        self.taken.resize(self.packets.len(), false);
    }

    /// The packet as it entered its first link.
    pub fn get(&self, light: &Light) -> &Packet {
        &self.packets[light.place as usize].0
    }

    /// The packet with what has happened to it since.
    #[inline]
    pub fn unpack(&mut self, light: &Light) -> &Packet {
        let packet = &mut self.packets[light.place as usize].0;
        packet.corrupt = light.marks & CORRUPT != 0;
        packet.queue_delay = light.queue_delay;
        if light.marks & ECN == wire::Ecn::Ce as u32 {
            packet.segment.ecn = wire::Ecn::Ce;
        }
        packet
    }

    /// Another packet like this one.
    pub fn twin(&mut self, light: &Light) -> Light {
        let packet = *self.get(light);
        Light { place: self.put(&packet).place, ..*light }
    }

    /// The packet is not needed any more.
    #[inline]
    pub fn free(&mut self, light: &Light) {
        self.taken[light.place as usize] = false;
        self.count -= 1;
    }
}

/// What a link asks of both in the same words.
macro_rules! fields {
    () => {
        #[inline]
        fn bytes(&self) -> u32 {
            self.bytes
        }

        /// Connections are numbered densely; a multiplicative hash spreads them (Knuth, TAOCP 6.4).
        #[inline]
        fn flow_hash(&self) -> u32 {
            self.connection.wrapping_mul(0x9e37_79b1)
        }

        #[inline]
        fn ports(&self) -> (u16, u16) {
            ports(self.connection)
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
    };
}

impl path::Packet for Light {
    fields!();

    #[inline]
    fn payload(&self) -> u32 {
        self.payload
    }

    #[inline]
    fn ecn(&self) -> path::Ecn {
        const FIELD: [path::Ecn; 4] = [path::Ecn::NotEct, path::Ecn::Ect1, path::Ecn::Ect0, path::Ecn::Ce];
        FIELD[(self.marks & ECN) as usize]
    }

    #[inline]
    fn set_ce(&mut self) {
        self.marks |= wire::Ecn::Ce as u32;
    }

    #[inline]
    fn set_corrupt(&mut self) {
        self.marks |= CORRUPT;
    }
}

impl path::Packet for Packet {
    fields!();

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
