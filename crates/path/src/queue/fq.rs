//! Linux's FQ (net/sched/sch_fq.c) on a link: flows in deficit round robin, in three bands by their DSCP, each no faster than `maxrate`.
//!
//! At a host's interface packets have arrived when their sender wants them to leave ([`crate::Link::arrive_due`]), which may be later than
//! they enter; of those that are forwarded there is only `maxrate`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use params::{Param, Unit};
use rand_core::RngCore;

use super::store::Chain;
use super::{LinkContext, Place, Qdisc, Queued, Sink, Store, mark};
use crate::packet::{DropReason, Nanos, Packet};

// Defaults and ranges of fq_init and fq_change.
params::parameters! {
    /// FQ, Linux's fair queue of flows: without an AQM, and with a threshold of marks.
    pub struct FqConfig: "fq" {
        /// Packets waiting in each of three bands, without those of the fast path.
        limit_packets: u32 = Param::limit_packets().default(10_000),
        /// Packets waiting of a flow.
        flow_limit_packets: u32 = Param::new("flow_limit", Unit::Packets).default(100),
        /// Bytes that a flow may send in a round.
        quantum_bytes: u32 = Param::packet_bytes("quantum", 256, 1 << 20).otherwise("2 (MTU + overhead)"),
        /// Bytes that a flow may send at first.
        initial_quantum_bytes: u32 = Param::packet_bytes("initial_quantum", 0, 1 << 20).otherwise("10 (MTU + overhead)"),
        /// Rate of each flow at most.
        maxrate_bps: Option<u64> = Param::rate("maxrate").range(8, 34_000_000_000).because("tc has 32 bits of bytes").otherwise("none"),
        /// A flow with a `maxrate` up to this sends packet by packet.
        low_rate_threshold_bps: u64 = Param::rate("low_rate_threshold").range(8, 34_000_000_000).default(550_000),
        /// Idle time after which a flow has a quantum to send again.
        refill_delay_ns: u64 = Param::time("refill_delay").default(40_000_000),
        /// Bits of a flow's hash that tell it from others; packets are forwarded, so that no socket does.
        orphan_mask: u32 = Param::count("orphan_mask", 0, 65_535).default(1023),
        /// Mark every ECN-capable packet that waited longer, if this is set.
        ce_threshold_ns: Option<u64> = Param::time("ce_threshold").otherwise("none"),
        /// Time until which a sender may ask for a packet to be kept.
        horizon_ns: u64 = Param::time("horizon").default(10_000_000_000),
        /// Drop packets beyond the horizon, or send them at it.
        horizon_drop: bool = Param::flag("horizon_drop").default(1),
    }
    besides {
        /// Sizes of the bands' rounds.
        Param::count("weights", 0, u32::MAX as u64).nobody(),
        /// Bands of the priorities.
        Param::count("priomap", 0, u32::MAX as u64).nobody(),
    }
}

/// Bytes that each band may send in a round (FQ_WEIGHTS of pkt_sched.h: 9, 3 and 1 times 64 KiB).
const BANDS: [i64; 3] = [9 << 16, 3 << 16, 1 << 16];

/// Packets of the fast path that may wait while no flow has any.
const FAST: u32 = 8;

/// Longest pause that `maxrate` makes after a packet.
const LONGEST_PAUSE: Nanos = 1_000_000_000;

pub(super) struct Fq {
    config: FqConfig,
    perturbation: u32,
    flows: Box<[Flow]>,
    bands: [Band; BANDS.len()],
    /// Number of the band whose turn it is.
    turn: usize,
    /// Packets that came while no flow had any.
    fast: Chain,
    fast_packets: u32,
    /// Time when one of them came last while there was none.
    fast_since: Nanos,
    /// Flows that wait for their time; in order of it, then of how they came there.
    delayed: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    /// Number of flows that were delayed.
    delays: u64,
    /// Flows with packets that are not delayed.
    active: u32,
    /// Time when a packet came last while there were none.
    active_since: Nanos,
    packets: u32,
    bytes: u64,
}

/// Flows of a band, those that have just become active apart.
#[derive(Default)]
struct Band {
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    credit: i64,
    packets: u32,
}

struct Flow {
    items: Chain,
    packets: u32,
    credit: i64,
    band: u8,
    place: Listed,
    /// Time of its next packet by `maxrate`.
    next: Nanos,
}

/// Where a flow stands.
#[derive(Clone, Copy, PartialEq)]
enum Listed {
    /// In no list, since some time. None: it never sent.
    Nowhere(Option<Nanos>),
    InBand,
    Delayed,
}

