//! Records of packets that left, and of those that an ACK delivers together.

use crate::clock::Nanos;

/// The first of several packets that an ACK delivers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Oldest {
    pub seq: u64,
    pub end: u64,
    pub sent: Nanos,
}

/// State of the flight when a packet left, for congestion controls that look at the loss of a flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flight {
    /// Packets in flight, this one included (tx.in_flight).
    pub packets: u32,
    /// `Core::lost` then, its lower 32 bits (tx.lost).
    pub lost: u32,
}
