//! When each source of events wants to run next: a tournament tree over a fixed set of sources.
//!
//! Sources are numbered in the total order of simultaneous events, so the leftmost of equal times wins and no key but
//! the time is compared. Moving one source costs one comparison per level, and mostly stops early.

use tcp::Nanos;

/// Never.
pub const NEVER: Nanos = Nanos::MAX;

/// The next time of each source, and which is first.
#[derive(Clone, Debug)]
pub struct Agenda {
    times: Vec<Nanos>,
    /// `winner[1]` is the overall winner, `winner[n]` that of the subtree at node n; leaves are implied.
    winner: Vec<u32>,
    leaves: usize,
}

impl Agenda {
    /// An agenda of `sources` sources, none of which wants to run.
    pub fn new(sources: usize) -> Agenda {
        let leaves = sources.next_power_of_two().max(2);
        let mut winner = vec![0; leaves];
        for node in (1..leaves).rev() {
            winner[node] = if node >= leaves / 2 { (2 * node - leaves) as u32 } else { winner[2 * node] };
        }
        Agenda { times: vec![NEVER; leaves], winner, leaves }
    }

    /// When `source` wants to run.
    #[inline]
    pub fn time(&self, source: usize) -> Nanos {
        self.times[source]
    }

    /// Sets when `source` wants to run.
    #[inline]
    pub fn set(&mut self, source: usize, time: Nanos) {
        if self.times[source] == time {
            return;
        }
        self.times[source] = time;
        let mut node = (self.leaves + source) / 2;
        let (left, right) = (source & !1, source | 1);
        let mut best = if self.times[right] < self.times[left] { right } else { left };
        loop {
            let before = self.winner[node] as usize;
            self.winner[node] = best as u32;
            // An unchanged winner whose time did not change settles everything above.
            if before == best && best != source {
                return;
            }
            if node == 1 {
                return;
            }
            let parent = node / 2;
            let sibling = self.winner[node ^ 1] as usize;
            let (left, right) = if node & 1 == 0 { (best, sibling) } else { (sibling, best) };
            best = if self.times[right] < self.times[left] { right } else { left };
            node = parent;
        }
    }

    /// The first source and its time, [`NEVER`] if none wants to run.
    #[inline]
    pub fn first(&self) -> (Nanos, usize) {
        let source = self.winner[1] as usize;
        (self.times[source], source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_leftmost_of_the_earliest(
            sources in 1usize..40,
            moves in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(0u64..10)), 1..200),
        ) {
            let mut agenda = Agenda::new(sources);
            let mut model = vec![NEVER; sources];
            for (index, time) in moves {
                let source = index.index(sources);
                let time = time.unwrap_or(NEVER);
                agenda.set(source, time);
                model[source] = time;
                let earliest = *model.iter().min().unwrap();
                let leftmost = model.iter().position(|&t| t == earliest).unwrap();
                prop_assert_eq!(agenda.first(), (earliest, leftmost));
            }
        }
    }
}
