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

use rand_core::RngCore;
use serde::{Deserialize, Serialize};

use super::drr::truesize;
use super::store::{Chain, Place, Store};
use super::{Param, Qdisc, QueueKind, Queued, Sink, Site};
use crate::packet::{DropReason, Nanos, Packet};
use crate::{Xoshiro256PlusPlus, near};
use cobalt::{Cobalt, Params};
use credits::Credit;
use rotation::Round;

/// Parameters of CAKE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CakeConfig {
    /// Rate of CAKE's own shaper; null: unlimited.
    pub bandwidth_bps: Option<u64>,
    /// Round trip time: COBALT's interval; its target is a twentieth.
    pub rtt_ns: u64,
    /// Who gets a fair share.
    pub flow_mode: FlowMode,
    /// Memory of all packets, as Linux accounts for it.
    pub memlimit_bytes: u32,
}

/// Between whom CAKE shares the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowMode {
    /// Nobody: one queue.
    Flowblind,
    /// Sending hosts.
    Srchost,
    /// Receiving hosts.
    Dsthost,
    /// Pairs of hosts.
    Hosts,
    /// Flows.
    Flows,
    /// Sending hosts, and each one's flows.
    DualSrchost,
    /// Receiving hosts, and each one's flows.
    DualDsthost,
    /// Both, and flows.
    TripleIsolate,
}

/// Defaults of cake_init.
pub(super) const CAKE: QueueKind = QueueKind {
    kind: "cake",
    params: &[
        Param::new("bandwidth", "bps", None),
        Param::new("rtt", "ns", Some(100_000_000)),
        Param::choice(
            "flow_mode",
            &[
                "flowblind",
                "srchost",
                "dsthost",
                "hosts",
                "flows",
                "dual-srchost",
                "dual-dsthost",
                "triple-isolate",
            ],
            7,
        ),
        Param::new("memlimit", "bytes", None),
    ],
};

/// Queues that flows are hashed to (CAKE_QUEUES).
const QUEUES: usize = 1024;
/// Ways of the associative hash (CAKE_SET_WAYS).
const WAYS: usize = 8;

pub(super) struct Cake {
    mode: FlowMode,
    cobalt: Params,
    /// What a flow may send in a round, by the number of bulk flows its busier host has.
    shares: Box<[Credit]>,
    /// Nanoseconds for each byte, times 2^`shift`; 0: no shaper.
    per_byte: u64,
    shift: u32,
    time_next: Nanos,
    /// Lets the link go on if the shaper has lost its way.
    failsafe_next: Nanos,
    memory_limit: u64,
    memory: u64,
    bytes: u64,
    packets: u32,
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: Round,
    /// Whose turn it was last in the rotation: a ring, and the place of the next in it.
    served: Vec<u32>,
    next_served: usize,
    /// The first of a ring of decaying flows.
    decaying: Option<u16>,
    /// Bulk flows of each sending and receiving host.
    src_bulk: Vec<u32>,
    dst_bulk: Vec<u32>,
    perturbation: u32,
    random: Xoshiro256PlusPlus,
}

/// A queue and the flow that has it: one cache line.
#[repr(align(64))]
struct Flow {
    items: Chain,
    cobalt: Cobalt,
    /// Less than the limit of memory, which has as many bits.
    bytes: u32,
    /// The flow's hash.
    tag: u32,
    hosts: Hosts,
    /// What it may still send; of a flow in the rotation it is there.
    deficit: Credit,
    /// Its neighbours in the ring of decaying flows.
    before: u16,
    after: u16,
    set: Set,
}

const _: () = assert!(size_of::<Flow>() == 64);

/// What sending so many bytes takes of it.
fn cost(bytes: u32) -> Credit {
    bytes.saturating_mul(1 << 14).min(i32::MAX as u32) as Credit
}

/// Between which hosts a flow goes.
#[derive(Clone, Copy, Default, PartialEq)]
struct Hosts {
    src: u16,
    dst: u16,
}

