//! Asks, waits for the answer, thinks, asks again.

use crate::exchange::Asker;
use crate::{End, Metric, Nanos, Socket};

/// A client with one request at a time; a [`crate::Server`] is at the other end.
#[derive(Clone, Debug)]
pub struct Requests {
    asker: Asker,
    /// Requests still to make. None: until stopped.
    left: Option<u64>,
    think: Nanos,
    /// Time when the next request is made. None: as soon as possible.
    next: Option<Nanos>,
    stopping: bool,
}

impl Requests {
    /// `requests` of `request` bytes (None: until stopped), each answered by `response` bytes and followed by `think`.
    ///
    /// # Panics
    /// If a size is zero.
    pub fn new(requests: Option<u64>, request: u64, response: u64, think: Nanos) -> Requests {
        Requests { asker: Asker::new(request, response), left: requests, think, next: None, stopping: false }
    }
}

impl End for Requests {
    fn turn(&mut self, socket: &mut dyn Socket, now: Nanos, metrics: &mut Vec<Metric>) -> bool {
        let (read, response) = self.asker.receive(socket, now);
        if let Some(took) = response {
            metrics.push(Metric::Response(took));
            self.next = Some(now + self.think);
        }
        if self.stopping && self.asker.close(socket) {
            return true;
        }
        let ready = !self.asker.is_waiting() && self.next.is_none_or(|next| next <= now);
        if ready && !self.stopping && self.left != Some(0) {
            self.left = self.left.map(|left| left - 1);
            self.next = None;
            self.asker.ask(socket, now, self.left == Some(0));
        }
        self.asker.write_request(socket) || read
    }

    fn due(&self) -> Option<Nanos> {
        if self.asker.is_waiting() || self.left == Some(0) || self.stopping { None } else { self.next }
    }

    fn stop(&mut self) {
        self.stopping = true;
    }
}
