//! What surrounds an endpoint in one machine: its NIC, segmentation, applications.
//!
//! The host's clock is [`tcp::HostClock`], which an endpoint needs itself.

pub mod app;
pub mod nic;
