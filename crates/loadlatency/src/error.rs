//! Errors of either end; every error is one line.

use std::io;
use std::net::{IpAddr, SocketAddr};

use measure::{MAX_NS, SCENARIOS};
use thiserror::Error;

use crate::sys::in_words;
use crate::wire::Status;

/// The longest a scenario may take, s.
pub(crate) const MAX_S: f64 = MAX_NS as f64 / 1e9;

/// An option that makes no sense: its name, what was found, what is allowed.
#[derive(Debug, Error)]
pub enum OptionError {
    /// Number that no scenario has.
    #[error("--scenario: found {0}; expected numbers from 1 to {most}", most = SCENARIOS.len())]
    Scenario(u32),
    /// A list of scenarios that cannot be read.
    #[error("--scenario: found {0:?}; expected numbers and ranges, such as 1,3-5")]
    ScenarioList(String),
    /// The length of a scenario, or of a step of the staircase.
    #[error("--duration: found {found}; expected seconds from 0.5 to {longest_s}")]
    Duration {
        /// Seconds.
        found: f64,
        /// The most seconds.
        longest_s: f64,
    },
    /// Duration in s after which a scenario is ended.
    #[error("--at-most: found {0}; expected seconds from 1 to {MAX_S}")]
    AtMost(f64),
    /// Version of IP that does not exist.
    #[error("ip: found {0}; expected 4 or 6")]
    Ip(u8),
    /// The system does not know the congestion control.
    #[error("--cc: {}", in_words(.0))]
    CongestionControl(io::Error),
}

/// Reason why a client could not measure anything.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Options that make no sense.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The name of the server could not be resolved.
    #[error("{host}: {}", in_words(.error))]
    Resolve {
        /// The name.
        host: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The server has no address of the version of IP that was asked for.
    #[error("{0}: has no address of the wanted version of IP")]
    NoAddress(String),
    /// Server none of whose addresses answers; the last of them.
    #[error("cannot reach {address}: {}", in_words(.error))]
    Unreachable {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        error: io::Error,
    },
    /// The connection was lost at once.
    #[error("{address}: {}", in_words(.error))]
    Connection {
        /// The server's address.
        address: SocketAddr,
        /// Error of the system.
        error: io::Error,
    },
    /// The server did not welcome the client.
    #[error("{address}: {why}")]
    Greeting {
        /// The server's address.
        address: SocketAddr,
        /// Reason of the refusal.
        why: GreetingError,
    },
}

/// Reason why a server did not welcome a connection.
#[derive(Debug, Error)]
pub enum GreetingError {
    /// Connection that failed before the greeting.
    #[error("no greeting: {}", in_words(.0))]
    Io(#[from] io::Error),
    /// Refusal by the server.
    #[error("{}", .0.in_words())]
    Refused(Status),
    /// Server that is something else than this tool's.
    #[error("this is no loadlatency server")]
    NoServer,
    /// Server that did not prove that it knows the secret.
    #[error("the server does not know the secret (--secret)")]
    Secret,
}

/// Reason why a server could not serve.
#[derive(Debug, Error)]
pub enum ServerError {
    /// Options that make no sense.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// An address cannot be listened on.
    #[error("cannot listen on {ip} port {port}: {}", in_words(.error))]
    Listen {
        /// The address.
        ip: IpAddr,
        /// The port.
        port: u16,
        /// Error of the system.
        error: io::Error,
    },
    /// Port without an address to listen on.
    #[error("cannot listen on port {0}: the system has neither IPv4 nor IPv6")]
    NoIp(u16),
    /// Error of the system at a socket that was opened.
    #[error(transparent)]
    Io(#[from] io::Error),
}
