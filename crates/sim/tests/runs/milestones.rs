//! Milestones of applications are events: when, after how long, and how much their receiver had read by then.

use crate::support::{MS, Outcome, carry_out, column, dumbbell, link_mut};
use contract::scenario::App;
use contract::table::ColumnData;
use path::{LossConfig, ShaperConfig};

/// (time, payload read, value) of the events of kind `app`.
fn milestones(outcome: &Outcome) -> Vec<(i64, i64, i64)> {
    rows(outcome, "events", "app", &["t_ns", "seq", "value"]).iter().map(|r| (r[0], r[1], r[2])).collect()
}

/// The rows of a kind in a table, with so many columns.
pub(crate) fn rows(outcome: &Outcome, table: &str, kind: &str, columns: &[&str]) -> Vec<Vec<i64>> {
    let batches = &outcome.tables[table];
    let kinds = batches[0].columns.iter().find(|c| c.name == "kind").expect("a kind");
    let ColumnData::Dict { values, .. } = &kinds.data else { panic!("kinds are words") };
    let wanted = values.iter().position(|value| value == kind).map(|index| index as i64);
    let columns: Vec<_> = columns.iter().map(|name| column(batches, name)).collect();
    let mut found = Vec::new();
    for (row, kind) in column(batches, "kind").into_iter().enumerate() {
        if kind == wanted {
            found.push(columns.iter().map(|column| column[row].expect("a value")).collect());
        }
    }
    found
}

#[test]
fn a_finished_transfer_is_one() {
    let mut scenario = dumbbell("freebsd-13", "cubic", 10_000_000, 40 * MS, 50, 5);
    scenario.flows[0].app = App::Bulk { bytes: Some(1_000_000), write_bytes: 65_536 };
    let outcome = carry_out(&scenario, false);
    let samples = rows(&outcome, "samples", "completion", &["t_ns", "value"]);
    assert_eq!(samples.len(), 1);
    assert_eq!(milestones(&outcome), [(samples[0][0], 1_000_000, samples[0][1])]);
}

#[test]
fn every_answered_request_is_one() {
    let mut scenario = dumbbell("linux-6.8", "cubic", 10_000_000, 40 * MS, 50, 5);
    scenario.flows[0].app = App::RequestResponse {
        requests: Some(3),
        request_bytes: 100,
        response_bytes: 50_000,
        think_ns: 10 * MS,
    };
    let outcome = carry_out(&scenario, false);
    let answers = rows(&outcome, "samples", "response", &["t_ns", "value"]);
    assert_eq!(answers.len(), 3);
    let mut expected: Vec<_> =
        (1..).zip(&answers).map(|(n, answer)| (answer[0], 50_000 * n, answer[1])).collect();
    // With the last answer the connection has done its work.
    let completions = rows(&outcome, "samples", "completion", &["t_ns", "value"]);
    expected.extend(completions.iter().map(|completion| (completion[0], 150_000, completion[1])));
    let mut found = milestones(&outcome);
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(found.len(), 4);
}

/// Linux's first ten segments leave as the interface lets its small queue drain, no matter whether that is a rate or a token
/// bucket, in which they wait before they are on their way.
#[test]
fn a_small_queue_drains_through_a_token_bucket() {
    let took = |shaper: Option<ShaperConfig>| {
        let mut scenario = dumbbell("linux-6.12", "cubic", 50_000_000, 100 * MS, 50, 5);
        scenario.flows[0].app = App::Bulk { bytes: Some(14_480), write_bytes: 65_536 };
        let access = link_mut(&mut scenario, "a-r1");
        access.rate_bps = shaper.is_none().then_some(1_000_000_000);
        access.shaper = shaper;
        milestones(&carry_out(&scenario, false))[0].2
    };
    let bucket = ShaperConfig::TokenBucket { rate_bps: 1_000_000_000, burst_bytes: 3028, peak: None };
    let (by_rate, by_bucket) = (took(None), took(Some(bucket)));
    assert!((by_rate - by_bucket).unsigned_abs() < MS, "{by_rate} {by_bucket}");
}

#[test]
fn timeouts_of_a_syn_count_and_end_no_slow_start() {
    for stack in ["freebsd-13", "linux-6.18", "windows-7"] {
        let mut scenario = dumbbell(stack, "reno", 10_000_000, 40 * MS, 50, 5);
        if stack != "linux-6.18" {
            scenario.flows[0].cc = "newreno".into();
        }
        scenario.flows[0].app = App::Bulk { bytes: Some(20_000), write_bytes: 65_536 };
        (scenario.measure.from_ns, scenario.measure.to_ns) = (0, scenario.duration_ns);
        let before = carry_out(&scenario, false).summary["flows"][0].clone();
        let bottleneck = scenario.links.iter().position(|link| link.bottleneck).expect("a bottleneck");
        scenario.links[bottleneck].loss = Some(LossConfig::List { packets: vec![0] });
        let outcome = carry_out(&scenario, false);
        let flow = &outcome.summary["flows"][0];
        assert_eq!((&before["rtos"], &flow["rtos"]), (&0.into(), &1.into()), "{stack}");
        assert_eq!(flow["slow_start_exit_ns"], before["slow_start_exit_ns"], "{stack}");
    }
}
