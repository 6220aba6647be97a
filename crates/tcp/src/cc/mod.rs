//! Congestion controls, by the family whose hooks and units they use.

pub mod experiment;
pub mod foreign;
pub mod freebsd;
pub mod linux;
mod registry;
pub mod windows;

use std::sync::Arc;

pub use registry::{Lifecycle, Registry, RegistryError};

/// A module of some family.
#[derive(Clone)]
pub enum Module {
    /// Behind FreeBSD's hooks.
    FreeBsd(Arc<dyn freebsd::Module>),
    /// Behind Linux's hooks.
    Linux(Arc<dyn linux::Module>),
}

/// Phase of congestion control, told alike for all families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// cwnd grows exponentially.
    SlowStart,
    /// Congestion avoidance.
    Avoidance,
    /// Fast recovery.
    Recovery,
    /// Loss recovery after a timeout, until repaired.
    Loss,
    /// Reducing without loss (ECN, local drop).
    Cwr,
    /// Duplicate ACKs or SACKs seen, nothing judged lost (Linux).
    Disorder,
}

impl Phase {
    /// The word in the `state` column of the `tcp` table.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::SlowStart => "slow-start",
            Phase::Avoidance => "avoidance",
            Phase::Recovery => "recovery",
            Phase::Loss => "loss",
            Phase::Cwr => "cwr",
            Phase::Disorder => "disorder",
        }
    }
}
