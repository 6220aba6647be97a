//! Scripts of any text, run against a modelled stack: each ends with an exit code.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let outcome = script::run_file(text, "fuzz.pkt", "linux-6.18", &script::Choices::default());
    assert!(outcome.exit_code <= 2);
    assert_eq!(outcome.exit_code == 0, outcome.message.is_none());
});