impl Fq {
    pub(super) fn new(config: &FqConfig, mut link: LinkContext) -> Self {
        let flow = |_| Flow {
            items: Chain::EMPTY,
            packets: 0,
            credit: i64::from(config.initial_quantum_bytes),
            band: 0,
            place: Listed::Nowhere(None),
            next: 0,
        };
        Fq {
            perturbation: link.random.next_u32(),
            flows: (0..(config.orphan_mask + 1).next_power_of_two()).map(flow).collect(),
            config: config.clone(),
            bands: Default::default(),
            turn: 0,
            fast: Chain::EMPTY,
            fast_packets: 0,
            fast_since: 0,
            delayed: BinaryHeap::new(),
            delays: 0,
            active: 0,
            active_since: 0,
            packets: 0,
            bytes: 0,
        }
    }

    /// The flow that a packet belongs to.
    fn classify(&self, packet: &impl Packet) -> usize {
        let hash = (packet.flow_hash() ^ self.perturbation).wrapping_mul(0x9e37_79b1);
        ((hash >> 16) & self.config.orphan_mask) as usize
    }

    /// Whether a packet that is due at `due` may pass the flows by (fq_fastpath_check).
    fn is_fast(&self, now: Nanos, due: Nanos) -> bool {
        let none_is_due = || self.delayed.peek().is_none_or(|&Reverse((at, _, _))| at > now);
        self.config.maxrate_bps.is_none()
            && due <= now
            && (self.packets == 0 || (self.active == 0 && self.fast_packets < FAST && none_is_due()))
    }

    /// Whether a sender asks for a packet to be kept for too long; where that does not drop it, it is kept for less.
    fn is_beyond_horizon<P: Packet>(&self, now: Nanos, item: &mut Queued<P>) -> bool {
        let latest = now.saturating_add(self.config.horizon_ns);
        let beyond = item.arrived > latest;
        item.arrived = item.arrived.min(latest);
        beyond && self.config.horizon_drop
    }

    /// Puts the flows whose time has come behind the others of their bands.
    fn wake(&mut self, now: Nanos) {
        while let Some(&Reverse((at, _, index))) = self.delayed.peek()
            && at <= now
        {
            self.delayed.pop();
            self.active += 1;
            let flow = &mut self.flows[index as usize];
            flow.place = Listed::InBand;
            self.bands[usize::from(flow.band)].old.push_back(index);
        }
    }

    /// Goes to the next band with credit and flows. False: there is none.
    fn find_band(&mut self) -> bool {
        let mut tried = 0;
        loop {
            let band = &self.bands[self.turn];
            if band.credit > 0 && !(band.new.is_empty() && band.old.is_empty()) {
                return true;
            }
            tried += 1;
            if tried > BANDS.len() {
                return false;
            }
            self.turn = (self.turn + 1) % BANDS.len();
            let band = &mut self.bands[self.turn];
            band.credit = (band.credit + BANDS[self.turn]).min(BANDS[self.turn]);
            if band.credit <= 0 {
                tried = 0;
            }
        }
    }

    /// The next packet of the flows.
    fn next<P: Packet>(&mut self, now: Nanos, store: &mut Store<P>, sink: &mut dyn Sink<P>) -> Option<Place> {
        while self.find_band() {
            let band = &mut self.bands[self.turn];
            let is_new = !band.new.is_empty();
            let list = if is_new { &mut band.new } else { &mut band.old };
            let index = list[0];
            let flow = &mut self.flows[index as usize];
            if flow.credit <= 0 {
                flow.credit += i64::from(self.config.quantum_bytes);
                list.pop_front();
                band.old.push_back(index);
                continue;
            }
            let Some(first) = flow.items.first() else {
                list.pop_front();
                if is_new {
                    band.old.push_back(index);
                } else {
                    flow.place = Listed::Nowhere(Some(now));
                }
                continue;
            };
            let due = store[first].arrived.max(flow.next);
            if due > now {
                list.pop_front();
                flow.next = due;
                flow.place = Listed::Delayed;
                self.active -= 1;
                self.delays += 1;
                self.delayed.push(Reverse((due, self.delays, index)));
                continue;
            }
            return self.send(now, due, index, store, sink);
        }
        None
    }

