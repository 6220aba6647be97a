//! Surroundings of an endpoint in one machine: its NIC, offloads, and processing time.
//!
//! The host's clock is [`tcp::HostClock`], which an endpoint needs itself.

pub mod aggregate;
pub mod nic;
pub mod noise;
