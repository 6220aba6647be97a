//! Whatever a scenario says, over the whole range of every key: it is refused in one line, or it runs without a panic.

mod draw;

use std::panic::catch_unwind;
use std::time::Instant;

use sim::Simulation;

/// Scenarios tried, unless `CWNDLAB_ANYTHING` says from which seed and how many: `1000:200000`. A single one is printed.
const SEEDS: (u64, u64) = (0, 400);
/// Events of each: enough for handshakes, losses, timeouts and schedules. Every run ends.
const EVENTS: u64 = 20_000;

/// Carries out the scenario of a seed; returns whether the engine took it.
fn carry_out(seed: u64) -> bool {
    let scenario = draw::scenario(seed);
    let json = serde_json::to_string(&scenario).expect("a scenario is JSON");
    let checked = sim::check(&json, &[]).map_err(|error| error.to_string());
    let mut run = match Simulation::new(&json, 0) {
        Ok(run) => run,
        Err(error) => {
            let line = error.to_string();
            assert!(!line.is_empty() && !line.contains('\n'), "one line: {line:?}");
            assert_eq!(checked, Err(line), "check refuses what the engine does");
            return false;
        }
    };
    assert_eq!(checked, Ok(()), "check admits what the engine does");
    for _ in 0..20 {
        let over = run.advance(EVENTS / 20);
        run.take();
        run.captures();
        if over {
            let summary = serde_json::from_str::<serde_json::Value>(&run.summary());
            assert!(summary.is_ok(), "the summary is JSON");
            break;
        }
    }
    true
}

#[test]
fn no_scenario_makes_the_engine_panic() {
    let (first, count) = std::env::var("CWNDLAB_ANYTHING").map_or(SEEDS, |given| {
        let (first, count) = given.split_once(':').expect("FIRST:COUNT");
        (first.parse().expect("a number"), count.parse().expect("a number"))
    });
    let (mut taken, mut slowest, mut failed) = (0, (0.0, 0), Vec::new());
    if count == 1 {
        eprintln!("{}", serde_json::to_string_pretty(&draw::scenario(first)).expect("a scenario is JSON"));
    }
    for seed in first..first + count {
        let began = Instant::now();
        match catch_unwind(|| carry_out(seed)) {
            Ok(ran) => taken += u64::from(ran),
            Err(_) => {
                eprintln!("seed {seed}: the panic above");
                failed.push(seed);
            }
        }
        let took = began.elapsed().as_secs_f64();
        if took > slowest.0 {
            slowest = (took, seed);
        }
    }
    println!("{count} scenarios, {taken} taken; the slowest, seed {}, took {:.1} s", slowest.1, slowest.0);
    assert_eq!(failed, [0; 0], "seeds whose scenarios panic");
    assert!(taken > 0 || count == 0, "the engine refuses them all");
}
