//! Real-time media with a congestion control: an encoder that follows a target rate, and a sender and a receiver of datagrams.
//!
//! The receiver reports when each packet came and whether it was marked, as RFC 8888 has it. The sender's controller makes of that a
//! target rate for the encoder, and says when packets may leave. Packets wait for that at the sender; what has waited for half a second
//! is left out, as a viewer has no use for it.

mod encoder;
mod gcc;
mod receiver;
mod scream;
mod sender;
mod window;

use crate::{EcnField, Nanos};

pub use receiver::{MediaReceiver, Report};
pub use sender::{MediaSender, Outgoing, Seen};

/// Time after which a packet that could not be sent is left out. Documents ask for such a limit and name none; it is ours.
const STALE: Nanos = 500_000_000;

params::words! {
    /// The congestion control of media.
    pub enum Controller {
        /// SCReAM (RFC 8298): a window and a rate from the queueing delay, losses and marks.
        Scream = "scream",
        /// Google Congestion Control (draft-ietf-rmcat-gcc-02): a rate from the gradient of the delay, and from losses.
        Gcc = "gcc",
    }
}

/// Settings of a flow of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media {
    /// Congestion control.
    pub controller: Controller,
    /// Least target rate, bit/s.
    pub min_bps: u64,
    /// Largest target rate, bit/s.
    pub max_bps: u64,
    /// Target rate at first, bit/s.
    pub start_bps: u64,
    /// Frames a second.
    pub fps: u32,
    /// Mean deviation of a frame's size from its share of the target rate, parts per billion.
    pub variation_ppb: u32,
    /// Payload of a packet at most, bytes.
    pub payload: u32,
    /// Time between two reports. None: as the controller's document has it.
    pub feedback: Option<Nanos>,
    /// ECN field of the packets.
    pub ecn: EcnField,
}

/// Arrival of a packet, as a report tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time when it came.
    pub at: Nanos,
    /// Whether it was marked.
    pub ce: bool,
}

/// A packet of which a report says for the first time that it came.
#[derive(Clone, Copy, Debug)]
struct Acked {
    number: u64,
    sent: Nanos,
    arrived: Nanos,
    bytes: u32,
}

/// News of a report, for a controller.
#[derive(Debug)]
struct Feedback<'a> {
    /// Packets that are new to the sender, in the order of their numbers.
    acked: &'a [Acked],
    /// Packets that are taken for lost now.
    lost: u64,
    /// Whether one of those that came was marked.
    marked: bool,
    /// Bytes by which the highest number has grown, those of lost packets too.
    newly: u64,
    /// Bytes behind the highest number that has come.
    flight: u64,
    /// Round trip of the newest packet, without the time it waited for its report.
    rtt: Option<Nanos>,
}

/// Congestion control of media: decides how much is made and when it leaves.
trait Control: Send {
    /// A packet leaves, after which so many bytes are in flight.
    fn on_sent(&mut self, now: Nanos, bytes: u32, flight: u64);

    /// A frame is made.
    fn on_frame(&mut self, now: Nanos, bytes: u32) {
        let _ = (now, bytes);
    }

    /// A report has come, while so many bytes wait at the sender.
    fn on_feedback(&mut self, now: Nanos, feedback: &Feedback<'_>, queued: u64);

    /// Something that is to happen at times has to happen by `now`, while so many bytes wait at the sender.
    fn on_time(&mut self, now: Nanos, queued: u64) {
        let _ = (now, queued);
    }

    /// Whether a packet may leave while so many bytes are in flight.
    fn admits(&self, bytes: u32, flight: u64) -> bool {
        let _ = (bytes, flight);
        true
    }

    /// Time after a packet of so many bytes that leaves at `now`, before which no other may.
    fn pace(&mut self, now: Nanos, bytes: u32) -> Nanos;

    /// Target rate, bit/s.
    fn target_bps(&self) -> u64;

    /// Queueing delay as the controller sees it.
    fn queue_delay(&self) -> Nanos;
}

/// Nanoseconds as seconds.
fn seconds(ns: Nanos) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests;
