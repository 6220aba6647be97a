//! FreeBSD's congestion-control modules against every event recorded from FreeBSD's own.

use std::fmt::Write as _;

use crate::groundtruth;
use crate::replay::{Score, VECTORS, replay, replay_functions};

#[test]
fn modules_and_window_functions_agree_with_the_recorded_ones() {
    let mut table =
        String::from("file                  events   equal      %  worst cwnd  worst ssthresh (bytes)\n");
    let mut failures = Vec::new();
    for vectors in VECTORS {
        let score = vectors.play(&groundtruth::path("")).expect("events");
        let percent = tell(&mut table, vectors.file, &score);
        let holds = match vectors.header {
            Some(_) => score.events > 100 && score.equal == score.events,
            None => percent >= 99.0 && score.worst_cwnd <= 1460 && score.worst_ssthresh <= 1460,
        };
        if !holds {
            failures.push(vectors.file);
        }
    }
    println!("{table}");
    assert!(failures.is_empty(), "{failures:?} differ\n{table}");
}

#[test]
fn every_file_of_events_is_played() {
    let mut played: Vec<String> =
        VECTORS.iter().map(|vectors| format!("{}.jsonl.gz", vectors.file)).collect();
    let folder = groundtruth::path("freebsd/cc-vectors");
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("a file").file_name().into_string().expect("a name"))
        .filter(|name| name.ends_with(".jsonl.gz"))
        .collect();
    played.sort();
    found.sort();
    assert_eq!(played, found);
}

#[test]
fn a_wrong_module_is_seen() {
    let text = groundtruth::read_gz("freebsd/cc-vectors/freebsd13-cubic.jsonl.gz");
    let score = replay(&text, "freebsd-13", "newreno").expect("events");
    assert!(score.equal * 2 < score.events && score.worst_cwnd > 1460, "{score:?}");
    let text = groundtruth::read_gz("freebsd/cc-vectors/fn-cubic-freebsd13.jsonl.gz");
    let score = replay_functions(&text, "freebsd9.1").expect("values");
    assert!(score.equal < score.events, "{score:?}");
}

/// Adds a line, and those of the first differences; returns the percentage of equal events.
fn tell(table: &mut String, file: &str, score: &Score) -> f64 {
    let percent = 100.0 * score.equal as f64 / score.events as f64;
    let _ = writeln!(
        table,
        "{file:20} {:7} {:7} {percent:6.2} {:11} {:15}",
        score.events, score.equal, score.worst_cwnd, score.worst_ssthresh
    );
    for line in &score.first {
        let _ = writeln!(table, "    {line}");
    }
    percent
}
