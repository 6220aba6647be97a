//! CAKE (Høiland-Jørgensen, Täht, Morton 2018) with one tin, as Linux carries it out (net/sched/sch_cake.c): a shaper
//! without bursts, host and flow fairness, and COBALT, which is CoDel with BLUE, for each flow.
//!
//! Linux rounds a flow's share of a round at random to whole bytes; here the fraction is kept, which is what that comes to.
//!
//! Not modelled: diffserv tins, ACK filter, ingress mode, splitting of super-packets (there are none here), and
//! collisions between hosts.

mod cobalt;
mod credits;
mod rotation;

use std::cmp::Reverse;
use std::collections::VecDeque;

use params::Param;
use rand_core::RngCore;

use super::drr::truesize;
use super::store::{Chain, Place, Store};
use super::{LinkContext, Qdisc, Queued, Sink};
use crate::packet::{DropReason, Nanos, Packet};
use crate::{Xoshiro256PlusPlus, prefetch};
use cobalt::{Cobalt, Params};
use credits::Credit;
use rotation::Rotation;

// Defaults of cake_init.
params::parameters! {
    /// CAKE: shaper, AQM, fairness between flows and hosts.
    pub struct CakeConfig: "cake" {
        /// Rate of CAKE's own shaper, if it has one.
        bandwidth_bps: Option<u64> = Param::rate("bandwidth").otherwise("none"),
        /// Round trip time: COBALT's interval; its target is a twentieth.
        rtt_ns: u64 = Param::time("rtt").above_zero().default(100_000_000),
        /// Rule by which shares are fair.
        flow_mode: FlowMode = Param::choice("flow_mode", FlowMode::WORDS).default(FlowMode::TripleIsolate as u64),
        /// Memory of all packets, as Linux accounts for it.
        memlimit_bytes: u32 = Param::bytes("memlimit").range(0, u32::MAX as u64).because("tc has 32 bits for it")
            .otherwise("4 rtt at its bandwidth, at least 4 MiB and at most 10240 packets"),
    }
    besides {
        /// Priority layers.
        Param::choice("diffserv", &["besteffort", "precedence", "diffserv3", "diffserv4", "diffserv8"]).nobody(),
        /// Thin out acknowledgements.
        Param::flag("ack_filter").nobody(),
        /// Split super-packets.
        Param::flag("split_gso").nobody(),
    }
}

params::words! {
    /// Between whom CAKE shares the link.
    pub enum FlowMode {
        /// Nobody: one queue.
        Flowblind = "flowblind",
        /// Sending hosts.
        Srchost = "srchost",
        /// Receiving hosts.
        Dsthost = "dsthost",
        /// Pairs of hosts.
        Hosts = "hosts",
        /// Flows.
        Flows = "flows",
        /// Sending hosts, and each one's flows.
        DualSrchost = "dual-srchost",
        /// Receiving hosts, and each one's flows.
        DualDsthost = "dual-dsthost",
        /// Fair shares for hosts of both ends, and flows.
        TripleIsolate = "triple-isolate",
    }
}

/// Queues that flows are hashed to (CAKE_QUEUES).
const QUEUES: usize = 1024;
/// Ways of the associative hash (CAKE_SET_WAYS).
const WAYS: usize = 8;

pub(super) struct Cake {
    mode: FlowMode,
    cobalt: Params,
    /// Credit that a flow may send in a round, by the number of bulk flows its busier host has.
    shares: Box<[Credit]>,
    /// Nanoseconds for each byte, times 2^`shift`; 0: no shaper (Linux tin_rate_ns and tin_rate_shft).
    per_byte: u64,
    shift: u32,
    /// The next packet may leave at the earlier of these two times (Linux time_next_packet and failsafe_next_packet).
    time_next: Nanos,
    failsafe_next: Nanos,
    memory_limit: u64,
    memory: u64,
    bytes: u64,
    packets: u32,
    flows: Vec<Flow>,
    /// Sparse flows, which are served first.
    new_flows: VecDeque<u32>,
    /// Bulk flows, and sparse ones that have to work off a deficit.
    rotation: Rotation,
    /// The flows of the last turns in the rotation, in a ring: it tells what to prefetch for the next turns.
    recent_turns: Vec<u32>,
    /// Place of the next turn in `recent_turns`.
    next_turn: usize,
    /// The flow that is looked at next in the ring of decaying flows.
    decaying: Option<u16>,
    /// Number of bulk flows of each sending and of each receiving host.
    src_bulk: Vec<u32>,
    dst_bulk: Vec<u32>,
    perturbation: u32,
    random: Xoshiro256PlusPlus,
}

