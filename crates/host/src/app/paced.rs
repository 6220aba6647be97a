//! An application that writes at a steady rate.

use tcp::{Endpoint, Nanos};

use super::Application;

/// Writes blocks at a steady rate. One that blocks is behind its schedule and catches up as fast as the socket lets it.
#[derive(Clone, Debug)]
pub struct Paced {
    rate_bps: u64,
    write_bytes: u64,
    started: Option<Nanos>,
    written: u64,
    due: Option<Nanos>,
    stopping: bool,
    closed: bool,
}

impl Paced {
    /// `write_bytes` at a time, the first at once, `rate_bps` on average.
    ///
    /// # Panics
    /// If either is zero.
    pub fn new(rate_bps: u64, write_bytes: u64) -> Paced {
        assert!(rate_bps > 0 && write_bytes > 0, "a rate and a size above zero");
        Paced { rate_bps, write_bytes, started: None, written: 0, due: None, stopping: false, closed: false }
    }

    /// Bytes that should have been written by `elapsed` after the start: whole blocks, one at the very start.
    fn scheduled(&self, elapsed: Nanos) -> u64 {
        let bits = u128::from(elapsed) * u128::from(self.rate_bps) / 1_000_000_000;
        (bits as u64 / 8 / self.write_bytes + 1) * self.write_bytes
    }

    /// When so many bytes are scheduled, after the start.
    fn time_of(&self, bytes: u64) -> Nanos {
        (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.rate_bps)) as Nanos
    }

    /// Writes what is due; returns whether there was anything.
    pub(super) fn write(&mut self, socket: &mut Endpoint, now: Nanos) -> bool {
        let started = *self.started.get_or_insert(now);
        let scheduled = self.scheduled(now - started);
        let taken = if scheduled > self.written { socket.write(scheduled - self.written) } else { 0 };
        self.written += taken;
        // One that blocks is woken by the socket.
        self.due = (self.written == scheduled).then(|| started + self.time_of(scheduled));
        taken > 0
    }

    /// Starts its schedule again at the next turn.
    pub(super) fn restart(&mut self) {
        self.started = None;
        self.written = 0;
        self.due = None;
    }
}

impl Application for Paced {
    fn sender(&mut self, socket: &mut Endpoint, now: Nanos) -> bool {
        if self.closed {
            return false;
        }
        if self.stopping {
            self.closed = true;
            self.due = None;
            socket.shutdown(now);
            return true;
        }
        self.write(socket, now)
    }

    fn due(&self) -> Option<Nanos> {
        self.due
    }

    fn stop(&mut self) {
        self.stopping = true;
    }
}
