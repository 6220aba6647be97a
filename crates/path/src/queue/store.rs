//! The packets of a link's queues, in one list of memory places. A packet stays in its place until it leaves; disciplines handle
//! places.

use std::ops::{Index, IndexMut};

use super::{Queued, Sink};
use crate::packet::{DropReason, Nanos};
use crate::prefetch;

/// The place of a packet in a [`Store`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// Packets, each linked to the one behind it in its queue. The place that became free last is used first: it is in the cache.
pub struct Store<P> {
    nodes: Vec<Node<P>>,
    /// First of the free places.
    free: u32,
}

struct Node<P> {
    item: Option<Queued<P>>,
    next: u32,
}

/// A queue of packets in a store, as a linked list.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;

impl Chain {
    pub(super) const EMPTY: Chain = Chain { first: NONE, last: NONE };

    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }

    pub(super) fn first(self) -> Option<Place> {
        (!self.is_empty()).then_some(Place(self.first))
    }
}

impl<P> Default for Store<P> {
    fn default() -> Self {
        Store { nodes: Vec::new(), free: NONE }
    }
}

impl<P> Store<P> {
    /// Adds a packet, which is in no queue yet.
    #[inline(always)]
    pub(crate) fn put(&mut self, item: Queued<P>) -> Place {
        let place = self.free;
        if let Some(node) = self.nodes.get_mut(place as usize) {
            self.free = node.next;
            node.item = Some(item);
            return Place(place);
        }
        self.nodes.push(Node { item: Some(item), next: NONE });
        Place(self.nodes.len() as u32 - 1)
    }

    /// Removes a packet that is in no queue any more.
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    pub(crate) fn take(&mut self, place: Place) -> Queued<P> {
        let node = &mut self.nodes[place.0 as usize];
        node.next = std::mem::replace(&mut self.free, place.0);
        node.item.take().expect("a packet is there")
    }

    /// Drops a packet that is in no queue.
    #[cold]
    pub(super) fn discard(&mut self, now: Nanos, place: Place, why: DropReason, sink: &mut dyn Sink<P>) {
        sink.dropped(now, &self.take(place).packet, why);
    }

    /// Puts a packet at the end of a queue.
    #[inline]
    pub(super) fn push(&mut self, chain: &mut Chain, place: Place) {
        self.nodes[place.0 as usize].next = NONE;
        if chain.is_empty() {
            chain.first = place.0;
        } else {
            self.nodes[chain.last as usize].next = place.0;
        }
        chain.last = place.0;
    }

    /// Puts a packet into a queue behind those that arrived no later.
    #[inline]
    pub(super) fn push_by_arrival(&mut self, chain: &mut Chain, place: Place) {
        let arrived = self[place].arrived;
        if chain.is_empty() || self[Place(chain.last)].arrived <= arrived {
            self.push(chain, place);
            return;
        }
        let (mut before, mut next) = (None, chain.first);
        while self[Place(next)].arrived <= arrived {
            before = Some(next);
            next = self.nodes[next as usize].next;
        }
        self.nodes[place.0 as usize].next = next;
        match before {
            Some(before) => self.nodes[before as usize].next = place.0,
            None => chain.first = place.0,
        }
    }

    /// Takes the first packet out of a queue.
    #[inline]
    pub(super) fn pop(&mut self, chain: &mut Chain) -> Option<Place> {
        let first = chain.first()?;
        chain.first = self.nodes[first.0 as usize].next;
        Some(first)
    }

    /// Prefetches the first packet of a queue.
    #[inline]
    pub(super) fn prefetch_first(&self, chain: Chain) {
        if let Some(node) = self.nodes.get(chain.first as usize) {
            prefetch(node);
        }
    }
}

impl<P> Index<Place> for Store<P> {
    type Output = Queued<P>;

    #[inline(always)]
    fn index(&self, place: Place) -> &Queued<P> {
        self.nodes[place.0 as usize].item.as_ref().expect("a packet is there")
    }
}

impl<P> IndexMut<Place> for Store<P> {
    #[inline(always)]
    fn index_mut(&mut self, place: Place) -> &mut Queued<P> {
        self.nodes[place.0 as usize].item.as_mut().expect("a packet is there")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

    use super::*;

    /// Draws one of four queues, and whether a packet goes into it or comes out.
    fn steps() -> impl Strategy<Value = Vec<(usize, bool)>> {
        prop::collection::vec((0..4_usize, any::<bool>()), 1..400)
    }

    type Pop = fn(&mut Store<()>, &mut Chain) -> Option<Place>;

    fn are_queues(steps: Vec<(usize, bool)>, pop: Pop) -> Result<(), TestCaseError> {
        let mut store = Store::default();
        let mut chains = [Chain::EMPTY; 4];
        let mut model: [VecDeque<u64>; 4] = Default::default();
        let mut most = 0;
        for (number, (queue, push)) in (0..).zip(steps) {
            if push {
                let place = store.put(Queued { packet: (), arrived: number, len: 1 });
                prop_assert_eq!(store[place].arrived, number);
                store.push(&mut chains[queue], place);
                model[queue].push_back(number);
            } else {
                let found = pop(&mut store, &mut chains[queue]).map(|place| store.take(place).arrived);
                prop_assert_eq!(found, model[queue].pop_front());
            }
            let first = chains[queue].first().map(|place| store[place].arrived);
            prop_assert_eq!(first, model[queue].front().copied());
            prop_assert_eq!(chains[queue].is_empty(), model[queue].is_empty());
            most = most.max(model.iter().map(VecDeque::len).sum());
        }
        prop_assert_eq!(store.nodes.len(), most, "places are used again");
        Ok(())
    }

    proptest! {
        #[test]
        fn chains_are_queues(steps in steps()) {
            are_queues(steps, Store::pop)?;
        }
    }

    #[test]
    fn what_arrived_earlier_stands_before() {
        let mut store = Store::default();
        let mut chain = Chain::EMPTY;
        for (number, arrived) in [5, 9, 7, 1, 9, 7].into_iter().enumerate() {
            let place = store.put(Queued { packet: number, arrived, len: 1 });
            store.push_by_arrival(&mut chain, place);
        }
        let mut order = Vec::new();
        while let Some(place) = store.pop(&mut chain) {
            order.push(store.take(place).packet);
        }
        assert_eq!(order, [3, 0, 2, 5, 1, 4]);
    }

    /// Takes the last packet instead of the first.
    fn pop_last(store: &mut Store<()>, chain: &mut Chain) -> Option<Place> {
        let mut rest = Chain::EMPTY;
        loop {
            let place = store.pop(chain)?;
            if chain.is_empty() {
                *chain = rest;
                return Some(place);
            }
            store.push(&mut rest, place);
        }
    }

    #[test]
    fn the_property_sees_a_stack() {
        let config = Config { failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
        let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let found =
            TestRunner::new_with_rng(config, random).run(&steps(), |steps| are_queues(steps, pop_last));
        assert!(matches!(found, Err(TestError::Fail(..))), "{found:?}");
    }
}
