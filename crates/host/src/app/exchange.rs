//! Requests and responses over one connection: the receiver asks, the sender answers.

use tcp::{Endpoint, Nanos};

use super::read_all;

/// One exchange after the other. Neither side sees bytes: both know how long a request and a response are.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    request: u64,
    response: u64,
    /// Bytes of the current request that the asking side's socket has not taken yet.
    request_left: u64,
    /// When the current response was asked for, and its bytes that have not been read yet.
    waiting: Option<(Nanos, u64)>,
    /// Bytes of requests that the answering side has read and not answered.
    unanswered: u64,
    /// Bytes of responses that the answering side's socket has not taken yet.
    response_left: u64,
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
            request_left: 0,
            waiting: None,
            unanswered: 0,
            response_left: 0,
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

    /// Asks for a response; [`Exchange::write_request`] writes it.
    pub(super) fn ask(&mut self, now: Nanos) {
        debug_assert!(self.waiting.is_none(), "one at a time");
        self.request_left = self.request;
        self.waiting = Some((now, self.response));
    }

    /// Writes what is left of the request; returns whether there was anything.
    pub(super) fn write_request(&mut self, socket: &mut Endpoint) -> bool {
        let taken = if self.request_left > 0 { socket.write(self.request_left) } else { 0 };
        self.request_left -= taken;
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

    /// Lets the answering side act. It closes when `most` requests are answered, or when it is `stopping` and no
    /// response is outstanding. Returns whether it wrote or closed.
    pub(super) fn serve(
        &mut self,
        socket: &mut Endpoint,
        now: Nanos,
        stopping: bool,
        most: Option<u64>,
    ) -> bool {
        let wrote = self.answer(socket, now);
        let over = stopping && !self.is_waiting() || most.is_some_and(|most| self.answered >= most);
        if over && self.response_left == 0 && !self.closed {
            self.closed = true;
            socket.shutdown(now);
            return true;
        }
        wrote
    }

    /// Lets the answering side act; returns whether it wrote.
    pub(super) fn answer(&mut self, socket: &mut Endpoint, now: Nanos) -> bool {
        self.unanswered += read_all(socket, now);
        while self.unanswered >= self.request {
            self.unanswered -= self.request;
            self.response_left += self.response;
            self.answered += 1;
        }
        let taken = if self.response_left > 0 { socket.write(self.response_left) } else { 0 };
        self.response_left -= taken;
        taken > 0
    }
}
