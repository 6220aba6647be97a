//! CAKE (Høiland-Jørgensen, Täht, Morton 2018) with one tin, as Linux carries it out (net/sched/sch_cake.c): a shaper
//! without bursts, host and flow fairness, and COBALT, which is CoDel with BLUE, for each flow.
//!
//! Linux rounds a flow's share of a round at random to whole bytes; here the fraction is kept, which is what that comes to.
//!
//! Not modelled: diffserv tins, ACK filter, ingress mode, splitting of super-packets (there are none here), and
//! collisions between hosts.

use std::array;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::Range;

use rand_core::RngCore;
use serde::{Deserialize, Serialize};

use super::drr::truesize;
use super::store::{Chain, Place, Store};
use super::{Param, Qdisc, QueueKind, Queued, Sink, Site, mark};
use crate::packet::{DropReason, Nanos, Packet};
use crate::{Xoshiro256PlusPlus, near};

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

/// What a flow may send, in units of 2^-14 bytes: the debt of a packet of 64 KiB fits.
type Credit = i32;

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

/// The rotation of bulk flows: the first from `head` on is next, the last before it last. What is looked at often and of many
/// flows lies together.
#[derive(Default)]
struct Round {
    /// [`NONE`] where a flow has left a hole.
    flows: Vec<u32>,
    holes: usize,
    /// What each may still send, but for what `alike` adds; [`Credit::MIN`] in holes.
    deficits: Credits,
    /// The most that any of a group of `deficits` has, unless flows have `shares`.
    tops: Credits,
    /// Set as long as all go between the same hosts.
    alike: Option<Alike>,
    /// What each gets at its turn when it has nothing left to send, unless that is alike; nothing in holes.
    shares: Vec<Credit>,
    head: usize,
    /// A host's number of bulk flows has changed, and the shares have not.
    stale: bool,
}

/// What flows between the same hosts get. It is not written to each: flows that the round has still to pass have `got` on top
/// of their deficits, and those that it has passed one share more.
struct Alike {
    hosts: Hosts,
    share: Credit,
    got: Credit,
}

const NONE: u32 = u32::MAX;

/// As much may be unwritten: with it and the debt of a packet of 64 KiB, a deficit still fits.
const UNWRITTEN: Credit = 1 << 29;

/// A hole is looked for so far before `head`.
const NEAR: usize = 32;

impl Round {
    fn active(&self) -> impl Iterator<Item = u32> {
        self.flows.iter().copied().filter(|&flow| flow != NONE)
    }

    fn push(&mut self, flow: u32, hosts: Hosts, deficit: Credit, share: Credit) {
        if self.flows.len() == self.holes {
            *self = Round { alike: Some(Alike { hosts, share, got: 0 }), ..self.emptied() };
        } else if self.alike.as_ref().is_some_and(|alike| alike.hosts != hosts) {
            self.take_apart();
        }
        let place = self.make_room();
        self.flows[place] = flow;
        if let Some(alike) = &self.alike {
            let passed = if place < self.head { alike.share } else { 0 };
            self.set_deficit(place, deficit - alike.got - passed);
        } else {
            self.deficits.values[place] = deficit;
            self.shares[place] = share;
        }
        if self.head == self.flows.len() {
            self.wrap();
        }
    }

    /// A hole that is last in the rotation.
    fn make_room(&mut self) -> usize {
        if self.flows[self.head..].first() == Some(&NONE) {
            self.holes -= 1;
            self.head += 1;
            return self.head - 1;
        }
        let from = self.head.saturating_sub(NEAR);
        if let Some(hole) = self.flows[from..self.head].iter().rposition(|&flow| flow == NONE) {
            let hole = from + hole;
            let passed = hole + 1..self.head;
            self.flows.copy_within(passed.clone(), hole);
            self.deficits.values.copy_within(passed.clone(), hole);
            if self.alike.is_some() {
                self.see_tops(hole / GROUP..self.head.div_ceil(GROUP));
            } else {
                self.shares.copy_within(passed, hole);
            }
            self.holes -= 1;
            return self.head - 1;
        }
        self.close_holes();
        let place = if self.head == 0 { self.flows.len() } else { self.head };
        self.flows.insert(place, NONE);
        self.deficits.insert(place, Credit::MIN);
        if self.alike.is_some() {
            self.see_all_tops();
        } else {
            self.shares.insert(place, 0);
        }
        if self.head > 0 {
            self.head += 1;
        }
        place
    }

    /// Leaves a hole.
    fn remove_head(&mut self) {
        self.flows[self.head] = NONE;
        self.holes += 1;
        if self.alike.is_none() {
            self.shares[self.head] = 0;
        }
        self.set_deficit(self.head, Credit::MIN);
    }

