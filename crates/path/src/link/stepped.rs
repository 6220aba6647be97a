//! A link with a queue discipline, where every waiting packet costs an event.

use super::server::Server;
use super::{Counters, LinkChange, LinkConfig};
use crate::Xoshiro256PlusPlus;
use crate::packet::{DropReason, Nanos, Output, Packet};
use crate::queue::{self, Qdisc, Queued, Sink, Site};

pub(super) struct Stepped<P> {
    queue: Box<dyn Qdisc<P>>,
    server: Server,
    delay: Nanos,
    overhead: u32,
    report_changes: bool,
    /// When the queue was last found empty by a packet.
    waiting_since: Nanos,
    /// Latest time handed to `forward`.
    last_forward: Nanos,
    /// Backlogs are read from the queue.
    counters: Counters,
}

impl<P: Packet + 'static> Stepped<P> {
    pub(super) fn new(config: &LinkConfig, streams: &dyn Fn(&str) -> Xoshiro256PlusPlus) -> Self {
        let site =
            Site { rate_bps: config.rate_bps, mtu: config.mtu + config.overhead, random: streams("aqm") };
        Stepped {
            queue: queue::build(&config.queue, site),
            server: Server::new(config.rate_bps),
            delay: config.delay_ns,
            overhead: config.overhead,
            report_changes: config.report_changes,
            waiting_since: 0,
            last_forward: 0,
            counters: Counters::default(),
        }
    }

    pub(super) fn accept(&mut self, at: Nanos, packet: P, out: &mut impl Output<P>) {
        self.advance(at, out);
        let len = packet.bytes() + self.overhead;
        let item = Queued { packet, arrived: at, len };
        if self.server.free_at() <= at && self.queue.backlog_packets() == 0 && self.queue.can_bypass() {
            self.transmit(at, item, out);
            return;
        }
        if self.queue.backlog_packets() == 0 {
            self.waiting_since = at;
        }
        self.queue.enqueue(at, item, &mut Tap { out, counters: &mut self.counters });
        self.report(at, out);
        self.advance(at, out);
    }

    /// Starts every transmission that is due at or before `now`.
    pub(super) fn advance(&mut self, now: Nanos, out: &mut impl Output<P>) {
        while let Some(start) = self.next_event()
            && start <= now
        {
            if let Some(item) = self.queue.dequeue(start, &mut Tap { out, counters: &mut self.counters }) {
                self.report(start, out);
                self.transmit(start, item, out);
            }
        }
    }

    pub(super) fn next_event(&self) -> Option<Nanos> {
        (self.queue.backlog_packets() > 0)
            .then(|| self.server.free_at().max(self.waiting_since).max(self.queue.ready_at()))
    }

    pub(super) fn count_drop(&mut self) {
        self.counters.drops += 1;
    }

    pub(super) fn counters(&self, t: Nanos) -> Counters {
        Counters {
            backlog_bytes: self.queue.backlog_bytes(),
            backlog_packets: self.queue.backlog_packets(),
            busy_ns: self.counters.busy_ns - self.server.free_at().saturating_sub(t),
            ..self.counters
        }
    }

    pub(super) fn change(&mut self, change: &LinkChange) {
        if let Some(rate_bps) = change.rate_bps {
            self.server.set_rate(rate_bps);
        }
        if let Some(delay) = change.delay_ns {
            self.delay = delay;
        }
    }

    fn transmit(&mut self, start: Nanos, mut item: Queued<P>, out: &mut impl Output<P>) {
        let depart = self.server.begin(start, item.len);
        self.counters.packets += 1;
        self.counters.bytes += u64::from(item.len);
        self.counters.busy_ns += depart - start;
        item.packet.add_queue_delay(start - item.arrived);
        self.last_forward = self.last_forward.max(depart + self.delay);
        out.forward(self.last_forward, item.packet);
    }

    fn report(&self, at: Nanos, out: &mut impl Output<P>) {
        if self.report_changes {
            out.queue_changed(at, self.queue.backlog_bytes(), self.queue.backlog_packets());
        }
    }
}

/// Counts what a queue discipline reports on its way to the driver.
struct Tap<'a, O> {
    out: &'a mut O,
    counters: &'a mut Counters,
}

impl<P, O: Output<P>> Sink<P> for Tap<'_, O> {
    fn dropped(&mut self, at: Nanos, packet: &P, why: DropReason) {
        self.counters.drops += 1;
        self.out.dropped(at, packet, why);
    }

    fn marked(&mut self, at: Nanos, packet: &P) {
        self.counters.ce_marks += 1;
        self.out.marked(at, packet);
    }
}
