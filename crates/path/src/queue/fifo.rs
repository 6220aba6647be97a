//! pfifo and bfifo: first in, first out, with a limit in packets or in bytes (Linux net/sched/sch_fifo.c).

use super::{ByteQueue, Param, Place, Qdisc, QueueKind, Sink, Source, Store};
use crate::packet::{DropReason, Nanos};

pub(super) const PFIFO: QueueKind =
    QueueKind { kind: "pfifo", params: &[Param::new("limit", "packets", Some(1000))] };

/// Linux takes the transmit queue length times the MTU: 1000 x 1514 bytes on Ethernet.
pub(super) const BFIFO: QueueKind =
    QueueKind { kind: "bfifo", params: &[Param::new("limit", "bytes", Some(1_514_000))] };

/// The limit of a drop-tail queue: what may wait besides the packet in service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    packets: u32,
    bytes: u64,
}

impl Limit {
    pub(crate) fn packets(packets: u32) -> Self {
        Limit { packets, bytes: u64::MAX }
    }

    pub(crate) fn bytes(bytes: u64) -> Self {
        Limit { packets: u32::MAX, bytes }
    }

    /// Whether a packet of `len` bytes may join so much waiting.
    #[inline]
    pub(crate) fn admits(self, waiting_packets: u32, waiting_bytes: u64, len: u32) -> bool {
        waiting_packets < self.packets && waiting_bytes + u64::from(len) <= self.bytes
    }
}

pub(super) struct Fifo {
    limit: Limit,
    queue: ByteQueue,
}

impl Fifo {
    pub(super) fn new(limit: Limit) -> Self {
        Fifo { limit, queue: ByteQueue::default() }
    }
}

impl<P: Send> Qdisc<P> for Fifo {
    fn enqueue(&mut self, now: Nanos, place: Place, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        if self.limit.admits(self.queue.packets, self.queue.bytes, store[place].len) {
            self.queue.push(place, store);
        } else {
            store.discard(now, place, DropReason::Overlimit, sink);
        }
    }

    fn dequeue(&mut self, _now: Nanos, store: &mut Store<P>, _sink: &mut dyn Sink<P>) -> Option<Place> {
        self.queue.pop(store)
    }

    fn can_bypass(&self) -> bool {
        true
    }

    fn head_len(&self, store: &Store<P>) -> Option<u32> {
        self.queue.first(store).map(|item| item.len)
    }

    fn backlog_bytes(&self) -> u64 {
        self.queue.bytes
    }

    fn backlog_packets(&self) -> u32 {
        self.queue.packets
    }
}
