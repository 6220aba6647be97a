//! Endpoints that leave out the short ways of usual segments (header prediction, runs of full segments and the like) give
//! the same bytes.

use crate::fused_equals_stepped::{scenario, shapes};
use crate::rows::rows;
use crate::support::{carry_out, difference, finish};
use proptest::prelude::*;
use sim::{Scenario, Simulation};

/// Where a run without short ways differs, if it does.
fn unequal(scenario: &Scenario) -> Option<String> {
    let mut long = Simulation::from_scenario(scenario.clone(), 7, false).expect("the engine takes it");
    long.force_long_way();
    difference(&carry_out(scenario, false), &finish(long))
}

#[test]
fn golden_scenarios_are_the_same_the_long_way() {
    let wrong: Vec<_> = rows()
        .iter()
        .filter_map(|(name, scenario)| Some(format!("{name}: {}", unequal(scenario)?)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn short_and_long_ways_give_the_same_bytes(shape in shapes()) {
        prop_assert_eq!(unequal(&scenario(&shape)), None);
    }
}
