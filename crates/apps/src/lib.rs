//! Applications: what reads and writes a socket, and when it closes.
//!
//! Each end of a connection is a state machine of its own. It knows what it was told at the beginning, and what has
//! crossed the connection. Time is handed in, and the socket is whatever a driver has: the simulator's endpoint, where
//! payload has a length and no content, or a kernel's. Data goes from the opening end to the accepting end; where somebody
//! asks for it (requests, incast, video), the accepting end asks and the opening end answers.

mod check;
mod exchange;
mod kinds;
mod message;

pub use check::{AppError, check_app};
pub use exchange::Server;
pub use kinds::*;
pub use message::{HEADER, Malformed, Message};
pub use path::Nanos;

/// Side of one end of an open connection.
pub trait Socket {
    /// Hands over so many bytes of payload; returns how many were taken. Fewer: the end waits for room, until it writes
    /// again, were it nothing.
    fn write(&mut self, bytes: u64) -> u64;

    /// Whether an end that waits for room would be woken.
    fn writable(&self) -> bool;

    /// Takes payload that has come, at most so many bytes; returns how many there were.
    fn read(&mut self, most: u64) -> u64;

    /// Whether the other end has closed, and everything it wrote was read.
    fn at_end(&self) -> bool;

    /// No more will be written; what was is still sent.
    fn close(&mut self);

    /// The bytes written next begin a message, which says this in the first of them.
    fn say(&mut self, message: Message) {
        let _ = message;
    }

    /// Message that begins where reading has got to. None while too little of it has come: then the end does not
    /// read on.
    fn heard(&mut self) -> Option<Message> {
        None
    }
}

/// Something that happened to an application and is worth a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// A response was read to its end so long after it was asked for.
    Response(Nanos),
    /// A player had nothing to show for so long.
    Stall(Nanos),
    /// A transfer was read to its end so long after it arrived at its sender.
    Completion(Nanos),
}

/// End of a connection.
pub trait End: Send {
    /// Takes a turn, while the connection is open: something has happened at its socket, or [`End::due`] is
    /// reached. Returns whether the end did something that may let the socket send.
    fn turn(&mut self, socket: &mut dyn Socket, now: Nanos, metrics: &mut Vec<Metric>) -> bool;

    /// Time when the end next wants a turn without anything happening at its socket.
    fn due(&self) -> Option<Nanos> {
        None
    }

    /// Tells the end to stop: what was written is still sent, what was asked for still awaited.
    fn stop(&mut self) {}
}

impl<E: End + ?Sized> End for Box<E> {
    fn turn(&mut self, socket: &mut dyn Socket, now: Nanos, metrics: &mut Vec<Metric>) -> bool {
        (**self).turn(socket, now, metrics)
    }

    fn due(&self) -> Option<Nanos> {
        (**self).due()
    }

    fn stop(&mut self) {
        (**self).stop();
    }
}

/// Reads whatever comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sink;

impl End for Sink {
    fn turn(&mut self, socket: &mut dyn Socket, _now: Nanos, _metrics: &mut Vec<Metric>) -> bool {
        socket.read(u64::MAX) > 0
    }
}

#[cfg(test)]
mod tests;
