//! Links that may start their transmissions late: packets enter them many at a time, one event serves them all.

use contract::ids::LinkId;
use path::{Link, Nanos};

use super::output::LinkOutput;
use super::{LinkMeta, LinkMode, Network, PacketRef};
use crate::event_queue::{EventQueue, NEVER, Source};

/// Largest number of packets that enter a link together. One after the other, the processor has the link's code and
/// memory at hand.
const MAX_BATCH: usize = 64;
/// Start slack below which packets enter at once: batches would be due as often as packets come.
const MIN_SLACK_TO_WAIT: Nanos = 1_000_000;

/// Packets that wait to enter batched links.
pub(super) struct Batches {
    /// Packets for each link, in order of time.
    waiting: Vec<Vec<(Nanos, PacketRef)>>,
    /// The batched links, and how late each may start a transmission.
    links: Vec<(LinkId, Nanos)>,
    /// Time when [`Network::catch_up`] is due: before a packet of a batched link could reach the far end.
    due: Nanos,
    /// Links are being brought up to the present: packets enter at once.
    catching_up: bool,
}

impl Batches {
    /// None yet, for these links.
    pub(super) fn new(meta: &[LinkMeta]) -> Batches {
        let slack = |(link, meta): (LinkId, &LinkMeta)| match meta.mode {
            LinkMode::Batched { start_slack } => Some((link, start_slack)),
            _ => None,
        };
        let links: Vec<(LinkId, Nanos)> = (0..).map(LinkId).zip(meta).filter_map(slack).collect();
        let mut waiting = vec![Vec::new(); meta.len()];
        for (link, _) in &links {
            waiting[link.index()].reserve(MAX_BATCH);
        }
        Batches { waiting, links, due: NEVER, catching_up: false }
    }

    /// The event is due at `at` at the latest.
    #[inline(always)]
    fn due_by(&mut self, at: Nanos, events: &mut EventQueue) {
        if at < self.due {
            self.due = at;
            events.set_occasional(Source::CatchUp, at);
        }
    }
}

impl Network {
    /// A packet is to enter a batched link at `at`.
    #[inline(always)]
    pub(super) fn enter_batched(
        &mut self,
        link: LinkId,
        start_slack: Nanos,
        at: Nanos,
        packet: PacketRef,
        events: &mut EventQueue,
    ) {
        let batch = &mut self.batches.waiting[link.index()];
        batch.push((at, packet));
        if batch.len() == MAX_BATCH || start_slack < MIN_SLACK_TO_WAIT || self.batches.catching_up {
            self.flush_batch(link, start_slack, events);
        } else {
            self.batches.due_by(at + start_slack, events);
        }
    }

    /// The packets that wait for a batched link enter it.
    #[inline(never)]
    fn flush_batch(&mut self, link: LinkId, start_slack: Nanos, events: &mut EventQueue) {
        let mut batch = std::mem::take(&mut self.batches.waiting[link.index()]);
        let enter = |hop: &mut Link<PacketRef>, output: &mut LinkOutput<'_>| {
            for (at, packet) in batch.drain(..) {
                hop.arrive(at, packet, output);
            }
        };
        self.with_batched(link, start_slack, enter, events);
        self.batches.waiting[link.index()] = batch;
    }

    /// Batched links take in the packets that wait for them and start every transmission that is due at or before `now`.
    pub(crate) fn catch_up(&mut self, now: Nanos, events: &mut EventQueue) {
        self.batches.catching_up = true;
        for index in 0..self.batches.links.len() {
            let (link, start_slack) = self.batches.links[index];
            if !self.batches.waiting[link.index()].is_empty() {
                self.flush_batch(link, start_slack, events);
            }
            self.with_batched(link, start_slack, |hop, output| hop.on_event(now, output), events);
        }
        self.batches.catching_up = false;
        let due = self.batches.links.iter().map(|&(link, start_slack)| self.service_due(link, start_slack));
        self.batches.due = due.min().unwrap_or(NEVER);
        events.set_occasional(Source::CatchUp, self.batches.due);
    }

    /// Time when a batched link is to be served at the latest: before a packet that it starts to send can get to
    /// the far end.
    #[inline(always)]
    fn service_due(&self, link: LinkId, start_slack: Nanos) -> Nanos {
        self.links[link.index()].next_event().map_or(NEVER, |next| next + start_slack)
    }

    /// [`Network::with_hop`] for a batched link.
    #[inline]
    fn with_batched(
        &mut self,
        link: LinkId,
        start_slack: Nanos,
        work: impl FnOnce(&mut Link<PacketRef>, &mut LinkOutput<'_>),
        events: &mut EventQueue,
    ) {
        let first = self.emitted.len();
        let mut output = LinkOutput {
            link,
            pool: &mut self.pool,
            emitted: &mut self.emitted,
            reports: &mut self.reports,
            pauses: &mut Vec::new(),
            ring: None,
        };
        work(&mut self.links[link.index()], &mut output);
        // The event may come early and in vain, which is rarer than a change of the link's time.
        let due = self.service_due(link, start_slack);
        self.batches.due_by(due, events);
        self.forward_emitted(link, first, events);
    }
}
