//! The way between the two ends of a link: delay and jitter.

use std::sync::LazyLock;

use rand_core::RngCore;

use crate::packet::Nanos;
use crate::{JitterConfig, JitterKind, Xoshiro256PlusPlus};

/// Delay, jitter, and the order of packets.
pub(super) struct Wire {
    pub(super) delay: Nanos,
    jitter: Option<Jitter>,
    /// Latest arrival so far, which none may precede unless the jitter reorders.
    latest: Nanos,
}

impl Wire {
    pub(super) fn new(delay: Nanos, jitter: Option<&JitterConfig>, random: Xoshiro256PlusPlus) -> Self {
        Wire { delay, jitter: jitter.map(|jitter| Jitter::new(jitter, random)), latest: 0 }
    }

    /// Whether the delay varies.
    pub(super) fn jitters(&self) -> bool {
        self.jitter.is_some()
    }

    /// [`Wire::carry`] without jitter, over a delay that never changes: nothing can be overtaken.
    #[inline(always)]
    pub(super) fn carry_steadily(&self, depart: Nanos) -> Nanos {
        debug_assert!(!self.jitters());
        depart + self.delay
    }

    /// Time when a packet that departs at `depart` arrives.
    #[inline]
    pub(super) fn carry(&mut self, depart: Nanos) -> Nanos {
        let at = match &mut self.jitter {
            None => depart + self.delay,
            Some(jitter) => {
                let at = depart + self.delay.saturating_add_signed(jitter.draw());
                if jitter.reorder {
                    return at;
                }
                at
            }
        };
        self.latest = self.latest.max(at);
        self.latest
    }
}

struct Jitter {
    sd: i64,
    reorder: bool,
    /// None: uniform.
    table: Option<Vec<i16>>,
    random: Xoshiro256PlusPlus,
}

impl Jitter {
    fn new(config: &JitterConfig, random: Xoshiro256PlusPlus) -> Self {
        config.check().unwrap_or_else(|why| panic!("{why}"));
        let table = match config.kind {
            JitterKind::Uniform => None,
            JitterKind::Normal => Some(NORMAL.clone()),
            JitterKind::Pareto => Some(PARETO.clone()),
            JitterKind::Table => config.table.clone(),
        };
        Jitter { sd: config.sd_ns as i64, reorder: config.reorder, table, random }
    }

    /// Draws what to add to the delay.
    fn draw(&mut self) -> i64 {
        let draw = self.random.next_u64();
        match &self.table {
            None => scaled(draw, 2 * self.sd as u64) as i64 - self.sd,
            Some(table) => {
                let entry = table[scaled(draw, table.len() as u64) as usize];
                ((i128::from(self.sd) * i128::from(entry)) >> SCALE_LOG) as i64
            }
        }
    }
}

/// `draw` of 2^64 as a number below `n`.
fn scaled(draw: u64, n: u64) -> u64 {
    ((u128::from(draw) * u128::from(n)) >> 64) as u64
}

/// Entries of a table are standard deviations times 2^13, as netem's (NETEM_DIST_SCALE 8192).
const SCALE_LOG: u32 = 13;

/// Quantiles of the standard normal distribution in the middle of 4096 equal parts, the size of iproute2's table.
static NORMAL: LazyLock<Vec<i16>> = LazyLock::new(|| {
    let mut x = -4.0;
    let quantile = |i: u32| {
        let p = (f64::from(i) + 0.5) / 4096.0;
        // Newton's method from the quantile before.
        for _ in 0..20 {
            let below = 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
            let density = libm::exp(-x * x / 2.0) / (2.0 * std::f64::consts::PI).sqrt();
            x -= (below - p) / density;
        }
        entry(x)
    };
    (0..4096).map(quantile).collect()
});

/// Quantiles of a Pareto distribution with shape 3, less its mean and times 4/3, as in iproute2 (netem/pareto.c).
static PARETO: LazyLock<Vec<i16>> = LazyLock::new(|| {
    let quantile = |i: u32| {
        let p = (f64::from(i) + 0.5) / 4096.0;
        entry((libm::cbrt(1.0 / p) - 1.5) * 4.0 / 3.0)
    };
    (0..4096).rev().map(quantile).collect()
});

fn entry(deviations: f64) -> i16 {
    libm::round(deviations * f64::from(1 << SCALE_LOG)).min(f64::from(i16::MAX)) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_sd(table: &[i16]) -> (f64, f64) {
        let n = table.len() as f64;
        let values = || table.iter().map(|&entry| f64::from(entry) / 8192.0);
        let mean = values().sum::<f64>() / n;
        let variance = values().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n;
        (mean, variance.sqrt())
    }

    #[test]
    fn the_normal_table_is_normal() {
        let (mean, sd) = mean_and_sd(&NORMAL);
        assert!(mean.abs() < 1e-3 && (sd - 1.0).abs() < 2e-3, "{mean} {sd}");
        // Quantiles from tables: 84.13 % below 1, 97.725 % below 2.
        for (quantile, expected) in [(0.5, 0.0), (0.841_34, 1.0), (0.977_25, 2.0), (0.001_35, -3.0)] {
            let found = f64::from(NORMAL[(quantile * 4096.0) as usize]) / 8192.0;
            assert!((found - expected).abs() < 0.03, "{quantile}: {found}");
        }
        assert!(NORMAL.is_sorted());
    }

    #[test]
    fn the_pareto_table_has_its_shape() {
        assert!(PARETO.is_sorted());
        let (mean, _) = mean_and_sd(&PARETO);
        // Less than 0: the table is cut at 4 standard deviations.
        assert!((-0.1..0.0).contains(&mean), "{mean}");
        // The median of 1 / u^(1/3) is 2^(1/3).
        let median = f64::from(PARETO[2048]) / 8192.0;
        assert!((median - (1.259_92 - 1.5) * 4.0 / 3.0).abs() < 0.002, "{median}");
    }
}