/// A queue and the flow that uses it, in one cache line.
#[repr(align(64))]
struct Flow {
    items: Chain,
    cobalt: Cobalt,
    /// Bytes waiting. The type has room: the limit of memory, which counts more, has as many bits.
    bytes: u32,
    /// Hash of the flow that uses the queue.
    tag: u32,
    hosts: Hosts,
    /// Credit that a new flow may still send; the rotation has the deficits of its own flows.
    deficit: Credit,
    /// Neighbours of the flow in the ring of decaying flows.
    before: u16,
    after: u16,
    set: Set,
}

const _: () = assert!(size_of::<Flow>() == 64);

/// Credit that sending `bytes` takes.
fn cost(bytes: u32) -> Credit {
    bytes.saturating_mul(1 << 14).min(i32::MAX as u32) as Credit
}

/// The sending and the receiving host of a flow.
#[derive(Clone, Copy, Default, PartialEq)]
struct Hosts {
    src: u16,
    dst: u16,
}

/// The set that a flow belongs to (Linux CAKE_SET_*).
#[derive(Clone, Copy, PartialEq)]
enum Set {
    /// No packets, in no list.
    None,
    /// Among the new flows.
    Sparse,
    /// Flows in the rotation to work off their deficit, which had no packets when they got there.
    SparseWait,
    /// Flows in the rotation.
    Bulk,
    /// No packets, but COBALT still has a count or a probability that has to decay.
    Decaying,
}

impl Cake {
    pub(super) fn new(config: &CakeConfig, mut link: LinkContext) -> Self {
        // Bytes per second, at least 64 (cake_set_rate).
        let rate = config.bandwidth_bps.map(|bps| (bps / 8).max(64));
        let (mut per_byte, mut shift) = (0, 34);
        if let Some(rate) = rate {
            let exact = (1_000_000_000_u128 << 34) / u128::from(rate);
            let excess = (128 - exact.leading_zeros()).saturating_sub(34);
            per_byte = (exact >> excess) as u64;
            shift -= excess;
        }
        let quantum = rate.map_or(1514, |rate| (rate >> 12).clamp(300, 1514));
        let flow = || Flow {
            items: Chain::EMPTY,
            cobalt: Cobalt::default(),
            bytes: 0,
            tag: 0,
            hosts: Hosts::default(),
            deficit: 0,
            before: 0,
            after: 0,
            set: Set::None,
        };
        // In Linux the shares are in units of 2^-16 bytes.
        let shares =
            (0..=QUEUES as u64).map(|load| ((quantum * (65_535 / load.max(1))) >> 2) as Credit).collect();
        Cake {
            mode: config.flow_mode,
            cobalt: Params::new(config.rtt_ns, (u64::from(link.mtu) * per_byte) >> shift),
            shares,
            per_byte,
            shift,
            time_next: 0,
            failsafe_next: 0,
            memory_limit: config.memlimit_bytes.into(),
            memory: 0,
            bytes: 0,
            packets: 0,
            flows: (0..QUEUES).map(|_| flow()).collect(),
            new_flows: VecDeque::with_capacity(QUEUES),
            rotation: Rotation::default(),
            recent_turns: vec![0; QUEUES],
            next_turn: 0,
            decaying: None,
            src_bulk: Vec::new(),
            dst_bulk: Vec::new(),
            perturbation: link.random.next_u32(),
            random: link.random,
        }
    }

