//! A link with a queue discipline, where every waiting packet costs an event.

use std::collections::VecDeque;

use super::server::Server;
use super::shaper::{Buckets, Slots, Trace};
use super::wire::Wire;
use super::{Counters, LinkChange, LinkConfig};
use crate::packet::{DropReason, Nanos, Output, Packet};
use crate::queue::{self, LinkContext, Qdisc, Queued, Sink, Store};
use crate::{ShaperConfig, Xoshiro256PlusPlus};

pub(super) struct Stepped<P> {
    queue: Box<dyn Qdisc<P>>,
    /// The packets in the discipline.
    store: Store<P>,
    server: Server,
    shaper: Shaper<P>,
    wire: Wire,
    overhead: u32,
    mtu: u32,
    report_changes: bool,
    delay_first: bool,
    /// How long a transmission that is due waits for packets that come at the same instant.
    patience: Nanos,
    /// Whether nothing but the discipline and the rate decides when a packet leaves, and nobody follows changes:
    /// the short paths apply.
    bare: bool,
    /// The discipline has a rate of its own.
    queue_shapes: bool,
    /// Packets in the discipline.
    waiting: u32,
    /// No packet that comes is sent before it.
    due: Nanos,
    /// No transmission starts.
    paused: bool,
    /// The last time at which a packet found the queue empty or a pause ended: no transmission starts before it.
    waiting_since: Nanos,
    /// Without backlogs, which are read from the queue.
    counters: Counters,
    /// Time when the next transmission is due. [`Nanos::MAX`]: none is.
    next: Nanos,
    /// Times after `query` at which something happened, each with the state just before it. On an early link only.
    history: VecDeque<(Nanos, State)>,
    /// Nobody will ask for the counters of an earlier time.
    query: Nanos,
}

/// State that [`Stepped::counters`] needs. The service time of a packet is counted as a whole when its transmission
/// starts.
#[derive(Clone, Copy)]
struct State {
    counters: Counters,
    free_at: Nanos,
}

enum Shaper<P> {
    None,
    /// Token buckets, with the packet that waits for tokens and the time at which they will be there, where the
    /// discipline could not tell the size of its next packet without dequeuing it.
    Buckets(Buckets, Option<(Nanos, Queued<P>)>),
    Policer(Buckets),
    Slots(Slots),
    Trace(Trace),
}

impl<P> Shaper<P> {
    fn new(config: &ShaperConfig) -> Self {
        match *config {
            ShaperConfig::TokenBucket { rate_bps, burst_bytes, peak } => {
                let buckets = Buckets::new(rate_bps, burst_bytes);
                let buckets = match peak {
                    Some(peak) => buckets.and(peak.rate_bps, peak.burst_bytes),
                    None => buckets,
                };
                Shaper::Buckets(buckets, None)
            }
            ShaperConfig::Htb { rate_bps, ceil_bps, burst_bytes, cburst_bytes } => {
                let buckets = Buckets::new(rate_bps, burst_bytes).and(ceil_bps, cburst_bytes);
                Shaper::Buckets(buckets.overdrawn(), None)
            }
            ShaperConfig::Policer { rate_bps, burst_bytes } => {
                Shaper::Policer(Buckets::new(rate_bps, burst_bytes))
            }
            ShaperConfig::Slots { interval_ns, packets, bytes } => {
                Shaper::Slots(Slots::new(interval_ns, packets, bytes))
            }
            ShaperConfig::Trace { ref opportunities_ns, period_ns, bytes } => {
                Shaper::Trace(Trace::new(opportunities_ns, period_ns, bytes))
            }
        }
    }
}