/// What a flow counts as.
#[derive(Clone, Copy, PartialEq)]
enum Set {
    None,
    Sparse,
    /// In the bulk rotation to work off its deficit, but it was empty.
    SparseWait,
    Bulk,
    /// Empty, while COBALT comes to rest.
    Decaying,
}

impl Cake {
    pub(super) fn new(config: &CakeConfig, mut site: Site) -> Self {
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
        // Linux has them in units of 2^-16 bytes.
        let shares =
            (0..=QUEUES as u64).map(|load| ((quantum * (65_535 / load.max(1))) >> 2) as Credit).collect();
        Cake {
            mode: config.flow_mode,
            cobalt: Params::new(config.rtt_ns, (u64::from(site.mtu) * per_byte) >> shift),
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
            new: VecDeque::with_capacity(QUEUES),
            old: Round::default(),
            served: vec![0; QUEUES],
            next_served: 0,
            decaying: None,
            src_bulk: Vec::new(),
            dst_bulk: Vec::new(),
            perturbation: site.random.next_u32(),
            random: site.random,
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
        self.classify_otherwise(hash, hosts)
    }

    /// As [`Cake::classify`], but for a flow whose queue is not where its hash says, or is idle.
    #[cold]
    fn classify_otherwise(&mut self, hash: u32, hosts: Hosts) -> usize {
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
            // The rotation may be of one pair of hosts no longer, and this flow's share has changed.
            self.old.take_apart();
            self.old.stale = true;
        }
        if is_bulk {
            self.count_bulk(index, true);
        }
        index
    }

    /// Counts a flow among the bulk flows of its hosts, or no longer.
    #[inline(never)]
    fn count_bulk(&mut self, index: usize, more: bool) {
        let Hosts { src, dst } = self.flows[index].hosts;
        for (counts, host) in [(&mut self.src_bulk, src), (&mut self.dst_bulk, dst)] {
            let host = usize::from(host);
            if counts.len() <= host {
                counts.resize(host + 1, 0);
            }
            counts[host] = if more { counts[host] + 1 } else { counts[host] - 1 };
        }
        self.old.stale = true;
    }

    /// A flow's share of a round: less, the more bulk flows its busier host has.
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

    /// Gives the flows of the rotation the shares that they have now.
    #[inline(never)]
    fn share_out(&mut self) {
        let mut old = std::mem::take(&mut self.old);
        old.share_out(|flow| self.share(self.flows[flow as usize].hosts));
        self.old = old;
    }

