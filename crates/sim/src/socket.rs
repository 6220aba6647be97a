//! A modelled endpoint as the socket of an application.

use std::collections::VecDeque;

use apps::{Message, Socket};
use path::Nanos;
use tcp::Endpoint;

/// An endpoint whose payload has a length and no content, at the time of a turn.
pub(crate) struct Plain<'a> {
    /// The endpoint.
    pub endpoint: &'a mut Endpoint,
    /// The time.
    pub now: Nanos,
}

impl Socket for Plain<'_> {
    #[inline]
    fn write(&mut self, bytes: u64) -> u64 {
        self.endpoint.write(bytes)
    }

    #[inline]
    fn writable(&self) -> bool {
        self.endpoint.writable()
    }

    #[inline]
    fn read(&mut self, most: u64) -> u64 {
        let waiting = self.endpoint.readable().min(most);
        if waiting > 0 { self.endpoint.read(self.now, waiting) } else { 0 }
    }

    fn at_end(&self) -> bool {
        self.endpoint.at_eof()
    }

    #[inline]
    fn close(&mut self) {
        self.endpoint.shutdown_when_open(self.now);
    }
}

/// Socket that tells how much waits to be read.
pub(crate) trait Waiting: Socket {
    /// Payload that has come and was not read, bytes.
    fn waiting(&self) -> u64;
}

impl Waiting for Plain<'_> {
    fn waiting(&self) -> u64 {
        self.endpoint.readable()
    }
}

/// Messages that the two ends of a connection say to each other: beside payload that has no content, each heard at
/// the place in the stream where it was said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Talk {
    sides: [Side; 2],
}

/// Bytes that one end has written and read, and what it has said.
#[derive(Clone, Debug, Default)]
struct Side {
    written: u64,
    read: u64,
    /// Messages that the end said, and the other end has not heard: (place in its stream, message).
    said: VecDeque<(u64, Message)>,
}

/// A socket whose application says more than how long its payload is.
pub(crate) struct Talking<'a, S> {
    /// Socket of a payload without content.
    pub plain: S,
    /// Messages that were said.
    pub talk: &'a mut Talk,
    /// Number of the end: 0 opens the connection, 1 accepts it.
    pub side: usize,
}

impl<S: Waiting> Socket for Talking<'_, S> {
    fn write(&mut self, bytes: u64) -> u64 {
        let taken = self.plain.write(bytes);
        self.talk.sides[self.side].written += taken;
        taken
    }

    fn writable(&self) -> bool {
        self.plain.writable()
    }

    fn read(&mut self, most: u64) -> u64 {
        let taken = self.plain.read(most);
        self.talk.sides[self.side].read += taken;
        taken
    }

    fn at_end(&self) -> bool {
        self.plain.at_end()
    }

    fn close(&mut self) {
        self.plain.close();
    }

    fn say(&mut self, message: Message) {
        let side = &mut self.talk.sides[self.side];
        side.said.push_back((side.written, message));
    }

    fn heard(&mut self) -> Option<Message> {
        let place = self.talk.sides[self.side].read;
        let said = &mut self.talk.sides[self.side ^ 1].said;
        let begins = said.front().is_some_and(|&(at, _)| at == place) && self.plain.waiting() > 0;
        if begins { said.pop_front().map(|(_, message)| message) } else { None }
    }
}

#[cfg(test)]
mod tests;
