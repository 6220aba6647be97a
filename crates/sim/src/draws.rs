//! Draws of a run that every testbed in virtual or real time asks for here: when flows start, and the phases of hosts.

use std::collections::BTreeMap;

use contract::scenario::{Flow, Scenario};
use path::Nanos;
use rand_core::RngCore;

/// Times when flows start, in their order: each one's `start_ns` and its share of the start jitter.
pub fn starts(scenario: &Scenario) -> Vec<Nanos> {
    let start = |flow: &Flow| {
        let offset = below(scenario, scenario.start_jitter_ns, "start", &flow.name);
        flow.start_ns.saturating_add(offset)
    };
    scenario.flows.iter().map(start).collect()
}

/// Delays that this run adds to links, by their names: of each link in `phase_jitter_ns` one draw.
pub fn phases(scenario: &Scenario) -> BTreeMap<String, Nanos> {
    let phase = |(link, &spread): (&String, &Nanos)| (link.clone(), below(scenario, spread, "phase", link));
    scenario.phase_jitter_ns.iter().map(phase).collect()
}

/// Adds the phases to the delays of links, those that the schedule gives them too.
pub(crate) fn add_phases(scenario: &mut Scenario) {
    let phases = phases(scenario);
    let Scenario { links, schedule, .. } = scenario;
    let first = links.iter_mut().map(|link| (&link.name, &mut link.delay_ns));
    let later = schedule.iter_mut().filter_map(|change| Some((&change.link, change.delay_ns.as_mut()?)));
    for (link, delay) in first.chain(later) {
        *delay = delay.saturating_add(phases.get(link).copied().unwrap_or(0));
    }
}

/// A time evenly drawn from 0 to below `spread`, from the stream of this purpose and entity.
fn below(scenario: &Scenario, spread: Nanos, purpose: &str, entity: &str) -> Nanos {
    match spread {
        0 => 0,
        _ => path::stream(scenario.seed, scenario.repeat, purpose, entity).next_u64() % spread,
    }
}
