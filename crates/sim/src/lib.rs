//! The event engine, topology and recorder.

mod applications;
mod capture;
mod catalogue;
mod cheat;
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

use guest::GuestStack;
use tcp::cc::foreign::Foreign;

/// Code from outside that a run has besides its scenario.
#[derive(Default)]
pub struct Outside {
    /// Congestion controls.
    pub modules: Vec<Arc<dyn Foreign>>,
    /// Guests, besides those that come built in.
    pub guests: Vec<&'static GuestStack>,
}

impl Outside {
    /// The guest of this name, built in or from outside.
    pub(crate) fn guest(&self, name: &str) -> Option<&'static GuestStack> {
        guest::find(name).or_else(|| self.guests.iter().find(|stack| stack.name == name).copied())
    }
}

/// Whether the engine would run this scenario (JSON) with what there is from outside.
///
/// # Errors
/// What it refuses.
pub fn check(scenario: &str, outside: &Outside) -> Result<(), Error> {
    let scenario = contract::parse(scenario)?;
    check::check(&scenario, outside)?;
    topology::Topology::new(&scenario)?;
    Ok(())
}
