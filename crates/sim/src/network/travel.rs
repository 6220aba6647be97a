//! The way of a packet from link to link.
//!
//! On plain links a packet is not moved, only its time is; see [`super::mode`]. On others it lies in the pool, and links
//! hand references to it on.

use contract::ids::{HostId, LinkId};
use path::{DropReason, Nanos, Packet as _};
use tcp::Endpoint;
use wire::Segment;

use super::output::{Emitted, Fate, PacketReport};
use super::route::AfterPlain;
use super::{LinkMeta, LinkMode, Network, PacketRef};
use crate::event_queue::{EventQueue, NEVER};
use crate::packet::{Ends, Packet};
use crate::topology::End;

/// Ways from a host.
impl Network {
    /// Hop behind the plain links on the way to `ends`.
    #[inline(always)]
    pub(crate) fn after_plain(&self, ends: &Ends) -> AfterPlain {
        self.routes.between(ends.src, ends.dst).after_plain
    }

    /// Place where the next segment that goes such a way is to be written: where it will lie then, as copying what was just
    /// written would stall the processor.
    #[inline(always)]
    pub(crate) fn draft(&mut self, after_plain: AfterPlain) -> &mut Segment {
        match after_plain {
            AfterPlain::Deliver(link) => &mut self.deliveries[link.index()].draft().1.segment,
            AfterPlain::Enter(_) => &mut self.pool.draft().segment,
            AfterPlain::Unknown => &mut self.scratch,
        }
    }

    /// A host hands the segment of `endpoint` in [`Network::draft`] to its interface, which makes an IP packet of `bytes` with
    /// `payload`.
    #[inline(always)]
    pub(crate) fn send_draft(
        &mut self,
        now: Nanos,
        ends: &Ends,
        (bytes, payload): (u32, u32),
        endpoint: &Endpoint,
        events: &mut EventQueue,
    ) {
        let now = now + self.lag;
        self.lag += std::mem::take(&mut self.first_alone);
        // The usual case: there is no packet until its time has gone from link to link.
        let route = self.routes.between(ends.src, ends.dst);
        let Some((&first, rest)) = route.plain.split_first() else {
            self.send_scratch(now, ends, bytes, endpoint, events);
            return;
        };
        let after_plain = route.after_plain;
        let Some((mut at, mut queue_delay)) = self.links[first.index()].pass(now, bytes) else {
            self.drop_draft(now, first, ends);
            return;
        };
        if let Some(ring) = &mut self.rings[ends.src.index()] {
            ring.push(self.links[first.index()].sent(), ends.peer.peer().0, payload);
        }
        for &link in rest {
            let Some((arrival, waited)) = self.links[link.index()].pass(at, bytes) else {
                self.drop_draft(at, link, ends);
                return;
            };
            queue_delay += waited;
            at = arrival;
        }
        match after_plain {
            AfterPlain::Deliver(link) => {
                let delivery = &mut self.deliveries[link.index()];
                let (arrival, draft) = delivery.drafted();
                *arrival = at;
                ends.fill(now, draft, bytes, queue_delay);
                if delivery.push_draft() {
                    events.set_arrival(link, at);
                }
            }
            AfterPlain::Enter(link) => {
                let packet = self.pool.put_draft(now, ends, bytes, queue_delay);
                self.enter_keeping_link(link, at, packet, events);
            }
            AfterPlain::Unknown => {}
        }
    }

    /// A host's interface takes a packet that was made earlier.
    pub(crate) fn send(&mut self, now: Nanos, packet: Packet, events: &mut EventQueue) {
        let link = self.topology.first_link(packet.src, packet.dst);
        self.enter(link, now, packet, events);
    }

    /// [`Network::send_draft`] over a route whose first link is not plain.
    #[inline(never)]
    fn send_scratch(
        &mut self,
        now: Nanos,
        ends: &Ends,
        bytes: u32,
        endpoint: &Endpoint,
        events: &mut EventQueue,
    ) {
        let mut packet = ends.packet(now, &self.scratch, bytes, 0);
        packet.sent_at = endpoint.due(&self.scratch).max(now);
        self.send(now, packet, events);
    }

    /// A queue's limit drops the segment in [`Network::draft`].
    #[cold]
    #[inline(never)]
    fn drop_draft(&mut self, at: Nanos, link: LinkId, ends: &Ends) {
        let after_plain = self.after_plain(ends);
        let packet = ends.packet(at, self.draft(after_plain), 0, 0);
        self.report_overlimit(at, link, &packet);
    }

    fn report_overlimit(&mut self, at: Nanos, link: LinkId, packet: &Packet) {
        let fate = Fate::Dropped(DropReason::Overlimit);
        self.reports.packets.push(PacketReport::new(at, link.0, packet, fate));
    }
}

