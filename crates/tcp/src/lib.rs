//! A TCP endpoint without I/O: time is handed in, segments go in and come out.

pub mod cc;
pub mod clock;
pub mod context;
pub mod endpoint;
pub mod event;
pub mod linux_config;
pub mod listener;
pub mod mutants;
pub mod profile;
mod random;
pub mod receiver;
pub mod replay;
mod reset;
pub mod sender;
pub mod stack;
mod windowed;

pub use clock::{HostClock, Nanos};
pub use endpoint::{Config, Endpoint, Failure, State, TcpInfo};
pub use listener::{Listener, SynOutcome};
