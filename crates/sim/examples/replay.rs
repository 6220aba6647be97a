//! Runs a scenario file again, without Python: for profiling and bug reports.
//!
//! `cargo run --release -p cwndlab-sim --example replay -- SCENARIO.json` prints the summary and the engine's speed.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use sim::Simulation;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: replay SCENARIO.json");
        return ExitCode::from(2);
    };
    match replay(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::from(2)
        }
    }
}

fn replay(path: &str) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    let mut run = Simulation::new(&text, 0)?;
    let begin = Instant::now();
    let mut rows = 0;
    while !run.advance(1 << 16) {
        rows += run.take().iter().map(|(_, batch)| batch.rows).sum::<usize>();
    }
    rows += run.take().iter().map(|(_, batch)| batch.rows).sum::<usize>();
    let spent = begin.elapsed();
    println!("{}", run.summary());
    let rate = |count: u64| count as f64 / spent.as_secs_f64() / 1e6;
    eprintln!(
        "{} events, {} packets, {rows} rows in {:.3} s: {:.2} million packets a second",
        run.events(),
        run.packets(),
        spent.as_secs_f64(),
        rate(run.packets()),
    );
    Ok(())
}
