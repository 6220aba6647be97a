//! A drop-tail link without events: the departure is known when a packet arrives.

use std::collections::VecDeque;

use super::server::Server;
use super::wire::Wire;
use super::{Counters, LinkConfig};
use crate::Xoshiro256PlusPlus;
use crate::packet::{DropReason, Nanos, Output, Packet};
use crate::queue::configs::{BfifoConfig, PfifoConfig};
use crate::queue::{Limit, QueueConfig};

/// Length of [`Waiting::starts`] at first.
const FIRST_STARTS: u32 = 16;

pub(super) struct Fused {
    server: Server,
    wire: Wire,
    overhead: u32,
    /// No jitter, and nobody will ask for counters.
    steady: bool,
    waiting: Waiting,
    history: History,
}

impl Fused {
    pub(super) fn new(config: &LinkConfig, streams: &dyn Fn(&str) -> Xoshiro256PlusPlus) -> Self {
        let waiting = match config.queue {
            QueueConfig::Pfifo(PfifoConfig { limit_packets }) => Waiting::packets(limit_packets),
            QueueConfig::Bfifo(BfifoConfig { limit_bytes }) => Waiting::bytes(limit_bytes),
            _ => unreachable!("can_fuse"),
        };
        Fused {
            server: Server::new(config.rate_bps),
            wire: Wire::new(config.delay_ns, config.jitter.as_ref(), streams("jitter")),
            overhead: config.overhead,
            steady: false,
            waiting,
            history: History::default(),
        }
    }

    #[inline]
    pub(super) fn accept<P: Packet>(&mut self, at: Nanos, packet: P, out: &mut impl Output<P>) {
        match self.pass(at, packet.bytes()) {
            Some((arrival, waited)) => out.forward(arrival, packet, waited, self.sent()),
            None => out.dropped(at, &packet, DropReason::Overlimit),
        }
    }

    /// Time when the last packet's transmission ends.
    #[inline]
    pub(super) fn sent(&self) -> Nanos {
        self.server.free_at()
    }

    /// Returns when a packet of `bytes` reaches the far end and how long it waits. None if it is dropped.
    #[inline(always)]
    pub(super) fn pass(&mut self, at: Nanos, bytes: u32) -> Option<(Nanos, Nanos)> {
        let len = bytes + self.overhead;
        if self.steady
            && let Some(depart) = self.server.begin_idle(at, len)
        {
            return Some((self.wire.carry_steadily(depart), 0));
        }
        match self.pass_busy(at, len) {
            (Nanos::MAX, _) => None,
            passage => Some(passage),
        }
    }

    /// The rest of [`Fused::pass`], for `len` bytes with overhead. A dropped packet arrives at `Nanos::MAX`, so that what is returned
    /// fits into registers.
    #[inline(never)]
    fn pass_busy(&mut self, at: Nanos, len: u32) -> (Nanos, Nanos) {
        let mut start = at;
        let free_at = self.server.free_at();
        if free_at > at {
            if !self.waiting.admit(at, free_at, len) {
                self.count_drop(at);
                return (Nanos::MAX, 0);
            }
            start = free_at;
        }
        let depart = self.server.begin(start, len);
        if self.history.since != Nanos::MAX {
            self.history.record(Sent { arrived: at, start, depart, len });
        }
        let arrival =
            if self.wire.jitters() { self.wire.carry(depart) } else { self.wire.carry_steadily(depart) };
        (arrival, start - at)
    }

    #[cold]
    pub(super) fn count_drop(&mut self, at: Nanos) {
        self.history.record_drop(at);
    }

    pub(super) fn counters(&mut self, t: Nanos) -> Counters {
        debug_assert!(t >= self.history.since, "asked for {t}, promised not before {}", self.history.since);
        self.history.count_until(t);
        let mut counters = self.history.counted;
        counters.busy_ns -= self.history.last_depart.saturating_sub(t);
        counters
    }

    pub(super) fn next_query(&mut self, at: Nanos) {
        self.history.count_until(at);
        self.history.since = at;
        self.steady = at == Nanos::MAX && !self.wire.jitters();
    }
}

