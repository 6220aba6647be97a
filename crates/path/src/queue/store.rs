//! The packets of many queues in one memory, so that places used a moment ago are used again.

use super::Queued;

/// Packets, each linked to the one behind it.
pub(super) struct Store<P> {
    places: Vec<Place<P>>,
    /// First of the free places.
    free: u32,
}

struct Place<P> {
    item: Option<Queued<P>>,
    next: u32,
}

/// A queue in a store.
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
}

impl<P> Store<P> {
    pub(super) fn new() -> Self {
        Store { places: Vec::new(), free: NONE }
    }

    #[inline]
    pub(super) fn push(&mut self, chain: &mut Chain, item: Queued<P>) {
        let index = self.free;
        let index = if let Some(place) = self.places.get_mut(index as usize) {
            self.free = place.next;
            *place = Place { item: Some(item), next: NONE };
            index
        } else {
            self.places.push(Place { item: Some(item), next: NONE });
            self.places.len() as u32 - 1
        };
        if chain.is_empty() {
            chain.first = index;
        } else {
            self.places[chain.last as usize].next = index;
        }
        chain.last = index;
    }

    #[inline]
    pub(super) fn pop(&mut self, chain: &mut Chain) -> Option<Queued<P>> {
        let place = self.places.get_mut(chain.first as usize)?;
        let next = std::mem::replace(&mut place.next, self.free);
        self.free = chain.first;
        chain.first = next;
        place.item.take()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn chains_are_queues(steps in prop::collection::vec((0..4_usize, any::<bool>()), 1..400)) {
            let mut store = Store::new();
            let mut chains = [Chain::EMPTY; 4];
            let mut model: [VecDeque<u64>; 4] = Default::default();
            let mut most = 0;
            for (number, (queue, push)) in (0..).zip(steps) {
                if push {
                    store.push(&mut chains[queue], Queued { packet: (), arrived: number, len: 1 });
                    model[queue].push_back(number);
                } else {
                    let found = store.pop(&mut chains[queue]).map(|item| item.arrived);
                    prop_assert_eq!(found, model[queue].pop_front());
                }
                prop_assert_eq!(chains[queue].is_empty(), model[queue].is_empty());
                most = most.max(model.iter().map(VecDeque::len).sum());
            }
            prop_assert_eq!(store.places.len(), most, "places are used again");
        }
    }
}
