//! The mixes of flows of loadlatency, observations of them, and the metrics made of those: no socket, no clock, so that the
//! tool, the simulator and the namespace testbed share it.
//!
//! ```
//! use measure::{SCENARIOS, classic, overall};
//!
//! let printed = "Scenario 1: 0 uploads, 1 downloads... 4096 KiB/s down, 12.50 Hz smoothness";
//! let (number, scenario) = classic::parse(printed)?;
//! assert_eq!((number, scenario.flows), (1, SCENARIOS[0]));
//! assert_eq!(classic::line(number, &scenario), printed);
//! assert_eq!(overall(&[scenario]).smoothness, 12.5);
//! # Ok::<(), classic::NotAScenario>(())
//! ```

pub mod classic;
mod document;
#[doc(hidden)]
pub mod fixtures;
mod metrics;
mod observed;
mod stability;

pub use document::{Class, Conditions, Document, READ, SCHEMA, Staircase, Step, document};
pub use metrics::{
    Bufferbloat, GoodputOf, Latency, Metrics, OneWayChange, Rpm, Summary, bufferbloat_grade, jain, latency,
    measured, metrics, summary,
};
pub use observed::{BIN_NS, Direction, End, Observed, Ping, Probe, Scenario, Transfer};
pub use stability::{MAX_NS, Stability};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of flows that run at once in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// Number of flows from the client to the server.
    pub uploads: u32,
    /// Number of flows from the server to the client.
    pub downloads: u32,
}

const fn flows(uploads: u32, downloads: u32) -> Flows {
    Flows { uploads, downloads }
}

/// The nineteen scenarios in the tool's order.
pub const SCENARIOS: [Flows; 19] = [
    flows(0, 1),
    flows(1, 0),
    flows(0, 2),
    flows(1, 1),
    flows(2, 0),
    flows(0, 3),
    flows(1, 2),
    flows(2, 1),
    flows(3, 0),
    flows(0, 4),
    flows(1, 3),
    flows(2, 2),
    flows(3, 1),
    flows(4, 0),
    flows(0, 32),
    flows(1, 31),
    flows(16, 16),
    flows(31, 1),
    flows(32, 0),
];

/// Result of one scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Flows of the scenario.
    pub flows: Flows,
    /// Capacity upwards, KiB/s. None without uploads.
    pub up: Option<f64>,
    /// Capacity downwards, KiB/s. None without downloads.
    pub down: Option<f64>,
    /// Smoothness: one over the longest gap between data arriving on any flow, in Hz.
    pub smoothness: f64,
    /// Responsiveness: one over the pinger's longest round trip, in Hz. None where it was not recorded.
    pub responsiveness: Option<f64>,
}

/// Result of all scenarios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overall {
    /// Harmonic mean over the scenarios with uploads, KiB/s.
    pub upload_capacity: f64,
    /// Harmonic mean over the scenarios with downloads, KiB/s.
    pub download_capacity: f64,
    /// The worst scenario's, Hz. None where none was recorded.
    pub responsiveness: Option<f64>,
    /// The worst scenario's, Hz.
    pub smoothness: f64,
}

/// The harmonic mean; 0 if any value is 0 or there is none, so that a flow that got nothing shows.
pub fn harmonic_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut count = 0.0;
    let mut reciprocals = 0.0;
    for value in values {
        if value <= 0.0 {
            return 0.0;
        }
        count += 1.0;
        reciprocals += 1.0 / value;
    }
    if count == 0.0 { 0.0 } else { count / reciprocals }
}

/// Capacity of one direction of a scenario: n times the harmonic mean of the n flows' mean goodputs, in their unit. A
/// flow that the stack killed counts as 0.
pub fn capacity(goodputs: &[f64]) -> f64 {
    goodputs.len() as f64 * harmonic_mean(goodputs.iter().copied())
}

/// The metrics of all scenarios together.
pub fn overall(scenarios: &[Measured]) -> Overall {
    let worst = |values: &mut dyn Iterator<Item = f64>| values.reduce(f64::min);
    Overall {
        upload_capacity: harmonic_mean(scenarios.iter().filter_map(|s| s.up)),
        download_capacity: harmonic_mean(scenarios.iter().filter_map(|s| s.down)),
        responsiveness: worst(&mut scenarios.iter().filter_map(|s| s.responsiveness)),
        smoothness: worst(&mut scenarios.iter().map(|s| s.smoothness)).unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_n_times_the_harmonic_mean() {
        // 2 / (1/10 + 1/30) = 15, for each of two flows.
        assert!((capacity(&[10.0, 30.0]) - 30.0).abs() < 1e-9);
        assert_eq!(capacity(&[10.0, 0.0]), 0.0, "a flow that was killed shows");
        assert_eq!(capacity(&[]), 0.0);
    }

    #[test]
    fn the_worst_scenario_decides() {
        let scenario = |smoothness, responsiveness| Measured {
            flows: SCENARIOS[0],
            up: None,
            down: Some(100.0),
            smoothness,
            responsiveness,
        };
        let all = overall(&[scenario(3.0, Some(9.0)), scenario(2.5, Some(20.0)), scenario(7.0, None)]);
        assert_eq!((all.smoothness, all.responsiveness), (2.5, Some(9.0)));
        assert_eq!(all.upload_capacity, 0.0, "no scenario uploads");
        assert!((all.download_capacity - 100.0).abs() < 1e-9);
    }
}
