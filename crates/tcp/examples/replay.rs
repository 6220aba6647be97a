//! Plays the recorded events of FreeBSD's congestion controls to ours: a line of JSON for each file that is there.
//!
//! `cargo run --release -p cwndlab-tcp --example replay -- groundtruth`

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

#[path = "../tests/freebsd/replay.rs"]
mod replay;

fn main() -> ExitCode {
    let Some(recordings) = std::env::args().nth(1) else {
        eprintln!("usage: replay DIR");
        return ExitCode::from(2);
    };
    for vectors in replay::VECTORS {
        let score = match vectors.play(Path::new(&recordings)) {
            Ok(score) => score,
            Err(replay::ReplayError::File(error)) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => {
                eprintln!("{recordings}/freebsd/cc-vectors/{}.jsonl.gz: {error}", vectors.file);
                return ExitCode::from(2);
            }
        };
        let line = json!({
            "file": vectors.file, "stack": vectors.stack, "cc": vectors.cc, "header": vectors.header,
            "events": score.events, "equal": score.equal,
            "worst_cwnd": score.worst_cwnd, "worst_ssthresh": score.worst_ssthresh, "first": score.first,
        });
        println!("{line}");
    }
    ExitCode::SUCCESS
}
