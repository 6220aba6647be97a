//! The event engine, topology and recorder.

mod apps;
mod capture;
mod catalogue;
mod check;
mod draws;
mod engine;
mod event_queue;
mod flow;
pub mod histogram;
mod host_edge;
pub mod ids;
mod load;
mod network;
mod packet;
pub mod record;
pub mod scenario;
mod summary;
pub mod table;
mod topology;

pub use catalogue::catalogue;
pub use check::{check_links, parse};
pub use draws::{Draws, starts};
pub use engine::Simulation;
pub use scenario::Scenario;

/// Whether the engine would run this scenario (JSON).
///
/// # Errors
/// One line saying what it refuses.
pub fn check(scenario: &str) -> Result<(), String> {
    let scenario = check::parse(scenario)?;
    check::check(&scenario)?;
    topology::Topology::new(&scenario)?;
    Ok(())
}
