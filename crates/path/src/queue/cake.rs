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
    pub memlimit_bytes: u64,
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
    /// What looking for a flow's queue asks of eight at a time, apart from the rest of their `flows`.
    owners: Vec<Owner>,
    sets: Vec<Set>,
    new: VecDeque<u32>,
    old: Round,
    /// Whose turn it was last in the rotation: a ring, and the place of the next in it.
    served: Vec<u32>,
    next_served: usize,
    decaying: List,
    /// Bulk flows of each sending and receiving host.
    src_bulk: Vec<u32>,
    dst_bulk: Vec<u32>,
    perturbation: u32,
    random: Xoshiro256PlusPlus,
}

// One cache line.
#[repr(align(64))]
struct Flow {
    items: Chain,
    bytes: u64,
    cobalt: Cobalt,
    /// What it may still send; of a flow in the rotation it is there.
    deficit: Credit,
}

/// What a flow may send, in units of 2^-14 bytes: the debt of a packet of 64 KiB fits.
type Credit = i32;

/// What sending so many bytes takes of it.
fn cost(bytes: u32) -> Credit {
    bytes.saturating_mul(1 << 14).min(i32::MAX as u32) as Credit
}

/// The flow that has a queue.
#[derive(Clone, Copy, Default)]
struct Owner {
    /// Its hash.
    tag: u32,
    hosts: Hosts,
}

