//! packetdrill scripts against an endpoint: the public language, its runner, and a modelled stack to run against.
//!
//! ```
//! let script = "
//! 0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
//! +0 bind(3, ..., ...) = 0
//! +0 listen(3, 1) = 0
//! +0 < S 0:0(0) win 32792 <mss 1460>
//! +0 > S. 0:0(0) ack 1 <...>
//! ";
//! let outcome = script::run_file(script, "handshake.pkt", "linux-6.18", &script::Choices::default());
//! assert_eq!(outcome.exit_code, 0, "{:?}", outcome.message);
//! ```

mod code;
pub mod errno;
pub mod features;
pub mod message;
mod model;
pub mod packet;
mod parse;
mod run;
pub mod script;
pub mod system;

use std::error::Error;

use tcp::Nanos;

pub use code::{Code, CodeError};
pub use model::{Model, UnknownStack};
pub use parse::{Problem, SyntaxError, parse};
pub use run::{Failure, Report, run};
pub use script::Script;
pub use system::{System, SystemError};

/// Choices of the one who runs a script.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Symbols with their values, besides those the script defines.
    pub defines: Vec<(String, String)>,
    /// Nanoseconds in place of the script's tolerance.
    pub tolerance: Option<Nanos>,
    /// Packets behind the last event are not looked at, as the original tool does it.
    pub end_unseen: bool,
}

/// Outcome of a script, for command lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code. 0: the script went as it should. 1: the system did something else. 2: the script or the stack's
    /// name is wrong.
    pub exit_code: u8,
    /// Message of a failure: a line, and the packets it is about on lines of their own. None if nothing went wrong.
    pub message: Option<String>,
    /// Lines that the script printed.
    pub output: Vec<String>,
}

/// Runs the script `text`, called `name` in messages, against the modelled stack called `stack`.
pub fn run_file(text: &str, name: &str, stack: &str, choices: &Choices) -> Outcome {
    run_on(text, name, choices, |script| {
        Model::new(stack, &script.options).map(|model| Box::new(model) as Box<dyn System>)
    })
}

/// Runs a script as [`run_file`] does, against the system that `make` makes for it.
pub fn run_on<E: Error>(
    text: &str,
    name: &str,
    choices: &Choices,
    make: impl FnOnce(&Script) -> Result<Box<dyn System>, E>,
) -> Outcome {
    let wrong = |message: String| Outcome { exit_code: 2, message: Some(message), output: Vec::new() };
    let mut script = match parse(text, name, &choices.defines) {
        Ok(script) => script,
        Err(error) => return wrong(error.to_string()),
    };
    script.options.end_unseen = choices.end_unseen;
    if let Some(tolerance) = choices.tolerance {
        script.options.tolerance = tolerance;
        script.options.tolerance_permille = 0;
    }
    let mut system = match make(&script) {
        Ok(system) => system,
        Err(error) => return wrong(error.to_string()),
    };
    match run(&script, &mut *system) {
        Ok(report) => Outcome { exit_code: 0, message: None, output: report.output },
        Err(failure) => Outcome { exit_code: 1, message: Some(failure.to_string()), output: failure.output },
    }
}
