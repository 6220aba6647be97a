//! Linux only: what touches this host's kernel.
#![cfg(target_os = "linux")]

pub mod kernel;
pub mod peer;
mod socket;
pub mod tun;
