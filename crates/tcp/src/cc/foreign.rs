//! Congestion controls from outside: what a run is told of them, and how they fail.

use std::sync::{Arc, OnceLock};

use thiserror::Error;

use super::Module;
use crate::clock::Nanos;

/// A congestion control from outside, as a run is given it. Each host that uses it gets a copy of its own.
pub trait Foreign: Send + Sync {
    /// Name by which flows choose the congestion control.
    fn name(&self) -> &str;

    /// The family whose hooks it has, by the word of [`crate::stack::Family::as_str`].
    fn family(&self) -> &str;

    /// Knobs that can be set, as sysctls of a host.
    fn knobs(&self) -> &[Knob];

    /// A copy for one host: as compiled, its knobs set, its initialisation called.
    ///
    /// # Errors
    /// It cannot be loaded, or its initialisation fails.
    fn load(&self, host: &Host<'_>) -> Result<Module, Failure>;
}

/// Failure of a congestion control from outside: one line, the rest of a sentence that begins with its name or its
/// hook's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// File that cannot be read or loaded.
    #[error("{file}: {why}")]
    File {
        /// Name of the file.
        file: String,
        /// Error of the system.
        why: String,
    },
    /// Family that runs nothing from outside.
    #[error("no controller from outside runs on {0}")]
    Family(String),
    /// Module that used more processor time than it has.
    #[error("used more than 0.2 s of processor time")]
    TooLong,
    /// Hook that returned an error.
    #[error("refused")]
    Refused,
    /// Module that complained, in these words.
    #[error("stopped: {0}")]
    Stopped(String),
    /// Module that the processor stopped: the signal's name.
    #[error("crashed ({0})")]
    Crashed(String),
    /// Module that made a copy of the process that it runs in.
    #[error("forked: what it made of its process was ended")]
    Forked,
    /// Module that raised an exception, in these words.
    #[error("{0}")]
    Raised(String),
    /// Failure with where it happened.
    #[error("{what}: {why}")]
    At {
        /// A hook, or a setting.
        what: String,
        /// Failure that happened.
        why: Box<Failure>,
    },
}

impl Failure {
    /// Adds that the module failed at `what`.
    pub fn at(self, what: impl Into<String>) -> Failure {
        Failure::At { what: what.into(), why: Box::new(self) }
    }
}

/// A variable of a module that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Name by which an experiment sets the knob.
    pub name: String,
    /// Value that was compiled in.
    pub default: i64,
    /// Smallest value.
    pub min: i64,
    /// Largest value.
    pub max: i64,
}

/// The host that a module is loaded for.
#[derive(Clone, Debug)]
pub struct Host<'a> {
    /// Knobs that are set, among whatever else is.
    pub sysctls: &'a [(String, i64)],
    /// Local time when the run begins.
    pub boot: Nanos,
    /// Ticks per second.
    pub hz: u32,
    /// Seeds what its initialisation draws.
    pub random: u64,
    /// Trouble, where the module says that it has failed.
    pub trouble: Trouble,
}

/// Reason why a run has failed: what a congestion control from outside did, once it has. The first counts.
#[derive(Clone, Debug, Default)]
pub struct Trouble(Arc<OnceLock<String>>);

impl Trouble {
    /// Says so, in one line.
    pub fn report(&self, why: String) {
        // What follows is a consequence.
        let _ = self.0.set(why);
    }

    /// Returns the reason, one line. None if nothing has failed.
    pub fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}
