//! A drop-tail link without events: the departure is known when a packet arrives.

use std::collections::VecDeque;

use super::server::Server;
use super::wire::Wire;
use super::{Counters, LinkConfig};
use crate::packet::{DropReason, Nanos, Output, Packet};
use crate::queue::Limit;
use crate::{QueueConfig, Xoshiro256PlusPlus};

pub(super) struct Fused {
    server: Server,
    wire: Wire,
    overhead: u32,
    limit: Limit,
    /// Packets whose service had not started at the last arrival: (start, bytes).
    waiting: VecDeque<(Nanos, u32)>,
    waiting_bytes: u64,
    history: History,
    /// No jitter, and nobody asks.
    steady: bool,
    /// After this, [`Fused::pass_idle`] may do: the last departure where nothing is known to wait, else never.
    idle_from: Nanos,
}

impl Fused {
    pub(super) fn new(config: &LinkConfig, streams: &dyn Fn(&str) -> Xoshiro256PlusPlus) -> Self {
        let limit = match config.queue {
            QueueConfig::Pfifo { limit_packets } => Limit::packets(limit_packets),
            QueueConfig::Bfifo { limit_bytes } => Limit::bytes(limit_bytes),
            _ => unreachable!("can_fuse"),
        };
        Fused {
            server: Server::new(config.rate_bps),
            wire: Wire::new(config.delay_ns, config.jitter.as_ref(), streams("jitter")),
            overhead: config.overhead,
            limit,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            history: History::default(),
            steady: false,
            idle_from: Nanos::MAX,
        }
    }

    #[inline]
    pub(super) fn accept<P: Packet>(&mut self, at: Nanos, mut packet: P, out: &mut impl Output<P>) {
        match self.pass(at, packet.bytes()) {
            Some((arrival, waited)) => {
                packet.add_queue_delay(waited);
                out.forward(arrival, packet);
            }
            None => out.dropped(at, &packet, DropReason::Overlimit),
        }
    }

    /// [`Fused::pass`] where there is nothing to it: an idle link that nobody asks, and a size just seen. None: not so.
    #[inline(always)]
    pub(super) fn pass_idle(&mut self, at: Nanos, bytes: u32) -> Option<Nanos> {
        if at <= self.idle_from {
            return None;
        }
        let depart = self.server.begin_idle(at, bytes + self.overhead)?;
        self.idle_from = depart;
        Some(self.wire.carry_steadily(depart))
    }

    /// [`Fused::pass`] as a call whose answer fits into registers: a dropped packet arrives at `Nanos::MAX`.
    #[inline(never)]
    pub(super) fn pass_busy(&mut self, at: Nanos, bytes: u32) -> (Nanos, Nanos) {
        self.pass(at, bytes).unwrap_or((Nanos::MAX, 0))
    }

    /// When a packet of `bytes` reaches the far end and how long it waits; None if it is dropped.
    #[inline(always)]
    pub(super) fn pass(&mut self, at: Nanos, bytes: u32) -> Option<(Nanos, Nanos)> {
        let len = bytes + self.overhead;
        let free_at = self.server.free_at();
        let start = if free_at <= at {
            if self.waiting_bytes > 0 {
                self.waiting.clear();
                self.waiting_bytes = 0;
            }
            at
        } else {
            while let Some(&(start, bytes)) = self.waiting.front()
                && start <= at
            {
                self.waiting.pop_front();
                self.waiting_bytes -= u64::from(bytes);
            }
            if !self.limit.admits(self.waiting.len() as u32, self.waiting_bytes, len) {
                self.count_drop(at);
                return None;
            }
            self.waiting.push_back((free_at, len));
            self.waiting_bytes += u64::from(len);
            free_at
        };
        let depart = self.server.begin(start, len);
        self.note_idleness();
        if self.history.since != Nanos::MAX {
            self.history.record(Sent { arrived: at, start, depart, len });
        }
        let arrival =
            if self.wire.jitters() { self.wire.carry(depart) } else { self.wire.carry_steadily(depart) };
        Some((arrival, start - at))
    }

    #[inline(always)]
    fn note_idleness(&mut self) {
        let idles = self.steady && self.waiting_bytes == 0;
        self.idle_from = if idles { self.server.free_at() } else { Nanos::MAX };
    }

    #[cold]
    pub(super) fn count_drop(&mut self, at: Nanos) {
        self.history.record_drop(at);
    }

    pub(super) fn counters(&mut self, t: Nanos) -> Counters {
        debug_assert!(t >= self.history.since, "asked for {t}, promised not before {}", self.history.since);
        self.history.settle(t);
        let mut counters = self.history.settled;
        counters.busy_ns -= self.history.last_depart.saturating_sub(t);
        counters
    }

    pub(super) fn next_query(&mut self, at: Nanos) {
        self.history.settle(at);
        self.history.since = at;
        self.steady = at == Nanos::MAX && !self.wire.jitters();
        self.note_idleness();
    }
}

/// What happened, as far as somebody may ask for a time at which it had not.
#[derive(Default)]
struct History {
    /// No question concerns an earlier time.
    since: Nanos,
    /// Counters as of the last question or of `since`, whichever is later, and with the whole service time of every
    /// packet that had started.
    settled: Counters,
    /// Departure of the last packet counted as started.
    last_depart: Nanos,
    /// Packets that start later, in order.
    sent: VecDeque<Sent>,
    /// How many of `sent` are counted as arrived.
    arrived: usize,
    /// Times of later drops, in order.
    drops: VecDeque<Nanos>,
}

#[derive(Clone, Copy)]
struct Sent {
    arrived: Nanos,
    start: Nanos,
    depart: Nanos,
    len: u32,
}

impl History {
    #[inline]
    fn record(&mut self, sent: Sent) {
        if sent.start <= self.since {
            self.count_start(sent);
        } else {
            self.sent.push_back(sent);
        }
    }

    fn record_drop(&mut self, at: Nanos) {
        if at <= self.since {
            self.settled.drops += 1;
        } else {
            self.drops.push_back(at);
        }
    }

    /// Counts everything that happened at or before `t`.
    fn settle(&mut self, t: Nanos) {
        let counters = &mut self.settled;
        while let Some(sent) = self.sent.get(self.arrived)
            && sent.arrived <= t
        {
            counters.backlog_bytes += u64::from(sent.len);
            counters.backlog_packets += 1;
            self.arrived += 1;
        }
        while let Some(&sent) = self.sent.front()
            && sent.start <= t
        {
            self.sent.pop_front();
            self.arrived -= 1;
            self.settled.backlog_bytes -= u64::from(sent.len);
            self.settled.backlog_packets -= 1;
            self.count_start(sent);
        }
        while self.drops.front().is_some_and(|&at| at <= t) {
            self.drops.pop_front();
            self.settled.drops += 1;
        }
    }

    #[inline]
    fn count_start(&mut self, sent: Sent) {
        self.settled.packets += 1;
        self.settled.bytes += u64::from(sent.len);
        self.settled.busy_ns += sent.depart - sent.start;
        self.last_depart = sent.depart;
    }
}
