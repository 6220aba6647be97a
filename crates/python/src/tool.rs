//! The loadlatency tool for Python: each end runs in a thread of its own, while this one prints and listens for signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use loadlatency::{client, report, server};
use pyo3::prelude::*;

use crate::Result;
use crate::error::Error;

/// Time between two looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// The JSON document of a loadlatency run (docs/loadlatency.md) from what was observed and under which conditions, both
/// JSON; raises ValueError with one line if either cannot be read.
#[pyfunction]
pub(crate) fn loadlatency_document(observed: &str, conditions: &str) -> Result<String> {
    let observed = serde_json::from_str(observed)?;
    let conditions = serde_json::from_str(conditions)?;
    Ok(serde_json::to_string(&measure::document(observed, conditions))?)
}

/// Serve until interrupted, or after the first client if `once`. `options` is JSON; `say` is called with a line for whatever
/// happens. Raises ValueError for wrong options, OSError if the address cannot be listened on.
#[pyfunction]
pub(crate) fn loadlatency_serve(py: Python<'_>, options: &str, say: &Bound<'_, PyAny>) -> Result<()> {
    let options: server::Options = serde_json::from_str(options)?;
    options.check()?;
    let end = move |cancel: &AtomicBool, pieces: &Sender<String>| {
        server::serve(&options, cancel, &mut |line| {
            // Nobody is there to read it once the caller was interrupted twice.
            let _ = pieces.send(line.to_owned());
        })
    };
    Ok(attend(py, end, say)??)
}

/// Scenarios by number from a list such as `1,3-5`; raises ValueError with one line.
#[pyfunction]
pub(crate) fn loadlatency_scenarios(text: &str) -> Result<Vec<u32>> {
    Ok(client::scenario_list(text)?)
}

/// Measure against a server. `options` is JSON; `print` is called with pieces of the classic output as they come to be.
/// Returns the JSON document, today's metrics as text, and why the run was cut short, or None. An interrupt ends the run
/// early, and what was measured is returned. Raises ValueError for wrong options, OSError if the server cannot be reached.
#[pyfunction]
pub(crate) fn loadlatency_run(
    py: Python<'_>,
    options: &str,
    print: &Bound<'_, PyAny>,
) -> Result<(String, String, Option<String>)> {
    let options: client::Options = serde_json::from_str(options)?;
    options.check()?;
    let end = move |cancel: &AtomicBool, pieces: &Sender<String>| {
        client::run(&options, cancel, &mut |piece| {
            let _ = pieces.send(piece.to_owned());
        })
    };
    let outcome = attend(py, end, print)??;
    let document = serde_json::to_string(&outcome.document)?;
    Ok((document, report::text(&outcome.document), outcome.error))
}

/// The JSON document of a run, read and written again with every metric made anew of what was observed; raises ValueError
/// with one line if it is none.
#[pyfunction]
pub(crate) fn loadlatency_read(document: &str) -> Result<String> {
    let document: measure::Document = serde_json::from_str(document)?;
    if !measure::READ.contains(&document.schema) {
        return Err(Error::Schema(document.schema));
    }
    Ok(serde_json::to_string(&measure::document(document.observed, document.conditions))?)
}

/// Runs an end in a thread without the GIL, and hands what it says to `say`. The first interrupt, or an error of `say`, ends
/// it early; a second interrupt is raised.
fn attend<T: Send + 'static>(
    py: Python<'_>,
    end: impl FnOnce(&AtomicBool, &Sender<String>) -> T + Send + 'static,
    say: &Bound<'_, PyAny>,
) -> Result<T> {
    let cancel = Arc::new(AtomicBool::new(false));
    let (pieces, said) = mpsc::channel();
    let thread = {
        let cancel = Arc::clone(&cancel);
        thread::spawn(move || end(&cancel, &pieces))
    };
    let mut trouble = None;
    // Sync is asked of what is used without the GIL; a receiver is not.
    let said = std::sync::Mutex::new(said);
    loop {
        let piece = py.detach(|| match said.lock() {
            Ok(said) => said.recv_timeout(LOOK),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        });
        match piece {
            Ok(piece) if trouble.is_none() => {
                if let Err(error) = say.call1((piece,)) {
                    cancel.store(true, Ordering::Relaxed);
                    trouble = Some(error);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(interrupt) = py.check_signals()
            && cancel.swap(true, Ordering::Relaxed)
        {
            return Err(interrupt.into());
        }
    }
    let outcome = py.detach(|| thread.join());
    match trouble {
        Some(error) => Err(error.into()),
        None => outcome.map_err(|_| Error::Failed),
    }
}
