//! A sorted set of disjoint half-open ranges of u64, for reassembly queues and SACK scoreboards.

use std::collections::VecDeque;

/// Disjoint, non-adjacent ranges in ascending order. Finding is a binary search; inserting at either end moves
/// nothing; memory starts at zero and grows with the number of ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    ranges: VecDeque<(u64, u64)>,
    covered: u64,
}

impl RangeSet {
    /// An empty set.
    pub const fn new() -> RangeSet {
        RangeSet { ranges: VecDeque::new(), covered: 0 }
    }

    /// Adds `start..end` and calls `new` with each maximal subrange, ascending, that was not in the set before.
    /// Returns how many values are new. An empty range adds nothing.
    pub fn insert(&mut self, start: u64, end: u64, mut new: impl FnMut(u64, u64)) -> u64 {
        if start >= end {
            return 0;
        }
        // The run of ranges that touch or overlap the new one.
        let first = match self.ranges.back() {
            None => 0,
            Some(&(_, last_end)) if last_end < start => self.ranges.len(),
            Some(_) => self.ranges.partition_point(|&(_, e)| e < start),
        };
        let mut at = start;
        let mut added = 0;
        let mut merged = (start, end);
        let mut touched = first;
        while let Some(&(s, e)) = self.ranges.get(touched) {
            if s > end {
                break;
            }
            if at < s {
                new(at, s);
                added += s - at;
            }
            at = at.max(e);
            merged = (merged.0.min(s), merged.1.max(e));
            touched += 1;
        }
        if at < end {
            new(at, end);
            added += end - at;
        }
        match touched - first {
            0 => self.ranges.insert(first, merged),
            _ => {
                self.ranges[first] = merged;
                if touched - first > 1 {
                    self.ranges.drain(first + 1..touched);
                }
            }
        }
        self.covered += added;
        added
    }

    /// Removes everything below `bound`.
    pub fn remove_below(&mut self, bound: u64) {
        while let Some(front) = self.ranges.front_mut() {
            if front.1 <= bound {
                self.covered -= front.1 - front.0;
                self.ranges.pop_front();
            } else {
                if front.0 < bound {
                    self.covered -= bound - front.0;
                    front.0 = bound;
                }
                break;
            }
        }
    }

    /// The range that contains `value`, if any.
    pub fn containing(&self, value: u64) -> Option<(u64, u64)> {
        let index = self.ranges.partition_point(|&(_, e)| e <= value);
        self.ranges.get(index).copied().filter(|&(s, _)| s <= value)
    }

    /// The first range that has values of `start..end`, if any.
    pub fn overlapping(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        // Most often all ranges lie below.
        if self.ranges.back().is_none_or(|&(_, e)| e <= start) {
            return None;
        }
        let index = self.ranges.partition_point(|&(_, e)| e <= start);
        self.ranges.get(index).copied().filter(|&(s, _)| s < end)
    }

    /// Whether `value` is in the set.
    pub fn contains(&self, value: u64) -> bool {
        self.containing(value).is_some()
    }

    /// Number of values of `start..end` that are in the set.
    pub fn covered_within(&self, start: u64, end: u64) -> u64 {
        let mut index = self.ranges.partition_point(|&(_, e)| e <= start);
        let mut sum = 0;
        while let Some(&(s, e)) = self.ranges.get(index) {
            if s >= end {
                break;
            }
            sum += e.min(end) - s.max(start);
            index += 1;
        }
        sum
    }

    /// The first range.
    #[inline]
    pub fn first(&self) -> Option<(u64, u64)> {
        self.ranges.front().copied()
    }

    /// The last range.
    #[inline]
    pub fn last(&self) -> Option<(u64, u64)> {
        self.ranges.back().copied()
    }

    /// The last range where it lies, to be prefetched.
    #[inline]
    pub fn highest(&self) -> Option<&(u64, u64)> {
        self.ranges.back()
    }

    /// The range at `index` in ascending order.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(u64, u64)> {
        self.ranges.get(index).copied()
    }

    /// All ranges, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().copied()
    }

    /// Number of ranges.
    #[inline]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of values in the set.
    #[inline]
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.covered = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn inserted(set: &mut RangeSet, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut new = Vec::new();
        set.insert(start, end, |s, e| new.push((s, e)));
        new
    }

    #[test]
    fn insert_reports_only_what_is_new() {
        let mut set = RangeSet::new();
        assert_eq!(inserted(&mut set, 10, 20), [(10, 20)]);
        assert_eq!(inserted(&mut set, 30, 40), [(30, 40)]);
        assert_eq!(inserted(&mut set, 5, 35), [(5, 10), (20, 30)]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [(5, 40)]);
        assert_eq!(inserted(&mut set, 5, 40), []);
        assert_eq!(set.covered(), 35);
    }

    #[test]
    fn adjacent_ranges_merge() {
        let mut set = RangeSet::new();
        inserted(&mut set, 0, 1);
        inserted(&mut set, 2, 3);
        inserted(&mut set, 1, 2);
        assert_eq!(set.iter().collect::<Vec<_>>(), [(0, 3)]);
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_integers(ops in prop::collection::vec((0u64..60, 0u64..20, any::<bool>()), 1..60)) {
            let mut set = RangeSet::new();
            let mut model = BTreeSet::new();
            for (start, length, remove) in ops {
                if remove {
                    set.remove_below(start);
                    model = model.split_off(&start);
                } else {
                    let new: Vec<u64> = inserted(&mut set, start, start + length)
                        .into_iter().flat_map(|(s, e)| s..e).collect();
                    let wanted: Vec<u64> = (start..start + length).filter(|v| !model.contains(v)).collect();
                    prop_assert_eq!(new, wanted);
                    model.extend(start..start + length);
                }
                prop_assert_eq!(set.iter().flat_map(|(s, e)| s..e).collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(set.covered(), model.len() as u64);
                for ((_, end), (next, _)) in set.iter().zip(set.iter().skip(1)) {
                    prop_assert!(end < next, "ranges stay disjoint and not adjacent");
                }
                prop_assert_eq!(set.covered_within(10, 30), model.range(10..30).count() as u64);
                prop_assert_eq!(set.contains(15), model.contains(&15));
                let overlap = set.iter().find(|&(s, e)| e > 10 && s < 30);
                prop_assert_eq!(set.overlapping(10, 30), overlap);
            }
        }
    }
}
