//! CHOKe (Pan, Prabhakar, Psounis 2000) as Linux carries it out (net/sched/sch_choke.c): RED of packets, where one that comes takes
//! one of its own flow with it.

use std::collections::VecDeque;

use params::{Param, ParamError, Unit};
use rand_core::RngCore;

use super::red::{Average, weight_log};
use super::{LinkContext, Place, Qdisc, Sink, Store, mark};
use crate::Xoshiro256PlusPlus;
use crate::packet::{DropReason, Nanos, Packet};

// Defaults of `tc` (iproute2 tc/q_choke.c), and what it derives from the limit; CHOKE_MAX_QUEUE.
params::parameters! {
    /// CHOKe (Pan, Prabhakar, Psounis 2000): RED that drops two packets of a flow at once.
    pub struct ChokeConfig: "choke", check thresholds {
        /// Packets waiting.
        limit_packets: u32 = Param::limit_packets().range(1, 131_071).because("the kernel has room for no more").required(),
        /// Average queue up to which nothing is dropped.
        min_packets: u32 = Param::new("min", Unit::Packets).otherwise("a third of max"),
        /// Average queue above which everything is dropped, above min.
        max_packets: u32 = Param::new("max", Unit::Packets).otherwise("a quarter of the limit"),
        /// Size of an average packet.
        avpkt_bytes: u64 = Param::packet_bytes("avpkt", 1, 65_535).default(1000),
        /// Packets of a burst that passes unharmed: `tc` derives the averaging weight from it.
        burst_packets: u64 = Param::new("burst", Unit::Packets).otherwise("(2 min + max) / 3"),
        /// Drop probability when the average reaches max.
        probability_ppb: u32 = Param::new("probability", Unit::Ppb).default(20_000_000),
        /// Rate from which the average after an idle time is computed.
        bandwidth_bps: u64 = Param::rate("bandwidth").default(10_000_000),
        /// Mark ECN-capable packets instead of dropping them, unless one of their flow was found.
        ecn: bool = Param::flag("ecn").default(0),
    }
}

/// Checks what has to hold between the parameters.
fn thresholds(choke: &ChokeConfig) -> Result<(), ParamError> {
    let (min, max) = (choke.min_packets, choke.max_packets);
    if min >= max {
        return Err(ParamError::new("min_packets", min, format!("below max_packets, {max}")));
    }
    Ok(())
}

/// Attempts to find a packet that waits, and no gap.
const ATTEMPTS: u32 = 3;

pub(super) struct Choke {
    config: ChokeConfig,
    random: Xoshiro256PlusPlus,
    /// Packets that wait, with a gap for each that was dropped out of their middle. The first is no gap.
    queue: VecDeque<Option<Place>>,
    packets: u32,
    bytes: u64,
    /// Average number of packets that wait.
    average: Average,
    /// Packets since the last drop while the average is between the thresholds. None: below, or above.
    count: Option<u64>,
    /// Number of packets, times the average above min, that pass before the next one is dropped.
    pass: u64,
    /// Drop probability for each packet of the distance of both thresholds, of 2^32.
    slope: u64,
}

impl Choke {
    pub(super) fn new(config: &ChokeConfig, link: LinkContext) -> Self {
        let min_bytes = u64::from(config.min_packets) * config.avpkt_bytes;
        let weight = weight_log(min_bytes, config.burst_packets, config.avpkt_bytes);
        let distance = u64::from(config.max_packets - config.min_packets);
        let probability = (u64::from(config.probability_ppb) << 32) / 1_000_000_000;
        Choke {
            average: Average::new(weight, config.avpkt_bytes, config.bandwidth_bps),
            slope: ((probability + distance / 2) / distance).max(1),
            config: config.clone(),
            random: link.random,
            queue: VecDeque::new(),
            packets: 0,
            bytes: 0,
            count: None,
            pass: 0,
        }
    }

    /// A uniform draw of 32 bits.
    fn draw(&mut self) -> u64 {
        self.random.next_u64() >> 32
    }

    /// A packet that waits, drawn at random; the first one where only gaps were drawn. None: none waits.
    fn any(&mut self) -> Option<(usize, Place)> {
        if self.queue.is_empty() {
            return None;
        }
        for _ in 0..ATTEMPTS {
            let at = ((self.draw() * self.queue.len() as u64) >> 32) as usize;
            if let Some(place) = self.queue[at] {
                return Some((at, place));
            }
        }
        self.queue[0].map(|place| (0, place))
    }

    /// Takes a packet out of the queue.
    fn remove<P>(&mut self, at: usize, place: Place, store: &Store<P>) {
        self.queue[at] = None;
        while self.queue.front().is_some_and(Option::is_none) {
            self.queue.pop_front();
        }
        self.packets -= 1;
        self.bytes -= u64::from(store[place].len);
    }

    /// Whether a packet that comes is dropped; one of its flow may be dropped before.
    fn drops<P: Packet>(
        &mut self,
        now: Nanos,
        place: Place,
        store: &mut Store<P>,
        sink: &mut dyn Sink<P>,
    ) -> bool {
        let Average { weight_log, scaled, .. } = self.average;
        let (min, max) = (u64::from(self.config.min_packets), u64::from(self.config.max_packets));
        if scaled <= min << weight_log {
            self.count = None;
            return false;
        }
        if let Some((at, found)) = self.any()
            && same_flow(&store[found].packet, &store[place].packet)
        {
            self.remove(at, found, store);
            store.discard(now, found, DropReason::Aqm, sink);
            return true;
        }
        let hit = if scaled > max << weight_log {
            self.count = None;
            true
        } else {
            let above = (scaled - (min << weight_log)) >> weight_log;
            let count = self.count.map_or(0, |count| count + 1);
            let hit = count > 0 && above * count >= self.pass;
            self.count = Some(if hit { 0 } else { count });
            if hit || count == 0 {
                self.pass = self.draw() / self.slope;
            }
            hit
        };
        hit && !(self.config.ecn && mark(now, &mut store[place].packet, sink))
    }
}

/// Whether two packets have the same addresses, ports and protocol.
fn same_flow<P: Packet>(one: &P, other: &P) -> bool {
    let key = |packet: &P| (packet.flow_hash(), packet.ports(), packet.src(), packet.dst());
    key(one) == key(other)
}

impl<P: Packet> Qdisc<P> for Choke {
    fn enqueue(&mut self, now: Nanos, place: Place, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        self.average.update(now, u64::from(self.packets));
        if self.drops(now, place, store, sink) {
            store.discard(now, place, DropReason::Aqm, sink);
        } else if self.packets >= self.config.limit_packets {
            store.discard(now, place, DropReason::Overlimit, sink);
        } else {
            self.packets += 1;
            self.bytes += u64::from(store[place].len);
            self.queue.push_back(Some(place));
        }
        if self.packets == 0 {
            self.average.idle(now);
        }
    }

    fn dequeue(&mut self, now: Nanos, store: &mut Store<P>, _sink: &mut dyn Sink<P>) -> Option<Place> {
        let place = self.queue.front().copied().flatten();
        if let Some(place) = place {
            self.remove(0, place, store);
        }
        if self.packets == 0 {
            self.average.idle(now);
        }
        place
    }

    fn backlog_bytes(&self) -> u64 {
        self.bytes
    }

    fn backlog_packets(&self) -> u32 {
        self.packets
    }
}
