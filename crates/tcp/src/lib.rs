//! A TCP endpoint without I/O: time is handed in, segments go in and come out.
//!
//! Each layer uses only those before it:
//!
//! 1. [`clock`], [`event`], [`context`]: time, reports, and both as senders and receivers get them; [`accecn`]: counters of marks;
//! 2. [`cc`]: congestion controls, by family, behind their systems' own hooks;
//! 3. [`sender`], [`receiver`]: the two sides of a connection, one pipeline per family;
//! 4. [`stack`]: what an endpoint knows of a stack, and how a stack makes the two sides; [`fast_open`], [`peers`]: what a host keeps
//!    between connections; [`syn_cookies`]: listeners that keep nothing of a SYN;
//! 5. [`endpoint`], [`listener`]: a connection (RFC 9293), and what opens one;
//! 6. [`profile`]: the catalogue of stacks.

pub mod accecn;
pub mod cc;
pub mod clock;
pub mod context;
pub mod endpoint;
pub mod event;
pub mod fast_open;
pub mod linux_config;
pub mod listener;
pub mod peers;
pub mod profile;
mod random;
pub mod receiver;
mod reset;
pub mod sender;
pub mod stack;
pub mod syn_cookies;
mod windowed;

pub use clock::{HostClock, Nanos};
pub use endpoint::{Config, Endpoint, Failure, State, TcpInfo};
pub use listener::{Listener, SynOutcome};
