//! Congestion controls, by the family whose hooks and units they use.

pub mod experiment;
pub mod foreign;
pub mod freebsd;
pub mod linux;
mod registry;
pub mod replay;
pub mod windows;

use std::sync::Arc;

pub use registry::{Lifecycle, Registry, RegistryError};
pub use units::Phase;

/// A module of some family.
#[derive(Clone)]
pub enum Module {
    /// Behind FreeBSD's hooks.
    FreeBsd(Arc<dyn freebsd::Module>),
    /// Behind Linux's hooks.
    Linux(Arc<dyn linux::Module>),
}
