//! Errors of the engine as exceptions of Python: the one place that says which becomes which.

use std::io;

use measure::READ;
use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use thiserror::Error;

/// Failure of a function of the module, in one line.
#[derive(Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Parse(#[from] contract::ParseError),
    #[error(transparent)]
    Simulation(#[from] sim::Error),
    #[error(transparent)]
    LiveApp(#[from] agent::AppRefusal),
    #[error(transparent)]
    Trace(#[from] trace::Error),
    #[error(transparent)]
    Option(#[from] loadlatency::OptionError),
    #[error(transparent)]
    Client(#[from] loadlatency::ClientError),
    #[error(transparent)]
    Server(#[from] loadlatency::ServerError),
    #[error(transparent)]
    NotAScenario(#[from] measure::classic::NotAScenario),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A document of another version.
    #[error("schema {0} is not known, but {first} and {last} are", first = READ.start(), last = READ.end())]
    Schema(u32),
    #[error(transparent)]
    Live(#[from] live::ConfigError),
    #[error("no flow is called {0}")]
    NoFlow(String),
    #[error("count {0:?} is not payload, ip, frame or acked")]
    Count(String),
    /// A call of this object panicked.
    #[error("the engine failed earlier")]
    FailedEarlier,
    #[error("the engine failed in this run earlier")]
    RunFailedEarlier,
    #[error("the engine failed")]
    Failed,
    #[error("the {0} failed earlier")]
    LiveFailedEarlier(&'static str),
    /// A congestion control from outside cannot be used.
    #[error(transparent)]
    Module(#[from] tcp::cc::foreign::Failure),
    /// Congestion control that is no reference.
    #[error("{0} is no reference")]
    NoReference(String),
    /// Number that no notice has.
    #[error("no notice has number {0}")]
    Notice(u64),
    /// A file cannot be written.
    #[error("{0}: {1}")]
    File(String, #[source] io::Error),
    /// Run that has failed.
    #[error("{0}")]
    RunFailed(String),
    /// Number that no connection has.
    #[error("no such connection")]
    NoConnection,
    #[error(transparent)]
    Os(#[from] io::Error),
    /// Exception that Python raised.
    #[error(transparent)]
    Python(#[from] PyErr),
}

impl From<wire::capture::Error> for Error {
    fn from(error: wire::capture::Error) -> Error {
        Error::Trace(error.into())
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> PyErr {
        let line = error.to_string();
        match error {
            Error::Python(raised) => raised,
            Error::Os(_)
            | Error::File(..)
            | Error::LiveFailedEarlier(_)
            | Error::Client(_)
            | Error::Server(_) => PyOSError::new_err(line),
            Error::Failed | Error::RunFailed(_) => PyRuntimeError::new_err(line),
            Error::NoConnection => PyIndexError::new_err(line),
            _ => PyValueError::new_err(line),
        }
    }
}
