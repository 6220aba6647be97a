//! Rates, and the largest of numbers, over a stretch of time up to now.

use std::collections::VecDeque;

use crate::Nanos;

/// Bytes of a stretch of time, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    length: Nanos,
    seen: VecDeque<(Nanos, u64)>,
    sum: u64,
}

impl Recent {
    /// Bytes not older than `length`.
    pub(super) fn new(length: Nanos) -> Recent {
        Recent { length, ..Recent::default() }
    }

    /// Adds bytes.
    pub(super) fn add(&mut self, now: Nanos, bytes: u64) {
        self.seen.push_back((now, bytes));
        self.sum += bytes;
        self.forget(now);
    }

    /// Leaves out what is too old at `now`.
    pub(super) fn forget(&mut self, now: Nanos) {
        while let Some(&(at, bytes)) = self.seen.front()
            && at + self.length <= now
        {
            self.seen.pop_front();
            self.sum -= bytes;
        }
    }

    /// Their rate over the whole stretch, bit/s.
    pub(super) fn bps(&self) -> f64 {
        self.sum as f64 * 8e9 / self.length as f64
    }
}

/// The largest number of a stretch of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Largest {
    length: Nanos,
    /// Numbers that may still become the largest: later ones are smaller.
    candidates: VecDeque<(Nanos, u64)>,
}

impl Largest {
    /// The largest number not older than `length`.
    pub(super) fn new(length: Nanos) -> Largest {
        Largest { length, candidates: VecDeque::new() }
    }

    /// Adds a number; returns the largest.
    pub(super) fn add(&mut self, now: Nanos, number: u64) -> u64 {
        while self.candidates.back().is_some_and(|&(_, smaller)| smaller <= number) {
            self.candidates.pop_back();
        }
        self.candidates.push_back((now, number));
        while self.candidates.front().is_some_and(|&(at, _)| at + self.length <= now) {
            self.candidates.pop_front();
        }
        self.candidates.front().map_or(number, |&(_, largest)| largest)
    }

    /// The largest as of the last one that was added; 0 if there was none.
    pub(super) fn value(&self) -> u64 {
        self.candidates.front().map_or(0, |&(_, largest)| largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_is_left_out() {
        let second = 1_000_000_000;
        let mut rate = Recent::new(second);
        rate.add(0, 125);
        rate.add(second / 2, 250);
        assert_eq!(rate.bps(), 3000.0);
        rate.forget(second);
        assert_eq!(rate.bps(), 2000.0);
    }

    #[test]
    fn the_largest_of_a_time_is_known() {
        let mut largest = Largest::new(10);
        let found: Vec<u64> =
            [(0, 5), (2, 3), (4, 4), (10, 1), (14, 0)].map(|(at, n)| largest.add(at, n)).to_vec();
        assert_eq!(found, [5, 5, 5, 4, 1]);
        assert_eq!(largest.value(), 1);
    }
}
