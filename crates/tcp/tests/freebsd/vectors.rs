//! FreeBSD's congestion-control modules against every event recorded from FreeBSD's own.

use std::fmt::Write as _;

use crate::groundtruth;
use tcp::replay::{Score, replay, replay_functions};

const FILES: [(&str, &str, &str); 10] = [
    ("freebsd9.1-newreno", "freebsd-9.2", "newreno"),
    ("freebsd9.1-cubic", "freebsd-9.2", "cubic"),
    ("freebsd11-newreno", "freebsd-11", "newreno"),
    ("freebsd11-cubic", "freebsd-11", "cubic"),
    ("freebsd11-cdg", "freebsd-11", "cdg"),
    ("freebsd13-newreno", "freebsd-13", "newreno"),
    ("freebsd13-cubic", "freebsd-13", "cubic"),
    ("freebsd13-cdg", "freebsd-13", "cdg"),
    ("freebsd15-newreno", "freebsd-15-current", "newreno"),
    ("freebsd15-cubic", "freebsd-15-current", "cubic"),
];

/// Headers whose window functions were recorded.
const HEADERS: [&str; 4] = ["freebsd9.1", "freebsd13", "freebsd15", "rfc9438hdr"];

#[test]
fn modules_agree_with_the_recorded_ones() {
    let mut table =
        String::from("file                  events   equal      %  worst cwnd  worst ssthresh (bytes)\n");
    let mut failures = Vec::new();
    for (file, stack, cc) in FILES {
        let text = groundtruth::read_gz(&format!("freebsd/cc-vectors/{file}.jsonl.gz"));
        let score = replay(&text, stack, cc).expect("events");
        if tell(&mut table, file, &score) < 99.0 || score.worst_cwnd > 1460 || score.worst_ssthresh > 1460 {
            failures.push(file);
        }
    }
    println!("{table}");
    assert!(failures.is_empty(), "{failures:?} differ\n{table}");
}

#[test]
fn window_functions_agree_with_the_recorded_ones() {
    let mut table = String::from("file                  values   equal      %\n");
    for header in HEADERS {
        let text = groundtruth::read_gz(&format!("freebsd/cc-vectors/fn-cubic-{header}.jsonl.gz"));
        let score = replay_functions(&text, header).expect("values");
        tell(&mut table, header, &score);
        assert!(score.events > 100 && score.equal == score.events, "{table}");
    }
    println!("{table}");
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