/// The packets that wait in a drop-tail queue, as far as its limit needs to know them.
struct Waiting {
    /// Start times of the last packets that had to wait, a ring with the oldest at `next`. It holds as many as the limit, so that a
    /// packet may join if the oldest has started. It grows to that size as needed; empty where bytes are limited.
    starts: Vec<Nanos>,
    next: usize,
    limit_packets: u32,
    bytes: Option<Box<WaitingBytes>>,
}

/// Packets that wait where bytes are limited.
struct WaitingBytes {
    limit: Limit,
    /// Packets whose service had not started when the last one joined: (start, bytes).
    packets: VecDeque<(Nanos, u32)>,
    sum: u64,
}

impl Waiting {
    fn packets(limit_packets: u32) -> Waiting {
        let starts = vec![0; limit_packets.min(FIRST_STARTS) as usize];
        Waiting { starts, next: 0, limit_packets, bytes: None }
    }

    fn bytes(limit_bytes: u64) -> Waiting {
        let bytes = WaitingBytes { limit: Limit::bytes(limit_bytes), packets: VecDeque::new(), sum: 0 };
        Waiting { starts: Vec::new(), next: 0, limit_packets: 0, bytes: Some(Box::new(bytes)) }
    }

    /// Whether a packet of `len` bytes that arrives at `at` may wait until `start`.
    #[inline(always)]
    fn admit(&mut self, at: Nanos, start: Nanos, len: u32) -> bool {
        match self.starts.get_mut(self.next) {
            Some(oldest) if *oldest <= at => {
                *oldest = start;
                self.next += 1;
                if self.next == self.starts.len() {
                    self.next = 0;
                }
                true
            }
            _ => self.admit_slow(at, start, len),
        }
    }

    #[cold]
    #[inline(never)]
    fn admit_slow(&mut self, at: Nanos, start: Nanos, len: u32) -> bool {
        if let Some(bytes) = &mut self.bytes {
            return bytes.admit(at, start, len);
        }
        let known = self.starts.len();
        let limit = self.limit_packets as usize;
        if known == limit {
            return false;
        }
        // More packets may wait than the ring holds: it grows.
        self.starts.rotate_left(self.next);
        self.starts.resize((2 * known).min(limit), 0);
        self.next = known;
        self.admit(at, start, len)
    }
}

impl WaitingBytes {
    fn admit(&mut self, at: Nanos, start: Nanos, len: u32) -> bool {
        while let Some(&(start, len)) = self.packets.front()
            && start <= at
        {
            self.packets.pop_front();
            self.sum -= u64::from(len);
        }
        if !self.limit.admits(self.packets.len() as u32, self.sum, len) {
            return false;
        }
        self.packets.push_back((start, len));
        self.sum += u64::from(len);
        true
    }
}

/// Record of what happened at times for which [`Fused::counters`] may still be asked.
#[derive(Default)]
struct History {
    /// Nobody asks for an earlier time.
    since: Nanos,
    /// Counters as of the last question or of `since`, whichever is later. The service time of a packet is counted as a whole when
    /// its transmission starts.
    counted: Counters,
    /// Departure of the last packet counted as started.
    last_depart: Nanos,
    /// Packets that start later, in order.
    sent: VecDeque<Sent>,
    /// Number of packets in `sent` that are counted as arrived.
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
            self.counted.drops += 1;
        } else {
            self.drops.push_back(at);
        }
    }

    /// Counts everything that happened at or before `t`.
    fn count_until(&mut self, t: Nanos) {
        let counters = &mut self.counted;
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
            self.counted.backlog_bytes -= u64::from(sent.len);
            self.counted.backlog_packets -= 1;
            self.count_start(sent);
        }
        while self.drops.front().is_some_and(|&at| at <= t) {
            self.drops.pop_front();
            self.counted.drops += 1;
        }
    }

    #[inline]
    fn count_start(&mut self, sent: Sent) {
        self.counted.packets += 1;
        self.counted.bytes += u64::from(sent.len);
        self.counted.busy_ns += sent.depart - sent.start;
        self.last_depart = sent.depart;
    }
}
