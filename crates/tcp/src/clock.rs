//! The clock of one host: how true time appears to a system as ticks, timestamps and microseconds.

use units::linux_wheel;
pub use units::{MICROSECOND, MILLISECOND, Nanos, SECOND};

/// The earlier of two times, None being never.
#[inline]
pub(crate) fn earliest(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Maps true time to a host's local clock: `local = phase + now + now * skew`. Everything is integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostClock {
    hz: u32,
    tick: Nanos,
    /// 2^64 / tick, rounded up: division by the tick is a multiplication on the hot path.
    reciprocal: u64,
    /// Milliseconds in a tick where that is a whole number, else 0.
    tick_ms: u64,
    phase: Nanos,
    skew_ppb: i32,
}

impl HostClock {
    /// A clock with `hz` ticks a second whose local time is `phase` at true time 0 and that gains `skew_ppb`
    /// parts per billion.
    ///
    /// # Panics
    /// If `hz` is 0 or does not divide a second into whole nanoseconds (the catalogue refuses such values).
    pub fn new(hz: u32, phase: Nanos, skew_ppb: i32) -> HostClock {
        assert!(hz > 0 && SECOND.is_multiple_of(u64::from(hz)), "hz must divide 10^9");
        let tick = SECOND / u64::from(hz);
        assert!(tick > 1, "a tick is longer than a nanosecond");
        let tick_ms = if tick.is_multiple_of(MILLISECOND) { tick / MILLISECOND } else { 0 };
        HostClock { hz, tick, reciprocal: u64::MAX / tick + 1, tick_ms, phase, skew_ppb }
    }

    /// Ticks per second.
    #[inline]
    pub fn hz(&self) -> u32 {
        self.hz
    }

    /// Length of a tick in local nanoseconds.
    #[inline]
    pub fn tick_ns(&self) -> Nanos {
        self.tick
    }

    /// Local time in nanoseconds.
    #[inline]
    pub fn local(&self, now: Nanos) -> Nanos {
        if self.skew_ppb == 0 {
            return self.phase + now;
        }
        let drift = i128::from(now) * i128::from(self.skew_ppb) / 1_000_000_000;
        (i128::from(self.phase) + i128::from(now) + drift) as Nanos
    }

    /// Whole ticks since local time 0 (FreeBSD's `ticks`, Linux's `jiffies`).
    #[inline]
    pub fn ticks(&self, now: Nanos) -> u64 {
        let local = self.local(now);
        // The reciprocal is at most 1 too large, so that the quotient is exact or one too high.
        let quotient = ((u128::from(local) * u128::from(self.reciprocal)) >> 64) as u64;
        quotient - u64::from(quotient * self.tick > local)
    }

    /// The first true time at which [`HostClock::ticks`] is at least `ticks`.
    #[inline]
    pub fn time_of_tick(&self, ticks: u64) -> Nanos {
        self.time_of_local(ticks * self.tick)
    }

    /// The first true time at which [`HostClock::local`] is at least `local`.
    #[inline]
    pub(crate) fn time_of_local(&self, local: Nanos) -> Nanos {
        let now = local.saturating_sub(self.phase);
        if self.skew_ppb == 0 { now } else { self.time_by_skew(now, local) }
    }

    #[cold]
    #[inline(never)]
    fn time_by_skew(&self, without: Nanos, local: Nanos) -> Nanos {
        let scaled = i128::from(without) * 1_000_000_000 / (1_000_000_000 + i128::from(self.skew_ppb));
        let mut now = (scaled - 2).max(0) as Nanos;
        while self.local(now) < local {
            now += 1;
        }
        now
    }

    /// Time when Linux runs a timer that is set now; it is to wait a whole number of ticks.
    pub(crate) fn linux_timer(&self, now: Nanos, wait: Nanos) -> Nanos {
        self.time_of_tick(linux_wheel(self.ticks(now), wait / self.tick))
    }

    /// The millisecond clock of TCP timestamps, read from the tick counter as the modelled systems do.
    #[inline]
    pub fn timestamp_ms(&self, now: Nanos) -> u32 {
        self.timestamp_of_tick(self.ticks(now))
    }

    /// [`HostClock::timestamp_ms`] during a tick.
    #[inline]
    pub(crate) fn timestamp_of_tick(&self, ticks: u64) -> u32 {
        if self.tick_ms > 0 {
            (ticks * self.tick_ms) as u32
        } else {
            (ticks * self.tick / MILLISECOND) as u32
        }
    }

    /// Local microseconds, untouched by ticks.
    #[inline]
    pub fn micros(&self, now: Nanos) -> u64 {
        self.local(now) / MICROSECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_begins_exactly_where_time_of_tick_says() {
        for skew in [0, 37_000, -37_000] {
            let clock = HostClock::new(1000, 370_000, skew);
            for tick in [1, 2, 17, 90_000] {
                let at = clock.time_of_tick(tick);
                assert_eq!(clock.ticks(at), tick);
                assert_eq!(clock.ticks(at - 1), tick - 1, "tick {tick} skew {skew}");
            }
        }
    }

    #[test]
    fn ticks_are_the_exact_quotient() {
        for hz in [1, 100, 128, 250, 1000, 10_000] {
            let clock = HostClock::new(hz, 0, 0);
            let tick = SECOND / u64::from(hz);
            for n in [0, 1, 2, 99, 12_345, u64::MAX / 2 / tick] {
                for now in [n * tick, n * tick + 1, n * tick + tick - 1] {
                    assert_eq!(clock.ticks(now), now / tick, "hz {hz} now {now}");
                }
            }
        }
    }

    #[test]
    fn timestamps_follow_the_tick_at_100_hz() {
        let clock = HostClock::new(100, 0, 0);
        assert_eq!(clock.timestamp_ms(9 * MILLISECOND), 0);
        assert_eq!(clock.timestamp_ms(19 * MILLISECOND), 10);
    }
}
