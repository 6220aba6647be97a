//! The property tests of two endpoints catch planted bugs: a test that cannot fail proves nothing.

#[path = "../interop/case.rs"]
mod case;
#[path = "../interop/driver.rs"]
mod driver;

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tcp::mutants::{Mutant, wake};

/// Cases until a planted bug must have been caught.
const CASES: u32 = 1500;

fn caught(mutant: Option<Mutant>) -> bool {
    // Panics of the engine count as caught; their words are not wanted.
    std::panic::set_hook(Box::new(|_| {}));
    let config = Config { cases: CASES, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result = TestRunner::new_with_rng(config, random).run(&case::any_case(), |case| {
        wake(mutant);
        let result = std::panic::catch_unwind(|| driver::run(&case));
        wake(None);
        match result {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(proptest::test_runner::TestCaseError::fail(error)),
            Err(_) => Err(proptest::test_runner::TestCaseError::fail("panic")),
        }
    });
    let _ = std::panic::take_hook();
    println!(
        "{mutant:?}: {}",
        result.as_ref().err().map_or("nothing wrong".into(), |error| error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_string())
    );
    result.is_err()
}

#[test]
fn every_planted_bug_is_caught_and_none_is_seen_where_there_is_none() {
    for mutant in [Mutant::HoleOfOneByte, Mutant::NoWrap, Mutant::NoPersist, Mutant::DeliveredTwice] {
        assert!(caught(Some(mutant)), "{mutant:?} was not caught in {CASES} cases");
    }
    assert!(!caught(None), "the same cases fail without a planted bug");
}
