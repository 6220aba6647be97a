//! Named random streams, draws of distributions, and chances decided by integers alone.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::packet::Nanos;

/// The random stream of one purpose at one entity, in one repeat of an experiment.
///
/// The four names are hashed to 64 bits (the seed, then the repeat, then the length and the bytes of `purpose` and of
/// `entity`, each 64-bit word added and mixed by SplitMix64's finaliser), and the generator's 256 bits of state are the
/// next four outputs of SplitMix64 from there, as its authors advise (Blackman and Vigna, "Scrambled Linear
/// Pseudorandom Number Generators"). Streams of different names are independent for every practical purpose: adding a
/// flow or a link shifts nobody else's draws.
pub fn stream(seed: u64, repeat: u32, purpose: &str, entity: &str) -> Xoshiro256PlusPlus {
    let mut state = absorb(absorb(0, seed), u64::from(repeat));
    for name in [purpose, entity] {
        state = absorb(state, name.len() as u64);
        for byte in name.bytes() {
            state = absorb(state, u64::from(byte));
        }
    }
    let mut bytes = [0; 32];
    for word in bytes.chunks_exact_mut(8) {
        state = state.wrapping_add(GOLDEN);
        word.copy_from_slice(&mix(state).to_le_bytes());
    }
    Xoshiro256PlusPlus::from_seed(bytes)
}

/// A probability, decided by one draw and one comparison of integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    /// Probability as a part of 2^63.
    threshold: u64,
}

impl Chance {
    /// A probability in parts per billion; a billion or more always hits.
    pub(crate) fn ppb(ppb: u32) -> Self {
        let ppb = u128::from(ppb.min(1_000_000_000));
        Chance { threshold: ((ppb << 63) / 1_000_000_000) as u64 }
    }

    /// Draws once.
    pub(crate) fn hit(self, random: &mut Xoshiro256PlusPlus) -> bool {
        random.next_u64() >> 1 < self.threshold
    }
}

/// A number in (0, 1].
pub fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A draw of the exponential distribution with this mean, nanoseconds.
pub fn exponential(random: &mut Xoshiro256PlusPlus, mean: Nanos) -> Nanos {
    libm::round(-libm::log(uniform(random)) * mean as f64) as Nanos
}

/// A draw of the Pareto distribution with this mean and shape (above 1, in thousandths), rounded, at least 1.
///
/// Its scale is mean x (shape - 1) / shape.
pub fn pareto(random: &mut Xoshiro256PlusPlus, mean: u64, shape_milli: u32) -> u64 {
    let shape = f64::from(shape_milli) / 1000.0;
    let scale = mean as f64 * (shape - 1.0) / shape;
    // The 64 bits of the draw bound the tail.
    libm::round(scale * libm::pow(uniform(random), -1.0 / shape)).max(1.0) as u64
}

/// SplitMix64's increment, 2^64 divided by the golden ratio (Steele, Lea, Flood 2014).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn absorb(state: u64, word: u64) -> u64 {
    mix(state.wrapping_add(GOLDEN).wrapping_add(word))
}

/// SplitMix64's finaliser.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probability_is_met() {
        let mut random = stream(1, 0, "loss", "bottleneck");
        let hits = (0..1_000_000).filter(|_| Chance::ppb(250_000_000).hit(&mut random)).count();
        // Standard deviation 433.
        assert!(hits.abs_diff(250_000) < 4 * 433, "{hits}");
        assert!((0..1000).all(|_| Chance::ppb(1_000_000_000).hit(&mut random)));
        assert!((0..1000).all(|_| !Chance::ppb(0).hit(&mut random)));
    }

    /// Computed by the plain model in `tests/path/reference/model.py`.
    #[test]
    fn streams_are_pinned() {
        let mut random = stream(1, 0, "loss", "bottleneck");
        let draws = [(); 4].map(|()| random.next_u64());
        let expected = [0x9fb7fef0e5f52370, 0x4319c03ed05a2c7e, 0x2e18ee0585c85813, 0xa6954d943c1dbb23];
        assert_eq!(draws, expected);
        let mut random = stream((1 << 63) + 5, 7, "aqm", "reverse/1");
        assert_eq!([(); 2].map(|()| random.next_u64()), [0x6ac0449caef215b1, 0x46987d8163ad313c]);
    }

    #[test]
    fn draws_have_their_means() {
        let mut random = stream(7, 0, "test", "");
        let mean = |sum: u64| sum / 200_000;
        let exponentials: u64 = (0..200_000).map(|_| exponential(&mut random, 1000)).sum();
        assert!(mean(exponentials).abs_diff(1000) < 12, "{exponentials}");
        // Shape 3 has a variance: 3/4 of the mean squared over 1 x 3, so that 200000 draws are within 1 %.
        let paretos: u64 = (0..200_000).map(|_| pareto(&mut random, 30_000, 3000)).sum();
        assert!(mean(paretos).abs_diff(30_000) < 300, "{paretos}");
        // Nothing below the scale of 20000.
        assert!((0..1000).all(|_| pareto(&mut random, 30_000, 3000) >= 20_000));
    }

    #[test]
    fn every_part_of_a_name_matters() {
        let first = |seed, repeat, purpose, entity| stream(seed, repeat, purpose, entity).next_u64();
        let all = [
            first(1, 0, "loss", "a"),
            first(2, 0, "loss", "a"),
            first(1, 1, "loss", "a"),
            first(1, 0, "aqm", "a"),
            first(1, 0, "loss", "b"),
            first(1, 0, "los", "sa"),
            first(1, 0, "lossa", ""),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b), "stream {i} repeats an earlier one");
        }
    }
}
