//! Context that the endpoint hands to its sender and its receiver.

use crate::clock::{HostClock, Nanos};
use crate::event::Events;

/// The time, the clock and where to report.
#[derive(Debug)]
pub struct Context<'a> {
    /// True time.
    pub now: Nanos,
    /// The host's clock; a stack sees time only through it, except where the system uses high-resolution timers.
    pub clock: &'a HostClock,
    /// Reports of what happens.
    pub events: &'a mut Events,
}

/// ECN fields of a segment (RFC 3168).
#[derive(Clone, Copy, Debug)]
pub struct EcnSegment {
    /// Whether the segment may be marked.
    pub capable: bool,
    /// Whether the segment is marked.
    pub ce: bool,
    /// The sender says that it has reduced.
    pub cwr: bool,
    /// ACKs echo an earlier mark to which the peer has not reacted yet.
    pub echoed: bool,
    /// An ACK is being delayed.
    pub delayed_ack: bool,
    /// Payload bytes.
    pub payload: u32,
    /// The segment has payload or a FIN.
    pub sequenced: bool,
    /// Next byte expected, once the segment itself is taken.
    pub next: u64,
}

impl EcnSegment {
    /// Whether ACKs echo a mark from now on by the rules of RFC 3168 (section 6.1.3): from marked data on until the peer says that
    /// it has reduced.
    pub fn classic_echo(&self) -> bool {
        self.echoed || (self.ce && self.sequenced)
    }
}

/// Wishes of a congestion control for the answer to a segment on a connection with ECN.
#[derive(Clone, Copy, Debug, Default)]
pub struct EcnAnswer {
    /// The segment is acknowledged at once.
    pub ack_now: bool,
    /// ACKs echo a mark from now on.
    pub echoes_ce: bool,
    /// ACK that leaves first, of what had come before: what it acknowledges, and whether it echoes a mark.
    pub first: Option<(u64, bool)>,
}
