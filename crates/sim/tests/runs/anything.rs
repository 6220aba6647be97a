//! Whatever a scenario says, over the whole range of every key: it is refused in one line, or it runs without a panic.

mod draw;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use sim::Simulation;

/// Seed and number of scenarios that are tried, unless `CWNDLAB_ANYTHING` says others: `7:1000000`.
const TRIED: (u64, u32) = (0, 400);
/// Number of choices that a scenario is drawn from; those beyond them are 0.
const CHOICES: usize = 1000;
/// Number of events of each run: enough for handshakes, losses, timeouts and schedules.
const EVENTS: u64 = 20_000;
/// A scenario that takes longer is printed, to be looked at.
const SLOW: Duration = Duration::from_secs(30);
/// A scenario that takes more processor time hangs. The longest event known, a send buffer of 483 MB that is filled by writes
/// of one byte, takes 63 s.
const HANGS_AFTER: Duration = Duration::from_secs(300);
/// A scenario that holds more memory would fill the machine: a queue or a window of packets has a bound.
const FILLS_FROM: u64 = 8 << 30;
/// Time between two looks at that.
const LOOK: Duration = Duration::from_secs(1);

/// Scenarios that once caused a panic or had no end, one a file.
fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/anything/corpus")
}

/// Carries out a scenario; returns whether the engine took it.
fn carry_out(json: &str) -> bool {
    let checked = sim::check(json, &sim::Outside::default()).map_err(|error| error.to_string());
    let mut run = match Simulation::new(json, 0) {
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

/// Number of bytes of memory that the process holds; 0 where nothing says so.
fn memory() -> u64 {
    let told = fs::read_to_string("/proc/self/statm").ok();
    let pages = told.and_then(|told| told.split(' ').nth(1)?.parse::<u64>().ok());
    pages.map_or(0, |pages| pages * 4096)
}

/// Ends the process when a scenario hangs or fills the memory, and prints that scenario.
struct Watchdog {
    scenario: Arc<Mutex<String>>,
    ended: mpsc::Sender<()>,
}

impl Watchdog {
    fn new() -> Watchdog {
        let (ended, ends) = mpsc::channel();
        let scenario = Arc::new(Mutex::new(String::new()));
        let (watched, clock) = (Arc::clone(&scenario), Clock::of_this_thread());
        thread::spawn(move || {
            let mut began = clock.now();
            loop {
                match ends.recv_timeout(LOOK) {
                    Ok(()) => began = clock.now(),
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        let hangs = clock.now() - began > HANGS_AFTER;
                        if hangs || memory() > FILLS_FROM {
                            let what = if hangs { "hangs" } else { "fills the memory" };
                            eprintln!("{what}: {}", watched.lock().expect("the scenario"));
                            std::process::abort();
                        }
                    }
                }
            }
        });
        Watchdog { scenario, ended }
    }

    fn begins(&self, json: &str) {
        json.clone_into(&mut self.scenario.lock().expect("the scenario"));
    }

    fn ends(&self) {
        self.ended.send(()).expect("the watchdog lives as long as the runs");
    }
}

/// Clock of the processor time of one thread: beside other work less than has passed.
struct Clock {
    /// File that says it; where there is none, what has passed counts.
    file: PathBuf,
    start: Instant,
}

impl Clock {
    /// The clock of the thread that asks for it.
    fn of_this_thread() -> Clock {
        let thread = fs::read_link("/proc/thread-self").unwrap_or_default();
        Clock { file: Path::new("/proc").join(thread).join("stat"), start: Instant::now() }
    }

    fn now(&self) -> Duration {
        // After the name, which ends in a parenthesis, fields 12 and 13 are of user and system, in hundredths of a second.
        let told = fs::read_to_string(&self.file).ok().and_then(|told| {
            let fields = told.rsplit_once(')')?.1.split_whitespace().skip(11);
            Some(fields.take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>())
        });
        told.map_or_else(|| self.start.elapsed(), |hundredths| Duration::from_millis(10 * hundredths))
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_waits_uses_no_processor_time() {
    let clock = Clock::of_this_thread();
    assert!(clock.file.exists());
    let before = clock.now();
    thread::sleep(Duration::from_millis(300));
    let waited = clock.now() - before;
    assert!(waited < Duration::from_millis(200), "{waited:?}");
    while clock.now() - before < Duration::from_millis(200) {}
}

#[derive(Default)]
struct Count {
    tried: u64,
    taken: u64,
    slowest: Duration,
}

impl Count {
    /// Adds a scenario; prints how far it is every 20,000.
    fn add(&mut self, taken: bool, took: Duration) {
        self.tried += 1;
        self.taken += u64::from(taken);
        self.slowest = self.slowest.max(took);
        if self.tried.is_multiple_of(20_000) {
            println!("{self}");
        }
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Count { tried, taken, slowest } = self;
        write!(f, "{tried} scenarios, {taken} taken; the slowest took {:.1} s", slowest.as_secs_f64())
    }
}

#[test]
fn no_scenario_makes_the_engine_panic() {
    let (seed, cases) = std::env::var("CWNDLAB_ANYTHING").map_or(TRIED, |given| {
        let (seed, cases) = given.split_once(':').expect("SEED:COUNT");
        (seed.parse().expect("a number"), cases.parse().expect("a number"))
    });
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 5_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let (watchdog, count) = (Watchdog::new(), Mutex::new(Count::default()));
    let outcome = runner.run(&vec(any::<u64>(), CHOICES), |choices| {
        let json = serde_json::to_string(&draw::scenario(choices)).expect("a scenario is JSON");
        let began = Instant::now();
        watchdog.begins(&json);
        let taken = carry_out(&json);
        watchdog.ends();
        let took = began.elapsed();
        if took > SLOW {
            println!("{:.0} s: {json}", took.as_secs_f64());
        }
        count.lock().expect("the count").add(taken, took);
        Ok(())
    });
    if let Err(TestError::Fail(why, choices)) = outcome {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("anything-{seed}.json"));
        let json = serde_json::to_string(&draw::scenario(choices)).expect("a scenario is JSON");
        fs::write(&kept, json).expect("a folder for it");
        panic!(
            "{why}\nThe simplest scenario found is {}; mended, it belongs in {}",
            kept.display(),
            corpus().display()
        );
    }
    assert!(outcome.is_ok(), "no scenario is rejected");
    let count = count.into_inner().expect("the count");
    println!("{count}");
    assert!(count.taken > 0 || cases == 0, "the engine refuses them all");
}

#[test]
fn no_scenario_of_the_corpus_makes_the_engine_panic_or_hang() {
    let files: Vec<_> =
        fs::read_dir(corpus()).expect("a folder").map(|file| file.expect("a file").path()).collect();
    assert!(!files.is_empty());
    let watchdog = Watchdog::new();
    for file in files {
        let json = fs::read_to_string(&file).expect("text");
        watchdog.begins(&json);
        carry_out(&json);
        watchdog.ends();
    }
}
