//! A distribution of times in bounded memory: exact extremes and mean, percentiles within a known relative error.

use units::Nanos;

use crate::summary::{TimeMetrics, Times};

/// Values are kept in units of 2^10 ns; below that their order does not matter to any metric.
const UNIT_BITS: u32 = 10;

/// Counts in buckets of constant relative width, from the octave of the smallest value to that of the largest: most flows
/// see times of few octaves. It lies in one cache line: with many flows each value finds it far away.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Histogram {
    mantissa_bits: u32,
    /// The bucket of the first count: the first of an octave.
    first: u32,
    counts: Vec<u32>,
    sum: u128,
    min: Nanos,
    max: Nanos,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Histogram>() == 64);

impl Histogram {
    /// A histogram whose percentiles are within 2^-(mantissa_bits + 1) of the truth, or 1.024 us.
    pub fn new(mantissa_bits: u32) -> Histogram {
        Histogram { mantissa_bits, first: 0, counts: Vec::new(), sum: 0, min: Nanos::MAX, max: 0 }
    }

    /// Adds a value.
    #[inline(always)]
    pub fn add(&mut self, value: Nanos) {
        let bucket = self.bucket(value >> UNIT_BITS);
        match self.counts.get_mut(bucket.wrapping_sub(self.first as usize)) {
            Some(count) => *count += 1,
            None => self.grow(bucket),
        }
        self.sum += u128::from(value);
        // Extremes change rarely: not stored each time.
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
    }

    /// The count that adding `value` will raise, to be prefetched.
    #[inline]
    pub fn count_of(&self, value: Nanos) -> Option<&u32> {
        self.counts.get(self.bucket(value >> UNIT_BITS).wrapping_sub(self.first as usize))
    }

    /// Counts a first value in an octave.
    #[cold]
    fn grow(&mut self, bucket: usize) {
        let octave = bucket >> self.mantissa_bits << self.mantissa_bits;
        self.cover(octave, octave + (1 << self.mantissa_bits));
        self.counts[bucket - self.first as usize] = 1;
    }

    /// Makes room for the buckets `from..to`, whole octaves, and for all between them and those there are.
    fn cover(&mut self, from: usize, to: usize) {
        let first = if self.counts.is_empty() { from } else { self.first as usize };
        let (from, to) = (from.min(first), to.max(first + self.counts.len()));
        let mut counts = Vec::with_capacity(to - from);
        counts.resize(first - from, 0);
        counts.append(&mut self.counts);
        counts.resize(to - from, 0);
        self.counts = counts;
        self.first = from as u32;
    }

    /// Adds the values of another histogram of the same precision.
    pub fn merge(&mut self, other: &Histogram) {
        debug_assert_eq!(self.mantissa_bits, other.mantissa_bits);
        if !other.counts.is_empty() {
            let from = other.first as usize;
            self.cover(from, from + other.counts.len());
        }
        let behind = other.first.saturating_sub(self.first) as usize;
        for (count, more) in self.counts.iter_mut().skip(behind).zip(&other.counts) {
            *count += more;
        }
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Number of values that were added.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// Smallest value. None without values.
    pub fn min(&self) -> Option<Nanos> {
        (!self.is_empty()).then_some(self.min)
    }

    /// Largest value. None without values.
    pub fn max(&self) -> Option<Nanos> {
        (!self.is_empty()).then_some(self.max)
    }

    /// Mean, rounded down. None without values.
    pub fn mean(&self) -> Option<Nanos> {
        (!self.is_empty()).then(|| (self.sum / u128::from(self.count())) as Nanos)
    }

    /// The smallest value that at least `permille` thousandths of the values do not exceed (nearest rank), as the
    /// middle of its bucket, clipped to the extremes. None without values.
    pub fn quantile(&self, permille: u64) -> Option<Nanos> {
        if self.is_empty() {
            return None;
        }
        let rank = (self.count() * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bucket, &count) in (self.first as usize..).zip(&self.counts) {
            seen += u64::from(count);
            if seen >= rank {
                return Some(self.middle(bucket).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }

    /// The distribution as summaries have it.
    pub fn metrics(&self) -> Times {
        let metrics = || {
            Some(TimeMetrics {
                min_ns: self.min()?,
                mean_ns: self.mean()?,
                p50_ns: self.quantile(500)?,
                p95_ns: self.quantile(950)?,
                max_ns: self.max()?,
            })
        };
        Times { count: self.count(), metrics: metrics() }
    }

    /// Whether no value was added: of one, the minimum is not beyond the maximum.
    fn is_empty(&self) -> bool {
        self.min > self.max
    }

    #[inline]
    fn bucket(&self, units: u64) -> usize {
        let bits = self.mantissa_bits;
        let exponent = (u64::BITS - units.leading_zeros()).saturating_sub(bits + 1);
        ((u64::from(exponent) << bits) + (units >> exponent)) as usize
    }

    fn middle(&self, bucket: usize) -> Nanos {
        let bits = self.mantissa_bits;
        let bucket = bucket as u64;
        let exponent = (bucket >> bits).saturating_sub(1);
        let low = (bucket - (exponent << bits)) << exponent;
        (low << UNIT_BITS) + ((1u64 << exponent) << UNIT_BITS) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Draws times of any octave.
    fn times() -> impl Strategy<Value = Nanos> {
        (0u32..40, any::<Nanos>()).prop_map(|(bits, value)| value >> (63 - bits))
    }

    #[test]
    fn an_empty_histogram_has_no_metrics() {
        let histogram = Histogram::new(10);
        assert_eq!((histogram.min(), histogram.mean(), histogram.quantile(500)), (None, None, None));
    }

    #[test]
    fn times_of_two_octaves_take_counts_of_two() {
        let mut histogram = Histogram::new(7);
        (50..90).for_each(|ms| histogram.add(ms * 1_000_000));
        assert_eq!(histogram.counts.capacity(), 2 << 7);
    }

    proptest! {
        #[test]
        fn merging_is_adding_all(a in prop::collection::vec(times(), 0..30), b in prop::collection::vec(times(), 0..30)) {
            let of = |values: &[Nanos]| {
                let mut histogram = Histogram::new(7);
                values.iter().for_each(|&v| histogram.add(v));
                histogram
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged.metrics(), of(&[a, b].concat()).metrics());
        }

        #[test]
        fn quantiles_are_within_the_promised_error(mut values in prop::collection::vec(0u64..10_000_000_000, 1..300), permille in 1u64..=1000) {
            let mut histogram = Histogram::new(10);
            values.iter().for_each(|&v| histogram.add(v));
            values.sort_unstable();
            let rank = (values.len() as u64 * permille).div_ceil(1000) as usize;
            let exact = values[rank - 1];
            let found = histogram.quantile(permille).unwrap();
            prop_assert!(found.abs_diff(exact) <= exact / 1024 + 1024, "{} for {}", found, exact);
            prop_assert_eq!(histogram.min(), values.first().copied());
            prop_assert_eq!(histogram.max(), values.last().copied());
        }
    }
}