    /// The queue of a packet's flow: its own if it has one, else a free one of its set, else it shares (cake_hash).
    fn classify(&mut self, packet: &impl Packet) -> usize {
        let pair = u32::from(packet.src()) << 16 | u32::from(packet.dst());
        let key = match self.mode {
            FlowMode::Flowblind => return 0,
            FlowMode::Srchost => pair | 0xffff,
            FlowMode::Dsthost => pair | 0xffff_0000,
            FlowMode::Hosts => pair,
            _ => packet.flow_hash(),
        };
        let hash = (key ^ self.perturbation).wrapping_mul(0x9e37_79b1);
        let place = (hash >> 22) as usize;
        let hosts = Hosts { src: packet.src(), dst: packet.dst() };
        let flow = &mut self.flows[place];
        if flow.tag == hash && flow.set != Set::None {
            return place;
        }
        self.classify_slow(hash, hosts)
    }

    /// [`Cake::classify`] for a flow whose queue is not where its hash says, or is idle.
    #[cold]
    fn classify_slow(&mut self, hash: u32, hosts: Hosts) -> usize {
        let place = (hash >> 22) as usize;
        let first = place - place % WAYS;
        let ways = || (0..WAYS).map(|way| first + (place + way) % WAYS);
        if let Some(index) = ways().find(|&index| self.flows[index].tag == hash) {
            let flow = &mut self.flows[index];
            if flow.set == Set::None {
                flow.hosts = hosts;
            }
            return index;
        }
        let index = ways().find(|&index| self.flows[index].set == Set::None).unwrap_or(place);
        let set = self.flows[index].set;
        let is_bulk = set == Set::Bulk;
        if is_bulk {
            self.count_bulk(index, false);
        }
        self.flows[index].tag = hash;
        self.flows[index].hosts = hosts;
        if matches!(set, Set::Bulk | Set::SparseWait) {
            // The flows of the rotation may now be of several pairs of hosts, and the share of this one has changed.
            self.rotation.use_own_shares();
            self.rotation.stale = true;
        }
        if is_bulk {
            self.count_bulk(index, true);
        }
        index
    }

    /// Adds a flow to the number of bulk flows of its hosts, or subtracts it.
    #[inline(never)]
    fn count_bulk(&mut self, index: usize, add: bool) {
        let Hosts { src, dst } = self.flows[index].hosts;
        for (counts, host) in [(&mut self.src_bulk, src), (&mut self.dst_bulk, dst)] {
            let host = usize::from(host);
            if counts.len() <= host {
                counts.resize(host + 1, 0);
            }
            counts[host] = if add { counts[host] + 1 } else { counts[host] - 1 };
        }
        self.rotation.stale = true;
    }

    /// Credit that a flow may send in a round: less, the more bulk flows its busier host has.
    fn share(&self, Hosts { src, dst }: Hosts) -> Credit {
        let count = |counts: &Vec<u32>, host: u16| counts.get(usize::from(host)).copied().unwrap_or(0);
        let mut load = 1;
        if matches!(self.mode, FlowMode::DualSrchost | FlowMode::TripleIsolate) {
            load = load.max(count(&self.src_bulk, src));
        }
        if matches!(self.mode, FlowMode::DualDsthost | FlowMode::TripleIsolate) {
            load = load.max(count(&self.dst_bulk, dst));
        }
        self.shares[load as usize]
    }

    /// Computes the shares of the flows in the rotation again.
    #[inline(never)]
    fn update_shares(&mut self) {
        let mut rotation = std::mem::take(&mut self.rotation);
        rotation.update_shares(|flow| self.share(self.flows[flow as usize].hosts));
        self.rotation = rotation;
    }

