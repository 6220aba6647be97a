//! What the endpoint hands to its sender and its receiver at each call.

use crate::clock::{HostClock, Nanos};
use crate::event::Events;

/// The time, the clock and where to report.
#[derive(Debug)]
pub struct Context<'a> {
    /// True time.
    pub now: Nanos,
    /// The host's clock; a stack sees time only through it, except where the system uses high-resolution timers.
    pub clock: &'a HostClock,
    /// Where to report.
    pub events: &'a mut Events,
}
