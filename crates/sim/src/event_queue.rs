//! Times when each source of events wants to run next: tournament trees over a fixed set of sources.
//!
//! Sources are numbered in the total order of simultaneous events, so the leftmost of equal times wins and no key but
//! the time is compared. Arrivals, which are most events, have a tree of their own, and so have the timers of either end of
//! connections, so that the engine can tell what comes next at one of them. Moving one source costs one comparison of eight
//! per level, and mostly stops early.

use contract::ids::{ConnectionId, FlowId, HostId, LinkId};
use tcp::Nanos;

/// Never.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// A source of events. The order of the variants is that of simultaneous events: arrival < transport timer <
/// application < sampler; within one, the number decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// A stepped link starts a transmission. What it puts out arrives later or in an event of its own.
    Service(LinkId),
    /// A segment reaches a host's NIC from its egress.
    Egress(HostId),
    /// A packet reaches the far end of a link.
    Arrival(LinkId),
    /// An interrupt comes to a host, or a packet reaches its stack some time after it reached its NIC.
    Ingress(HostId),
    /// A connection's timer.
    Timer(ConnectionId),
    /// A packet has left a host's NIC, and a connection waits for that.
    Departure(HostId),
    /// Batched links take in the packets that wait to enter them and start the transmissions that are due.
    CatchUp,
    /// A pause frame takes effect.
    Pause,
    /// A round of an incast begins.
    Round(u32),
    /// A flow's application starts, stops or wants a turn.
    App(FlowId),
    /// The schedule changes a link.
    Change,
    /// Samples of connections are due.
    SampleTcp,
    /// Samples of queues are due.
    SampleQueue,
    /// A second is over.
    Second,
    /// The measurement window begins or ends.
    Window,
}

/// Sources of events in a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Links that are stepped.
    pub services: Vec<bool>,
    /// Links at whose far end packets arrive as events.
    pub arrivals: Vec<bool>,
    /// Hosts with something between stack and NIC.
    pub egresses: Vec<bool>,
    /// Hosts with something between NIC and stack.
    pub ingresses: Vec<bool>,
    /// Number of connections.
    pub timers: usize,
    /// Hosts whose NIC is watched.
    pub departures: Vec<bool>,
    /// Number of groups of incasts.
    pub rounds: usize,
    /// Number of flows.
    pub apps: usize,
}

/// The next time of every source, and which is first. Rare sources have a tree of their own, of which the usual one
/// only sees the first.
#[derive(Clone, Debug)]
pub(crate) struct EventQueue {
    arriving: Tree,
    arriving_sources: Vec<Source>,
    usual: Tree,
    /// Timers of opening and of accepting connections.
    timers_by_side: [Tree; 2],
    /// Leaves of the usual tree from here on come after arrivals of the same time.
    after_arrivals: usize,
    /// Leaves from here on come after timers of the same time.
    after_timers: usize,
    rare: Tree,
    /// The source at each leaf of the usual tree; the last leaf stands for the rare tree.
    usual_sources: Vec<Source>,
    rare_sources: Vec<Source>,
    services: Vec<u32>,
    egresses: Vec<u32>,
    arrivals: Vec<u32>,
    ingresses: Vec<u32>,
    /// Times of the timers.
    timers: Vec<Nanos>,
    departures: Vec<u32>,
}

/// The leaf of a source that a run does not have.
const NO_LEAF: u32 = u32::MAX;

