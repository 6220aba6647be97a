//! Resets for segments that no connection takes (RFC 9293 section 3.10.7.1).

use wire::{Flags, Segment};

/// Sequence number and acknowledgement of the reset that refuses a segment. None: a reset is not answered.
pub(crate) fn reset_for(segment: &Segment) -> Option<(u32, Option<u32>)> {
    if segment.flags.has(Flags::RST) {
        None
    } else if segment.flags.has(Flags::ACK) {
        Some((segment.ack, None))
    } else {
        Some((0, Some(segment.seq.wrapping_add(segment.seq_len()))))
    }
}

/// A reset.
pub(crate) fn reset(seq: u32, ack: Option<u32>) -> Segment {
    let flags = if ack.is_some() { Flags::RST | Flags::ACK } else { Flags::RST };
    Segment { seq, ack: ack.unwrap_or(0), flags, frames: 1, ..Segment::default() }
}