    /// The flow that may send now and whether it is new.
    fn turn<P>(&mut self, store: &Store<P>) -> Option<(usize, bool)> {
        while let Some(&first) = self.new.front() {
            let index = first as usize;
            let flow = &mut self.flows[index];
            let (hosts, deficit) = (flow.hosts, flow.deficit);
            if deficit > 0 {
                return Some((index, true));
            }
            // It is no longer sparse.
            self.new.pop_front();
            if flow.items.is_empty() {
                flow.set = Set::SparseWait;
            } else {
                flow.set = Set::Bulk;
                self.count_bulk(index, true);
            }
            let share = self.share(hosts);
            self.old.push(first, hosts, deficit + share, share);
        }
        if std::mem::take(&mut self.old.stale) {
            self.share_out();
        }
        let flow = self.old.turn()?;
        // Turns come in nearly the same order again. The flow of the farther one leads to the packet of the nearer one.
        self.served[self.next_served] = flow;
        let round_ago = self.next_served + QUEUES - (self.old.flows.len() - self.old.holes);
        store.bring(self.flows[self.served[(round_ago + 1) % QUEUES] as usize].items);
        near::bring(&self.flows[self.served[(round_ago + 2) % QUEUES] as usize]);
        self.next_served = (self.next_served + 1) % QUEUES;
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

    /// The next packet of a flow that COBALT lets pass. The last packet of a queue may be marked, but not dropped.
    fn next_of<P: Packet>(
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

    /// Drops the oldest packet of the flow with the most bytes, the first of several, and tells its BLUE.
    #[cold]
    fn shed<P>(&mut self, now: Nanos, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        let bytes = |index: u32| (self.flows[index as usize].bytes, Reverse(index));
        let active = self.new.iter().copied().chain(self.old.active());
        let Some((_, Reverse(fattest))) = active.map(bytes).max() else { return };
        let fattest = fattest as usize;
        self.flows[fattest].cobalt.queue_full(&self.cobalt, now);
        if let Some(place) = self.pop(fattest, store) {
            store.discard(now, place, DropReason::Overlimit, sink);
        }
    }

    /// A flow that is in no list any more has nothing to send.
    fn is_empty_now(&mut self, index: usize, now: Nanos) {
        let flow = &mut self.flows[index];
        flow.cobalt.queue_empty(&self.cobalt, now);
        let resting = flow.cobalt.at_rest(now);
        let set = if resting { Set::None } else { Set::Decaying };
        if std::mem::replace(&mut flow.set, set) == Set::Bulk {
            self.count_bulk(index, false);
        }
        if !resting {
            self.begin_decay(index as u16);
        }
    }

    /// A flow that was in no list is new.
    #[inline(always)]
    fn begin_sparse(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let hosts = flow.hosts;
        if std::mem::replace(&mut flow.set, Set::Sparse) == Set::Decaying {
            self.end_decay(index as u16);
        }
        self.new.push_back(index as u32);
        self.flows[index].deficit = self.share(hosts);
    }

    /// Looks after the next of the decaying flows.
    #[inline(always)]
    fn turn_decaying(&mut self, now: Nanos) {
        let Some(first) = self.decaying else { return };
        let flow = &self.flows[usize::from(first)];
        if now < flow.cobalt.unchanged_until() {
            self.decaying = Some(flow.after);
        } else {
            self.end_decay(first);
            self.is_empty_now(first.into(), now);
        }
    }

    /// Puts a flow at the end of the ring of decaying flows.
    fn begin_decay(&mut self, index: u16) {
        let first = *self.decaying.get_or_insert(index);
        // Alone it is its own neighbour.
        let last = if first == index { index } else { self.flows[usize::from(first)].before };
        self.flows[usize::from(last)].after = index;
        self.flows[usize::from(first)].before = index;
        let flow = &mut self.flows[usize::from(index)];
        (flow.before, flow.after) = (last, first);
    }

    /// Takes a flow out of the ring, wherever in it it is.
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
            self.shed(now, store, sink);
        }
    }

    fn dequeue(&mut self, now: Nanos, store: &mut Store<P>, sink: &mut dyn Sink<P>) -> Option<Place> {
        if self.packets > 0 {
            self.turn_decaying(now);
        }
        while self.packets > 0 {
            let (index, is_new) = self.turn(store)?;
            let Some(place) = self.next_of(index, now, store, sink) else {
                if is_new {
                    self.new.pop_front();
                } else {
                    self.old.remove_head();
                }
                self.is_empty_now(index, now);
                continue;
            };
            let len = store[place].len;
            // It stays first in its list.
            if is_new {
                self.flows[index].deficit -= cost(len);
            } else {
                self.old.charge(cost(len));
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

    /// The usual packet, such as an acknowledgement beside little else: the only one, and of a flow that may send and has
    /// nothing on its account.
    fn pass(&mut self, now: Nanos, item: &Queued<P>) -> bool {
        let before = match self.new.len() {
            0 => None,
            1 => Some(self.new[0] as usize),
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
        self.turn_decaying(now);
        if let Some(before) = before
            && before != index
        {
            self.new.pop_front();
            self.is_empty_now(before, now);
        }
        let flow = &mut self.flows[index];
        flow.cobalt.let_pass(&self.cobalt, now);
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
