//! Queue disciplines: the trait, the registry, and one file per discipline.

use crate::Xoshiro256PlusPlus;
use crate::packet::{DropReason, Ecn, Nanos, Packet};

mod cake;
mod codel;
mod config;
mod drr;
mod dualpi2;
mod fifo;
mod fq_codel;
mod fq_pie;
mod pie;
mod red;
mod store;

pub use cake::{CakeConfig, FlowMode};
pub use config::QueueConfig;
pub use dualpi2::Dualpi2Config;
pub(crate) use fifo::Limit;
pub use fq_codel::FqCodelConfig;
pub use fq_pie::FqPieConfig;
pub use pie::PieConfig;
pub use red::RedConfig;
use store::Chain;
pub use store::{Place, Store};

/// A queue discipline. Time never goes back from one call to the next. The store holds all packets that wait; a discipline is
/// always called with the same one.
pub trait Qdisc<P>: Send {
    /// Takes in a packet of `store`, or drops it, or drops others to make room.
    fn enqueue(&mut self, now: Nanos, place: Place, store: &mut Store<P>, sink: &mut dyn Sink<P>);
    /// The packet whose transmission starts now; None only if the queue is empty, or emptied by drops.
    fn dequeue(&mut self, now: Nanos, store: &mut Store<P>, sink: &mut dyn Sink<P>) -> Option<Place>;
    /// Bytes waiting, with the link's overhead.
    fn backlog_bytes(&self) -> u64;
    /// Packets waiting.
    fn backlog_packets(&self) -> u32;
    /// Whether a packet that finds the queue empty and the link idle goes straight to the link, whatever the limit.
    fn can_bypass(&self) -> bool {
        false
    }
    /// Does what [`Qdisc::enqueue`] and then [`Qdisc::dequeue`] would do, for a packet that finds the queue empty and the link idle.
    /// Returns false, and does nothing, if the packet has to go through both.
    fn pass(&mut self, _now: Nanos, _item: &Queued<P>) -> bool {
        self.can_bypass()
    }
    /// Bytes of the packet that `dequeue` would give; None if the discipline cannot tell before it dequeues.
    fn head_len(&self, _store: &Store<P>) -> Option<u32> {
        None
    }
    /// Whether it has a rate of its own, so that [`Qdisc::ready_at`] matters.
    fn shapes(&self) -> bool {
        false
    }
    /// Earliest time at which `dequeue` may be called; only asked of a discipline that shapes.
    fn ready_at(&self) -> Nanos {
        0
    }
}

/// A packet in a queue.
#[derive(Clone, Debug)]
pub struct Queued<P> {
    /// The packet.
    pub packet: P,
    /// When it arrived at the queue.
    pub arrived: Nanos,
    /// Its bytes with the link's overhead: what rates and byte limits count.
    pub len: u32,
}

/// Where a queue discipline reports what it did to a packet.
pub trait Sink<P> {
    /// The packet was dropped.
    fn dropped(&mut self, at: Nanos, packet: &P, why: DropReason);
    /// The packet was marked CE.
    fn marked(&mut self, at: Nanos, packet: &P);
}

/// What a discipline is told of its link.
pub struct LinkContext {
    /// The link's rate, bits per second.
    pub rate_bps: Option<u64>,
    /// Largest packet with the link's overhead, bytes.
    pub mtu: u32,
    /// The discipline's random stream.
    pub random: Xoshiro256PlusPlus,
}

/// Marks a packet CE if it is ECN-capable (RFC 3168 section 5); false: it is not. A packet that was marked before counts as marked
/// again, as in Linux.
fn mark<P: Packet>(now: Nanos, packet: &mut P, sink: &mut dyn Sink<P>) -> bool {
    if packet.ecn() == Ecn::NotEct {
        return false;
    }
    packet.set_ce();
    sink.marked(now, packet);
    true
}

/// A queue that an AQM takes packets from.
trait Source<P> {
    /// Takes the oldest packet.
    fn pop(&mut self, store: &mut Store<P>) -> Option<Place>;
    /// Bytes that wait.
    fn backlog(&self) -> u64;
}

/// A first-in, first-out queue that counts its packets and bytes.
struct ByteQueue {
    items: Chain,
    packets: u32,
    bytes: u64,
}

