//! Rule of the sizes and intervals of datagrams, and of the sizes of transfers: a distribution, or the numbers of a file.

use params::{ParamError, Value};
use path::{exponential, pareto, uniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Numbers of a file at most.
const MAX_LISTED: usize = 1_000_000;

/// Distribution of bytes or nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Draws {
    /// Always the same.
    Constant {
        /// The number.
        value: u64,
    },
    /// Uniform: every number between two is as likely.
    Uniform {
        /// The smallest.
        low: u64,
        /// The largest.
        high: u64,
    },
    /// Exponential.
    Exponential {
        /// The mean.
        mean: u64,
    },
    /// Normal, cut off at 0.
    Normal {
        /// The mean.
        mean: u64,
        /// The standard deviation.
        deviation: u64,
    },
    /// Lognormal.
    Lognormal {
        /// The mean, of the numbers and not of their logarithms.
        mean: u64,
        /// The standard deviation, of the numbers and not of their logarithms.
        deviation: u64,
    },
    /// Pareto.
    Pareto {
        /// The mean.
        mean: u64,
        /// The shape, in thousandths, above 1000.
        shape_milli: u32,
    },
    /// The largest-extreme-value distribution (Gumbel), as games are described by.
    Extreme {
        /// The most likely number.
        mode: u64,
        /// The scale.
        scale: u64,
    },
    /// Numbers of a list, one after the other, and again from the first.
    List {
        /// The numbers.
        values: Vec<u64>,
    },
}

impl Draws {
    /// Checks the numbers of the parameter that is the Scenario's `field`.
    ///
    /// # Errors
    /// What was found, and what is allowed.
    pub fn check(&self, field: &str) -> Result<(), ParamError> {
        let wrong = |found: String, expected: &str| Err(ParamError::new(field, found, expected));
        match *self {
            Draws::Uniform { low, high } if low > high => {
                wrong(format!("{low} to {high}"), "the smaller one first")
            }
            Draws::Constant { value: 0 }
            | Draws::Uniform { high: 0, .. }
            | Draws::Exponential { mean: 0 }
            | Draws::Normal { mean: 0, .. }
            | Draws::Lognormal { mean: 0, .. }
            | Draws::Pareto { mean: 0, .. } => wrong("0".to_owned(), "above 0"),
            Draws::Extreme { mode: 0, scale: 0 } => wrong("0".to_owned(), "above 0"),
            Draws::Pareto { shape_milli, .. } if shape_milli <= 1000 => {
                wrong(format!("a shape of {shape_milli} thousandths"), "above 1000, so that there is a mean")
            }
            Draws::List { ref values } if values.is_empty() || values.len() > MAX_LISTED => {
                wrong(format!("{} numbers", values.len()), "1 to 1000000")
            }
            Draws::List { ref values } if values.iter().all(|&value| value == 0) => {
                wrong("nothing but 0".to_owned(), "a number above 0")
            }
            _ => Ok(()),
        }
    }

    /// The mean, rounded, at least 1; what is cut off at 0 counts as it was drawn.
    pub fn mean(&self) -> u64 {
        let mean = match *self {
            Draws::Constant { value } => value,
            Draws::Uniform { low, high } => low.midpoint(high),
            Draws::Exponential { mean }
            | Draws::Normal { mean, .. }
            | Draws::Lognormal { mean, .. }
            | Draws::Pareto { mean, .. } => mean,
            // Euler's constant times the scale lies between the mode and the mean.
            Draws::Extreme { mode, scale } => whole(mode as f64 + 0.577_215_664_9 * scale as f64),
            Draws::List { ref values } => {
                let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
                (sum / values.len() as u128) as u64
            }
        };
        mean.max(1)
    }

    /// No number below this one is drawn.
    pub fn least(&self) -> u64 {
        match *self {
            Draws::Constant { value } => value,
            Draws::Uniform { low, .. } => low,
            // The scale of the distribution.
            Draws::Pareto { mean, shape_milli } => {
                (u128::from(mean) * u128::from(shape_milli - 1000) / u128::from(shape_milli)) as u64
            }
            Draws::List { ref values } => values.iter().copied().min().unwrap_or(0),
            _ => 0,
        }
    }

