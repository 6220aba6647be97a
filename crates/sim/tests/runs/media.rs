//! Real-time media in whole runs: they share a link with what its queue makes of them, and say what their sender learns.

use crate::kinds::app;
use crate::support::{MS, Outcome, SECOND, bulk, carry_out, column, dumbbell, link_mut};
use contract::Scenario;
use contract::scenario::Flow;
use contract::table::ColumnData;

/// Media of a controller over 1 Mbit/s and 50 ms each way, with a queue of 300 ms.
fn alone(controller: &str) -> Scenario {
    let mut scenario = dumbbell("linux-6.18", "cubic", 1_000_000, 100 * MS, 25, 40);
    let place = usize::from(controller == "gcc");
    let (_, _, app) = app("media").swap_remove(place);
    scenario.flows = vec![Flow { app, ..bulk("m", "a", "b", "cubic") }];
    scenario
}

/// The values of a kind of sample.
fn samples(outcome: &Outcome, kind: &str) -> Vec<i64> {
    let batches = &outcome.tables["samples"];
    let kinds = batches[0].columns.iter().find(|column| column.name == "kind").expect("a kind");
    let ColumnData::Dict { values, .. } = &kinds.data else { panic!("kinds are words") };
    let Some(wanted) = values.iter().position(|value| value == kind) else { return Vec::new() };
    let rows = column(batches, "kind").into_iter().zip(column(batches, "value"));
    rows.filter(|(kind, _)| *kind == Some(wanted as i64)).filter_map(|(_, value)| value).collect()
}

#[test]
fn media_use_a_link_and_say_what_they_see() {
    for controller in ["scream", "gcc"] {
        let mut scenario = alone(controller);
        scenario.measure.from_ns = 20 * SECOND;
        let outcome = carry_out(&scenario, false);
        let flow = &outcome.metrics()["flows"][0];
        assert_eq!(flow["status"], "complete");
        let goodput = flow["goodput_bytes"].as_f64().expect("a number") * 8.0 / 20e6;
        assert!((0.5..0.97).contains(&goodput), "{controller}: {goodput}");
        // A packet and its report: 100 ms, the transmission of both, and what the queue adds.
        let [rtts, seen] = ["rtt", "one_way"].map(|of| flow[of]["count"].as_u64().expect("a number"));
        assert!(rtts > 200 && seen > 1000, "{controller}: {rtts} {seen}");
        assert!(flow["rtt"]["min_ns"].as_u64().expect("a time") >= 100 * MS);
        let targets = samples(&outcome, "target-rate");
        assert!(targets.iter().all(|bps| (150_000..=1_500_000).contains(bps)), "{controller}");
        for kind in ["queue-delay", "feedback-rtt", "feedback-loss"] {
            let found = samples(&outcome, kind);
            assert!(found.len() * 10 > targets.len() * 9 && found.iter().all(|&value| value >= 0), "{kind}");
        }
    }
}

/// Reports are packets: where they are lost, SCReAM's window stays shut and packets are left out.
#[test]
fn reports_can_be_lost() {
    let mut scenario = alone("scream");
    scenario.flows[0].stop_ns = Some(30 * SECOND);
    let sent = |scenario: &Scenario| {
        let outcome = carry_out(scenario, false);
        (
            outcome.metrics()["flows"][0]["segments_sent"].as_u64().expect("a number"),
            samples(&outcome, "left-out"),
        )
    };
    let (all, none) = sent(&scenario);
    link_mut(&mut scenario, "r1-r2.reverse").loss = crate::support::random_loss(1_000_000_000);
    let (few, _) = sent(&scenario);
    // 50 kbit/s are five packets of 1200 bytes a second.
    assert!(few < 200 && all > 1500, "{few} of {all}");
    assert!(none.iter().sum::<i64>() < 200, "{none:?}");
}
