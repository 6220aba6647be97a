//! When the flows of a run start, wherever it is carried out: live testbeds ask here too.

use contract::scenario::{Flow, Scenario};
use path::Nanos;

/// Times when flows start, in their order: each one's `start_ns` and its share of the start jitter.
pub fn starts(scenario: &Scenario) -> Vec<Nanos> {
    let start = |flow: &Flow| {
        let mut random = path::stream(scenario.seed, scenario.repeat, "start", &flow.name);
        let offset = match scenario.start_jitter_ns {
            0 => 0,
            jitter => rand_core::RngCore::next_u64(&mut random) % jitter,
        };
        flow.start_ns.saturating_add(offset)
    };
    scenario.flows.iter().map(start).collect()
}
