//! An application that writes at a steady rate.

use crate::{End, Metric, Nanos, Socket};

/// Bits that a rate in bit/s makes of nanoseconds, and nanoseconds of bytes: 8 x 10^9.
const BIT_NANOS: u128 = 8_000_000_000;

/// Bytes that `rate_bps` sends in `length`, whole ones.
pub fn sent_in(length: Nanos, rate_bps: u64) -> u64 {
    u64::try_from(u128::from(length) * u128::from(rate_bps) / BIT_NANOS).unwrap_or(u64::MAX)
}

/// Writes blocks at a steady rate, and never more than the rate sends in the time it has: the last block is as small as
/// that asks. One that blocks is behind its schedule and catches up as fast as the socket lets it.
#[derive(Clone, Debug)]
pub struct Paced {
    rate_bps: u64,
    write_bytes: u64,
    /// Time when the application stops for good.
    ends: Nanos,
    /// Time when the application began to send. None while it does not.
    started: Option<Nanos>,
    /// Number of bytes that the application may send from `started` on.
    budget: u64,
    /// Remainder of earlier times that was too short for a byte, in parts of a byte ([`BIT_NANOS`] make one).
    rest: u128,
    written: u64,
    due: Option<Nanos>,
    stopping: bool,
    closed: bool,
}

impl Paced {
    /// `write_bytes` at a time, the first at once, `rate_bps` on average up to `ends`.
    ///
    /// # Panics
    /// If the rate or the size is zero.
    pub fn new(rate_bps: u64, write_bytes: u64, ends: Nanos) -> Paced {
        assert!(rate_bps > 0 && write_bytes > 0, "a rate and a size above zero");
        Paced {
            rate_bps,
            write_bytes,
            ends,
            started: None,
            budget: 0,
            rest: 0,
            written: 0,
            due: None,
            stopping: false,
            closed: false,
        }
    }

    /// Bytes that should have been written by `elapsed` after the start: whole blocks, one at the very start.
    fn scheduled(&self, elapsed: Nanos) -> u64 {
        let blocks = u128::from(sent_in(elapsed, self.rate_bps) / self.write_bytes) + 1;
        (blocks * u128::from(self.write_bytes)).min(u128::from(self.budget)) as u64
    }

    /// Time after the start when such a number of bytes is scheduled.
    fn time_of(&self, bytes: u64) -> Nanos {
        let time = (u128::from(bytes) * BIT_NANOS).div_ceil(u128::from(self.rate_bps));
        Nanos::try_from(time).unwrap_or(Nanos::MAX)
    }

    /// Writes what is due; returns whether there was anything.
    pub(super) fn write(&mut self, socket: &mut dyn Socket, now: Nanos) -> bool {
        if self.started.is_none() {
            self.begin(now, self.ends);
        }
        let started = self.started.unwrap_or(now);
        let scheduled = self.scheduled(now - started);
        let taken = if scheduled > self.written { socket.write(scheduled - self.written) } else { 0 };
        self.written += taken;
        // One that blocks is woken by the socket; one that has sent all it may has nothing to wait for.
        let more = self.written == scheduled && scheduled < self.budget;
        self.due = more.then(|| started.saturating_add(self.time_of(scheduled)));
        taken > 0
    }

    /// Starts the schedule again at `now`, to send until then.
    pub(super) fn begin(&mut self, now: Nanos, until: Nanos) {
        let parts =
            u128::from(until.min(self.ends).saturating_sub(now)) * u128::from(self.rate_bps) + self.rest;
        self.started = Some(now);
        self.budget = u64::try_from(parts / BIT_NANOS).unwrap_or(u64::MAX);
        self.rest = parts % BIT_NANOS;
        self.written = 0;
        self.due = None;
    }
}

impl End for Paced {
    fn turn(&mut self, socket: &mut dyn Socket, now: Nanos, _metrics: &mut Vec<Metric>) -> bool {
        if self.closed {
            return false;
        }
        if self.stopping {
            self.closed = true;
            self.due = None;
            socket.close();
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
