//! Incast: rounds in which a client asks all its servers at once, so that all answer at the same moment.

use tcp::{Endpoint, Nanos};

use super::exchange::Exchange;
use super::{Application, Figure};

/// One server of an incast and the client's connection to it. [`Rounds`] says when the client asks.
#[derive(Clone, Debug)]
pub struct Incast {
    exchange: Exchange,
    rounds: Option<u64>,
    /// The client asks when it acts next.
    released: bool,
    stopping: bool,
}

impl Incast {
    /// A server that answers `rounds` requests (None: until stopped) of `request` bytes with `response` bytes.
    ///
    /// # Panics
    /// If a size is zero.
    pub fn new(rounds: Option<u64>, request: u64, response: u64) -> Incast {
        Incast { exchange: Exchange::new(request, response), rounds, released: false, stopping: false }
    }

    /// A round begins: the client asks when it acts next.
    pub fn release(&mut self) {
        self.released = true;
    }
}

impl Application for Incast {
    fn sender(&mut self, socket: &mut Endpoint, now: Nanos) -> bool {
        self.exchange.serve(socket, now, self.stopping, self.rounds)
    }

    fn receiver(&mut self, socket: &mut Endpoint, now: Nanos, figures: &mut Vec<Figure>) -> bool {
        let (read, response) = self.exchange.receive(socket, now);
        if let Some(took) = response {
            figures.push(Figure::Response(took));
        }
        if self.released && !self.exchange.is_waiting() && !self.stopping {
            self.released = false;
            self.exchange.ask(now);
        }
        self.exchange.write_request(socket) || read
    }

    fn due(&self) -> Option<Nanos> {
        None
    }

    fn stop(&mut self) {
        self.stopping = true;
    }

    fn is_limited(&self) -> bool {
        self.rounds.is_some()
    }
}

/// The client of an incast: a round begins when all connections are open, and the next one when every server has
/// answered and the client's think time is over.
#[derive(Clone, Debug)]
pub struct Rounds {
    servers: u32,
    think: Nanos,
    left: Option<u64>,
    /// Servers that are not ready for the next round.
    missing: u32,
    due: Option<Nanos>,
}

impl Rounds {
    /// `rounds` (None: no end) with so many servers, `think` between two.
    pub fn new(servers: u32, rounds: Option<u64>, think: Nanos) -> Rounds {
        Rounds { servers, think, left: rounds, missing: servers, due: None }
    }

    /// A server's connection is open, for the first round.
    pub fn on_open(&mut self, now: Nanos) {
        self.on_ready(now);
    }

    /// A server has answered.
    pub fn on_answer(&mut self, now: Nanos) {
        self.on_ready(now + self.think);
    }

    /// When the next round begins.
    pub fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// A round begins.
    pub fn begin(&mut self) {
        self.due = None;
        self.missing = self.servers;
        self.left = self.left.map(|left| left - 1);
    }

    fn on_ready(&mut self, at: Nanos) {
        self.missing = self.missing.saturating_sub(1);
        if self.missing == 0 && self.left != Some(0) {
            self.due = Some(at);
        }
    }
}
