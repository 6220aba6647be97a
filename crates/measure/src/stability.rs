//! Stability of a scenario's metrics, which lets it end.

use std::collections::VecDeque;

use super::Measured;

/// The longest a scenario may run, ns: ten minutes, after which it is forced to end.
pub const MAX_NS: u64 = 600_000_000_000;

/// Seconds over which nothing may change much.
const SECONDS: usize = 5;

/// Variation of a capacity over `SECONDS` that is still stable, as a part of its largest value.
const CAPACITY_TOLERANCE: f64 = 0.02;

/// Growth of an extreme (longest gap, longest round trip) over `SECONDS` that is still stable, as a part of
/// what it was.
const EXTREME_TOLERANCE: f64 = 0.1;

/// Watches the metrics that a scenario would have if it ended now, once a second.
///
/// They are stable when over the last five seconds neither capacity varied by more than 2 % and neither smoothness nor
/// responsiveness became more than 10 % worse.
#[derive(Clone, Debug, Default)]
pub struct Stability {
    last: VecDeque<Measured>,
}

impl Stability {
    /// Takes the metrics of one more whole second; true if they are stable.
    pub fn push(&mut self, now: Measured) -> bool {
        self.last.push_back(now);
        if self.last.len() <= SECONDS {
            return false;
        }
        if self.last.len() > SECONDS + 1 {
            self.last.pop_front();
        }
        let before = self.last[0];
        let steady = |metric: fn(&Measured) -> Option<f64>| {
            let values = || self.last.iter().filter_map(metric);
            let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
            low >= high * (1.0 - CAPACITY_TOLERANCE)
        };
        let held = |before: Option<f64>, now: Option<f64>| match (before, now) {
            (Some(before), Some(now)) => now >= before * (1.0 - EXTREME_TOLERANCE),
            (before, now) => before.is_none() && now.is_none(),
        };
        steady(|m| m.up)
            && steady(|m| m.down)
            && held(Some(before.smoothness), Some(now.smoothness))
            && held(before.responsiveness, now.responsiveness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SCENARIOS;

    fn second(down: f64, smoothness: f64, responsiveness: f64) -> Measured {
        Measured {
            flows: SCENARIOS[0],
            up: None,
            down: Some(down),
            smoothness,
            responsiveness: Some(responsiveness),
        }
    }

    #[test]
    fn five_quiet_seconds_are_stable() {
        let mut watch = Stability::default();
        let told: Vec<bool> = (0..7).map(|_| watch.push(second(1000.0, 30.0, 10.0))).collect();
        assert_eq!(told, [false, false, false, false, false, true, true]);
    }

    #[test]
    fn a_capacity_that_still_grows_or_a_new_extreme_is_not() {
        let mut growing = Stability::default();
        assert!((0..20).all(|k| !growing.push(second(1000.0 + 10.0 * f64::from(k), 30.0, 10.0))));
        let mut stalls = Stability::default();
        for _ in 0..6 {
            stalls.push(second(1000.0, 30.0, 10.0));
        }
        let told: Vec<bool> = (0..6).map(|_| stalls.push(second(1000.0, 20.0, 10.0))).collect();
        assert_eq!(told, [false, false, false, false, false, true], "a worse gap is waited out");
        let mut killed = Stability::default();
        assert!((0..6).any(|_| killed.push(second(0.0, 0.0, 10.0))), "a dead flow does not keep it");
    }
}
