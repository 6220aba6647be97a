//! Output of links: packets that go on, and reports of those that do not.

use contract::ids::{ConnectionId, LinkId};
use host::nic::TransmitRing;
use path::{DropReason, Nanos, Output};

use super::pool::{PacketPool, PacketRef};
use crate::packet::Packet;

/// Report of what has happened to a packet on a hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketReport {
    /// Time of the event.
    pub at: Nanos,
    /// Number of the hop in `events`: a link, or a place in a host behind all links.
    pub hop: u32,
    /// Connection it was meant for.
    pub connection: ConnectionId,
    /// Place of the packet in the stream, if it carried payload.
    pub offset: u64,
    /// Payload bytes.
    pub payload: u32,
    /// Fate of the packet.
    pub fate: Fate,
}

/// Fate of a packet in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Packet that was dropped.
    Dropped(DropReason),
    /// Packet that was marked CE and went on.
    Marked,
}

impl PacketReport {
    /// The report of what happened to `packet`.
    pub(crate) fn new(at: Nanos, hop: u32, packet: &Packet, fate: Fate) -> PacketReport {
        let Packet { connection, ref segment, .. } = *packet;
        PacketReport { at, hop, connection, offset: segment.offset, payload: segment.len, fate }
    }
}

/// Reports of the network since the engine last asked. Almost always empty.
#[derive(Default)]
pub(crate) struct Reports {
    /// Drops and marks.
    pub packets: Vec<PacketReport>,
    /// Changes of queues, of links that were asked to report them.
    pub queues: Vec<QueueChange>,
    /// Packets that entered links with a capture.
    pub captured: Vec<(Nanos, LinkId, Packet)>,
}

/// The queue of a link has changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueChange {
    /// Time of the change.
    pub at: Nanos,
    /// Link of the queue.
    pub link: LinkId,
    /// Bytes waiting.
    pub backlog_bytes: u64,
    /// Packets waiting.
    pub backlog_packets: u32,
}

/// A packet that a link has put out.
#[derive(Clone, Copy)]
pub(super) struct Emitted {
    /// Time when the packet reaches the far end.
    pub at: Nanos,
    /// Time in the queue. Added to the packet later: reading the whole back right after writing this part of it
    /// would stall the processor.
    pub waited: Nanos,
    /// The packet.
    pub packet: PacketRef,
}

/// Output of a link.
pub(super) struct LinkOutput<'a> {
    pub link: LinkId,
    pub pool: &'a mut PacketPool,
    pub emitted: &'a mut Vec<Emitted>,
    pub reports: &'a mut Reports,
    /// Times at which the port of a switch asks for a pause (true) or for its end.
    pub pauses: &'a mut Vec<(Nanos, bool)>,
    /// Ring of a host that watches its own interface, from which the link takes.
    pub ring: Option<&'a mut TransmitRing>,
}

impl LinkOutput<'_> {
    #[cold]
    fn report(&mut self, at: Nanos, packet: &PacketRef, fate: Fate) {
        let report = PacketReport::new(at, self.link.0, self.pool.get(packet), fate);
        self.reports.packets.push(report);
    }
}

impl Output<PacketRef> for LinkOutput<'_> {
    #[inline]
    fn forward(&mut self, at: Nanos, packet: PacketRef, waited: Nanos, sent: Nanos) {
        if let Some(ring) = &mut self.ring {
            ring.push(sent, packet.connection().peer().0, path::Packet::payload(&packet));
        }
        self.emitted.push(Emitted { at, waited, packet });
    }

    #[cold]
    fn dropped(&mut self, at: Nanos, packet: &PacketRef, why: DropReason) {
        self.report(at, packet, Fate::Dropped(why));
        self.pool.free(packet);
    }

    #[cold]
    fn marked(&mut self, at: Nanos, packet: &PacketRef) {
        self.report(at, packet, Fate::Marked);
    }

    fn duplicate(&mut self, packet: &PacketRef) -> PacketRef {
        self.pool.duplicate(packet)
    }

    fn queue_changed(&mut self, at: Nanos, backlog_bytes: u64, backlog_packets: u32) {
        self.reports.queues.push(QueueChange { at, link: self.link, backlog_bytes, backlog_packets });
    }

    #[cold]
    fn paused(&mut self, at: Nanos, paused: bool) {
        self.pauses.push((at, paused));
    }
}