/// Ways from link to link.
impl Network {
    /// Writes the packet that arrives at the far end of `link` into `packet`; false if it went on to another link.
    #[inline]
    pub(crate) fn arrive(&mut self, link: LinkId, packet: &mut Packet, events: &mut EventQueue) -> bool {
        if let Some((front, _)) = self.front_at_host(link) {
            *packet = *front;
            self.drop_front(link, events);
            return true;
        }
        let delivery = &mut self.deliveries[link.index()];
        if let Some((at, &front)) = delivery.front_whole() {
            self.drop_front(link, events);
            self.enter(self.topology.next_link(link, front.dst), at, front, events);
        } else if let Some((at, front)) = delivery.take_pooled() {
            events.set_arrival(link, delivery.next_pooled().unwrap_or(NEVER));
            let next = self.topology.next_link(link, front.destination());
            self.forward(next, at, 0, front, events);
        }
        false
    }

    /// A packet that is not in the pool enters `link` at `at`.
    #[inline]
    pub(super) fn enter(
        &mut self,
        mut link: LinkId,
        mut at: Nanos,
        mut packet: Packet,
        events: &mut EventQueue,
    ) {
        while self.meta[link.index()].plain {
            let Some((arrival, waited)) = self.links[link.index()].pass(at, packet.bytes) else {
                self.report_overlimit(at, link, &packet);
                return;
            };
            packet.queue_delay += waited;
            let meta = &self.meta[link.index()];
            if let Some(ring) = meta.host.and_then(|host| self.rings[host.index()].as_mut()) {
                ring.push(self.links[link.index()].sent(), packet.connection.peer().0, packet.segment.len);
            }
            match self.next_early(link, packet.dst) {
                Some(next) => {
                    link = next;
                    at = arrival;
                }
                None => {
                    if self.deliveries[link.index()].push_whole(arrival, packet) {
                        events.set_arrival(link, arrival);
                    }
                    return;
                }
            }
        }
        let packet = self.pool.put(&packet);
        self.enter_keeping_link(link, at, packet, events);
    }

    /// A packet of the pool enters `link` at `at`. It has waited `waited` in queues that it does not know of yet.
    #[inline]
    fn forward(
        &mut self,
        mut link: LinkId,
        mut at: Nanos,
        mut waited: Nanos,
        mut packet: PacketRef,
        events: &mut EventQueue,
    ) {
        while self.meta[link.index()].plain {
            let Some((arrival, longer)) = self.links[link.index()].pass(at, packet.bytes()) else {
                let fate = Fate::Dropped(DropReason::Overlimit);
                let report = PacketReport::new(at, link.0, self.pool.get(&packet), fate);
                self.reports.packets.push(report);
                self.pool.free(&packet);
                return;
            };
            waited += longer;
            at = arrival;
            match self.next_early(link, packet.destination()) {
                Some(next) => link = next,
                None => {
                    self.schedule_delivery(link, at, waited, packet, events);
                    return;
                }
            }
        }
        packet.add_queue_delay(waited);
        self.enter_keeping_link(link, at, packet, events);
    }

    /// The link behind `link` on the way to host `dst`, if packets may enter it ahead of the clock.
    #[inline(always)]
    fn next_early(&self, link: LinkId, dst: HostId) -> Option<LinkId> {
        if self.meta[link.index()].end != End::Node {
            return None;
        }
        let next = self.topology.next_link(link, dst);
        self.meta[next.index()].mode.takes_early().then_some(next)
    }

    /// A packet enters `link`, which is not plain and keeps it for a while.
    #[inline(always)]
    pub(super) fn enter_keeping_link(
        &mut self,
        link: LinkId,
        at: Nanos,
        packet: PacketRef,
        events: &mut EventQueue,
    ) {
        let LinkMeta { mode, inspected, host, keeps, .. } = self.meta[link.index()];
        if inspected && !self.inspect(link, at, &packet, events) {
            return;
        }
        if keeps && host.is_some() {
            let due = self.pool.get(&packet).sent_at;
            self.with_hop(link, |hop, output| hop.arrive_due(at, due, packet, output), events);
            return;
        }
        if let LinkMode::Batched { start_slack } = mode {
            self.enter_batched(link, start_slack, at, packet, events);
        } else {
            self.with_hop(link, |hop, output| hop.arrive(at, packet, output), events);
        }
    }

    /// Sends on what `link` has put out: all of `emitted` from `first` on.
    #[inline]
    pub(super) fn forward_emitted(&mut self, link: LinkId, first: usize, events: &mut EventQueue) {
        // Links behind this one use the list too, and leave it as they find it.
        let mut index = first;
        while let Some(&Emitted { at, waited, packet }) = self.emitted.get(index) {
            index += 1;
            // Behind a link that reorders, packets go on in the order of their arrival, which is known only then.
            let next = if self.meta[link.index()].reorders {
                None
            } else {
                self.next_early(link, packet.destination())
            };
            match next {
                Some(next) => self.forward(next, at, waited, packet, events),
                None => self.schedule_delivery(link, at, waited, packet, events),
            }
        }
        self.emitted.truncate(first);
    }

    /// A packet of the pool reaches the far end of `link` at `at`, after all others unless the link reorders.
    #[inline]
    fn schedule_delivery(
        &mut self,
        link: LinkId,
        at: Nanos,
        waited: Nanos,
        packet: PacketRef,
        events: &mut EventQueue,
    ) {
        let reorders = self.meta[link.index()].reorders;
        if self.deliveries[link.index()].push_pooled(at, packet, waited, reorders) {
            events.set_arrival(link, at);
        }
    }
}
