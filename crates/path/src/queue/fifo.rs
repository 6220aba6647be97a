//! pfifo and bfifo: first in, first out, with a limit in packets or in bytes (Linux net/sched/sch_fifo.c).

use params::Param;

use super::{ByteQueue, LinkContext, Place, Qdisc, Sink, Source, Store};
use crate::packet::{DropReason, Nanos};

params::parameters! {
    /// First in, first out; an arrival that finds so many packets waiting is dropped.
    pub struct PfifoConfig: "pfifo" {
        /// Packets waiting; one more is in service.
        limit_packets: u32 = Param::limit_packets().default(1000),
    }
}

params::parameters! {
    /// First in, first out; an arrival that would make more bytes wait is dropped.
    pub struct BfifoConfig: "bfifo" {
        /// Bytes waiting, with the link's overhead per packet.
        limit_bytes: u64 = Param::limit_bytes().otherwise("1000 packets of MTU + 14 bytes"),
    }
}

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
    pub(super) fn of_packets(config: &PfifoConfig, _link: LinkContext) -> Self {
        Fifo { limit: Limit::packets(config.limit_packets), queue: ByteQueue::default() }
    }

    pub(super) fn of_bytes(config: &BfifoConfig, _link: LinkContext) -> Self {
        Fifo { limit: Limit::bytes(config.limit_bytes), queue: ByteQueue::default() }
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
