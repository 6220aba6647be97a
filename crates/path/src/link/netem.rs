//! A host's egress as `tc netem` makes it (Linux net/sched/sch_netem.c): first the delay, then the rate, and one limit
//! for everything that has not left yet.

use std::collections::VecDeque;

use super::server::Server;
use super::wire::Wire;
use super::{Counters, LinkChange, LinkConfig};
use crate::Xoshiro256PlusPlus;
use crate::packet::{DropReason, Nanos, Output, Packet};

pub(super) struct Netem {
    limit: usize,
    wire: Wire,
    server: Server,
    overhead: u32,
    report_changes: bool,
    /// Departures and bytes of the packets inside, in order of departure.
    inside: VecDeque<(Nanos, u32)>,
    /// The backlog counts the packets inside.
    counters: Counters,
}

impl Netem {
    pub(super) fn new(
        limit_packets: u32,
        config: &LinkConfig,
        streams: &dyn Fn(&str) -> Xoshiro256PlusPlus,
    ) -> Self {
        Netem {
            limit: limit_packets as usize,
            wire: Wire::new(config.delay_ns, config.jitter.as_ref(), streams("jitter")),
            server: Server::new(config.rate_bps),
            overhead: config.overhead,
            report_changes: config.report_changes,
            inside: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    pub(super) fn accept<P: Packet>(&mut self, at: Nanos, packet: P, out: &mut impl Output<P>) {
        self.advance(at, out);
        if self.inside.len() >= self.limit {
            self.count_drop();
            out.dropped(at, &packet, DropReason::Overlimit);
            return;
        }
        let len = packet.bytes() + self.overhead;
        let ready = self.wire.carry(at);
        let (mut depart, mut waited) = (ready, 0);
        if self.server.rate_bps().is_some() {
            let start = ready.max(self.server.free_at());
            waited = start - ready;
            depart = self.server.begin(start, len);
        }
        let place = self.inside.iter().rposition(|&(other, _)| other <= depart).map_or(0, |last| last + 1);
        self.inside.insert(place, (depart, len));
        self.counters.backlog_bytes += u64::from(len);
        self.counters.backlog_packets += 1;
        self.report(at, out);
        // skb_orphan_partial: its sender counts a packet as sent from here on.
        out.forward(depart, packet, waited, at);
    }

    /// Removes the packets that have left at or before `now`.
    pub(super) fn advance<P>(&mut self, now: Nanos, out: &mut impl Output<P>) {
        while let Some(&(at, _)) = self.inside.front()
            && at <= now
        {
            self.leave();
            self.report(at, out);
        }
    }

    /// Packets need no event to go on. Only a driver that follows the queue has to know when they leave.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        if self.report_changes { self.inside.front().map(|&(at, _)| at) } else { None }
    }

    pub(super) fn count_drop(&mut self) {
        self.counters.drops += 1;
    }

    pub(super) fn counters(&mut self, t: Nanos) -> Counters {
        while self.inside.front().is_some_and(|&(at, _)| at <= t) {
            self.leave();
        }
        self.counters
    }

    /// The packets inside keep their times.
    pub(super) fn change(&mut self, change: &LinkChange) {
        assert!(change.queue.is_none(), "netem is not a queue discipline that could be replaced");
        if let Some(rate_bps) = change.rate_bps {
            self.server.set_rate(rate_bps);
        }
        if let Some(delay) = change.delay_ns {
            self.wire.delay = delay;
        }
    }

    fn leave(&mut self) {
        if let Some((_, len)) = self.inside.pop_front() {
            self.counters.backlog_bytes -= u64::from(len);
            self.counters.backlog_packets -= 1;
            self.counters.packets += 1;
            self.counters.bytes += u64::from(len);
        }
    }

    fn report<P>(&self, at: Nanos, out: &mut impl Output<P>) {
        if self.report_changes {
            out.queue_changed(at, self.counters.backlog_bytes, self.counters.backlog_packets);
        }
    }
}
