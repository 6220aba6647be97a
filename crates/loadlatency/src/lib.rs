//! Capacity, responsiveness and smoothness of a link under load, as Jonathan Morton's loadlatency defined them in 2011
//! (bloat-devel, 21 March 2011), and the tool that measures them.
//!
//! - `client` and `server`: the two ends; `flow` is what both do at a flow's connection, `link` at the pinger's.
//! - `wire`, `auth`: what crosses the network, and proofs of a shared secret.
//! - `sys`, `payload`: what the systems give beyond std; random bytes.
//!
//! The mixes of flows, the metrics and the classic output are the crate `measure`. Parts that need sockets are there on Unix
//! only; the format on the wire and the report are there on every target.
//!
//! docs/loadlatency.md describes all of it for users.

#[cfg(unix)]
pub mod auth;
#[cfg(unix)]
pub mod client;
#[cfg(unix)]
mod error;
#[cfg(unix)]
mod flow;
#[cfg(unix)]
mod link;
#[cfg(unix)]
pub mod payload;
pub mod report;
#[cfg(unix)]
pub mod server;
#[cfg(unix)]
pub mod sys;
pub mod wire;

#[cfg(unix)]
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(unix)]
pub use error::{ClientError, GreetingError, OptionError, ServerError};

/// Description that an end gives of itself: the tool's version and the system.
pub fn about() -> String {
    format!(
        "loadlatency {} on {} {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

/// Whether this system knows a congestion control.
///
/// # Errors
/// If not.
#[cfg(unix)]
pub fn check_congestion_control(name: &str) -> Result<(), OptionError> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let asked = socket.and_then(|socket| sys::set_congestion_control(socket2::SockRef::from(&socket), name));
    asked.map_err(OptionError::CongestionControl)
}

/// Locks what threads share. What one that panicked left is still good: numbers, and maps whose entries are whole.
#[cfg(unix)]
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