impl EventQueue {
    /// A queue in which no source wants to run.
    pub(crate) fn new(sources: &Sources) -> EventQueue {
        let mut usual_sources = Vec::new();
        let mut arriving_sources = Vec::new();
        let services = add_leaves(&mut usual_sources, &sources.services, |n| Source::Service(LinkId(n)));
        let egresses =
            add_leaves(&mut usual_sources, &sources.egresses, |n| Source::Egress(HostId(n as u16)));
        let after_arrivals = usual_sources.len();
        let arrivals = add_leaves(&mut arriving_sources, &sources.arrivals, |n| Source::Arrival(LinkId(n)));
        let ingresses =
            add_leaves(&mut usual_sources, &sources.ingresses, |n| Source::Ingress(HostId(n as u16)));
        let after_timers = usual_sources.len();
        let departures =
            add_leaves(&mut usual_sources, &sources.departures, |n| Source::Departure(HostId(n as u16)));
        let mut rare_sources = vec![Source::CatchUp, Source::Pause];
        rare_sources.extend((0..sources.rounds as u32).map(Source::Round));
        rare_sources.extend((0..sources.apps as u32).map(|n| Source::App(FlowId(n))));
        rare_sources.extend([
            Source::Change,
            Source::SampleTcp,
            Source::SampleQueue,
            Source::Second,
            Source::Window,
        ]);
        EventQueue {
            arriving: Tree::new(arriving_sources.len()),
            arriving_sources,
            usual: Tree::new(usual_sources.len() + 1),
            timers_by_side: [Tree::new(sources.timers.div_ceil(2)), Tree::new(sources.timers / 2)],
            after_arrivals,
            after_timers,
            rare: Tree::new(rare_sources.len()),
            usual_sources,
            rare_sources,
            services,
            egresses,
            arrivals,
            ingresses,
            timers: vec![NEVER; sources.timers],
            departures,
        }
    }

    /// The first source and its time; the time is [`NEVER`] if none wants to run.
    #[inline]
    pub(crate) fn first(&self) -> (Nanos, Source) {
        let (arrival, arriving) = self.arriving.first();
        let (timer, connection) = self.first_timer();
        let (time, leaf) = self.usual.first();
        let is_timer = timer < time || timer == time && timer < NEVER && leaf >= self.after_timers;
        let time = if is_timer { timer } else { time };
        if (arrival < time || arrival == time && (is_timer || leaf >= self.after_arrivals))
            && let Some(&source) = self.arriving_sources.get(arriving)
        {
            return (arrival, source);
        }
        if is_timer {
            return (timer, Source::Timer(ConnectionId(connection as u32)));
        }
        match self.usual_sources.get(leaf) {
            Some(&source) => (time, source),
            None => (time, self.rare_sources[self.rare.first().1]),
        }
    }

    /// The first timer, and of which connection.
    #[inline]
    fn first_timer(&self) -> (Nanos, usize) {
        let (opening, first) = self.timers_by_side[0].first();
        let (accepting, second) = self.timers_by_side[1].first();
        (opening, 2 * first).min((accepting, 2 * second + 1))
    }

    /// The connection whose timer is next, if any timer is set.
    #[inline]
    pub(crate) fn next_timer(&self) -> ConnectionId {
        ConnectionId(self.first_timer().1 as u32)
    }

    /// The next time of all but arrivals and the timers of a side that does not matter.
    #[inline]
    pub(crate) fn first_other(&self, matters: [bool; 2]) -> Nanos {
        let mut first = self.usual.first().0;
        for (tree, matters) in self.timers_by_side.iter().zip(matters) {
            if matters {
                first = first.min(tree.first().0);
            }
        }
        first
    }

    /// Time when the next packet arrives at the far end of a link.
    #[inline]
    pub(crate) fn arrival(&self, link: LinkId) -> Nanos {
        self.arriving.time(self.arrivals[link.index()] as usize)
    }

    /// Sets when a link's service wants to run.
    #[inline]
    pub(crate) fn set_service(&mut self, link: LinkId, time: Nanos) {
        self.usual.set(self.services[link.index()] as usize, time);
    }

    /// Sets when the next packet arrives at the far end of a link.
    #[inline]
    pub(crate) fn set_arrival(&mut self, link: LinkId, time: Nanos) {
        self.arriving.set(self.arrivals[link.index()] as usize, time);
    }

    /// Sets when a segment reaches a host's NIC from its egress.
    pub(crate) fn set_egress(&mut self, host: HostId, time: Nanos) {
        self.usual.set(self.egresses[host.index()] as usize, time);
    }

    /// Sets when something happens at a host's ingress.
    pub(crate) fn set_ingress(&mut self, host: HostId, time: Nanos) {
        self.usual.set(self.ingresses[host.index()] as usize, time);
    }

    /// Time that a connection's timer is set to.
    #[inline]
    pub(crate) fn timer(&self, connection: ConnectionId) -> Nanos {
        self.timers[connection.index()]
    }