/// Between which hosts it goes.
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
        let flow = || Flow { items: Chain::EMPTY, bytes: 0, cobalt: Cobalt::default(), deficit: 0 };
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
            memory_limit: config.memlimit_bytes,
            memory: 0,
            bytes: 0,
            packets: 0,
            flows: (0..QUEUES).map(|_| flow()).collect(),
            owners: vec![Owner::default(); QUEUES],
            sets: vec![Set::None; QUEUES],
            new: VecDeque::with_capacity(QUEUES),
            old: Round::default(),
            served: vec![0; QUEUES],
            next_served: 0,
            decaying: List::new(),
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
        let first = place - place % WAYS;
        let ways = || (0..WAYS).map(|way| first + (place + way) % WAYS);
        let hosts = Hosts { src: packet.src(), dst: packet.dst() };
        if let Some(index) = ways().find(|&index| self.owners[index].tag == hash) {
            if self.sets[index] == Set::None {
                self.owners[index].hosts = hosts;
            }
            return index;
        }
        let index = ways().find(|&index| self.sets[index] == Set::None).unwrap_or(place);
        let is_bulk = self.sets[index] == Set::Bulk;
        if is_bulk {
            self.count_bulk(index, false);
        }
        self.owners[index] = Owner { tag: hash, hosts };
        if matches!(self.sets[index], Set::Bulk | Set::SparseWait) {
            // The rotation may be of one pair of hosts no longer, and this flow's share has changed.
            (self.old.hosts, self.old.stale) = (None, true);
        }
        if is_bulk {
            self.count_bulk(index, true);
        }
        index
    }

    /// Counts a flow among the bulk flows of its hosts, or no longer.
    fn count_bulk(&mut self, index: usize, more: bool) {
        let Hosts { src, dst } = self.owners[index].hosts;
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
    fn share_out(&mut self) {
        let mut old = std::mem::take(&mut self.old);
        if let Some(hosts) = old.hosts {
            old.shares.fill(self.share(hosts));
        } else {
            for (&flow, share) in old.flows.iter().zip(&mut old.shares) {
                *share = self.share(self.owners[flow as usize].hosts);
            }
        }
        self.old = old;
    }

    /// The flow that may send now and whether it is new.
    fn turn<P>(&mut self, store: &Store<P>) -> Option<(usize, bool)> {
        while let Some(&first) = self.new.front() {
            let index = first as usize;
            if self.flows[index].deficit > 0 {
                return Some((index, true));
            }
            // It is no longer sparse.
            self.new.pop_front();
            if self.flows[index].items.is_empty() {
                self.sets[index] = Set::SparseWait;
            } else {
                self.sets[index] = Set::Bulk;
                self.count_bulk(index, true);
            }
            let hosts = self.owners[index].hosts;
            let share = self.share(hosts);
            self.old.push(first, hosts, self.flows[index].deficit + share, share);
        }
        if std::mem::take(&mut self.old.stale) {
            self.share_out();
        }
        let flow = self.old.turn()?;
        // Turns come in nearly the same order again. The flow of the farther one leads to the packet of the nearer one.
        self.served[self.next_served] = flow;
        let round_ago = self.next_served + QUEUES - self.old.flows.len();
        store.bring(self.flows[self.served[(round_ago + 1) % QUEUES] as usize].items);
        near::bring(&self.flows[self.served[(round_ago + 2) % QUEUES] as usize]);
        self.next_served = (self.next_served + 1) % QUEUES;
        Some((flow as usize, false))
    }

    fn pop<P>(&mut self, index: usize, store: &mut Store<P>) -> Option<Place> {
        let flow = &mut self.flows[index];
        let place = store.pop(&mut flow.items)?;
        let len = store[place].len;
        flow.bytes -= u64::from(len);
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
    fn shed<P>(&mut self, now: Nanos, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        let bytes = |index: u32| (self.flows[index as usize].bytes, Reverse(index));
        let active = self.new.iter().copied().chain(self.old.flows.iter().copied());
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
        if std::mem::replace(&mut self.sets[index], set) == Set::Bulk {
            self.count_bulk(index, false);
        }
        if !resting {
            self.decaying.push(index as u32, self.flows[index].cobalt.unchanged_until());
        }
    }
}

/// The rotation of bulk flows: the flow at `head` is next, the one before it last. Deficits and shares, which are looked at
/// often and many at a time, lie together.
#[derive(Default)]
struct Round {
    flows: Vec<u32>,
    /// Between which all of them go; none: they do not.
    hosts: Option<Hosts>,
    deficits: Vec<Credit>,
    shares: Vec<Credit>,
    head: usize,
    /// A host's number of bulk flows has changed, and the shares have not.
    stale: bool,
}

/// Deficits that are looked at together.
const STEP: usize = 8;

impl Round {
    fn push(&mut self, flow: u32, hosts: Hosts, deficit: Credit, share: Credit) {
        if self.flows.is_empty() {
            self.hosts = Some(hosts);
        } else if self.hosts != Some(hosts) {
            self.hosts = None;
        }
        let place = if self.head == 0 { self.flows.len() } else { self.head };
        self.flows.insert(place, flow);
        self.deficits.insert(place, deficit);
        self.shares.insert(place, share);
        if self.head > 0 {
            self.head += 1;
        }
    }

    fn remove_head(&mut self) {
        self.flows.remove(self.head);
        self.deficits.remove(self.head);
        self.shares.remove(self.head);
        if self.head == self.flows.len() {
            self.head = 0;
        }
    }

    /// Gives flows their share, one after the other, until one may send. With many flows of one host that takes a whole
    /// round for every packet.
    fn turn(&mut self) -> Option<u32> {
        if self.flows.is_empty() {
            return None;
        }
        loop {
            let mut next = self.head;
            let (deficits, _) = self.deficits[next..].as_chunks_mut::<STEP>();
            let (shares, _) = self.shares[next..].as_chunks::<STEP>();
            for (deficits, shares) in deficits.iter_mut().zip(shares) {
                if any_positive(deficits) {
                    break;
                }
                // Copies, so that one addition can do several.
                let (before, shares) = (*deficits, *shares);
                *deficits = array::from_fn(|place| before[place] + shares[place]);
                next += STEP;
            }
            let found = self.deficits[next..].iter().position(|&deficit| deficit > 0);
            let passed = next..found.map_or(self.deficits.len(), |places| next + places);
            for (deficit, share) in self.deficits[passed.clone()].iter_mut().zip(&self.shares[passed.clone()])
            {
                *deficit += share;
            }
            if found.is_some() {
                self.head = passed.end;
                return Some(self.flows[self.head]);
            }
            self.head = 0;
        }
    }
}

/// Looks at all, which several at a time is sooner done than up to the first.
fn any_positive(deficits: &[Credit; STEP]) -> bool {
    deficits.iter().fold(false, |any, &deficit| any | (deficit > 0))
}

/// The list of decaying flows, which they may leave in the middle. It is a ring, as it is turned at every packet, and lies apart
/// from the flows for the same reason.
struct List {
    first: u32,
    links: Vec<Link>,
}

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
    /// Until then nothing changes about the flow.
    until: Nanos,
}