    fn close_holes(&mut self) {
        if self.holes == 0 {
            return;
        }
        let mut kept = 0;
        let mut head = 0;
        for place in 0..self.flows.len() {
            if place == self.head {
                head = kept;
            }
            if self.flows[place] != NONE {
                self.flows[kept] = self.flows[place];
                self.deficits.values[kept] = self.deficits.values[place];
                if self.alike.is_none() {
                    self.shares[kept] = self.shares[place];
                }
                kept += 1;
            }
        }
        self.holes = 0;
        self.flows.truncate(kept);
        self.deficits.truncate(kept);
        if self.alike.is_none() {
            self.shares.truncate(kept);
        }
        self.head = head;
        if head == kept {
            self.wrap();
        }
    }

    /// Its memory, without flows.
    fn emptied(&mut self) -> Round {
        let mut round = std::mem::take(self);
        round.flows.clear();
        round.deficits.truncate(0);
        round.tops.truncate(0);
        round.shares.clear();
        Round { holes: 0, head: 0, ..round }
    }

    /// Goes on with the first flow.
    fn wrap(&mut self) {
        self.head = 0;
        if let Some(alike) = &mut self.alike {
            alike.got += alike.share;
            if alike.got > UNWRITTEN {
                let got = std::mem::take(&mut alike.got);
                self.add(self.flows.len(), got);
            }
        }
    }

    /// The next flow has sent something.
    fn charge(&mut self, cost: Credit) {
        self.set_deficit(self.head, self.deficits.values[self.head] - cost);
    }

    fn set_deficit(&mut self, place: usize, deficit: Credit) {
        if self.alike.is_some() {
            // Read before it is written: both at once would have to wait for the writing.
            let group = &self.deficits.groups()[place / GROUP];
            self.tops.values[place / GROUP] = most_but(group, place % GROUP).max(deficit);
        }
        self.deficits.values[place] = deficit;
    }

    /// Gives all flows the share that they have now.
    fn share_out(&mut self, share_of: impl Fn(u32) -> Credit) {
        if let Some(alike) = &mut self.alike {
            let Some(&flow) = self.flows.iter().find(|&&flow| flow != NONE) else { return };
            let before = std::mem::replace(&mut alike.share, share_of(flow));
            let change = before - alike.share;
            self.add(self.head, change);
            return;
        }
        for (&flow, share) in self.flows.iter().zip(&mut self.shares) {
            *share = if flow == NONE { 0 } else { share_of(flow) };
        }
    }

    /// Adds to the first flows' deficits.
    fn add(&mut self, flows: usize, credit: Credit) {
        let (groups, _) = self.deficits.values.as_chunks_mut::<GROUP>();
        let groups = groups[..flows.div_ceil(GROUP)].iter_mut().zip(&mut self.tops.values);
        for (first, (group, top)) in (0..).step_by(GROUP).zip(groups) {
            let before = *group;
            *group = array::from_fn(|place| {
                let to_all = if first + place < flows { credit } else { 0 };
                if before[place] == Credit::MIN { Credit::MIN } else { before[place] + to_all }
            });
            *top = most(group);
        }
    }

    /// Lets each flow have a share of its own.
    fn take_apart(&mut self) {
        if let Some(Alike { share, got, .. }) = self.alike {
            self.add(self.flows.len(), got);
            self.add(self.head, share);
            self.alike = None;
            self.shares.clear();
            self.shares.extend(self.flows.iter().map(|&flow| if flow == NONE { 0 } else { share }));
        }
    }

    fn see_all_tops(&mut self) {
        let groups = self.deficits.groups().len();
        self.tops.resize(groups);
        self.see_tops(0..groups);
    }

    /// Deficits of these groups have changed.
    fn see_tops(&mut self, groups: Range<usize>) {
        for (group, top) in self.deficits.groups()[groups.clone()].iter().zip(&mut self.tops.values[groups]) {
            *top = most(group);
        }
    }

    /// Gives flows their share, one after the other, until one may send. With many flows of one host that takes a whole
    /// round for every packet.
    fn turn(&mut self) -> Option<u32> {
        if self.flows.len() == self.holes {
            return None;
        }
        loop {
            let found = match &self.alike {
                Some(alike) => self.first_above(-alike.got),
                None => self.pass(),
            };
            if let Some(place) = found {
                self.head = place;
                return Some(self.flows[place]);
            }
            self.wrap();
        }
    }