    /// Sets a connection's timer.
    #[inline]
    pub(crate) fn set_timer(&mut self, connection: ConnectionId, time: Nanos) {
        self.timers[connection.index()] = time;
        self.timers_by_side[connection.side() as usize].set(connection.flow().index(), time);
    }

    /// A connection's timer has fired. It may be set again, and else is to be settled before the next event.
    #[inline]
    pub(crate) fn fire_timer(&mut self, connection: ConnectionId) {
        self.timers[connection.index()] = NEVER;
    }

    /// Takes a timer that has fired out of the queue, unless it was set again.
    #[inline]
    pub(crate) fn settle_timer(&mut self, connection: ConnectionId) {
        if self.timer(connection) == NEVER {
            self.set_timer(connection, NEVER);
        }
    }

    /// Time until which a host waits for its NIC.
    pub(crate) fn departure(&self, host: HostId) -> Nanos {
        self.usual.time(self.departures[host.index()] as usize)
    }

    /// Sets when a host waits for its NIC.
    pub(crate) fn set_departure(&mut self, host: HostId, time: Nanos) {
        self.usual.set(self.departures[host.index()] as usize, time);
    }

    /// Sets when a rare source wants to run: an application, a change, a sampler.
    ///
    /// # Panics
    /// If the source is not a rare one.
    pub(crate) fn set_occasional(&mut self, source: Source, time: Nanos) {
        let leaf = self.rare_sources.binary_search(&source).expect("a rare source");
        self.rare.set(leaf, time);
        self.usual.set(self.usual_sources.len(), self.rare.first().0);
    }
}

/// Adds to `sources` those that are `present`; the leaf of each.
fn add_leaves(sources: &mut Vec<Source>, present: &[bool], source: fn(u32) -> Source) -> Vec<u32> {
    let mut leaves = Vec::new();
    for (number, &present) in (0u32..).zip(present) {
        leaves.push(if present { sources.len() as u32 } else { NO_LEAF });
        if present {
            sources.push(source(number));
        }
    }
    leaves
}

/// The next time of each leaf, and which is first: a tournament of eight at a time, so that a run of few sources is
/// one comparison of eight values without a branch.
#[derive(Clone, Debug)]
struct Tree {
    /// The sources themselves.
    leaves: Vec<Node>,
    /// Entry n of a level is the winner of node n of the level below; the last level has one node. None where there
    /// are few leaves.
    levels: Vec<Vec<Node>>,
}

/// Eight entries. A time and a place are one number, so that of equal times the leftmost is the least.
#[derive(Clone, Copy, Debug)]
struct Node {
    keys: [u64; WIDTH],
    /// The least of the keys.
    first: u64,
}

const WIDTH: usize = 8;
const PLACE_BITS: u32 = WIDTH.trailing_zeros();
const PLACE: u64 = WIDTH as u64 - 1;
/// Keys hold times up to this one (73 years), which stands for [`NEVER`].
const LATEST: Nanos = NEVER >> PLACE_BITS;

#[inline(always)]
fn time_of(key: u64) -> Nanos {
    let time = key >> PLACE_BITS;
    if time == LATEST { NEVER } else { time }
}

impl Node {
    fn new() -> Node {
        let mut keys = [0; WIDTH];
        for (place, key) in (0..).zip(&mut keys) {
            *key = LATEST << PLACE_BITS | place;
        }
        Node { keys, first: keys[0] }
    }

    /// Sets the time of one; false if that leaves the winner and its time as they are.
    #[inline(always)]
    fn set(&mut self, place: usize, time: Nanos) -> bool {
        let key = time.min(LATEST) << PLACE_BITS | place as u64;
        self.keys[place] = key;
        if key <= self.first {
            self.first = key;
        } else if place as u64 == self.first & PLACE {
            self.find_first();
        } else {
            return false;
        }
        true
    }

    /// Finds the winner again.
    #[inline(always)]
    fn find_first(&mut self) {
        let [a, b, c, d, e, f, g, h] = self.keys;
        self.first = a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)));
    }

    #[inline(always)]
    fn winner(&self) -> usize {
        (self.first & PLACE) as usize
    }
}

