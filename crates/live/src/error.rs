//! Why an emulator or a sampler cannot be made.

use thiserror::Error;

/// Fault of an emulator's or a sampler's configuration, in one line.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// Configuration that cannot be read: the owner's name, and why.
    #[error("{0}: {1}")]
    Parse(&'static str, serde_json::Error),
    /// The network of its Scenario cannot be carried out.
    #[error(transparent)]
    Network(#[from] contract::NetworkError),
    /// An emulator without threads.
    #[error("emulator: threads must be at least 1")]
    Threads,
    /// An interface ends two cables.
    #[error("emulator: interface {0} is in two places")]
    InterfaceTwice(String),
    /// A cable's link is not in the Scenario.
    #[error("emulator: no link is called {0}")]
    NoLink(String),
    /// A link is in two cables.
    #[error("emulator: link {0} is in two cables")]
    LinkTwice(String),
    /// A capture is at a link in no cable.
    #[error("emulator: capture at {0}, which no cable has")]
    Capture(String),
    /// Packets or sockets belong to a flow that is not there: whose configuration it is, and the flow's name.
    #[error("{0}: no flow is called {1}")]
    NoFlow(&'static str, String),
    /// A sampler without rest.
    #[error("sampler: interval_ns must be above zero")]
    Interval,
    /// Only Linux has what it needs: what it says then.
    #[error("{0}")]
    Unsupported(&'static str),
}
