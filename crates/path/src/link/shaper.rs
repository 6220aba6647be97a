//! Shapers beside the link's own rate: token buckets and recorded delivery opportunities.

use crate::packet::Nanos;

/// A token bucket, in exact integers: a byte takes 8 * 10^9 tokens, and `rate_bps` of them are added each nanosecond.
pub(super) struct TokenBucket {
    rate_bps: u64,
    /// Most tokens in the bucket.
    capacity: u128,
    tokens: u128,
    /// The time of which `tokens` is the number.
    at: Nanos,
}

/// A time that no run reaches, to which a delay can be added.
const NEVER: Nanos = Nanos::MAX / 2;

/// Tokens for a byte.
const BYTE: u128 = 8_000_000_000;

impl TokenBucket {
    /// A full bucket.
    pub(super) fn new(rate_bps: u64, burst_bytes: u32) -> Self {
        let capacity = u128::from(burst_bytes) * BYTE;
        TokenBucket { rate_bps, capacity, tokens: capacity, at: 0 }
    }

    /// Whether a packet of so many bytes can ever pass.
    pub(super) fn fits(&self, len: u32) -> bool {
        u128::from(len) * BYTE <= self.capacity
    }

    /// Time when there will be tokens for `len` bytes that [`TokenBucket::fits`], not before `now`.
    pub(super) fn ready(&self, now: Nanos, len: u32) -> Nanos {
        let missing = (u128::from(len) * BYTE).saturating_sub(self.tokens_at(now));
        let time = missing.div_ceil(u128::from(self.rate_bps));
        now.saturating_add(Nanos::try_from(time).unwrap_or(Nanos::MAX))
    }

    /// Takes the tokens of `len` bytes, if they are there.
    pub(super) fn take(&mut self, now: Nanos, len: u32) -> bool {
        let left = self.tokens_at(now).checked_sub(u128::from(len) * BYTE);
        if let Some(left) = left {
            self.tokens = left;
            self.at = now;
        }
        left.is_some()
    }

    fn tokens_at(&self, now: Nanos) -> u128 {
        let fresh = u128::from(now - self.at) * u128::from(self.rate_bps);
        (self.tokens + fresh).min(self.capacity)
    }
}

/// Delivery opportunities, as a mahimahi trace lists them. At each of them, up to `bytes` leave, of one packet or of several; the
/// rest of a packet that does not fit leaves at the next. What an opportunity does not use is lost. The trace repeats.
pub(super) struct Trace {
    /// Ascending, not above the period.
    times: Vec<Nanos>,
    period: Nanos,
    bytes: u32,
    /// The current opportunity, the time at which its lap began, and what is left of it.
    index: usize,
    lap: Nanos,
    left: u32,
}

impl Trace {
    pub(super) fn new(times: &[Nanos], period: Nanos, bytes: u32) -> Self {
        Trace { times: times.to_vec(), period, bytes, index: 0, lap: 0, left: bytes }
    }

    /// The first time at or after `from` at which bytes can leave.
    pub(super) fn ready(&mut self, from: Nanos) -> Nanos {
        let laps = from.saturating_sub(self.time()) / self.period;
        if laps > 0 {
            self.lap = self.lap.saturating_add(laps.saturating_mul(self.period));
            self.left = self.bytes;
        }
        while (self.left == 0 || self.time() < from) && self.time() < NEVER {
            self.next();
        }
        self.time().max(from)
    }

    /// Takes `len` bytes that start at the current opportunity, at `start`; returns when the last of them leaves.
    pub(super) fn take(&mut self, start: Nanos, mut len: u32) -> Nanos {
        while len > self.left && self.time() < NEVER {
            len -= self.left;
            self.next();
        }
        self.left = self.left.saturating_sub(len);
        self.time().max(start)
    }

    fn time(&self) -> Nanos {
        self.lap.saturating_add(self.times[self.index]).min(NEVER)
    }

    fn next(&mut self) {
        self.left = self.bytes;
        self.index += 1;
        if self.index == self.times.len() {
            self.index = 0;
            self.lap = self.lap.saturating_add(self.period);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_a_burst_pass_and_then_its_rate() {
        // 8 Mbit/s: a byte takes a microsecond.
        let mut bucket = TokenBucket::new(8_000_000, 3000);
        assert!(bucket.take(0, 1500) && bucket.take(0, 1500) && !bucket.take(0, 1));
        assert_eq!(bucket.ready(0, 1500), 1_500_000);
        assert!(!bucket.take(1_499_999, 1500) && bucket.take(1_500_000, 1500));
        // However long it is left alone, it holds no more than its burst.
        assert_eq!(bucket.ready(1 << 60, 3000), 1 << 60);
        assert!(bucket.fits(3000) && !bucket.fits(3001));
    }

    #[test]
    fn a_trace_delivers_at_its_opportunities() {
        let ms = 1_000_000;
        let mut trace = Trace::new(&[ms, ms, 4 * ms], 5 * ms, 1500);
        assert_eq!(trace.ready(0), ms);
        assert_eq!(trace.take(ms, 1000), ms);
        // The rest of the opportunity, then the next, both at 1 ms.
        assert_eq!(trace.take(ms, 1500), ms);
        assert_eq!(trace.take(ms, 1500), 4 * ms);
        // 500 bytes were left at 4 ms, but that has passed; then the trace starts again at 5 ms.
        assert_eq!(trace.ready(4 * ms + 1), 6 * ms);
        assert_eq!(trace.take(6 * ms, 4000), 9 * ms);
        // A packet that needs more laps than time has.
        let mut slow = Trace::new(&[ms], u64::MAX / 100, 1);
        assert_eq!(slow.take(0, 1500), NEVER);
        assert_eq!(slow.ready(NEVER), NEVER);
        // What comes later than time is counted passes at once.
        assert_eq!(slow.ready(NEVER + 1), NEVER + 1);
        assert_eq!(slow.take(NEVER + 1, 1500), NEVER + 1);
        // Many laps later.
        assert_eq!(trace.ready(5_000_002 * ms), 5_000_004 * ms);
    }
}