    /// The first flow from the next on that has more than `least`.
    #[inline]
    fn first_above(&self, least: Credit) -> Option<usize> {
        let near = self.deficits.find_in_group(self.head, least);
        near.or_else(|| {
            let group = self.tops.find(self.head / GROUP + 1, least)?;
            self.deficits.find_in_group(group * GROUP, least)
        })
    }

    /// Gives the next flows their own shares, up to the first that may send.
    fn pass(&mut self) -> Option<usize> {
        let found = self.deficits.find(self.head, 0);
        let passed = self.head..found.unwrap_or(self.flows.len());
        for (deficit, share) in self.deficits.values[passed.clone()].iter_mut().zip(&self.shares[passed]) {
            *deficit += share;
        }
        found
    }
}

/// Credits of which several are looked at together.
#[derive(Default)]
struct Credits {
    count: usize,
    /// Filled up to whole groups with the least there is.
    values: Vec<Credit>,
}

/// So many.
const GROUP: usize = 8;

impl Credits {
    fn insert(&mut self, place: usize, credit: Credit) {
        self.values.insert(place, credit);
        self.resize(self.count + 1);
    }

    fn truncate(&mut self, count: usize) {
        self.values.truncate(count);
        self.resize(count);
    }

    fn resize(&mut self, count: usize) {
        self.count = count;
        self.values.resize(count.next_multiple_of(GROUP), Credit::MIN);
    }

    fn groups(&self) -> &[[Credit; GROUP]] {
        self.values.as_chunks().0
    }

    /// The first from `place` on that is more than `least`.
    #[inline]
    fn find(&self, place: usize, least: Credit) -> Option<usize> {
        self.find_in_group(place, least).or_else(|| {
            let first = place / GROUP + 1;
            let coming = self.groups().get(first..)?.iter();
            coming.zip(first..).find_map(|(group, number)| {
                let above = above(group, least);
                (above != 0).then(|| number * GROUP + above.trailing_zeros() as usize)
            })
        })
    }

    /// The first from `place` to the end of its group that is more than `least`.
    #[inline]
    fn find_in_group(&self, place: usize, least: Credit) -> Option<usize> {
        let above = above(self.groups().get(place / GROUP)?, least) >> (place % GROUP);
        (above != 0).then(|| place + above.trailing_zeros() as usize)
    }
}

/// Which of a group are more than `least`, a bit for each.
#[cfg(target_arch = "x86_64")]
#[inline]
fn above(group: &[Credit; GROUP], least: Credit) -> u32 {
    use std::arch::x86_64::{
        _mm_castsi128_ps, _mm_cmpgt_epi32, _mm_movemask_ps, _mm_set_epi32, _mm_set1_epi32,
    };
    let &[a, b, c, d, e, f, g, h] = group;
    // All at once, which the compiler does not find itself.
    // SAFETY: every x86-64 has SSE2.
    let (low, high) = unsafe {
        let least = _mm_set1_epi32(least);
        let low = _mm_cmpgt_epi32(_mm_set_epi32(d, c, b, a), least);
        let high = _mm_cmpgt_epi32(_mm_set_epi32(h, g, f, e), least);
        (_mm_movemask_ps(_mm_castsi128_ps(low)), _mm_movemask_ps(_mm_castsi128_ps(high)))
    };
    (low | high << 4) as u32
}

/// Which of a group are more than `least`, a bit for each.
#[cfg(not(target_arch = "x86_64"))]
fn above(group: &[Credit; GROUP], least: Credit) -> u32 {
    group.iter().rev().fold(0, |bits, &credit| bits << 1 | u32::from(credit > least))
}

/// The most that any of a group has but for one.
#[inline]
fn most_but(group: &[Credit; GROUP], one: usize) -> Credit {
    let others =
        group.iter().enumerate().map(|(place, &credit)| if place == one { Credit::MIN } else { credit });
    others.fold(Credit::MIN, Credit::max)
}