    /// Takes the first packet of the flow whose turn it is.
    fn send<P: Packet>(
        &mut self,
        now: Nanos,
        due: Nanos,
        index: u32,
        store: &mut Store<P>,
        sink: &mut dyn Sink<P>,
    ) -> Option<Place> {
        let (band, flow) = (&mut self.bands[self.turn], &mut self.flows[index as usize]);
        let place = store.pop(&mut flow.items)?;
        let item = &mut store[place];
        if self.config.ce_threshold_ns.is_some_and(|threshold| now - due > threshold) {
            mark(now, &mut item.packet, sink);
        }
        flow.packets -= 1;
        if flow.packets == 0 {
            self.active -= 1;
        }
        band.packets -= 1;
        flow.credit -= i64::from(item.len);
        band.credit -= i64::from(item.len);
        if let Some(rate) = self.config.maxrate_bps {
            flow.pace(now, rate, item.len, &self.config);
        }
        Some(place)
    }
}

impl Flow {
    /// Sets the time of the next packet, after one of `len` bytes: once the credit is used up, for no less than a quantum.
    fn pace(&mut self, now: Nanos, rate_bps: u64, len: u32, config: &FqConfig) {
        let mut len = len;
        if rate_bps <= config.low_rate_threshold_bps {
            self.credit = 0;
        } else {
            len = len.max(config.quantum_bytes);
            if self.credit > 0 {
                return;
            }
        }
        let pause = (u64::from(len) * 1_000_000_000 / (rate_bps / 8)).min(LONGEST_PAUSE);
        // What it left later than it might have is made up, by half of the pause at most.
        let late = if self.next > 0 { now.saturating_sub(self.next) } else { 0 };
        self.next = now + pause - late.min(pause / 2);
    }
}

/// The band of a packet that is forwarded: of the priority that its DSCP stands for (rt_tos2priority, sch_default_prio2band).
fn band(packet: &impl Packet) -> u8 {
    match packet.dscp() & 7 {
        2 | 3 => 2,
        4 | 5 => 0,
        _ => 1,
    }
}

impl<P: Packet> Qdisc<P> for Fq {
    fn enqueue(&mut self, now: Nanos, place: Place, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        let number = band(&store[place].packet);
        if self.bands[usize::from(number)].packets >= self.config.limit_packets
            || self.is_beyond_horizon(now, &mut store[place])
        {
            store.discard(now, place, DropReason::Overlimit, sink);
            return;
        }
        let len = u64::from(store[place].len);
        if self.is_fast(now, store[place].arrived) {
            if self.fast_packets == 0 {
                self.fast_since = now;
            }
            store.push(&mut self.fast, place);
            self.fast_packets += 1;
        } else {
            let index = self.classify(&store[place].packet);
            let flow = &mut self.flows[index];
            if flow.packets >= self.config.flow_limit_packets {
                store.discard(now, place, DropReason::Overlimit, sink);
                return;
            }
            if let Listed::Nowhere(since) = flow.place {
                self.bands[usize::from(number)].new.push_back(index as u32);
                flow.place = Listed::InBand;
                // A debt stays, as in the kernel.
                if since.is_some_and(|since| now > since + self.config.refill_delay_ns) && flow.credit >= 0 {
                    flow.credit = flow.credit.max(i64::from(self.config.quantum_bytes));
                }
            }
            if flow.packets == 0 {
                if self.active == 0 {
                    self.active_since = now;
                }
                self.active += 1;
            }
            flow.band = number;
            flow.packets += 1;
            store.push_by_arrival(&mut flow.items, place);
            self.bands[usize::from(number)].packets += 1;
        }
        self.packets += 1;
        self.bytes += len;
    }

    fn dequeue(&mut self, now: Nanos, store: &mut Store<P>, sink: &mut dyn Sink<P>) -> Option<Place> {
        let place = match store.pop(&mut self.fast) {
            Some(place) => {
                self.fast_packets -= 1;
                place
            }
            None => {
                self.wake(now);
                self.next(now, store, sink)?
            }
        };
        self.packets -= 1;
        self.bytes -= u64::from(store[place].len);
        Some(place)
    }

    fn pass(&mut self, now: Nanos, item: &Queued<P>) -> bool {
        self.config.maxrate_bps.is_none() && self.config.limit_packets > 0 && item.arrived <= now
    }

    fn shapes(&self) -> bool {
        true
    }

    fn ready_at(&self) -> Nanos {
        match self.delayed.peek() {
            _ if self.fast_packets > 0 => self.fast_since,
            Some(&Reverse((at, _, _))) if self.active == 0 => at,
            _ => self.active_since,
        }
    }

    fn backlog_bytes(&self) -> u64 {
        self.bytes
    }

    fn backlog_packets(&self) -> u32 {
        self.packets
    }
}