impl Tree {
    fn new(count: usize) -> Tree {
        let mut width = count.div_ceil(WIDTH).max(1);
        let leaves = vec![Node::new(); width];
        let mut levels = Vec::new();
        while width > 1 {
            width = width.div_ceil(WIDTH);
            levels.push(vec![Node::new(); width]);
        }
        Tree { leaves, levels }
    }

    #[inline]
    fn time(&self, leaf: usize) -> Nanos {
        time_of(self.leaves[leaf / WIDTH].keys[leaf % WIDTH])
    }

    #[inline]
    fn set(&mut self, leaf: usize, time: Nanos) {
        let entry = leaf / WIDTH;
        let node = &mut self.leaves[entry];
        if node.set(leaf % WIDTH, time) && !self.levels.is_empty() {
            let time = time_of(node.first);
            self.raise(entry, time);
        }
    }

    /// The winner of a node of leaves, or its time, has changed: so may those of the levels above.
    #[inline(never)]
    fn raise(&mut self, mut entry: usize, mut time: Nanos) {
        for level in &mut self.levels {
            let node = &mut level[entry / WIDTH];
            if !node.set(entry % WIDTH, time) {
                return;
            }
            entry /= WIDTH;
            time = time_of(node.first);
        }
    }

    #[inline]
    fn first(&self) -> (Nanos, usize) {
        let mut entry = 0;
        for level in self.levels.iter().rev() {
            entry = entry * WIDTH + level[entry].winner();
        }
        let node = &self.leaves[entry];
        (time_of(node.first), entry * WIDTH + node.winner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn simultaneous_events_have_their_order() {
        let mut queue = EventQueue::new(&Sources {
            services: vec![false, true],
            arrivals: vec![true, true],
            timers: 2,
            egresses: vec![true],
            ingresses: vec![true],
            departures: vec![true],
            rounds: 1,
            apps: 1,
        });
        queue.set_occasional(Source::Window, 5);
        queue.set_occasional(Source::App(FlowId(0)), 5);
        queue.set_departure(HostId(0), 5);
        queue.set_timer(ConnectionId(1), 5);
        queue.set_timer(ConnectionId(0), 5);
        queue.set_occasional(Source::Round(0), 5);
        queue.set_occasional(Source::Pause, 5);
        queue.set_ingress(HostId(0), 5);
        queue.set_egress(HostId(0), 5);
        queue.set_arrival(LinkId(1), 5);
        queue.set_service(LinkId(1), 5);
        let mut order = Vec::new();
        while let (5, source) = queue.first() {
            order.push(source);
            match source {
                Source::Service(link) => queue.set_service(link, NEVER),
                Source::Egress(host) => queue.set_egress(host, NEVER),
                Source::Arrival(link) => queue.set_arrival(link, NEVER),
                Source::Ingress(host) => queue.set_ingress(host, NEVER),
                Source::Timer(connection) => queue.set_timer(connection, NEVER),
                Source::Departure(host) => queue.set_departure(host, NEVER),
                rare => queue.set_occasional(rare, NEVER),
            }
        }
        let expected = [
            Source::Service(LinkId(1)),
            Source::Egress(HostId(0)),
            Source::Arrival(LinkId(1)),
            Source::Ingress(HostId(0)),
            Source::Timer(ConnectionId(0)),
            Source::Timer(ConnectionId(1)),
            Source::Departure(HostId(0)),
            Source::Pause,
            Source::Round(0),
            Source::App(FlowId(0)),
            Source::Window,
        ];
        assert_eq!(order, expected);
    }

    proptest! {
        #[test]
        fn the_first_is_the_leftmost_of_the_earliest(
            leaves in 1usize..600,
            moves in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(0u64..10)), 1..200),
        ) {
            let mut tree = Tree::new(leaves);
            let mut model = vec![NEVER; leaves];
            for (index, time) in moves {
                let leaf = index.index(leaves);
                let time = time.unwrap_or(NEVER);
                tree.set(leaf, time);
                model[leaf] = time;
                let earliest = *model.iter().min().unwrap();
                let leftmost = model.iter().position(|&t| t == earliest).unwrap();
                prop_assert_eq!(tree.first(), (earliest, leftmost));
            }
        }
    }
}