const NONE: u32 = u32::MAX;

impl List {
    fn new() -> Self {
        let link = Link { before: NONE, after: NONE, until: 0 };
        List { first: NONE, links: vec![link; QUEUES] }
    }

    fn push(&mut self, index: u32, until: Nanos) {
        let Some(first) = self.links.get_mut(self.first as usize) else {
            self.links[index as usize] = Link { before: index, after: index, until };
            self.first = index;
            return;
        };
        let last = std::mem::replace(&mut first.before, index);
        self.links[last as usize].after = index;
        self.links[index as usize] = Link { before: last, after: self.first, until };
    }

    fn remove(&mut self, index: u32) {
        let Link { before, after, .. } = self.links[index as usize];
        self.links[before as usize].after = after;
        self.links[after as usize].before = before;
        if self.first == index {
            self.first = if after == index { NONE } else { after };
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
        flow.bytes += u64::from(len);
        self.bytes += u64::from(len);
        self.packets += 1;
        self.memory += truesize(len);
        store.push(&mut flow.items, place);
        match self.sets[index] {
            set @ (Set::None | Set::Decaying) => {
                if set == Set::Decaying {
                    self.decaying.remove(index as u32);
                }
                self.new.push_back(index as u32);
                let share = self.share(self.owners[index].hosts);
                self.sets[index] = Set::Sparse;
                self.flows[index].deficit = share;
            }
            Set::SparseWait => {
                self.sets[index] = Set::Bulk;
                self.count_bulk(index, true);
            }
            Set::Sparse | Set::Bulk => (),
        }
        while self.memory > self.memory_limit {
            self.shed(now, store, sink);
        }
    }

    fn dequeue(&mut self, now: Nanos, store: &mut Store<P>, sink: &mut dyn Sink<P>) -> Option<Place> {
        if self.packets > 0
            && let first = self.decaying.first
            && let Some(link) = self.decaying.links.get(first as usize)
        {
            if now < link.until {
                self.decaying.first = link.after;
            } else {
                self.decaying.remove(first);
                self.is_empty_now(first as usize, now);
            }
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
            let deficit =
                if is_new { &mut self.flows[index].deficit } else { &mut self.old.deficits[self.old.head] };
            *deficit -= cost(len);
            if self.per_byte > 0 {
                let time = (u64::from(len) * self.per_byte) >> self.shift;
                self.time_next += time;
                self.failsafe_next += time + time / 2;
            }
            return Some(place);
        }
        None
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

    fn queue_empty(&mut self, params: &Params, now: Nanos) {
        if self.blue > 0 && now - self.blue_moved > params.target {
            self.blue = self.blue.saturating_sub(BLUE_DOWN);
            self.blue_moved = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.set_count(self.count - 1);
            self.drop_next = self.control(params, self.drop_next);
        }
    }

    /// Until when [`Cobalt::queue_empty`] would change nothing, nor the queue be at rest.
    fn unchanged_until(&self) -> Nanos {
        if self.blue == 0 && self.count == 0 { self.drop_next } else { 0 }
    }

    fn at_rest(&self, now: Nanos) -> bool {
        self.blue == 0 && self.count == 0 && now >= self.drop_next
    }

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
