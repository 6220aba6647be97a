//! One end of a connection of a guest, as whoever carries it out has it: the simulator, or the agent of a live host.

use apps::Socket;
use rand_core::RngCore as _;
use units::Phase;

use crate::{Ecn, Guest, Nanos, Observed};

/// One end of a connection of a guest, and what its application has done. The application's content is zeros.
pub struct End {
    /// The guest.
    pub guest: Box<dyn Guest>,
    /// Whether the host sets ECN fields.
    pub marks: bool,
    /// Present time, as the application is told.
    pub now: Nanos,
    /// Payload that the application has read, bytes.
    pub bytes_read: u64,
}

impl End {
    /// An end whose application has done nothing. Its host sets ECN fields, or leaves them at zero.
    pub fn new(guest: Box<dyn Guest>, marks: bool) -> End {
        End { guest, marks, now: 0, bytes_read: 0 }
    }

    /// Whether the application has turns.
    pub fn has_turns(&self) -> bool {
        self.guest.is_open() || self.guest.readable() > 0
    }

    /// The next datagram, written into `buffer`, which is empty, and the ECN field that the host gives it.
    pub fn poll_datagram(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Option<Ecn> {
        let ecn = self.guest.poll_transmit(now, buffer)?;
        Some(if self.marks { ecn } else { Ecn::NotEct })
    }
}

impl Socket for &mut End {
    fn write(&mut self, bytes: u64) -> u64 {
        self.guest.write(self.now, bytes)
    }

    fn writable(&self) -> bool {
        self.guest.is_writable()
    }

    fn read(&mut self, most: u64) -> u64 {
        let taken = self.guest.read(self.now, most);
        self.bytes_read += taken;
        taken
    }

    fn at_end(&self) -> bool {
        self.guest.is_at_end()
    }

    fn close(&mut self) {
        self.guest.finish(self.now);
    }
}

impl Observed {
    /// Coarse state of the sender. None: the guest does not tell.
    pub fn phase(&self) -> Option<Phase> {
        self.in_slow_start.map(|is_slow| if is_slow { Phase::SlowStart } else { Phase::Avoidance })
    }
}

/// Purpose of what an end of a connection draws, in the names of a run's streams.
pub fn purpose(opening: bool) -> &'static str {
    if opening { "open" } else { "accept" }
}

/// Seed of what a guest draws, in a repeat of an experiment: for a host, or for an end of a flow.
pub fn seed(seed: u64, repeat: u32, purpose: &str, name: &str) -> [u8; 32] {
    let mut drawn = [0; 32];
    path::stream(seed, repeat, purpose, name).fill_bytes(&mut drawn);
    drawn
}
