//! A run that is stepped from outside, with looks at its flows in between, is the run carried out in one go.

use crate::fused_equals_stepped::{scenario, shapes};
use crate::support::{MS, Outcome, SECOND, carry_out, column, difference, dumbbell};
use contract::Scenario;
use contract::ids::FlowId;
use proptest::prelude::*;
use sim::Simulation;

/// Carries a scenario out up to each of `cuts` in turn, then to its end.
fn in_steps(scenario: &Scenario, cuts: &[u64]) -> Outcome {
    let mut run = Simulation::from_scenario(scenario.clone(), 7, false).expect("the engine takes it");
    let mut outcome = Outcome::default();
    let mut over = false;
    for &cut in cuts {
        over = run.run_until(cut);
        assert!(over || run.now_ns() == cut, "virtual time is the cut's");
        for flow in 0..scenario.flows.len() as u32 {
            run.observe(FlowId(flow));
        }
        outcome.add(&mut run);
    }
    while !over {
        over = run.advance(10_000);
        outcome.add(&mut run);
    }
    outcome.summary = serde_json::from_str(&run.summary()).expect("the summary is JSON");
    outcome
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn steps_change_nothing(
        shape in shapes(),
        mut cuts in prop::collection::vec(0u64..2_200 * MS, 0..60),
    ) {
        let scenario = scenario(&shape);
        cuts.sort_unstable();
        let (whole, stepped) = (carry_out(&scenario, false), in_steps(&scenario, &cuts));
        prop_assert_eq!(difference(&whole, &stepped), None);
    }
}

/// Steps to each sample and to the nanosecond behind it: nothing at a cut has happened, so that the row of a sample
/// is there only after the second step, and says what `observe` says.
#[test]
fn a_step_ends_before_its_time() {
    let scenario = dumbbell("linux-6.8", "cubic", 10_000_000, 40 * MS, 50, 3);
    let mut run = Simulation::from_scenario(scenario, 7, false).expect("the engine takes it");
    assert!(run.observe(FlowId(0)).is_none(), "no connection before the first event");
    assert!(run.observe(FlowId(1)).is_none(), "there is one flow");
    let mut seen = Vec::new();
    for sample in (1..300).map(|number| number * 10 * MS) {
        let before = run.events();
        run.run_until(sample);
        let until = run.events();
        run.run_until(sample + 1);
        assert!(before <= until && until < run.events(), "the sample is an event at its time");
        let info = run.observe(FlowId(0)).expect("a connection");
        seen.push((info.cwnd.expect("a window"), info.retransmits));
    }
    run.run_until(4 * SECOND);
    let batches: Vec<_> =
        run.take().into_iter().filter(|(table, _)| *table == "tcp").map(|(_, b)| b).collect();
    let rows = column(&batches, "cwnd_bytes").into_iter().zip(column(&batches, "retransmits"));
    let rows: Vec<(u64, u64)> =
        rows.map(|(cwnd, retransmits)| (cwnd.unwrap() as u64, retransmits.unwrap() as u64)).collect();
    // Samples before the handshake is over have no row; one is at the end of the run.
    assert!(rows.len() > 280 && rows.len() <= seen.len() + 1);
    let first = seen.len() + 1 - rows.len();
    assert_eq!(rows[..rows.len() - 1], seen[first..]);
}
