//! Figures of a connection with Accurate ECN.

use super::{AccEcn, Failures, Seen};

impl AccEcn {
    /// Marked packets of ours that the peer has told of.
    pub fn delivered_ce(&self) -> u32 {
        self.delivered_ce
    }

    /// Marked packets that have come.
    pub fn received_ce(&self) -> u32 {
        self.received_ce
    }

    /// Bytes of ours that arrived with ECT(1), ECT(0) and CE, as the peer tells.
    pub fn delivered_bytes(&self) -> [u32; 3] {
        self.delivered_bytes
    }

    /// Bytes that have come with ECT(1), ECT(0) and CE.
    pub fn received_bytes(&self) -> [u32; 3] {
        self.received_bytes
    }

    /// Ways in which the path was found to mangle feedback.
    pub fn failures(&self) -> Failures {
        self.failures
    }

    /// State of the peer's option.
    pub fn seen(&self) -> Seen {
        self.seen
    }
}
