//! The golden scenarios (rows.rs) and the hash of all that they leave: results change on purpose or not at all.
//!
//! `make golden` writes golden.txt again; say in the commit why its lines changed.

use std::collections::BTreeMap;
use std::path::Path;

use crate::rows::{hash, lines, rows};
use crate::support::{MS, SECOND, carry_out, dumbbell};
use contract::scenario::{Change, Scenario};

/// The lines of a golden.txt by scenario.
fn by_scenario(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut scenarios: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines() {
        scenarios.entry(line.split(' ').next().unwrap_or_default()).or_default().push(line);
    }
    scenarios
}

/// Differences between two golden.txt: scenarios that one does not have, and lines.
fn differences(golden: &str, found: &str) -> Vec<String> {
    let (golden, found) = (by_scenario(golden), by_scenario(found));
    let mut all = Vec::new();
    for name in golden.keys().filter(|name| !found.contains_key(*name)) {
        all.push(format!("{name} is in golden.txt and no scenario any more"));
    }
    for (name, lines) in &found {
        let Some(old) = golden.get(name) else {
            all.push(format!("{name} has no lines in golden.txt"));
            continue;
        };
        all.extend(old.iter().filter(|line| !lines.contains(line)).map(|line| format!("- {line}")));
        all.extend(lines.iter().filter(|line| !old.contains(line)).map(|line| format!("+ {line}")));
    }
    all
}

#[test]
fn every_series_is_what_it_was() {
    let found: String = rows().iter().map(|(name, scenario)| lines(name, scenario)).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/golden.txt");
    if std::env::var_os("CWNDLAB_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &found).expect("golden.txt can be written");
    }
    let golden = std::fs::read_to_string(&path).expect("golden.txt is there");
    let differences = differences(&golden, &found);
    assert!(
        golden == found,
        "golden.txt differs; if that is meant, run make golden\n{}",
        differences.join("\n")
    );
}

#[test]
fn what_is_missing_or_changed_is_named() {
    let golden = "a tcp 1 00\na queue 1 01\nold tcp 1 00\n";
    let found = "a tcp 1 00\na queue 1 02\nstack:new:cc tcp 1 00\n";
    assert_eq!(
        differences(golden, found),
        [
            "old is in golden.txt and no scenario any more",
            "- a queue 1 01",
            "+ a queue 1 02",
            "stack:new:cc has no lines in golden.txt"
        ]
    );
    assert!(differences(golden, golden).is_empty());
}

#[test]
fn scenarios_differ() {
    let mut names = BTreeMap::new();
    for (name, scenario) in rows() {
        let json = serde_json::to_string(&scenario).expect("JSON");
        assert_eq!(names.insert(json, name.clone()), None, "{name} is the same scenario");
    }
}

#[test]
fn another_seed_or_repeat_gives_another_run() {
    let mut scenario = dumbbell("freebsd-13", "newreno", 10_000_000, 40 * MS, 50, 4);
    scenario.start_jitter_ns = 40 * MS;
    let of = |scenario: &Scenario| hash(&carry_out(scenario, false).tables["tcp"]);
    let first = of(&scenario);
    assert_eq!(first, of(&scenario), "the same seed gives the same run");
    scenario.repeat = 1;
    let repeated = of(&scenario);
    assert_ne!(first, repeated);
    scenario.repeat = 0;
    scenario.seed = 2;
    assert_ne!(first, of(&scenario));
}

/// Phases are delays as a file could write them, in the schedule too, and other ones in each repeat.
#[test]
fn a_phase_is_a_delay_of_the_run() {
    let mut scenario = dumbbell("linux-6.12", "cubic", 10_000_000, 40 * MS, 50, 4);
    let access = scenario.links[0].name.clone();
    scenario.phase_jitter_ns = BTreeMap::from([(access.clone(), 1_211_200)]);
    scenario.schedule = vec![Change {
        at_ns: SECOND,
        on: None,
        link: access.clone(),
        rate_bps: None,
        delay_ns: Some(5 * MS),
        loss: None,
        queue: None,
        down: None,
    }];
    let of = |scenario: &Scenario| hash(&carry_out(scenario, false).tables["tcp"]);
    let mut delays = Vec::new();
    for repeat in 0..4 {
        scenario.repeat = repeat;
        let phase = sim::phases(&scenario)[&access];
        assert!(phase < 1_211_200, "{phase}");
        delays.push(phase);
        let mut written = Scenario { phase_jitter_ns: BTreeMap::new(), ..scenario.clone() };
        assert_ne!(of(&scenario), of(&written), "repeat {repeat}");
        written.links[0].delay_ns += phase;
        written.schedule[0].delay_ns = Some(5 * MS + phase);
        assert_eq!(of(&scenario), of(&written), "repeat {repeat}");
    }
    delays.sort_unstable();
    delays.dedup();
    assert_eq!(delays.len(), 4, "{delays:?}");
}
