//! Incast: rounds in which a client asks all its servers at once, so that all answer at the same moment.

use crate::exchange::Asker;
use crate::{End, Metric, Nanos, Socket};

/// The client's connection to one server of an incast, a [`crate::Server`]. [`Rounds`] says when it asks.
#[derive(Clone, Debug)]
pub struct Incast {
    asker: Asker,
    /// Requests still to make. None: until stopped.
    left: Option<u64>,
    /// Whether the client asks when it acts next.
    released: bool,
    stopping: bool,
}

impl Incast {
    /// A client that asks this server `rounds` times (None: until stopped) with `request` bytes for `response` bytes.
    ///
    /// # Panics
    /// If a size is zero.
    pub fn new(rounds: Option<u64>, request: u64, response: u64) -> Incast {
        Incast { asker: Asker::new(request, response), left: rounds, released: false, stopping: false }
    }

    /// Begins a round: the client asks when it acts next.
    pub fn release(&mut self) {
        self.released = true;
    }
}

impl End for Incast {
    fn turn(&mut self, socket: &mut dyn Socket, now: Nanos, metrics: &mut Vec<Metric>) -> bool {
        let (read, response) = self.asker.receive(socket, now);
        if let Some(took) = response {
            metrics.push(Metric::Response(took));
        }
        if self.stopping && self.asker.close(socket) {
            return true;
        }
        if self.released && !self.asker.is_waiting() && !self.stopping {
            self.released = false;
            self.left = self.left.map(|left| left.saturating_sub(1));
            self.asker.ask(socket, now, self.left == Some(0));
        }
        self.asker.write_request(socket) || read
    }

    fn stop(&mut self) {
        self.stopping = true;
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

    /// Time when the next round begins.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_begin_when_all_are_ready() {
        let mut rounds = Rounds::new(2, Some(2), 5);
        rounds.on_open(100);
        assert_eq!(rounds.due(), None);
        rounds.on_open(120);
        assert_eq!(rounds.due(), Some(120));
        rounds.begin();
        rounds.on_answer(200);
        rounds.on_answer(300);
        assert_eq!(rounds.due(), Some(305));
        rounds.begin();
        rounds.on_answer(400);
        rounds.on_answer(400);
        assert_eq!(rounds.due(), None);
    }
}
