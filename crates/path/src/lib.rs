//! Hops between hosts: links, shapers, queue disciplines, impairments, switches.
//!
//! Knows no TCP, and no clock but the `now` it is handed (nanoseconds). Everything is generic over [`Packet`].

mod config;

pub use config::{LossConfig, QueueConfig};
