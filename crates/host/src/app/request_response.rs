//! Asks, waits for the answer, thinks, asks again.

use tcp::{Endpoint, Nanos};

use super::exchange::Exchange;
use super::{Application, Figure};

/// A client (the receiving end) with one request at a time, and its server.
#[derive(Clone, Debug)]
pub struct RequestResponse {
    exchange: Exchange,
    /// Requests still to make; None: until stopped.
    left: Option<u64>,
    requests: Option<u64>,
    think: Nanos,
    /// When the next request is made; None: as soon as possible.
    next: Option<Nanos>,
    stopping: bool,
}

impl RequestResponse {
    /// `requests` of `request` bytes (None: until stopped), each answered by `response` bytes and followed by `think`.
    ///
    /// # Panics
    /// If a size is zero.
    pub fn new(requests: Option<u64>, request: u64, response: u64, think: Nanos) -> RequestResponse {
        RequestResponse {
            exchange: Exchange::new(request, response),
            left: requests,
            requests,
            think,
            next: None,
            stopping: false,
        }
    }
}

impl Application for RequestResponse {
    fn sender(&mut self, socket: &mut Endpoint, now: Nanos) -> bool {
        self.exchange.serve(socket, now, self.stopping, self.requests)
    }

    fn receiver(&mut self, socket: &mut Endpoint, now: Nanos, figures: &mut Vec<Figure>) -> bool {
        let (read, response) = self.exchange.receive(socket, now);
        if let Some(took) = response {
            figures.push(Figure::Response(took));
            self.next = Some(now + self.think);
        }
        let ready = !self.exchange.is_waiting() && self.next.is_none_or(|next| next <= now);
        if ready && !self.stopping && self.left != Some(0) {
            self.left = self.left.map(|left| left - 1);
            self.next = None;
            self.exchange.ask(now);
        }
        self.exchange.write_request(socket) || read
    }

    fn due(&self) -> Option<Nanos> {
        if self.exchange.is_waiting() || self.left == Some(0) || self.stopping { None } else { self.next }
    }

    fn stop(&mut self) {
        self.stopping = true;
    }

    fn is_limited(&self) -> bool {
        self.requests.is_some()
    }
}
