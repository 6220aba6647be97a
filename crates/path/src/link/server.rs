//! The transmitter of a link: how long a packet takes, without drift.

use crate::packet::Nanos;

/// Serves one packet after the other at an exact rate.
///
/// In a busy period that starts at `t`, the n-th packet departs at `ceil(t + bits * 10^9 / rate)`, with the bits of all
/// n packets: the fraction of a nanosecond by which a departure was rounded up is carried to the next packet, so that
/// the long-run rate is exact and never exceeded.
pub(super) struct Server {
    /// Bits per second; [`UNLIMITED`]: a packet takes no time.
    rate_bps: u64,
    /// Departure of the last packet, rounded up.
    free_at: Nanos,
    /// Amount by which that time was rounded up, in units of 1 / rate nanoseconds.
    slack: u64,
    /// Service times of the last two sizes seen, newest first: data and ACKs.
    sizes: [Service; 2],
}

/// Stands for no rate at all.
const UNLIMITED: u64 = u64::MAX;

/// The service time of one size: `ns` less `slack` / rate nanoseconds.
#[derive(Clone, Copy, Default)]
struct Service {
    len: u32,
    ns: Nanos,
    slack: u64,
}

impl Server {
    pub(super) fn new(rate_bps: Option<u64>) -> Self {
        assert!(rate_bps != Some(0), "a rate of zero");
        let rate_bps = rate_bps.unwrap_or(UNLIMITED);
        Server { rate_bps, free_at: 0, slack: 0, sizes: Default::default() }
    }

    /// Departure of the last packet: when the next can start.
    #[inline]
    pub(super) fn free_at(&self) -> Nanos {
        self.free_at
    }

    pub(super) fn rate_bps(&self) -> Option<u64> {
        (self.rate_bps != UNLIMITED).then_some(self.rate_bps)
    }

    /// Starts to transmit `len` bytes at `start`, not before `free_at`; returns their departure.
    #[inline(always)]
    pub(super) fn begin(&mut self, start: Nanos, len: u32) -> Nanos {
        debug_assert!(start >= self.free_at);
        if self.sizes[0].len != len {
            self.find_size(len);
        }
        let service = &self.sizes[0];
        let carried = if start == self.free_at { self.slack } else { 0 };
        let slack = carried + service.slack;
        let whole = slack >= self.rate_bps;
        self.slack = if whole { slack - self.rate_bps } else { slack };
        self.free_at = start + service.ns - u64::from(whole);
        self.free_at
    }

    /// [`Server::begin`] for a packet that finds the server idle and has the size of the last one. None, and nothing done, otherwise.
    #[inline(always)]
    pub(super) fn begin_idle(&mut self, start: Nanos, len: u32) -> Option<Nanos> {
        let service = &self.sizes[0];
        if self.free_at >= start || service.len != len {
            return None;
        }
        self.free_at = start + service.ns;
        self.slack = service.slack;
        Some(self.free_at)
    }

    /// Brings the service time of another size to the front.
    #[inline(never)]
    fn find_size(&mut self, len: u32) {
        self.sizes.swap(0, 1);
        if self.sizes[0].len != len {
            self.sizes[0] = Service::new(len, self.rate_bps);
        }
    }

    /// Makes the server busy until `until`, whatever its rate.
    pub(super) fn occupy(&mut self, until: Nanos) {
        self.free_at = until;
        self.slack = 0;
    }

    /// Changes the rate, for packets that have not started.
    pub(super) fn set_rate(&mut self, rate_bps: u64) {
        *self = Server { free_at: self.free_at, ..Server::new(Some(rate_bps)) };
    }
}

impl Service {
    fn new(len: u32, rate: u64) -> Self {
        if rate == UNLIMITED {
            return Service { len, ns: 0, slack: 0 };
        }
        // Overflows 64 bits for packets above 2 GB only.
        let work = u64::from(len) * 8_000_000_000;
        let ns = work.div_ceil(rate);
        Service { len, ns, slack: ns * rate - work }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departures_are_exact_and_rounded_up() {
        // 3 bit/s and 1 byte: 8/3 s each.
        let mut server = Server::new(Some(3));
        let mut depart = 0;
        let departures: Vec<_> = (0..4)
            .map(|_| {
                depart = server.begin(depart, 1);
                depart
            })
            .collect();
        assert_eq!(departures, [2_666_666_667, 5_333_333_334, 8_000_000_000, 10_666_666_667]);
        // A packet that comes just as the last departs continues its fraction, which the fast path does not know.
        assert_eq!(server.begin_idle(depart, 1), None);
        // A new busy period starts without the fraction.
        assert_eq!(server.begin(20_000_000_000, 1), 22_666_666_667);
    }
}