    /// The flow that may send now, and whether it is a new one.
    fn next_flow<P>(&mut self, store: &Store<P>) -> Option<(usize, bool)> {
        while let Some(&first) = self.new_flows.front() {
            let index = first as usize;
            let flow = &mut self.flows[index];
            let (hosts, deficit) = (flow.hosts, flow.deficit);
            if deficit > 0 {
                return Some((index, true));
            }
            // It is no longer sparse.
            self.new_flows.pop_front();
            if flow.items.is_empty() {
                flow.set = Set::SparseWait;
            } else {
                flow.set = Set::Bulk;
                self.count_bulk(index, true);
            }
            let share = self.share(hosts);
            self.rotation.push(first, hosts, deficit + share, share);
        }
        if std::mem::take(&mut self.rotation.stale) {
            self.update_shares();
        }
        let flow = self.rotation.next()?;
        self.recent_turns[self.next_turn] = flow;
        // The turns of this round come in nearly the order of the last one. The packet of the next turn is prefetched, and the flow
        // of the turn after it, which has to be in the cache one turn later to find that flow's packet.
        let round_ago = self.next_turn + QUEUES - self.rotation.len();
        store.prefetch_first(self.flows[self.recent_turns[(round_ago + 1) % QUEUES] as usize].items);
        prefetch(&self.flows[self.recent_turns[(round_ago + 2) % QUEUES] as usize]);
        self.next_turn = (self.next_turn + 1) % QUEUES;
        Some((flow as usize, false))
    }

    fn pop<P>(&mut self, index: usize, store: &mut Store<P>) -> Option<Place> {
        let flow = &mut self.flows[index];
        let place = store.pop(&mut flow.items)?;
        let len = store[place].len;
        flow.bytes -= len;
        self.bytes -= u64::from(len);
        self.packets -= 1;
        self.memory -= truesize(len);
        Some(place)
    }

    /// The next packet of a flow that COBALT does not drop. The last packet of a queue may be marked, but not dropped.
    fn next_packet<P: Packet>(
        &mut self,
        index: usize,
        now: Nanos,
        store: &mut Store<P>,
        sink: &mut dyn Sink<P>,
    ) -> Option<Place> {
        loop {
            let place = self.pop(index, store)?;
            let flow = &mut self.flows[index];
            let drop = flow.cobalt.should_drop(&self.cobalt, now, &mut store[place], &mut self.random, sink);
            if !drop || flow.items.is_empty() {
                return Some(place);
            }
            store.discard(now, place, DropReason::Aqm, sink);
        }
    }

    /// Drops the oldest packet of the flow with the most bytes, the first of several, and raises its BLUE probability.
    #[cold]
    fn drop_from_fattest<P>(&mut self, now: Nanos, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        let bytes = |index: u32| (self.flows[index as usize].bytes, Reverse(index));
        let active = self.new_flows.iter().copied().chain(self.rotation.iter());
        let Some((_, Reverse(fattest))) = active.map(bytes).max() else { return };
        let fattest = fattest as usize;
        self.flows[fattest].cobalt.queue_full(&self.cobalt, now);
        if let Some(place) = self.pop(fattest, store) {
            store.discard(now, place, DropReason::Overlimit, sink);
        }
    }

    /// Puts away a flow that has been taken off its list because it had nothing to send.
    fn flow_emptied(&mut self, index: usize, now: Nanos) {
        let flow = &mut self.flows[index];
        flow.cobalt.queue_empty(&self.cobalt, now);
        let at_rest = flow.cobalt.is_at_rest(now);
        let set = if at_rest { Set::None } else { Set::Decaying };
        if std::mem::replace(&mut flow.set, set) == Set::Bulk {
            self.count_bulk(index, false);
        }
        if !at_rest {
            self.begin_decay(index as u16);
        }
    }

    /// Puts a flow that was in no list among the new flows.
    #[inline(always)]
    fn begin_sparse(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let hosts = flow.hosts;
        if std::mem::replace(&mut flow.set, Set::Sparse) == Set::Decaying {
            self.end_decay(index as u16);
        }
        self.new_flows.push_back(index as u32);
        self.flows[index].deficit = self.share(hosts);
    }

    /// Lets the next of the decaying flows decay, if it is due.
    #[inline(always)]
    fn decay_next(&mut self, now: Nanos) {
        let Some(first) = self.decaying else { return };
        let flow = &self.flows[usize::from(first)];
        if now < flow.cobalt.unchanged_until() {
            self.decaying = Some(flow.after);
        } else {
            self.end_decay(first);
            self.flow_emptied(first.into(), now);
        }
    }

