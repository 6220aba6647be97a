//! Whole runs of the engine: data packets delivered per second, in the scenarios of benches/scenarios.py.
//!
//! `make bench` writes those scenarios to target/bench and runs this.

use std::fs;
use std::path::Path;
use std::time::Duration;

use criterion::{BatchSize, Criterion, SamplingMode, Throughput};
use sim::Simulation;

/// Payload of a full segment with timestamps.
const PAYLOAD_BYTES: u64 = 1448;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}; write it with benches/scenarios.py", folder.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();

    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("engine");
    group.sample_size(10).sampling_mode(SamplingMode::Flat).measurement_time(Duration::from_secs(10));
    for file in files {
        let scenario = fs::read_to_string(&file).expect("a readable scenario");
        let new = || Simulation::new(&scenario, 0).expect("a scenario that the engine takes");
        group.throughput(Throughput::Elements(packets(&run(new()))));
        let name = file.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        group.bench_function(name, |bencher| bencher.iter_batched(new, run, BatchSize::PerIteration));
    }
    group.finish();
    criterion.final_summary();
}

/// Runs to the end, taking rows as Python does, and gives the summary.
fn run(mut simulation: Simulation) -> String {
    while !simulation.advance(1 << 18) {
        drop(simulation.take());
    }
    drop(simulation.take());
    simulation.summary()
}

/// Data packets that were delivered.
fn packets(summary: &str) -> u64 {
    let summary: serde_json::Value = serde_json::from_str(summary).expect("a summary is JSON");
    let flows = summary["flows"].as_array().expect("a summary has flows");
    flows.iter().filter_map(|flow| flow["goodput_bytes"].as_u64()).sum::<u64>() / PAYLOAD_BYTES
}
