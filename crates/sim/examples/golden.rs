//! The golden scenarios as a WebAssembly module, for tests/golden.mjs: `make test-wasm`.
//!
//! A caller runs scenario 0, 1, … up to `count()`, and reads after each what golden.txt says of it at `text()`. After a
//! trap it finds there what the engine said last.

#[path = "../tests/runs/kinds.rs"]
mod kinds;
#[path = "../tests/runs/rows.rs"]
mod rows;
#[allow(dead_code)]
#[path = "../tests/runs/support.rs"]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

static TEXT: Mutex<String> = Mutex::new(String::new());

fn text_cell() -> MutexGuard<'static, String> {
    TEXT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of scenarios. Call it first.
#[unsafe(no_mangle)]
pub extern "C" fn count() -> usize {
    std::panic::set_hook(Box::new(|panic| *text_cell() = panic.to_string()));
    rows::rows().len()
}

/// Runs a scenario.
#[unsafe(no_mangle)]
pub extern "C" fn run(number: usize) {
    let (name, scenario) = rows::rows().swap_remove(number);
    let lines = rows::lines(&name, &scenario);
    *text_cell() = lines;
}

/// Address of the text.
#[unsafe(no_mangle)]
pub extern "C" fn text() -> *const u8 {
    text_cell().as_ptr()
}

/// Bytes of the text.
#[unsafe(no_mangle)]
pub extern "C" fn length() -> usize {
    text_cell().len()
}
