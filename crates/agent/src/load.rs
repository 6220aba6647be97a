//! The loadlatency tool as what carries out a scenario: its engine, each end in a thread of its own.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use loadlatency::{client, server};

use crate::clock::{Clock, locked};
use crate::error::{Error, Result};
use crate::order::{Load, Report, Task};

/// The tool's name.
const TOOL: &str = "loadlatency";

/// Within this time its server has to listen.
const LISTEN: Duration = Duration::from_secs(10);

/// Result of an end.
#[derive(Clone, Debug, Default)]
struct Outcome {
    document: String,
    error: Option<String>,
    is_over: bool,
}

/// End of a scenario.
#[derive(Debug)]
pub(crate) struct Session {
    flow: String,
    role: &'static str,
    after: Duration,
    outcome: Arc<(Mutex<Outcome>, Condvar)>,
}

impl Session {
    /// The server, which listens when this returns.
    ///
    /// # Errors
    /// It refuses its options, ends at once, or does not listen in time.
    pub(crate) fn serve(task: &Task, load: &Load) -> Result<Session> {
        let session = Session::new(task, load, "to");
        let (outcome, options) = (Arc::clone(&session.outcome), load.server.clone());
        options.check()?;
        let (said, says) = mpsc::channel::<()>();
        thread::spawn(move || {
            let served = server::serve(&options, &AtomicBool::new(false), &mut |_| {
                // Only the first is waited for.
                let _ = said.send(());
            });
            finish(&outcome, |outcome| outcome.error = served.err().map(|why| why.to_string()));
        });
        match says.recv_timeout(LISTEN) {
            Ok(()) => Ok(session),
            Err(RecvTimeoutError::Timeout) => Err(Error::Silent { name: TOOL.to_owned(), port: None }),
            Err(RecvTimeoutError::Disconnected) => {
                let wrote = session.wait(LISTEN).error.unwrap_or_default();
                Err(Error::Ended { name: TOOL.to_owned(), wrote })
            }
        }
    }

    /// The client, which waits for its time.
    ///
    /// # Errors
    /// It refuses its options.
    pub(crate) fn run(task: &Task, load: &Load, clock: &Arc<Clock>) -> Result<Session> {
        let session = Session::new(task, load, "from");
        let (outcome, options) = (Arc::clone(&session.outcome), load.client.clone());
        options.check()?;
        let (clock, start) = (Arc::clone(clock), load.start_ns);
        thread::spawn(move || {
            clock.sleep_until(start as i64);
            let ran = client::run(&options, &AtomicBool::new(false), &mut |_| ());
            finish(&outcome, |outcome| match ran {
                Ok(ran) => match serde_json::to_string(&ran.document) {
                    Ok(document) => (outcome.document, outcome.error) = (document, ran.error),
                    Err(error) => outcome.error = Some(error.to_string()),
                },
                Err(why) => outcome.error = Some(why.to_string()),
            });
        });
        Ok(session)
    }

    fn new(task: &Task, load: &Load, role: &'static str) -> Session {
        let after = Duration::from_nanos(load.after_ns);
        Session { flow: task.flow.clone(), role, after, outcome: Arc::default() }
    }

    /// Report of the end. A client is waited for; a server that no client came to never ends.
    pub(crate) fn report(&self) -> Report {
        let client = self.role == "from";
        let outcome = self.wait(if client { self.after } else { Duration::ZERO });
        let late = (client && !outcome.is_over).then(|| "the tool did not end".to_owned());
        Report {
            flow: self.flow.clone(),
            role: self.role,
            tool: TOOL.to_owned(),
            text: outcome.document,
            error: outcome.error.or(late),
        }
    }

    fn wait(&self, at_most: Duration) -> Outcome {
        let (outcome, over) = &*self.outcome;
        let waited = over.wait_timeout_while(locked(outcome), at_most, |outcome| !outcome.is_over);
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

fn finish(outcome: &(Mutex<Outcome>, Condvar), note: impl FnOnce(&mut Outcome)) {
    let mut held = locked(&outcome.0);
    note(&mut held);
    held.is_over = true;
    drop(held);
    outcome.1.notify_all();
}
