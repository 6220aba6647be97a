//! Requests and responses over one connection: what the asking end does, and all of the answering one.

use crate::{End, Message, Metric, Nanos, Socket};

/// The asking side of an end: one request after the other, each when the last was answered.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    request: u64,
    response: u64,
    /// Bytes of the current request that the socket has not taken yet.
    request_left: u64,
    /// Time when the current response was asked for, and its bytes that have not been read yet.
    waiting: Option<(Nanos, u64)>,
    closed: bool,
}

impl Asker {
    pub(crate) fn new(request: u64, response: u64) -> Asker {
        assert!(request > 0 && response > 0, "requests and responses have at least one byte");
        Asker { request, response, request_left: 0, waiting: None, closed: false }
    }

    /// Whether a response is outstanding.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Asks for a response, for the `last` time or not; [`Asker::write_request`] writes it.
    pub(crate) fn ask(&mut self, socket: &mut dyn Socket, now: Nanos, last: bool) {
        debug_assert!(self.waiting.is_none(), "one at a time");
        socket.say(Message::Request { bytes: self.request, response: self.response, last });
        self.request_left = self.request;
        self.waiting = Some((now, self.response));
    }

    /// Writes what is left of the request; returns whether there was anything.
    pub(crate) fn write_request(&mut self, socket: &mut dyn Socket) -> bool {
        let taken = if self.request_left > 0 { socket.write(self.request_left) } else { 0 };
        self.request_left -= taken;
        taken > 0
    }

    /// Reads what has come of the response: (whether anything was read, time from asking to its last byte).
    pub(crate) fn receive(&mut self, socket: &mut dyn Socket, now: Nanos) -> (bool, Option<Nanos>) {
        let Some((asked, missing)) = self.waiting else { return (socket.read(u64::MAX) > 0, None) };
        let read = socket.read(missing);
        if read < missing {
            self.waiting = Some((asked, missing - read));
            return (read > 0, None);
        }
        self.waiting = None;
        (true, Some(now - asked))
    }

    /// Closes the connection, unless it is closed or a response is outstanding; returns whether it was closed now.
    /// The other end then knows that no request is on its way, and closes too.
    pub(crate) fn close(&mut self, socket: &mut dyn Socket) -> bool {
        if self.is_waiting() || std::mem::replace(&mut self.closed, true) {
            return false;
        }
        socket.close();
        true
    }
}

/// Server that answers requests as they ask for it. It closes when the last is answered: the one that says so, or
/// all when the other end has closed.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Request that is being read: bytes that have not come yet, those of its response, and whether it is the last.
    request: Option<(u64, u64, bool)>,
    /// Bytes of the response that the socket has not taken yet.
    response_left: u64,
    over: bool,
    closed: bool,
    /// Answers begin with when the request was read.
    stamps: bool,
}

impl Server {
    /// Creates a server whose answers begin with when the request was read.
    pub fn with_stamps() -> Server {
        Server { stamps: true, ..Server::default() }
    }

    /// Reads requests until there is one to answer.
    fn listen(&mut self, socket: &mut dyn Socket, now: Nanos) {
        while self.response_left == 0 && !self.over {
            let Some((left, response, last)) = &mut self.request else {
                let Some(Message::Request { bytes, response, last }) = socket.heard() else { return };
                self.request = Some((bytes, response, last));
                continue;
            };
            *left -= socket.read(*left);
            if *left > 0 {
                return;
            }
            (self.response_left, self.over) = (*response, *last);
            self.request = None;
            if self.stamps {
                socket.say(Message::Answer { read_at: now });
            }
        }
    }
}

impl End for Server {
    fn turn(&mut self, socket: &mut dyn Socket, now: Nanos, _metrics: &mut Vec<Metric>) -> bool {
        self.listen(socket, now);
        let taken = if self.response_left > 0 { socket.write(self.response_left) } else { 0 };
        self.response_left -= taken;
        if self.response_left == 0 && !self.closed && (self.over || socket.at_end()) {
            self.closed = true;
            socket.close();
            return true;
        }
        taken > 0
    }
}
