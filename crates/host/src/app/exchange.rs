//! Requests and responses over one connection: the receiver asks, the sender answers.

use tcp::{Endpoint, Nanos};

use super::read_all;

/// One exchange after the other. Neither side sees bytes: both know how long a request and a response are.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    request: u64,
    response: u64,
    /// Bytes of the current request that the asking side's socket has not taken yet.
    to_ask: u64,
    /// When the current response was asked for, and its bytes that have not been read yet.
    waiting: Option<(Nanos, u64)>,
    /// Bytes of requests that the answering side has read and not answered.
    heard: u64,
    /// Bytes of responses that the answering side's socket has not taken yet.
    to_answer: u64,
    /// Requests that the answering side has begun to answer.
    answered: u64,
    /// The answering side has closed.
    closed: bool,
}

impl Exchange {
    pub(super) fn new(request: u64, response: u64) -> Exchange {
        assert!(request > 0 && response > 0, "requests and responses have at least one byte");
        Exchange {
            request,
            response,
            to_ask: 0,
            waiting: None,
            heard: 0,
            to_answer: 0,
            answered: 0,
            closed: false,
        }
    }

    /// Whether a response is outstanding.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Requests that the answering side has read so far.
    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    /// Asks for a response; [`Exchange::ask_on`] writes it.
    pub(super) fn ask(&mut self, now: Nanos) {
        debug_assert!(self.waiting.is_none(), "one at a time");
        self.to_ask = self.request;
        self.waiting = Some((now, self.response));
    }

    /// Writes what is left of the request; returns whether there was anything.
    pub(super) fn ask_on(&mut self, socket: &mut Endpoint) -> bool {
        let taken = if self.to_ask > 0 { socket.write(self.to_ask) } else { 0 };
        self.to_ask -= taken;
        taken > 0
    }

    /// Reads what has come of the response: (whether anything was read, time from asking to its last byte).
    pub(super) fn receive(&mut self, socket: &mut Endpoint, now: Nanos) -> (bool, Option<Nanos>) {
        let read = read_all(socket, now);
        let Some((asked, missing)) = self.waiting else { return (read > 0, None) };
        if read < missing {
            self.waiting = Some((asked, missing - read));
            return (read > 0, None);
        }
        self.waiting = None;
        (true, Some(now - asked))
    }

    /// Lets the answering side act, which closes when `most` requests are answered, or when it is `stopping` and no response is
    /// outstanding. Returns whether it wrote or closed.
    pub(super) fn serve(
        &mut self,
        socket: &mut Endpoint,
        now: Nanos,
        stopping: bool,
        most: Option<u64>,
    ) -> bool {
        let wrote = self.answer(socket, now);
        let over = stopping && !self.is_waiting() || most.is_some_and(|most| self.answered >= most);
        if over && self.to_answer == 0 && !self.closed {
            self.closed = true;
            socket.shutdown(now);
            return true;
        }
        wrote
    }

    /// Lets the answering side act; returns whether it wrote.
    pub(super) fn answer(&mut self, socket: &mut Endpoint, now: Nanos) -> bool {
        self.heard += read_all(socket, now);
        while self.heard >= self.request {
            self.heard -= self.request;
            self.to_answer += self.response;
            self.answered += 1;
        }
        let taken = if self.to_answer > 0 { socket.write(self.to_answer) } else { 0 };
        self.to_answer -= taken;
        taken > 0
    }
}
