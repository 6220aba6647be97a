//! Any two stacks talk over any path: every byte arrives exactly once and in order, both sides close, nothing stalls.

mod case;
mod driver;
mod mended;

use std::cell::RefCell;

use driver::Seen;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Cases of a run; a hundred take a second or two.
const CASES: u32 = 1500;

/// Numbers of cases, by what they had in them.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    cases: u64,
    rto: u64,
    tail_loss_probe: u64,
    sequence_wrap: u64,
    zero_window: u64,
    reordering_past_dupthresh: u64,
    resegmented: u64,
    bytes: u64,
}

impl Counts {
    fn add(&mut self, seen: &Seen) {
        self.cases += 1;
        self.rto += u64::from(seen.rtos > 0);
        self.tail_loss_probe += u64::from(seen.probes > 0);
        self.sequence_wrap += u64::from(seen.wrapped);
        self.zero_window += u64::from(seen.zero_window);
        self.reordering_past_dupthresh += u64::from(seen.reordered);
        self.resegmented += u64::from(seen.resegmented > 0);
        self.bytes += seen.bytes;
    }
}

#[test]
fn any_two_stacks_talk_over_any_path() {
    let cases = std::env::var("INTEROP_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES);
    // Without persistence: the failing case is printed whole, with its seed, and is all that is needed to run it again.
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let counts = RefCell::new(Counts::default());
    // The same cases in every run, so that a change is judged by what it changed; INTEROP_CASES goes further.
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result = TestRunner::new_with_rng(config, random).run(&case::any_case(), |case| {
        let seen = driver::run(&case).map_err(proptest::test_runner::TestCaseError::fail)?;
        counts.borrow_mut().add(&seen);
        Ok(())
    });
    let counts = counts.into_inner();
    println!("{counts:#?}");
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(counts.rto > 0, "no case had a timeout");
    assert!(counts.tail_loss_probe > 0, "no case had a tail loss probe");
    assert!(counts.sequence_wrap > 0, "no case had a sequence wrap");
    assert!(counts.zero_window > 0, "no case had a zero window");
    assert!(counts.reordering_past_dupthresh > 0, "no case had reordering past DupThresh");
    assert!(counts.resegmented > 0, "no case was resegmented");
    assert!(counts.bytes > 0, "no byte was delivered");
}