impl Default for ByteQueue {
    fn default() -> Self {
        ByteQueue { items: Chain::EMPTY, packets: 0, bytes: 0 }
    }
}

impl ByteQueue {
    #[inline]
    fn push<P>(&mut self, place: Place, store: &mut Store<P>) {
        self.bytes += u64::from(store[place].len);
        self.packets += 1;
        store.push(&mut self.items, place);
    }

    /// The oldest packet.
    fn first<'a, P>(&self, store: &'a Store<P>) -> Option<&'a Queued<P>> {
        self.items.first().map(|place| &store[place])
    }
}

impl<P> Source<P> for ByteQueue {
    #[inline]
    fn pop(&mut self, store: &mut Store<P>) -> Option<Place> {
        let place = store.pop(&mut self.items)?;
        self.bytes -= u64::from(store[place].len);
        self.packets -= 1;
        Some(place)
    }

    #[inline]
    fn backlog(&self) -> u64 {
        self.bytes
    }
}

/// A discipline of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueKind {
    /// Its name in [`QueueConfig`] and in `tc`.
    pub kind: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
}

/// A parameter of a discipline. Its field in the configuration is `NAME_UNIT`; for a count, a bool or a choice, `NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name in `tc`.
    pub name: &'static str,
    /// `packets`, `bytes`, `ns`, `bps`, `ppb`, `count`, `bool` (0 or 1), or `choice` (a place in `choices`).
    pub unit: &'static str,
    /// Its default in Linux, in that unit; None: it must be given, or it follows from others.
    pub default: Option<u64>,
    /// The words of a `choice`.
    pub choices: &'static [&'static str],
}

impl Param {
    const fn new(name: &'static str, unit: &'static str, default: Option<u64>) -> Self {
        Param { name, unit, default, choices: &[] }
    }

    const fn choice(name: &'static str, choices: &'static [&'static str], default: u64) -> Self {
        Param { name, unit: "choice", default: Some(default), choices }
    }
}

/// Every queue discipline that a link can have; [`QueueConfig::Netem`], which stands for a link, is not among them.
pub fn catalogue() -> Vec<QueueKind> {
    vec![
        fifo::PFIFO,
        fifo::BFIFO,
        red::RED,
        codel::CODEL,
        fq_codel::FQ_CODEL,
        pie::PIE,
        fq_pie::FQ_PIE,
        cake::CAKE,
        dualpi2::DUALPI2,
    ]
}

/// Makes the discipline of a configuration.
///
/// # Panics
/// If [`QueueConfig::check`] refuses it, or it is netem, which is no discipline on a link.
pub(crate) fn build<P: Packet + 'static>(config: &QueueConfig, link: LinkContext) -> Box<dyn Qdisc<P>> {
    config.check().unwrap_or_else(|why| panic!("{why}"));
    match *config {
        QueueConfig::Pfifo { limit_packets } => {
            Box::new(fifo::Fifo::new(fifo::Limit::packets(limit_packets)))
        }
        QueueConfig::Bfifo { limit_bytes } => Box::new(fifo::Fifo::new(fifo::Limit::bytes(limit_bytes))),
        QueueConfig::Netem { .. } => panic!("netem is not a discipline on a link, but replaces the link"),
        QueueConfig::Codel { limit_packets, target_ns, interval_ns, ecn, ce_threshold_ns } => {
            let params = codel::Params {
                target: target_ns,
                interval: interval_ns,
                ecn,
                ce_threshold: ce_threshold_ns.unwrap_or(Nanos::MAX),
                mtu: link.mtu,
            };
            Box::new(codel::Codel::new(limit_packets, params))
        }
        QueueConfig::Red(ref config) => Box::new(red::Red::new(config.clone(), link)),
        QueueConfig::FqCodel(ref config) => Box::new(fq_codel::FqCodel::new(config, link)),
        QueueConfig::Pie(ref config) => Box::new(pie::Pie::new(config, link)),
        QueueConfig::FqPie(ref config) => Box::new(fq_pie::FqPie::new(config, link)),
        QueueConfig::Cake(ref config) => Box::new(cake::Cake::new(config, link)),
        QueueConfig::Dualpi2(ref config) => Box::new(dualpi2::Dualpi2::new(config.clone(), link)),
    }
}