    /// Puts a flow at the end of the ring of decaying flows.
    fn begin_decay(&mut self, index: u16) {
        let first = *self.decaying.get_or_insert(index);
        // A flow that is alone is its own neighbour.
        let last = if first == index { index } else { self.flows[usize::from(first)].before };
        self.flows[usize::from(last)].after = index;
        self.flows[usize::from(first)].before = index;
        let flow = &mut self.flows[usize::from(index)];
        (flow.before, flow.after) = (last, first);
    }

    /// Takes a flow out of the ring of decaying flows.
    fn end_decay(&mut self, index: u16) {
        let Flow { before, after, .. } = self.flows[usize::from(index)];
        self.flows[usize::from(before)].after = after;
        self.flows[usize::from(after)].before = before;
        if self.decaying == Some(index) {
            self.decaying = (after != index).then_some(after);
        }
    }
}

impl<P: Packet> Qdisc<P> for Cake {
    fn enqueue(&mut self, now: Nanos, place: Place, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        let Queued { packet, len, .. } = &store[place];
        let len = *len;
        let index = self.classify(packet);
        if self.packets == 0 && self.time_next < now {
            self.time_next = now;
            self.failsafe_next = now;
        }
        let flow = &mut self.flows[index];
        flow.bytes += len;
        self.bytes += u64::from(len);
        self.packets += 1;
        self.memory += truesize(len);
        store.push(&mut flow.items, place);
        match flow.set {
            Set::None | Set::Decaying => self.begin_sparse(index),
            Set::SparseWait => {
                flow.set = Set::Bulk;
                self.count_bulk(index, true);
            }
            Set::Sparse | Set::Bulk => (),
        }
        while self.memory > self.memory_limit {
            self.drop_from_fattest(now, store, sink);
        }
    }

    fn dequeue(&mut self, now: Nanos, store: &mut Store<P>, sink: &mut dyn Sink<P>) -> Option<Place> {
        if self.packets > 0 {
            self.decay_next(now);
        }
        while self.packets > 0 {
            let (index, is_new) = self.next_flow(store)?;
            let Some(place) = self.next_packet(index, now, store, sink) else {
                if is_new {
                    self.new_flows.pop_front();
                } else {
                    self.rotation.remove_next();
                }
                self.flow_emptied(index, now);
                continue;
            };
            let len = store[place].len;
            // The flow stays first in its list.
            if is_new {
                self.flows[index].deficit -= cost(len);
            } else {
                self.rotation.charge(cost(len));
            }
            if self.per_byte > 0 {
                let time = (u64::from(len) * self.per_byte) >> self.shift;
                self.time_next += time;
                self.failsafe_next += time + time / 2;
            }
            return Some(place);
        }
        None
    }

    /// Passes the usual packet, such as an acknowledgement on a link with little else: the only packet, of a flow
    /// that may send and in whose queue COBALT has nothing to do.
    fn pass(&mut self, now: Nanos, item: &Queued<P>) -> bool {
        let before = match self.new_flows.len() {
            0 => None,
            1 => Some(self.new_flows[0] as usize),
            _ => return false,
        };
        if self.per_byte > 0 || truesize(item.len) > self.memory_limit {
            return false;
        }
        let index = self.classify(&item.packet);
        let may_send = before.is_none_or(|before| self.flows[before].deficit > 0);
        let flow = &self.flows[index];
        let fits = match flow.set {
            Set::None | Set::Decaying => may_send,
            Set::Sparse => may_send && before == Some(index),
            Set::SparseWait | Set::Bulk => false,
        };
        if !fits || !flow.cobalt.is_idle() {
            return false;
        }
        if flow.set != Set::Sparse {
            self.begin_sparse(index);
        }
        self.decay_next(now);
        if let Some(before) = before
            && before != index
        {
            self.new_flows.pop_front();
            self.flow_emptied(before, now);
        }
        let flow = &mut self.flows[index];
        flow.cobalt.note_good(&self.cobalt, now);
        flow.deficit -= cost(item.len);
        true
    }

    fn backlog_bytes(&self) -> u64 {
        self.bytes
    }

    fn backlog_packets(&self) -> u32 {
        self.packets
    }

    fn shapes(&self) -> bool {
        self.per_byte > 0
    }

    fn ready_at(&self) -> Nanos {
        self.time_next.min(self.failsafe_next)
    }
}
