//! The packets that are in links with a queue discipline or impairments, and behind them, and the small references that
//! queues move around instead.

use contract::ids::{ConnectionId, HostId};
use path::Nanos;

use crate::packet::{Ends, Packet, packet_fields};

/// A packet in the pool, and what a link wants to know of it. A queue moves its packets often, so this is small: the
/// packet itself stays in the pool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketRef {
    /// Time spent waiting in queues.
    queue_delay: Nanos,
    /// Slot of the packet in the pool.
    slot: u32,
    bytes: u32,
    payload: u32,
    connection: ConnectionId,
    src: HostId,
    dst: HostId,
    /// ECN field and damage as bits. As enums and booleans they would make an `Option` of this slow to copy.
    marks: u32,
}

/// The ECN field in [`PacketRef::marks`], as in the IP header.
const ECN: u32 = 3;
/// Damage in [`PacketRef::marks`].
const CORRUPT: u32 = 4;

impl PacketRef {
    /// The packet has waited in one more queue.
    #[inline]
    pub(crate) fn add_queue_delay(&mut self, waited: Nanos) {
        self.queue_delay += waited;
    }

    /// See [`Packet::connection`].
    #[inline]
    pub(crate) fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// See [`Packet::dst`].
    #[inline]
    pub(crate) fn destination(&self) -> HostId {
        self.dst
    }
}

/// The packets that are in links with a queue discipline or impairments, and behind them.
///
/// Slots are given out in turn, so that packets that come together lie together: memory is read and written in order.
#[derive(Default)]
pub(crate) struct PacketPool {
    slots: Vec<Slot>,
    taken: Vec<bool>,
    count: usize,
    /// Place to look for the next free slot; may be behind the last.
    cursor: usize,
}

/// A packet in as few cache lines as it fits into.
#[derive(Clone, Copy, Default)]
#[repr(align(128))]
struct Slot(Packet);

/// Largest part of the slots that is taken, 7 of 8, so that a free one is near.
const MAX_FULL: (usize, usize) = (7, 8);

impl PacketPool {
    /// Place where the next packet is to be written. It is in the pool once [`PacketPool::put_draft`] has been
    /// called.
    #[inline(always)]
    pub(crate) fn draft(&mut self) -> &mut Packet {
        if self.taken.get(self.cursor) != Some(&false) {
            self.find_free();
        }
        &mut self.slots[self.cursor].0
    }

    /// The slot of a packet soon to be written, to be prefetched.
    #[inline]
    pub(crate) fn upcoming_draft(&self) -> Option<&Packet> {
        self.slots.get(self.cursor + 2).map(|slot| &slot.0)
    }

    /// Takes in a packet that enters a link.
    pub(crate) fn put(&mut self, packet: &Packet) -> PacketRef {
        *self.draft() = *packet;
        let Packet { queue_delay, bytes, connection, src, dst, .. } = *packet;
        PacketRef {
            queue_delay,
            slot: self.take_draft(),
            bytes,
            payload: packet.segment.len,
            connection,
            src,
            dst,
            marks: packet.segment.ecn as u32 | if packet.corrupt { CORRUPT } else { 0 },
        }
    }

    /// Takes in the packet whose segment was written into [`PacketPool::draft`]; see [`Ends::fill`].
    #[inline(always)]
    pub(crate) fn put_draft(&mut self, now: Nanos, ends: &Ends, bytes: u32, queue_delay: Nanos) -> PacketRef {
        let packet = self.draft();
        ends.fill(now, packet, bytes, queue_delay);
        let (payload, marks) = (packet.segment.len, packet.segment.ecn as u32);
        // Taken from `ends`: reading back what was just written in pieces stalls the processor.
        let Ends { src, dst, peer, .. } = *ends;
        PacketRef { queue_delay, slot: self.take_draft(), bytes, payload, connection: peer, src, dst, marks }
    }

    #[inline(always)]
    fn take_draft(&mut self) -> u32 {
        let slot = self.cursor;
        self.taken[slot] = true;
        self.count += 1;
        self.cursor += 1;
        slot as u32
    }

    /// Moves the cursor to a free slot.
    #[inline(never)]
    fn find_free(&mut self) {
        if self.count * MAX_FULL.1 >= self.slots.len() * MAX_FULL.0 {
            self.grow();
            return;
        }
        while self.taken.get(self.cursor) != Some(&false) {
            self.cursor = if self.cursor < self.slots.len() { self.cursor + 1 } else { 0 };
        }
    }

    /// Adds a quarter more slots and puts the cursor there.
    #[cold]
    fn grow(&mut self) {
        let count = self.slots.len();
        self.cursor = count;
        self.slots.resize(count + count / 4 + 16, Slot::default());
        self.taken.resize(self.slots.len(), false);
    }

    /// The packet as it entered its first link.
    pub(crate) fn get(&self, reference: &PacketRef) -> &Packet {
        &self.slots[reference.slot as usize].0
    }

    /// The packet with what has happened to it since.
    #[inline]
    pub(crate) fn unpack(&mut self, reference: &PacketRef) -> &Packet {
        let packet = &mut self.slots[reference.slot as usize].0;
        packet.corrupt = reference.marks & CORRUPT != 0;
        packet.queue_delay = reference.queue_delay;
        if reference.marks & ECN == wire::Ecn::Ce as u32 {
            packet.segment.ecn = wire::Ecn::Ce;
        }
        packet
    }

    /// Takes in a copy of a packet.
    pub(crate) fn duplicate(&mut self, reference: &PacketRef) -> PacketRef {
        let packet = *self.get(reference);
        PacketRef { slot: self.put(&packet).slot, ..*reference }
    }

    /// The packet is not needed any more.
    #[inline]
    pub(crate) fn free(&mut self, reference: &PacketRef) {
        self.taken[reference.slot as usize] = false;
        self.count -= 1;
    }
}

impl path::Packet for PacketRef {
    packet_fields!();

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
