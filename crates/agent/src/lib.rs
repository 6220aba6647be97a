//! The process at a host that carries out the ends of flows there, all by one clock: `cwndlab-agent [--limit SECONDS] [NAME]`.
//! Whoever lists processes sees by the name whose it is.
//!
//! # What it is told
//!
//! Orders come as lines of JSON from standard input; each is answered by one line of JSON on standard output. It ends, with
//! all it started, when its input does, and at its time limit. `order` has every key.
//!
//! | order | what it does | answer |
//! | --- | --- | --- |
//! | `{"do": "ping", "to": [ADDRESS, ...], "count": N, "interval_ns": N}` | idle round trips | `{"ping": {ADDRESS: [ns, ...]}}` |
//! | `{"do": "prepare", "measure": [from, to], "duration_ns": N, "sends": [TASK, ...], "receives": [TASK, ...]}` | takes the flows that begin and end here; what accepts connections listens when it is answered | `{"ready": true}` |
//! | `{"do": "start", "zero_ns": N}` | t = 0 of the run is when CLOCK_MONOTONIC of this host says N | `{"started": true}` |
//! | `{"do": "clock"}` | tells the time | `{"monotonic_ns": N, "realtime_ns": N}` |
//! | `{"do": "sample", "name": NAME, "config": {...}}` | looks at sockets at an interval (Linux) | `{"ready": true}` |
//! | `{"do": "samples", "name": NAME, "file": PATH}` | writes what was seen of them (`samples`) | `{"report": {...}}` |
//! | `{"do": "emulate", "config": {...}}` | carries links between interfaces (Linux) | `{"ready": true}` |
//! | `{"do": "emulated", "file": PATH}` | ends that, and writes what was seen | `{"report": {...}}` |
//! | `{"do": "end"}` | ends programs, and tells what was seen | `{"flows": [...], "reports": [...]}` |
//! | anything else | nothing | `{"error": "one line"}` |
//!
//! All further times are ns of the run. A line of more than 16 MiB is answered with an error, and nothing is read after it.
//!
//! # Modules
//!
//! `order` (what crosses the pipe) and `agent` (what is done about it); `flows` says which ends an application has, `driver`
//! gives those their turns at a `socket`; `datagrams` and `echo` are what has no connection; `tool` and `load` are what
//! others carry out; `stack` is flows of guests over datagrams; `samples` looks at sockets, whosever they are, and carries links; `metrics` is what was seen, `clock` the time, `sys` what differs by system.
//!
//! Applications are the machines of the crate `apps`, which the simulator drives too. As the first process of a kernel in
//! virtual time (`guest`) the agent is told a whole run at once, bulk transfer (`bulk`) takes few system calls, and memory is
//! kept (`memory`).

#![cfg(unix)]

mod agent;
#[cfg(target_os = "linux")]
mod bulk;
mod clock;
mod datagrams;
mod driver;
mod echo;
mod error;
mod flows;
#[cfg(target_os = "linux")]
mod guest;
mod load;
#[cfg(target_os = "linux")]
pub mod memory;
mod metrics;
mod order;
mod samples;
mod socket;
#[cfg(all(feature = "quinn", target_os = "linux"))]
mod stack;
mod sys;
mod tool;

use std::io::{BufRead as _, Read as _, Write as _};

use agent::Agent;
use order::Answer;

pub use error::AppRefusal;
pub use flows::check as check_app;

/// The longest line that is read, bytes.
const LINE: u64 = 16 << 20;

/// Exit code of wrong arguments.
const BAD_ARGUMENTS: i32 = 2;

/// Takes orders from standard input until there are no more, and ends this process.
pub fn run(arguments: &[String]) -> ! {
    #[cfg(target_os = "linux")]
    if arguments == [guest::ARGUMENT] && std::process::id() == 1 {
        guest::run();
    }
    match limit(arguments) {
        Ok(seconds) => {
            if let Some(seconds) = seconds {
                agent::limit(seconds);
            }
            sys::run_before_ordinary_processes();
            serve();
            sys::exit(0)
        }
        Err(why) => {
            eprintln!("error: {why}");
            sys::exit(BAD_ARGUMENTS)
        }
    }
}

/// Fault of the arguments.
#[derive(Debug, thiserror::Error)]
enum Usage {
    #[error("--limit: found {0}; expected seconds above zero")]
    Limit(String),
    #[error("arguments: expected [--limit SECONDS] [NAME]")]
    Arguments,
}

/// The time limit, s.
fn limit(arguments: &[String]) -> Result<Option<f64>, Usage> {
    match arguments {
        [] => Ok(None),
        [flag, seconds, rest @ ..] if flag == "--limit" && rest.len() <= 1 => {
            let limit = seconds.parse().ok().filter(|&seconds: &f64| seconds > 0.0 && seconds.is_finite());
            limit.map(Some).ok_or_else(|| Usage::Limit(seconds.clone()))
        }
        [name] if !name.starts_with('-') => Ok(None),
        _ => Err(Usage::Arguments),
    }
}

fn serve() {
    let mut agent = Agent::default();
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.by_ref().take(LINE + 1).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            break;
        }
        let too_long = line.len() as u64 > LINE;
        let answer = if too_long {
            Answer::Error { error: format!("a line of more than {LINE} bytes") }
        } else {
            match serde_json::from_slice(&line) {
                Ok(order) => agent.obey(order),
                Err(error) => Answer::Error { error: format!("order: {error}") },
            }
        };
        if !answered(&answer) || too_long {
            break;
        }
    }
    agent.kill();
}

/// Answers with one line; false if nobody reads it.
fn answered(answer: &Answer) -> bool {
    let Ok(mut text) = serde_json::to_vec(answer) else { return false };
    text.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&text).and_then(|()| out.flush()).is_ok()
}