    /// The number at this place, counted from 0.
    pub fn draw(&self, random: &mut Xoshiro256PlusPlus, place: u64) -> u64 {
        match *self {
            Draws::Constant { value } => value,
            Draws::Uniform { low, high } => {
                let wide = (high - low) as f64 + 1.0;
                low + (libm::floor((1.0 - uniform(random)) * wide) as u64).min(high - low)
            }
            Draws::Exponential { mean } => exponential(random, mean),
            Draws::Normal { mean, deviation } => whole(mean as f64 + normal(random) * deviation as f64),
            Draws::Lognormal { mean, deviation } => {
                let (mean, deviation) = (mean as f64, deviation as f64);
                let variance = libm::log1p((deviation / mean) * (deviation / mean));
                let middle = libm::log(mean) - variance / 2.0;
                whole(libm::exp(middle + libm::sqrt(variance) * normal(random)))
            }
            Draws::Pareto { mean, shape_milli } => pareto(random, mean, shape_milli),
            Draws::Extreme { mode, scale } => {
                whole(mode as f64 - scale as f64 * libm::log(-libm::log(uniform(random))))
            }
            Draws::List { ref values } => values[(place % values.len() as u64) as usize],
        }
    }
}

impl Value for Draws {
    fn number(&self) -> Option<u64> {
        None
    }
}

/// Rounded, and not below 0; beyond all bounds it is the largest number.
fn whole(value: f64) -> u64 {
    libm::round(value.max(0.0)) as u64
}

/// A draw of the standard normal distribution (Box and Muller 1958).
fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(uniform(random)));
    radius * libm::cos(2.0 * core::f64::consts::PI * uniform(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;

    fn mean(of: &Draws) -> f64 {
        let mut random = path::stream(3, 0, "test", "draws");
        (0..DRAWS).map(|place| of.draw(&mut random, place) as f64).sum::<f64>() / DRAWS as f64
    }

    #[test]
    fn draws_have_their_means() {
        // Euler's constant times the scale lies between the mode and the mean of an extreme value.
        for (of, expected) in [
            (Draws::Constant { value: 200 }, 200.0),
            (Draws::Uniform { low: 100, high: 300 }, 200.0),
            (Draws::Exponential { mean: 20_000 }, 20_000.0),
            (Draws::Normal { mean: 20_000, deviation: 3000 }, 20_000.0),
            (Draws::Lognormal { mean: 20_000, deviation: 10_000 }, 20_000.0),
            (Draws::Pareto { mean: 30_000, shape_milli: 3000 }, 30_000.0),
            (Draws::Extreme { mode: 12_000, scale: 3600 }, 12_000.0 + 0.577_216 * 3600.0),
            (Draws::List { values: vec![1, 2, 6] }, 3.0),
        ] {
            let found = mean(&of);
            assert!((found - expected).abs() < 0.01 * expected, "{of:?}: {found}");
            assert_eq!(of.check("size"), Ok(()));
            assert!((of.mean() as f64 - expected).abs() < 1.0, "{of:?}: {}", of.mean());
        }
    }

    #[test]
    fn a_lognormal_has_its_deviation() {
        let of = Draws::Lognormal { mean: 20_000, deviation: 10_000 };
        let mut random = path::stream(4, 0, "test", "draws");
        let squares = (0..DRAWS).map(|place| libm::pow(of.draw(&mut random, place) as f64 - 20_000.0, 2.0));
        let found = libm::sqrt(squares.sum::<f64>() / DRAWS as f64);
        assert!((found - 10_000.0).abs() < 300.0, "{found}");
    }

    #[test]
    fn what_draws_nothing_is_refused() {
        for of in [
            Draws::Constant { value: 0 },
            Draws::Uniform { low: 3, high: 2 },
            Draws::Exponential { mean: 0 },
            Draws::Pareto { mean: 10, shape_milli: 1000 },
            Draws::List { values: vec![] },
            Draws::List { values: vec![0, 0] },
        ] {
            assert!(of.check("interval").is_err(), "{of:?}");
        }
    }
}
