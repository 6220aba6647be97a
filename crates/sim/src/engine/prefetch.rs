//! Prefetching: asks the processor for the memory of connections whose packets arrive soon.
//!
//! With many connections, the memory of each has left the processor's caches by the time its next packet comes. What a
//! packet needs is prefetched in three steps: each follows pointers that the step before has brought.

use contract::ids::{ConnectionId, LinkId};
use path::{Nanos, prefetch};

use crate::event_queue::EventQueue;
use crate::flow::FlowRun;
use crate::network::Network;
use crate::packet::Packet;
use crate::transport::Transport;

/// Number of connections below which all stay in the caches.
const PREFETCH_MIN_CONNECTIONS: usize = 16;
/// Number of packets before its arrival at which each step is taken for a packet: its connection and its flow,
const PREFETCH_FAR: usize = 6;
/// the halves of the connection and the counts of the flow,
const PREFETCH_NEAR: usize = 3;
/// and the memory that its sender names.
const PREFETCH_LAST: usize = 1;

/// Remembers what was asked for.
pub(super) struct Prefetcher {
    active: bool,
    /// Bits of the last arrivals of each link, the last one's lowest. A bit is set if the connection of the packet
    /// that was looked at then was prefetched: it was another than that of the packet before.
    asked: Vec<u32>,
}

impl Prefetcher {
    /// Creates the prefetcher of a run with such numbers of links and flows.
    pub(super) fn new(links: usize, flows: usize) -> Prefetcher {
        Prefetcher { active: flows >= PREFETCH_MIN_CONNECTIONS, asked: vec![0; links] }
    }

    /// A packet arrives over `link`: asks for what those behind it need.
    #[inline(always)]
    pub(super) fn on_arrival(
        &mut self,
        network: &mut Network,
        connections: &[Transport],
        flows: &[FlowRun],
        link: LinkId,
    ) {
        if self.active {
            self.look_ahead(network, connections, flows, link);
        }
    }

    #[inline]
    fn look_ahead(
        &mut self,
        network: &mut Network,
        connections: &[Transport],
        flows: &[FlowRun],
        link: LinkId,
    ) {
        let asked = self.asked[link.index()];
        let mut now_asked = 0;
        if let Some((connection, before)) = upcoming(network, link)
            && connection != before
        {
            now_asked = 1;
            prefetch(&connections[connection.index()]);
            prefetch_flow(&flows[connection.flow().index()], connection.is_opening());
        }
        self.asked[link.index()] = asked << 1 | now_asked;
        if asked >> (PREFETCH_FAR - PREFETCH_NEAR - 1) & 1 == 1
            && let Some((at, packet)) = packet_behind(network, link, PREFETCH_NEAR)
        {
            let connection = packet.connection;
            prefetch_counts(&flows[connection.flow().index()], packet, at);
            if let Some(endpoint) = connections[connection.index()].tcp() {
                if connection.is_opening() {
                    prefetch(endpoint.sender());
                }
                // Both sides ask it for its timer.
                prefetch(endpoint.receiver());
            }
        }
        if asked >> (PREFETCH_FAR - PREFETCH_LAST - 1) & 1 == 1
            && let Some((_, packet)) = packet_behind(network, link, PREFETCH_LAST)
            && let Some(endpoint) = connections[packet.connection.index()].tcp()
        {
            if packet.connection.is_opening() {
                endpoint.sender().prefetch_targets().into_iter().flatten().for_each(prefetch);
            } else if let Some(newest) = endpoint.newest_out_of_order() {
                prefetch(newest);
            }
        }
    }

    /// A timer has fired: asks for the connection whose timer is next.
    #[inline]
    pub(super) fn on_timer(&self, events: &EventQueue, connections: &[Transport]) {
        if self.active {
            prefetch(&connections[events.next_timer().index()]);
        }
    }
}

/// The connections of the packet [`PREFETCH_FAR`] behind the next one over `link`, and of the packet before it. Asks for the
/// packets themselves, and for the memory of packets that are sent meanwhile.
#[inline(always)]
fn upcoming(network: &mut Network, link: LinkId) -> Option<(ConnectionId, ConnectionId)> {
    let (delivery, pool) = network.under_way(link);
    if let Some((_, packet)) = delivery.whole_behind(PREFETCH_FAR) {
        let (_, before) = delivery.whole_behind(PREFETCH_FAR - 1)?;
        return Some((packet.connection, before.connection));
    }
    if let Some(reference) = delivery.pooled_behind(3 * PREFETCH_FAR) {
        prefetch(reference);
    }
    let (_, packet) = delivery.pooled_behind(PREFETCH_FAR)?;
    let (_, before) = delivery.pooled_behind(PREFETCH_FAR - 1)?;
    prefetch(pool.get(packet));
    if let Some(draft) = pool.upcoming_draft() {
        prefetch(draft);
    }
    Some((packet.connection(), before.connection()))
}

/// The packet `behind` the next one over `link`, and when it arrives.
#[inline(always)]
fn packet_behind(network: &mut Network, link: LinkId, behind: usize) -> Option<(Nanos, &Packet)> {
    let (delivery, pool) = network.under_way(link);
    if let Some((at, packet)) = delivery.whole_behind(behind) {
        return Some((*at, packet));
    }
    let (at, packet) = delivery.pooled_behind(behind)?;
    Some((*at, pool.unpack(packet)))
}

/// Prefetches what a packet for the opening or the accepting side of a flow touches of the flow.
#[inline]
fn prefetch_flow(flow: &FlowRun, opening: bool) {
    prefetch(&flow.wire);
    prefetch(&flow.tally.wire_bytes);
    prefetch(if opening { &flow.tally.rtt } else { &flow.tally.queue_delay });
    prefetch(&flow.app);
}

/// The counts that [`FlowRun::note_arrival`] of `packet` at `at` will raise.
#[inline]
fn prefetch_counts(flow: &FlowRun, packet: &Packet, at: Nanos) {
    let count = if packet.connection.is_opening() {
        flow.tally.rtt.count_of(packet.echo_delay + (at - packet.sent_at))
    } else {
        flow.tally.queue_delay.count_of(packet.queue_delay)
    };
    if let Some(count) = count {
        prefetch(count);
    }
}
