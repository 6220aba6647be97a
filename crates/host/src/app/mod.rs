//! Application models: what reads and writes a socket, and when it closes.
//!
//! A model is both ends of one connection. Data goes from the sender to the receiver; where somebody asks for it
//! (requests, incast, video), the receiver asks and the sender answers, over a connection that is already open.

mod bulk;
mod datagrams;
mod exchange;
mod incast;
mod load;
mod on_off;
mod paced;
mod request_response;
mod video;

pub use bulk::Bulk;
pub use datagrams::{Datagrams, HEADERS};
pub use incast::{Incast, Rounds};
pub use load::{Arrivals, LOAD_BIN, Load, Ping, Pinger};
pub use on_off::{Lengths, OnOff};
pub use paced::{Paced, sent_in};
pub use request_response::RequestResponse;
use tcp::{Endpoint, Nanos};
pub use video::Video;

/// Something that happened to an application and is worth a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// A response was read to its end so long after it was asked for.
    Response(Nanos),
    /// A player had nothing to show for so long.
    Stall(Nanos),
}

/// An application model other than bulk transfer.
pub trait Application: Send {
    /// The sending end's turn, when something has happened at its connected socket or [`Application::due`] is reached.
    /// Returns whether it wrote or closed.
    fn sender(&mut self, socket: &mut Endpoint, now: Nanos) -> bool;

    /// The receiving end's turn, likewise. Returns whether it read or wrote.
    fn receiver(&mut self, socket: &mut Endpoint, now: Nanos, figures: &mut Vec<Figure>) -> bool {
        let _ = figures;
        drain(socket, now)
    }

    /// When it next wants a turn at both ends without anything happening at its sockets.
    fn due(&self) -> Option<Nanos>;

    /// Asks it to end: what was written is still sent, what was asked for still answered, then the sender closes.
    fn stop(&mut self);

    /// Whether it ends by itself.
    fn is_limited(&self) -> bool {
        false
    }
}

/// Reads everything at once; returns whether there was anything.
#[inline]
pub fn drain(endpoint: &mut Endpoint, now: Nanos) -> bool {
    read_all(endpoint, now) > 0
}

#[inline]
fn read_all(endpoint: &mut Endpoint, now: Nanos) -> u64 {
    let waiting = endpoint.readable();
    if waiting > 0 { endpoint.read(now, waiting) } else { 0 }
}

#[cfg(test)]
mod tests;
