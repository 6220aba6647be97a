//! Queue disciplines: the trait, the registry, and one file per discipline.

use params::{Kind, ParamError, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{MILLISECOND, linux_wheel};

use crate::Xoshiro256PlusPlus;
use crate::packet::{DropReason, Ecn, Nanos, Packet};

mod cake;
mod choke;
mod codel;
mod drr;
mod dualpi2;
mod fifo;
mod fq;
mod fq_codel;
mod fq_pie;
mod pie;
mod red;
mod store;

pub use cake::FlowMode;
pub(crate) use fifo::Limit;
use store::Chain;
pub use store::{Place, Store};

/// A queue discipline. Time never goes back from one call to the next. The store holds all packets that wait; a discipline is
/// always called with the same one.
pub trait Qdisc<P>: Send {
    /// Takes in a packet of `store`, or drops it, or drops others to make room.
    fn enqueue(&mut self, now: Nanos, place: Place, store: &mut Store<P>, sink: &mut dyn Sink<P>);
    /// The packet whose transmission starts now. None only if the queue is empty, or emptied by drops.
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
    /// Bytes of the packet that `dequeue` would give. None if the discipline cannot tell before it dequeues.
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
    /// Time when the packet arrived at the queue.
    pub arrived: Nanos,
    /// Bytes of the packet with the link's overhead: what rates and byte limits count.
    pub len: u32,
}

/// Receiver of what a queue discipline did to packets.
pub trait Sink<P> {
    /// The packet was dropped.
    fn dropped(&mut self, at: Nanos, packet: &P, why: DropReason);
    /// The packet was marked CE.
    fn marked(&mut self, at: Nanos, packet: &P);
}

/// Context that a discipline has of its link.
pub struct LinkContext {
    /// The link's rate, bits per second.
    pub rate_bps: Option<u64>,
    /// Largest packet with the link's overhead, bytes.
    pub mtu: u32,
    /// The discipline's random stream.
    pub random: Xoshiro256PlusPlus,
}

/// Time between two runs of a timer that a discipline of Linux sets anew, to `wanted` later, each time it runs, in a kernel of
/// 1,000 ticks a second.
const fn timer_period(wanted: Nanos) -> Nanos {
    linux_wheel(0, wanted.div_ceil(MILLISECOND)) * MILLISECOND
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

/// Makes, of a line for each discipline (its variant, its module and configuration there, what carries it out): the
/// configuration as it stands in a Scenario, the catalogue, and what makes a discipline of a configuration.
macro_rules! disciplines {
    ( $( $variant:ident = $module:ident::$config:ident => $make:path, )+ ) => {
        /// The configurations of the disciplines.
        pub mod configs {
            $( pub use super::$module::$config; )+
        }

        /// A queue discipline and all its parameters, under their Linux `tc` names with the unit added.
        // A discipline is described where its parameters are.
        #[allow(missing_docs)]
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
        pub enum QueueConfig {
            $( $variant($module::$config), )+
            /// A host's egress as `tc netem` makes it: the link's delay and jitter come before its rate, and the limit counts
            /// every packet that has not left, those in the delay line too. No packet waits for an event.
            Netem {
                /// Packets inside (1000 unless told otherwise, in Linux).
                limit_packets: u32,
            },
        }

        impl QueueConfig {
            /// Checks what parsing cannot: that the discipline can be made of these parameters.
            ///
            /// # Errors
            /// One line: the parameter, what was found, what is allowed.
            pub fn check(&self) -> Result<(), ParamError> {
                match self {
                    $( QueueConfig::$variant(config) => config.check(), )+
                    QueueConfig::Netem { .. } => Ok(()),
                }
                .map_err(|why| ParamError { param: format!("queue {}", why.param), ..why })
            }
        }

        /// Every queue discipline that a link can have; [`QueueConfig::Netem`], which stands for a link, is not among them.
        pub fn catalogue() -> Vec<Kind> {
            vec![$( $module::$config::KIND ),+]
        }

        /// Makes the discipline of a configuration.
        ///
        /// # Panics
        /// If [`QueueConfig::check`] refuses it, or it is netem, which is no discipline on a link.
        pub(crate) fn build<P: Packet + 'static>(config: &QueueConfig, link: LinkContext) -> Box<dyn Qdisc<P>> {
            config.check().unwrap_or_else(|why| panic!("{why}"));
            match config {
                $( QueueConfig::$variant(config) => Box::new($make(config, link)), )+
                QueueConfig::Netem { .. } => panic!("netem is not a discipline on a link, but replaces the link"),
            }
        }
    };
}

disciplines! {
    Pfifo = fifo::PfifoConfig => fifo::Fifo::of_packets,
    Bfifo = fifo::BfifoConfig => fifo::Fifo::of_bytes,
    Red = red::RedConfig => red::Red::new,
    Codel = codel::CodelConfig => codel::Codel::new,
    FqCodel = fq_codel::FqCodelConfig => fq_codel::FqCodel::new,
    Pie = pie::PieConfig => pie::Pie::new,
    FqPie = fq_pie::FqPieConfig => fq_pie::FqPie::new,
    Cake = cake::CakeConfig => cake::Cake::new,
    Dualpi2 = dualpi2::Dualpi2Config => dualpi2::Dualpi2::new,
    Choke = choke::ChokeConfig => choke::Choke::new,
    Fq = fq::FqConfig => fq::Fq::new,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(json: &str) -> QueueConfig {
        serde_json::from_str(json).expect("a queue")
    }

    #[test]
    fn timers_run_later_than_asked() {
        for (wanted_us, period_ms) in [(1, 2), (15_000, 16), (14_999, 16), (100_000, 104), (500_000, 504)] {
            assert_eq!(timer_period(wanted_us * 1000), period_ms * MILLISECOND, "{wanted_us} us");
        }
    }

    #[test]
    fn the_kind_of_a_scenario_is_that_of_the_catalogue() {
        // `rename_all` makes the one of the variant, the table says the other.
        for kind in catalogue() {
            let why = serde_json::from_str::<QueueConfig>(&format!(r#"{{"kind": "{}"}}"#, kind.kind));
            let why = why.expect_err("parameters are missing").to_string();
            assert!(why.contains("missing field"), "{}: {why}", kind.kind);
        }
    }

    #[test]
    fn a_discipline_that_cannot_be_made_is_refused_with_its_parameter() {
        let red = |min: u64, max: u64| {
            queue(&format!(
                r#"{{"kind": "red", "limit_bytes": 100000, "min_bytes": {min}, "max_bytes": {max},
                    "avpkt_bytes": 1000, "burst_packets": 20, "probability_ppb": 20000000,
                    "bandwidth_bps": 10000000, "ecn": false, "harddrop": false, "nodrop": false,
                    "adaptive": false, "nonlinear": false}}"#
            ))
        };
        assert_eq!(red(10_000, 30_000).check(), Ok(()));
        let why = red(50_000, 40_000).check().expect_err("thresholds the wrong way round");
        assert_eq!(why.to_string(), "queue min_bytes: found 50000; expected below max_bytes, 40000");
        let QueueConfig::Red(config) = red(10_000, 30_000) else { panic!("red is red") };
        let nodrop = |ecn| QueueConfig::Red(red::RedConfig { nodrop: true, ecn, ..config.clone() }).check();
        assert_eq!(nodrop(true), Ok(()));
        assert_eq!(
            nodrop(false).unwrap_err().to_string(),
            "queue nodrop: found true; expected false, or ecn true too"
        );

        let dualpi2 = |coupling: u32, protection: u32| {
            queue(&format!(
                r#"{{"kind": "dualpi2", "limit_packets": 10000, "target_ns": 15000000, "tupdate_ns": 16000000,
                    "alpha_ppb": 160000000, "beta_ppb": 3200000000, "coupling_factor": {coupling},
                    "memlimit_bytes": 1000000, "step_thresh_ns": 1000000, "step_packets": null,
                    "min_qlen_step_packets": 0, "classic_protection": {protection}, "drop_on_overload": true,
                    "drop_enqueue": false, "any_ect": false, "split_gso": true}}"#
            ))
        };
        assert_eq!(dualpi2(2, 10).check(), Ok(()));
        let fq_codel = |flows: u32| {
            queue(&format!(
                r#"{{"kind": "fq_codel", "limit_packets": 10240, "flows": {flows}, "quantum_bytes": 1514,
                    "target_ns": 5000000, "interval_ns": 100000000, "ecn": true, "ce_threshold_ns": null,
                    "ce_threshold_selector": 0, "ce_threshold_mask": 0, "memory_limit_bytes": 33554432, "drop_batch": 64}}"#
            ))
        };
        assert_eq!(fq_codel(65_536).check(), Ok(()));
        assert_eq!(fq_codel(0).check().unwrap_err().to_string(), "queue flows: found 0; expected 1 to 65536");
        assert_eq!(
            fq_codel(65_537).check().unwrap_err().to_string(),
            "queue flows: found 65537; expected 1 to 65536"
        );
        assert!(dualpi2(0, 10).check().is_err_and(|why| why.param.contains("coupling_factor")));
        assert!(dualpi2(2, 101).check().is_err_and(|why| why.param.contains("classic_protection")));
    }
}
