//! Endpoints without their fast paths (header prediction, granted segments and the like) give the same bytes.

use crate::fused_equals_stepped::{scenario, shapes, video_with_rests};
use crate::rows::rows;
use crate::support::{carry_out, difference, finish};
use contract::Scenario;
use proptest::prelude::*;
use sim::Simulation;

/// Difference of a run without fast paths. None if there is none.
fn unequal(scenario: &Scenario) -> Option<String> {
    let mut without = Simulation::from_scenario(scenario.clone(), 7, false).expect("the engine takes it");
    without.disable_fast_paths();
    difference(&carry_out(scenario, false), &finish(without))
}

#[test]
fn golden_scenarios_are_the_same_without_fast_paths() {
    let wrong: Vec<_> = rows()
        .iter()
        .filter_map(|(name, scenario)| Some(format!("{name}: {}", unequal(scenario)?)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A sender that rests looks at the same, at the same times, with and without fast paths. FreeBSD 13's RACK has a timer wheel.
#[test]
fn a_rest_of_freebsd_13_rack_is_the_same_without_fast_paths() {
    assert_eq!(unequal(&scenario(&video_with_rests("freebsd-13/rack", "cubic"))), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn runs_are_the_same_without_fast_paths(shape in shapes()) {
        prop_assert_eq!(unequal(&scenario(&shape)), None);
    }
}