/// The most that any of a group has.
#[inline]
fn most(group: &[Credit; GROUP]) -> Credit {
    group.iter().fold(Credit::MIN, |most, &credit| most.max(credit))
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

/// What does not change of COBALT.
struct Params {
    interval: Nanos,
    target: Nanos,
    /// Time that a packet of the MTU takes.
    mtu_time: Nanos,
}

impl Params {
    fn new(rtt: Nanos, mtu_time: Nanos) -> Self {
        let wanted = (rtt / 20).max(1);
        let target = wanted.max(mtu_time * 3 / 2);
        Params { interval: (rtt + target - wanted).max(target * 2), target, mtu_time }
    }
}

/// BLUE's step up, of 2^32: 1 / 256.
const BLUE_UP: u32 = 1 << 24;
/// BLUE's step down, of 2^32: 1 / 4096.
const BLUE_DOWN: u32 = 1 << 20;

/// COBALT's state of one flow. As in Linux, a queue that was never used starts with an `inverse_sqrt` of zero: its first
/// drop follows at once on its first packet above the target.
#[derive(Default)]
struct Cobalt {
    /// CoDel's count, which decays when the queue is good instead of starting again.
    count: u32,
    /// 1 / sqrt(count), of 2^32.
    inverse_sqrt: u32,
    drop_next: Nanos,
    dropping: bool,
    /// When BLUE last moved.
    blue_moved: Nanos,
    /// BLUE's drop probability, of 2^32.
    blue: u32,
}

impl Cobalt {
    fn queue_full(&mut self, params: &Params, now: Nanos) {
        if now - self.blue_moved > params.target {
            self.blue = self.blue.saturating_add(BLUE_UP);
            self.blue_moved = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    #[inline]
    fn queue_empty(&mut self, params: &Params, now: Nanos) {
        if self.blue > 0 && now - self.blue_moved > params.target {
            self.blue = self.blue.saturating_sub(BLUE_DOWN);
            self.blue_moved = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.relax(params);
        }
    }

    #[inline(never)]
    fn relax(&mut self, params: &Params) {
        self.set_count(self.count - 1);
        self.drop_next = self.control(params, self.drop_next);
    }

    /// Until when [`Cobalt::queue_empty`] would change nothing, nor the queue be at rest.
    fn unchanged_until(&self) -> Nanos {
        if self.is_idle() { self.drop_next } else { 0 }
    }

    fn at_rest(&self, now: Nanos) -> bool {
        self.is_idle() && now >= self.drop_next
    }

    /// Whether neither CoDel nor BLUE has anything to do unless a packet is late.
    #[inline]
    fn is_idle(&self) -> bool {
        self.count | self.blue == 0
    }

    /// A packet that is not late while it [`Cobalt::is_idle`].
    #[inline]
    fn let_pass(&mut self, params: &Params, now: Nanos) {
        self.dropping = false;
        self.drop_next = now + params.interval;
    }

    #[inline]
    fn should_drop<P: Packet>(
        &mut self,
        params: &Params,
        now: Nanos,
        item: &mut Queued<P>,
        random: &mut Xoshiro256PlusPlus,
        sink: &mut dyn Sink<P>,
    ) -> bool {
        let sojourn = now - item.arrived;
        let over_target = sojourn > params.target && sojourn > 4 * params.mtu_time;
        if !over_target && self.is_idle() {
            self.let_pass(params, now);
            return false;
        }
        self.control_queue(params, now, over_target, item, random, sink)
    }

    #[inline(never)]
    fn control_queue<P: Packet>(
        &mut self,
        params: &Params,
        now: Nanos,
        over_target: bool,
        item: &mut Queued<P>,
        random: &mut Xoshiro256PlusPlus,
        sink: &mut dyn Sink<P>,
    ) -> bool {
        let mut late = now.checked_sub(self.drop_next);
        let mut due = self.count > 0 && late.is_some();
        let mut drop = false;
        if over_target {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.control(params, now);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        if due && self.dropping {
            drop = !mark(now, &mut item.packet, sink);
            self.set_count(self.count.saturating_add(1));
            self.drop_next = self.control(params, self.drop_next);
            late = now.checked_sub(self.drop_next);
        } else {
            while due {
                self.set_count(self.count - 1);
                self.drop_next = self.control(params, self.drop_next);
                late = now.checked_sub(self.drop_next);
                due = self.count > 0 && late.is_some();
            }
        }
        // BLUE drops ECN-capable packets too.
        if self.blue > 0 && !drop {
            drop = ((random.next_u64() >> 32) as u32) < self.blue;
        }
        if self.count == 0 {
            self.drop_next = now + params.interval;
        } else if late.is_some_and(|late| late > 0) && !drop {
            self.drop_next = now;
        }
        drop
    }

    fn control(&self, params: &Params, time: Nanos) -> Nanos {
        time + ((u128::from(params.interval) * u128::from(self.inverse_sqrt)) >> 32) as Nanos
    }

    /// Small counts have their exact root, large ones a step of Newton's method from the one before.
    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.inverse_sqrt = match count {
            0 | 1 => u32::MAX,
            2..16 => ((1_u128 << 64) / u128::from(count)).isqrt() as u32,
            _ => {
                let x = u64::from(self.inverse_sqrt);
                let bracket = (3_u64 << 32).wrapping_sub(u64::from(count).wrapping_mul((x * x) >> 32)) >> 2;
                (bracket.wrapping_mul(x) >> 31) as u32
            }
        };
    }
}
