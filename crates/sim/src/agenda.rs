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
    /// A complete binary tree: node 1 is the root, node n has the children 2n and 2n + 1, the last half are leaves. Each
    /// holds the first of its leaves: (time, source).
    nodes: Vec<(Nanos, u32)>,
}

impl Agenda {
    /// An agenda of `sources` sources, none of which wants to run.
    pub fn new(sources: usize) -> Agenda {
        let leaves = sources.next_power_of_two().max(2);
        let mut nodes = vec![(NEVER, 0); 2 * leaves];
        for (source, leaf) in nodes[leaves..].iter_mut().enumerate() {
            leaf.1 = source as u32;
        }
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node];
        }
        Agenda { nodes }
    }

    /// When `source` wants to run.
    #[inline]
    pub fn time(&self, source: usize) -> Nanos {
        self.nodes[self.nodes.len() / 2 + source].0
    }

    /// Sets when `source` wants to run.
    #[inline]
    pub fn set(&mut self, source: usize, time: Nanos) {
        let nodes = &mut self.nodes[..];
        let mut node = nodes.len() / 2 + source;
        if nodes[node].0 == time {
            return;
        }
        nodes[node].0 = time;
        while node > 1 {
            let (left, right) = (nodes[node & !1], nodes[node | 1]);
            let first = if right.0 < left.0 { right } else { left };
            node /= 2;
            if nodes[node] == first {
                return;
            }
            nodes[node] = first;
        }
    }

    /// The first source and its time, [`NEVER`] if none wants to run.
    #[inline]
    pub fn first(&self) -> (Nanos, usize) {
        let (time, source) = self.nodes[1];
        (time, source as usize)
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
