//! Errors that keep the agent from an order.

use std::io;

use contract::AppError;
use loadlatency::OptionError;
use loadlatency::sys::in_words;
use thiserror::Error;

/// Reason why live hosts cannot carry out an application.
#[derive(Debug, Error)]
pub enum AppRefusal {
    /// Nobody can.
    #[error(transparent)]
    App(#[from] AppError),
    /// Messages without room for what the application says.
    #[error("{bytes} bytes have no room for what a message says; at least {least}")]
    Short {
        /// Bytes of a message.
        bytes: u64,
        /// Smallest size that has the room.
        least: u64,
    },
    /// Application that needs more than one connection, or whose ends say something to each other, over a guest.
    #[error(
        "app: over a guest, whose payload has no content here, expected bulk, fixed, rate-limited or on-off"
    )]
    Guest,
}

/// Reason why an order, or an end of a flow, was not carried out: one line.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// No live host can carry this application out.
    #[error(transparent)]
    App(#[from] AppRefusal),
    /// The loadlatency tool does not take its options.
    #[error(transparent)]
    Options(#[from] OptionError),
    /// Application that only the loadlatency tool carries out, without the tool's options.
    #[error("the loadlatency tool carries this out")]
    Load,
    /// Application that only the simulator carries out.
    #[error("media with a congestion control are not carried out by this agent")]
    Media,
    /// A program was to be started, and none is named.
    #[error("a tool without a command")]
    NoCommand,
    /// Server that ended before it listened, and what it wrote.
    #[error("{name} ended: {wrote}")]
    Ended {
        /// The program.
        name: String,
        /// End of the server's output.
        wrote: String,
    },
    /// A server does not listen in time.
    #[error("{name} does not listen{}", .port.map_or_else(String::new, |port| format!(" on port {port}")))]
    Silent {
        /// The program.
        name: String,
        /// Port that the server should listen at.
        port: Option<u16>,
    },
    /// A sampler's settings cannot be.
    #[error("sampler: {0}")]
    Sampler(#[source] io::Error),
    /// The emulator's settings cannot be, or what it needs is not there.
    #[error("emulator: {0}")]
    Emulator(#[source] io::Error),
    /// Emulator that was not started.
    #[error("there is no emulator")]
    NoEmulator,
    /// Name that no sampler has.
    #[error("no sampler is called {0}")]
    NoSampler(String),
    /// Sample that is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The system refuses.
    #[error("{}", in_words(.0))]
    Io(#[from] io::Error),
    /// Error with what it happened to.
    #[error("{what}: {why}")]
    At {
        /// A flow, a program, a file.
        what: String,
        /// Error that happened.
        why: Box<Error>,
    },
    /// Guest that is not built in.
    #[error("{0} is not built into this agent")]
    NoGuest(String),
    /// A guest refuses, or its connection broke.
    #[cfg(all(feature = "quinn", target_os = "linux"))]
    #[error("{0}")]
    Guest(String),
    /// A mistake of ours.
    #[error("the agent failed: see its standard error")]
    Panicked,
}

impl Error {
    /// Adds what the error happened to.
    pub(crate) fn at(self, what: impl Into<String>) -> Error {
        Error::At { what: what.into(), why: Box::new(self) }
    }
}

/// Result of the agent's parts.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Says what an error of the system happened to.
pub(crate) fn at<T>(what: &str, result: io::Result<T>) -> Result<T> {
    result.map_err(|error| Error::from(error).at(what))
}
