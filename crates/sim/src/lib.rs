//! The event engine, topology and recorder.

mod applications;
mod capture;
mod catalogue;
mod check;
mod draws;
mod engine;
mod error;
mod event_queue;
mod flow;
mod host_edge;
mod host_stack;
mod limits;
mod load;
mod network;
mod packet;
mod socket;
mod summary;
mod topology;
mod transport;

pub use catalogue::catalogue;
pub use draws::{phases, starts};
pub use engine::Simulation;
pub use error::{Error, FlowError, HostError};
pub use transport::SenderState;

use std::sync::Arc;

use tcp::cc::foreign::Foreign;

/// Whether the engine would run this scenario (JSON) with these congestion controls from outside.
///
/// # Errors
/// What it refuses.
pub fn check(scenario: &str, modules: &[Arc<dyn Foreign>]) -> Result<(), Error> {
    let scenario = contract::parse(scenario)?;
    check::check(&scenario, modules)?;
    topology::Topology::new(&scenario)?;
    Ok(())
}
