//! Endpoints without their fast paths (header prediction, granted segments and the like) give the same bytes.

use crate::fused_equals_stepped::{scenario, shapes};
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn runs_are_the_same_without_fast_paths(shape in shapes()) {
        prop_assert_eq!(unequal(&scenario(&shape)), None);
    }
}