impl<P: Packet + 'static> Stepped<P> {
    pub(super) fn new(
        config: &LinkConfig,
        streams: &dyn Fn(&str) -> Xoshiro256PlusPlus,
        early: bool,
    ) -> Self {
        let mtu = config.mtu + config.overhead;
        let link = LinkContext { rate_bps: config.rate_bps, mtu, random: streams("aqm") };
        config.shaper.iter().for_each(|shaper| shaper.check().unwrap_or_else(|why| panic!("{why}")));
        let shaper = config.shaper.as_ref().map_or(Shaper::None, Shaper::new);
        let queue = queue::build(&config.queue, link);
        Stepped {
            bare: matches!(shaper, Shaper::None)
                && !config.report_changes
                && config.jitter.is_none()
                && !config.delay_first,
            queue_shapes: queue.shapes(),
            waiting: 0,
            due: 0,
            queue,
            store: Store::default(),
            server: Server::new(config.rate_bps),
            shaper,
            wire: Wire::new(config.delay_ns, config.jitter.as_ref(), streams("jitter")),
            overhead: config.overhead,
            mtu,
            report_changes: config.report_changes,
            delay_first: config.delay_first,
            patience: patience(config.delay_first, config.delay_ns),
            paused: false,
            waiting_since: 0,
            counters: Counters::default(),
            next: Nanos::MAX,
            history: VecDeque::new(),
            query: if early { 0 } else { Nanos::MAX },
        }
    }

    #[inline(always)]
    pub(super) fn accept(&mut self, at: Nanos, packet: P, out: &mut impl Output<P>) {
        self.advance(at, out);
        self.remember(at);
        if !self.bare {
            self.accept_slow(at, packet, out);
            return;
        }
        let item = Queued { len: packet.bytes() + self.overhead, packet, arrived: at.max(self.due) };
        if self.waiting == 0 {
            self.waiting_since = at;
            if self.server.free_at() <= at && !self.paused && self.queue.pass(at, &item) {
                self.transmit(at, item, out);
                return;
            }
        }
        self.enqueue(at, item, out);
        self.next = self.due();
        self.advance(at, out);
    }

    /// Sets the time before which nothing leaves of what comes from now on.
    pub(super) fn set_due(&mut self, due: Nanos) {
        self.due = due;
    }

    /// [`Stepped::accept`] on a link that is not `bare`.
    #[inline(never)]
    fn accept_slow(&mut self, at: Nanos, packet: P, out: &mut impl Output<P>) {
        let len = packet.bytes() + self.overhead;
        let refused = match &mut self.shaper {
            Shaper::None | Shaper::Slots(_) | Shaper::Trace(_) => None,
            Shaper::Buckets(bucket, _) => (!bucket.fits(len)).then_some(DropReason::Overlimit),
            Shaper::Policer(bucket) => (!bucket.take(at, len)).then_some(DropReason::Policer),
        };
        if let Some(why) = refused {
            self.count_drop(at);
            out.dropped(at, &packet, why);
            return;
        }
        let item = Queued { packet, arrived: at.max(self.due), len };
        if self.waiting == 0 {
            self.waiting_since = at;
            let shaped = matches!(self.shaper, Shaper::Buckets(..) | Shaper::Slots(_) | Shaper::Trace(_));
            let free = !shaped && self.patience == 0 && !self.paused && self.server.free_at() <= at;
            if free && self.queue.can_bypass() {
                self.transmit(at, item, out);
                return;
            }
        }
        self.enqueue(at, item, out);
        self.report(at, out);
        self.next = self.due();
        self.advance(at, out);
    }

    /// Starts every transmission that is due at or before `now`.
    #[inline]
    pub(super) fn advance(&mut self, now: Nanos, out: &mut impl Output<P>) {
        while self.next <= now {
            self.start(self.next, out);
            self.next = self.due();
        }
    }

    /// Starts the transmission that is due at `start`, if the discipline and the shaper have a packet for it.
    #[inline]
    fn start(&mut self, start: Nanos, out: &mut impl Output<P>) {
        if !self.bare {
            self.start_slow(start, out);
            return;
        }
        self.remember(start);
        if let Some(item) = self.take(start, out) {
            self.transmit(start, item, out);
        }
    }

    #[inline(never)]
    fn start_slow(&mut self, at: Nanos, out: &mut impl Output<P>) {
        self.remember(at);
        let start = at - self.patience;
        let item = match &mut self.shaper {
            Shaper::Buckets(_, held) if held.is_some() => held.take().map(|(_, item)| item),
            Shaper::Trace(trace) => {
                let opportunity = trace.ready(start);
                if opportunity > start {
                    self.server.occupy(opportunity);
                    return;
                }
                self.take(start, out)
            }
            Shaper::Slots(slots) => {
                slots.open(start, self.waiting);
                self.take(start, out)
            }
            _ => self.take(start, out),
        };
        if let Shaper::Slots(slots) = &mut self.shaper {
            item.iter().for_each(|item| slots.take(item.len));
            if self.waiting == 0 {
                slots.close();
            }
        }
        let Some(item) = item else { return };
        if let Shaper::Buckets(bucket, held) = &mut self.shaper
            && !bucket.take(start, item.len)
        {
            *held = Some((bucket.ready(start, item.len), item));
            return;
        }
        self.report(start, out);
        self.transmit(start, item, out);
    }

    pub(super) fn next_event(&self) -> Option<Nanos> {
        (self.next < Nanos::MAX).then_some(self.next)
    }

    /// Time when the next transmission is due. [`Nanos::MAX`]: none is.
    #[inline]
    fn due(&self) -> Nanos {
        if self.paused {
            return Nanos::MAX;
        }
        if !self.bare {
            return self.due_slow().saturating_add(self.patience);
        }
        if self.waiting == 0 { Nanos::MAX } else { self.due_in_queue() }
    }

    /// Time when the discipline, which has packets, may be asked for one.
    #[inline]
    fn due_in_queue(&self) -> Nanos {
        let free = self.server.free_at().max(self.waiting_since);
        if self.queue_shapes { free.max(self.queue.ready_at()) } else { free }
    }

    fn due_slow(&self) -> Nanos {
        if let Shaper::Buckets(_, Some((ready, _))) = &self.shaper {
            return self.waiting_since.max(*ready);
        }
        if self.waiting == 0 {
            return Nanos::MAX;
        }
        let free = self.due_in_queue();
        match &self.shaper {
            Shaper::Buckets(buckets, _) => {
                let len = if buckets.weighs() { self.queue.head_len(&self.store) } else { Some(0) };
                len.map_or(free, |len| buckets.ready(free, len))
            }
            Shaper::Slots(slots) => slots.ready(free),
            _ => free,
        }
    }

    /// Keeps the state, if somebody may ask for it: call it before something happens at `at`.
    #[inline]
    fn remember(&mut self, at: Nanos) {
        if at > self.query && self.history.back().is_none_or(|&(last, _)| last < at) {
            self.history.push_back((at, self.state()));
        }
    }

    pub(super) fn next_query(&mut self, at: Nanos) {
        if self.query < Nanos::MAX {
            self.query = at;
            while self.history.front().is_some_and(|&(happened, _)| happened <= at) {
                self.history.pop_front();
            }
        }
    }

    fn state(&self) -> State {
        let (backlog_bytes, backlog_packets) = self.backlog();
        let counters = Counters { backlog_bytes, backlog_packets, ..self.counters };
        State { counters, free_at: self.server.free_at() }
    }

    /// Counts a packet that never gets to the queue.
    pub(super) fn count_drop(&mut self, at: Nanos) {
        self.remember(at);
        self.counters.drops += 1;
    }

    pub(super) fn counters(&self, t: Nanos) -> Counters {
        let later = self.history.iter().find(|&&(at, _)| at > t);
        let State { counters, free_at } = later.map_or_else(|| self.state(), |&(_, state)| state);
        // With a trace, `free_at` is the time of an opportunity: no packet is in service until then.
        let ahead = if matches!(self.shaper, Shaper::Trace(_)) { 0 } else { free_at.saturating_sub(t) };
        // Of a link that was not asked to remember, transmissions after `t` may be counted, but none is ahead of it.
        Counters { busy_ns: counters.busy_ns.saturating_sub(ahead), ..counters }
    }

    pub(super) fn pause(&mut self, now: Nanos, paused: bool) {
        self.paused = paused;
        if let (true, Shaper::Slots(slots)) = (paused, &mut self.shaper) {
            slots.close();
        }
        self.waiting_since = self.waiting_since.max(now);
        self.next = self.due();
    }

    pub(super) fn change(
        &mut self,
        now: Nanos,
        change: &LinkChange,
        streams: &dyn Fn(&str) -> Xoshiro256PlusPlus,
        out: &mut impl Output<P>,
    ) {
        if let Some(rate_bps) = change.rate_bps {
            self.server.set_rate(rate_bps);
        }
        if let Some(delay) = change.delay_ns {
            self.wire.delay = delay;
            self.patience = patience(self.delay_first, delay);
        }
        if let Some(config) = &change.queue {
            let link =
                LinkContext { rate_bps: self.server.rate_bps(), mtu: self.mtu, random: streams("aqm") };
            let mut old = std::mem::replace(&mut self.queue, queue::build(config, link));
            let sink = &mut CountingSink { out: &mut *out, counters: &mut self.counters };
            while let Some(place) = old.dequeue(now, &mut self.store, sink) {
                self.queue.enqueue(now, place, &mut self.store, sink);
            }
            self.queue_shapes = self.queue.shapes();
            self.waiting = self.queue.backlog_packets();
            // Packets that the old queue held back leave now, not when they came.
            self.waiting_since = self.waiting_since.max(now);
            self.report(now, out);
        }
        self.next = self.due();
    }

    #[inline(always)]
    fn enqueue(&mut self, now: Nanos, item: Queued<P>, out: &mut impl Output<P>) {
        let place = self.store.put(item);
        self.queue.enqueue(
            now,
            place,
            &mut self.store,
            &mut CountingSink { out, counters: &mut self.counters },
        );
        self.waiting = self.queue.backlog_packets();
    }

    #[inline(always)]
    fn take(&mut self, now: Nanos, out: &mut impl Output<P>) -> Option<Queued<P>> {
        let sink = &mut CountingSink { out, counters: &mut self.counters };
        let place = self.queue.dequeue(now, &mut self.store, sink);
        self.waiting = self.queue.backlog_packets();
        place.map(|place| self.store.take(place))
    }

    #[inline(always)]
    fn transmit(&mut self, start: Nanos, item: Queued<P>, out: &mut impl Output<P>) {
        let depart = match &mut self.shaper {
            Shaper::Trace(trace) => {
                let depart = trace.take(start, item.len);
                self.server.occupy(depart);
                depart
            }
            _ => self.server.begin(start, item.len),
        };
        self.counters.packets += 1;
        self.counters.bytes += u64::from(item.len);
        self.counters.busy_ns += depart - start;
        out.forward(self.wire.carry(depart), item.packet, start - item.arrived, depart);
    }

    /// Bytes and packets that wait.
    fn backlog(&self) -> (u64, u32) {
        let (bytes, packets) = (self.queue.backlog_bytes(), self.waiting);
        match &self.shaper {
            Shaper::Buckets(_, Some((_, held))) => (bytes + u64::from(held.len), packets + 1),
            _ => (bytes, packets),
        }
    }

    fn report(&self, at: Nanos, out: &mut impl Output<P>) {
        if self.report_changes {
            let (bytes, packets) = self.backlog();
            out.queue_changed(at, bytes, packets);
        }
    }
}

/// How long a transmission that is due waits for packets of its instant. It starts late and counts from when it was due, so that the
/// delay has to be longer.
fn patience(delay_first: bool, delay: Nanos) -> Nanos {
    Nanos::from(delay_first && delay > 1)
}

/// Counts what a queue discipline reports, and passes it on to the driver.
struct CountingSink<'a, O> {
    out: &'a mut O,
    counters: &'a mut Counters,
}

impl<P, O: Output<P>> Sink<P> for CountingSink<'_, O> {
    fn dropped(&mut self, at: Nanos, packet: &P, why: DropReason) {
        self.counters.drops += 1;
        self.out.dropped(at, packet, why);
    }

    fn marked(&mut self, at: Nanos, packet: &P) {
        self.counters.ce_marks += 1;
        self.out.marked(at, packet);
    }
}
